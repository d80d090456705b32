/* SPDX-License-Identifier: MIT */
/*
 * overlap: the same work on one stream and on many, and how much of the copies and
 * the kernels is done at the same time.  What its parts know of each other:
 *
 *	overlap.c		main(): measures and prints
 *	overlap_options.c	the command line
 *	overlap_ways.c		one stream, the legacy stream, rnl_map()
 *	overlap_array.c		what is worked on, and whether it came out right
 *	overlap_kernel.cu	the kernel, and what calls CUDA; .c: without CUDA
 */
#ifndef OVERLAP_H
#define OVERLAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#ifdef __CUDACC__
#define OVERLAP_SHARED static __host__ __device__ __forceinline__
#else
#define OVERLAP_SHARED static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* ---- overlap_options.c --------------------------------------------------- */

enum overlap_order {		/* of the stages, in the jobs of rnl_map() */
	OVERLAP_CHUNK = 1,	/* in, kernel, out: chunk by chunk */
	OVERLAP_COPIES = 2,	/* the copies of two chunks first */
};

struct overlap_options {
	const char *device;
	struct rnl_device_info info;	/* of that */
	enum rnl_stream_kind stream;
	unsigned workers;
	unsigned orders;		/* enum overlap_order, or both */
	unsigned repeat;
	uint64_t nr_chunks;
	size_t chunk_bytes;
	uint64_t halo;			/* words, on both sides */
	uint32_t rounds;		/* of the kernel; 0: to be found */
	bool pageable, in_place, callbacks;
	unsigned callback_step;		/* they look at one word in so many */
	const char *trace;		/* file; NULL: none is wanted */
};

/* Exits after --help, and when something is wrong. */
void overlap_options_parse(struct overlap_options *opt, int argc, char **argv);

#define OVERLAP_SPARSE 1024
#define OVERLAP_ROUNDS_MAX (1 << 24)

/* ---- the work ------------------------------------------------------------ */

/* A chunk's memory on the device; `in` is `out` if the work is done in place. */
struct overlap_buffer {
	uint32_t *in, *out;
};

/* An array of words, in chunks: each goes in, through the kernel, and out again. */
struct overlap_work {
	struct rnl_pool *pool;
	int32_t ordinal;		/* of the device, as CUDA counts them */
	unsigned nr_threads;		/* the pool's workers; and for the legacy stream */
	uint64_t nr_chunks, chunk;	/* chunk: words in one */
	uint32_t *in, *out;		/* the same array if it is done in place */
	uint32_t rounds;		/* of the kernel */
	uint64_t halo;			/* of rnl_map()'s chunks, which the kernel leaves alone */
	bool callbacks;			/* rnl_map() reads and writes by them, and not in memory, */
	unsigned callback_step;		/* one word in so many */
	struct overlap_buffer buffers[RNL_WORKERS_MAX]; /* of each thread */
	/* For the copies out beside copies in: not where those come from and go to. */
	uint32_t *beside;
	uint32_t *beside_buffer;
};

struct overlap_args {
	const uint32_t *in;
	uint32_t *out;			/* may be `in` */
	uint64_t nr;
	uint32_t rounds;
	uint32_t unused;
};

#define OVERLAP_THREADS 256		/* of a block */
#define OVERLAP_BLOCKS 4096		/* of a grid, at most: more than a GPU runs at once */

static inline struct rnl_dim overlap_grid(uint64_t nr)
{
	const uint64_t blocks = (nr + OVERLAP_THREADS - 1) / OVERLAP_THREADS;
	const struct rnl_dim grid = {
		(uint32_t)(blocks < OVERLAP_BLOCKS ? blocks : OVERLAP_BLOCKS), 1, 1
	};

	return grid;
}

/* What the kernel does to a word; no two words become the same. */
#define OVERLAP_A 1664525u
#define OVERLAP_C 1013904223u

OVERLAP_SHARED uint32_t overlap_word(uint32_t x, uint32_t rounds)
{
	for (uint32_t i = 0; i < rounds; i++)
		x = x * OVERLAP_A + OVERLAP_C;
	return x;
}

/* ---- overlap_array.c ----------------------------------------------------- */

/* Gets all memory and puts the input there.  Exits if there is too little. */
void overlap_array_get(struct overlap_work *work, const struct overlap_options *opt,
		       struct rnl_pool *pool);
void overlap_array_put(struct overlap_work *work, const struct overlap_options *opt);

/* Before each time that the work is done. */
void overlap_array_begin(const struct overlap_work *work);

/* How many words of the output are wrong. */
uint64_t overlap_array_wrong(const struct overlap_work *work);

/*
 * The same without an array: makes some words of the input, looks at some of the output;
 * at those alone whose place in the array is a multiple of @step.
 */
void overlap_words_make(uint32_t *words, uint64_t first, uint64_t nr, unsigned step);
uint64_t overlap_words_wrong(const struct overlap_work *work, const uint32_t *words,
			     uint64_t first, uint64_t nr, unsigned step);

/* ---- overlap_ways.c ------------------------------------------------------ */

enum overlap_stage {
	OVERLAP_IN = 1,
	OVERLAP_KERNEL = 2,
	OVERLAP_OUT = 4,
	OVERLAP_ALL = OVERLAP_IN | OVERLAP_KERNEL | OVERLAP_OUT,
};

/* A way to do it; it returns when all is done: 0 or a negative errno. */
typedef int overlap_way_fn(const struct overlap_work *work, unsigned how,
			   struct rnl_map_report *report);

/* On the stream of this thread.  @how: which stages; the report is left alone. */
overlap_way_fn overlap_one_stream;

/* The copies in and out alone, at the same time, on two streams.  @how: nothing. */
overlap_way_fn overlap_both_copies;

/* On CUDA's legacy default stream, by several threads.  @how: nothing. */
overlap_way_fn overlap_legacy;

/* With rnl_map().  @how: its flags. */
overlap_way_fn overlap_map;

/* ---- overlap_kernel.cu, overlap_kernel.c --------------------------------- */

extern const struct rnl_kernel overlap_kernel;

/* Its function for the host device. */
static inline void overlap_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct overlap_args *a = (const struct overlap_args *)args;

	(void)grid;		/* one thread strides over all of it */
	(void)block;
	for (uint64_t i = 0; i < a->nr; i++)
		a->out[i] = overlap_word(a->in[i], a->rounds);
}

/*
 * A thread's share of the chunks on the legacy default stream; waits for it.  Says
 * on standard error what CUDA refused.
 * Return: 0; -ENOTSUP there is no CUDA; -EIO.
 */
int overlap_legacy_share(const struct overlap_work *work, unsigned thread);

#ifdef __cplusplus
}
#endif
#endif /* OVERLAP_H */
