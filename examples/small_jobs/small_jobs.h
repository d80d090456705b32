/* SPDX-License-Identifier: MIT */
/*
 * small_jobs: the same small requests by every way that runnel has for them, compared.
 *
 *	ways.c		the ways: read this first
 *	measure.c	producers, for the rate; lone requests, for the latency
 *	small_jobs.c	the options, the table
 *	picture.c	the bar chart, as SVG
 *	device.cu	the kernels; device.c: without nvcc
 */
#ifndef SMALL_JOBS_H
#define SMALL_JOBS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

/* ---- the work ------------------------------------------------------------ */

/* Memory of one request, or of a batch: words in, as many words out. */
struct small_work {
	const uint32_t *in;
	uint32_t *out;			/* may be `in` */
	uint64_t nr_words;		/* a multiple of SMALL_STEP */
};

/* Arguments of the second kernel, which finds its work on the device. */
struct small_place {
	const struct small_work *work;
};

extern const struct rnl_kernel small_kernel;		/* of struct small_work */
extern const struct rnl_kernel small_place_kernel;	/* of struct small_place */
extern const struct rnl_request_kernel small_each;	/* the same work, for one request */

#define SMALL_THREADS 128		/* per block */
#define SMALL_STEP 16			/* words that compilers keep in vector registers */

/* The kernels' function maps different words to different words. */
SHARED uint32_t small_mix(uint32_t x)
{
	x += x << 3;
	x ^= x >> 11;
	return x + (x << 15);
}

/* The kernels' host functions: one thread does the work of the whole grid. */
static inline void small_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct small_work *w = (const struct small_work *)args;
	uint32_t x[SMALL_STEP];

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < w->nr_words; i += SMALL_STEP) {
		memcpy(x, w->in + i, sizeof(x));
		for (int k = 0; k < SMALL_STEP; k++)
			x[k] = small_mix(x[k]);
		memcpy(w->out + i, x, sizeof(x));
	}
}

static inline void small_place_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	small_on_host(grid, block, ((const struct small_place *)args)->work);
}

/* The request kernel's host function. */
static inline int small_each_on_host(const struct rnl_request_view *view)
{
	const struct small_work work = {
		(const uint32_t *)view->in, (uint32_t *)view->out, view->in_bytes / sizeof(uint32_t)
	};
	const struct rnl_dim one = { 1, 1, 1 };

	small_on_host(one, one, &work);
	return 0;
}

/* ---- the ways: ways.c ---------------------------------------------------- */

struct small_way {
	const char *name, *means;
	int (*fn)(struct rnl_job *job);	/* requests are jobs with this function, ... */
	unsigned flags;			/* ... with these flags, of runnel/replay.h */
	/* Or requests are a batcher's: sets what makes the way, in @attr.  NULL: jobs. */
	void (*batcher)(struct rnl_batcher_attr *attr);
};

extern const struct small_way small_ways[];	/* ends with a way without a name */

/* A request with its answer. */
struct small_request {
	struct rnl_request request;	/* its `job` is the job, if requests are jobs */
	struct small_work work;		/* of the job, in page-locked memory */
	uint32_t *in;			/* the same memory as work.in, to be written */
	uint32_t number;		/* the first word of the input */
};

#define SMALL_UNDER_WAY_MAX 1024
#define SMALL_WAYS_MAX 16

struct small {
	/* Options. */
	const char *device, *picture;
	const struct small_way *only;	/* NULL: all ways */
	enum rnl_stream_kind stream;
	unsigned workers, producers, under_way, ms;
	size_t bytes;

	struct rnl_device_info info;
	struct rnl_pool *pool;
	uint32_t *memory;		/* of all requests that are jobs */
	struct small_request *requests;
	const struct small_way *way;	/* the way that is measured */
	struct rnl_batcher *batcher;	/* of this way, or NULL */
};

/* Prepare all requests for a way, and end the way. */
void small_begin(struct small *s, const struct small_way *way);
void small_end(struct small *s);

/* Fills a request and sends it. */
void small_send(struct small *s, struct small_request *r);

/* Takes the answer of a request that is done, and checks every word.  Dies if a word is wrong. */
void small_take(struct small *s, struct small_request *r);

/* How often the way's own means were used so far, to see that they are. */
struct small_counts {
	uint64_t gathered, replayed;	/* jobs */
	uint64_t requests, batches;	/* of the batcher */
	uint64_t resident;		/* requests that the resident kernel answered */
};
struct small_counts small_count(const struct small *s);

/* ---- measure.c ----------------------------------------------------------- */

struct small_figures {
	const struct small_way *way;
	double per_s;			/* requests, many under way */
	char note[80];			/* how often the way's own means were used, or "" */
	double p50_us, p99_us;		/* latency of one request at a time */
};

/* SIGINT and SIGTERM end measurements early; a second signal ends the program. */
void small_catch_signals(void);

/* Measures a way.  Returns false, and no figures, if there was a signal. */
bool small_measure(struct small *s, const struct small_way *way, struct small_figures *figures);

/* ---- small_jobs.c -------------------------------------------------------- */

/* Returns the largest of each figure. */
struct small_figures small_most(const struct small_figures *figures, unsigned nr);

/* ---- picture.c ----------------------------------------------------------- */

/* Writes the picture completely or not at all.  Returns 0 or a negative errno. */
int small_picture(const struct small *s, const struct small_figures *figures, unsigned nr);

SHARED_END
#endif /* SMALL_JOBS_H */
