/* SPDX-License-Identifier: MIT */
/*
 * buckets: all-reduces the gradient buckets of data-parallel training.
 *
 *	buckets.c	the options, the report
 *	runs.c		the jobs: computing, all-reduces, the barriers between them
 *	values.c	the buckets' values, and the serial reference of their sums
 *	picture.c	the timeline
 *	watch.c		ends the process if it makes no progress
 *	mpi.c		the processes that mpirun starts, and MPI's all-reduce; alone.c: without MPI
 *	nccl.c		NCCL's all-reduce; no_nccl.c: without NCCL
 *	by_hand.c	--by-hand: streams, events and NCCL without a pool
 *	adds.c		the all-reduce of one process on host devices
 *	device.cu	the kernel; device.c: without nvcc
 *
 * A *rank* is a device of this or another process that computes gradients.
 */
#ifndef BUCKETS_H
#define BUCKETS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/hold.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

#define BUCKETS_MAX 256u
#define RANKS_MAX 4096u		/* with more ranks, floats cannot hold the sums exactly */
#define REPEAT_MAX 99u
#define TEXT 256		/* bytes of a message */

struct buckets;
struct reduce;

/* A way to sum the ranks' buckets. */
struct transport {
	const char *name;
	bool one_reducer;	/* the first device's reducer serves all devices of the process */
	void (*begin)(struct buckets *b);
	/* Issues the all-reduce, in a job on the reducer.  Returns 0 or a negative errno. */
	int (*reduce)(struct buckets *b, struct reduce *r);
	/* Drives a run's all-reduces to their end, on the main thread.  NULL: not needed. */
	void (*progress)(struct buckets *b);
	/* Returns true if the transport failed; @text: the error.  Called by any thread. */
	bool (*failed)(char text[TEXT]);
	void (*end)(void);
};

/* NULL: the program was built without it. */
extern const struct transport *const mpi_transport, *const nccl_transport;
extern const struct transport adds_transport;

struct span {
	uint64_t begin, end;		/* ns, by the device's clock */
};

/* The options that must be equal in all processes. */
struct settings {
	uint32_t nr, bytes;		/* number of buckets per rank; bytes of a bucket */
	uint32_t us, rounds, repeat;
	uint32_t nr_devices;		/* per process */
	uint32_t naive, by_hand, cuda;	/* 0 or 1 */
};

struct buckets {
	struct settings set;
	const char *device, *svg;	/* svg: NULL: no picture */
	uint32_t start, timeout;	/* s */
	bool mpi;

	struct rnl_device_info info;	/* of the first device */
	struct rnl_pool *pool;
	const struct transport *transport;
	unsigned process, nr_processes, nr_ranks;
	uint32_t nr_words;		/* words per bucket */
	uint32_t a, c;			/* `rounds` steps map a word to a * word + c */
	float *memory[RNL_DEVICES_MAX];	/* all buckets of a device, contiguous */
	unsigned nr_runs;		/* each run has different values */
};

SHARED float *bucket_of(const struct buckets *b, unsigned device, unsigned bucket)
{
	return b->memory[device] + (size_t)bucket * b->nr_words;
}

SHARED unsigned rank_of(const struct buckets *b, unsigned device)
{
	return b->process * b->set.nr_devices + device;
}

/* ---- the kernel ---------------------------------------------------------- */

/* Fills a bucket with compute_value() of each index.  The rounds set the amount of work. */
struct compute_args {
	float *bucket;
	uint32_t nr_words, rank, shift, rounds;
};
extern const struct rnl_kernel compute_kernel;
void compute_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

#define COMPUTE_A 1664525u
#define COMPUTE_C 1013904223u
#define COMPUTE_THREADS 256u
#define COMPUTE_WORDS 4u	/* per thread: few, for many thread blocks, as in real layers */

SHARED uint32_t seed_of(uint32_t i, uint32_t rank)
{
	return i * 2654435761u + rank * 0x9e3779b9u;
}

/* Returns an integer below 1277: sums of such floats are exact in any order. */
SHARED float value_of(uint32_t word, uint32_t shift)
{
	return (float)((word >> 24) + shift);
}

SHARED float compute_value(uint32_t i, const struct compute_args *args)
{
	uint32_t word = seed_of(i, args->rank);

	for (uint32_t r = 0; r < args->rounds; r++)
		word = word * COMPUTE_A + COMPUTE_C;
	return value_of(word, args->shift);
}

/* ---- values.c ------------------------------------------------------------ */

/* Returns the run's addend for a bucket's words.  It makes sums of an earlier run wrong. */
static inline uint32_t shift_of(unsigned run, unsigned bucket)
{
	return (bucket + 7 * run) % 1021;
}

struct compute_args compute_args_of(const struct buckets *b, unsigned device, unsigned bucket);
struct rnl_dim compute_grid_of(const struct buckets *b);

/* Computes the expected sums for set.rounds rounds on one CPU. */
void values_begin(struct buckets *b);
void values_end(struct buckets *b);

/* Dies unless all buckets of this process hold the sums over all ranks.  @what: the run. */
void values_check(struct buckets *b, const char *what);

/* ---- runs.c -------------------------------------------------------------- */

enum way { COMPUTING, REDUCING, NAIVE, OVERLAPPED, BY_HAND, NR_WAYS };
extern const char *const way_names[NR_WAYS];

struct reduce {
	struct rnl_job job;
	struct rnl_barrier before;	/* the jobs that must be issued first */
	struct buckets *b;
	unsigned device, bucket;
	struct span *span;			/* NULL: the run is not drawn */
	struct rnl_hold hold;			/* used if the transport has progress() */
};

/* Times of each bucket in one run; pinned. */
struct spans {
	struct span (*computes)[BUCKETS_MAX], (*reduces)[BUCKETS_MAX];	/* per device */
};

void runs_begin(struct buckets *b);
void runs_end(void);

/* Returns the all-reduce of a device's bucket. */
struct reduce *reduce_of(unsigned device, unsigned bucket);

/*
 * Does one run, together with the other processes.  @spans: NULL: the run is not drawn.
 * Returns the run's milliseconds on this process.  Dies on an error.
 */
double runs_go(struct buckets *b, enum way way, const struct spans *spans);

/* ---- by_hand.c ----------------------------------------------------------- */

/* The overlapped run with CUDA streams, events and threads, without runnel. */
void by_hand_begin(struct buckets *b);
void by_hand_end(void);
double by_hand_go(struct buckets *b);

/* ---- processes: mpi.c or alone.c ------------------------------------------ */

/* Sets b->process and b->nr_processes. */
void processes_begin(struct buckets *b);
void processes_end(void);

/* Returns the device of this process.  @text: a buffer for the name. */
const char *processes_device(const char *device, char text[16]);

/* Dies if these bytes differ between processes.  @what: for the error message. */
void processes_agree(const void *bytes, size_t size, const char *what);

void processes_meet(void);			/* returns when all processes have called it */
void processes_give(void *bytes, size_t size);	/* broadcasts process 0's bytes */
void processes_max(double *values, unsigned nr); /* replaces values by their maxima */

/* ---- watch.c ------------------------------------------------------------- */

/*
 * Starts the thread that ends the process if an expected event does not happen in time.  The thread
 * calls _exit(), because MPI, NCCL or CUDA may never return to a thread that waits in them.
 */
void watch_begin(void);
/* Sets the time limit.  Messages name @option, the option that sets the limit. */
void watch_limit(const char *option, unsigned seconds);
void watch_rank(unsigned rank);	/* sets the rank that messages name */
void watch_transport(const struct transport *transport);	/* transport to check; NULL: none */

/* Begins to wait for @what (for the message), and restarts the time limit. */
__attribute__((format(printf, 1, 2))) void watch_expect(const char *what, ...);
void watch_rest(void);		/* ends the wait: this process computes */

/* ---- picture.c ----------------------------------------------------------- */

void picture_spans(struct buckets *b, struct spans *spans);	/* allocates their memory */
void picture_draw(const struct buckets *b, const struct spans spans[2], const char *verdict);

SHARED_END
#endif /* BUCKETS_H */
