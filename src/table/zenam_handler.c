/*
 * zenam_handler.c -- the table access method's routine: wiring only.
 */
#include "table/zenam_callbacks.h"

#include "fmgr.h"
#include "table/zenam_slot.h"

static const TableAmRoutine zen_routine = {
	.type = T_TableAmRoutine,

	.slot_callbacks = zenam_slot_callbacks,

	.scan_begin = zenam_scan_begin,
	.scan_end = zenam_scan_end,
	.scan_rescan = zenam_scan_rescan,
	.scan_getnextslot = zenam_scan_getnextslot,
	.scan_set_tidrange = zenam_scan_set_tidrange,
	.scan_getnextslot_tidrange = zenam_scan_getnextslot_tidrange,

	.parallelscan_estimate = table_block_parallelscan_estimate,
	.parallelscan_initialize = table_block_parallelscan_initialize,
	.parallelscan_reinitialize = table_block_parallelscan_reinitialize,

	.index_fetch_begin = zenam_index_fetch_begin,
	.index_fetch_reset = zenam_index_fetch_reset,
	.index_fetch_end = zenam_index_fetch_end,
	.index_fetch_tuple = zenam_index_fetch_tuple,

	.tuple_fetch_row_version = zenam_tuple_fetch_row_version,
	.tuple_tid_valid = zenam_tuple_tid_valid,
	.tuple_get_latest_tid = zenam_tuple_get_latest_tid,
	.tuple_satisfies_snapshot = zenam_tuple_satisfies_snapshot,
	.index_delete_tuples = zenam_index_delete_tuples,

	.tuple_insert = zenam_tuple_insert,
	.tuple_insert_speculative = zenam_tuple_insert_speculative,
	.tuple_complete_speculative = zenam_tuple_complete_speculative,
	.multi_insert = zenam_multi_insert,
	.tuple_delete = zenam_tuple_delete,
	.tuple_update = zenam_tuple_update,
	.tuple_lock = zenam_tuple_lock,

	.ZEN_AM_SET_NEW_FILELOCATOR = zenam_relation_set_new_filelocator,
	.relation_nontransactional_truncate = zenam_relation_nontransactional_truncate,
	.relation_copy_data = zenam_relation_copy_data,
	.relation_copy_for_cluster = zenam_relation_copy_for_cluster,
	.relation_vacuum = zenam_relation_vacuum,
	.scan_analyze_next_block = zenam_scan_analyze_next_block,
	.scan_analyze_next_tuple = zenam_scan_analyze_next_tuple,
	.index_build_range_scan = zenam_index_build_range_scan,
	.index_validate_scan = zenam_index_validate_scan,

	.relation_size = zenam_relation_size,
	.relation_needs_toast_table = zenam_relation_needs_toast_table,
	.relation_toast_am = zenam_relation_toast_am,
	.relation_fetch_toast_slice = zenam_relation_fetch_toast_slice,
	.relation_estimate_size = zenam_relation_estimate_size,

#if !ZEN_AM_DRIVES_BITMAP_SCAN
	.scan_bitmap_next_block = zenam_scan_bitmap_next_block,
#endif
	.scan_bitmap_next_tuple = zenam_scan_bitmap_next_tuple,
	.scan_sample_next_block = zenam_scan_sample_next_block,
	.scan_sample_next_tuple = zenam_scan_sample_next_tuple
};

PG_FUNCTION_INFO_V1(zen_tableam_handler);

Datum
zen_tableam_handler(PG_FUNCTION_ARGS)
{
	PG_RETURN_POINTER(&zen_routine);
}
