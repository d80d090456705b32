/* SPDX-License-Identifier: MIT */
/* Functions that each job goes through. */
#ifndef RNL_FLAT_H
#define RNL_FLAT_H

/*
 * The compiler inlines what the function calls in its file.  A job without anything special takes
 * some tens of instructions; a fifth as many again went into calls, and into asking for what the
 * caller knew.
 */
#define RNL__FLAT __attribute__((flatten))

#endif
