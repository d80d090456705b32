/* SPDX-License-Identifier: MIT */
/*
 * NVTX ranges around jobs' functions, for tools such as Nsight Systems.
 *
 * DESIGN
 *	A tool is attached if NVTX_INJECTION64_PATH, which NVTX itself reads, names its library.
 *	Without a tool a worker has no ranges, and a job costs one check.  A range has its
 *	function's name, which is looked up when a worker first meets the function.  A library built
 *	without NVTX's header has no ranges.
 */
#ifndef RNL_NVTX_H
#define RNL_NVTX_H

struct rnl__nvtx;

/* Creates a worker's ranges.  Returns NULL if no tool is attached, or there is no memory. */
struct rnl__nvtx *rnl__nvtx_create(void);
void rnl__nvtx_destroy(struct rnl__nvtx *r);

/* Begin and end a range around a function, on the worker's thread. */
void rnl__nvtx_begin(struct rnl__nvtx *r, const void *fn);
void rnl__nvtx_end(void);

#endif
