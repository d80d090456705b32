/* SPDX-License-Identifier: MIT */
/*
 * overlap: the same work on one stream and on many, and the overlap of copies and kernels in time.
 *
 *	overlap.c	options, and the measurement
 *	print.c		the tables
 *	ways.c		the work on one stream, on the legacy stream, and by rnl_map_start()
 *	array.c		the array: its memory, its input, and a check of its output
 *	device.cu	the kernel, and calls of CUDA; device.c: without nvcc
 */
#ifndef OVERLAP_H
#define OVERLAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/trace.h>

#include "../common/shared.h"

SHARED_BEGIN

enum overlap_order {		/* order of the stages in rnl_map_start()'s jobs */
	OVERLAP_CHUNK,		/* in, kernel, out: chunk by chunk */
	OVERLAP_COPIES,		/* the copies of two chunks first */
	OVERLAP_BOTH,		/* both, in separate runs */
};

/* A chunk's memory on the device; `in` equals `out` if the work is done in place. */
struct overlap_buffer {
	uint32_t *in, *out;
};

/* An array of words in chunks: each is copied in, processed by the kernel, and copied out. */
struct overlap {
	/* Options. */
	const char *device;
	enum rnl_stream_kind stream;
	enum overlap_order order;
	unsigned workers;		/* also the number of threads on the legacy stream */
	unsigned repeat;
	uint64_t nr_chunks;
	size_t chunk_bytes;
	uint64_t halo;			/* words on both sides, which the kernel ignores */
	uint32_t rounds;		/* rounds of the kernel */
	bool pageable, in_place;
	unsigned callback_step;		/* callbacks handle one word in each step; 0: none */
	const char *trace;		/* a file; NULL: no trace */

	struct rnl_device_info info;
	struct rnl_pool *pool;
	uint64_t chunk;			/* words */
	uint32_t *in, *out;		/* one array if the work is done in place */
	struct overlap_buffer buffers[PROGRAM_WORKERS_MAX]; /* one per thread */
	uint32_t *beside, *beside_buffer;	/* for copies out during copies in */
};

struct overlap_args {
	const uint32_t *in;
	uint32_t *out;			/* may be `in` */
	uint64_t nr;
	uint32_t rounds;
	uint32_t unused;
};

#define OVERLAP_THREADS 256		/* per block */
#define OVERLAP_BLOCKS 4096		/* per grid at most: more than a GPU runs concurrently */

static inline struct rnl_dim overlap_grid(uint64_t nr)
{
	const uint64_t blocks = (nr + OVERLAP_THREADS - 1) / OVERLAP_THREADS;
	const struct rnl_dim grid = {
		(uint32_t)(blocks < OVERLAP_BLOCKS ? blocks : OVERLAP_BLOCKS), 1, 1
	};

	return grid;
}

/* The kernel's function; it maps different words to different words. */
#define OVERLAP_A 1664525u
#define OVERLAP_C 1013904223u

SHARED uint32_t overlap_word(uint32_t x, uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++)
		x = x * OVERLAP_A + OVERLAP_C;
	return x;
}

/* ---- array.c ------------------------------------------------------------- */

/* Allocates all memory, and fills the input.  Dies if there is too little memory. */
void overlap_array_get(struct overlap *o);
void overlap_array_put(struct overlap *o);

/*
 * Make words of the input, and count wrong words of the output.  Both handle only words whose
 * index in the array is a multiple of @step.
 */
void overlap_words_make(uint32_t *words, uint64_t first, uint64_t nr, unsigned step);
uint64_t overlap_words_wrong(const struct overlap *o, const uint32_t *words, uint64_t first,
			     uint64_t nr, unsigned step);

/* ---- ways.c -------------------------------------------------------------- */

enum overlap_stage {
	OVERLAP_IN = 1,
	OVERLAP_KERNEL = 2,
	OVERLAP_OUT = 4,
	OVERLAP_ALL = OVERLAP_IN | OVERLAP_KERNEL | OVERLAP_OUT,
};

/* Does all of the work, and waits for it.  Returns 0 or a negative errno. */
typedef int overlap_way_fn(const struct overlap *o, unsigned how, struct rnl_map_report *report);

overlap_way_fn overlap_one_stream;	/* on this thread's stream; @how: the stages */
overlap_way_fn overlap_both_copies;	/* the copies in and out, concurrently, on two streams */
overlap_way_fn overlap_legacy;		/* on CUDA's legacy default stream, by several threads */
overlap_way_fn overlap_map;		/* by rnl_map_start(); @how: its flags */

/* ---- print.c ------------------------------------------------------------- */

/* First the stages, then ways to do all of the work, of which rnl_map_start()'s are last. */
enum {
	COPIES_IN, COPIES_OUT, COPIES_BOTH, KERNELS, SERIAL, LEGACY, BY_CHUNK, COPIES_FIRST,
	NR_WAYS,
};

#define OVERLAP_REPEAT_MAX 1000

struct overlap_way {
	const char *name;
	overlap_way_fn *run;		/* NULL: not available, or not selected */
	unsigned how;
	double ms[OVERLAP_REPEAT_MAX];	/* per run */
	double median;
	struct rnl_map_report timed;	/* of one more run, which timing slows down */
};

void overlap_print_work(const struct overlap *o);
void overlap_print_all(const struct overlap *o, const struct overlap_way *ways);
void overlap_print_trace(const struct overlap *o, const struct overlap_way *way,
			 const struct rnl_map_report *own);

/* ---- device.cu, device.c -------------------------------------------------- */

extern const struct rnl_kernel overlap_kernel;

/* The kernel's host function. */
static inline void overlap_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct overlap_args *a = (const struct overlap_args *)args;

	(void)grid;		/* one thread does the work of the whole grid */
	(void)block;
	for (uint64_t i = 0; i < a->nr; i++)
		a->out[i] = overlap_word(a->in[i], a->rounds);
}

/*
 * Does a thread's share of the chunks on the legacy default stream, and waits for it.
 * Returns 0, or -EIO after a message.  NULL: the program was built without nvcc.
 */
extern int (*const overlap_legacy_share)(const struct overlap *o, unsigned thread);

SHARED_END
#endif /* OVERLAP_H */
