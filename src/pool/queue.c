/* SPDX-License-Identifier: MIT */
/* A worker's job queue, on liburcu's cds_wfcq; queue.h has the design. */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <urcu/uatomic.h>

#include "stream/job_flags.h"
#include "pool/queue.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/flat.h"
#include "sys/tsan.h"

#define WALK_PIECE 256		/* jobs that a walk looks at while it has the lane */
#define WALK_TRIES 100		/* to get a lane that a taker has for some instructions */

/* In `accepted` ... */
#define CLOSED (UINT64_C(1) << 63)
#define AWAY (UINT64_C(1) << 62)
/* ... and in `promised`. */
#define SHUT (UINT64_C(1) << 63)

/*
 * liburcu is called out of line, so a library that is built with ThreadSanitizer does not show it
 * the exchange that hands a job over; these two do.
 */
#ifdef RNL__TSAN_BUILD
#define handed_over(job) __tsan_release(job)
#define taken_over(job) __tsan_acquire(job)
#else
#define handed_over(job) ((void)(job))
/*
 * [queue.T3] acquire fence: cds_wfcq orders the node alone after a dequeue, and a job's function
 * reads what its submitter wrote anywhere; pairs with [queue.E1].  No instruction on x86.
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
	atomic_init(&lane->promised, SHUT);
	atomic_init(&lane->busy, 0);
	atomic_init(&lane->taken, 0);
	atomic_init(&lane->done, 0);
	atomic_init(&lane->removed, 0);
}

static struct cds_wfcq_node *next_of(struct cds_wfcq_node *node)
{
	/* relaxed: taken_over() orders what is behind the link */
	return atomic_load_explicit(rnl__atomic(&node->next), memory_order_relaxed);
}

/* The lane's one taker sets a link, which no put sets now. */
static void set_next(struct cds_wfcq_node *node, struct cds_wfcq_node *next)
{
	/* relaxed: the next taker gets the lane in order, [queue.T1]; a put has the tail */
	atomic_store_explicit(rnl__atomic(&node->next), next, memory_order_relaxed);
}

/*
 * A put's exchange moves the tail off the head before the link is there.  The tail is on the
 * producers' line, so it is read only if there is no link.
 */
static bool lane_holds(struct rnl__lane *lane)
{
	return next_of(&lane->head.node) || CMM_LOAD_SHARED(lane->tail.p) != &lane->head.node;
}

/* Fetches the next job's first two lines while this job runs. */
static void fetch(const struct cds_wfcq_node *next)
{
	if (!next)
		return;
	__builtin_prefetch(next, 1);
	__builtin_prefetch((const char *)next + RNL__CACHE_LINE);
}

/*
 * The lane's one taker takes the job behind @prev, which is the head or a job that stays; false:
 * not now, a put has yet to set its link.  cds_wfcq removes from its head in this way; with its own
 * functions a look at the first job and a take were two calls.  If the job is the last one, the tail
 * goes back to @prev, unless a put has moved the tail on.
 */
static bool lane_remove(struct rnl__lane *lane, struct cds_wfcq_node *prev)
{
	struct cds_wfcq_node *node = next_of(prev), *next = next_of(node);
	bool last = false;

	if (!next) {
		set_next(prev, NULL);
		/*
		 * [queue.W1] full barrier (the exchange): a put that finds @prev at the tail links
		 * its job there after our store; pairs with [queue.E1].
		 */
		last = uatomic_cmpxchg(&lane->tail.p, node, prev) == node;
		next = last ? NULL : next_of(node);
	}
	/* The next taker has the next job's link from us: [queue.T3] here, [queue.T2] for it. */
	if (next)
		taken_over(job_of(next));
	if (!last)
		set_next(prev, next ? next : node);
	if (!last && !next)
		return false;
	rnl__figure_add(&lane->taken, 1);
	return true;
}

/* The lane's one taker looks at the first job, which stays there; or NULL. */
static struct rnl_job *lane_first(struct rnl__lane *lane)
{
	struct cds_wfcq_node *node = next_of(&lane->head.node);

	if (!node)
		return NULL;
	taken_over(job_of(node));
	return job_of(node);
}

/* The lane's one taker takes the first job, at which it has looked; NULL: not now. */
static struct rnl_job *lane_take(struct rnl__lane *lane, struct rnl_job *first)
{
	if (!lane_remove(lane, &lane->head.node))
		return NULL;
	fetch(next_of(&lane->head.node));
	return first;
}

/* Becomes the lane's one taker; false: the lane is empty, or another thread is the taker. */
static bool lane_begin(struct rnl__lane *lane)
{
	/* [queue.T1] acquire: the head as the last taker left it; pairs with [queue.T2] */
	return lane_holds(lane) &&
	       !atomic_exchange_explicit(&lane->busy, 1, memory_order_acquire);
}

static void lane_end(struct rnl__lane *lane)
{
	/* [queue.T2] release: hands the head on; pairs with [queue.T1] */
	atomic_store_explicit(&lane->busy, 0, memory_order_release);
}

static struct rnl_job *lane_try_take(struct rnl__lane *lane)
{
	struct rnl_job *job;

	if (!lane_begin(lane))
		return NULL;
	job = lane_first(lane);
	if (job)
		job = lane_take(lane, job);
	lane_end(lane);
	return job;
}

static uint64_t lane_taken(struct rnl__lane *lane)
{
	/* relaxed: the count bounds the queue, and orders no access to the jobs */
	return atomic_load_explicit(&lane->taken, memory_order_relaxed);
}

void rnl__queue_init(struct rnl__queue *q, bool places)
{
	lane_init(&q->keyed[0]);
	lane_init(&q->keyed[1]);
	lane_init(&q->urgent);
	lane_init(&q->open);
	lane_init(&q->placed_urgent);
	lane_init(&q->placed);
	atomic_init(&q->accepted, AWAY);
	atomic_init(&q->taken_seen, 0);
	atomic_init(&q->limit, 0);
	atomic_init(&q->due, RNL__NEVER);
	q->keyed_next = false;
	q->places = q->takes_placed = places;
}

void rnl__queue_bound(struct rnl__queue *q, uint64_t limit)
{
	/* relaxed: a concurrent submit uses the old limit or the new one */
	atomic_store_explicit(&q->limit, limit, memory_order_relaxed);
}

/* ---- reserving ----------------------------------------------------------- */

void rnl__queue_unreserve(struct rnl__queue *q, unsigned nr)
{
	/* relaxed: nothing was done for that reservation */
	atomic_fetch_sub_explicit(&q->accepted, nr, memory_order_relaxed);
}

int rnl__queue_reserve(struct rnl__queue *q, unsigned nr)
{
	/* relaxed: see rnl__queue_bound() */
	uint64_t limit = atomic_load_explicit(&q->limit, memory_order_relaxed);
	uint64_t old, used;
	unsigned space;

	/*
	 * [queue.R1] acq_rel: on one word with [queue.C1] and [queue.A1], so a submit
	 * beside a close or a leave is either counted before it or refused; and a
	 * submit that is refused for AWAY sees the staff that was published before.
	 */
	old = atomic_fetch_add_explicit(&q->accepted, nr, memory_order_acq_rel);
	if (old & (CLOSED | AWAY)) {
		rnl__queue_unreserve(q, nr);
		return old & CLOSED ? -ESHUTDOWN : -ESTALE;
	}
	/*
	 * Takers write their lines with every job, so a submit reads these only if the
	 * queue seems full by the last count.
	 */
	/* relaxed: an old count makes the queue look fuller, and then we count anew */
	used = old - atomic_load_explicit(&q->taken_seen, memory_order_relaxed);
	if (used + nr > limit) {
		uint64_t now = rnl__queue_taken(q);

		/* relaxed: another submit's older count does no harm, see above */
		atomic_store_explicit(&q->taken_seen, now, memory_order_relaxed);
		/* `old` may count reservations that were taken back since. */
		used = old > now ? old - now : 0;
	}
	if (used + nr <= limit)
		return (int)nr;
	space = used < limit ? (unsigned)(limit - used) : 0;
	rnl__queue_unreserve(q, nr - space);
	return space ? (int)space : -EAGAIN;
}

bool rnl__queue_reserve_accepted(struct rnl__queue *q)
{
	/* [queue.R2] acq_rel: as [queue.R1]; pairs with [queue.A1] */
	if (!(atomic_fetch_add_explicit(&q->accepted, 1, memory_order_acq_rel) & AWAY))
		return true;
	rnl__queue_unreserve(q, 1);
	return false;
}

/* ---- putting ------------------------------------------------------------- */

static struct rnl__lane *lane_of(struct rnl__queue *q, const struct rnl_job *job)
{
	if (job->flags & RNL__JOB_KEYED)
		return &q->keyed[rnl__keyed_lane(job->staff)];
	if (job->flags & RNL__JOB_PLACED && q->places)
		return job->flags & RNL__JOB_FIRST ? &q->placed_urgent : &q->placed;
	return job->flags & RNL__JOB_FIRST ? &q->urgent : &q->open;
}

void rnl__queue_put(struct rnl__queue *q, struct rnl_job *job)
{
	struct rnl__lane *lane = lane_of(q, job);

	job->link = NULL;
	handed_over(job);
	/*
	 * [queue.E1] full barrier (the exchange in cds_wfcq_enqueue, with rnl__mb_after_rmw()): the
	 * job is on the queue before the caller looks for sleepers; pairs with [park.S1].
	 */
	cds_wfcq_enqueue(&lane->head, &lane->tail, node_of(job));
	rnl__mb_after_rmw();
}

void rnl__queue_put_row(struct rnl__queue *q, struct rnl_job *const *jobs, unsigned nr)
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

/* ---- taking -------------------------------------------------------------- */

/*
 * Of two lanes each is first every second time, so that neither starves the other.  Which one that
 * is, the jobs taken tell: so several takers share the turns.
 */
static struct rnl_job *take_in_turn(struct rnl__lane *one, struct rnl__lane *other)
{
	const bool turned = (lane_taken(one) + lane_taken(other)) & 1;
	struct rnl_job *job = lane_try_take(turned ? other : one);

	return job ? job : lane_try_take(turned ? one : other);
}

struct rnl_job *rnl__queue_take_urgent(struct rnl__queue *q, bool placed)
{
	return placed ? take_in_turn(&q->placed_urgent, &q->urgent) : lane_try_take(&q->urgent);
}

/* An open job, or a placed one. */
static struct rnl_job *take_open(struct rnl__queue *q, bool placed)
{
	return placed ? take_in_turn(&q->placed, &q->open) : lane_try_take(&q->open);
}

/*
 * Owner: a keyed job of that generation.  If two resizes have passed since the owner looked which
 * generation is served, the lane has jobs of a later one: so the job's own generation decides.
 */
static struct rnl_job *take_keyed(struct rnl__queue *q, uint32_t generation)
{
	struct rnl__lane *lane = &q->keyed[rnl__keyed_lane(generation)];
	struct rnl_job *first, *job = NULL;

	if (!lane_begin(lane))
		return NULL;
	first = lane_first(lane);
	if (first && first->staff == generation)
		job = lane_take(lane, first);
	lane_end(lane);
	return job;
}

struct rnl_job *rnl__queue_take(struct rnl__queue *q, uint32_t generation)
{
	struct rnl_job *job = rnl__queue_take_urgent(q, q->takes_placed);

	if (job)
		return job;
	/* Each lane is first every second time, so that neither starves the other. */
	q->keyed_next = !q->keyed_next;
	if (q->keyed_next)
		job = take_keyed(q, generation);
	if (!job)
		job = take_open(q, q->takes_placed);
	if (!job && !q->keyed_next)
		job = take_keyed(q, generation);
	return job;
}

RNL__FLAT
struct rnl_job *rnl__queue_take_of(struct rnl__queue *q, const struct rnl_barrier *barrier,
				   unsigned round, uint32_t generation)
{
	struct rnl_job *first, *job = NULL;

	if (lane_holds(&q->urgent) || lane_holds(&q->keyed[rnl__keyed_lane(generation)]) ||
	    (q->takes_placed && rnl__queue_holds_placed(q)) || !lane_begin(&q->open))
		return NULL;
	first = lane_first(&q->open);
	if (first && first->barrier == barrier && rnl__job_round(first) == round)
		job = lane_take(&q->open, first);
	lane_end(&q->open);
	return job;
}

struct rnl_job *rnl__queue_steal(struct rnl__queue *q, bool placed)
{
	struct rnl_job *job = rnl__queue_take_urgent(q, placed);

	return job ? job : take_open(q, placed);
}

bool rnl__queue_holds_placed(struct rnl__queue *q)
{
	return lane_holds(&q->placed) || lane_holds(&q->placed_urgent);
}

bool rnl__queue_holds_urgent(struct rnl__queue *q, bool placed)
{
	return lane_holds(&q->urgent) || (placed && lane_holds(&q->placed_urgent));
}

bool rnl__queue_stealable(struct rnl__queue *q, bool placed)
{
	return lane_holds(&q->open) || lane_holds(&q->urgent) ||
	       (placed && rnl__queue_holds_placed(q));
}

bool rnl__queue_shows(struct rnl__queue *q, uint32_t generation)
{
	return next_of(&q->open.head.node) || next_of(&q->urgent.head.node) ||
	       next_of(&q->keyed[rnl__keyed_lane(generation)].head.node) ||
	       (q->takes_placed && (next_of(&q->placed.head.node) ||
				    next_of(&q->placed_urgent.head.node)));
}

bool rnl__queue_holds_keyed(struct rnl__queue *q, uint32_t generation)
{
	return lane_holds(&q->keyed[rnl__keyed_lane(generation)]);
}

bool rnl__queue_holds(struct rnl__queue *q, uint32_t generation)
{
	return rnl__queue_holds_keyed(q, generation) ||
	       rnl__queue_stealable(q, q->takes_placed);
}

/* ---- jobs that cannot wait for a worker ---------------------------------- */

bool rnl__queue_expect(struct rnl__queue *q, uint64_t at)
{
	uint64_t due = rnl__peek(&q->due);

	while (at < due) {
		/* relaxed: the caller's full barriers order it, see keeper.h */
		if (atomic_compare_exchange_weak_explicit(&q->due, &due, at, memory_order_relaxed,
							  memory_order_relaxed))
			return true;
	}
	return false;
}

uint64_t rnl__queue_due(struct rnl__queue *q)
{
	/* relaxed: the keeper's full barrier orders it, see keeper.h */
	return atomic_load_explicit(&q->due, memory_order_relaxed);
}

void rnl__queue_forget_due(struct rnl__queue *q)
{
	/* relaxed: the barrier below orders it */
	atomic_store_explicit(&q->due, RNL__NEVER, memory_order_relaxed);
	/*
	 * [queue.W2] full barrier: a submit that puts a job behind the walk that follows finds no
	 * time here, and sets its own; pairs with [queue.E1].
	 */
	rnl__full_barrier();
}

/* Where the walk goes on, with the lane held: behind a job that is still there, or at the head. */
static struct cds_wfcq_node *walk_from(struct rnl__walk *walk, struct rnl__lane *lane)
{
	/* As many jobs were taken since, from the head. */
	uint64_t taken = lane_taken(lane) - walk->taken;

	walk->nr = taken < walk->nr ? walk->nr - taken : 0;
	return walk->nr ? walk->at : &lane->head.node;
}

static void add_picked(struct rnl__walk *walk, struct rnl_job *job)
{
	job->link = NULL;
	if (walk->last)
		walk->last->link = job;
	else
		walk->picked = job;
	walk->last = job;
}

/* Looks at some jobs of a lane that it has.  Return: whether that was the last of them. */
static bool walk_lane(struct rnl__walk *walk, struct rnl__lane *lane)
{
	struct cds_wfcq_node *prev = walk_from(walk, lane), *node;
	unsigned nr = 0;

	while (nr < WALK_PIECE && (node = next_of(prev)) != NULL) {
		struct rnl_job *job = job_of(node);

		nr++;
		taken_over(job);
		if (walk->pick(walk, job)) {
			if (lane_remove(lane, prev)) {
				add_picked(walk, job);
				continue;
			}
			walk->missed = true;
		}
		prev = node;
		walk->nr++;
	}
	walk->at = prev;
	walk->taken = lane_taken(lane);
	if (nr == WALK_PIECE)
		return false;
	/* A put has yet to set its link: what is behind it was not seen. */
	if (CMM_LOAD_SHARED(lane->tail.p) != prev)
		walk->missed = true;
	return true;
}

bool rnl__walk_on(struct rnl__walk *walk)
{
	struct rnl__lane *const lanes[] = {
		&walk->queue->keyed[0], &walk->queue->keyed[1], &walk->queue->urgent,
		&walk->queue->open, &walk->queue->placed_urgent, &walk->queue->placed,
	};
	struct rnl__lane *lane = lanes[walk->lane];
	bool over = true;

	if (lane_begin(lane)) {
		walk->tries = 0;
		over = walk_lane(walk, lane);
		lane_end(lane);
	} else if (lane_holds(lane)) {
		over = ++walk->tries > WALK_TRIES;
		walk->missed |= over;
		sched_yield();	/* the taker may need the CPU */
	}
	if (over) {
		walk->lane++;
		walk->nr = 0;
	}
	return walk->lane < sizeof(lanes) / sizeof(lanes[0]);
}

/* ---- the end of reserving ------------------------------------------------ */

void rnl__queue_close(struct rnl__queue *q)
{
	/* [queue.C1] acq_rel: on one word with the reservations; pairs with [queue.R1] */
	atomic_fetch_or_explicit(&q->accepted, CLOSED, memory_order_acq_rel);
}

bool rnl__queue_away(struct rnl__queue *q)
{
	/* relaxed: a change is followed by a wake, or the worker looks again: idle() of loop.c */
	return atomic_load_explicit(&q->accepted, memory_order_relaxed) & AWAY;
}

void rnl__queue_serve(struct rnl__queue *q)
{
	/* relaxed: the staff that leads submits here is published after it */
	atomic_fetch_and_explicit(&q->accepted, ~AWAY, memory_order_relaxed);
}

void rnl__queue_leave(struct rnl__queue *q)
{
	/*
	 * [queue.A1] acq_rel: on one word with the reservations, after the staff
	 * that no longer leads here; pairs with [queue.R1], [queue.R2].
	 */
	atomic_fetch_or_explicit(&q->accepted, AWAY, memory_order_acq_rel);
}

/* ---- keyed lanes --------------------------------------------------------- */

static _Atomic uint64_t *promised_of(struct rnl__queue *q, uint32_t generation)
{
	return &q->keyed[rnl__keyed_lane(generation)].promised;
}

bool rnl__queue_promise(struct rnl__queue *q, uint32_t generation)
{
	/*
	 * [queue.K1] acq_rel: on one word with [queue.K2]: the promise is counted before
	 * the lane is shut, or refused, and then the submit sees the new staff.
	 */
	uint64_t old = atomic_fetch_add_explicit(promised_of(q, generation), 1,
						 memory_order_acq_rel);

	if (!(old & SHUT))
		return true;
	rnl__queue_unpromise(q, generation);
	return false;
}

void rnl__queue_unpromise(struct rnl__queue *q, uint32_t generation)
{
	/* relaxed: nothing was done for that promise */
	atomic_fetch_sub_explicit(promised_of(q, generation), 1, memory_order_relaxed);
}

void rnl__queue_open_lane(struct rnl__queue *q, uint32_t generation)
{
	/* relaxed: the staff that leads submits here is published after it */
	atomic_fetch_and_explicit(promised_of(q, generation), ~SHUT, memory_order_relaxed);
}

void rnl__queue_shut_lane(struct rnl__queue *q, uint32_t generation)
{
	/* [queue.K2] acq_rel: on one word with the promises; pairs with [queue.K1] */
	atomic_fetch_or_explicit(promised_of(q, generation), SHUT, memory_order_acq_rel);
}

void rnl__queue_keyed_done(struct rnl__queue *q, uint32_t generation)
{
	_Atomic uint64_t *done = &q->keyed[rnl__keyed_lane(generation)].done;

	rnl__tsan_release(done);
	/*
	 * [queue.K3] release: what the job did, to the resize that lets its key's next
	 * job start elsewhere; pairs with [queue.K4].
	 */
	atomic_store_explicit(done, rnl__own_read(done) + 1, memory_order_release);
}

void rnl__queue_keyed_removed(struct rnl__queue *q, uint32_t generation)
{
	_Atomic uint64_t *removed = &q->keyed[rnl__keyed_lane(generation)].removed;

	/* [queue.K5] release: as [queue.K3]; pairs with [queue.K6] */
	atomic_store_explicit(removed, rnl__own_read(removed) + 1, memory_order_release);
}

bool rnl__queue_lane_done(struct rnl__queue *q, uint32_t generation)
{
	struct rnl__lane *lane = &q->keyed[rnl__keyed_lane(generation)];
	/* [queue.K4] acquire: what these jobs did; pairs with [queue.K3] */
	uint64_t done = atomic_load_explicit(&lane->done, memory_order_acquire);

	/* [queue.K6] acquire: as [queue.K4]; pairs with [queue.K5] */
	done += atomic_load_explicit(&lane->removed, memory_order_acquire);
	rnl__tsan_acquire(&lane->done);

	/*
	 * relaxed: may count a promise that is being taken back; its submit wakes the worker then
	 */
	return (atomic_load_explicit(&lane->promised, memory_order_relaxed) & ~SHUT) == done;
}

/* ---- figures ------------------------------------------------------------- */

uint64_t rnl__queue_accepted(struct rnl__queue *q)
{
	/* relaxed: the caller's barrier orders it, see rnl_pool_drain() */
	return atomic_load_explicit(&q->accepted, memory_order_relaxed) & ~(CLOSED | AWAY);
}

uint64_t rnl__queue_taken(struct rnl__queue *q)
{
	uint64_t taken = lane_taken(&q->open) + lane_taken(&q->urgent) +
			 lane_taken(&q->keyed[0]) + lane_taken(&q->keyed[1]);

	if (q->places)
		taken += lane_taken(&q->placed) + lane_taken(&q->placed_urgent);
	return taken;
}

/* An estimate: with weak memory order a job may be counted as taken before its put is seen. */
uint64_t rnl__queue_length(struct rnl__queue *q)
{
	uint64_t now = rnl__queue_taken(q), accepted = rnl__queue_accepted(q);

	return accepted > now ? accepted - now : 0;
}

bool rnl__queue_has_space(struct rnl__queue *q)
{
	/* relaxed: see rnl__queue_bound() */
	return rnl__queue_length(q) < atomic_load_explicit(&q->limit, memory_order_relaxed);
}
