/*
 * partitionkey.c -- partition keys of tables, kept as security labels of their columns.
 *
 * A label of the provider "zen" marks the column.  PostgreSQL has all that such a mark needs: a place in the catalog,
 * pg_dump and pg_upgrade that take it along, and its end with the column or the table.  The label changes no
 * permission.
 *
 * A table has one key.  Each session keeps those that it has found, until any relation changes.
 */
#include "admin/partitionkey.h"

#include "access/genam.h"
#include "access/hash.h"
#include "access/htup_details.h"
#include "access/relation.h"
#include "access/table.h"
#include "access/xact.h"
#include "catalog/indexing.h"
#include "catalog/objectaddress.h"
#include "catalog/pg_class.h"
#include "catalog/pg_seclabel.h"
#include "commands/seclabel.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "table/zenam_rel.h"
#include "utils/acl.h"
#include "utils/builtins.h"
#include "utils/fmgroids.h"
#include "utils/hsearch.h"
#include "utils/inval.h"
#include "utils/lsyscache.h"
#include "utils/rel.h"
#include "utils/typcache.h"

PG_FUNCTION_INFO_V1(zen_set_partition_key);

#define PROVIDER	"zen"
#define LABEL		"partition key"

static HTAB *keys;				/* ZenPartitionKey, by relid */
static bool stale = true;

/* ---------- the catalog ---------- */

/* The column that bears the label; InvalidAttrNumber: none. */
static AttrNumber
labelled_column(Oid relid)
{
	Relation	catalog = table_open(SecLabelRelationId, AccessShareLock);
	AttrNumber	attno = InvalidAttrNumber;
	ScanKeyData skey[2];
	SysScanDesc scan;
	HeapTuple	tuple;

	ScanKeyInit(&skey[0], Anum_pg_seclabel_objoid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relid));
	ScanKeyInit(&skey[1], Anum_pg_seclabel_classoid, BTEqualStrategyNumber, F_OIDEQ,
				ObjectIdGetDatum(RelationRelationId));
	scan = systable_beginscan(catalog, SecLabelObjectIndexId, true, NULL, 2, skey);
	while ((tuple = systable_getnext(scan)) != NULL)
	{
		bool		isnull;
		Datum		provider = heap_getattr(tuple, Anum_pg_seclabel_provider, RelationGetDescr(catalog), &isnull);
		int32		column = ((FormData_pg_seclabel *) GETSTRUCT(tuple))->objsubid;

		if (column > 0 && strcmp(TextDatumGetCString(provider), PROVIDER) == 0)
			attno = (AttrNumber) column;
	}
	systable_endscan(scan);
	table_close(catalog, AccessShareLock);
	return attno;
}

static TypeCacheEntry *
hashed_as(Oid relid, AttrNumber attno)
{
	Oid			type,
				collation;
	int32		typmod;

	get_atttypetypmodcoll(relid, attno, &type, &typmod, &collation);
	return lookup_type_cache(type, TYPECACHE_HASH_PROC | TYPECACHE_HASH_OPFAMILY);
}

/* elevel: of a column whose values cannot be hashed. */
static void
check_column(Oid relid, AttrNumber attno, int elevel)
{
	if (attno <= 0)
		ereport(ERROR,
				(errcode(ERRCODE_INVALID_COLUMN_REFERENCE),
				 errmsg("a system column cannot be the partition key of a zen table")));
	if (!OidIsValid(hashed_as(relid, attno)->hash_proc))
		ereport(elevel,
				(errcode(ERRCODE_UNDEFINED_FUNCTION),
				 errmsg("column \"%s\" cannot be a partition key: values of type %s cannot be hashed",
						get_attname(relid, attno, false), format_type_be(get_atttype(relid, attno)))));
}

/* ---------- labels ---------- */

/*
 * SECURITY LABEL FOR zen: the statement that pg_dump writes.  PostgreSQL has checked that the user owns the table, and
 * has locked it.
 */
static void
check_label(const ObjectAddress *object, const char *label)
{
	AttrNumber	former;

	if (object->classId != RelationRelationId || object->objectSubId == 0 ||
		get_rel_relkind(object->objectId) != RELKIND_RELATION)
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("labels of zen are for columns of tables"),
				 errhint("zen_set_partition_key() sets them.")));
	if (label != NULL)
	{
		if (strcmp(label, LABEL) != 0)
			ereport(ERROR,
					(errcode(ERRCODE_INVALID_PARAMETER_VALUE),
					 errmsg("zen has no label \"%s\"", label),
					 errhint("The only one is \"%s\", and zen_set_partition_key() sets it.", LABEL)));
		former = labelled_column(object->objectId);
		if (former != InvalidAttrNumber && former != object->objectSubId)
			ereport(ERROR,
					(errcode(ERRCODE_DUPLICATE_OBJECT),
					 errmsg("table \"%s\" has a partition key already: column \"%s\"",
							get_rel_name(object->objectId), get_attname(object->objectId, former, false)),
					 errhint("zen_set_partition_key() replaces it.")));
		/* ALTER TABLE may have left it so, and a dump must go in again */
		check_column(object->objectId, (AttrNumber) object->objectSubId, WARNING);
	}
	CacheInvalidateRelcacheByRelid(object->objectId);
}

static void
put_label(Oid relid, AttrNumber attno, const char *label)
{
	ObjectAddress object;

	ObjectAddressSubSet(object, RelationRelationId, relid, attno);
	SetSecurityLabel(&object, PROVIDER, label);
}

static AttrNumber
column_named(Relation rel, const char *name)
{
	AttrNumber	attno = get_attnum(RelationGetRelid(rel), name);

	if (attno == InvalidAttrNumber)
		ereport(ERROR,
				(errcode(ERRCODE_UNDEFINED_COLUMN),
				 errmsg("column \"%s\" of relation \"%s\" does not exist", name, RelationGetRelationName(rel))));
	check_column(RelationGetRelid(rel), attno, ERROR);
	return attno;
}

/* zen_set_partition_key -- see doc/functions.md. */
Datum
zen_set_partition_key(PG_FUNCTION_ARGS)
{
	Oid			relid;
	Relation	rel;
	AttrNumber	attno = InvalidAttrNumber,
				former;

	if (PG_ARGISNULL(0))
		ereport(ERROR,
				(errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
				 errmsg("the table must not be null")));
	relid = PG_GETARG_OID(0);

	/*
	 * a user without permission shall not wait for the lock, nor make others
	 * wait
	 */
	if (!zen_owns_relation(relid, GetUserId()))
		aclcheck_error(ACLCHECK_NOT_OWNER, OBJECT_TABLE, get_rel_name(relid));
	rel = relation_open(relid, ShareUpdateExclusiveLock);
	former = labelled_column(relid);
	/* one that has become a heap table may lose its key */
	if (rel->rd_rel->relkind != RELKIND_RELATION ||
		(!zen_rel_is_zen(rel) && !(PG_ARGISNULL(1) && former != InvalidAttrNumber)))
		ereport(ERROR,
				(errcode(ERRCODE_WRONG_OBJECT_TYPE),
				 errmsg("\"%s\" is not a zen table", RelationGetRelationName(rel)),
				 errdetail("Partition keys of a partitioned table are those of its partitions.")));
	if (!PG_ARGISNULL(1))
		attno = column_named(rel, NameStr(*PG_GETARG_NAME(1)));
	if (former != InvalidAttrNumber && former != attno)
		put_label(relid, former, NULL);
	if (attno != InvalidAttrNumber && former != attno)
		put_label(relid, attno, LABEL);
	CacheInvalidateRelcache(rel);
	/* the statement may call it once more */
	CommandCounterIncrement();
	relation_close(rel, NoLock);
	PG_RETURN_VOID();
}

/* ---------- keys that a session has found ---------- */

static void
relation_changed(Datum arg, Oid relid)
{
	stale = true;
}

void
zen_partitionkey_init(void)
{
	register_label_provider(PROVIDER, check_label);
}

void
zen_partitionkey_fresh(void)
{
	static bool watching = false;
	HASHCTL		ctl = {.keysize = sizeof(Oid),.entrysize = sizeof(ZenPartitionKey)};

	if (!watching)
		CacheRegisterRelcacheCallback(relation_changed, (Datum) 0);
	watching = true;
	if (!stale)
		return;
	if (keys != NULL)
		hash_destroy(keys);
	keys = NULL;
	keys = hash_create("zen partition keys", 64, &ctl, HASH_ELEM | HASH_BLOBS);
	stale = false;
}

const ZenPartitionKey *
zen_partitionkey_of(Oid relid)
{
	ZenPartitionKey *key = hash_search(keys, &relid, HASH_FIND, NULL);
	ZenPartitionKey found = {.relid = relid};
	bool		exists;

	if (key != NULL)
		return key;
	found.attno = labelled_column(relid);
	if (found.attno != InvalidAttrNumber)
	{
		TypeCacheEntry *type = hashed_as(relid, found.attno);
		int32		typmod;
		Oid			declared;

		get_atttypetypmodcoll(relid, found.attno, &declared, &typmod, &found.collation);
		found.opfamily = type->hash_opf;
		found.type = type->hash_opintype;
		/* its type may have changed since */
		if (!OidIsValid(type->hash_proc))
			found.attno = InvalidAttrNumber;
	}
	key = hash_search(keys, &relid, HASH_ENTER, &exists);
	*key = found;
	return key;
}

bool
zen_partitionkey_hash(const ZenPartitionKey *key, Oid type, Datum value, uint32 *hash)
{
	Oid			function = get_opfamily_proc(key->opfamily, type, type, HASHSTANDARD_PROC);

	if (!OidIsValid(function))
		return false;
	*hash = DatumGetUInt32(OidFunctionCall1Coll(function, key->collation, value));
	return true;
}
