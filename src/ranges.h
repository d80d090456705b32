/* SPDX-License-Identifier: MIT */
/*
 * NVTX ranges around jobs' functions, for tools as Nsight Systems.
 *
 * DESIGN
 *	A tool is attached if its library is named in NVTX_INJECTION64_PATH, which NVTX
 *	itself looks at; with none, a worker has no ranges, and that is all that a
 *	job costs.  A range is called what its function is, which is looked up when a
 *	worker meets it first.  Built without NVTX's header there are none.
 */
#ifndef RNL_RANGES_H
#define RNL_RANGES_H

struct rnl__ranges;

/* A worker's own; NULL: no tool is attached, or there is no memory. */
struct rnl__ranges *rnl__ranges_create(void);
void rnl__ranges_destroy(struct rnl__ranges *r);

/* On its thread, around a function. */
void rnl__ranges_begin(struct rnl__ranges *r, const void *fn);
void rnl__ranges_end(void);

#endif
