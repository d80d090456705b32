/* SPDX-License-Identifier: MIT */
/*
 * The public operations, which the calling thread issues on its implicit stream.  Each is checked,
 * noted in a trace, and passed to the backend.
 *
 * DESIGN
 *	In a job, a copy of pageable memory goes through the worker's staging buffers, so the
 *	function does not wait for it.  Other operations may be gathered with those of other jobs.
 *	An operation that fails sets its job's error, in case the function does not return it.
 *	A function under guard is captured.  This file finds operations that cannot be captured;
 *	then the function is called again without a capture.
 */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/thread.h>

#include "device/device.h"
#include "device/gather.h"
#include "device/units.h"
#include "pool/classes.h"
#include "pool/pool.h"
#include "stream/job_flags.h"
#include "sys/clock.h"
#include "sys/flat.h"
#include "sys/thread.h"
#include "sys/thread_state.h"

#define PITCH_MAX ((size_t)INT32_MAX)	/* CUDA's cudaDeviceProp.memPitch */

/* Returns the log of the calling worker's pool; NULL: the process's log. */
static const struct rnl__log *issue_log(void)
{
	return rnl__thread.worker ? &rnl__thread.worker->pool->log : NULL;
}

#define issue_invalid(...) rnl__invalid(issue_log(), __VA_ARGS__)

/* Returns 0, or the error that keeps the calling thread from its device. */
static int issue_ready(const char *call)
{
	const struct rnl__stream *stream = rnl__thread.stream;

	if (!stream)
		return rnl__refused(issue_log(), -ENODEV, "%s: this thread has no stream: call it in "
				    "a job's function, or call rnl_thread_attach() on this thread "
				    "before", call);
	/* Saves the error of the unit's own calls, which a refusal of our next call would hide. */
	if (rnl__thread.guard && stream->device->info.cuda && !rnl__thread.guard->unit_code)
		rnl__thread.guard->unit_code = rnl__units_error();
	if (rnl__thread.generation != rnl__generation)
		return -EOWNERDEAD;
	return rnl__device_failed(stream->device) ? -EIO : rnl__gather_error();
}

/* Notes a failed operation as its job's error, in case the function does not return it. */
static int issue_note_error(int ret)
{
	if (ret && rnl__thread.job && !rnl__thread.error)
		rnl__thread.error = ret;
	return ret;
}

/* Returns the track of the job that runs on this thread, or NULL if no trace or no job runs. */
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

/* Returns where a large copy takes its turn, and its rank there; NULL: it is not cut. */
static struct rnl__cut *issue_cut(const struct rnl__worker *worker, const struct rnl__copy *c,
				  unsigned *rank)
{
	if (c->width * c->rows <= RNL__CUT_BYTES || !rnl__classes_any(worker->pool))
		return NULL;
	/* A record, or a group, has whole copies. */
	if (rnl__thread.guard || rnl__notes_taken() || rnl__gather_notes())
		return NULL;
	return rnl__classes_cut(worker, rnl__thread.job, rank);
}

/* Issues a copy; in a job, the copy does not wait for pageable memory. */
static int issue_unchecked_copy(struct rnl__copy *c)
{
	struct rnl__worker *worker = rnl__thread.job ? rnl__thread.worker : NULL;
	struct rnl__cut *cut;
	unsigned rank = 0;
	int ret;

	if (!worker)
		return rnl__gather_copy(c);
	if (rnl__thread.guard && rnl__staging_pageable(&worker->staging, c)) {
		/* CPU steps cannot be captured: the function is called again, unwatched. */
		rnl__thread.guard->found |= RNL__PAGEABLE_COPY;
		rnl__thread.guard->again = true;
		return 0;
	}
	if (rnl__notes_taken() && rnl__staging_pageable(&worker->staging, c))
		rnl__notes_spoil("copies pageable memory");
	worker->moved += c->width * c->rows;
	if (worker->track)
		rnl__track_issue(worker->track);
	cut = issue_cut(worker, c, &rank);
	ret = rnl__staging_copy(&worker->staging, rnl__inflight_next(&worker->inflight), c, cut, rank);
	if (!ret && worker->track)
		rnl__track_copy(worker->track, c);
	return ret;
}

/*
 * Returns true if the device has refused an operation's arguments.  Under capture it may refuse any
 * operation; that is no mistake, because the function is called again.
 */
static bool issue_refused(int ret)
{
	return (ret == -EINVAL || ret == -ENOTSUP) && !rnl__thread.guard;
}

/* Writes the driver's reason for a refusal, or "".  Returns @text. */
static const char *issue_reason(char text[RNL__WHY_BYTES])
{
	const struct rnl_job *job = rnl__thread.job;

	return rnl__device_reason(rnl__thread.stream->device, job ? job->device_error : 0, text);
}

/* Returns true if rows do not overlap, and CUDA can address them. */
static bool valid_rows(size_t pitch, size_t width, size_t rows)
{
	return pitch >= width && pitch <= PITCH_MAX && rows <= SIZE_MAX / 2 / PITCH_MAX;
}

static int issue_check_rows(const struct rnl__copy *c)
{
	if (valid_rows(c->dst_pitch, c->width, c->rows) &&
	    valid_rows(c->src_pitch, c->width, c->rows))
		return 0;
	return issue_invalid("rnl_copy_2d(): dst_pitch is %zu, src_pitch is %zu, of %zu rows; both "
			     "must be %zu, the width, to %zu", c->dst_pitch, c->src_pitch, c->rows,
			     c->width, PITCH_MAX);
}

static int issue_checked_copy(const char *call, struct rnl__copy *c, bool pitched)
{
	char reason[RNL__WHY_BYTES];
	int ret = issue_ready(call);

	if (ret || !c->width || !c->rows)
		return ret;
	if (!c->dst || !c->src)
		return issue_invalid("%s: %s is NULL, and %zu bytes are to be copied", call,
				     c->dst ? "src" : "dst", c->width);
	ret = pitched ? issue_check_rows(c) : 0;
	if (ret)
		return ret;
	ret = issue_unchecked_copy(c);
	if (issue_refused(ret))
		return rnl__refused(issue_log(), ret, "%s: the device refused %zu bytes from %p "
				    "to %p: both must be memory that exists%s", call, c->width, c->src,
				    c->dst, issue_reason(reason));
	return ret;
}

static int issue_fill(void *dst, uint8_t value, size_t bytes)
{
	char reason[RNL__WHY_BYTES];
	int ret = issue_ready("rnl_fill()");

	if (ret || !bytes)
		return ret;
	if (!dst)
		return issue_invalid("rnl_fill(): dst is NULL, and bytes is %zu", bytes);
	ret = rnl__gather_fill(dst, value, bytes);
	if (issue_refused(ret))
		return rnl__refused(issue_log(), ret, "rnl_fill(): the device refused %zu bytes at "
				    "%p: they must be memory of the device or page-locked, as of "
				    "rnl_memory_get() or rnl_scratch()%s", bytes, dst,
				    issue_reason(reason));
	return ret;
}

static int issue_check_launch(const struct rnl_kernel *kernel, struct rnl_dim grid,
			      struct rnl_dim block, const void *args)
{
	if (!kernel)
		return issue_invalid("rnl_launch(): kernel is NULL");
	if (kernel->args_bytes > RNL_KERNEL_ARGS_MAX)
		return issue_invalid("rnl_launch(): the arguments of kernel %s are %zu bytes; %d is "
				     "the most", kernel->name, kernel->args_bytes,
				     RNL_KERNEL_ARGS_MAX);
	if (!args && kernel->args_bytes)
		return issue_invalid("rnl_launch(): args is NULL, and kernel %s has %zu bytes of "
				     "arguments", kernel->name, kernel->args_bytes);
	if (!grid.x || !grid.y || !grid.z || !block.x || !block.y || !block.z)
		return issue_invalid("rnl_launch(): kernel %s: grid is (%u, %u, %u), and block is "
				     "(%u, %u, %u); no dimension may be 0", kernel->name, grid.x,
				     grid.y, grid.z, block.x, block.y, block.z);
	return 0;
}

static int issue_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
			const void *args)
{
	char reason[RNL__WHY_BYTES];
	int ret = issue_ready("rnl_launch()");

	if (!ret)
		ret = issue_check_launch(kernel, grid, block, args);
	if (ret)
		return ret;
	ret = rnl__gather_launch(kernel, grid, block, args);
	if (ret == -ENOTSUP && issue_refused(ret))
		return rnl__refused(issue_log(), ret, "rnl_launch(): kernel %s has no function for %s: "
				    "RNL_KERNEL() and RNL_HOST_KERNEL() define kernels%s", kernel->name,
				    rnl__thread.stream->device->info.cuda ? "a GPU" :
				    "the host device", issue_reason(reason));
	if (issue_refused(ret))
		return rnl__refused(issue_log(), ret, "rnl_launch(): the device refused kernel %s "
				    "with grid (%u, %u, %u) and block (%u, %u, %u)%s", kernel->name,
				    grid.x, grid.y, grid.z, block.x, block.y, block.z,
				    issue_reason(reason));
	return ret;
}

RNL__FLAT
int rnl_copy(void *dst, const void *src, size_t bytes)
{
	RNL__UNCANCELLED();
	struct rnl__copy c = { .dst = dst, .src = src, .width = bytes, .rows = 1 };

	return issue_note_error(issue_checked_copy("rnl_copy()", &c, false));
}

int rnl_copy_2d(void *dst, size_t dst_pitch, const void *src, size_t src_pitch, size_t width,
		size_t rows)
{
	RNL__UNCANCELLED();
	struct rnl__copy c = {
		.dst = dst, .src = src, .dst_pitch = dst_pitch, .src_pitch = src_pitch,
		.width = width, .rows = rows,
	};

	return issue_note_error(issue_checked_copy("rnl_copy_2d()", &c, true));
}

int rnl_fill(void *dst, uint8_t value, size_t bytes)
{
	RNL__UNCANCELLED();

	note_issue();
	return issue_note_error(note_kernel(issue_fill(dst, value, bytes)));
}

RNL__FLAT
int rnl_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
	       const void *args)
{
	RNL__UNCANCELLED();

	note_issue();
	return issue_note_error(note_kernel(issue_launch(kernel, grid, block, args)));
}

int rnl_stream_wait(int64_t timeout_ns)
{
	RNL__UNCANCELLED();
	int ret = issue_ready("rnl_stream_wait()");

	if (ret)
		return ret;
	if (rnl__thread.guard)
		rnl__thread.guard->found |= RNL__WAITED;
	if (rnl__thread.job)
		return rnl__refused(issue_log(), -EBUSY, "rnl_stream_wait(): called in a job's "
				    "function: the job is done after its work on the stream; return "
				    "instead");
	return rnl__thread.stream->device->ops->wait(rnl__deadline(timeout_ns));
}

int rnl_scratch(size_t bytes, void **memp)
{
	struct rnl__worker *worker = rnl__thread.job ? rnl__thread.worker : NULL;
	int ret;

	if (!worker)
		return issue_invalid("rnl_scratch(): called outside of a job's function: use "
				     "rnl_memory_get()");
	ret = rnl__device_failed(worker->device) ? -EIO : 0;
	if (!ret && (!memp || !bytes))
		ret = issue_invalid("rnl_scratch(): %s", memp ? "bytes is 0" : "memp is NULL");
	return issue_note_error(ret ? ret : rnl__scratch_get(&worker->scratch, bytes, memp));
}

/* Makes the device write the arguments.  A device without a kernel for that copies them. */
static int send_args(const void *user, size_t bytes, void *mem)
{
	const struct rnl_kernel *kernel = rnl__thread.stream->device->ops->args();
	const struct rnl_dim grid = { 1, 1, 1 }, block = { RNL_JOB_ARGS_MAX / 4, 1, 1 };
	struct rnl__args args = { (uintptr_t)mem, bytes, { 0 } };

	if (!kernel)
		return issue_unchecked_copy(&(struct rnl__copy){
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
	int ret = issue_ready("rnl_job_args()");

	if (!ret && !user)
		ret = issue_invalid("rnl_job_args(): %s", job ? "the job's user is NULL" :
				    "called outside of a job's function");
	if (!ret && (!memp || !bytes || bytes > RNL_JOB_ARGS_MAX))
		ret = issue_invalid("rnl_job_args(): memp is %p, bytes is %zu; it must be 1 to "
				    "%u", (void *)memp, bytes, RNL_JOB_ARGS_MAX);
	if (!ret)
		ret = rnl_scratch(bytes, &mem);
	if (!ret)
		ret = send_args(user, bytes, mem);
	if (!ret)
		*memp = mem;
	return issue_note_error(ret);
}
