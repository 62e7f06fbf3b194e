/*
 * poolfile.h -- making the pool's file longer.
 */
#ifndef ZEN_POOLFILE_H
#define ZEN_POOLFILE_H

#include "base/compat.h"

/* zen_file_is_zero -- is there nothing but zeroes from one offset to another?  Also if there is nothing. */
extern bool zen_file_is_zero(int fd, Size from, Size to);

/*
 * zen_file_fill_holes -- allocate those of the first `size` bytes that are not allocated, or that are shared with
 * another file; their contents stay.  0, or the number of an error.
 */
extern int	zen_file_fill_holes(int fd, Size size);

/*
 * zen_file_extend -- make the file of the pool that is mapped at base longer: zeroes, allocated and durable on return.
 *
 * The file is `from` bytes long for its pool; what lies behind that is cut off first.  progress is called with the size
 * so far between two steps; it may throw, and if it returns false the extension is given up.  If it fails, false, after
 * a report of that level; the file is as long as before, unless it cannot be cut.  No process uses bytes behind `from`.
 */
extern bool zen_file_extend(int fd, char *base, Size from, Size to, bool (*progress) (Size done), int elevel);

#endif							/* ZEN_POOLFILE_H */
