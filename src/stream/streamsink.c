/*
 * streamsink.c -- what the engine tells the stream while it runs (nvm/sink.h), and in recovery.
 *
 *	zen.stream		hears of
 *	off				nothing
 *	logical			transactions: their records are kept in the tail slot (streamtail.c)
 *	replica			these, and all that changes in the pool (streamcopy.c)
 */
#include "stream/streamsink.h"

#include "access/xact.h"
#include "access/xlog.h"
#include "base/fault.h"
#include "replication/syncrep.h"
#include "replication/walsender.h"
#include "stream/streamcopy.h"
#include "stream/streamlog.h"
#include "stream/streamtail.h"

/* ---------- a transaction ---------- */

/* Is the commit to wait for a synchronous standby, or for a subscriber that has its rows? */
static bool
streamsink_waits(void)
{
	if (!zen_copies() && zen_streamlog_kept_len() == 0)
		return false;
	return SyncRepRequested() && SyncRepStandbyNames != NULL && SyncRepStandbyNames[0] != '\0';
}

/* LP may decide about what NVM can keep until the WAL has it. */
static int64
streamsink_begin(uint32 nversions, Size bytes, bool spilled)
{
	if (zen_streamlog_is_beyond() || streamsink_waits() ||
		(zen_copies() && (spilled || !zen_copy_is_one_record(nversions, bytes))))
		return ZEN_SINK_BY_RECORD;
	return zen_streamtail_begin(nversions, bytes);
}

static bool
streamsink_decide(uint32 region, uint64 cts, uint64 full_xid, uint32 kind, ZenSlot slot)
{
	if (slot != InvalidZenSlot)
		zen_streamtail_write(slot, region, cts, full_xid);
	if (!zen_copies())
		return false;
	zen_copy_decide(region, cts, full_xid, kind, slot);
	return true;
}

static void
streamsink_settle(ZenSlot slot)
{
	zen_streamtail_keep(slot, XactLastCommitEnd);
}

static void
streamsink_end(void)
{
	zen_streamlog_reset();
	zen_copy_forget();
}

void
zen_streamsink_install(void)
{
	if (zen_stream == ZEN_STREAM_OFF)
		return;
	zen_sink.begin = streamsink_begin;
	zen_sink.decide = streamsink_decide;
	zen_sink.settle = streamsink_settle;
	zen_sink.subcommit = zen_streamlog_subcommit;
	zen_sink.subabort = zen_streamlog_subabort;
	zen_sink.end = streamsink_end;
	if (zen_copies())
		zen_copy_install(&zen_sink);
}

/* ---------- recovery ---------- */

void
zen_streamsink_committed(void (*find_tail) (void))
{
	if (find_tail != NULL)
		zen_copy_recovering();
	if (find_tail != NULL && zen_streamtail_expected())
	{
		find_tail();
		if (!ZEN_FAULT(R18_TAIL_LATE))
			zen_streamtail_log();
	}
	if (!ZEN_FAULT(R18_PAGES_LATE))
		zen_copy_pages();
}

void
zen_streamsink_recovered(void)
{
	zen_copy_recovered();
	if (ZEN_FAULT(R18_TAIL_LATE) && zen_streamtail_expected())
		zen_streamtail_log();
	zen_streamtail_recover();
}
