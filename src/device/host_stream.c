/* SPDX-License-Identifier: MIT */
/* The host device's asynchronous stream; host_stream.h has the design. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "sys/clock.h"
#include "sys/simulation.h"
#include "sys/thread.h"
#include "sys/tsan.h"
#include "device/host_memory.h"
#include "device/host_stream.h"

#define DEPTH 1024u		/* a CUDA stream takes as many before it blocks the caller */

struct rnl__host_stream {
	pthread_mutex_t lock;
	pthread_cond_t issued_more;	/* the executor waits */
	pthread_cond_t done_more;	/* the owner waits */
	uint64_t issued, done;
	pthread_t executor;
	struct rnl__host_op ops[DEPTH];
};

struct host_event {
	struct rnl__event base;
	pthread_mutex_t lock;
	pthread_cond_t more;
	uint64_t recorded, reached;
	uint64_t reached_at;
	unsigned users;			/* the owner, and issued operations */
};

static int cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;
	int ret;

	ret = pthread_condattr_init(&attr);
	if (ret)
		return -ret;
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	ret = pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
	return -ret;
}

/* ---- events -------------------------------------------------------------- */

static struct host_event *host_event(struct rnl__event *base)
{
	return (struct host_event *)base;
}

int rnl__host_event_create(struct rnl__event **eventp)
{
	struct host_event *event = calloc(1, sizeof(*event));

	if (!event)
		return -ENOMEM;
	pthread_mutex_init(&event->lock, NULL);
	pthread_cond_init(&event->more, NULL);
	event->users = 1;
	*eventp = &event->base;
	return 0;
}

/* Drops a use of an event, and releases its lock, which the caller holds. */
static void event_put(struct host_event *event)
{
	bool last = --event->users == 0;

	pthread_mutex_unlock(&event->lock);
	if (!last)
		return;
	pthread_cond_destroy(&event->more);
	pthread_mutex_destroy(&event->lock);
	free(event);
}

void rnl__host_event_destroy(struct rnl__event *base)
{
	struct host_event *event = host_event(base);

	if (!event)
		return;
	pthread_mutex_lock(&event->lock);
	event_put(event);
}

static void event_reach(struct rnl__event *base, uint64_t record)
{
	struct host_event *event = host_event(base);

	pthread_mutex_lock(&event->lock);
	event->reached = record;
	event->reached_at = rnl__now();
	pthread_cond_broadcast(&event->more);
	event_put(event);
}

static void event_await(struct rnl__event *base, uint64_t record)
{
	struct host_event *event = host_event(base);

	pthread_mutex_lock(&event->lock);
	while (event->reached < record)
		pthread_cond_wait(&event->more, &event->lock);
	event_put(event);
}

int rnl__host_event_reached(struct rnl__event *base)
{
	struct host_event *event = host_event(base);
	int reached;

	pthread_mutex_lock(&event->lock);
	reached = event->reached == event->recorded;
	pthread_mutex_unlock(&event->lock);
	return reached;
}

uint64_t rnl__host_event_time(struct rnl__event *base)
{
	struct host_event *event = host_event(base);
	uint64_t time;

	pthread_mutex_lock(&event->lock);
	time = event->reached_at;
	pthread_mutex_unlock(&event->lock);
	return time;
}

uint64_t rnl__host_event_use(struct rnl__event *base, bool records)
{
	struct host_event *event = host_event(base);
	uint64_t record;

	pthread_mutex_lock(&event->lock);
	event->recorded += records;
	record = event->recorded;
	event->users++;
	pthread_mutex_unlock(&event->lock);
	return record;
}

/* ---- the executor -------------------------------------------------------- */

static void host_stream_copy_rows(const struct rnl__copy *c)
{
	const char *src = c->src;
	char *dst = c->dst;

	for (size_t i = 0; i < c->rows; i++)
		/* Like on a GPU, source and destination may be the same. */
		memmove(dst + i * c->dst_pitch, src + i * c->src_pitch, c->width);
}

static void execute(const struct rnl__host_op *op)
{
	switch (op->kind) {
	case RNL__HOST_COPY:
		rnl__sim_copy(rnl__host_memory_owner(op->copy.dst), rnl__host_memory_owner(op->copy.src),
			      op->copy.rows * op->copy.width);
		host_stream_copy_rows(&op->copy);
		break;
	case RNL__HOST_FILL:
		rnl__sim_copy(0, 0, op->fill.bytes);
		memset(op->fill.dst, op->fill.value, op->fill.bytes);
		break;
	case RNL__HOST_FREE:
		rnl__host_memory_free(op->mem);
		break;
	case RNL__HOST_LAUNCH:
		rnl__sim_kernel();
		op->launch.kernel->host(op->launch.grid, op->launch.block, op->launch.args);
		free(op->launch.args);
		break;
	case RNL__HOST_WRITE:
		rnl__tsan_release(op->write.word);
		/*
		 * [host_stream.X1] release: a thread that reads the word sees all earlier work of
		 * the stream; pairs with [inflight.F1].
		 */
		atomic_store_explicit(op->write.word, op->write.value, memory_order_release);
		break;
	case RNL__HOST_RECORD:
		event_reach(op->event.event, op->event.record);
		break;
	case RNL__HOST_WAIT:
		event_await(op->event.event, op->event.record);
		break;
	case RNL__HOST_STOP:
		break;
	}
}

static void *executor_main(void *arg)
{
	struct rnl__host_stream *s = arg;
	struct rnl__host_op op;

	do {
		pthread_mutex_lock(&s->lock);
		while (s->done == s->issued)
			pthread_cond_wait(&s->issued_more, &s->lock);
		op = s->ops[s->done % DEPTH];
		pthread_mutex_unlock(&s->lock);

		execute(&op);

		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_signal(&s->done_more);
		pthread_mutex_unlock(&s->lock);
	} while (op.kind != RNL__HOST_STOP);
	return NULL;
}

/* Names the executor like its owner, with ':' for the last '-': a worker's stream is NAME:0. */
static void name_executor(pthread_t executor)
{
	char name[16] = "", *dash;

	(void)pthread_getname_np(pthread_self(), name, sizeof(name));
	dash = strrchr(name, '-');
	if (dash)
		*dash = ':';
	(void)pthread_setname_np(executor, name);
}

/* ---- the owner's side ---------------------------------------------------- */

int rnl__host_stream_create(struct rnl__host_stream **streamp)
{
	struct rnl__host_stream *s = calloc(1, sizeof(*s));
	int ret;

	if (!s)
		return -ENOMEM;
	ret = cond_init(&s->issued_more);
	if (ret)
		goto free_stream;
	ret = cond_init(&s->done_more);
	if (ret)
		goto destroy_cond;
	pthread_mutex_init(&s->lock, NULL);
	ret = rnl__thread_create(&s->executor, executor_main, s);
	if (ret)
		goto destroy_lock;
	name_executor(s->executor);
	*streamp = s;
	return 0;

destroy_lock:
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->done_more);
destroy_cond:
	pthread_cond_destroy(&s->issued_more);
free_stream:
	free(s);
	return ret;
}

void rnl__host_stream_destroy(struct rnl__host_stream *s)
{
	const struct rnl__host_op stop = { .kind = RNL__HOST_STOP };

	rnl__host_stream_issue(s, &stop);
	pthread_join(s->executor, NULL);
	pthread_mutex_destroy(&s->lock);
	pthread_cond_destroy(&s->done_more);
	pthread_cond_destroy(&s->issued_more);
	free(s);
}

void rnl__host_stream_issue(struct rnl__host_stream *s, const struct rnl__host_op *op)
{
	pthread_mutex_lock(&s->lock);
	while (s->issued - s->done == DEPTH)
		pthread_cond_wait(&s->done_more, &s->lock);
	s->ops[s->issued++ % DEPTH] = *op;
	pthread_cond_signal(&s->issued_more);
	pthread_mutex_unlock(&s->lock);
}

bool rnl__host_stream_idle(struct rnl__host_stream *s)
{
	bool idle;

	pthread_mutex_lock(&s->lock);
	idle = s->done == s->issued;
	pthread_mutex_unlock(&s->lock);
	return idle;
}

int rnl__host_stream_wait(struct rnl__host_stream *s, uint64_t deadline)
{
	const struct timespec ts = rnl__timespec(deadline);
	int ret = 0;

	pthread_mutex_lock(&s->lock);
	while (s->done != s->issued && !ret) {
		if (deadline == RNL__NEVER)
			pthread_cond_wait(&s->done_more, &s->lock);
		else
			ret = -pthread_cond_timedwait(&s->done_more, &s->lock, &ts);
	}
	if (s->done == s->issued)
		ret = 0;
	pthread_mutex_unlock(&s->lock);
	return ret;
}
