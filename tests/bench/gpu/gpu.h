/* SPDX-License-Identifier: MIT */
/*
 * What is done on the GPU, by hand-written code and by runnel's jobs alike: J, other
 * kernels, memory, and calls that end the process when they fail.
 *
 * DESIGN
 *	Kernels, and what has to be compiled with them, are in kernels.cu; with
 *	the double of the CUDA runtime double.c stands in for that.  All else is C,
 *	and names the stream in each call, so that no compiler flag changes what
 *	it means.
 */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <runnel/kernel.h>

#include "bench.h"

#ifdef __CUDACC__
#define GPU_SHARED static __host__ __device__ __forceinline__
#else
#define GPU_SHARED static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define GPU_WORDS 1024		/* of J: 4 KB */
#define GPU_A 1664525u
#define GPU_C 1013904223u

#define GPU_KERNELS 5		/* that J may have; the first unless it is said */
#define GPU_SIZES_MAX 4

/* What J's kernel does to word i of its memory. */
GPU_SHARED uint32_t gpu_word(uint32_t kernel, uint32_t x, uint32_t i)
{
	return ((x * GPU_A + GPU_C) ^ i) + kernel * GPU_C;
}

/* What one J needs: page-locked words in and out, and the device's. */
struct gpu_slot {
	uint32_t *in, *out, *dev;
	uint32_t nr_words, kernel;
	uint32_t seq;			/* of the J that it was last used for */
};

/* What J is: the n-th slot has size n and kernel n, by turns. */
struct gpu_shape {
	unsigned nr_sizes, nr_kernels;
	uint32_t sizes[GPU_SIZES_MAX];	/* in words; multiples of GPU_WORK_THREADS */
};

/* ---- kernels.cu ---------------------------------------------------------- */

/* A function that issues something for a slot to a stream. */
typedef cudaError_t gpu_issue_fn(const struct gpu_slot *slot, cudaStream_t stream);

gpu_issue_fn gpu_issue_j;	/* words in, kernel, words out */
gpu_issue_fn gpu_issue_launch;	/* J's kernel alone */
gpu_issue_fn gpu_issue_empty;	/* a kernel that does nothing */

/*
 * A kernel whose blocks hold their places for @ns.  @stamps: page-locked, gets the
 * device's nanoseconds at its first block's start and end; NULL: not wanted.
 */
cudaError_t gpu_issue_spin(unsigned blocks, unsigned threads, uint64_t ns, uint64_t *stamps,
			   cudaStream_t stream);

/* out[i] is in[i] after @rounds of x = x * GPU_A + GPU_C. */
cudaError_t gpu_issue_rounds(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds,
			     cudaStream_t stream);

/* J's kernels for rnl_launch(). A thread does one word. */
struct gpu_work_args {
	uint32_t *words;
};
extern const struct rnl_kernel *const gpu_works[GPU_KERNELS];
#define GPU_WORK_THREADS 256

#define GPU_MOVES 32

/* A kernel that copies, a block of GPU_WORK_THREADS for each. */
struct gpu_moves {
	uint32_t nr_words;		/* that each copies; a multiple of 4 */
	uint32_t *dst[GPU_MOVES];
	const uint32_t *src[GPU_MOVES];
};
extern const struct rnl_kernel *const gpu_mover;

cudaError_t gpu_device_get(void **memp, size_t bytes);
/* Whether kernels and copies of one GPU reach what cudaMalloc() gives on its peer, from now on. */
cudaError_t gpu_reach(int ordinal, int peer, bool on);
cudaError_t gpu_event_sync(cudaEvent_t event);
const char *gpu_error_text(cudaError_t code);

/* rnl_job_init() of a unit that includes runnel/cuda.h. */
int gpu_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/* ---- gpu.c --------------------------------------------------------------- */

/* Ends the process when a call of CUDA's failed. */
void gpu_ok(cudaError_t code, const char *what);

/* rnl_setup(), alone: before CUDA, and before other threads. */
void gpu_setup(void);

/* Then, in the process of a part; and in each of its threads. */
void gpu_begin(int ordinal);
void gpu_enter(int ordinal);

/* The thread's own: its default stream, or a new one that is non-blocking. */
cudaStream_t gpu_stream(enum rnl_stream_kind kind, bool urgent);
void gpu_stream_end(cudaStream_t stream);

void *gpu_pinned(size_t bytes);		/* zeroed */
void *gpu_memory(size_t bytes);		/* the device's */
cudaEvent_t gpu_event(unsigned flags);

/* A call of the driver's. */
void *gpu_driver(const char *name, unsigned version);

/* The driver's cuStreamWriteValue32. */
void gpu_stream_write(cudaStream_t stream, uint32_t *word, uint32_t value);

/* Slots for J of 4 KB, and memory for them. */
void gpu_slots(struct gpu_slot *slots, size_t nr, size_t stride);

/* Slots for another J, in memory for twice, and once, as many of its largest size. */
void gpu_slots_in(struct gpu_slot *slots, size_t nr, size_t stride, const struct gpu_shape *shape,
		  uint32_t *pinned, uint32_t *dev);
uint32_t gpu_largest(const struct gpu_shape *shape);	/* in words */

/* Launches each kernel once: CUDA loads it then. */
void gpu_warm_up(void);

/* A pool with defaults but for these; attr may have others. */
struct rnl_pool *gpu_pool(const char *device, enum rnl_stream_kind kind, unsigned nr_workers,
			  const struct rnl_pool_attr *others);

/* What a pool of the first GPUs is called; until the next call. */
const char *gpu_names(const struct bench_options *opt, unsigned nr);

/*
 * Sets the goal and the note of a line whose hand-written figure is one GPU's.  @times: so many
 * times that can be here, at most; NAN: the ceiling's, or as many as GPUs.
 */
void gpu_scales(struct bench_line *line, unsigned nr_gpus, double times);

/* Ends a row; its struct begins with the pool. */
void gpu_row_end(void *arg, struct bench_line **lines);

/* Gives the J that comes something new to work on; tells whether the right thing came out. */
static inline void gpu_prepare(struct gpu_slot *slot)
{
	slot->seq++;
	slot->in[0] = slot->seq + bench_wrong_result;
	slot->in[slot->nr_words - 1] = ~slot->seq;
}

static inline bool gpu_right(const struct gpu_slot *slot)
{
	const uint32_t last = slot->nr_words - 1;

	return slot->out[0] == gpu_word(slot->kernel, slot->seq, 0) &&
	       slot->out[last] == gpu_word(slot->kernel, ~slot->seq, last);
}

/* Ends the process if not. */
void gpu_check(const struct gpu_slot *slot);
void gpu_check_all(const struct gpu_slot *slot);	/* every word, if it was used */

#ifdef __cplusplus
}
#endif
#endif
