/*
 * mapsave.h -- what a scan of the pool would find, saved at an orderly stop.
 */
#ifndef ZEN_MAPSAVE_H
#define ZEN_MAPSAVE_H

/*
 * zen_mapsave_write -- write zen.map, if zen.save_map wants it; tells the log how it went.
 *
 * Postmaster or single-user process, when no other process is left, all watermarks are persistent and the pool is
 * marked clean.  Writes nothing to the pool.  A failure leaves no file, or one that will not be believed.  Never
 * throws.
 */
extern void zen_mapsave_write(void);

#endif							/* ZEN_MAPSAVE_H */
