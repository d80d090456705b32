/* SPDX-License-Identifier: MIT */
/*
 * A stream's ring; its executor, a thread that runs one operation after the other; and the waits
 * between streams.
 *
 * DESIGN
 *	A stream is a ring and two counts, issued and done. An operation may have points in
 *	other streams that must be reached before it begins. Points are enough for events and the
 *	legacy stream. A point is always an operation issued earlier, so streams cannot deadlock. In
 *	a shared hardware queue each operation has a point at the operation issued before it. Once
 *	the device has failed, executors begin no operation.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdlib.h>

#include "internal.h"

#define SLOTS_MIN 64u

static uint64_t last_serial;
static struct fake_stream *last_in_queue[FAKE_QUEUES_MAX];	/* the stream that issued last */

void fake__wake_all(void)
{
	for (struct fake_stream *s = fake__streams; s; s = s->next) {
		pthread_cond_broadcast(&s->more);
		pthread_cond_broadcast(&s->progress);
	}
}

/* ---- the executor -------------------------------------------------------- */

/* Waits for the operation's points.  Returns false if the device has failed meanwhile. */
static bool points_reached(const struct fake_op *op)
{
	for (unsigned i = 0; i < op->nr_points; i++) {
		const struct fake_point *point = &op->points[i];

		while (!fake__reached(point) && fake__failed() == cudaSuccess)
			fake__wait(&point->stream->progress);
	}
	return fake__failed() == cudaSuccess;
}

static void drop_points(struct fake_op *op)
{
	for (unsigned i = 0; i < op->nr_points; i++)
		fake__stream_put(op->points[i].stream);
	free(op->points);
}

static void drop(struct fake_op *op)
{
	if (op->kind == FAKE_OP_COPY)
		free(op->copy.staged);
	if (op->kind == FAKE_OP_LAUNCH)
		free(op->launch.args);
	drop_points(op);
}

static struct fake_op *slot_of(struct fake_stream *s, uint64_t nr)
{
	return &s->ops[nr % s->nr_slots];
}

void fake__drop_ops(struct fake_stream *s)
{
	for (; s->done != s->issued; s->done++)
		drop(slot_of(s, s->done));
	free(s->ops);
}

static bool takes_place(const struct fake_op *op)
{
	return op->kind == FAKE_OP_COPY || op->kind == FAKE_OP_FILL ||
	       op->kind == FAKE_OP_LAUNCH || op->kind == FAKE_OP_WRITE;
}

/* Waits for an operation.  Returns false if the executor should end. */
static bool next_op(struct fake_stream *s)
{
	while (s->done == s->issued && !s->ending && fake__failed() == cudaSuccess)
		fake__wait(&s->more);
	return s->done != s->issued && fake__failed() == cudaSuccess;
}

static void *executor_main(void *arg)
{
	struct fake_stream *s = arg;

	/* The thread names itself: a name set by another thread needs /proc, which may fail. */
	pthread_setname_np(pthread_self(), "fake-stream");
	fake__lock();
	while (next_op(s)) {
		struct fake_op op = *slot_of(s, s->done);
		/* A failure does not end a kernel, a host function; later ones do not begin. */
		const bool moves = op.kind != FAKE_OP_LAUNCH;

		if (!points_reached(&op) || (moves ? !fake__move() : fake__fails()))
			break;
		for (unsigned i = 0; i < 2; i++)
			fake__check_use(op.uses[i], op.serial);
		fake__unlock();
		fake__delay(fake__settings.delay_ops_us);
		if (fake__settings.slice_us && op.kind == FAKE_OP_LAUNCH)
			fake__slice();
		fake__execute(&op);
		fake__lock();
		if (moves)
			fake__moved();
		/* A kernel of the library may have done nothing. */
		if (fake__fails())
			break;
		fake__finish(&op);
		drop(&op);
		s->in_places -= takes_place(&op);
		s->done++;
		pthread_cond_broadcast(&s->progress);
	}
	s->running = false;
	fake__stream_put(s);
	fake__unlock();
	return NULL;
}

/* Starts the executor with all signals blocked: they belong to the application. */
static int start(struct fake_stream *s)
{
	pthread_attr_t attr;
	sigset_t all, before;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	ret = pthread_create(&thread, &attr, executor_main, fake__stream_get(s));
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	if (ret)
		fake__stream_put(s);
	s->running = !ret;
	return ret;
}

/* ---- issuing ------------------------------------------------------------- */

static bool is_full(const struct fake_stream *s)
{
	/* One operation runs; the others are queued after it. */
	return s->in_places > FAKE_DEPTH;
}

/* Returns false if there is no memory for one more operation. */
static bool grow(struct fake_stream *s)
{
	uint64_t nr = s->nr_slots ? 2 * s->nr_slots : SLOTS_MIN;
	struct fake_op *ops;

	if (s->issued - s->done < s->nr_slots)
		return true;
	ops = calloc(nr, sizeof(*ops));
	if (!ops)
		return false;
	for (uint64_t i = s->done; i < s->issued; i++)
		ops[i % nr] = *slot_of(s, i);
	free(s->ops);
	s->ops = ops;
	s->nr_slots = nr;
	return true;
}

cudaError_t fake__room(cudaStream_t handle, struct fake_stream **streamp)
{
	cudaError_t code = fake__stream_of(handle, streamp);
	struct fake_stream *s = *streamp;

	if (code != cudaSuccess)
		return code;
	fake__stream_get(s);
	while (!s->capture && is_full(s) && fake__failed() == cudaSuccess)
		fake__wait(&s->progress);
	fake__stream_put(s);
	return fake__failed();
}

static void add_point(struct fake_op *op, struct fake_stream *stream)
{
	if (stream->done != stream->issued)
		op->points[op->nr_points++] = (struct fake_point){
			fake__stream_get(stream), stream->issued
		};
}

/* The legacy stream waits for all blocking streams, and they wait for it. */
static cudaError_t join(struct fake_stream *stream, struct fake_op *op)
{
	struct fake_stream *legacy = fake__legacy(), *s;
	unsigned nr = op->nr_points + 1;
	struct fake_point *points;

	if (!legacy || !stream->blocking)
		return cudaSuccess;
	for (s = fake__streams; s; s = s->next)
		nr++;
	points = realloc(op->points, nr * sizeof(*points));
	if (!points)
		return cudaErrorMemoryAllocation;
	op->points = points;
	if (stream != legacy)
		add_point(op, legacy);
	for (s = stream == legacy ? fake__streams : NULL; s; s = s->next) {
		if (s->blocking && s != legacy)
			add_point(op, s);
	}
	return cudaSuccess;
}

/* The hardware queue's last operation must be done first. */
static cudaError_t share_queue(struct fake_stream *stream, struct fake_op *op)
{
	struct fake_stream **last;
	struct fake_point *points;

	if (!fake__settings.nr_queues)
		return cudaSuccess;
	last = &last_in_queue[stream->id % fake__settings.nr_queues];
	if (*last == stream)
		return cudaSuccess;
	points = realloc(op->points, (op->nr_points + 1) * sizeof(*points));
	if (!points)
		return cudaErrorMemoryAllocation;
	op->points = points;
	if (*last) {
		add_point(op, *last);
		fake__stream_put(*last);
	}
	*last = fake__stream_get(stream);
	return cudaSuccess;
}

cudaError_t fake__issue(struct fake_stream *stream, const struct fake_op *op)
{
	struct fake_op new = *op;
	cudaError_t code;

	if (stream->capture) {
		drop_points(&new);
		new.points = NULL;
		new.nr_points = 0;
		return fake__capture_op(stream->capture, &new);
	}
	code = join(stream, &new);
	if (code == cudaSuccess)
		code = share_queue(stream, &new);
	if (code == cudaSuccess && !grow(stream))
		code = cudaErrorMemoryAllocation;
	if (code == cudaSuccess && !stream->running && start(stream))
		code = cudaErrorOperatingSystem;
	if (code != cudaSuccess) {
		drop_points(&new);
		return code;
	}
	if (new.kind == FAKE_OP_COPY) {
		new.to = fake__owner(new.copy.dst);
		new.from = fake__owner(new.copy.src);
	}
	new.serial = ++last_serial;
	*slot_of(stream, stream->issued++) = new;
	stream->in_places += takes_place(&new);
	pthread_cond_signal(&stream->more);
	return cudaSuccess;
}

uint64_t fake__last_serial(void)
{
	return last_serial;
}

/* ---- waiting ------------------------------------------------------------- */

cudaError_t fake__sync(struct fake_stream *stream)
{
	uint64_t until = stream->issued;

	fake__stream_get(stream);
	while (stream->done < until && fake__failed() == cudaSuccess)
		fake__wait(&stream->progress);
	fake__stream_put(stream);
	return fake__failed();
}

cudaError_t fake__sync_all(void)
{
	const uint64_t until = last_serial;
	struct fake_stream *s = fake__streams;

	/* Starts again after each wait, as streams may have been freed. */
	while (s && fake__failed() == cudaSuccess) {
		if (s->done == s->issued || slot_of(s, s->done)->serial > until) {
			s = s->next;
			continue;
		}
		fake__stream_get(s);
		fake__wait(&s->progress);
		fake__stream_put(s);
		s = fake__streams;
	}
	return fake__failed();
}

bool fake__in_use(struct fake_area area, uint64_t before)
{
	for (struct fake_stream *s = fake__streams; s; s = s->next) {
		for (uint64_t i = s->done; i < s->issued; i++) {
			const struct fake_op *op = slot_of(s, i);

			for (unsigned u = 0; u < 2 && op->serial < before; u++) {
				if (op->uses[u].bytes &&
				    op->uses[u].begin < area.begin + area.bytes &&
				    area.begin < op->uses[u].begin + op->uses[u].bytes)
					return true;
			}
		}
	}
	return false;
}
