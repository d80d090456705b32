/* SPDX-License-Identifier: MIT */
/* Completion queues: completed jobs for an event loop; cq.h has the design. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sys/atomic.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"
#include "job/cq.h"
#include "job/job.h"
#include "pool/worker.h"
#include "sys/inbox.h"
#include "sys/latch.h"
#include "sys/log.h"
#include "sys/spin.h"
#include "sys/thread_state.h"
#include "sys/thread.h"
#include "sys/tsan.h"

#define NAP_NS 500000u		/* between checks, if poll() is not possible */
#define SPIN_NS 50000u		/* a small job on a GPU takes this long, and so does a wake */

struct rnl_cq {
	/* The workers' cache line ... */
	_Alignas(RNL__CACHE_LINE) struct rnl__inbox done; /* armed: the next push writes */
	/* ... and the reader's. */
	_Alignas(RNL__CACHE_LINE) struct rnl_job *first; /* taken off the list, oldest first */
	bool armed;			/* the reader has armed, and has not seen a job since */
	bool notified;			/* the descriptor is readable, or about to be */
	bool quick;			/* the last wait was short: the next one spins first */
	int fd;
	unsigned generation;
	_Atomic bool polled;		/* the program has the descriptor: a reap that empties the queue arms */
	_Atomic uint32_t reaping;	/* a thread is in reap or wait */
	_Atomic uint32_t writing;	/* latch: an arming whose write is pending */
};

static int cq_check(const struct rnl_cq *cq)
{
	return cq ? rnl__generation_check(cq->generation) : -EINVAL;
}

/* Like cq_check(), for a public @call: logs -EINVAL. */
static int cq_check_given(const struct rnl_cq *cq, const char *call)
{
	const int ret = cq_check(cq);

	if (ret != -EINVAL)
		return ret;
	return cq ? rnl__invalid(NULL, "%s: %p is no completion queue", call, (const void *)cq) :
		    rnl__invalid(NULL, "%s: the completion queue is NULL", call);
}

/* ---- the workers' side --------------------------------------------------- */

static void make_readable(struct rnl_cq *cq)
{
	RNL__UNCANCELLED();
	const uint64_t one = 1;
	int saved = errno;

	/* This fails only after 2^64 - 2 writes, and then the descriptor is readable. */
	if (write(cq->fd, &one, sizeof(one)) < 0)
		errno = saved;
}

static void push_chain(struct rnl__cq_chain *chain)
{
	struct rnl_cq *cq = chain->cq;

	if (!cq)
		return;
	chain->cq = NULL;
	if (!rnl__inbox_put(&cq->done, chain->newest, &chain->oldest->link))
		return;
	make_readable(cq);
	/* [cq.W1] release (the drop): the queue may be gone afterwards; pairs with [latch.W1] */
	(void)rnl__latch_drop(&cq->writing, 1);
}

/* Returns the chain of a queue, or an empty one. */
static struct rnl__cq_chain *chain_of(struct rnl__cq_chains *chains, const struct rnl_cq *cq)
{
	struct rnl__cq_chain *spare = NULL;

	for (unsigned i = 0; i < RNL__CQ_CHAINS; i++) {
		if (chains->list[i].cq == cq)
			return &chains->list[i];
		if (!spare && !chains->list[i].cq)
			spare = &chains->list[i];
	}
	if (!spare)
		push_chain(spare = &chains->list[(uintptr_t)cq / RNL__CACHE_LINE % RNL__CQ_CHAINS]);
	return spare;
}

void rnl__cq_collect(struct rnl__cq_chains *chains, struct rnl_cq *cq, struct rnl_job *job)
{
	struct rnl__cq_chain *chain = chain_of(chains, cq);

	rnl__tsan_release(rnl__job_latch(job));
	if (chain->cq)
		job->link = chain->newest;
	else
		*chain = (struct rnl__cq_chain){ .cq = cq, .oldest = job };
	chain->newest = job;
	chains->any = true;
}

void rnl__cq_push_all(struct rnl__cq_chains *chains)
{
	if (!chains->any)
		return;
	chains->any = false;
	for (unsigned i = 0; i < RNL__CQ_CHAINS; i++)
		push_chain(&chains->list[i]);
}

/* ---- the reader's side --------------------------------------------------- */

static void make_unreadable(struct rnl_cq *cq)
{
	RNL__UNCANCELLED();
	int saved = errno;
	uint64_t count;

	if (read(cq->fd, &count, sizeof(count)) < 0)
		errno = saved;		/* EAGAIN: it was not readable */
	cq->notified = false;
}

/* Arms an empty list.  Returns false if jobs came meanwhile. */
static bool arm(struct rnl_cq *cq)
{
	/* Consumes the write for the last arming, and delayed writes. */
	make_unreadable(cq);
	if (cq->armed) {
		/* The read may have consumed the write for a job that is in the list now. */
		cq->armed = !rnl__inbox_holds(&cq->done);
		return cq->armed;
	}
	/* The arming is counted before a push can drop it. */
	rnl__latch_add(&cq->writing, 1);
	cq->armed = rnl__inbox_arm(&cq->done, true);
	if (!cq->armed)
		(void)rnl__latch_drop(&cq->writing, 1);
	return cq->armed;
}

/* Returns true if the program has the descriptor, and may poll it. */
static bool is_polled(struct rnl_cq *cq)
{
	/* relaxed: the barriers [cq.F1] and [cq.F2] order it */
	return atomic_load_explicit(&cq->polled, memory_order_relaxed);
}

static unsigned reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max)
{
	unsigned nr = 0;

	for (;;) {
		for (; cq->first && nr < max; nr++) {
			jobs[nr] = cq->first;
			cq->first = cq->first->link;
			rnl__tsan_acquire(rnl__job_latch(jobs[nr]));
			rnl__job_drop(jobs[nr]);
		}
		if (nr == max)
			break;
		cq->first = rnl__job_in_order(rnl__inbox_take_all(&cq->done));
		if (cq->first) {
			/* If the list was armed, a worker writes. */
			cq->notified = cq->notified || cq->armed;
			cq->armed = false;
			/*
			 * [cq.F1] full barrier: the list is not armed, then the look at `polled`;
			 * pairs with [cq.F2]
			 */
			rnl__mb_after_rmw();
		} else if (!is_polled(cq) || arm(cq)) {
			return nr;
		}
	}
	/* The list was not seen empty, so the reader must be woken again. */
	if (is_polled(cq) && !cq->notified) {
		make_readable(cq);
		cq->notified = true;
	}
	return nr;
}

static bool cq_holds(void *arg)
{
	struct rnl_cq *cq = arg;

	return cq->first || rnl__inbox_holds(&cq->done);
}

/* Admits one reader at a time. */
static int cq_enter(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max)
{
	int ret = cq_check_given(cq, "reap of a completion queue");

	if (ret)
		return ret;
	if (!jobs || !max)
		return rnl__invalid(NULL, "reap of a completion queue: %s", jobs ? "max is 0" :
									       "jobs is NULL");
	/* [cq.E1] acquire: sees the queue as the last reader left it; pairs with [cq.E2] */
	return atomic_exchange_explicit(&cq->reaping, 1, memory_order_acquire) ? -EBUSY : 0;
}

static void cq_leave(struct rnl_cq *cq)
{
	/* [cq.E2] release: publishes the queue to the next reader; pairs with [cq.E1] */
	atomic_store_explicit(&cq->reaping, 0, memory_order_release);
}

/* Waits until the descriptor is readable.  Returns false if the deadline has passed. */
static bool wait_readable(struct rnl_cq *cq, uint64_t deadline)
{
	RNL__UNCANCELLED();
	struct pollfd fd = { .fd = cq->fd, .events = POLLIN };
	const uint64_t now = rnl__now();
	const struct timespec ts = rnl__timespec(deadline - now);
	int saved = errno;

	if (now >= deadline)
		return false;
	/* With RLIMIT_NOFILE 0 a poll for one descriptor fails. */
	if (ppoll(&fd, 1, deadline == RNL__NEVER ? NULL : &ts, NULL) < 0 && errno != EINTR)
		rnl__nap(rnl__smaller(deadline - now, NAP_NS));
	errno = saved;
	return true;
}

/* Waits for jobs, and takes them.  Returns their number. */
static unsigned await_and_reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max,
			       uint64_t deadline)
{
	const uint64_t begin = rnl__now();
	unsigned nr = 0;

	if (cq->quick && rnl__spin(cq_holds, cq, SPIN_NS, deadline))
		nr = reap(cq, jobs, max);
	while (!nr && (!arm(cq) || wait_readable(cq, deadline)))
		nr = reap(cq, jobs, max);
	cq->quick = nr && rnl__now() - begin < SPIN_NS;
	return nr;
}

int rnl_cq_reap(struct rnl_cq *cq, struct rnl_job **jobs, unsigned max, int64_t timeout_ns)
{
	int ret = cq_enter(cq, jobs, max);

	if (ret)
		return ret;
	max = max < INT_MAX ? max : INT_MAX;
	ret = (int)reap(cq, jobs, max);
	if (!ret && timeout_ns)
		ret = (int)await_and_reap(cq, jobs, max, rnl__deadline(timeout_ns));
	cq_leave(cq);
	return ret;
}

/* ---- creating, destroying, settings -------------------------------------- */

int rnl_cq_create(struct rnl_cq **cqp)
{
	struct rnl_cq *cq;
	int ret;

	if (!cqp)
		return rnl__invalid(NULL, "rnl_cq_create(): cqp is NULL");
	ret = rnl__generation_start();
	if (ret)
		return ret;
	cq = aligned_alloc(RNL__CACHE_LINE, sizeof(*cq));
	if (!cq)
		return -ENOMEM;
	*cq = (struct rnl_cq){
		.done.first = RNL__INBOX_ARMED, .armed = true, .writing = RNL__LATCH_ONE,
		.generation = rnl__generation,
	};
	cq->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (cq->fd < 0) {
		ret = rnl__system_refused(NULL, "rnl_cq_create()", "eventfd2", -errno);
		free(cq);
		return ret;
	}
	*cqp = cq;
	return 0;
}

void rnl_cq_destroy(struct rnl_cq *cq)
{
	RNL__UNCANCELLED();
	struct rnl_job *jobs[64];
	const int ret = cq_check(cq);

	if (ret == -EINVAL)
		return;		/* not a queue */
	/* In a forked child no worker writes, and the jobs belong to the parent. */
	if (!ret) {
		while (reap(cq, jobs, 64))
			;
		/* If the list is still armed, no worker has dropped the last arming. */
		if (rnl__inbox_arm(&cq->done, false))
			(void)rnl__latch_drop(&cq->writing, 1);
		/* A worker whose job was reaped may not have written yet. */
		rnl__latch_wait(&cq->writing, 0, RNL__NEVER);
	}
	close(cq->fd);
	free(cq);
}

int rnl_job_set_cq(struct rnl_job *job, struct rnl_cq *cq)
{
	int ret = cq ? cq_check_given(cq, "rnl_job_set_cq()") : 0;

	if (!ret)
		ret = rnl__job_settable(job, "rnl_job_set_cq()");
	if (ret)
		return ret;
	if (rnl__job_callback_of(job))
		return cq ? rnl__invalid(NULL, "rnl_job_set_cq(): job %p has a callback, and so no completion "
					 "queue", (void *)job) : 0;
	job->cq = cq;
	job->flags = cq ? job->flags | RNL__JOB_REAPED : job->flags & ~RNL__JOB_REAPED;
	rnl__job_set_to_reap(job, cq != NULL);
	return 0;
}

int rnl_cq_fd(struct rnl_cq *cq)
{
	int ret = cq_check_given(cq, "rnl_cq_fd()");

	if (ret)
		return ret;
	if (is_polled(cq))
		return cq->fd;
	/* relaxed: the barrier orders it */
	atomic_store_explicit(&cq->polled, true, memory_order_relaxed);
	/* [cq.F2] full barrier: `polled`, then the look whether the list is armed; pairs with [cq.F1] */
	rnl__full_barrier();
	/* A reader that has not seen `polled` may have left jobs, or an empty list that is not armed. */
	if (!rnl__inbox_is_armed(&cq->done))
		make_readable(cq);
	return cq->fd;
}
