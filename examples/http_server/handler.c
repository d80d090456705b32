/* SPDX-License-Identifier: MIT */
/*
 * A request's work: on the workers of the pool, or, for comparison, in other threads.
 *
 * DESIGN
 * async: the loop submits the slot's job and goes on with its other connections.  The job goes
 * to the completion queue of that loop; loop.c reaps the job and calls async_reaped().  A slot
 * belongs to the loop, or, from submit to reap, to the worker, so there is no lock.  A full pool
 * refuses the job, and the client is told at once.  A task's second job, finish(), is urgent.  The
 * job's deadline is for its start; the connection's timer is for the answer: see routes.c.  A
 * slot whose request is answered by then has no request any more, and only comes back.
 *
 * sync: the handler that CUDA's documentation leads to.  The loop has a stream of its own, and
 * on a GPU the calls are those of hand-written code (see src/device/cuda.c):
 *
 *	rnl_copy()			cudaMemcpyAsync(..., cudaStreamPerThread)
 *	rnl_launch()			kernel<<<grid, block, 0, cudaStreamPerThread>>>
 *	rnl_stream_wait(RNL_FOREVER)	cudaStreamSynchronize(cudaStreamPerThread)
 *
 * While the loop waits, decodes or encodes, it answers no other client, and it has neither a
 * deadline nor a way to refuse work.
 *
 * thread: the same calls, in a thread of each request's own, which ends with it; a pipe brings the
 * slot back to its loop.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#define THREADS_REAPED 64	/* at a time */

/* ---- async --------------------------------------------------------------- */

static int issue(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);
	const size_t bytes = slot_buffer_bytes(&slot->endpoint->loop->server->opt);
	void *in = NULL, *out = NULL;

	slot->result = rnl_scratch(bytes, &in);		/* for this job alone: nothing to be freed */
	if (!slot->result)
		slot->result = rnl_scratch(bytes, &out);
	slot->device_in = in;
	slot->device_out = out;
	if (!slot->result)
		slot->result = slot->endpoint->route->task->issue(slot);
	/* A bad body is no failure of the job: the device is well. */
	return slot->result == -EBADMSG || slot->result == -EFBIG ? 0 : slot->result;
}

static int finish(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);

	slot->result = slot->endpoint->route->task->finish(slot);
	return slot->result;
}

static int submit(struct slot *slot, int (*fn)(struct rnl_job *job))
{
	struct loop *loop = slot->endpoint->loop;
	struct server *server = loop->server;
	const int64_t deadline_ns = (int64_t)server->opt.deadline_ms * 1000000;
	int ret;

	slot->step = fn == finish ? STEP_FINISH : STEP_ISSUE;
	ret = rnl_job_init(&slot->job, fn);
	if (!ret)
		ret = rnl_job_cq(&slot->job, loop->cq);
	if (!ret && slot->step == STEP_FINISH)
		ret = rnl_job_urgent(&slot->job, 1);
	if (!ret && slot->step == STEP_ISSUE && deadline_ns)
		ret = rnl_job_deadline(&slot->job, deadline_ns);
	return ret ? ret : rnl_submit(server->pool, &slot->job);
}

void async_start(struct slot *slot)
{
	const int ret = submit(slot, issue);

	if (ret)
		slot_answer(slot, ret);
}

void async_reaped(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);
	const bool small = slot->step == STEP_ISSUE && slot->small;
	int ret = slot->step == STEP_BATCH ? small_end(slot) : rnl_job_result(job);

	if (!ret && slot->step != STEP_BATCH)
		ret = slot->result;
	if (!ret && slot->req && slot->step != STEP_FINISH &&
	    slot->endpoint->route->task->finish) {
		ret = small ? small_begin(slot) : submit(slot, finish);
		if (!ret)
			return;
	}
	slot_answer(slot, ret);
}

/* ---- sync ---------------------------------------------------------------- */

static int work_and_wait(struct slot *slot)
{
	int ret = slot->endpoint->route->task->issue(slot);
	/* Also after an error: work that was issued before it still uses the slot. */
	const int waited = rnl_stream_wait(RNL_FOREVER);

	if (!ret)
		ret = waited;
	if (!ret && slot->endpoint->route->task->finish)
		ret = slot->endpoint->route->task->finish(slot);
	return ret;
}

void sync_start(struct slot *slot)
{
	slot_answer(slot, work_and_wait(slot));
}

/* ---- thread -------------------------------------------------------------- */

static void *serve_one(void *arg)
{
	struct slot *slot = arg;
	struct loop *loop = slot->endpoint->loop;

	slot->result = rnl_thread_attach(loop->server->pool);
	if (!slot->result)
		slot->result = work_and_wait(slot);
	rnl_thread_detach();
	/* A pipe takes a pointer whole.  Only then the loop may go on, and end. */
	if (write(loop->answered_fds[1], &slot, sizeof(slot)) != sizeof(slot))
		program_die("a thread's answer: %s", strerror(errno));
	return NULL;
}

void thread_start(struct slot *slot)
{
	pthread_attr_t attr;
	pthread_t thread;
	int ret;

	pthread_attr_init(&attr);
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	ret = pthread_create(&thread, &attr, serve_one, slot);
	pthread_attr_destroy(&attr);
	if (ret)
		slot_answer(slot, -ret);
}

void threads_reap(evutil_socket_t fd, short what, void *arg)
{
	struct slot *slots[THREADS_REAPED];
	const ssize_t bytes = read(fd, slots, sizeof(slots));

	(void)what;
	(void)arg;
	for (size_t i = 0; bytes > 0 && i < (size_t)bytes / sizeof(*slots); i++)
		slot_answer(slots[i], slots[i]->result);
}
