/* SPDX-License-Identifier: MIT */
/* A worker's job queue on two of liburcu's cds_wfcq; queue.h has the design. */
#include "config.h"

#include <errno.h>

#include "park.h"
#include "queue.h"

#define CLOSED (UINT64_C(1) << 63)

/*
 * liburcu is called out of line, where ThreadSanitizer does not see the
 * exchange that hands a job over; these tell it.
 */
#if defined(__SANITIZE_THREAD__)
#define TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define TSAN 1
#endif
#endif
#ifdef TSAN
void __tsan_acquire(void *addr);
void __tsan_release(void *addr);
#define handed_over(job) __tsan_release(job)
#define taken_over(job) __tsan_acquire(job)
#else
#define handed_over(job) ((void)(job))
/*
 * [queue.T3] acquire fence: cds_wfcq orders the node alone after a dequeue, and
 * a job's function reads what its submitter wrote anywhere; pairs with
 * [queue.E1].  No instruction on x86.
 */
#define taken_over(job) atomic_thread_fence(memory_order_acquire)
#endif

_Static_assert(sizeof(struct cds_wfcq_node) == sizeof(((struct rnl_job *)NULL)->link),
	       "a job's link is a queue node");

static struct cds_wfcq_node *node_of(struct rnl_job *job)
{
	return (struct cds_wfcq_node *)&job->link;
}

static struct rnl_job *job_of(struct cds_wfcq_node *node)
{
	return rnl_container_of(node, struct rnl_job, link);
}

static void lane_init(struct rnl__lane *lane)
{
	__cds_wfcq_init(&lane->head, &lane->tail);
	atomic_init(&lane->busy, 0);
	atomic_init(&lane->taken, 0);
}

/* The tail leaves the head with a put's exchange, before the link is there. */
static bool lane_holds(struct rnl__lane *lane)
{
	return CMM_LOAD_SHARED(lane->tail.p) != &lane->head.node;
}

/* One taker at a time. */
static struct rnl_job *lane_take(struct rnl__lane *lane)
{
	struct cds_wfcq_node *node;
	struct rnl_job *job;

	node = __cds_wfcq_dequeue_nonblocking(&lane->head, &lane->tail);
	if (!node || node == CDS_WFCQ_WOULDBLOCK)
		return NULL;
	rnl__count(&lane->taken, 1);
	job = job_of(node);
	taken_over(job);
	return job;
}

static struct rnl_job *lane_try_take(struct rnl__lane *lane)
{
	struct rnl_job *job;

	if (!lane_holds(lane))
		return NULL;
	/* [queue.T1] acquire: the head as the last taker left it; pairs with [queue.T2] */
	if (atomic_exchange_explicit(&lane->busy, 1, memory_order_acquire))
		return NULL;
	job = lane_take(lane);
	/* [queue.T2] release: hands the head on; pairs with [queue.T1] */
	atomic_store_explicit(&lane->busy, 0, memory_order_release);
	return job;
}

static uint64_t taken(struct rnl__queue *q)
{
	/* relaxed: it bounds the queue, what was taken is not looked at */
	return atomic_load_explicit(&q->keyed.taken, memory_order_relaxed) +
	       /* relaxed: the same */
	       atomic_load_explicit(&q->open.taken, memory_order_relaxed);
}

void rnl__queue_init(struct rnl__queue *q, uint64_t limit)
{
	lane_init(&q->keyed);
	lane_init(&q->open);
	atomic_init(&q->accepted, 0);
	atomic_init(&q->taken_seen, 0);
	q->limit = limit;
	q->keyed_next = false;
}

int rnl__queue_reserve(struct rnl__queue *q, unsigned nr)
{
	uint64_t old, used;
	unsigned room;

	/*
	 * [queue.R1] acq_rel: on one word with [queue.C1], so that a submit
	 * beside a close is either counted before it or refused.
	 */
	old = atomic_fetch_add_explicit(&q->accepted, nr, memory_order_acq_rel);
	if (old & CLOSED) {
		/* relaxed: takes back what nobody acted on */
		atomic_fetch_sub_explicit(&q->accepted, nr, memory_order_relaxed);
		return -ESHUTDOWN;
	}
	/*
	 * The takers' lines move with every job; look at them only when the
	 * queue seems full by what was seen last.
	 */
	/* relaxed: old news makes the queue look fuller, and we look again */
	used = old - atomic_load_explicit(&q->taken_seen, memory_order_relaxed);
	if (used + nr > q->limit) {
		uint64_t now = taken(q);

		/* relaxed: see above; another producer's older value is as good */
		atomic_store_explicit(&q->taken_seen, now, memory_order_relaxed);
		/* Reservations that came and went beside us may count too much. */
		used = old > now ? old - now : 0;
	}
	if (used + nr <= q->limit)
		return (int)nr;
	room = used < q->limit ? (unsigned)(q->limit - used) : 0;
	/* relaxed: takes back what nobody acted on */
	atomic_fetch_sub_explicit(&q->accepted, nr - room, memory_order_relaxed);
	return room ? (int)room : -EAGAIN;
}

void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job)
{
	struct rnl__lane *lane = job->flags & RNL__JOB_KEYED ? &q->keyed : &q->open;

	job->link = NULL;
	handed_over(job);
	/*
	 * [queue.E1] full barrier (the exchange in cds_wfcq_enqueue, and M1):
	 * the job is on the queue before the caller looks who sleeps; pairs
	 * with [park.S1].
	 */
	cds_wfcq_enqueue(&lane->head, &lane->tail, node_of(job));
	rnl__mb_after_rmw();
}

void rnl__queue_put_chain(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr)
{
	struct __cds_wfcq_head head;
	struct cds_wfcq_tail tail;

	__cds_wfcq_init(&head, &tail);
	for (unsigned i = 0; i < nr; i++) {
		jobs[i]->link = NULL;
		handed_over(jobs[i]);
		cds_wfcq_enqueue(&head, &tail, node_of(jobs[i]));
	}
	/* [queue.E2] full barrier, as [queue.E1]; pairs with [park.S1] */
	__cds_wfcq_splice_nonblocking(&q->open.head, &q->open.tail, &head, &tail);
	rnl__mb_after_rmw();
}

struct rnl_job *rnl__queue_take(struct rnl__queue *q)
{
	struct rnl_job *job = NULL;

	/* In turn, so that neither lane starves the other. */
	q->keyed_next = !q->keyed_next;
	if (q->keyed_next && lane_holds(&q->keyed))
		job = lane_take(&q->keyed);
	if (!job)
		job = lane_try_take(&q->open);
	if (!job && !q->keyed_next && lane_holds(&q->keyed))
		job = lane_take(&q->keyed);
	return job;
}

struct rnl_job *rnl__queue_steal(struct rnl__queue *q)
{
	return lane_try_take(&q->open);
}

bool rnl__queue_holds(struct rnl__queue *q)
{
	return lane_holds(&q->keyed) || lane_holds(&q->open);
}

bool rnl__queue_stealable(struct rnl__queue *q)
{
	return lane_holds(&q->open);
}

void rnl__queue_close(struct rnl__queue *q)
{
	/* [queue.C1] acq_rel: on one word with the reservations; pairs with [queue.R1] */
	atomic_fetch_or_explicit(&q->accepted, CLOSED, memory_order_acq_rel);
}

uint64_t rnl__queue_accepted(struct rnl__queue *q)
{
	/* relaxed: the caller's barrier orders it, see rnl_pool_drain() */
	return atomic_load_explicit(&q->accepted, memory_order_relaxed) & ~CLOSED;
}

uint64_t rnl__queue_length(struct rnl__queue *q)
{
	uint64_t now = taken(q), accepted = rnl__queue_accepted(q);

	return accepted > now ? accepted - now : 0;
}
