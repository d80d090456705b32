/* SPDX-License-Identifier: MIT */
/*
 * The kernels by which check and bench test a device.
 *
 * DESIGN
 * Each kernel is a host function (kernels_host.c) and a CUDA kernel (kernels.cu; kernels.c is
 * for builds without nvcc).  Words are in pinned memory, which host and device both access,
 * unless a comment says otherwise.  A kernel that waits has a time limit by the device's clock,
 * so an experiment that fails also ends.  In hold, meet, stamp and turns only the first thread
 * works.
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

/* Reports that it runs, waits until the host releases it, and reports why the wait ended. */
struct tool_hold_args {
	uint32_t *words;		/* indexed by enum tool_hold_word */
	uint64_t patience_ns;		/* the longest wait */
};
enum tool_hold_word {
	TOOL_HOLD_RUNS,			/* set when the kernel runs */
	TOOL_HOLD_LET_GO,		/* set by the host to release the kernel */
	TOOL_HOLD_ENDED,		/* enum tool_hold_end, set when the kernel ends */
	TOOL_HOLD_WORDS,
};
enum tool_hold_end { TOOL_HELD = 0, TOOL_WAS_LET_GO, TOOL_RAN_OUT };
extern const struct rnl_kernel tool_hold;

/*
 * Waits until the wanted number of kernels has started, runs on for TOOL_MEET_STAYS_NS, and
 * writes the times of its begin and end.
 */
#define TOOL_MEET_STAYS_NS 200000	/* more than a step of the coarsest clock */
struct tool_meet_args {
	uint32_t *come;			/* count of started kernels, from 0, in device memory */
	uint64_t *stamps;		/* begin and end, in ns of the device's clock */
	uint64_t patience_ns;		/* the longest wait */
	uint32_t wanted;
	uint32_t unused;
};
extern const struct rnl_kernel tool_meet;

/* Writes the device's time. */
struct tool_stamp_args {
	uint64_t *stamp;
};
extern const struct rnl_kernel tool_stamp;

/*
 * Reads the device's clock for run_ns, and counts the gaps between readings, and between this kernel
 * and the one before it: times when other processes had the device.
 */
#define TOOL_TURNS_GAP_NS 100000	/* the least gap; a clock in longer steps is too coarse */
struct tool_turns {
	uint64_t first, last;		/* readings; 0: none */
	uint64_t step_ns;		/* the shortest step of the clock */
	uint64_t gaps, away_ns, longest_ns;
};
struct tool_turns_args {
	struct tool_turns *turns;	/* zeroed before the first kernel */
	uint64_t run_ns;
};
extern const struct rnl_kernel tool_turns;

static inline
#ifdef __CUDACC__
__host__ __device__
#endif
void tool_turns_read(struct tool_turns *turns, uint64_t now)
{
	const uint64_t step = turns->last ? now - turns->last : 0;

	if (!turns->first)
		turns->first = now;
	turns->last = now;
	if (step && (!turns->step_ns || step < turns->step_ns))
		turns->step_ns = step;
	if (step < TOOL_TURNS_GAP_NS)
		return;
	turns->gaps++;
	turns->away_ns += step;
	if (step > turns->longest_ns)
		turns->longest_ns = step;
}

/* Keeps every block busy for `ns`; the first block sets `runs`. */
struct tool_fill_args {
	uint32_t *runs;			/* may be NULL */
	uint64_t ns;
};
extern const struct rnl_kernel tool_fill;

/* Changes as many words as the grid has threads. */
struct tool_words_args {
	uint32_t *words;		/* in device memory */
};
extern const struct rnl_kernel tool_words;

#define TOOL_WORDS_A 1664525u
#define TOOL_WORDS_C 1013904223u

/* ---- the host functions, kernels_host.c ---------------------------------- */

typedef void tool_host_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args);

tool_host_kernel tool_hold_host, tool_meet_host, tool_stamp_host, tool_turns_host, tool_fill_host,
		 tool_words_host;

/* ---- facts that depend on the build, kernels.cu or kernels.c -------------- */

/* True if the kernels are compiled for CUDA, too. */
extern const bool tool_has_cuda_kernels;

/*
 * Gets CUDA's ids of a stream, and of the calling thread's stream 0 in a unit that includes
 * runnel/cuda.h.  Returns 0, a cudaError_t, or -1 if the program was built without nvcc.
 */
int tool_stream_ids(void *stream, uint64_t *id, uint64_t *id_of_0);

/* Returns 1 if CUDA reports the memory as page-locked, 0 if not, -1 if CUDA gives no answer. */
int tool_page_locked(const void *mem);

#ifdef __cplusplus
}
#endif
#endif /* TOOL_KERNELS_H */
