/*
 * compat.h -- every difference between PostgreSQL versions, and nothing else.
 *
 * The rest of zen is written against the newest server's names.  This is the only file that may
 * test PG_VERSION_NUM (tools/check-includes proves it).
 *
 * 16 is in all but one place as 15 or as 17: it has the file numbers, permissions, lists of locks and counts of updated
 * index entries of 17, and the process numbers, wait events, samples of ANALYZE and asynchronous commits' wake-ups that
 * 17 changed.  Its own are the nodes of JSON expressions (zen_is_json_node).
 */
#ifndef ZEN_COMPAT_H
#define ZEN_COMPAT_H

#include "postgres.h"

#include "nodes/tidbitmap.h"

#if PG_VERSION_NUM < 150000
#error "zen needs PostgreSQL 15 or newer"
#endif

/* The library's symbols are hidden (Makefile), but those that the server looks up.  15 marks none. */
#if PG_VERSION_NUM < 160000
#include "fmgr.h"
#undef PGDLLEXPORT
#define PGDLLEXPORT __attribute__((visibility("default")))
#undef PG_FUNCTION_INFO_V1
#define PG_FUNCTION_INFO_V1(name) \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS); \
	extern PGDLLEXPORT const Pg_finfo_record *pg_finfo_##name(void); \
	const Pg_finfo_record *pg_finfo_##name(void) { \
		static const Pg_finfo_record info = {1}; \
		return &info; \
	} \
	extern PGDLLEXPORT Datum name(PG_FUNCTION_ARGS)
#endif

/* 16 renamed relfilenodes to relfilenumbers and RelFileNode to RelFileLocator. */
#if PG_VERSION_NUM < 160000
#include "storage/relfilenode.h"
#include "utils/relfilenodemap.h"
typedef RelFileNode RelFileLocator;
typedef Oid RelFileNumber;

#include "utils/queryjumble.h"

#define ZEN_LOCATOR_SPC(loc)		((loc).spcNode)
#define ZEN_LOCATOR_DB(loc)			((loc).dbNode)
#define ZEN_LOCATOR_NUMBER(loc)		((loc).relNode)
#define zen_rel_locator(rel)		((rel)->rd_node)
#define ZEN_SEQ_REC(loc)			{.node = (loc)}
#define InvalidRelFileNumber		InvalidOid
#define ZEN_HAS_NEWPAGE_UPDATE_COUNT 0
#define ZEN_NEW_LOCATOR_SUBID(rel)	((rel)->rd_newRelfilenodeSubid)
#define ZEN_CHANGE_LOCATOR(change)	((change)->data.tp.relnode)
#define ZEN_AM_SET_NEW_FILELOCATOR	relation_set_new_filenode
#define RelationSetNewRelfilenumber(rel, persistence) RelationSetNewRelfilenode(rel, persistence)
#define RelidByRelfilenumber(spc, num)	RelidByRelfilenode(spc, num)
#define RelationMapOidToFilenumberForDatabase(path, oid) RelationMapOidToFilenodeForDatabase(path, oid)
#define PGIOAlignedBlock			PGAlignedBlock
#define zen_tuplesort_getdatum(state, value, isnull) tuplesort_getdatum(state, true, value, isnull, NULL)
#define zen_set_vacuum_table(info, rel) ((void) 0)

/* The locks of a process in one partition of the main lock table. */
#define zen_foreach_proclock(l, proc, partition) \
	for ((l) = (PROCLOCK *) SHMQueueNext(&(proc)->myProcLocks[partition], &(proc)->myProcLocks[partition], \
										 offsetof(PROCLOCK, procLink)); \
		 (l) != NULL; \
		 (l) = (PROCLOCK *) SHMQueueNext(&(proc)->myProcLocks[partition], &(l)->procLink, \
										 offsetof(PROCLOCK, procLink)))
#define zen_has_no_proclocks(proc, partition) \
	((proc)->myProcLocks[partition].next == &(proc)->myProcLocks[partition])
#define zen_proclock_list(proc, partition) ((volatile SHM_QUEUE *) &(proc)->myProcLocks[partition])
typedef bool TU_UpdateIndexes;
#define TU_None						false
#define TU_All						true
#define zen_indexed_attrs(rel)		RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_ALL)
#define zen_has_indexed_attrs(rel)	((rel)->rd_indexattr != NULL)
#define zen_all_indexed_attrs(rel, holds, desc, old, new) holds(desc, (rel)->rd_indexattr, old, new)
#else
#include "nodes/queryjumble.h"
#include "storage/relfilelocator.h"
#include "utils/relfilenumbermap.h"

#define zen_foreach_proclock(l, proc, partition) \
	for (dlist_node *l##_end = &(proc)->myProcLocks[partition].head, \
		 *l##_next = l##_end->next ? l##_end->next : l##_end; \
		 l##_next != l##_end && ((l) = dlist_container(PROCLOCK, procLink, l##_next), true); \
		 l##_next = l##_next->next)

#define zen_has_no_proclocks(proc, partition) dlist_is_empty(&(proc)->myProcLocks[partition])
#define zen_proclock_list(proc, partition) ((volatile dlist_node *) &(proc)->myProcLocks[partition].head)
#define zen_tuplesort_getdatum(state, value, isnull) tuplesort_getdatum(state, true, true, value, isnull, NULL)
#define zen_set_vacuum_table(info, rel) ((info)->heaprel = (rel))
#define zen_indexed_attrs(rel) \
	bms_join(RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_HOT_BLOCKING), \
			 RelationGetIndexAttrBitmap(rel, INDEX_ATTR_BITMAP_SUMMARIZED))
#define zen_has_indexed_attrs(rel)	((rel)->rd_attrsvalid)
#define zen_all_indexed_attrs(rel, holds, desc, old, new) \
	(holds(desc, (rel)->rd_hotblockingattr, old, new) && holds(desc, (rel)->rd_summarizedattr, old, new))

#define ZEN_LOCATOR_SPC(loc)		((loc).spcOid)
#define ZEN_LOCATOR_DB(loc)			((loc).dbOid)
#define ZEN_LOCATOR_NUMBER(loc)		((loc).relNumber)
#define zen_rel_locator(rel)		((rel)->rd_locator)
#define ZEN_SEQ_REC(loc)			{.locator = (loc)}
#define ZEN_HAS_NEWPAGE_UPDATE_COUNT 1
#define ZEN_NEW_LOCATOR_SUBID(rel)	((rel)->rd_newRelfilelocatorSubid)
#define ZEN_CHANGE_LOCATOR(change)	((change)->data.tp.rlocator)
#define ZEN_AM_SET_NEW_FILELOCATOR	relation_set_new_filelocator
#endif

/* Permissions of a plan's tables; 16 parted them from the range table. */
static inline bool
zen_query_asks_for_more(const Query *query, AclMode than)
{
	ListCell   *lc;

#if PG_VERSION_NUM < 160000
	foreach(lc, query->rtable)
		if ((lfirst_node(RangeTblEntry, lc)->requiredPerms & ~than) != 0)
		return true;
#else
	foreach(lc, query->rteperminfos)
		if ((lfirst_node(RTEPermissionInfo, lc)->requiredPerms & ~than) != 0)
		return true;
#endif
	return false;
}

#if PG_VERSION_NUM < 160000
#define zen_check_permissions(stmt)	ExecCheckRTPerms((stmt)->rtable, true)
#define zen_clear_processed(estate)	((estate)->es_processed = 0)
#define zen_add_processed(estate)	((void) 0)
#define zen_get_guc_variables(n)	(*(n) = GetNumConfigOptions(), get_guc_variables())
#define zen_function_aclcheck(function, user, mode) pg_proc_aclcheck(function, user, mode)
#define zen_is_owner(relid)			pg_class_ownercheck(relid, GetUserId())
#define zen_insert_index_tuples(target, slot, estate, update, which) \
	ExecInsertIndexTuples(target, slot, estate, update, false, NULL, NIL)
#else
#define zen_check_permissions(stmt)	ExecCheckPermissions((stmt)->rtable, (stmt)->permInfos, true)
#define zen_clear_processed(estate)	((estate)->es_processed = (estate)->es_total_processed = 0)
#define zen_add_processed(estate)	((estate)->es_total_processed += (estate)->es_processed)
#define zen_get_guc_variables(n)	get_guc_variables(n)
#define zen_function_aclcheck(function, user, mode) object_aclcheck(ProcedureRelationId, function, user, mode)
#define zen_is_owner(relid)			object_ownercheck(RelationRelationId, relid, GetUserId())
#define zen_insert_index_tuples(target, slot, estate, update, which) \
	ExecInsertIndexTuples(target, slot, estate, update, false, NULL, NIL, (which) == TU_Summarizing)
#endif

/* Since 17 functions in indexes run with a safe search_path, at each build of the index. */
#if PG_VERSION_NUM < 170000
#define zen_restrict_search_path()	((void) 0)
#else
#define zen_restrict_search_path()	RestrictSearchPath()
#endif

/*
 * Before 17 each asynchronous commit wakes the WAL writer, from when a page of WAL is full until that page is flushed.
 * The WAL writer puts this off by wal_writer_flush_after; see guc.c.  17 and later wake it after so many pages, and
 * with 0 at each commit.
 */
#define ZEN_COMMITS_WAKE_WAL_WRITER	(PG_VERSION_NUM < 170000)

/* All databases, as the locator names none; of tables that are no catalogs.  The startup process only. */
#if PG_VERSION_NUM < 160000
#define zen_conflict_with_snapshots(xid, locator) ResolveRecoveryConflictWithSnapshot(xid, locator)
#else
#define zen_conflict_with_snapshots(xid, locator) ResolveRecoveryConflictWithSnapshot(xid, false, locator)
#endif

/* 17 numbers processes by their PGPROC where backend ids were used before. */
#if PG_VERSION_NUM < 170000
#include "storage/backendid.h"
#define AmAutoVacuumWorkerProcess()	(MyBackendType == B_AUTOVAC_WORKER)
typedef BackendId ProcNumber;

#define INVALID_PROC_NUMBER			InvalidBackendId
#define GetNumberFromPGProc(proc)	((proc)->pgprocno)
#define zen_my_lxid()				(MyProc->lxid)
#define zen_lxid_of(proc)			((proc)->lxid)
#define zen_log_message(transactional) LogLogicalMessage("zen", "", 0, transactional)
#define TransamVariables			ShmemVariableCache
#define ZEN_DECODED_TUPLE			ReorderBufferTupleBuf *
#define zen_decoded_heap_tuple(decoded)	(&(decoded)->tuple)
#define zen_wait_event(name)		PG_WAIT_EXTENSION
#define ZEN_WAIT_BUFFER_PIN			PG_WAIT_BUFFER_PIN
#define zen_brin_revmap(index, pages_per_range, snapshot) brinRevmapInitialize(index, pages_per_range, snapshot)
#define zen_brin_tuple(revmap, block, buffer, offset, size, mode, snapshot) \
	brinGetTupleForHeapBlock(revmap, block, buffer, offset, size, mode, snapshot)
#define zen_reindex_index(index, persistence, params) reindex_index(index, true, persistence, params)

/* ANALYZE hands the blocks of its sample over one by one, since 17 as a stream. */
#define ZEN_ANALYZE_SAMPLE			BlockNumber sample, BufferAccessStrategy strategy
#define zen_next_sample_block(sample)	(sample)
#else
#include "storage/read_stream.h"

#define zen_my_lxid()				(MyProc->vxid.lxid)
#define zen_lxid_of(proc)			((proc)->vxid.lxid)
#define zen_log_message(transactional) LogLogicalMessage("zen", "", 0, transactional, false)
#define ZEN_DECODED_TUPLE			HeapTuple
#define zen_decoded_heap_tuple(decoded)	(decoded)
#define zen_wait_event(name)		WaitEventExtensionNew(name)
#define ZEN_WAIT_BUFFER_PIN			PG_WAIT_BUFFERPIN
#define zen_brin_revmap(index, pages_per_range, snapshot) brinRevmapInitialize(index, pages_per_range)
#define zen_brin_tuple(revmap, block, buffer, offset, size, mode, snapshot) \
	brinGetTupleForHeapBlock(revmap, block, buffer, offset, size, mode)
#define zen_reindex_index(index, persistence, params) reindex_index(NULL, index, true, persistence, params)
#define ZEN_ANALYZE_SAMPLE			ReadStream *sample

static inline BlockNumber
zen_next_sample_block(ReadStream * sample)
{
	BufferAccessStrategy strategy;

	return read_stream_next_block(sample, &strategy);
}
#endif

/* The list of background workers, of postmaster/bgworker_internals.h, is doubly linked since 18. */
#if PG_VERSION_NUM < 180000
#define zen_worker_iter				slist_iter
#define zen_foreach_worker(i)		slist_foreach(i, &BackgroundWorkerList)
#define zen_worker_at(i)			slist_container(RegisteredBgWorker, rw_lnode, (i).cur)
#else
#define zen_worker_iter				dlist_iter
#define zen_foreach_worker(i)		dlist_foreach(i, &BackgroundWorkerList)
#define zen_worker_at(i)			dlist_container(RegisteredBgWorker, rw_lnode, (i).cur)
#endif

/* 18 lets extensions add options to EXPLAIN, and runs a plan once in any case. */
#if PG_VERSION_NUM < 180000
#define ZEN_HAS_EXPLAIN_OPTIONS		0
#define zen_var_is_old_or_new(var)	false
#define zen_fill_null_row(target)	((void) (target))
#define zen_copy_disabled_nodes(to, from)	((void) 0)
#define ZEN_EXECUTOR_RUN_ARGS		QueryDesc *queryDesc, ScanDirection direction, uint64 count, bool execute_once
#define ZEN_EXECUTOR_RUN_PASS		queryDesc, direction, count, execute_once
#else
#define ZEN_HAS_EXPLAIN_OPTIONS		1
#define zen_copy_disabled_nodes(to, from)	((to)->disabled_nodes = (from)->disabled_nodes)
#define zen_var_is_old_or_new(var)	(((Var *) (var))->varreturningtype != VAR_RETURNING_DEFAULT)
/* For OLD of an INSERT: the executor fills it once. */
#define zen_fill_null_row(target) \
	((target)->ri_AllNullSlot != NULL ? (void) ExecStoreAllNullTuple((target)->ri_AllNullSlot) : (void) 0)
#define ZEN_EXECUTOR_RUN_ARGS		QueryDesc *queryDesc, ScanDirection direction, uint64 count
#define ZEN_EXECUTOR_RUN_PASS		queryDesc, direction, count
#endif

#if PG_VERSION_NUM < 180000
#define pg_noreturn __attribute__((noreturn))
#define ReorderBufferAllocChange(queue) ReorderBufferGetChange(queue)
#define ReorderBufferAllocTupleBuf(queue, len) ReorderBufferGetTupleBuf(queue, len)

#define zen_conditional_lock_tuple(rel, tid, mode, nowait) ConditionalLockTuple(rel, tid, mode)
#define zen_conditional_xact_wait(xid, nowait) ConditionalXactLockTableWait(xid)
#define zen_minimal_copy(tuple)		minimal_tuple_from_heap_tuple(tuple)
#define zen_primary_key(rel)		RelationGetPrimaryKeyIndex(rel)
#define zen_index_nulls_not_distinct(info, index) ((void) 0)
#define zen_index_beginscan(table, index, snapshot, nkeys) index_beginscan(table, index, snapshot, nkeys, 0)
#define zen_node_beginscan(node, index, snapshot, nkeys) \
	index_beginscan((node)->ss_currentRelation, index, snapshot, nkeys, 0)
#define zen_index_beginscan_bitmap(index, snapshot) index_beginscan_bitmap(index, snapshot, 0)
#define zen_node_beginscan_bitmap(node, index, snapshot, nkeys) index_beginscan_bitmap(index, snapshot, nkeys)
#define zen_vacuum_delay_point()	vacuum_delay_point()
#define zen_vac_update_relstats(rel, pages, tuples, has_index, frozen_xid, frozen_multi) \
	vac_update_relstats(rel, pages, tuples, 0, has_index, frozen_xid, frozen_multi, NULL, NULL, false)
#define zen_report_vacuum(rel, live, dead, started) \
	((void) (started), pgstat_report_vacuum(RelationGetRelid(rel), (rel)->rd_rel->relisshared, live, dead))

/* The executor prefetches for a bitmap scan and feeds the AM block by block; since 18 the AM drives it. */
#define ZEN_AM_DRIVES_BITMAP_SCAN	0
#define zen_stop_prefetch(bitmap_scan) ((bitmap_scan)->prefetch_maximum = 0)
#define zen_bitmap_is_lossy(block)	((block)->ntuples < 0)

static inline int
zen_bitmap_offsets(TBMIterateResult *block, OffsetNumber *offsets, int max)
{
	int			n = Min(block->ntuples, max);

	memcpy(offsets, block->offsets, n * sizeof(OffsetNumber));
	return n;
}

typedef TBMIterator ZenBitmapIterator;
#define zen_bitmap_begin(bitmap)	tbm_begin_iterate(bitmap)
#define zen_bitmap_end(iterator)	tbm_end_iterate(iterator)

static inline TBMIterateResult *
zen_bitmap_next(ZenBitmapIterator *iterator, TBMIterateResult *space)
{
	return tbm_iterate(iterator);
}

/* A process has one group of 16 fast-path locks; since 18 their number is a setting. */
#define FP_LOCK_SLOTS_PER_GROUP		FP_LOCK_SLOTS_PER_BACKEND
#define FastPathLockGroupsPerBackend 1
/* in bits 3 * i to 3 * i + 2: bit (mode - 1) for each weak lock mode held in slot i */
#define zen_fast_path_bits(proc, group) ((proc)->fpLockBits)
#else
#define zen_conditional_lock_tuple(rel, tid, mode, nowait) \
	ConditionalLockTuple(rel, tid, mode, (nowait) && log_lock_failures)
#define zen_conditional_xact_wait(xid, nowait) ConditionalXactLockTableWait(xid, (nowait) && log_lock_failures)
#define zen_minimal_copy(tuple)		minimal_tuple_from_heap_tuple(tuple, 0)
#define zen_primary_key(rel)		RelationGetPrimaryKeyIndex(rel, true)
#define zen_index_nulls_not_distinct(info, index) \
	((info)->nullsnotdistinct = (index)->rd_index->indnullsnotdistinct)
#define zen_index_beginscan(table, index, snapshot, nkeys) index_beginscan(table, index, snapshot, NULL, nkeys, 0)
#define zen_node_beginscan(node, index, snapshot, nkeys) \
	index_beginscan((node)->ss_currentRelation, index, snapshot, \
					IsA(node, IndexScanState) ? &((IndexScanState *) (node))->iss_Instrument : \
					&((IndexOnlyScanState *) (node))->ioss_Instrument, nkeys, 0)
#define zen_index_beginscan_bitmap(index, snapshot) index_beginscan_bitmap(index, snapshot, NULL, 0)
#define zen_node_beginscan_bitmap(node, index, snapshot, nkeys) \
	index_beginscan_bitmap(index, snapshot, &(node)->biss_Instrument, nkeys)
#define zen_vacuum_delay_point()	vacuum_delay_point(false)
#define zen_vac_update_relstats(rel, pages, tuples, has_index, frozen_xid, frozen_multi) \
	vac_update_relstats(rel, pages, tuples, 0, 0, has_index, frozen_xid, frozen_multi, \
						NULL, NULL, false)
#define zen_report_vacuum(rel, live, dead, started) \
	pgstat_report_vacuum(RelationGetRelid(rel), (rel)->rd_rel->relisshared, live, dead, started)

#define ZEN_AM_DRIVES_BITMAP_SCAN	1
#define zen_stop_prefetch(bitmap_scan) ((void) (bitmap_scan))
#define zen_bitmap_is_lossy(block)	((block)->lossy)
#define zen_bitmap_offsets(block, offsets, max) tbm_extract_page_tuple(block, offsets, max)

typedef TBMPrivateIterator ZenBitmapIterator;
#define zen_bitmap_begin(bitmap)	tbm_begin_private_iterate(bitmap)
#define zen_bitmap_end(iterator)	tbm_end_private_iterate(iterator)

static inline TBMIterateResult *
zen_bitmap_next(ZenBitmapIterator *iterator, TBMIterateResult *space)
{
	return tbm_private_iterate(iterator, space) ? space : NULL;
}

#define zen_fast_path_bits(proc, group) ((proc)->fpLockBits[group])
#endif

/* Nodes and steps of expressions that 16, 17 and 18 have added, and where tables have their compiled expressions. */
#if PG_VERSION_NUM < 160000
#define zen_is_json_node(node)		false
#define zen_generated_exprs(target, operation) ((operation) == CMD_UPDATE ? NULL : (target)->ri_GeneratedExprs)
#else
#define zen_generated_exprs(target, operation) \
	((operation) == CMD_UPDATE ? (target)->ri_GeneratedExprsU : (target)->ri_GeneratedExprsI)
#if PG_VERSION_NUM < 170000
#define zen_is_json_node(node) \
	(IsA(node, JsonConstructorExpr) || IsA(node, JsonValueExpr) || IsA(node, JsonIsPredicate))
#else
#define zen_is_json_node(node) \
	(IsA(node, JsonConstructorExpr) || IsA(node, JsonValueExpr) || IsA(node, JsonIsPredicate) || \
	 IsA(node, JsonExpr) || IsA(node, JsonBehavior))
#endif
#endif
#define ZEN_HAS_JSON_STEPS			(PG_VERSION_NUM >= 170000)
#define ZEN_HAS_COUNTED_STRICT_STEPS (PG_VERSION_NUM >= 180000)

#if PG_VERSION_NUM < 180000
#define zen_is_returning_node(node)	false
#define zen_check_exprs(target)		((target)->ri_ConstraintExprs)
#define zen_virtual_exprs(target)	((ExprState **) NULL)
#define zen_virtual_not_null(desc)	0
#define zen_has_virtual(constr)		false
#else
#define zen_is_returning_node(node)	IsA(node, ReturningExpr)
#define zen_check_exprs(target)		((target)->ri_CheckConstraintExprs)
#define zen_virtual_exprs(target)	((target)->ri_GenVirtualNotNullConstraintExprs)
#define zen_has_virtual(constr)		((constr)->has_generated_virtual)

/* Virtual generated columns that may not be NULL. */
static inline int
zen_virtual_not_null(TupleDesc desc)
{
	int			n = 0;

	for (int i = 0; i < desc->natts; i++)
		n += TupleDescAttr(desc, i)->attnotnull &&
			TupleDescAttr(desc, i)->attgenerated == ATTRIBUTE_GENERATED_VIRTUAL;
	return n;
}
#endif

/* Access methods of indexes: what 16, 17 and 18 have added, as btree has it. */
#include "access/amapi.h"
#include "utils/pg_locale.h"
#if PG_VERSION_NUM >= 160000
#include "varatt.h"
#endif
#if PG_VERSION_NUM < 180000
#if PG_VERSION_NUM < 170000
#define ZEN_ESTIMATE_PARALLEL_SCAN_ARGS(of_index, of_keys, of_orderbys) void
#else
#define ZEN_ESTIMATE_PARALLEL_SCAN_ARGS(of_index, of_keys, of_orderbys) of_keys, of_orderbys
#endif
#define ZEN_PARALLEL_SCAN_OFFSET	ps_offset
#define zen_am_is_like_btree(am)	((void) (am))
#define ZEN_CONFLICT_WANTS_BTREE	1	/* ON CONFLICT takes no other unique
										 * index */
#define zen_collation_is_c(collation)	(OidIsValid(collation) && lc_collate_is_c(collation))
#else
#include "access/nbtree.h"

#define ZEN_ESTIMATE_PARALLEL_SCAN_ARGS(of_index, of_keys, of_orderbys) of_index, of_keys, of_orderbys
#define ZEN_PARALLEL_SCAN_OFFSET	ps_offset_am
#define ZEN_CONFLICT_WANTS_BTREE	0

static inline void
zen_am_is_like_btree(IndexAmRoutine *am)
{
	am->amconsistentequality = true;
	am->amconsistentordering = true;
	am->amtranslatestrategy = bttranslatestrategy;
	am->amtranslatecmptype = bttranslatecmptype;
}

#define zen_collation_is_c(collation) \
	(OidIsValid(collation) && pg_newlocale_from_collation(collation)->collate_is_c)
#endif

#endif							/* ZEN_COMPAT_H */
