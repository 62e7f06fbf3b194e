/*
 * equality.h -- do two values of one type that equal the same value of another type equal each other?
 */
#ifndef ZEN_EQUALITY_H
#define ZEN_EQUALITY_H

#include "base/compat.h"

/*
 * zen_equality_is_exact -- do the values of two types stand in one order of a btree operator family?
 *
 * If so, two values of one type that equal the same value of the other equal each other.  So the key of a unique index
 * that equals a value of the other type is the only one.  True for one type.  Never throws, and looks at no catalog.
 */
extern bool zen_equality_is_exact(Oid family, Oid a, Oid b);

#endif							/* ZEN_EQUALITY_H */
