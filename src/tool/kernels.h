/* SPDX-License-Identifier: MIT */
/*
 * The kernels with which check and bench try a device.
 *
 * DESIGN
 * Each is a host function (kernels_host.c) beside its CUDA twin (kernels.cu; kernels.c is
 * for builds without nvcc).  Their words are in pinned memory, which host and device both
 * see, unless it says otherwise.  All that wait have a patience, by the device's own
 * clock: an experiment that fails ends, too.  Of each grid, the first thread does it.
 */
#ifndef TOOL_KERNELS_H
#define TOOL_KERNELS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Says that it runs, waits until it is let go, and notes whether it was. */
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
 * Waits until as many kernels as wanted have come, stays a little, and notes when it
 * began and ended.
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

/* Every block keeps its place for so long; the first one says that it runs. */
struct tool_fill_args {
	uint32_t *runs;			/* may be NULL */
	uint64_t ns;
};
extern const struct rnl_kernel tool_fill;

/* As many words as the grid has threads, each made something else. */
struct tool_words_args {
	uint32_t *words;		/* the device's memory */
};
extern const struct rnl_kernel tool_words;

#define TOOL_WORDS_A 1664525u
#define TOOL_WORDS_C 1013904223u

/* ---- the host functions, kernels_host.c ---------------------------------- */

typedef void tool_host_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args);

tool_host_kernel tool_hold_host, tool_meet_host, tool_stamp_host, tool_fill_host, tool_words_host;

/* ---- what has to be asked where the kernels are --------------------------- */

/* Whether they are there for CUDA, too. */
extern const bool tool_has_cuda_kernels;

/*
 * CUDA's identities of a stream, and of stream 0 as jobs of a unit that includes
 * runnel/cuda.h have it, in the calling thread.  0, a cudaError_t, or -1: not CUDA.
 */
int tool_stream_ids(void *stream, uint64_t *id, uint64_t *id_of_0);

/* 1 CUDA knows the memory as page-locked; 0 it does not; -1 CUDA is not there. */
int tool_page_locked(const void *mem);

#ifdef __cplusplus
}
#endif
#endif /* TOOL_KERNELS_H */
