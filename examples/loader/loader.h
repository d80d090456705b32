/* SPDX-License-Identifier: MIT */
/*
 * loader: threads read shards ahead of a device that computes.
 *
 *	loader.c	the options, the passes, the report, the picture
 *	ring.c		the readers, the batches in flight, the jobs
 *	shards.c	the files: writing, opening, reading
 *	device.cu	the kernels; device.c: without nvcc
 */
#ifndef LOADER_H
#define LOADER_H

#include <signal.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

#define READERS_MAX 64
#define AHEAD_MAX 64
#define TEXT 512		/* bytes of an error's text */

/* ---- shards.c ------------------------------------------------------------ */

struct record {
	uint32_t magic, shard, index;
	uint32_t sum;			/* sum_words() of the words */
	uint32_t words[];		/* to the end of the record */
};

struct shard {
	char *file;
	int fd;
	uint32_t id, nr;		/* nr: its number of records */
	uint64_t first;			/* number of its first record, over all shards */
};

struct shards {
	struct shard *list;
	unsigned nr;
	uint32_t bytes;			/* bytes of a record */
	uint64_t nr_records;
};

/* Writes @nr shards of @records records to a directory.  Dies on an error. */
void shards_make(const char *directory, unsigned nr, uint32_t records, uint32_t bytes,
		 uint32_t seed);

/* Opens all shards of the directories.  Dies if there are none, or one is invalid. */
void shards_open(struct shards *s, char **directories, unsigned nr);
void shards_close(struct shards *s);
void shards_drop_cache(const struct shards *s);	/* the next reads come from the disk */

/* Reads a record.  @wrong: receives an error text.  Returns 0 or a negative errno. */
int shards_read(const struct shards *s, uint64_t record, void *to, const char **wrong);

/* Writes "FILE at OFFSET: @what" to @error. */
void shards_complain(const struct shards *s, uint64_t record, const char *what, char *error);

/* ---- the kernel ---------------------------------------------------------- */

/*
 * The consumer's work: each word goes through @rounds steps of a linear generator, and is added
 * with an odd weight.  All arithmetic is linear modulo 2^32, so the sum after @rounds steps follows
 * from the sum before them: one multiplication checks any amount of work.
 */
struct compute_args {
	const uint8_t *records;
	uint32_t *differences;		/* pinned: one per record; 0: its sum is right */
	uint32_t bytes, rounds;
	uint32_t a, c;			/* expected sum: a * sum of the record + c */
};
extern const struct rnl_kernel compute_kernel;
void compute_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

#define COMPUTE_A 1664525u
#define COMPUTE_C 1013904223u
#define COMPUTE_THREADS 256

SHARED uint32_t words_in(uint32_t bytes)
{
	return (bytes - (uint32_t)sizeof(struct record)) / 4;
}

SHARED uint32_t sum_words(const uint32_t *words, uint32_t nr, uint32_t rounds, uint32_t first,
			  uint32_t step)
{
	uint32_t sum = 0;

	for (uint32_t i = first; i < nr; i += step) {
		uint32_t word = words[i];

		for (uint32_t r = 0; r < rounds; r++)
			word = word * COMPUTE_A + COMPUTE_C;
		sum += (2 * i + 1) * word;
	}
	return sum;
}

SHARED const struct record *record_of(const struct compute_args *args, uint32_t i)
{
	return (const struct record *)(args->records + (size_t)i * args->bytes);
}

SHARED uint32_t difference(const struct compute_args *args, uint32_t i, uint32_t sum)
{
	return sum - (args->a * record_of(args, i)->sum + args->c);
}

/* ---- ring.c -------------------------------------------------------------- */

struct span {
	uint64_t begin, end;		/* ns */
};

struct read {
	struct span span;
	unsigned reader;
};

struct loader {
	const char *device, *make, *svg;	/* make, svg: NULL if not given */
	unsigned epochs, batch, ahead, nr_readers, stall;
	uint32_t rounds, seed;
	int cold;
	unsigned make_shards, make_records, make_kb;

	struct rnl_device_info info;
	struct rnl_pool *pool;
	struct shards shards;
	uint64_t nr_batches, batches_of_epoch;

	/* Times of the last pass. */
	struct span *copies, *computes;	/* per batch, device's clock; pinned */
	struct read *reads;		/* per record, host's clock; NULL: not needed */
};

enum { READING = 1, COMPUTING = 2 };

struct pass {
	const char *name;
	unsigned what;			/* READING, COMPUTING, or both */
	double ms;
	uint64_t begin;			/* by the host's clock */
};

/* Returns the number of records in a batch. */
unsigned batch_size(const struct loader *l, uint64_t batch);

void ring_begin(struct loader *l);
void ring_end(void);

/* Runs a pass.  Dies on an error of a reader or a job, and on Ctrl-C. */
void ring_run(const struct loader *l, struct pass *pass);

/* Returns the device's clock minus the host's. */
int64_t ring_clock_offset(void);

SHARED_END
#endif /* LOADER_H */
