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
#ifndef RNL_NVTX_H
#define RNL_NVTX_H

struct rnl__nvtx;

/* A worker's own; NULL: no tool is attached, or there is no memory. */
struct rnl__nvtx *rnl__nvtx_create(void);
void rnl__nvtx_destroy(struct rnl__nvtx *r);

/* On its thread, around a function. */
void rnl__nvtx_begin(struct rnl__nvtx *r, const void *fn);
void rnl__nvtx_end(void);

#endif
