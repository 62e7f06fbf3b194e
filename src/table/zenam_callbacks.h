/*
 * zenam_callbacks.h -- the callbacks of TableAmRoutine, declared for zenam_handler.c.
 *
 * PostgreSQL's access/tableam.h describes arguments and results.
 */
#ifndef ZENAM_CALLBACKS_H
#define ZENAM_CALLBACKS_H

#include "base/compat.h"

#include "access/genam.h"
#include "access/tableam.h"
#include "commands/vacuum.h"
#include "nodes/execnodes.h"

struct TBMIterateResult;
struct SampleScanState;

/* zenam_scan.c */
extern TableScanDesc zenam_scan_begin(Relation rel, Snapshot snapshot, int nkeys, struct ScanKeyData *key,
									  ParallelTableScanDesc pscan, uint32 flags);
extern void zenam_scan_end(TableScanDesc scan);
extern void zenam_scan_rescan(TableScanDesc scan, struct ScanKeyData *key, bool set_params, bool allow_strat,
							  bool allow_sync, bool allow_pagemode);
extern bool zenam_scan_getnextslot(TableScanDesc scan, ScanDirection direction, TupleTableSlot *slot);
extern void zenam_scan_set_tidrange(TableScanDesc scan, ItemPointer mintid, ItemPointer maxtid);
extern bool zenam_scan_getnextslot_tidrange(TableScanDesc scan, ScanDirection direction, TupleTableSlot *slot);
extern bool zenam_tuple_tid_valid(TableScanDesc scan, ItemPointer tid);
extern void zenam_tuple_get_latest_tid(TableScanDesc scan, ItemPointer tid);
#if ZEN_AM_DRIVES_BITMAP_SCAN
extern bool zenam_scan_bitmap_next_tuple(TableScanDesc scan, TupleTableSlot *slot, bool *recheck,
										 uint64 *lossy_pages, uint64 *exact_pages);
#else
extern bool zenam_scan_bitmap_next_block(TableScanDesc scan, struct TBMIterateResult *tbmres);
extern bool zenam_scan_bitmap_next_tuple(TableScanDesc scan, struct TBMIterateResult *tbmres, TupleTableSlot *slot);
#endif
extern bool zenam_scan_sample_next_block(TableScanDesc scan, struct SampleScanState *scanstate);
extern bool zenam_scan_sample_next_tuple(TableScanDesc scan, struct SampleScanState *scanstate, TupleTableSlot *slot);

/* zenam_fetch.c */
extern IndexFetchTableData *zenam_index_fetch_begin(Relation rel);
extern void zenam_index_fetch_reset(IndexFetchTableData *data);
extern void zenam_index_fetch_end(IndexFetchTableData *data);
extern bool zenam_index_fetch_tuple(IndexFetchTableData *data, ItemPointer tid, Snapshot snapshot,
									TupleTableSlot *slot, bool *call_again, bool *all_dead);
extern bool zenam_tuple_fetch_row_version(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot);
extern bool zenam_tuple_satisfies_snapshot(Relation rel, TupleTableSlot *slot, Snapshot snapshot);
extern TransactionId zenam_index_delete_tuples(Relation rel, TM_IndexDeleteOp *delstate);

/* zenam_dml.c */
extern void zenam_tuple_insert(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
							   struct BulkInsertStateData *bistate);
extern void zenam_tuple_insert_speculative(Relation rel, TupleTableSlot *slot, CommandId cid, int options,
										   struct BulkInsertStateData *bistate, uint32 specToken);
extern void zenam_tuple_complete_speculative(Relation rel, TupleTableSlot *slot, uint32 specToken, bool succeeded);
extern void zenam_multi_insert(Relation rel, TupleTableSlot **slots, int nslots, CommandId cid, int options,
							   struct BulkInsertStateData *bistate);
extern TM_Result zenam_tuple_delete(Relation rel, ItemPointer tid, CommandId cid, Snapshot snapshot,
									Snapshot crosscheck, bool wait, TM_FailureData *tmfd, bool changingPart);
extern TM_Result zenam_tuple_update(Relation rel, ItemPointer otid, TupleTableSlot *slot, CommandId cid,
									Snapshot snapshot, Snapshot crosscheck, bool wait, TM_FailureData *tmfd,
									LockTupleMode *lockmode, TU_UpdateIndexes *update_indexes);
extern TM_Result zenam_tuple_lock(Relation rel, ItemPointer tid, Snapshot snapshot, TupleTableSlot *slot,
								  CommandId cid, LockTupleMode mode, LockWaitPolicy wait_policy, uint8 flags,
								  TM_FailureData *tmfd);

/* zenam_ddl.c */
extern void zenam_relation_set_new_filelocator(Relation rel, const RelFileLocator *newrlocator, char persistence,
											   TransactionId *freezeXid, MultiXactId *minmulti);
extern void zenam_relation_nontransactional_truncate(Relation rel);
extern void zenam_relation_copy_data(Relation rel, const RelFileLocator *newrlocator);
extern void zenam_relation_copy_for_cluster(Relation old_table, Relation new_table, Relation old_index, bool use_sort,
											TransactionId oldest_xmin, TransactionId *xid_cutoff,
											MultiXactId *multi_cutoff, double *num_tuples, double *tups_vacuumed,
											double *tups_recently_dead);
extern uint64 zenam_relation_size(Relation rel, ForkNumber fork);
extern void zenam_relation_estimate_size(Relation rel, int32 *attr_widths, BlockNumber *pages, double *tuples,
										 double *allvisfrac);

/* zenam_maint.c */
extern void zenam_relation_vacuum(Relation rel, struct VacuumParams *params, BufferAccessStrategy bstrategy);
extern bool zenam_scan_analyze_next_block(TableScanDesc scan, ZEN_ANALYZE_SAMPLE);
extern bool zenam_scan_analyze_next_tuple(TableScanDesc scan, TransactionId oldest_xmin, double *liverows,
										  double *deadrows, TupleTableSlot *slot);
extern double zenam_index_build_range_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
										   bool allow_sync, bool anyvisible, bool progress,
										   BlockNumber start_blockno, BlockNumber numblocks,
										   IndexBuildCallback callback, void *callback_state, TableScanDesc scan);
extern void zenam_index_validate_scan(Relation table_rel, Relation index_rel, struct IndexInfo *index_info,
									  Snapshot snapshot, struct ValidateIndexState *state);

/* zenam_toast.c */
extern bool zenam_relation_needs_toast_table(Relation rel);
extern Oid	zenam_relation_toast_am(Relation rel);
extern void zenam_relation_fetch_toast_slice(Relation toastrel, Oid valueid, int32 attrsize, int32 sliceoffset,
											 int32 slicelength, struct varlena *result);

#endif							/* ZENAM_CALLBACKS_H */
