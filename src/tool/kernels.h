/* SPDX-License-Identifier: MIT */
/*
 * The kernels with which check and bench try a device.
 *
 * DESIGN
 * Each is a host function (kernels_host.c) and a CUDA kernel (kernels.cu; kernels.c is for
 * builds without nvcc).  Words are in pinned memory, which host and device both see, unless
 * a comment says otherwise.  A kernel that waits has a patience, by the device's clock, so
 * an experiment that fails ends, too.  The first thread of a grid does the work.
 */
#ifndef TOOL_KERNELS_H
#define TOOL_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Tells that it runs, waits until it is let go, and notes whether it was. */
struct tool_hold_args {
	uint32_t *words;		/* enum tool_hold_word */
	uint64_t patience_ns;
};
enum tool_hold_word {
	TOOL_HOLD_RUNS,			/* set when it runs */
	TOOL_HOLD_LET_GO,		/* set by the host */
	TOOL_HOLD_ENDED,		/* set when it ends: enum tool_hold_end */
	TOOL_HOLD_WORDS,
};
enum tool_hold_end { TOOL_HELD = 0, TOOL_WAS_LET_GO, TOOL_RAN_OUT };
extern const struct rnl_kernel tool_hold;

/*
 * Waits until as many kernels as wanted have come, stays a little, and notes its begin
 * and end.
 */
#define TOOL_MEET_STAYS_NS 200000	/* more than a step of the coarsest clock */
struct tool_meet_args {
	uint32_t *come;			/* the device's memory: 0, counted up */
	uint64_t *stamps;		/* two, in ns of the device's clock */
	uint64_t patience_ns;
	uint32_t wanted;
	uint32_t unused;
};
extern const struct rnl_kernel tool_meet;

/* Notes the device's time. */
struct tool_stamp_args {
	uint64_t *stamp;
};
extern const struct rnl_kernel tool_stamp;

/* Every block keeps its place for `ns`; the first one sets `runs`. */
struct tool_fill_args {
	uint32_t *runs;			/* may be NULL */
	uint64_t ns;
};
extern const struct rnl_kernel tool_fill;

/* Changes as many words as the grid has threads. */
struct tool_words_args {
	uint32_t *words;		/* the device's memory */
};
extern const struct rnl_kernel tool_words;

#define TOOL_WORDS_A 1664525u
#define TOOL_WORDS_C 1013904223u

/* ---- the host functions, kernels_host.c ---------------------------------- */

typedef void tool_host_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args);

tool_host_kernel tool_hold_host, tool_meet_host, tool_stamp_host, tool_fill_host, tool_words_host;

/* ---- what only the unit of the kernels knows ------------------------------ */

/* Whether the kernels are compiled for CUDA, too. */
extern const bool tool_has_cuda_kernels;

/*
 * CUDA's ids of a stream, and of the calling thread's stream 0 in a unit that includes
 * runnel/cuda.h.  Return: 0, a cudaError_t, or -1: built without nvcc.
 */
int tool_stream_ids(void *stream, uint64_t *id, uint64_t *id_of_0);

/* Return: 1 CUDA knows the memory as page-locked; 0 it does not; -1 there is no CUDA. */
int tool_page_locked(const void *mem);

#ifdef __cplusplus
}
#endif
#endif /* TOOL_KERNELS_H */
