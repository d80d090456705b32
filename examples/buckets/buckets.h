/* SPDX-License-Identifier: MIT */
/*
 * buckets: the gradient buckets of data-parallel training.
 *
 *	buckets.c	the options, the report
 *	runs.c		the jobs: computing, all-reduces, the barriers between them
 *	values.c	what buckets are filled with, and the serial reference of their sums
 *	picture.c	the timeline
 *	watch.c		ends the process when nothing moves
 *	mpi.c		the processes that mpirun starts, and the all-reduce of MPI; alone.c: without MPI
 *	nccl.c		the all-reduce of NCCL; no_nccl.c: without NCCL
 *	by_hand.c	for --by-hand: streams, events and NCCL, and no pool
 *	adds.c		the all-reduce of one process on host devices
 *	device.cu	the kernel; device.c: without nvcc
 *
 * A *rank* is a device that computes gradients of its own: of this process or of another one.
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
#define RANKS_MAX 4096u		/* more, and floats cannot hold the sums exactly */
#define REPEAT_MAX 99u
#define TEXT 256		/* bytes of a message */

struct buckets;
struct reduce;

/* How the ranks' buckets are added up. */
struct transport {
	const char *name;
	bool one_reducer;	/* the first device's reducer works for all devices of the process */
	void (*begin)(struct buckets *b);
	/* In a job on the device's reducer: issues the all-reduce.  Return: 0 or a negative errno. */
	int (*reduce)(struct buckets *b, struct reduce *r);
	/* On the main thread, until all all-reduces of a run are over.  NULL: they need none. */
	void (*progress)(struct buckets *b);
	/* The watch asks.  Return: whether the transport has failed; @text says how. */
	bool (*failed)(char text[TEXT]);
	void (*end)(void);
};

/* NULL: this program was built without it. */
extern const struct transport *const mpi_transport, *const nccl_transport;
extern const struct transport adds_transport;

struct span {
	uint64_t begin, end;		/* ns, by the device's clock */
};

/* What the options say.  The settings of all processes are equal. */
struct settings {
	uint32_t nr, bytes;		/* buckets of a rank; of a bucket */
	uint32_t us, rounds, repeat;
	uint32_t nr_devices;		/* of a process */
	uint32_t naive, by_hand, cuda;	/* 0 or 1 */
};

struct buckets {
	struct settings set;
	const char *device, *svg;	/* svg: NULL: none */
	uint32_t start, timeout;	/* s */
	bool mpi;

	struct rnl_device_info info;	/* of the first device */
	struct rnl_pool *pool;
	const struct transport *transport;
	unsigned process, nr_processes, nr_ranks;
	uint32_t nr_words;		/* of a bucket */
	uint32_t a, c;			/* what `rounds` steps make of a word: a * word + c */
	float *memory[RNL_DEVICES_MAX];	/* all buckets, one behind the other */
	unsigned nr_runs;		/* each has other values */
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

/* Fills a bucket: word i becomes value_of() of it.  The rounds are the work. */
struct compute_args {
	float *bucket;
	uint32_t nr_words, rank, shift, rounds;
};
extern const struct rnl_kernel compute_kernel;
void compute_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

#define COMPUTE_A 1664525u
#define COMPUTE_C 1013904223u
#define COMPUTE_THREADS 256u
#define COMPUTE_WORDS 4u	/* of a thread: so that many blocks follow each other, as in layers */

SHARED uint32_t seed_of(uint32_t i, uint32_t rank)
{
	return i * 2654435761u + rank * 0x9e3779b9u;
}

/* A whole number below 1277, so that sums of floats are exact in any order. */
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

/* What a run adds to all words of a bucket: so the sums of an earlier run are wrong. */
static inline uint32_t shift_of(unsigned run, unsigned bucket)
{
	return (bucket + 7 * run) % 1021;
}

struct compute_args compute_args_of(const struct buckets *b, unsigned device, unsigned bucket);
struct rnl_dim compute_grid_of(const struct buckets *b);

/* Computes on one CPU what the sums are to be, for set.rounds rounds. */
void values_begin(struct buckets *b);
void values_end(struct buckets *b);

/* Dies unless all buckets of this process's devices are the sums of all ranks.  @what: the run. */
void values_check(struct buckets *b, const char *what);

/* ---- runs.c -------------------------------------------------------------- */

enum way { COMPUTING, REDUCING, NAIVE, OVERLAPPED, BY_HAND, NR_WAYS };
extern const char *const way_names[NR_WAYS];

struct reduce {
	struct rnl_job job;
	struct rnl_barrier before;	/* what has to be on the streams first */
	struct buckets *b;
	unsigned device, bucket;
	struct span *span;			/* NULL: it is not drawn */
	struct rnl_hold hold;			/* of a transport that finishes the job */
};

/* Times of one run, of each bucket; pinned. */
struct spans {
	struct span (*computes)[BUCKETS_MAX], (*reduces)[BUCKETS_MAX];	/* of each device */
};

void runs_begin(struct buckets *b);
void runs_end(void);

/* The all-reduce of a device's bucket. */
struct reduce *reduce_of(unsigned device, unsigned bucket);

/*
 * One run, in step with the other processes.  @spans: NULL: it is not drawn.
 * Return: its ms on this process.  Dies of an error.
 */
double runs_go(struct buckets *b, enum way way, const struct spans *spans);

/* ---- by_hand.c ----------------------------------------------------------- */

/* Streams, events and threads of its own, and no runnel. */
void by_hand_begin(struct buckets *b);
void by_hand_end(void);
double by_hand_go(struct buckets *b);

/* ---- processes: mpi.c or alone.c ------------------------------------------ */

/* Sets b->process and b->nr_processes. */
void processes_begin(struct buckets *b);
void processes_end(void);

/* The device of this process.  @text: may hold its name. */
const char *processes_device(const char *device, char text[16]);

/* Compares bytes of all processes, and dies if some differ.  @what: for the message. */
void processes_agree(const void *bytes, size_t size, const char *what);

void processes_meet(void);			/* returns when all have come */
void processes_give(void *bytes, size_t size);	/* process 0's become everyone's */
void processes_max(double *values, unsigned nr); /* the largest become everyone's */

/* ---- watch.c ------------------------------------------------------------- */

/*
 * Starts the thread that ends the process if what is expected does not come in time.  It exits the
 * hard way, since MPI, NCCL or CUDA may never return to the thread that waits in them.
 */
void watch_begin(void);
/* Sets that time; a message names the @option that it comes from. */
void watch_limit(const char *option, unsigned seconds);
void watch_rank(unsigned rank);	/* of this process, if there are others: messages name it */
void watch_transport(const struct transport *transport);	/* asks it from now on; NULL: none */

/* Waits for something from now on: @what, for the message.  Each call begins a new time. */
__attribute__((format(printf, 1, 2))) void watch_expect(const char *what, ...);
void watch_rest(void);		/* nothing is, as this process is at work */

/* ---- picture.c ----------------------------------------------------------- */

void picture_spans(struct buckets *b, struct spans *spans);	/* gets their memory */
void picture_draw(const struct buckets *b, const struct spans spans[2], const char *verdict);

SHARED_END
#endif /* BUCKETS_H */
