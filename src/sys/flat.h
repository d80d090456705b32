/* SPDX-License-Identifier: MIT */
/* Inlining of the functions that each job runs through. */
#ifndef RNL_FLAT_H
#define RNL_FLAT_H

/*
 * Inlines all callees that the function's file defines.  A plain job takes some tens of
 * instructions; calls, and checks that the caller had made already, added a fifth.
 */
#define RNL__FLAT __attribute__((flatten))

#endif
