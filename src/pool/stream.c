/* SPDX-License-Identifier: MIT */
/*
 * The calling thread's implicit stream: threads attach to it, and issue the public operations.
 * The backend does what an operation means.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "sys/clock.h"
#include "device/device.h"
#include "device/gather.h"
#include "device/units.h"
#include "pool/job_flags.h"
#include "pool/pool.h"
#include "sys/thread_state.h"
#include "sys/thread.h"
#include "pool/stream.h"

#define PITCH_MAX ((size_t)INT32_MAX)	/* CUDA's cudaDeviceProp.memPitch */

/* Detaches a thread that ends while it is attached; workers detach themselves. */
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

/*
 * All streams that are attached.  A forked child has none of the threads that they belong to: without
 * the list it would lose them, and its LeakSanitizer would report them at exit().
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

/* A fork amid a change would leave the child a lock that no thread releases. */
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

int rnl__stream_attach(struct rnl__device *device, enum rnl_stream_kind kind, bool urgent)
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
	ret = device->ops->attach(device, kind, urgent, &rnl__thread.stream);
	if (!ret)
		streams_add(rnl__thread.stream);
	rnl__thread.generation = rnl__generation;
	if (ret)
		rnl__units_leave();
	else if (device->info.cuda)
		(void)rnl__units_error();	/* what was wrong before is no job's error */
	return ret;
}

int rnl__stream_attach_to(const struct rnl_pool *pool, struct rnl__device *device, bool urgent,
			  const char *what)
{
	const int ret = rnl__stream_attach(device, pool->stream, urgent);

	/* Only a stream of the host device has a thread. */
	return ret && !device->info.cuda ? rnl__pool_no_thread(pool, what, ret) : ret;
}

void rnl__stream_detach(void)
{
	struct rnl__stream *stream = rnl__thread.stream;

	/* A forked child leaves the stream alone: its executor is the parent's. */
	if (stream && rnl__thread.generation == rnl__generation) {
		streams_remove(stream);
		stream->device->ops->detach(stream);
	}
	if (stream)
		rnl__units_leave();
	rnl__thread.stream = NULL;
}

/* The calling thread has a stream. */
static int stream_stay(const struct rnl_pool *pool, const char *call, int refused)
{
	const struct rnl__device *device = rnl__thread.stream->device;
	char name[RNL__DEVICE_NAME_BYTES];

	if (rnl__pool_has(pool, device))
		return 0;
	rnl__device_name(device, name);
	return rnl__refused(&pool->log, refused, "%s: this thread is attached to %s, which the pool "
			    "does not have: call rnl_thread_detach() before, or another thread", call,
			    name);
}

int rnl__stream_attach_caller(struct rnl_pool *pool, const char *call, int refused)
{
	int ret;

	if (rnl__thread.stream && rnl__thread.generation == rnl__generation)
		return stream_stay(pool, call, refused);
	if (rnl__thread.worker)
		return rnl__refused(&pool->log, -ENODEV, "%s: a pool's keeper, which calls this "
				    "callback, has no stream", call);
	pthread_once(&once, make_key);
	if (key_result)
		return -ENOMEM;
	ret = rnl__stream_attach_to(pool, rnl__pool_any_device(pool), false, call);
	if (ret)
		return ret;
	/* The destructor runs for any value but NULL. */
	if (pthread_setspecific(at_exit, &at_exit)) {
		rnl__stream_detach();
		return -ENOMEM;
	}
	return 0;
}

int rnl_thread_attach(struct rnl_pool *pool)
{
	RNL__UNCANCELLED();
	int ret = rnl__pool_given(pool, "rnl_thread_attach()");

	return ret ? ret : rnl__stream_attach_caller(pool, "rnl_thread_attach()", -EBUSY);
}

void rnl_thread_detach(void)
{
	RNL__UNCANCELLED();

	if (!rnl__thread.worker)
		rnl__stream_detach();
}

/* Notes the error of the unit's own calls, which a refusal of our next call would hide. */
static void note_unit_error(const struct rnl__stream *stream)
{
	struct rnl__guarded *guard = rnl__thread.guard;

	if (stream->device->info.cuda && !guard->unit_code)
		guard->unit_code = rnl__units_error();
}

/* The log of the calling worker's pool; NULL: the process's. */
static const struct rnl__log *stream_log(void)
{
	return rnl__thread.worker ? &rnl__thread.worker->pool->log : NULL;
}

#define stream_invalid(...) rnl__invalid(stream_log(), __VA_ARGS__)

/* 0, or why the calling thread may not use its device. */
static int ready(const char *call)
{
	const struct rnl__stream *stream = rnl__thread.stream;

	if (!stream)
		return rnl__refused(stream_log(), -ENODEV, "%s: this thread has no stream: call it in "
				    "a job's function, or call rnl_thread_attach() on this thread "
				    "before", call);
	if (rnl__thread.guard)
		note_unit_error(stream);
	if (rnl__thread.generation != rnl__generation)
		return -EOWNERDEAD;
	return rnl__device_failed(stream->device) ? -EIO : rnl__gather_error();
}

/* Notes a failed operation as its job's error, in case the function does not return it. */
static int note_error(int ret)
{
	if (ret && rnl__thread.job && !rnl__thread.error)
		rnl__thread.error = ret;
	return ret;
}

/* The track of the job that runs on this thread; NULL: no trace runs, or no job. */
static struct rnl__track *own_track(void)
{
	return rnl__thread.job && rnl__thread.worker ? rnl__thread.worker->track : NULL;
}

/* Notes in the trace that an operation is about to be issued. */
static void note_issue(void)
{
	if (own_track())
		rnl__track_issue(own_track());
}

/* Notes in the trace that a kernel, or a fill, was issued. */
static int note_kernel(int ret)
{
	if (!ret && own_track())
		rnl__track_op(own_track(), RNL__TRACK_KERNEL);
	return ret;
}

/* Issues a copy; in a job, the copy does not wait for pageable memory. */
static int issue_copy(const struct rnl__copy *c)
{
	struct rnl__worker *worker = rnl__thread.job ? rnl__thread.worker : NULL;
	int ret;

	if (!worker)
		return rnl__gather_copy(c);
	if (rnl__thread.guard && rnl__staging_pageable(&worker->staging, c)) {
		/* Steps of a CPU cannot be captured: the function is called again, unwatched. */
		rnl__thread.guard->found |= RNL__PAGEABLE_COPY;
		rnl__thread.guard->again = true;
		return 0;
	}
	if (rnl__notes_taken() && rnl__staging_pageable(&worker->staging, c))
		rnl__notes_spoil("copies pageable memory");
	worker->moved += c->width * c->rows;
	if (worker->track)
		rnl__track_issue(worker->track);
	ret = rnl__staging_copy(&worker->staging, rnl__inflight_next(&worker->inflight), c);
	if (!ret && worker->track)
		rnl__track_copy(worker->track, c);
	return ret;
}

/*
 * Whether the device has refused an operation's arguments.  It may refuse any while the function is
 * captured, which is called again then.
 */
static bool stream_refused(int ret)
{
	return (ret == -EINVAL || ret == -ENOTSUP) && !rnl__thread.guard;
}

/* Whether rows do not overlap, and CUDA can address them. */
static bool valid_rows(size_t pitch, size_t width, size_t rows)
{
	return pitch >= width && pitch <= PITCH_MAX && rows <= SIZE_MAX / 2 / PITCH_MAX;
}

static int stream_check_rows(const struct rnl__copy *c)
{
	if (valid_rows(c->dst_pitch, c->width, c->rows) &&
	    valid_rows(c->src_pitch, c->width, c->rows))
		return 0;
	return stream_invalid("rnl_copy_2d(): dst_pitch is %zu, src_pitch is %zu, of %zu rows; both "
			      "must be %zu, the width, to %zu", c->dst_pitch, c->src_pitch, c->rows,
			      c->width, PITCH_MAX);
}

static int copy(const char *call, const struct rnl__copy *c, bool pitched)
{
	int ret = ready(call);

	if (ret || !c->width || !c->rows)
		return ret;
	if (!c->dst || !c->src)
		return stream_invalid("%s: %s is NULL, and %zu bytes are to be copied", call,
				    c->dst ? "src" : "dst", c->width);
	ret = pitched ? stream_check_rows(c) : 0;
	if (ret)
		return ret;
	ret = issue_copy(c);
	if (stream_refused(ret))
		return rnl__refused(stream_log(), ret, "%s: the device refused %zu bytes from %p "
				    "to %p: both must be memory that exists", call, c->width, c->src,
				    c->dst);
	return ret;
}

static int fill(void *dst, uint8_t value, size_t bytes)
{
	int ret = ready("rnl_fill()");

	if (ret || !bytes)
		return ret;
	if (!dst)
		return stream_invalid("rnl_fill(): dst is NULL, and bytes is %zu", bytes);
	ret = rnl__gather_fill(dst, value, bytes);
	if (stream_refused(ret))
		return rnl__refused(stream_log(), ret, "rnl_fill(): the device refused %zu bytes at "
				    "%p: they must be memory of the device or page-locked, as of "
				    "rnl_device_alloc(), rnl_scratch() or rnl_pinned_get()", bytes,
				    dst);
	return ret;
}

static int stream_check_launch(const struct rnl_kernel *kernel, struct rnl_dim grid,
			       struct rnl_dim block, const void *args)
{
	if (!kernel)
		return stream_invalid("rnl_launch(): kernel is NULL");
	if (kernel->args_bytes > RNL_KERNEL_ARGS_MAX)
		return stream_invalid("rnl_launch(): the arguments of kernel %s are %zu bytes; %d is "
				      "the most", kernel->name, kernel->args_bytes,
				      RNL_KERNEL_ARGS_MAX);
	if (!args && kernel->args_bytes)
		return stream_invalid("rnl_launch(): args is NULL, and kernel %s has %zu bytes of "
				      "arguments", kernel->name, kernel->args_bytes);
	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
		return stream_invalid("rnl_launch(): kernel %s: grid is (%u, %u, %u), and block is "
				      "(%u, %u, %u); no dimension may be 0", kernel->name, grid.x,
				      grid.y, grid.z, block.x, block.y, block.z);
	return 0;
}

static int launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		  const void *args)
{
	int ret = ready("rnl_launch()");

	if (!ret)
		ret = stream_check_launch(kernel, grid, block, args);
	if (ret)
		return ret;
	ret = rnl__gather_launch(kernel, grid, block, args);
	if (ret == -ENOTSUP && stream_refused(ret))
		return rnl__refused(stream_log(), ret, "rnl_launch(): kernel %s has no function for %s: "
				    "RNL_KERNEL() and RNL_HOST_KERNEL() define kernels", kernel->name,
				    rnl__thread.stream->device->info.cuda ? "a GPU" :
				    "the host device");
	if (stream_refused(ret))
		return rnl__refused(stream_log(), ret, "rnl_launch(): the device refused kernel %s "
				    "with grid (%u, %u, %u) and block (%u, %u, %u)", kernel->name,
				    grid.x, grid.y, grid.z, block.x, block.y, block.z);
	return ret;
}

int rnl_copy(void *dst, const void *src, size_t bytes)
{
	RNL__UNCANCELLED();
	const struct rnl__copy c = { .dst = dst, .src = src, .width = bytes, .rows = 1 };

	return note_error(copy("rnl_copy()", &c, false));
}

int rnl_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
		size_t rows)
{
	RNL__UNCANCELLED();
	const struct rnl__copy c = {
		.dst = dst, .src = src, .dst_pitch = dst_pitch, .src_pitch = src_pitch,
		.width = width, .rows = rows,
	};

	return note_error(copy("rnl_copy_2d()", &c, true));
}

int rnl_fill(void *dst, uint8_t value, size_t bytes)
{
	RNL__UNCANCELLED();

	note_issue();
	return note_error(note_kernel(fill(dst, value, bytes)));
}

int rnl_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
	       const void *args)
{
	RNL__UNCANCELLED();

	note_issue();
	return note_error(note_kernel(launch(kernel, grid, block, args)));
}

int rnl_stream_wait(int64_t timeout_ns)
{
	RNL__UNCANCELLED();
	int ret = ready("rnl_stream_wait()");

	if (ret)
		return ret;
	if (rnl__thread.guard)
		rnl__thread.guard->found |= RNL__WAITED;
	if (rnl__thread.job)
		return rnl__refused(stream_log(), -EBUSY, "rnl_stream_wait(): called in a job's "
				    "function: the job is done after its work on the stream; return "
				    "instead");
	return rnl__thread.stream->device->ops->wait(rnl__deadline(timeout_ns));
}

int rnl_scratch(size_t bytes, void **memp)
{
	struct rnl__worker *worker = rnl__thread.job ? rnl__thread.worker : NULL;
	int ret;

	if (!worker)
		return stream_invalid("rnl_scratch(): called outside of a job's function: use "
				      "rnl_device_alloc()");
	ret = rnl__device_failed(worker->device) ? -EIO : 0;
	if (!ret && (!memp || !bytes))
		ret = stream_invalid("rnl_scratch(): %s", memp ? "bytes is 0" : "memp is NULL");
	return note_error(ret ? ret : rnl__scratch_get(&worker->scratch, bytes, memp));
}

/* Has the device write the arguments; a device without a kernel for that copies them. */
static int send_args(const void *user, size_t bytes, void *mem)
{
	const struct rnl_kernel *kernel = rnl__thread.stream->device->ops->args();
	const struct rnl_dim grid = { 1, 1, 1 }, block = { RNL_JOB_ARGS_MAX / 4, 1, 1 };
	struct rnl__args args = { (uintptr_t)mem, bytes, { 0 } };

	if (!kernel)
		return issue_copy(&(struct rnl__copy){
			.dst = mem, .src = user, .width = bytes, .rows = 1,
		});
	memcpy(args.data, user, bytes);
	return rnl__gather_launch(kernel, grid, block, &args);
}

int rnl_job_args(size_t bytes, void **memp)
{
	RNL__UNCANCELLED();
	const struct rnl_job *job = rnl__thread.job;
	const void *user = job && !(job->flags & RNL__JOB_INTERNAL) ? job->user : NULL;
	void *mem;
	int ret = ready("rnl_job_args()");

	if (!ret && !user)
		ret = stream_invalid("rnl_job_args(): %s", job ? "the job's user is NULL" :
				   "called outside of a job's function");
	if (!ret && (!memp || !bytes || bytes > RNL_JOB_ARGS_MAX))
		ret = stream_invalid("rnl_job_args(): memp is %p, bytes is %zu; it must be 1 to "
				   "%u", (void *)memp, bytes, RNL_JOB_ARGS_MAX);
	if (!ret)
		ret = rnl_scratch(bytes, &mem);
	if (!ret)
		ret = send_args(user, bytes, mem);
	if (!ret)
		*memp = mem;
	return note_error(ret);
}

void *rnl_stream(void)
{
	const struct rnl__stream *stream = rnl__thread.stream;

	if (!stream || rnl__thread.generation != rnl__generation)
		return NULL;
	/* What the caller issues by itself comes behind what it has issued by us. */
	rnl__gather_stop();
	rnl__notes_spoil("calls rnl_stream(), so it may call CUDA by itself, which takes "
			 "RNL_REPLAY_CAPTURE");
	return stream->native;
}

int rnl_worker_device(void)
{
	return rnl_worker_index() < 0 ? -1 : (int)rnl__thread.worker->device_index;
}

void *rnl_worker_data(void)
{
	return rnl__thread.worker ? rnl__thread.worker->data : NULL;
}

int rnl_worker_index(void)
{
	const struct rnl__worker *w = rnl__thread.worker;

	return w && w->index != RNL__KEEPER ? (int)w->index : -1;
}
