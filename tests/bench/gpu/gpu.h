/* SPDX-License-Identifier: MIT */
/*
 * Work on the GPU, shared by hand-written code and runnel's jobs: J, other kernels, memory, and
 * calls that end the process if they fail.
 *
 * DESIGN
 *	Kernels, and code that must be compiled with them, are in kernels.cu; double.c replaces it
 *	on the double of the CUDA runtime. All else is C, and names the stream in each call, so that
 *	no compiler flag changes its meaning.
 */
#ifndef GPU_CUDA_H
#define GPU_CUDA_H

#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/types.h>

#include <runnel/batch.h>
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

#define GPU_WORDS 1024		/* words of J: 4 KB */
#define GPU_A 1664525u
#define GPU_C 1013904223u

#define GPU_KERNELS 5		/* kernels that J may have; the default is the first */
#define GPU_ROUND UINT32_MAX	/* as J's kernel: a round of gpu_issue_rounds() */
#define GPU_SIZES_MAX 4

/* Returns the result of J's kernel for word i of its memory. */
GPU_SHARED uint32_t gpu_word(uint32_t kernel, uint32_t x, uint32_t i)
{
	const uint32_t round = x * GPU_A + GPU_C;

	return kernel == GPU_ROUND ? round : (round ^ i) + kernel * GPU_C;
}

/* The memory of one J: page-locked words in and out, and the device's words. */
struct gpu_slot {
	uint32_t *in, *out, *dev;
	uint32_t nr_words, kernel;
	uint32_t seq;			/* number of the last J */
};

/* The shape of J: slot n has size n and kernel n, modulo their numbers. */
struct gpu_shape {
	unsigned nr_sizes, nr_kernels;
	uint32_t sizes[GPU_SIZES_MAX];	/* in words; multiples of GPU_WORK_THREADS */
};

/* ---- kernels.cu ---------------------------------------------------------- */

/* A function that issues work for a slot to a stream. */
typedef cudaError_t gpu_issue_fn(const struct gpu_slot *slot, cudaStream_t stream);

gpu_issue_fn gpu_issue_j;	/* words in, kernel, words out */
gpu_issue_fn gpu_issue_launch;	/* only J's kernel */
gpu_issue_fn gpu_issue_empty;	/* a kernel that does nothing */

/*
 * Issues a kernel whose blocks run for @ns. @stamps: page-locked, gets the device's nanoseconds at
 * the first block's start and end, or NULL.
 */
cudaError_t gpu_issue_spin(unsigned blocks, unsigned threads, uint64_t ns, uint64_t *stamps,
			   cudaStream_t stream);
struct gpu_spin {
	uint64_t ns, *stamps;
};
extern const struct rnl_kernel *const gpu_spinner;	/* its kernel */

/* The same, until *@over, which is page-locked, is not 0, or for @ns. */
cudaError_t gpu_issue_until(unsigned blocks, unsigned threads, const uint32_t *over, uint64_t ns,
			    uint64_t *stamps, cudaStream_t stream);

/* Issues out[i] = in[i] after @rounds of x = x * GPU_A + GPU_C. */
cudaError_t gpu_issue_rounds(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds,
			     cudaStream_t stream);

/* Issues gpu_issue_rounds() of one round for J of 4 KB; its kernel then writes @value to the @flag. */
cudaError_t gpu_issue_flagged(const struct gpu_slot *slot, uint32_t *flag, uint32_t value,
			      cudaStream_t stream);

/* J's kernels for rnl_launch(). A thread computes one word. */
struct gpu_work_args {
	uint32_t *words;
};
extern const struct rnl_kernel *const gpu_works[GPU_KERNELS];
#define GPU_WORK_THREADS 256

#define GPU_MIX 4

/* Arguments of a kernel of one thread, which reads words, runs for @ns, and writes a word. */
struct gpu_mix {
	const uint32_t *in[GPU_MIX];	/* NULL: none */
	uint32_t *out;			/* gets gpu_mixed(@seed plus all inputs) */
	uint32_t seed;
	uint64_t ns;
};

GPU_SHARED uint32_t gpu_mixed(uint32_t sum)
{
	return sum * GPU_A + GPU_C;
}

cudaError_t gpu_issue_mix(const struct gpu_mix *mix, cudaStream_t stream);

#define GPU_PIECE_WORDS 3
#define GPU_PIECES_MAX 1024		/* one block has a thread for each */
#define GPU_RESIDENT_ENDS UINT32_MAX	/* as a piece's number: the kernel ends */

/* Requests and answers of a resident kernel: one access moves a piece with its number. */
struct gpu_piece {
	uint32_t words[GPU_PIECE_WORDS];
	uint32_t seq;			/* number of the request */
} __attribute__((aligned(16)));

struct gpu_mailbox {
	struct gpu_piece *in, *out;	/* page-locked */
	uint32_t nr;			/* pieces of a request, and of its answer */
	/* With leases: */
	uint32_t *next;			/* device memory: number of the next request */
	uint32_t *begun;		/* page-locked: number of the last lease that began */
	uint64_t lease_ns;
};

/* Issues a kernel that answers requests, a round of each word, from number @seq on until the end. */
cudaError_t gpu_issue_resident(const struct gpu_mailbox *box, uint32_t seq, cudaStream_t stream);

/* The same by lease number @lease, which ends after its time; the next lease goes on. */
cudaError_t gpu_issue_lease(const struct gpu_mailbox *box, uint32_t lease, cudaStream_t stream);

/* Makes a round of each word of a request. */
extern const struct rnl_request_kernel gpu_round_each;

#define GPU_MOVES 32

/* Arguments of a kernel that copies, with a block of GPU_WORK_THREADS threads for each copy. */
struct gpu_moves {
	uint32_t nr_words[GPU_MOVES];	/* of each copy; multiples of 4 */
	uint32_t *dst[GPU_MOVES];
	const uint32_t *src[GPU_MOVES];
};
extern const struct rnl_kernel *const gpu_mover;

cudaError_t gpu_device_get(void **memp, size_t bytes);
/* Turns on or off a GPU's access to its peer's cudaMalloc() memory, for kernels and copies. */
cudaError_t gpu_reach(int ordinal, int peer, bool on);
cudaError_t gpu_event_sync(cudaEvent_t event);
const char *gpu_error_text(cudaError_t code);

/* rnl_job_init(), called from a unit that includes runnel/cuda.h. */
int gpu_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job));

/* ---- gpu.c --------------------------------------------------------------- */

/* Ends the process if a call of CUDA failed. */
void gpu_ok(cudaError_t code, const char *what);

/* Only calls rnl_setup(): before CUDA, and before other threads. */
void gpu_setup(void);

/* Called next in the process of a part; and in each of its threads. */
void gpu_begin(int ordinal);
void gpu_enter(int ordinal);

/* Returns the thread's default stream, or a new non-blocking stream. */
cudaStream_t gpu_stream(enum rnl_stream_kind kind, bool urgent);
void gpu_stream_end(cudaStream_t stream);

void *gpu_pinned(size_t bytes);		/* zeroed */
void *gpu_memory(size_t bytes);		/* device memory */
cudaEvent_t gpu_event(unsigned flags);

/* Returns a driver's function. */
void *gpu_driver(const char *name, unsigned version);

/* Calls the driver's cuStreamWriteValue32. */
void gpu_stream_write(cudaStream_t stream, uint32_t *word, uint32_t value);

/* Makes slots for J of 4 KB, and allocates memory for them. */
void gpu_slots(struct gpu_slot *slots, size_t nr, size_t stride);

/*
 * Makes slots for another J; @pinned has space for 2 * @nr of its largest size, first all inputs;
 * @dev for @nr.
 */
void gpu_slots_in(struct gpu_slot *slots, size_t nr, size_t stride, const struct gpu_shape *shape,
		  uint32_t *pinned, uint32_t *dev);
uint32_t gpu_largest(const struct gpu_shape *shape);	/* in words */

/* Launches each kernel once, because CUDA loads it then. */
void gpu_warm_up(void);

/* Makes a pool with these attributes; @others has more, the rest are defaults. */
struct rnl_pool *gpu_pool(const char *device, enum rnl_stream_kind kind, unsigned nr_workers,
			  const struct rnl_pool_attr *others);

/* Returns the device name of a pool of @nr GPUs; valid until the next call. */
const char *gpu_names(const struct bench_options *opt, unsigned first, unsigned nr);

/* Returns the median of a line's variant of BENCH_OTHER. */
double gpu_other(const struct bench_line *line, const char *variant);

/*
 * Notes how a line's best figures of all GPUs, runnel's and another @side's, compare with figures
 * of one GPU, which are BENCH_OTHER.  Sets the goal if it is BENCH_OF_SCALING.
 */
void gpu_scales(struct bench_line *line, unsigned nr_gpus, const char *one, enum bench_side side,
		const char *side_one);

/* Ends a row whose struct begins with the pool. */
void gpu_row_end(void *arg, struct bench_line **lines);

/* Prepare the input of the next J, and check its output. */
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

/* Ends the process if the output is wrong. */
void gpu_check(const struct gpu_slot *slot);
void gpu_check_all(const struct gpu_slot *slot);	/* every word, if the slot was used */

/* ---- mps.c ----------------------------------------------------------- */

struct gpu_mps {
	char directory[128];		/* CUDA_MPS_PIPE_DIRECTORY of a client */
	pid_t shell;
	int hold;			/* the daemon ends when no process has this open */
};

/* Starts MPS's control daemon.  Returns false, and why, if there is none. */
bool gpu_mps_start(struct gpu_mps *mps, char *why, size_t bytes);
void gpu_mps_stop(struct gpu_mps *mps);

#ifdef __cplusplus
}
#endif
#endif
