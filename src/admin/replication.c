/*
 * replication.c -- logical replication does not carry zen tables: say so.
 *
 * Logical decoding reads the WAL, and with zen.stream = off zen tables write none.  Then a publication that would send
 * one is refused, whichever comes first.  They meet in these ways:
 *
 * - a publication is created, gets tables or schemas, or begins to send anything;
 * - a table is created or becomes a zen table;
 * - a table moves to another schema, or is attached to a partitioned table.
 *
 * The object access hook sees all of that, by whatever means it is done, but before the new catalog rows are visible.
 * So it remembers the object, and the end of the statement, or of the transaction, looks at it.  A pair that an
 * earlier configuration has allowed can still be altered.  A relation whose access method and schema are as before
 * joins nothing.  A publication that has only a new name or owner sends the same as before.
 *
 * While wal_level is too low for decoding, nothing is decoded and PostgreSQL says so itself.  If it is raised later,
 * changes of published zen tables are refused (table/zenam_publish.c).  A first copy to a subscriber is refused at
 * any time: it would make a table look replicated that never changes again.
 */
#include "base/compat.h"

#include "admin/replication.h"

#include "access/htup_details.h"
#include "access/xact.h"
#include "access/xlog.h"
#include "base/epoch.h"
#include "base/guc.h"
#include "base/ownwal.h"
#include "catalog/namespace.h"
#include "catalog/pg_class.h"
#include "catalog/pg_inherits.h"
#include "catalog/pg_publication.h"
#include "catalog/pg_publication_namespace.h"
#include "catalog/pg_publication_rel.h"
#include "nodes/nodeFuncs.h"
#include "replication/walsender.h"
#include "table/zenam_rel.h"
#include "table/zenam_publish.h"
#include "utils/fmgroids.h"
#include "utils/lsyscache.h"
#include "utils/memutils.h"
#include "utils/syscache.h"

/* An object that a command has created or altered. */
typedef struct Note
{
	Oid			class;			/* pg_class or one of publications' catalogs */
	Oid			object;
	bool		joins;			/* else it is altered, and this was visible
								 * then: */
	Oid			am;				/* of a relation */
	Oid			schema;
	NameData	name;			/* of a publication */
	Oid			owner;
} Note;

static List *notes = NIL;		/* of Note, in TopTransactionContext */

/* ---------- what is created and altered ---------- */

static void
forget_notes(void *arg)
{
	notes = NIL;
}

static void
remember(const Note *note)
{
	MemoryContext old = MemoryContextSwitchTo(TopTransactionContext);
	Note	   *copy = palloc(sizeof(Note));

	Assert(IsTransactionState() && OidIsValid(note->object));
	*copy = *note;
	if (notes == NIL)
	{
		MemoryContextCallback *callback = palloc0(sizeof(MemoryContextCallback));

		callback->func = forget_notes;
		MemoryContextRegisterResetCallback(TopTransactionContext, callback);
	}
	notes = lappend(notes, copy);
	MemoryContextSwitchTo(old);
}

/* A relation is altered: its old row of pg_class is still the visible one. */
static void
relation_altered(Oid relid)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(relid));
	Form_pg_class form;
	Note		note = {.class = RelationRelationId,.object = relid};

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	note.am = form->relam;
	note.schema = form->relnamespace;
	if (form->relkind == RELKIND_RELATION || form->relkind == RELKIND_PARTITIONED_TABLE)
		remember(&note);
	ReleaseSysCache(tuple);
}

static void
publication_altered(Oid oid)
{
	HeapTuple	tuple = SearchSysCache1(PUBLICATIONOID, ObjectIdGetDatum(oid));
	Note		note = {.class = PublicationRelationId,.object = oid};

	if (!HeapTupleIsValid(tuple))
		return;
	note.name = ((Form_pg_publication) GETSTRUCT(tuple))->pubname;
	note.owner = ((Form_pg_publication) GETSTRUCT(tuple))->pubowner;
	remember(&note);
	ReleaseSysCache(tuple);
}

void
zen_replication_note(ObjectAccessType access, Oid class, Oid object)
{
	Note		note = {.class = class,.object = object,.joins = true};

	if (!zen_hides_changes() || (access != OAT_POST_CREATE && access != OAT_POST_ALTER))
		return;
	switch (class)
	{
		case RelationRelationId:
			if (access == OAT_POST_CREATE)
				remember(&note);
			else
				relation_altered(object);
			break;
		case InheritsRelationId:
			note.class = RelationRelationId;
			remember(&note);
			break;
		case PublicationRelationId:
			if (access == OAT_POST_CREATE)
				remember(&note);
			else
				publication_altered(object);
			break;
		case PublicationRelRelationId:
		case PublicationNamespaceRelationId:
			remember(&note);
			break;
	}
}

/* ---------- what it has come to ---------- */

static void
check_relation(const Note *note)
{
	HeapTuple	tuple = SearchSysCache1(RELOID, ObjectIdGetDatum(note->object));
	Form_pg_class form;
	bool		joins;
	List	   *relids;
	ListCell   *lc;

	if (!HeapTupleIsValid(tuple))
		return;
	form = (Form_pg_class) GETSTRUCT(tuple);
	joins = note->joins || form->relam != note->am || form->relnamespace != note->schema;
	relids = form->relkind == RELKIND_PARTITIONED_TABLE ? find_all_inheritors(note->object, NoLock, NULL) :
		list_make1_oid(note->object);
	ReleaseSysCache(tuple);
	if (!joins)
		return;
	foreach(lc, relids)
	{
		char	   *publication = zen_publication_of(lfirst_oid(lc));

		if (publication != NULL)
			zen_report_published(lfirst_oid(lc), publication);
	}
}

static bool
is_renamed_or_given(const Note *note, Form_pg_publication form)
{
	return strcmp(NameStr(note->name), NameStr(form->pubname)) != 0 || note->owner != form->pubowner;
}

/*
 * The publication that an object of publications' catalogs belongs to; InvalidOid if it is gone, or sends the same as
 * before.
 */
static Oid
publication_of_object(const Note *note)
{
	int			cache = note->class == PublicationRelRelationId ? PUBLICATIONREL :
	note->class == PublicationNamespaceRelationId ? PUBLICATIONNAMESPACE : PUBLICATIONOID;
	HeapTuple	tuple = SearchSysCache1(cache, ObjectIdGetDatum(note->object));
	Oid			publication = note->object;

	Assert(note->class != RelationRelationId);
	if (!HeapTupleIsValid(tuple))
		return InvalidOid;
	if (cache == PUBLICATIONREL)
		publication = ((Form_pg_publication_rel) GETSTRUCT(tuple))->prpubid;
	else if (cache == PUBLICATIONNAMESPACE)
		publication = ((Form_pg_publication_namespace) GETSTRUCT(tuple))->pnpubid;
	else if (!note->joins && is_renamed_or_given(note, (Form_pg_publication) GETSTRUCT(tuple)))
		publication = InvalidOid;
	ReleaseSysCache(tuple);
	return publication;
}

/* Its first zen table is reported, if it has one. */
static void
check_publication(Oid oid)
{
	Publication *pub = GetPublication(oid);
	List	   *relids;
	ListCell   *lc;

	if (!zen_sends_anything(&pub->pubactions))
		return;
	/* partitions, as theirs are the rows; also where a root is to be named */
	if (pub->alltables)
		relids = GetAllTablesPublicationRelations(false);
	else
		relids = list_concat(GetPublicationRelations(oid, PUBLICATION_PART_LEAF),
							 GetAllSchemaPublicationRelations(oid, PUBLICATION_PART_LEAF));
	foreach(lc, relids)
		if (zen_relid_is_zen(lfirst_oid(lc)))
	{
		zen_report_published(lfirst_oid(lc), pub->name);
		break;
	}
	list_free(relids);
}

void
zen_replication_check(void)
{
	List	   *publications = NIL;
	List	   *look_at;
	ListCell   *lc;

	if (notes == NIL || !IsTransactionState())
		return;
	ZenAssertNotInEpoch();
	look_at = notes;
	notes = NIL;
	CommandCounterIncrement();
	foreach(lc, look_at)
	{
		Note	   *note = lfirst(lc);

		if (note->class == RelationRelationId)
			check_relation(note);
		else
		{
			Oid			publication = publication_of_object(note);

			if (OidIsValid(publication))
				publications = list_append_unique_oid(publications, publication);
		}
	}
	foreach(lc, publications)
		check_publication(lfirst_oid(lc));
	list_free(publications);
}

/* ---------- the first copy to a subscriber ---------- */

static void
refuse_copy(Oid relid)
{
	if (zen_relid_is_zen(relid))
		ereport(ERROR,
				(errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
				 errmsg("zen table \"%s\" cannot be replicated", get_rel_name(relid)),
				 errdetail("Logical replication reads the write-ahead log, and zen tables are not in it."),
				 errhint("Take it out of the publication, or use ALTER TABLE ... SET ACCESS METHOD heap.")));
}

/* Refuse the table of a FROM clause, if it or a partition or child of it is a zen table. */
static bool
refuse_copy_from(Node *node, void *context)
{
	if (node == NULL)
		return false;
	if (IsA(node, RangeVar))
	{
		RangeVar   *table = (RangeVar *) node;
		Oid			relid = RangeVarGetRelid(table, NoLock, true);
		ListCell   *lc;

		if (!OidIsValid(relid))
			return false;
		refuse_copy(relid);
		if (table->inh)
			foreach(lc, find_all_inheritors(relid, NoLock, NULL))
				refuse_copy(lfirst_oid(lc));
		return false;
	}
	return raw_expression_tree_walker(node, refuse_copy_from, context);
}

/*
 * A subscriber copies by COPY table, or, where it wants some rows or the partitions of a root, by COPY (SELECT ... FROM
 * table).  No other client of a replication connection is known to copy.
 */
void
zen_replication_check_copy(CopyStmt *stmt)
{
	if (!am_walsender || stmt->is_from || zen_stream != ZEN_STREAM_OFF)
		return;
	(void) refuse_copy_from((Node *) stmt->relation, NULL);
	(void) refuse_copy_from(stmt->query, NULL);
}

/* ---------- readers of the WAL ---------- */

/*
 * Whoever waits for a subscriber to have all that is committed asks for pg_current_wal_lsn(): Citus, for one, before it
 * drops a shard that it has moved.  Commits of heap tables are in what is written by then.
 */
void
zen_replication_check_function(Oid function)
{
	switch (function)
	{
		case F_PG_CURRENT_WAL_LSN:
		case F_PG_LOGICAL_SLOT_GET_CHANGES:
		case F_PG_LOGICAL_SLOT_PEEK_CHANGES:
		case F_PG_LOGICAL_SLOT_GET_BINARY_CHANGES:
		case F_PG_LOGICAL_SLOT_PEEK_BINARY_CHANGES:
			if (zen_stream != ZEN_STREAM_OFF && !RecoveryInProgress())
				XLogFlush(zen_wal_end());
			break;
		default:
			break;
	}
}
