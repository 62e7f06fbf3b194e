/*
 * delay.h -- waiting for less time than a clock can tell, to stand in for a slower medium.
 *
 * Only builds with -DZEN_TESTING wait; in any other build no code asks for a delay (testing.h).
 */
#ifndef ZEN_DELAY_H
#define ZEN_DELAY_H

#include "base/compat.h"

#ifdef ZEN_TESTING

/*
 * zen_delay_calibrate -- measure the spin that zen_delay() is made of; takes about 2 ms.
 *
 * Before other processes or threads that wait are started: they inherit it.
 */
extern void zen_delay_calibrate(void);

/* zen_delay -- spin for about ns nanoseconds, in steps of the processor's pause, some 10 to 50 ns. */
extern void zen_delay(uint64 ns);

#else

static inline void
zen_delay_calibrate(void)
{
}

static inline void
zen_delay(uint64 ns)
{
}

#endif							/* ZEN_TESTING */

#endif							/* ZEN_DELAY_H */
