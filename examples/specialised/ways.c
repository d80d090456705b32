/* SPDX-License-Identifier: MIT */
/*
 * The jobs of specialised's ways: one kernel per slice of the array, on one stream or on several
 * workers' streams.
 *
 * DESIGN
 * The array is in device memory, so device memory limits a kernel's copying.  With copies, each job
 * copies its slice from the host to its own scratch memory, and the result back; then the bus is
 * the limit.  A way does all of the work several times.  A slice always has the same worker, so its
 * passes are in order on one stream, and no two jobs write the same words concurrently.
 */
#include "config.h"

#include "common/program.h"
#include "specialised.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#define CACHED_TILES 64		/* a power of two; used to measure only computing */

struct slice {
	struct rnl_job job;
	const struct specialised *s;
	const struct specialised_way *way;
	uint64_t first;			/* index of its first word */
	uint32_t nr_tiles;
	uint32_t window;
	uint64_t *begin, *end;		/* NULL: not recorded */
	int worker;
};

static int launch(const struct slice *p, const uint32_t *in, uint32_t *out)
{
	const struct specialised *s = p->s;
	const struct specialised_args args = {
		.in = in,
		.out = out,
		.begin = p->begin,
		.end = p->end,
		.nr_tiles = p->nr_tiles,
		.mask = p->way->in_cache ? CACHED_TILES - 1 : UINT32_MAX,
		.window = p->window,
	};
	const uint32_t most = s->info.nr_multiprocessors * s->blocks & ~1u;	/* pairs */
	const uint32_t stay = p->nr_tiles < most ? p->nr_tiles : most;
	struct rnl_dim grid = { p->way->few || p->way->bulk ? stay : p->nr_tiles, 1, 1 };
	struct rnl_dim block = { SPECIALISED_THREADS + (p->way->bulk ? 32 : 0), 1, 1 };

	return rnl_launch(p->way->kernel, grid, block, &args);
}

static int run_slice(struct rnl_job *job)
{
	struct slice *p = rnl_container_of(job, struct slice, job);
	const struct specialised *s = p->s;
	const uint64_t bytes = p->nr_tiles * SPECIALISED_TILE_BYTES;
	const uint64_t in_bytes = bytes + p->window * sizeof(uint32_t);
	void *in = s->in + p->first, *out = s->out + p->first;
	int ret = 0;

	p->worker = rnl_worker().index;
	if (p->way->copies) {
		ret = rnl_scratch(in_bytes, &in);
		if (!ret)
			ret = rnl_scratch(bytes, &out);
		if (!ret)
			ret = rnl_copy(in, s->host_in + p->first, in_bytes);
	}
	if (!ret && p->way->kernel)
		ret = launch(p, in, out);
	else if (!ret && !p->way->copies)
		ret = rnl_copy(out, in, bytes);
	if (!ret && p->way->copies)
		ret = rnl_copy(s->host_out + p->first, out, bytes);
	return ret;
}

static void make_slice(struct specialised *s, struct specialised_way *way, struct slice *p,
		       unsigned number, bool times)
{
	const uint64_t words = (uint64_t)s->slice_tiles * SPECIALISED_TILE;
	const uint64_t first = number % s->nr_slices * words;
	const uint64_t left = s->nr_words - first;

	*p = (struct slice){ .s = s, .way = way, .first = first };
	p->nr_tiles = (uint32_t)((left < words ? left : words) / SPECIALISED_TILE);
	p->window = way->window ? way->window : s->window;
	if (times) {
		p->begin = s->times + number;
		p->end = s->times + s->nr_jobs + number;
	}
	program_must(rnl_job_init(&p->job, run_slice), way->name);
}

static uint64_t key_of(const struct specialised *s, unsigned number)
{
	return RNL_KEY_WORKER(number % s->nr_slices % s->workers);
}

static void submit_all(struct specialised *s, struct specialised_way *way, struct slice *slices)
{
	struct rnl_pool *pool = way->one_stream ? s->one : s->many;
	struct rnl_barrier done;

	program_must(rnl_barrier_init(&done, pool), way->name);
	for (unsigned i = 0; i < s->nr_jobs; i++) {
		program_must(rnl_barrier_add(&done, &slices[i].job), way->name);
		program_must(rnl_job_set_key(&slices[i].job, key_of(s, i)), way->name);
		program_must(rnl_submit_wait(pool, &slices[i].job, RNL_FOREVER), way->name);
	}
	program_must(rnl_barrier_wait(&done, RNL_FOREVER), way->name);
	program_must(done.result, way->name);
}

double specialised_run(struct specialised *s, struct specialised_way *way, bool times)
{
	struct slice *slices = calloc(s->nr_jobs, sizeof(*slices));
	uint64_t start, end;

	if (!slices)
		program_die("%u jobs: out of memory", s->nr_jobs);
	for (unsigned i = 0; i < s->nr_jobs; i++)
		make_slice(s, way, &slices[i], i, times);
	start = program_now_ns();
	submit_all(s, way, slices);
	end = program_now_ns();
	for (unsigned i = 0; times && i < s->nr_jobs; i++)
		way->spans[i].worker = slices[i].worker;
	free(slices);
	return (double)(end - start) / 1e6;
}

/* ---- preparing and checking a run ---------------------------------------- */

static void wait_for_device(const char *what)
{
	program_must(rnl_stream_wait(RNL_FOREVER), what);
}

void specialised_spoil(struct specialised *s)
{
	const uint64_t bytes = s->nr_words * sizeof(uint32_t);

	memset(s->host_out, 0xa5, bytes);
	program_must(rnl_fill(s->out, 0xa5, bytes), "filling the output");
	wait_for_device("filling the output");
}

uint64_t specialised_wrong(struct specialised *s, const struct specialised_way *way)
{
	const uint64_t bytes = s->nr_words * sizeof(uint32_t);
	uint64_t wrong = 0;

	if (!way->copies)
		program_must(rnl_copy(s->host_out, s->out, bytes), "copying the output");
	wait_for_device("copying the output");
	if (!memcmp(s->host_out, s->want, bytes))
		return 0;
	for (uint64_t i = 0; i < s->nr_words; i++)
		wrong += s->host_out[i] != s->want[i];
	return wrong;
}

void specialised_time(struct specialised *s, struct specialised_way *way)
{
	const uint64_t bytes = s->nr_jobs * sizeof(uint64_t);

	way->spans = calloc(s->nr_jobs, sizeof(*way->spans));
	if (!way->spans)
		program_die("the times of %u jobs: out of memory", s->nr_jobs);
	program_must(rnl_fill(s->times, 0xff, bytes), way->name);
	program_must(rnl_fill(s->times + s->nr_jobs, 0, bytes), way->name);
	wait_for_device(way->name);
	specialised_run(s, way, true);
	program_must(rnl_copy(s->host_times, s->times, 2 * bytes), way->name);
	wait_for_device(way->name);
	for (unsigned i = 0; i < s->nr_jobs; i++) {
		way->spans[i].begin = s->host_times[i];
		way->spans[i].end = s->host_times[s->nr_jobs + i];
		if (way->spans[i].begin > way->spans[i].end)
			program_die("%s: kernel %u did not run", way->name, i);
	}
}
