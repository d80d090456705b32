/* SPDX-License-Identifier: MIT */
/*
 * Runs a request's work: on the pool's workers, or, for comparison, in the loop or a new thread.
 *
 * DESIGN
 * async: the loop submits the slot's job and continues with its other connections.  The job goes
 * to that loop's completion queue; loop.c reaps it and calls async_reaped().  A slot belongs to the
 * loop, or, from submit to reap, to the worker, so no lock is needed.  A full pool refuses the job,
 * and the client gets an error immediately.  A task's second job, finish(), goes first, or, with
 * --class, comes first by its deadline: see classes.c.  The job's deadline applies to its start; the
 * connection's timer applies to the answer: see routes.c.  If that timer has answered the request,
 * the slot has no request any more, and its job is only reaped.  The job records its worker, and the
 * loop records the job's span when it reaps the job.
 *
 * sync: the handler that CUDA's documentation suggests.  The loop has its own stream, and on a GPU
 * the calls are those of hand-written code (see src/device/cuda.c):
 *
 *	rnl_copy()			cudaMemcpyAsync(..., cudaStreamPerThread)
 *	rnl_launch()			kernel<<<grid, block, 0, cudaStreamPerThread>>>
 *	rnl_stream_wait(RNL_FOREVER)	cudaStreamSynchronize(cudaStreamPerThread)
 *
 * While the loop waits, decodes or encodes, it answers no other client.  This handler has no
 * deadline, and cannot refuse work.
 *
 * thread: each request starts a thread, which makes the calls of sync, and ends.  The thread
 * returns the slot to its loop through a pipe.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <runnel/memory.h>
#include <runnel/thread.h>

#define THREADS_REAPED 64	/* per call */

/* ---- async --------------------------------------------------------------- */

static void begin_span(struct slot *slot)
{
	slot->worker = (unsigned)rnl_worker().index;
	slot->began_ns = rnl_clock();
}

/* A batch belongs to no single slot: small.c records its span. */
static void end_span(struct slot *slot)
{
	const enum span_kind kind = slot->step == STEP_FINISH ? SPAN_PNG :
				    slot->endpoint->route->task->kind;

	if (slot->began_ns)
		spans_note(&slot->endpoint->loop->spans, slot->worker, kind, slot->began_ns,
			   rnl_clock());
	slot->began_ns = 0;
}

/* Called by one function per kind of work: the library estimates a job's time by its function. */
static int issue(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);
	const size_t bytes = slot_buffer_bytes(&slot->endpoint->loop->server->opt);
	void *in = NULL, *out = NULL;

	begin_span(slot);
	slot->result = rnl_scratch(bytes, &in);		/* only for this job; freed automatically */
	if (!slot->result)
		slot->result = rnl_scratch(bytes, &out);
	slot->device_in = in;
	slot->device_out = out;
	if (!slot->result)
		slot->result = slot->endpoint->route->task->issue(slot);
	/* A bad body is not a failure of the job or the device. */
	return slot->result == -EBADMSG || slot->result == -EFBIG ? 0 : slot->result;
}

static int issue_edges(struct rnl_job *job)
{
	return issue(job);
}

static int finish(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);

	begin_span(slot);
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
	slot->began_ns = 0;
	ret = rnl_job_init(&slot->job, fn);
	if (!ret)
		ret = rnl_job_set_more(&slot->job, &slot->more);
	if (!ret)
		ret = rnl_job_set_cq(&slot->job, loop->cq);
	if (!ret && slot->class->cls)
		ret = class_set_job(slot);
	else if (!ret && slot->step == STEP_FINISH)
		ret = rnl_job_set_class(&slot->job, server->finishing);
	else if (!ret && slot->step == STEP_ISSUE && deadline_ns)
		ret = rnl_job_set_deadline(&slot->job, deadline_ns);
	return ret ? ret : rnl_submit(server->pool, &slot->job);
}

void async_start(struct slot *slot)
{
	const int ret = submit(slot, slot->endpoint->route->task->kind == SPAN_EDGES ?
			       issue_edges : issue);

	if (ret)
		slot_answer(slot, ret);
}

void async_reaped(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);
	const bool small = slot->step == STEP_ISSUE && slot->small;
	int ret = slot->step == STEP_BATCH ? small_end(slot) : job->result;

	end_span(slot);
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

static int issue_and_wait(struct slot *slot)
{
	const int ret = slot->endpoint->route->task->issue(slot);
	/* Wait after an error, too: work issued before the error still uses the slot. */
	const int waited = rnl_stream_wait(RNL_FOREVER);

	return ret ? ret : waited;
}

/* The page shows loops in place of workers. */
static void begin_loop_span(struct slot *slot, enum step step)
{
	struct loop *loop = slot->endpoint->loop;

	slot->worker = (unsigned)(loop - loop->server->loops);
	slot->step = step;
	slot->began_ns = rnl_clock();
}

void sync_start(struct slot *slot)
{
	int ret;

	begin_loop_span(slot, STEP_ISSUE);
	ret = issue_and_wait(slot);
	end_span(slot);
	if (!ret && slot->endpoint->route->task->finish) {
		begin_loop_span(slot, STEP_FINISH);
		ret = slot->endpoint->route->task->finish(slot);
		end_span(slot);
	}
	slot_answer(slot, ret);
}

/* ---- thread -------------------------------------------------------------- */

static int serve_slot(struct slot *slot)
{
	int ret = rnl_thread_attach(slot->endpoint->loop->server->pool);

	if (!ret)
		ret = issue_and_wait(slot);
	rnl_thread_attach(NULL);
	return !ret && slot->endpoint->route->task->finish ?
	       slot->endpoint->route->task->finish(slot) : ret;
}

static void *serve_one(void *arg)
{
	struct slot *slot = arg;
	const int fd = slot->endpoint->loop->answered_fds[1];

	slot->result = serve_slot(slot);
	/* Writing a pointer to a pipe is atomic.  After this write the loop may end. */
	if (write(fd, &slot, sizeof(slot)) != sizeof(slot))
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
