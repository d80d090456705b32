/* SPDX-License-Identifier: MIT */
/*
 * NVTX ranges around jobs' functions, for tools such as Nsight Systems.
 *
 * DESIGN
 *	A tool is attached if NVTX_INJECTION64_PATH, which NVTX itself reads, names its library.
 *	Without a tool a worker has no ranges, and a job costs one look for them.  A range has its
 *	function's name, which is looked up when a worker first meets the function.  A library
 *	that was built without NVTX's header has no ranges.
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
