/*
 * standbyentries.c -- the entries that a tree of a hot standby has for a row.
 */
#include "admin/standbyentries.h"

#include "access/sysattr.h"
#include "base/guc.h"
#include "catalog/index.h"
#include "executor/executor.h"
#include "miscadmin.h"
#include "optimizer/optimizer.h"
#include "table/standbytoast.h"
#include "table/treeindex.h"
#include "utils/guc.h"
#include "utils/memutils.h"

/* ---------- functions of users ---------- */

void
zen_entries_become_owner(ZenEntriesOwner *owner, Relation table, Relation index)
{
	owner->is = zen_index_calls_users(index);
	if (!owner->is)
		return;
	GetUserIdAndSecContext(&owner->user, &owner->security);
	SetUserIdAndSecContext(table->rd_rel->relowner, owner->security | SECURITY_RESTRICTED_OPERATION);
	owner->nest_level = NewGUCNestLevel();
	zen_restrict_search_path();
}

void
zen_entries_become_self(ZenEntriesOwner *owner)
{
	if (!owner->is)
		return;
	AtEOXact_GUC(false, owner->nest_level);
	SetUserIdAndSecContext(owner->user, owner->security);
}

/* ---------- the entries of a row ---------- */

static Bitmapset *
index_columns(const IndexInfo *info)
{
	Bitmapset  *columns = NULL;

	for (int i = 0; i < info->ii_NumIndexAttrs; i++)
		if (info->ii_IndexAttrNumbers[i] != 0)
			columns = bms_add_member(columns, info->ii_IndexAttrNumbers[i] - FirstLowInvalidHeapAttributeNumber);
	pull_varattnos((Node *) info->ii_Expressions, 1, &columns);
	pull_varattnos((Node *) info->ii_Predicate, 1, &columns);
	return columns;
}

void
zen_entries_begin(ZenEntries *e, Relation table, Relation index, ZenHTable *ht, ZenFollower *follower)
{
	IndexInfo  *info = BuildIndexInfo(index);

	memset(e, 0, offsetof(ZenEntries, shape));
	e->table = table;
	e->index = index;
	e->ht = ht;
	e->follower = follower;
	e->tree = follower->tree;
	if (e->tree != NULL)
		zen_tree_shape(index, e->tree, &e->shape);
	zen_indexentry_begin(&e->form, table, info);
	e->columns = index_columns(info);
	memset(&e->versions, 0, sizeof(e->versions));
	e->versions.mcxt = CurrentMemoryContext;
	e->per_row = AllocSetContextCreate(CurrentMemoryContext, "zen standby tree", ALLOCSET_SMALL_SIZES);
	e->later = NULL;
	e->nlater = e->later_room = 0;
}

void
zen_entries_end(ZenEntries *e)
{
	zen_indexentry_end(&e->form);
	MemoryContextDelete(e->per_row);
	if (e->later != NULL)
		pfree(e->later);
}

/* Does the index look at a column of the table? */
static bool
looks_at(const ZenEntries *e, int attnum)
{
	return bms_is_member(attnum - FirstLowInvalidHeapAttributeNumber, e->columns) ||
		bms_is_member(0 - FirstLowInvalidHeapAttributeNumber, e->columns);
}

/*
 * Show a version in the slot of the entry.  Long values that the index looks at are read here.  If there is none of
 * them any more, no snapshot needs the version: false.
 */
static bool
show_version(ZenEntries *e, HeapTuple tuple)
{
	TupleDesc	desc = RelationGetDescr(e->table);
	Datum	   *values;
	bool	   *isnull;
	bool		any = false;

	if (!HeapTupleHasExternal(tuple))
	{
		ExecForceStoreHeapTuple(tuple, e->form.slot, false);
		return true;
	}
	values = palloc(desc->natts * sizeof(Datum));
	isnull = palloc(desc->natts * sizeof(bool));
	heap_deform_tuple(tuple, desc, values, isnull);
	for (int i = 0; i < desc->natts; i++)
	{
		struct varlena *value = (struct varlena *) DatumGetPointer(values[i]);

		if (isnull[i] || TupleDescAttr(desc, i)->attlen != -1 || !VARATT_IS_EXTERNAL_ONDISK(value) ||
			!looks_at(e, i + 1))
			continue;
		value = zen_standbytoast_read(value);
		if (value == NULL)
			return false;
		values[i] = PointerGetDatum(value);
		any = true;
	}
	if (any)
		tuple = heap_form_tuple(desc, values, isnull);
	ExecForceStoreHeapTuple(tuple, e->form.slot, false);
	return true;
}

/* Form the entry of a version; false: the index has none of it. */
bool
zen_entries_form(ZenEntries *e, ZenRow *row)
{
	HeapTupleData tuple = {.t_len = row->len,.t_self = row->tid,.t_tableOid = RelationGetRelid(e->table),
	.t_data = (HeapTupleHeader) row->buf};
	MemoryContext old = MemoryContextSwitchTo(e->per_row);
	bool		wanted = show_version(e, &tuple) && zen_indexentry_is_wanted(&e->form);

	if (wanted)
		zen_indexentry_form(&e->form);
	MemoryContextSwitchTo(old);
	return wanted;
}

void
zen_entries_done(ZenEntries *e)
{
	ExecClearTuple(e->form.slot);
	MemoryContextReset(e->per_row);
}

/* Enter all that committed versions under a TID have; readers may be in the tree. */
void
zen_entries_enter(ZenEntries *e, uint64 tidno)
{
	ItemPointerData tid;

	zen_make_tid(&tid, tidno, 0);
	zen_row_versions(e->ht, tidno, &e->versions);
	for (int i = 0; i < e->versions.n; i++)
	{
		if (zen_entries_form(e, &e->versions.rows[i]))
			zentree_enter(e->tree, &e->shape, e->form.values, e->form.isnull, &tid);
		zen_entries_done(e);
	}
}

void
zen_entries_note_later(ZenEntries *e, uint64 tidno)
{
	if (e->nlater == e->later_room)
	{
		e->later_room = Max(1024, 2 * e->later_room);
		e->later = e->later ? repalloc_huge(e->later, e->later_room * sizeof(uint64)) :
			MemoryContextAllocHuge(e->versions.mcxt, e->later_room * sizeof(uint64));
	}
	e->later[e->nlater++] = tidno;
}

void
zen_entries_enter_later(ZenEntries *e)
{
	for (uint64 i = 0; i < e->nlater; i++)
	{
		CHECK_FOR_INTERRUPTS();
		zen_entries_enter(e, e->later[i]);
	}
	e->nlater = 0;
}
