/* SPDX-License-Identifier: MIT */
/*
 * The producers of gwc: they read files into chunks and submit the jobs that
 * count them.
 *
 * DESIGN
 * A producer takes work from the source and reads it into the chunks of a lot;
 * gwc_pipe.c says how lots reach the consumer.  A chunk is submitted as soon as
 * it is full, and the last one of the work as it is.  Texts start at multiples
 * of GWC_ALIGN, and those of small files share a chunk: what of it belongs to
 * which file is in the chunk's extents, and the kernel sees only pieces.
 */
#include "config.h"

#include "gwc_pipe.h"

#include <errno.h>
#include <unistd.h>

/* ---- the job ------------------------------------------------------------- */

int gwc_count_chunk(struct rnl_job *job)
{
	struct gwc_chunk *chunk = rnl_container_of(job, struct gwc_chunk, job);
	struct gwc_pipe *pipe = chunk->pipe;
	struct gwc_args args = { .printable = pipe->printable };
	const struct rnl_dim grid = { chunk->nr_pieces, 1, 1 };
	const struct rnl_dim block = { GWC_THREADS, 1, 1 };
	unsigned char *mem;
	void *scratch;
	int ret;

	ret = rnl_scratch(pipe->buffer_bytes, &scratch);
	if (ret)
		return ret;
	mem = scratch;
	args.text = mem;
	args.pieces = (const struct gwc_piece *)(void *)(mem + chunk->used);
	args.summaries = gwc_summaries(pipe, mem);
	ret = rnl_copy(mem, chunk->text,
		       chunk->used + chunk->nr_pieces * sizeof(struct gwc_piece));
	if (!ret)
		ret = rnl_launch(&gwc_kernel, grid, block, &args);
	if (!ret)
		ret = rnl_copy(gwc_summaries(pipe, chunk->text), args.summaries,
			       chunk->nr_pieces * sizeof(struct gwc_summary));
	return ret;
}

/* ---- producers ----------------------------------------------------------- */

static int fail(struct gwc_producer *p, int err, const char *what)
{
	p->what = what;
	return err;
}

/* Cuts the text into pieces; their table goes right behind it, for one copy. */
static void cut(struct gwc_chunk *chunk)
{
	struct gwc_piece *piece = (struct gwc_piece *)(void *)(chunk->text + chunk->used);

	for (unsigned i = 0; i < chunk->nr_extents; i++) {
		const struct gwc_extent *e = &chunk->extents[i];

		for (uint32_t j = 0; j < e->nr_pieces; j++) {
			const uint32_t start = j * GWC_PIECE;
			const uint32_t rest = (uint32_t)e->bytes - start;

			piece->offset = e->offset + start;
			piece->bytes = rest < GWC_PIECE ? rest : GWC_PIECE;
			piece++;
		}
	}
}

static int submit(struct gwc_producer *p)
{
	struct gwc_chunk *chunk = p->chunk;
	int ret;

	if (!chunk || !chunk->nr_pieces)
		return 0;
	cut(chunk);
	ret = rnl_submit(p->pipe->pool, &chunk->job);
	if (ret)
		return fail(p, ret, "submitting a job");
	p->stats.jobs++;
	return 0;
}

/* Once for each lot: the pool sums up what all workers have counted. */
static void sample(struct gwc_producer *p)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	if (!rnl_pool_stats(p->pipe->pool, &stats) &&
	    stats.queued + stats.in_flight > p->stats.max_in_flight)
		p->stats.max_in_flight = stats.queued + stats.in_flight;
}

/* Waits until the consumer has given one back. */
static struct gwc_lot *get_lot(struct gwc_producer *p)
{
	struct gwc_pipe *pipe = p->pipe;
	struct gwc_lot *lot = NULL;

	pthread_mutex_lock(&pipe->lock);
	while (!lot) {
		/* The first one that is free: its memory was used most recently. */
		for (unsigned i = 0; i < pipe->nr_lots && !lot; i++)
			if (!p->lots[i].taken)
				lot = &p->lots[i];
		if (!lot)
			pthread_cond_wait(&pipe->moved, &pipe->lock);
	}
	lot->taken = true;
	lot->ready = false;
	pthread_mutex_unlock(&pipe->lock);
	lot->err = 0;
	lot->nr_chunks = 0;
	return lot;
}

/* To the consumer, which waits for what the producer has submitted. */
static void hand_over(struct gwc_producer *p, int err)
{
	struct gwc_pipe *pipe = p->pipe;

	sample(p);
	p->lot->err = err;
	p->lot->what = p->what;
	pthread_mutex_lock(&pipe->lock);
	p->lot->ready = true;
	pthread_cond_signal(&pipe->ready);
	pthread_mutex_unlock(&pipe->lock);
}

/*
 * The lot is full and its work is not done.  Another lot of this producer gets
 * free without this one being handed over: those before it in the list do.
 */
static void go_on_in_next_lot(struct gwc_producer *p)
{
	struct gwc_pipe *pipe = p->pipe;
	struct gwc_lot *lot = get_lot(p);

	pthread_mutex_lock(&pipe->lock);
	lot->next = p->lot->next;
	p->lot->next = lot;
	if (pipe->tail == &p->lot->next)
		pipe->tail = &lot->next;
	pthread_mutex_unlock(&pipe->lock);
	hand_over(p, 0);
	p->lot = lot;
	p->chunk = NULL;
}

/* Makes p->chunk one that has room for text, and for an extent. */
static int make_room(struct gwc_producer *p)
{
	struct gwc_pipe *pipe = p->pipe;
	struct gwc_chunk *chunk = p->chunk;
	int ret;

	if (chunk && chunk->used < pipe->chunk_bytes && chunk->nr_extents < GWC_EXTENTS_MAX)
		return 0;
	ret = submit(p);
	if (ret)
		return ret;
	if (p->lot->nr_chunks == GWC_LOT_CHUNKS)
		go_on_in_next_lot(p);
	chunk = &p->lot->chunks[p->lot->nr_chunks];
	if (!chunk->text) {
		void *text = NULL;

		/* Kept until the end: to page-lock memory takes its time. */
		ret = rnl_pinned_get(pipe->pool, pipe->buffer_bytes, &text);
		if (ret)
			return fail(p, ret, "page-locking memory (a smaller --chunk needs less)");
		chunk->text = text;
	}
	chunk->used = 0;
	chunk->nr_pieces = 0;
	chunk->nr_extents = 0;
	p->chunk = chunk;
	p->lot->nr_chunks++;
	return 0;
}

/* Adds what follows of an input; @text bytes of it are at the end of the text. */
static void put(struct gwc_producer *p, struct gwc_input *in, uint64_t bytes, size_t text, int err,
		unsigned flags)
{
	struct gwc_chunk *chunk = p->chunk;
	struct gwc_extent *e = &chunk->extents[chunk->nr_extents++];

	*e = (struct gwc_extent){
		.in = in,
		.bytes = bytes,
		.offset = (uint32_t)chunk->used,
		.nr_pieces = (uint32_t)((text + GWC_PIECE - 1) / GWC_PIECE),
		.err = err,
		.flags = flags,
	};
	chunk->nr_pieces += e->nr_pieces;
	chunk->used += gwc_round_up(text, GWC_ALIGN);
}

static int put_news(struct gwc_producer *p, struct gwc_input *in, int err, unsigned flags)
{
	const int ret = make_room(p);

	if (!ret)
		put(p, in, 0, 0, err, flags);
	return ret;
}

/*
 * Reads @left bytes at most, and puts them; the last of them with @at_end if
 * the input ended there or could not be read any further.
 * @ended: receives whether it did.
 */
static int read_on(struct gwc_producer *p, struct gwc_input *in, int fd, int64_t offset,
		   uint64_t left, unsigned at_end, bool *ended)
{
	const struct gwc_pipe *pipe = p->pipe;

	*ended = false;
	while (left && !*ended) {
		int ret = make_room(p);
		size_t want, got;
		int err;

		if (ret)
			return ret;
		want = pipe->chunk_bytes - p->chunk->used;
		if (want > left)
			want = (size_t)left;
		got = gwc_input_read(fd, p->chunk->text + p->chunk->used, want, offset, &err);
		*ended = got < want;
		put(p, in, got, pipe->only_sizes ? 0 : got, err, *ended ? at_end : 0);
		left -= got;
		if (offset >= 0)
			offset += (int64_t)got;
	}
	return 0;
}

static int read_whole(struct gwc_producer *p, struct gwc_input *in)
{
	const unsigned at_end = GWC_PART_OVER | GWC_PART_LAST;
	uint64_t skipped = 0;
	bool ended;
	int fd, ret;

	if (in->kind >= GWC_INPUT_EMPTY_NAME)
		return put_news(p, in, in->err, at_end | GWC_PART_NOT_OPENED);
	fd = gwc_input_open(p->pipe->src, in);
	if (fd < 0)	/* wc does not open standard input: reading it fails */
		return put_news(p, in, -fd, gwc_input_is_stdin(in) ?
				at_end : at_end | GWC_PART_NOT_OPENED);
	if (p->pipe->only_sizes)
		skipped = gwc_input_skip(fd);
	ret = make_room(p);
	if (!ret && skipped)
		put(p, in, skipped, 0, 0, 0);
	if (!ret)
		ret = read_on(p, in, fd, -1, UINT64_MAX, at_end, &ended);
	if (!gwc_input_is_stdin(in))
		close(fd);
	return ret;
}

static int read_files(struct gwc_producer *p, const struct gwc_work *work)
{
	struct gwc_input *in = work->first;

	for (unsigned i = 0; i < work->nr; i++) {
		/* The consumer may free an input once the end of it is put. */
		struct gwc_input *const next = in->next;
		const int ret = read_whole(p, in);

		if (ret)
			return ret;
		in = next;
	}
	return 0;
}

static int read_slice(struct gwc_producer *p, const struct gwc_work *work)
{
	const unsigned at_end = GWC_PART_OVER | (work->last ? GWC_PART_LAST : 0);
	struct gwc_pipe *pipe = p->pipe;
	bool ended;
	int ret;

	if (!work->bytes)
		return put_news(p, work->first, 0, at_end);
	ret = read_on(p, work->first, work->first->fd, (int64_t)work->offset, work->bytes, at_end,
		      &ended);
	if (!ret && ended && !work->last) {
		/* This lot is not handed over yet, so the input is still there. */
		pthread_mutex_lock(&pipe->turn);
		work->first->ended = true;
		pthread_mutex_unlock(&pipe->turn);
	}
	return ret;
}

static int read_stream(struct gwc_producer *p, const struct gwc_work *work)
{
	struct gwc_pipe *pipe = p->pipe;
	int ret;

	pthread_mutex_lock(&pipe->lock);
	while (pipe->nr_streams_read != work->turn)
		pthread_cond_wait(&pipe->moved, &pipe->lock);
	pthread_mutex_unlock(&pipe->lock);

	ret = read_whole(p, work->first);

	pthread_mutex_lock(&pipe->lock);
	pipe->nr_streams_read++;
	pthread_cond_broadcast(&pipe->moved);
	pthread_mutex_unlock(&pipe->lock);
	return ret;
}

static int do_work(struct gwc_producer *p, const struct gwc_work *work)
{
	switch (work->kind) {
	case GWC_WORK_FILES:
		return read_files(p, work);
	case GWC_WORK_SLICE:
		return read_slice(p, work);
	case GWC_WORK_STREAM:
		return read_stream(p, work);
	}
	return -EINVAL;
}

/* Takes work, and a place for its results in the order of the input. */
static bool take_work(struct gwc_producer *p, struct gwc_work *work)
{
	struct gwc_pipe *pipe = p->pipe;
	bool more;

	p->lot = get_lot(p);
	p->chunk = NULL;
	pthread_mutex_lock(&pipe->turn);
	more = gwc_source_next(pipe->src, work);
	if (more) {
		pthread_mutex_lock(&pipe->lock);
		p->lot->next = NULL;
		*pipe->tail = p->lot;
		pipe->tail = &p->lot->next;
		pthread_mutex_unlock(&pipe->lock);
	}
	pthread_mutex_unlock(&pipe->turn);
	return more;
}

void *gwc_produce(void *arg)
{
	struct gwc_producer *p = arg;
	struct gwc_pipe *pipe = p->pipe;
	struct gwc_work work;
	int ret = 0;

	while (!ret && take_work(p, &work)) {
		ret = do_work(p, &work);
		if (!ret)
			ret = submit(p);
		hand_over(p, ret);
	}
	pthread_mutex_lock(&pipe->lock);
	pipe->nr_active--;
	pthread_cond_signal(&pipe->ready);
	pthread_mutex_unlock(&pipe->lock);
	return NULL;
}
