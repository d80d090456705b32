/* SPDX-License-Identifier: MIT */
/*
 * The producers of gwc: they read files into chunks and submit the jobs that count them.
 *
 * DESIGN
 * Chunks are in a list in the order of the input.  A producer takes a free chunk of its
 * own, puts it at the end of the list together with the ranges that fill it, reads them, and
 * submits the chunk.  The consumer waits for the first chunk of the list, and gives it back.
 *
 * `lock` guards the list, the flags of the chunks, and the inputs that are given out.  A
 * chunk belongs to its producer while it is taken and not ready, then to the consumer.
 *
 * Texts start at multiples of GWC_ALIGN.  The kernel sees pieces of text; extents say which
 * input they belong to.  Device memory is the job's scratch, laid out as the chunk's buffer.
 */
#include "config.h"

#include "common/program.h"
#include "gwc.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define EXTENTS_MAX 512		/* in a chunk */

/* Some text in a chunk; fields as in struct gwc_part. */
struct extent {
	struct gwc_input *in;
	uint32_t at;			/* offset in the chunk */
	uint32_t bytes;
	int err;
	bool opened, last;
};

/* A request: a job, a pinned buffer of text, and the summaries that the job puts there. */
struct chunk {
	struct rnl_job job;
	struct pipe *pipe;
	struct chunk *next;		/* in the order of the input */
	bool taken;			/* by its producer, until the consumer gives it back */
	bool ready;			/* for the consumer: it is filled and submitted */
	unsigned char *text;		/* pinned; the pieces follow, then the summaries */
	size_t used;			/* of the text; a multiple of GWC_ALIGN */
	uint32_t nr_pieces;
	unsigned nr_extents;
	struct extent extents[EXTENTS_MAX];
};

struct producer {
	pthread_t thread;
	struct pipe *pipe;
	struct chunk *chunks;
	struct chunk *chunk;	/* being filled */
	struct gwc_range ranges[EXTENTS_MAX];
};

struct pipe {
	struct rnl_pool *pool;
	struct gwc_inputs *inputs;
	size_t chunk_bytes;
	size_t summaries_at;		/* offset in a chunk's buffer */
	size_t buffer_bytes;
	uint32_t printable;
	unsigned nr_chunks;		/* of each producer */

	pthread_mutex_t lock;
	pthread_cond_t ready;		/* the first chunk is, or there are no more */
	pthread_cond_t moved;		/* a chunk was given back, or a stream was read */
	struct chunk *head, **tail;
	unsigned nr_active;		/* producers */
};

/* ---- the job ------------------------------------------------------------- */

static uint32_t nr_pieces(size_t bytes)
{
	return (uint32_t)((bytes + GWC_PIECE - 1) / GWC_PIECE);
}

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

/* Cuts the text into pieces; their table is right behind it, for one copy. */
static void cut(struct chunk *chunk)
{
	struct gwc_piece *piece = (struct gwc_piece *)(void *)(chunk->text + chunk->used);

	for (unsigned i = 0; i < chunk->nr_extents; i++) {
		const struct extent *e = &chunk->extents[i];

		for (uint32_t at = 0; at < e->bytes; at += GWC_PIECE) {
			piece->offset = e->at + at;
			piece->bytes = e->bytes - at < GWC_PIECE ? e->bytes - at : GWC_PIECE;
			piece++;
		}
	}
}

/* ---- chunks -------------------------------------------------------------- */

/* Waits until one is free; `lock` is held. */
static struct chunk *get_chunk(struct producer *p)
{
	struct pipe *pipe = p->pipe;

	for (;;) {
		/* The first free one: its memory was used most recently. */
		for (unsigned i = 0; i < pipe->nr_chunks; i++) {
			struct chunk *chunk = &p->chunks[i];

			if (chunk->taken)
				continue;
			chunk->taken = true;
			chunk->ready = false;
			chunk->next = NULL;
			chunk->used = chunk->nr_pieces = chunk->nr_extents = 0;
			return chunk;
		}
		pthread_cond_wait(&pipe->moved, &pipe->lock);
	}
}

static void submit(struct chunk *chunk)
{
	struct pipe *pipe = chunk->pipe;

	if (chunk->nr_pieces) {
		cut(chunk);
		program_must(rnl_submit(pipe->pool, &chunk->job), "submitting a job");
	}
	pthread_mutex_lock(&pipe->lock);
	chunk->ready = true;
	pthread_cond_signal(&pipe->ready);
	pthread_mutex_unlock(&pipe->lock);
}

/* ---- reading ------------------------------------------------------------- */

/* Takes a chunk and its ranges.  Return: the number of ranges. */
static unsigned take_work(struct producer *p)
{
	struct pipe *pipe = p->pipe;
	unsigned nr;

	pthread_mutex_lock(&pipe->lock);
	p->chunk = get_chunk(p);
	while (pipe->inputs->stream_busy)
		pthread_cond_wait(&pipe->moved, &pipe->lock);
	nr = gwc_inputs_next(pipe->inputs, pipe->chunk_bytes, p->ranges, EXTENTS_MAX);
	if (nr) {
		*pipe->tail = p->chunk;
		pipe->tail = &p->chunk->next;
	}
	pthread_mutex_unlock(&pipe->lock);
	if (nr && !p->chunk->text) {	/* kept until the end, as page-locking takes its time */
		void *text = NULL;

		program_must(rnl_pinned_get(pipe->pool, pipe->buffer_bytes, &text),
			     "page-locking memory (a smaller --chunk needs less)");
		p->chunk->text = text;
	}
	return nr;
}

static void read_range(struct pipe *pipe, struct chunk *chunk, const struct gwc_range *range)
{
	struct extent *e = &chunk->extents[chunk->nr_extents++];
	const ssize_t got = gwc_range_read(pipe->inputs, range, chunk->text + chunk->used, &e->err);
	const bool ended = got < (ssize_t)range->bytes;

	e->in = range->in;
	e->at = (uint32_t)chunk->used;
	e->bytes = got < 0 ? 0 : (uint32_t)got;
	e->opened = got >= 0;
	e->last = range->in->stream ? ended : range->last;
	chunk->nr_pieces += nr_pieces(e->bytes);
	chunk->used += gwc_align(e->bytes);
	if (range->in->stream) {
		pthread_mutex_lock(&pipe->lock);
		gwc_inputs_streamed(pipe->inputs, ended);
		pthread_cond_broadcast(&pipe->moved);
		pthread_mutex_unlock(&pipe->lock);
	}
}

static void *produce(void *arg)
{
	struct producer *p = arg;
	struct pipe *pipe = p->pipe;
	unsigned nr;

	while ((nr = take_work(p))) {
		for (unsigned i = 0; i < nr; i++)
			read_range(pipe, p->chunk, &p->ranges[i]);
		submit(p->chunk);
	}
	pthread_mutex_lock(&pipe->lock);
	pipe->nr_active--;
	pthread_cond_signal(&pipe->ready);
	pthread_mutex_unlock(&pipe->lock);
	return NULL;
}

/* ---- the consumer -------------------------------------------------------- */

/* Return: the next chunk, counted; NULL: there are no more. */
static struct chunk *next_chunk(struct pipe *pipe)
{
	struct chunk *chunk;

	pthread_mutex_lock(&pipe->lock);
	while (!(pipe->head ? pipe->head->ready : !pipe->nr_active)) {
		fflush(stdout);		/* there is time to write */
		pthread_cond_wait(&pipe->ready, &pipe->lock);
	}
	chunk = pipe->head;
	pthread_mutex_unlock(&pipe->lock);
	if (chunk && chunk->nr_pieces) {
		program_must(rnl_job_wait(&chunk->job, RNL_FOREVER), "waiting for a job");
		program_must(rnl_job_result(&chunk->job), "counting");
	}
	return chunk;
}

static void give_back(struct pipe *pipe, struct chunk *chunk)
{
	pthread_mutex_lock(&pipe->lock);
	pipe->head = chunk->next;
	if (!pipe->head)
		pipe->tail = &pipe->head;
	chunk->taken = false;
	pthread_cond_broadcast(&pipe->moved);
	pthread_mutex_unlock(&pipe->lock);
}

static void consume_chunk(const struct chunk *chunk, size_t summaries_at,
			  void (*consume)(void *arg, const struct gwc_part *part), void *arg)
{
	const struct gwc_summary *sum = (const void *)(chunk->text + summaries_at);

	for (unsigned i = 0; i < chunk->nr_extents; i++) {
		const struct extent *e = &chunk->extents[i];
		struct gwc_part part = { e->in, { 0 }, e->bytes, e->err, e->opened, e->last };

		for (uint32_t j = 0; j < nr_pieces(e->bytes); j++)
			part.sum = gwc_join(part.sum, *sum++);
		consume(arg, &part);
	}
}

/* ---- start and stop ------------------------------------------------------ */

static void start_producer(struct pipe *pipe, struct producer *p)
{
	p->pipe = pipe;
	p->chunks = calloc(pipe->nr_chunks, sizeof(*p->chunks));
	program_must(p->chunks ? 0 : -ENOMEM, "the chunks");
	for (unsigned i = 0; i < pipe->nr_chunks; i++) {
		p->chunks[i].pipe = pipe;
		program_must(rnl_job_init(&p->chunks[i].job, count_chunk), "a job");
	}
	program_must(-pthread_create(&p->thread, NULL, produce, p), "a producer's thread");
}

static void stop_producer(struct pipe *pipe, struct producer *p)
{
	pthread_join(p->thread, NULL);
	for (unsigned i = 0; i < pipe->nr_chunks; i++)
		rnl_pinned_put(pipe->pool, p->chunks[i].text);
	free(p->chunks);
}

void gwc_count_all(struct rnl_pool *pool, struct gwc_inputs *inputs, const struct gwc_options *opt,
		   void (*consume)(void *arg, const struct gwc_part *part), void *arg)
{
	const size_t pieces_max = opt->chunk / GWC_PIECE + EXTENTS_MAX + 1;
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
		.nr_active = opt->producers,
	};
	struct producer *producers = calloc(opt->producers, sizeof(*producers));
	struct chunk *chunk;

	program_must(producers ? rnl_pool_read_stats(pool, &stats) : -ENOMEM, "starting");
	/* Four chunks for each worker, and eight at least for each producer. */
	pipe.nr_chunks = 4 * (stats.nr_workers / opt->producers + 1);
	pipe.nr_chunks = pipe.nr_chunks < 8 ? 8 : pipe.nr_chunks;
	pipe.tail = &pipe.head;
	for (unsigned i = 0; i < opt->producers; i++)
		start_producer(&pipe, &producers[i]);
	while ((chunk = next_chunk(&pipe))) {
		consume_chunk(chunk, summaries_at, consume, arg);
		give_back(&pipe, chunk);
	}
	for (unsigned i = 0; i < opt->producers; i++)
		stop_producer(&pipe, &producers[i]);
	free(producers);
}
