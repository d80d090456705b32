/* SPDX-License-Identifier: MIT */
/*
 * From files to counts: producers read, jobs count, and the consumer gets the
 * results in the order of the input.  This is the frame and the consumer's side.
 *
 * DESIGN
 * A chunk is one request: a job, a pinned buffer of text from one file or from
 * many, and the summaries that the job leaves in it.  A lot is a few chunks of
 * one producer that a barrier joins: a group of files, or a slice of a large
 * one.  Lots are in a list in the order of the input; a producer that takes work
 * puts its lot at the end (`turn` keeps the two steps together), and if the work
 * turns out larger than the lot, puts the next one right behind it.
 *
 * The consumer waits for the first lot in the list: that its producer has
 * submitted it, then for its barrier.  It takes the summaries and gives the lot
 * back.  Nothing else bounds the memory, and nothing more is needed: every
 * producer has lots of its own, so the one whose lot is first in the list never
 * lacks one for long, however far the others are ahead.
 *
 * Device memory is the job's scratch, laid out as its chunk's buffer.
 *
 * What is shared: fields of a lot belong to its producer until `ready`, then to
 * the consumer until `taken` is false again; both flags, the list and the
 * counters are under `lock`, the source under `turn`, which is taken first.
 */
#include "config.h"

#include "gwc_pipe.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

static unsigned pieces_max(const struct gwc_pipe *pipe)
{
	return (unsigned)(pipe->chunk_bytes / GWC_PIECE) + GWC_EXTENTS_MAX + 1;
}

/* ---- the consumer -------------------------------------------------------- */

static struct timespec after(int64_t timeout_ns)
{
	const uint64_t then = gwc_now_ns() + (uint64_t)timeout_ns;

	return (struct timespec){
		.tv_sec = (time_t)(then / 1000000000),
		.tv_nsec = (long)(then % 1000000000),
	};
}

/* Return: 1 there is a first lot and its jobs are done; else as gwc_pipe_next(). */
static int first_lot(struct gwc_pipe *pipe, int64_t timeout_ns, const char **what)
{
	const struct timespec deadline = after(timeout_ns < 0 ? 0 : timeout_ns);
	struct gwc_lot *lot = NULL;
	int ret = 0;

	pthread_mutex_lock(&pipe->lock);
	while (!ret && !(pipe->head ? pipe->head->ready : !pipe->nr_active))
		ret = timeout_ns < 0 ? pthread_cond_wait(&pipe->ready, &pipe->lock) :
			pthread_cond_timedwait(&pipe->ready, &pipe->lock, &deadline);
	if (!ret)
		lot = pipe->head;
	pthread_mutex_unlock(&pipe->lock);
	if (!lot)
		return -ret;
	if (lot->err) {
		*what = lot->what;
		return lot->err;
	}
	ret = rnl_barrier_wait(&lot->barrier, timeout_ns);
	if (!ret)
		ret = rnl_barrier_result(&lot->barrier);
	if (ret) {
		*what = "counting";
		return ret;
	}
	pipe->lot = lot;
	pipe->chunk = pipe->extent = pipe->piece = 0;
	return 1;
}

static void give_back(struct gwc_pipe *pipe)
{
	struct gwc_lot *lot = pipe->lot;

	pthread_mutex_lock(&pipe->lock);
	pipe->head = lot->next;
	if (!pipe->head)
		pipe->tail = &pipe->head;
	lot->taken = false;
	pthread_cond_broadcast(&pipe->moved);
	pthread_mutex_unlock(&pipe->lock);
	pipe->lot = NULL;
}

/* Return: false if there is nothing more in this lot. */
static bool next_extent(struct gwc_pipe *pipe, struct gwc_part *part)
{
	const struct gwc_summary *sums;
	const struct gwc_extent *e;
	struct gwc_chunk *chunk;

	while (pipe->chunk < pipe->lot->nr_chunks &&
	       pipe->extent == pipe->lot->chunks[pipe->chunk].nr_extents) {
		pipe->chunk++;
		pipe->extent = pipe->piece = 0;
	}
	if (pipe->chunk == pipe->lot->nr_chunks)
		return false;
	chunk = &pipe->lot->chunks[pipe->chunk];
	sums = gwc_summaries(pipe, chunk->text) + pipe->piece;
	e = &chunk->extents[pipe->extent++];
	*part = (struct gwc_part){
		.in = e->in,
		.bytes = e->bytes,
		.err = e->err,
		.flags = e->flags,
	};
	for (uint32_t i = 0; i < e->nr_pieces; i++)
		part->sum = gwc_join(part->sum, sums[i]);
	pipe->piece += e->nr_pieces;
	return true;
}

int gwc_pipe_next(struct gwc_pipe *pipe, struct gwc_part *part, int64_t timeout_ns,
		  const char **what)
{
	for (;;) {
		if (!pipe->lot) {
			const int ret = first_lot(pipe, timeout_ns, what);

			if (ret != 1)
				return ret;
		}
		if (next_extent(pipe, part))
			return 1;
		give_back(pipe);
	}
}

/* ---- start and stop ------------------------------------------------------ */

static void free_memory(struct gwc_pipe *pipe)
{
	for (unsigned i = 0; pipe->producers && i < pipe->nr_producers; i++) {
		struct gwc_lot *lots = pipe->producers[i].lots;

		for (unsigned j = 0; lots && j < pipe->nr_lots; j++)
			for (unsigned k = 0; k < GWC_LOT_CHUNKS; k++)
				rnl_pinned_put(pipe->pool, lots[j].chunks[k].text);
		free(lots);
	}
	free(pipe->producers);
	pthread_cond_destroy(&pipe->moved);
	pthread_cond_destroy(&pipe->ready);
	pthread_mutex_destroy(&pipe->lock);
	pthread_mutex_destroy(&pipe->turn);
	free(pipe);
}

static int init_lot(struct gwc_pipe *pipe, struct gwc_lot *lot)
{
	int ret = rnl_barrier_init(&lot->barrier, pipe->pool);

	for (unsigned i = 0; !ret && i < GWC_LOT_CHUNKS; i++) {
		struct gwc_chunk *chunk = &lot->chunks[i];

		chunk->pipe = pipe;
		ret = rnl_job_init(&chunk->job, gwc_count_chunk);
		if (!ret)	/* for good: it holds for every submit of the job */
			ret = rnl_barrier_add(&lot->barrier, &chunk->job);
	}
	return ret;
}

static int init_producer(struct gwc_pipe *pipe, struct gwc_producer *p)
{
	int ret = 0;

	p->pipe = pipe;
	p->lots = calloc(pipe->nr_lots, sizeof(*p->lots));
	if (!p->lots)
		return -ENOMEM;
	for (unsigned i = 0; !ret && i < pipe->nr_lots; i++)
		ret = init_lot(pipe, &p->lots[i]);
	return ret;
}

static int get_memory(struct gwc_pipe *pipe)
{
	int ret = 0;

	pipe->producers = calloc(pipe->nr_producers, sizeof(*pipe->producers));
	if (!pipe->producers)
		return -ENOMEM;
	for (unsigned i = 0; !ret && i < pipe->nr_producers; i++)
		ret = init_producer(pipe, &pipe->producers[i]);
	return ret;
}

static void init_locks(struct gwc_pipe *pipe)
{
	pthread_condattr_t attr;

	pthread_mutex_init(&pipe->turn, NULL);
	pthread_mutex_init(&pipe->lock, NULL);
	pthread_cond_init(&pipe->moved, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&pipe->ready, &attr);
	pthread_condattr_destroy(&attr);
}

uint64_t gwc_pipe_work_bytes(const struct gwc_options *opt)
{
	return (uint64_t)opt->chunk * GWC_LOT_CHUNKS;
}

int gwc_pipe_start(struct gwc_pipe **pipep, struct rnl_pool *pool, struct gwc_source *src,
		   const struct gwc_options *opt, const char **what)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct gwc_pipe *pipe;
	unsigned nr_lots;
	int ret;

	*what = "starting";
	ret = rnl_pool_stats(pool, &stats);
	if (ret)
		return ret;
	pipe = calloc(1, sizeof(*pipe));
	if (!pipe)
		return -ENOMEM;
	init_locks(pipe);
	pipe->pool = pool;
	pipe->src = src;
	pipe->chunk_bytes = opt->chunk;
	pipe->summaries_at = gwc_round_up(gwc_round_up(opt->chunk, GWC_ALIGN) +
				      pieces_max(pipe) * sizeof(struct gwc_piece), 64);
	pipe->buffer_bytes = pipe->summaries_at + pieces_max(pipe) * sizeof(struct gwc_summary);
	pipe->only_sizes = gwc_options_only_sizes(opt);
	pipe->printable = opt->printable;
	pipe->nr_producers = opt->producers;
	/* Four chunks for each worker, and two lots at least for each producer. */
	nr_lots = stats.nr_workers / pipe->nr_producers + 1;
	pipe->nr_lots = nr_lots < 2 ? 2 : nr_lots;
	pipe->tail = &pipe->head;
	ret = get_memory(pipe);
	if (ret) {
		*what = "getting memory (a smaller --chunk needs less)";
		free_memory(pipe);
		return ret;
	}
	pipe->nr_active = pipe->nr_producers;
	for (unsigned i = 0; i < pipe->nr_producers; i++) {
		struct gwc_producer *p = &pipe->producers[i];

		/* The caller ends the process: those that run are not joined. */
		ret = -pthread_create(&p->thread, NULL, gwc_produce, p);
		if (ret)
			return ret;
	}
	*pipep = pipe;
	return 0;
}

void gwc_pipe_stop(struct gwc_pipe *pipe, struct gwc_pipe_stats *stats)
{
	*stats = (struct gwc_pipe_stats){ 0, 0 };
	for (unsigned i = 0; i < pipe->nr_producers; i++) {
		const struct gwc_pipe_stats *s = &pipe->producers[i].stats;

		pthread_join(pipe->producers[i].thread, NULL);
		stats->jobs += s->jobs;
		if (s->max_in_flight > stats->max_in_flight)
			stats->max_in_flight = s->max_in_flight;
	}
	free_memory(pipe);
}
