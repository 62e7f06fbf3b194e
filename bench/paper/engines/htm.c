/*
 * htm.c -- hardware transactional memory (Intel's RTM), and what replaces it where a transaction aborts.
 *
 * As DBX's fallback handler: a region is tried as a hardware transaction, as often as the processor says that another
 * try may help, and then runs under one lock.  A hardware transaction reads this lock, so it aborts when somebody takes
 * it.
 *
 * Some processors show RTM and abort each transaction: a microcode update has switched it off.  There all regions run
 * under the lock.  So they do where RTM is not shown.
 */
#include "htm.h"

#include <cpuid.h>
#include <immintrin.h>
#include <sched.h>

#include "port/atomics.h"

#define MAX_TRIES	8

__thread HtmCounters htm_counters;

static __thread bool in_hardware;
static pg_atomic_uint32 lock;	/* static, so 0 */

static bool
has_rtm(void)
{
	unsigned int a,
				b,
				c,
				d;

	return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (b & bit_RTM) != 0;
}

/* True inside of a hardware transaction. */
__attribute__((target("rtm")))
static bool
begin_in_hardware(void)
{
	for (int i = 0; i < MAX_TRIES; i++)
	{
		unsigned int status;

		while (pg_atomic_read_u32(&lock) != 0)
			sched_yield();
		status = _xbegin();
		if (status == _XBEGIN_STARTED)
		{
			if (pg_atomic_read_u32(&lock) == 0)
				return true;
			_xabort(0xff);
		}
		htm_counters.aborts++;
		if ((status & (_XABORT_RETRY | _XABORT_EXPLICIT)) == 0)
			break;
	}
	return false;
}

__attribute__((target("rtm")))
static void
end_in_hardware(void)
{
	_xend();
}

static void
take_lock(void)
{
	uint32		expected = 0;

	while (!pg_atomic_compare_exchange_u32(&lock, &expected, 1))
	{
		expected = 0;
		sched_yield();
	}
	htm_counters.fallbacks++;
}

void
htm_enter(void)
{
	static __thread int usable = -1;

	if (usable < 0)
		usable = has_rtm();
	in_hardware = usable && begin_in_hardware();
	if (!in_hardware)
		take_lock();
}

void
htm_leave(void)
{
	if (!in_hardware)
	{
		pg_write_barrier();
		pg_atomic_write_u32(&lock, 0);
		return;
	}
	end_in_hardware();
	htm_counters.commits++;
}
