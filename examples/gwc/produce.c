/* SPDX-License-Identifier: MIT */
/*
 * gwc's producers: they read files into chunks, and submit the jobs that count them.
 *
 * DESIGN
 * A producer takes a free chunk and the parts that fill it, appends the chunk to the list, which
 * is in input order, reads the parts, and submits the chunk.  The consumer waits for the first
 * chunk of the list, and frees it.
 *
 * `lock` guards the list, the free chunks, each chunk's `ready`, and the inputs.  A chunk belongs
 * to its producer until it is ready, then to the consumer until it is free.
 *
 * Texts start at multiples of GWC_ALIGN.  The kernel sees pieces of text; each part names its
 * input.  Device memory is the job's scratch memory, with the layout of the buffer.
 */
#include "config.h"

#include "common/program.h"
#include "gwc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#define PARTS_MAX 512		/* in a chunk */

/* A request: a job, and a pinned buffer for the text and the job's summaries. */
struct chunk {
	struct rnl_job job;
	struct pipe *pipe;
	struct chunk *next;		/* in the list, or in the free list */
	bool ready;			/* filled and submitted; the consumer may wait for it */
	unsigned char *text;		/* pinned; the pieces follow, then the summaries */
	size_t used;			/* bytes of text; a multiple of GWC_ALIGN */
	uint32_t nr_pieces;
	unsigned nr_parts;
	struct gwc_part parts[PARTS_MAX];
};

struct pipe {
	struct rnl_pool *pool;
	struct gwc_inputs *inputs;
	size_t chunk_bytes;
	size_t summaries_at;		/* offset in a chunk's buffer */
	size_t buffer_bytes;
	uint32_t printable;

	pthread_mutex_t lock;
	pthread_cond_t ready;		/* the first chunk is ready, or a producer ended */
	pthread_cond_t moved;		/* a chunk is free, or the inputs are no longer busy */
	struct chunk *head, **tail;	/* the list */
	struct chunk *free;		/* last in, first out: its buffer is still in the caches */
	unsigned nr_active;		/* producers that have not ended */
};

/* ---- the job ------------------------------------------------------------- */

static int count_chunk(struct rnl_job *job)
{
	struct chunk *chunk = rnl_container_of(job, struct chunk, job);
	const struct pipe *pipe = chunk->pipe;
	const struct rnl_dim grid = { chunk->nr_pieces, 1, 1 };
	const struct rnl_dim block = { GWC_THREADS, 1, 1 };
	struct gwc_args args = { .printable = pipe->printable };
	unsigned char *mem;
	void *scratch;
	int ret;

	ret = rnl_scratch(pipe->buffer_bytes, &scratch);
	if (ret)
		return ret;
	mem = scratch;
	args.text = mem;
	args.pieces = (const struct gwc_piece *)(void *)(mem + chunk->used);
	args.summaries = (struct gwc_summary *)(void *)(mem + pipe->summaries_at);
	ret = rnl_copy(mem, chunk->text, chunk->used + chunk->nr_pieces * sizeof(struct gwc_piece));
	if (!ret)
		ret = rnl_launch(&gwc_kernel, grid, block, &args);
	if (!ret)
		ret = rnl_copy(chunk->text + pipe->summaries_at, args.summaries,
			       chunk->nr_pieces * sizeof(struct gwc_summary));
	return ret;
}

/* ---- the producers ------------------------------------------------------- */

/* Waits for a free chunk, and for input or its end. */
static void await_work(struct pipe *pipe)
{
	struct gwc_inputs *inputs = pipe->inputs;

	for (;;) {
		if (!pipe->free || inputs->busy) {
			pthread_cond_wait(&pipe->moved, &pipe->lock);
			continue;
		}
		if (!inputs->more || !gwc_inputs_spent(inputs))
			return;
		inputs->busy = true;
		pthread_mutex_unlock(&pipe->lock);
		if (!inputs->more(inputs, inputs->more_arg))
			inputs->more = NULL;
		pthread_mutex_lock(&pipe->lock);
		inputs->busy = false;
		pthread_cond_broadcast(&pipe->moved);
	}
}

/* Takes a chunk and its parts, and appends it to the list.  Returns NULL at the end of input. */
static struct chunk *take_work(struct pipe *pipe)
{
	struct chunk *chunk;

	pthread_mutex_lock(&pipe->lock);
	await_work(pipe);
	chunk = pipe->free;
	chunk->nr_parts = gwc_inputs_next(pipe->inputs, pipe->chunk_bytes, chunk->parts, PARTS_MAX);
	if (chunk->nr_parts) {
		pipe->free = chunk->next;
		chunk->next = NULL;
		chunk->ready = false;
		*pipe->tail = chunk;
		pipe->tail = &chunk->next;
	} else {
		chunk = NULL;
	}
	pthread_mutex_unlock(&pipe->lock);
	return chunk;
}

static void read_part(struct chunk *chunk, struct gwc_part *part)
{
	struct pipe *pipe = chunk->pipe;

	part->at = chunk->used;
	gwc_part_read(pipe->inputs, part, chunk->text + part->at);
	chunk->used += gwc_align(part->bytes);
	if (part->in->stream) {
		pthread_mutex_lock(&pipe->lock);
		gwc_inputs_streamed(pipe->inputs, part->last);
		pthread_cond_broadcast(&pipe->moved);
		pthread_mutex_unlock(&pipe->lock);
	}
}

static void fill(struct chunk *chunk)
{
	struct gwc_piece *pieces;

	if (!chunk->text) {	/* kept until the end, because page-locking takes time */
		void *text = NULL;

		program_must(rnl_memory_get(chunk->pipe->pool, RNL_PINNED,
					    chunk->pipe->buffer_bytes, &text, 0),
			     "page-locking memory (a smaller --chunk needs less)");
		chunk->text = text;
	}
	chunk->used = chunk->nr_pieces = 0;
	for (unsigned i = 0; i < chunk->nr_parts; i++)
		read_part(chunk, &chunk->parts[i]);
	/* The table of pieces directly follows the text, so one copy moves both. */
	pieces = (struct gwc_piece *)(void *)(chunk->text + chunk->used);
	for (unsigned i = 0; i < chunk->nr_parts; i++)
		chunk->nr_pieces += gwc_cut(pieces + chunk->nr_pieces, chunk->parts[i].at,
					    chunk->parts[i].bytes);
}

static void *produce(void *arg)
{
	struct pipe *pipe = arg;
	struct chunk *chunk;

	while ((chunk = take_work(pipe))) {
		fill(chunk);
		if (chunk->nr_pieces)
			program_must(rnl_submit(pipe->pool, &chunk->job), "submitting a job");
		pthread_mutex_lock(&pipe->lock);
		chunk->ready = true;
		pthread_cond_signal(&pipe->ready);
		pthread_mutex_unlock(&pipe->lock);
	}
	pthread_mutex_lock(&pipe->lock);
	pipe->nr_active--;
	pthread_cond_signal(&pipe->ready);
	pthread_mutex_unlock(&pipe->lock);
	return NULL;
}

/* ---- the consumer -------------------------------------------------------- */

/* Returns the next chunk when it is counted, or NULL at the end. */
static struct chunk *next_chunk(struct pipe *pipe)
{
	struct chunk *chunk;

	pthread_mutex_lock(&pipe->lock);
	while (!(pipe->head ? pipe->head->ready : !pipe->nr_active)) {
		program_flush();		/* use the waiting time to write */
		pthread_cond_wait(&pipe->ready, &pipe->lock);
	}
	chunk = pipe->head;
	pthread_mutex_unlock(&pipe->lock);
	if (chunk && chunk->nr_pieces) {
		program_must(rnl_job_wait(&chunk->job, RNL_FOREVER), "waiting for a job");
		program_must(chunk->job.result, "counting");
	}
	return chunk;
}

static void free_chunk(struct pipe *pipe, struct chunk *chunk)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->head = chunk->next;
	if (!pipe->head)
		pipe->tail = &pipe->head;
	chunk->next = pipe->free;
	pipe->free = chunk;
	pthread_cond_broadcast(&pipe->moved);
	pthread_mutex_unlock(&pipe->lock);
}

static void consume_chunk(struct chunk *chunk,
			  void (*consume)(void *arg, const struct gwc_part *part), void *arg)
{
	const struct gwc_summary *sums = (const void *)(chunk->text + chunk->pipe->summaries_at);

	for (unsigned i = 0; i < chunk->nr_parts; i++) {
		struct gwc_part *part = &chunk->parts[i];
		const uint32_t nr = gwc_nr_pieces(part->bytes);

		part->sum = gwc_join_all(sums, nr);
		sums += nr;
		consume(arg, part);
	}
}

/* ---- start and stop ------------------------------------------------------ */

/* Allocates @nr chunks, and adds them to the free list. */
static struct chunk *make_chunks(struct pipe *pipe, unsigned nr)
{
	struct chunk *chunks = calloc(nr, sizeof(*chunks));

	program_must(chunks ? 0 : -ENOMEM, "the chunks");
	for (unsigned i = 0; i < nr; i++) {
		chunks[i].pipe = pipe;
		chunks[i].next = pipe->free;
		pipe->free = &chunks[i];
		program_must(rnl_job_init(&chunks[i].job, count_chunk), "a job");
	}
	return chunks;
}

void gwc_count_all(struct rnl_pool *pool, struct gwc_inputs *inputs, const struct gwc_options *opt,
		   void (*consume)(void *arg, const struct gwc_part *part), void *arg)
{
	const size_t pieces_max = opt->chunk / GWC_PIECE + PARTS_MAX + 1;
	const size_t summaries_at = gwc_align(gwc_align(opt->chunk) +
					      pieces_max * sizeof(struct gwc_piece));
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct pipe pipe = {
		.pool = pool,
		.inputs = inputs,
		.chunk_bytes = opt->chunk,
		.summaries_at = summaries_at,
		.buffer_bytes = summaries_at + pieces_max * sizeof(struct gwc_summary),
		.printable = !opt->nonspace,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.ready = PTHREAD_COND_INITIALIZER,
		.moved = PTHREAD_COND_INITIALIZER,
		.tail = &pipe.head,
		.nr_active = opt->producers,
	};
	pthread_t producers[GWC_PRODUCERS_MAX];
	struct chunk *chunks, *chunk;
	unsigned nr;

	program_must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats), "the pool's figures");
	/* Four chunks per worker and producer, but at least eight per producer. */
	nr = 4 * (stats.nr_workers + opt->producers);
	nr = nr < 8 * opt->producers ? 8 * opt->producers : nr;
	chunks = make_chunks(&pipe, nr);
	for (unsigned i = 0; i < opt->producers; i++)
		program_must(-pthread_create(&producers[i], NULL, produce, &pipe), "a producer's thread");
	while ((chunk = next_chunk(&pipe))) {
		consume_chunk(chunk, consume, arg);
		free_chunk(&pipe, chunk);
	}
	for (unsigned i = 0; i < opt->producers; i++)
		pthread_join(producers[i], NULL);
	for (unsigned i = 0; i < nr; i++)
		rnl_memory_put(pool, chunks[i].text);
	free(chunks);
}
