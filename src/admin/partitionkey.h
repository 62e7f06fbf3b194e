/*
 * partitionkey.h -- the column of a table whose values the soft partition goes by.
 */
#ifndef ZEN_PARTITIONKEY_H
#define ZEN_PARTITIONKEY_H

#include "base/compat.h"

#include "access/attnum.h"

typedef struct ZenPartitionKey
{
	Oid			relid;
	AttrNumber	attno;			/* InvalidAttrNumber: the table has none */
	Oid			collation;
	Oid			opfamily;		/* of hashing */
	Oid			type;			/* that the family hashes the column as */
} ZenPartitionKey;

/* zen_partitionkey_init -- register the provider of labels and the watch over relations; in _PG_init. */
extern void zen_partitionkey_init(void);

/* zen_partitionkey_fresh -- changes of catalogs since the last call count from now on: keys found before are void. */
extern void zen_partitionkey_fresh(void);

/* zen_partitionkey_of -- of a table that the caller has locked; never NULL.  May read the catalog. */
extern const ZenPartitionKey *zen_partitionkey_of(Oid relid);

/*
 * zen_partitionkey_hash -- hash a value that a key is equal to, as the family hashes that type.  False if it does not.
 */
extern bool zen_partitionkey_hash(const ZenPartitionKey *key, Oid type, Datum value, uint32 *hash);

#endif							/* ZEN_PARTITIONKEY_H */
