/* SPDX-License-Identifier: MIT */
/*
 * The calling thread's implicit stream: attaching threads to it, and the
 * public operations on it.  What an operation does is the backend's.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>

#include "clock.h"
#include "device.h"
#include "pool.h"
#include "self.h"
#include "stream.h"

#define PITCH_MAX ((size_t)INT32_MAX)	/* CUDA's cudaDeviceProp.memPitch */

/* Detaches threads that end attached; workers detach themselves. */
static pthread_key_t at_exit;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int key_result;

static void detach_at_exit(void *unused)
{
	(void)unused;
	rnl__stream_detach();
}

static void make_key(void)
{
	key_result = -pthread_key_create(&at_exit, detach_at_exit);
}

int rnl__stream_attach(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent)
{
	int ret;

	if (rnl__device_failed(device))
		return -EIO;
	ret = device->ops->attach(device, kind, urgent, &rnl__self.stream);
	rnl__self.generation = rnl__generation;
	return ret;
}

void rnl__stream_detach(void)
{
	struct rnl__stream *stream = rnl__self.stream;

	/* In a forked child the stream's executor is gone; leave it be. */
	if (stream && rnl__self.generation == rnl__generation)
		stream->device->ops->detach(stream);
	rnl__self.stream = NULL;
}

int rnl_thread_attach(struct rnl_pool *pool)
{
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (rnl__self.stream && rnl__self.generation == rnl__generation)
		return rnl__self.stream->device == pool->device ? 0 : -EBUSY;
	pthread_once(&once, make_key);
	if (key_result)
		return -ENOMEM;
	ret = rnl__stream_attach(pool->device, pool->stream, false);
	if (ret)
		return ret;
	/* Any value but NULL has the destructor run. */
	if (pthread_setspecific(at_exit, &at_exit)) {
		rnl__stream_detach();
		return -ENOMEM;
	}
	return 0;
}

void rnl_thread_detach(void)
{
	if (!rnl__self.worker)
		rnl__stream_detach();
}

/* What the unit's last own call came to: our next one, refused for that, would hide it. */
static void note_unit_error(const struct rnl__stream *stream)
{
	struct rnl__guarded *guard = rnl__self.guard;

	if (guard->checked && stream->device->info.cuda && !guard->unit_code)
		guard->unit_code = rnl__self.job->check();
}

/* The operations of the calling thread's device, if it may use them. */
static int ready(const struct rnl__device_ops **ops)
{
	const struct rnl__stream *stream = rnl__self.stream;

	if (!stream)
		return -ENODEV;
	if (rnl__self.guard)
		note_unit_error(stream);
	if (rnl__self.generation != rnl__generation)
		return -EOWNERDEAD;
	*ops = stream->device->ops;
	return rnl__device_failed(stream->device) ? -EIO : 0;
}

/* A call that failed in a job is the job's error, should it not say so itself. */
static int issued(int ret)
{
	if (ret && rnl__self.job && !rnl__self.error)
		rnl__self.error = ret;
	return ret;
}

/* The track that a trace has of the job which runs here, or NULL. */
static struct rnl__track *track(void)
{
	return rnl__self.job && rnl__self.worker ? rnl__self.worker->track : NULL;
}

/* Something is about to be issued. */
static void note_issue(void)
{
	if (track())
		rnl__track_issue(track());
}

/* What was issued is a kernel, or a fill. */
static int noted(int ret)
{
	if (!ret && track())
		rnl__track_op(track(), RNL__TRACK_KERNEL);
	return ret;
}

/* Issues a copy; on a worker, its job does not wait for pageable memory. */
static int issue_copy(const struct rnl__device_ops *ops, const struct rnl__copy *c)
{
	struct rnl__worker *worker = rnl__self.job ? rnl__self.worker : NULL;
	int ret;

	if (!worker)
		return ops->copy(c);
	if (rnl__self.guard && rnl__staging_pageable(&worker->staging, c)) {
		/* A CPU's steps cannot be captured: it will be issued when all is called again. */
		rnl__self.guard->found |= RNL__PAGEABLE_COPY;
		rnl__self.guard->again = true;
		return 0;
	}
	worker->moved += c->width * c->rows;
	if (worker->track)
		rnl__track_issue(worker->track);
	ret = rnl__staging_copy(&worker->staging, rnl__inflight_next(&worker->inflight), c);
	if (!ret && worker->track)
		rnl__track_copy(worker->track, c);
	return ret;
}

static int copy(void *dst, const void *src, size_t bytes)
{
	const struct rnl__copy c = { .dst = dst, .src = src, .width = bytes, .rows = 1 };
	const struct rnl__device_ops *ops;
	int ret = ready(&ops);

	if (ret || !bytes)
		return ret;
	return dst && src ? issue_copy(ops, &c) : -EINVAL;
}

/* Whether rows that lie so apart are rows, and within what CUDA can address. */
static bool pitched(size_t pitch, size_t width, size_t rows)
{
	return pitch >= width && pitch <= PITCH_MAX && rows <= SIZE_MAX / 2 / PITCH_MAX;
}

static int copy_2d(const struct rnl__copy *c)
{
	const struct rnl__device_ops *ops;
	int ret = ready(&ops);

	if (ret || !c->width || !c->rows)
		return ret;
	if (!c->dst || !c->src || !pitched(c->dst_pitch, c->width, c->rows) ||
	    !pitched(c->src_pitch, c->width, c->rows))
		return -EINVAL;
	return issue_copy(ops, c);
}

static int fill(void *dst, uint8_t value, size_t bytes)
{
	const struct rnl__device_ops *ops;
	int ret = ready(&ops);

	if (ret || !bytes)
		return ret;
	return dst ? ops->fill(dst, value, bytes) : -EINVAL;
}

static int launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		  const void *args)
{
	const struct rnl__device_ops *ops;
	int ret = ready(&ops);

	if (ret)
		return ret;
	if (!kernel || (!args && kernel->args_bytes) || kernel->args_bytes > RNL_KERNEL_ARGS_MAX)
		return -EINVAL;
	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
		return -EINVAL;
	return ops->launch(kernel, grid, block, args);
}

int rnl_copy(void *dst, const void *src, size_t bytes)
{
	return issued(copy(dst, src, bytes));
}

int rnl_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
		size_t rows)
{
	const struct rnl__copy c = {
		.dst = dst, .src = src, .dst_pitch = dst_pitch, .src_pitch = src_pitch,
		.width = width, .rows = rows,
	};

	return issued(copy_2d(&c));
}

int rnl_fill(void *dst, uint8_t value, size_t bytes)
{
	note_issue();
	return issued(noted(fill(dst, value, bytes)));
}

int rnl_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
	       const void *args)
{
	note_issue();
	return issued(noted(launch(kernel, grid, block, args)));
}

int rnl_stream_wait(int64_t timeout_ns)
{
	const struct rnl__device_ops *ops;
	int ret = ready(&ops);

	if (ret)
		return ret;
	if (rnl__self.guard)
		rnl__self.guard->found |= RNL__WAITED;
	return rnl__self.job ? -EBUSY : ops->wait(rnl__deadline(timeout_ns));
}

int rnl_scratch(size_t bytes, void **memp)
{
	struct rnl__worker *worker = rnl__self.job ? rnl__self.worker : NULL;
	int ret;

	if (!worker)
		return -EINVAL;
	ret = rnl__device_failed(worker->pool->device) ? -EIO : 0;
	if (!ret && (!memp || !bytes))
		ret = -EINVAL;
	return issued(ret ? ret : rnl__scratch_get(&worker->scratch, bytes, memp));
}

void *rnl_stream(void)
{
	const struct rnl__stream *stream = rnl__self.stream;

	return stream && rnl__self.generation == rnl__generation ? stream->native : NULL;
}

void *rnl_worker_data(void)
{
	return rnl__self.worker ? rnl__self.worker->data : NULL;
}

int rnl_worker_index(void)
{
	return rnl__self.worker ? (int)rnl__self.worker->index : -1;
}
