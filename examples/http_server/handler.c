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
 * slot whose request is answered by then has no request any more, and only comes back.  The job
 * notes which worker has it, and the loop, when it has the job back, notes its span.
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
 * thread: each request starts a thread, which makes these calls and ends.  A pipe brings the slot
 * back to its loop.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <runnel/memory.h>
#include <runnel/thread.h>

#define THREADS_REAPED 64	/* at a time */

/* ---- async --------------------------------------------------------------- */

static void begin_span(struct slot *slot)
{
	slot->worker = (unsigned)rnl_worker().index;
	slot->began_ns = rnl_clock();
}

/* A batch is the work of no slot: small.c notes its span. */
static void end_span(struct slot *slot)
{
	const enum span_kind kind = slot->step == STEP_FINISH ? SPAN_PNG :
				    slot->endpoint->route->task->kind;

	if (slot->began_ns)
		spans_note(&slot->endpoint->loop->spans, slot->worker, kind, slot->began_ns,
			   rnl_clock());
	slot->began_ns = 0;
}

static int issue(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, job);
	const size_t bytes = slot_buffer_bytes(&slot->endpoint->loop->server->opt);
	void *in = NULL, *out = NULL;

	begin_span(slot);
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
		ret = rnl_job_set_cq(&slot->job, loop->cq);
	if (!ret && slot->step == STEP_FINISH)
		ret = rnl_job_set_flags(&slot->job, RNL_URGENT);
	if (!ret && slot->step == STEP_ISSUE && deadline_ns)
		ret = rnl_job_set_deadline(&slot->job, deadline_ns);
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
	/* Also after an error: work that was issued before it still uses the slot. */
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
	/* A pipe takes a pointer whole.  Only then the loop may go on, and end. */
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
