/* SPDX-License-Identifier: MIT */
/* Attaches an implicit stream to a thread, and detaches it; stream.h has the design. */
#include "config.h"

#include <errno.h>
#include <pthread.h>

#include "device/units.h"
#include "stream/stream.h"
#include "sys/thread_state.h"

/*
 * All attached streams.  A forked child has none of their threads.  Without the list the child
 * would lose the streams, and its LeakSanitizer would report them at exit().
 */
static pthread_mutex_t streams_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t streams_once = PTHREAD_ONCE_INIT;
static struct rnl__stream *streams;
static int streams_result;

static void streams_take(void)
{
	pthread_mutex_lock(&streams_lock);
}

static void streams_drop(void)
{
	pthread_mutex_unlock(&streams_lock);
}

/* A fork during a change would leave the child a lock that no thread releases. */
static void streams_guard_forks(void)
{
	streams_result = -pthread_atfork(streams_take, streams_drop, streams_drop);
}

static void streams_add(struct rnl__stream *stream)
{
	streams_take();
	stream->next = streams;
	if (streams)
		streams->before = stream;
	streams = stream;
	streams_drop();
}

static void streams_remove(struct rnl__stream *stream)
{
	streams_take();
	if (stream->next)
		stream->next->before = stream->before;
	if (stream->before)
		stream->before->next = stream->next;
	else
		streams = stream->next;
	streams_drop();
}

int rnl__stream_attach(struct rnl__device *device, const struct rnl__stream_wish *wish)
{
	int ret;

	if (rnl__device_failed(device))
		return -EIO;
	pthread_once(&streams_once, streams_guard_forks);
	if (streams_result)
		return -ENOMEM;
	ret = rnl__units_join();
	if (ret)
		return ret;
	ret = device->ops->attach(device, wish, &rnl__thread.stream);
	if (!ret)
		streams_add(rnl__thread.stream);
	rnl__thread.generation = rnl__generation;
	if (ret)
		rnl__units_leave();
	else if (device->info.cuda)
		(void)rnl__units_error();	/* earlier errors belong to no job */
	return ret;
}

void rnl__stream_detach(void)
{
	struct rnl__stream *stream = rnl__thread.stream;

	/* A forked child does not touch the stream: its executor is in the parent. */
	if (stream && rnl__thread.generation == rnl__generation) {
		streams_remove(stream);
		stream->device->ops->detach(stream);
	}
	if (stream)
		rnl__units_leave();
	rnl__thread.stream = NULL;
}
