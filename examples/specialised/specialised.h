/* SPDX-License-Identifier: MIT */
/*
 * specialised: one kernel, plain and warp-specialised, on one stream and on several.
 *
 *	specialised.c	options, and the measurement
 *	ways.c		the jobs of a way, and their preparation and check
 *	words.c		the array: its input, its memory, the serial reference
 *	print.c		the table, and the picture
 *	device.cu	the kernels; bulk.cuh: Hopper's instructions; device.c: without nvcc
 */
#ifndef SPECIALISED_H
#define SPECIALISED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

/*
 * The fingerprint of word i is a polynomial of words i to i + window - 1.  Backup programs split
 * files at places where such fingerprints have a certain form.
 */
#define SPECIALISED_BASE 16777619u
#define SPECIALISED_TILE 2048		/* words that a block processes at a time */
#define SPECIALISED_WINDOW_MAX 256	/* windows are multiples of 4 */
#define SPECIALISED_THREADS 256		/* computing threads per block */
#define SPECIALISED_CLUSTER 2		/* blocks per cluster */
#define SPECIALISED_BYTES_MAX (1ull << 40)
#define SPECIALISED_REPEAT_MAX 99

#define SPECIALISED_TILE_BYTES (SPECIALISED_TILE * sizeof(uint32_t))

struct specialised_args {
	const uint32_t *in;		/* the tiles, and `window` more words */
	uint32_t *out;
	uint64_t *begin, *end;		/* receive the kernel's times; may be NULL */
	uint32_t nr_tiles;		/* a multiple of SPECIALISED_CLUSTER */
	uint32_t mask;			/* tile i & mask is processed in place of tile i */
	uint32_t window;
	uint32_t unused;
};

/* ---- device.cu, device.c ------------------------------------------------- */

extern const struct rnl_kernel specialised_plain;
/* Only usable if specialised_bulk() returns true; they have no host function. */
extern const struct rnl_kernel specialised_ring, specialised_cluster;

void specialised_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

/* Returns true if the device has bulk copies, and this program has code that uses them. */
bool specialised_bulk(const struct rnl_device_info *info);

extern const bool specialised_has_cuda;	/* false: the program was built without nvcc */

/* ---- the program --------------------------------------------------------- */

/* When a job's kernel ran, in ns of the device's clock, and on which worker's stream. */
struct specialised_span {
	uint64_t begin, end;
	int worker;
};

/* A way to do all of the work, or one part of it. */
struct specialised_way {
	const char *name;
	const struct rnl_kernel *kernel; /* NULL: only rnl_copy() */
	bool bulk;			/* the kernel uses bulk copies */
	bool few;			/* few blocks with many tiles each; implied by `bulk` */
	bool one_stream;		/* on one stream, not on all workers' streams */
	bool copies;			/* with copies from and to the host */
	bool in_cache;			/* repeatedly on a few tiles of each slice */
	uint32_t window;		/* 0: use the option */

	bool runs;			/* available on this device, and selected */
	double ms[SPECIALISED_REPEAT_MAX], median;
	struct specialised_span *spans;	/* of one more run */
};

/* First the separate parts, then the ways to do all of the work. */
enum {
	MEMORY_COPIES, MEMORY_PLAIN, MEMORY_BULK, COMPUTING_PLAIN, COMPUTING_BULK, BUS,
	FIRST_WAY, NR_WAYS = FIRST_WAY + 8,
};

struct specialised {
	/* Options. */
	const char *device, *svg;
	enum rnl_stream_kind stream;
	unsigned workers, repeat, passes, blocks;
	uint64_t bytes, slice_bytes, seed;
	uint32_t window;
	bool copies;
	char **files;
	unsigned nr_files;

	struct rnl_device_info info;
	struct rnl_pool *one, *many;	/* pools with one worker, and with all workers */
	char *source;			/* the files' contents, until they are in host_in */
	uint64_t nr_words;		/* an even number of tiles, zeros at the end */
	uint32_t slice_tiles;
	unsigned nr_slices, nr_jobs;
	uint32_t *host_in, *host_out;	/* page-locked */
	uint32_t *in, *out;		/* on the device */
	uint32_t *want;			/* the serial reference's results */
	uint64_t *times, *host_times;	/* the starts of all jobs, then their ends */
};

/* ---- words.c ------------------------------------------------------------- */

/* Reads the files, and sets the array's size.  Dies on an error. */
void specialised_words_read(struct specialised *s);

/* Allocates all memory, and fills the input.  Dies if there is too little memory. */
void specialised_words_get(struct specialised *s);
void specialised_words_put(struct specialised *s);

/* Computes the serial reference. */
void specialised_words_want(struct specialised *s);

/* ---- ways.c -------------------------------------------------------------- */

/* Does the work s->passes times.  @times: jobs record their times.  Returns milliseconds. */
double specialised_run(struct specialised *s, struct specialised_way *way, bool times);

void specialised_spoil(struct specialised *s);	/* fills the output with wrong values */
uint64_t specialised_wrong(struct specialised *s, const struct specialised_way *way);

/* Does one more run, to fill way->spans. */
void specialised_time(struct specialised *s, struct specialised_way *way);

/* ---- print.c ------------------------------------------------------------- */

void specialised_print_work(const struct specialised *s);
void specialised_print_all(const struct specialised *s, const struct specialised_way *ways);

/* Writes the timeline.  Returns 0 or a negative errno. */
int specialised_picture(const struct specialised *s, const struct specialised_way *ways);

SHARED_END
#endif /* SPECIALISED_H */
