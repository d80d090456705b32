/* SPDX-License-Identifier: MIT */
/*
 * overlap's ways to do its work: on one stream, on the legacy default stream, and with
 * rnl_map_start().
 *
 * DESIGN
 * Each way starts with the input in memory, and returns when the whole output is in memory.  The
 * first two ways issue the same operations as rnl_map_start(), chunk by chunk, without workers:
 * each of their threads uses a device buffer that was allocated in advance.
 */
#include "config.h"

#include "overlap.h"

#include <errno.h>
#include <pthread.h>

#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/thread.h>

static int launch(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds)
{
	const struct overlap_args args = { in, out, nr, rounds, 0 };
	const struct rnl_dim block = { OVERLAP_THREADS, 1, 1 };

	return rnl_launch(&overlap_kernel, overlap_grid(nr), block, &args);
}

int overlap_one_stream(const struct overlap *o, unsigned stages,
		       struct rnl_map_report *report)
{
	const struct overlap_buffer *buffer = &o->buffers[0];
	const size_t bytes = o->chunk * sizeof(uint32_t);
	int ret = 0;

	(void)report;
	for (uint64_t i = 0; i < o->nr_chunks && !ret; i++) {
		const uint64_t first = i * o->chunk;

		if (stages & OVERLAP_IN)
			ret = rnl_copy(buffer->in, o->in + first, bytes);
		if (!ret && (stages & OVERLAP_KERNEL))
			ret = launch(buffer->in, buffer->out, o->chunk, o->rounds);
		if (!ret && (stages & OVERLAP_OUT))
			ret = rnl_copy(o->out + first, buffer->out, bytes);
	}
	return ret ? ret : rnl_stream_wait(RNL_FOREVER);
}

static void *copy_out(void *arg)
{
	struct overlap beside = *(const struct overlap *)arg;
	int ret = rnl_thread_attach(beside.pool);

	beside.out = beside.beside;
	beside.buffers[0].out = beside.beside_buffer;
	if (!ret)
		ret = overlap_one_stream(&beside, OVERLAP_OUT, NULL);
	rnl_thread_attach(NULL);
	return (void *)(intptr_t)ret;
}

int overlap_both_copies(const struct overlap *o, unsigned unused,
			struct rnl_map_report *report)
{
	void *out_ret;
	pthread_t out;
	int ret = -pthread_create(&out, NULL, copy_out, (void *)o);

	(void)unused;
	if (ret)
		return ret;
	ret = overlap_one_stream(o, OVERLAP_IN, report);
	pthread_join(out, &out_ret);
	return ret ? ret : (int)(intptr_t)out_ret;
}

/* ---- the legacy default stream ------------------------------------------- */

struct thread {
	pthread_t id;
	const struct overlap *o;
	unsigned number;
	int ret;
};

static void *do_share(void *arg)
{
	struct thread *thread = arg;

	thread->ret = overlap_legacy_share(thread->o, thread->number);
	return NULL;
}

int overlap_legacy(const struct overlap *o, unsigned unused, struct rnl_map_report *report)
{
	struct thread threads[PROGRAM_WORKERS_MAX];
	unsigned nr = 0;
	int ret = 0;

	(void)unused;
	(void)report;
	while (nr < o->workers) {
		threads[nr] = (struct thread){ .o = o, .number = nr };
		ret = -pthread_create(&threads[nr].id, NULL, do_share, &threads[nr]);
		if (ret)
			break;
		nr++;
	}
	while (nr--) {
		pthread_join(threads[nr].id, NULL);
		ret = ret ? ret : threads[nr].ret;
	}
	return ret;
}

/* ---- rnl_map_start() ----------------------------------------------------------- */

/* A worker calls this for each chunk, after it has issued the copy of the chunk's input. */
static int map_chunk(const struct rnl_chunk *chunk)
{
	const struct overlap *o = chunk->arg;

	return launch(chunk->in, chunk->out, chunk->nr, o->rounds);
}

/* The callbacks simulate a program that reads words from a file and writes them to another. */
static int read_words(void *arg, void *buf, uint64_t first, uint64_t nr)
{
	const struct overlap *o = arg;

	overlap_words_make(buf, first, nr, o->callback_step);
	return 0;
}

static int write_words(void *arg, const void *buf, uint64_t first, uint64_t nr)
{
	const struct overlap *o = arg;

	return overlap_words_wrong(o, buf, first, nr, o->callback_step) ? -EILSEQ : 0;
}

int overlap_map(const struct overlap *o, unsigned flags, struct rnl_map_report *report)
{
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier done;
	int ret;

	map.flags = flags;
	map.fn = map_chunk;
	map.arg = (void *)o;
	map.nr = o->nr_chunks * o->chunk;
	map.chunk = o->chunk;
	map.in_bytes = map.out_bytes = sizeof(uint32_t);
	map.halo_before = map.halo_after = o->halo;
	if (o->callback_step) {
		map.read = read_words;
		map.write = write_words;
	} else {
		map.in = o->in;
		map.out = o->out;
	}
	map.report = report;
	ret = rnl_barrier_init(&done, o->pool);
	if (!ret)
		ret = rnl_map_start(o->pool, &map, &done);
	if (!ret)
		ret = rnl_barrier_wait(&done, RNL_FOREVER);
	return ret ? ret : done.result;
}
