/*
 * fault.h -- faults for tests: each breaks one rule of persistence, to show that the tests notice.
 *
 * A build with -DZEN_FAULTS (make ZEN_FAULTS=1) has the setting zen.fault, which names the fault in force.  Any other
 * build has no such setting, and ZEN_FAULT() is a constant: the faults cost nothing and cannot be asked for.
 *
 * Which rule each fault breaks, and how, is in src/RULES, "Faults".
 */
#ifndef ZEN_FAULT_H
#define ZEN_FAULT_H

#include <signal.h>

#include "base/compat.h"

#ifdef ZEN_FAULTS

/* Name in the code, and as a value of zen.fault. */
#define ZEN_FAULT_LIST(X) \
	X(NONE, "none") \
	X(R2_NO_BODY_FLUSH, "r2_no_body_flush") \
	X(R2_NO_FIRST_FENCE, "r2_no_first_fence") \
	X(R2_LP_FIRST, "r2_lp_first") \
	X(R2_NO_LP_FLUSH, "r2_no_lp_flush") \
	X(R2_NO_LAST_FENCE, "r2_no_last_fence") \
	X(R2_SYNC_FIRST_PAGE, "r2_sync_first_page") \
	X(R2_SPILL_NO_FENCE, "r2_spill_no_fence") \
	X(R2_LOAD_NO_FENCE, "r2_load_no_fence") \
	X(R2_NEIGHBOURS_UNFLUSHED, "r2_neighbours_unflushed") \
	X(R3_TRUST_LP_ONLY, "r3_trust_lp_only") \
	X(R3_DECIDE_EARLY, "r3_decide_early") \
	X(R3_DELETED_FIRST, "r3_deleted_first") \
	X(R3_IGNORE_WATERMARK, "r3_ignore_watermark") \
	X(R3_IGNORE_DESCRIPTOR, "r3_ignore_descriptor") \
	X(R4_REUSE_ANCHOR, "r4_reuse_anchor") \
	X(R4_MOVE_ANCHOR_EARLY, "r4_move_anchor_early") \
	X(R5_IGNORE_TOMBSTONES, "r5_ignore_tombstones") \
	X(R5_FREE_TOMBSTONE_EARLY, "r5_free_tombstone_early") \
	X(R5_NO_COUNT_UP, "r5_no_count_up") \
	X(R5_COUNT_DOWN_EARLY, "r5_count_down_early") \
	X(R5_NO_RECOUNT, "r5_no_recount") \
	X(R6_WORD1_FIRST, "r6_word1_first") \
	X(R6_BODY_FIRST, "r6_body_first") \
	X(R6_HEADER_COPIED, "r6_header_copied") \
	X(R6_NEAR_CTS, "r6_near_cts") \
	X(R7_NO_SCRUB, "r7_no_scrub") \
	X(R7_NO_SCRUB_FENCE, "r7_no_scrub_fence") \
	X(R7_LOSERS_STAY, "r7_losers_stay") \
	X(R7_BODY_STAYS, "r7_body_stays") \
	X(R7_SPILLED_STAY, "r7_spilled_stay") \
	X(R8_NO_ZERO, "r8_no_zero") \
	X(R8_FREE_BEFORE_ZERO, "r8_free_before_zero") \
	X(R8_ZEROING_FORGOTTEN, "r8_zeroing_forgotten") \
	X(R8_DIRECTORY_NOT_DURABLE, "r8_directory_not_durable") \
	X(R9_LP_AFTER_VISIBLE, "r9_lp_after_visible") \
	X(R9_NO_DESCRIPTOR, "r9_no_descriptor") \
	X(R9_NO_FORCED_FLUSH, "r9_no_forced_flush") \
	X(R9_NO_XID_FLUSH, "r9_no_xid_flush") \
	X(R10_NO_FLUSH_OF_BELIEVED, "r10_no_flush_of_believed") \
	X(R10_DESCRIPTOR_FIRST, "r10_descriptor_first") \
	X(R10_WATERMARK_TOO_HIGH, "r10_watermark_too_high") \
	X(R13_NO_WATERMARK_BEFORE_FREE, "r13_no_watermark_before_free") \
	X(R13_NO_WATERMARK_AT_RECOVERY, "r13_no_watermark_at_recovery") \
	X(R14_NO_MARK, "r14_no_mark") \
	X(R14_IGNORE_MARK, "r14_ignore_mark") \
	X(R15_SAME_CTS_TWICE, "r15_same_cts_twice") \
	X(R16_SIZE_FIRST, "r16_size_first") \
	X(R16_NO_SUPERBLOCK, "r16_no_superblock") \
	X(R17_NO_TAIL, "r17_no_tail") \
	X(R17_FREE_EARLY, "r17_free_early") \
	X(R17_FORGET_TAIL, "r17_forget_tail") \
	X(R17_NO_LOST_XID, "r17_no_lost_xid") \
	X(R17_AGAIN_TWICE, "r17_again_twice") \
	X(R17_SLOWLY, "r17_slowly") \
	X(R17_WORKER_LATE, "r17_worker_late") \
	X(R17_STOP_NOTED, "r17_stop_noted") \
	X(R17_STOP_LOGGED, "r17_stop_logged") \
	X(R17_STOP_SCRUBBED, "r17_stop_scrubbed") \
	X(R17_GAP_UNFLUSHED, "r17_gap_unflushed") \
	X(R17_OFF_LATE, "r17_off_late") \
	X(R17_STOP_OFF, "r17_stop_off") \
	X(R17_STOP_GIVEN_UP, "r17_stop_given_up") \
	X(R17_STOP_GAP, "r17_stop_gap") \
	X(R17_STOP_ON, "r17_stop_on") \
	X(R18_NO_SCRUBS, "r18_no_scrubs") \
	X(R18_SCRUBS_UNFLUSHED, "r18_scrubs_unflushed") \
	X(R18_NO_DIRECTORIES, "r18_no_directories") \
	X(R18_NO_IMAGE, "r18_no_image") \
	X(R18_NO_ZEROES, "r18_no_zeroes") \
	X(R18_NOT_SETTLED, "r18_not_settled") \
	X(R18_REDO_ON_PRIMARY, "r18_redo_on_primary") \
	X(R18_DECIDED_EARLY, "r18_decided_early") \
	X(R18_REDO_UNFLUSHED, "r18_redo_unflushed") \
	X(R18_TAIL_STAYS, "r18_tail_stays") \
	X(R18_TAIL_LATE, "r18_tail_late") \
	X(R18_TAIL_IN_PARTS, "r18_tail_in_parts") \
	X(R18_FREE_FIRST, "r18_free_first") \
	X(R18_FORGOTTEN_EARLY, "r18_forgotten_early") \
	X(R18_PAGES_LATE, "r18_pages_late") \
	X(R18_STOP_CONDEMNED, "r18_stop_condemned") \
	X(R18_STOP_MOVED, "r18_stop_moved") \
	X(R18_DESCRIPTOR_FIRST, "r18_descriptor_first") \
	X(R18_STOP_SETTLED, "r18_stop_settled") \
	X(R18_STORED_ON_FREE, "r18_stored_on_free") \
	X(R18_NOT_EMPTIED, "r18_not_emptied") \
	X(R18_STOP_RECOVERED, "r18_stop_recovered") \
	X(R18_DESCRIPTOR_GOES, "r18_descriptor_goes") \
	X(R18_COMMITTED_UNSAID, "r18_committed_unsaid") \
	X(R18_UNCOVERED, "r18_uncovered") \
	X(R18_PAUSE_VANISHING, "r18_pause_vanishing") \
	X(R19_NOT_BEFORE_CUT, "r19_not_before_cut") \
	X(R19_FORGOTTEN_UNDONE, "r19_forgotten_undone") \
	X(R19_UNDONE_STAYS, "r19_undone_stays") \
	X(R19_RECOVERY_FAILS, "r19_recovery_fails") \
	X(R19_PAUSE_DECIDED, "r19_pause_decided") \
	X(R19_PAUSE_COMMITTED, "r19_pause_committed") \
	X(R20_STATE_FIRST, "r20_state_first") \
	X(R21_NOT_DURABLE, "r21_not_durable") \
	X(R21_FORGOTTEN, "r21_forgotten") \
	X(R21_SAVED_EARLY, "r21_saved_early") \
	X(R21_NO_WATERMARK, "r21_no_watermark") \
	X(R21_UNTOUCHED_EARLY, "r21_untouched_early") \
	X(R21_STOP_SAVED, "r21_stop_saved") \
	X(R21_OLD_MAP, "r21_old_map") \
	X(R22_FREED_EARLY, "r22_freed_early") \
	X(R22_NOT_FOUND, "r22_not_found") \
	X(R22_NOT_SAVED, "r22_not_saved") \
	X(R22_ANY_BASE, "r22_any_base") \
	X(W1_NO_SYNC, "w1_no_sync") \
	X(W1_NO_HOLD, "w1_no_hold") \
	X(W1_LET_GO_BLINDLY, "w1_let_go_blindly") \
	X(W2_DOUBT_UNSEEN, "w2_doubt_unseen") \
	X(W3_LINES_STAY, "w3_lines_stay") \
	X(W3_LINES_UNFLUSHED, "w3_lines_unflushed") \
	X(W4_NO_LAG, "w4_no_lag") \
	X(W4_FORGOTTEN_EARLY, "w4_forgotten_early") \
	X(W5_FREE_UNFLUSHED, "w5_free_unflushed") \
	X(W5_TAKEN_UNPREPARED, "w5_taken_unprepared") \
	X(W6_ROLE_LATE, "w6_role_late") \
	X(W7_REDO_UNSYNCED, "w7_redo_unsynced") \
	X(S1_SEEN_EARLY, "s1_seen_early") \
	X(S2_NO_WAIT, "s2_no_wait") \
	X(S2_NOT_UNLINKED, "s2_not_unlinked") \
	X(S6_UNSETTLED, "s6_unsettled") \
	X(S6_FORGOTTEN, "s6_forgotten") \
	X(S8_CUT_EARLY, "s8_cut_early") \
	X(S8_CUT_HELD, "s8_cut_held") \
	X(S10_UNTOLD, "s10_untold") \
	X(S10_HEARD_EARLY, "s10_heard_early") \
	X(S11_NO_PINS, "s11_no_pins") \
	X(S13_UNDOUBTED, "s13_undoubted") \
	X(S14_OLD_SNAPSHOTS, "s14_old_snapshots") \
	X(S15_READERS_STAY, "s15_readers_stay") \
	X(S17_ENDED_ON_TOP, "s17_ended_on_top") \
	X(S18_LOSERS_TOLD, "s18_losers_told") \
	X(S18_ABORTED_FORGOTTEN, "s18_aborted_forgotten") \
	X(S18_TOMBSTONES_FORGOTTEN, "s18_tombstones_forgotten") \
	X(S18_UNPROVEN, "s18_unproven") \
	X(S19_UNHEARD, "s19_unheard") \
	X(S19_UNCLEANED, "s19_uncleaned") \
	X(POOL_PAUSE_CONDEMNED, "pool_pause_condemned") \
	X(RESTAMP_SLOWLY, "restamp_slowly") \
	X(COPY_STORED_SLOWLY, "copy_stored_slowly") \
	X(COPY_SEEN_TORN, "copy_seen_torn") \
	X(SEEN_KEPT, "seen_kept") \
	X(STORED_BLIND, "stored_blind") \
	X(SHARED_BLOCKS, "shared_blocks") \
	X(RESTAMP_UNTOLD, "restamp_untold") \
	X(TREE_NO_VERSION, "tree_no_version") \
	X(TREE_SPLIT_SEEN, "tree_split_seen") \
	X(TREE_NO_GATE, "tree_no_gate") \
	X(TREE_STALE_FENCE, "tree_stale_fence") \
	X(TREE_MERGE_UNSEEN, "tree_merge_unseen") \
	X(TREE_FENCE_UNASKED, "tree_fence_unasked") \
	X(TREE_READ_ONLY, "tree_read_only") \
	X(TREE_READER_WRITES, "tree_reader_writes")

typedef enum ZenFaultSwitch
{
#define X(name, setting) ZEN_FAULT_##name,
	ZEN_FAULT_LIST(X)
#undef X
} ZenFaultSwitch;

/* Written by PostgreSQL's GUC machinery only. */
extern int	zen_fault;

#define ZEN_FAULT(name)		unlikely(zen_fault == ZEN_FAULT_##name)

/* Is any fault in force?  Then a check that would stop the server is left to the tests. */
#define ZEN_FAULT_IS_SET()	(zen_fault != ZEN_FAULT_NONE)

#else

#define ZEN_FAULT_IS_SET()	false

#define ZEN_FAULT(name)		false

#endif							/* ZEN_FAULTS */

/* The server dies here. */
static inline void
zen_fault_stop(bool fault)
{
	if (fault)
		ereport(PANIC,
				(errmsg_internal("zen.fault: the server stops here")));
}

/* The process sleeps here until it is sent SIGCONT. */
static inline void
zen_fault_pause(bool fault)
{
	if (fault)
		raise(SIGSTOP);
}

#endif							/* ZEN_FAULT_H */
