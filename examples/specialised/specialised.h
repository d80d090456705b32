/* SPDX-License-Identifier: MIT */
/*
 * specialised: one kernel, plain and warp-specialised, on one stream and on several workers'.
 *
 *	specialised.c	options, and the measurement
 *	ways.c		the jobs of a way, and what stands around them
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
 * The fingerprint of word i is a polynomial of the words i to i + window - 1: backup programs cut
 * files where such numbers have a certain form.
 */
#define SPECIALISED_BASE 16777619u
#define SPECIALISED_TILE 2048		/* words that a block works on at once */
#define SPECIALISED_WINDOW_MAX 256	/* a multiple of 4, as each window is */
#define SPECIALISED_THREADS 256		/* that compute, of a block */
#define SPECIALISED_CLUSTER 2		/* blocks */
#define SPECIALISED_BYTES_MAX (1ull << 40)
#define SPECIALISED_REPEAT_MAX 99

#define SPECIALISED_TILE_BYTES (SPECIALISED_TILE * sizeof(uint32_t))

struct specialised_args {
	const uint32_t *in;		/* window words more than the tiles have */
	uint32_t *out;
	uint64_t *begin, *end;		/* the kernel notes its times there; NULL: it does not */
	uint32_t nr_tiles;		/* a multiple of SPECIALISED_CLUSTER */
	uint32_t mask;			/* work on tile i is done on tile i & mask */
	uint32_t window;
	uint32_t unused;
};

/* ---- device.cu, device.c ------------------------------------------------- */

extern const struct rnl_kernel specialised_plain;
/* Both only where specialised_bulk() says so; they have no function for the host device. */
extern const struct rnl_kernel specialised_ring, specialised_cluster;

void specialised_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args);

/* Whether the device has bulk copies, and this program kernels that use them. */
bool specialised_bulk(const struct rnl_device_info *info);

extern const bool specialised_has_cuda;	/* false: the program was built without nvcc */

/* ---- the program --------------------------------------------------------- */

/* When a job's kernel ran, in ns of the device's own clock, and on whose stream. */
struct specialised_span {
	uint64_t begin, end;
	int worker;
};

/* A way to do the work, or one part of it alone. */
struct specialised_way {
	const char *name;
	const struct rnl_kernel *kernel; /* NULL: rnl_copy() alone */
	bool bulk;			/* the kernel has bulk copies */
	bool few;			/* blocks, which stay for many tiles; always with `bulk` */
	bool one_stream;		/* not the streams of all workers */
	bool copies;			/* from the host, and to it */
	bool in_cache;			/* on few tiles of each slice, again and again */
	uint32_t window;		/* 0: the option's */

	bool runs;			/* on this device, and is wanted */
	double ms[SPECIALISED_REPEAT_MAX], median;
	struct specialised_span *spans;	/* of one more run */
};

/* What is alone comes first, then the ways to do all of the work. */
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
	struct rnl_pool *one, *many;	/* of one worker, and of all */
	char *source;			/* what the files hold, until it is in host_in */
	uint64_t nr_words;		/* an even number of tiles, zeros at the end */
	uint32_t slice_tiles;
	unsigned nr_slices, nr_jobs;
	uint32_t *host_in, *host_out;	/* page-locked */
	uint32_t *in, *out;		/* on the device */
	uint32_t *want;			/* what the serial reference gives */
	uint64_t *times, *host_times;	/* the begins of all jobs, and then the ends */
};

/* ---- words.c ------------------------------------------------------------- */

/* Reads the files, and knows the size of the array then.  Dies with a message. */
void specialised_words_read(struct specialised *s);

/* Gets all memory, and puts the input there.  Dies if there is too little. */
void specialised_words_get(struct specialised *s);
void specialised_words_put(struct specialised *s);

/* Computes what is right: the serial reference. */
void specialised_words_want(struct specialised *s);

/* ---- ways.c -------------------------------------------------------------- */

/* Does the work s->passes times.  @times: jobs note their times.  Return: ms. */
double specialised_run(struct specialised *s, struct specialised_way *way, bool times);

void specialised_spoil(struct specialised *s);	/* makes the output wrong */
uint64_t specialised_wrong(struct specialised *s, const struct specialised_way *way);

/* Runs once more, for way->spans. */
void specialised_time(struct specialised *s, struct specialised_way *way);

/* ---- print.c ------------------------------------------------------------- */

void specialised_print_work(const struct specialised *s);
void specialised_print_all(const struct specialised *s, const struct specialised_way *ways);

/* Writes the timeline.  Return: 0 or a negative errno. */
int specialised_picture(const struct specialised *s, const struct specialised_way *ways);

SHARED_END
#endif /* SPECIALISED_H */
