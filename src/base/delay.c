/*
 * delay.c -- a calibrated spin.
 *
 * Reading a clock costs as much as the delays that are wanted.  So the processor's pause instruction is timed once, and
 * a delay is a number of pauses.  Processes inherit the measured time by fork.
 */
#include "base/delay.h"

#include "portability/instr_time.h"
#include "storage/s_lock.h"

#define TRIES	20
#define ROUNDS	2000

static double rounds_per_ns = 0;

static void
spin(uint64 rounds)
{
	for (uint64 i = 0; i < rounds; i++)
		SPIN_DELAY();
}

void
zen_delay_calibrate(void)
{
	/* the fastest of several: the others were interrupted */
	for (int i = 0; i < TRIES; i++)
	{
		instr_time	begin,
					end;

		INSTR_TIME_SET_CURRENT(begin);
		spin(ROUNDS);
		INSTR_TIME_SET_CURRENT(end);
		INSTR_TIME_SUBTRACT(end, begin);
		rounds_per_ns = Max(rounds_per_ns, ROUNDS / (INSTR_TIME_GET_DOUBLE(end) * 1e9));
	}
}

void
zen_delay(uint64 ns)
{
	Assert(rounds_per_ns > 0);
	spin((uint64) (ns * rounds_per_ns) + 1);
}
