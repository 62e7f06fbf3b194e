/*
 * damage.c -- telling users of a row that cannot be read.
 *
 * A reader, writer or locker that finds a wrong checksum calls this.  It leaves the epoch first: reporting may throw,
 * and takes time.
 */
#include "cache/damage.h"

#include "base/epoch.h"
#include "base/guc.h"
#include "cache/tidmap.h"

static void
report_damage(ZenSlot slot, uint64 tidno, int elevel)
{
	ItemPointerData tid;

	ZenAssertNoWordLocked();
	zen_epoch_reset();
	zen_make_tid(&tid, tidno, 0);
	ereport(elevel,
			(errcode(ERRCODE_DATA_CORRUPTED),
			 errmsg("checksum of zen row (%u,%u) does not match",
					ItemPointerGetBlockNumber(&tid), ItemPointerGetOffsetNumber(&tid)),
			 errdetail("The NVM-tuple lies at offset " UINT64_FORMAT " of the pool.", slot * ZEN_SLOT_UNIT),
			 elevel < ERROR ? 0 :
			 errhint("Restore the row from a backup.  With zen.skip_damaged_rows on, scans leave it out.")));
}

void
zen_tuple_corrupted(ZenSlot slot, uint64 tidno)
{
	report_damage(slot, tidno, ERROR);
	pg_unreachable();
}

void
zen_tuple_unreadable(ZenSlot slot, uint64 tidno)
{
	report_damage(slot, tidno, zen_skip_damaged_rows ? WARNING : ERROR);
}
