/* SPDX-License-Identifier: MIT */
/* The classes of a pool: what submits and the timer thread do; classes_choose.c has the workers. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "pool/candidates.h"
#include "pool/classes.h"
#include "pool/inherit.h"
#include "pool/outside.h"
#include "pool/park.h"
#include "stream/job_flags.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"

_Static_assert(RNL__CLASSES_NR <= 1 << RNL__CLASS_ID_BITS, "a class's place fits into its id");
_Static_assert(RNL__CLASSES_NR <= 64, "a bit for each class");

/* Returns the class of a job that has entered. */
static struct rnl_class *class_of_job(struct rnl_pool *pool, const struct rnl_job *job)
{
	return rnl__class_at(rnl__classes_of(pool), job->class_index & RNL__CLASS_INDEX);
}

static unsigned queue_of(const struct rnl_class *c, const struct rnl_job *job)
{
	return c->nr_queues > 1 && job->flags & RNL__JOB_PLACED ? 1 + rnl__job_device(job) : 0;
}

/* ---- submits ------------------------------------------------------------- */

/* Drops a count of jobs inside, and wakes a destroy that waits for the last one. */
static void go_outside(struct rnl__classes *classes, struct rnl_class *c)
{
	/* [classes.I3] acq_rel: the job is its owner's; pairs with [classes.I4] */
	if (atomic_fetch_sub_explicit(&c->inside, 1, memory_order_acq_rel) != (RNL__CLASS_CLOSED | 1))
		return;
	/* [classes.I5] full barrier: counted before the look for a destroy; pairs with [eventcount.L2] */
	rnl__mb_after_rmw();
	rnl__eventcount_wake(&classes->ended);
}

/* Counts a job inside a class.  Returns false if the class has ended, or ends. */
static bool go_inside(struct rnl__classes *classes, struct rnl_class *c, uint32_t id)
{
	/* [classes.I1] acquire: the class as it was created; pairs with [classes.I2] */
	uint32_t old = atomic_fetch_add_explicit(&c->inside, 1, memory_order_acquire);

	if (!(old & RNL__CLASS_CLOSED) && rnl__figure_read(&c->id) == id)
		return true;
	go_outside(classes, c);
	return false;
}

/* Frees a slot, and wakes a submit that waits for one. */
static void give_slot_back(struct rnl_pool *pool, struct rnl_class *c, struct rnl__prioq *q, unsigned slot)
{
	rnl__prioq_free(q, slot);
	/* [classes.S1] full barrier: freed before the look for submits; pairs with [eventcount.L2] */
	rnl__mb_after_rmw();
	rnl__class_wake_space(c);
	rnl__waitq_wake(pool);
}

/* Claims a slot for a job.  Returns its number, or -1 if the class is full. */
static int claim_slot(struct rnl_class *c, const struct rnl_job *job)
{
	return rnl__prioq_claim(rnl__class_queue(c, queue_of(c, job)), job);
}

/* Counts a job that is inside and has a slot as accepted. */
static void accept_in_class(struct rnl_class *c, struct rnl_job *job, unsigned slot)
{
	struct rnl__prioq *q = rnl__class_queue(c, queue_of(c, job));
	const bool keyed = job->flags & RNL__JOB_KEYED;

	/* A cancel reads them after the phase, which the accepted submit writes: [job.P3] */
	rnl__job_set_class_slot(job, slot);
	rnl__job_set_class_index(job, c->index | (keyed ? RNL__CLASS_NO_SLOT : 0));
	job->flags |= RNL__JOB_CLASSED;
	rnl__figure_add_any(&c->accepted, 1);
	if (keyed)
		return;
	rnl__prioq_set_cost(q, slot, rnl__cost_pack(rnl__cost_guess(&c->costs,
								    (const void *)(uintptr_t)job->fn)));
	rnl__prioq_set_tag(q, slot, rnl__inherit_may(job) ? rnl__inherit_tag(job) : 0);
}

/* Returns false if the class refuses the job, because it would be late. */
static __attribute__((noinline)) bool is_admitted(struct rnl_class *c, const struct rnl_job *job)
{
	const uint64_t deadline_ns = job->flags & RNL__JOB_DEADLINE ? job->deadline_ns :
								      rnl__figure_read(&c->deadline_ns);

	/* When another job ends, or which time comes, is not predicted. */
	if (job->flags & (RNL__JOB_KEYED | RNL__JOB_AT | RNL__JOB_LEADS) || rnl__job_follows(job))
		return true;
	return !(job->flags & RNL__JOB_DEADLINE || deadline_ns) || rnl__classes_admit(c, job, deadline_ns);
}

/* Enters a job that keeps its slot, and whose owner is inside. */
static void enter_again(struct rnl_class *c, struct rnl_job *job)
{
	/* relaxed: its owner keeps the class */
	atomic_fetch_add_explicit(&c->inside, 1, memory_order_relaxed);
	accept_in_class(c, job, job->staff);
}

int rnl__classes_enter(struct rnl_pool *pool, struct rnl_job *job)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	const unsigned index = job->class_id % (1 << RNL__CLASS_ID_BITS);
	struct rnl_class *c = classes && index < RNL__CLASSES_NR ? rnl__class_at(classes, index) : NULL;
	int slot = 0;

	if (job->flags & RNL__JOB_INTERNAL) {
		enter_again(c, job);
		return 0;
	}
	if (!c || !go_inside(classes, c, job->class_id))
		return rnl__invalid(&pool->log, "submit: the class of job %p is of another pool, or has "
				    "ended", (const void *)job);
	if (rnl__figure_read(&c->flags) & RNL_CLASS_ADMIT && !is_admitted(c, job)) {
		go_outside(classes, c);
		return -ETIME;
	}
	if (!(job->flags & RNL__JOB_KEYED))
		slot = claim_slot(c, job);
	if (slot < 0) {
		rnl__figure_add_any(&c->refused, 1);
		go_outside(classes, c);
		return -EAGAIN;
	}
	accept_in_class(c, job, (unsigned)slot);
	if (!(job->flags & RNL__JOB_DEADLINE) && rnl__figure_read(&c->deadline_ns)) {
		job->deadline_ns = rnl__figure_read(&c->deadline_ns);
		job->flags |= RNL__JOB_DEADLINE | RNL__JOB_CLASS_DEADLINE;
	}
	return 0;
}

void rnl__classes_follow(struct rnl_pool *pool, struct rnl_job *job, unsigned index)
{
	struct rnl_class *c = rnl__class_at(rnl__classes_of(pool), index);

	/* relaxed: the job before it keeps the class */
	atomic_fetch_add_explicit(&c->inside, 1, memory_order_relaxed);
	rnl__figure_add_any(&c->accepted, 1);
	rnl__job_set_class_index(job, index | RNL__CLASS_NO_SLOT);
	job->flags |= RNL__JOB_CLASSED;
}

void rnl__classes_leave(struct rnl_pool *pool, struct rnl_job *job)
{
	struct rnl_class *c = class_of_job(pool, job);

	if (!(job->flags & (RNL__JOB_KEYED | RNL__JOB_INTERNAL)))
		give_slot_back(pool, c, rnl__class_queue(c, queue_of(c, job)), job->class_slot);
	job->flags &= ~RNL__JOB_CLASSED;
	rnl__job_set_class_index(job, 0);
	rnl__figure_add_any(&c->accepted, -UINT64_C(1));
	go_outside(rnl__classes_of(pool), c);
}

struct rnl__eventcount *rnl__classes_space(struct rnl_pool *pool, const struct rnl_job *job)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	const unsigned index = job->class_id % (1 << RNL__CLASS_ID_BITS);
	struct rnl_class *c = classes && index < RNL__CLASSES_NR ? rnl__class_at(classes, index) : NULL;

	return c && job->flags & RNL__JOB_CLASS && !(job->flags & RNL__JOB_KEY) ? &c->space : NULL;
}

/* Returns the job's place in its class's order. */
static uint64_t key_of(struct rnl_class *c, const struct rnl_job *job)
{
	if (rnl__figure_read(&c->order) == RNL_CLASS_DEADLINE && job->flags & RNL__JOB_DEADLINE)
		return rnl__smaller(RNL__CLASS_KEY_DEADLINE +
				    ((job->submit_ns + job->deadline_ns) >> RNL__CLASS_DEADLINE_SHIFT),
				    RNL__CLASS_KEY_HALF - 1);
	/* relaxed: submits that do not know of each other have no order */
	return RNL__CLASS_KEY_HALF + atomic_fetch_add_explicit(&c->ticket, 1, memory_order_relaxed) %
					     (RNL__CLASS_KEY_HALF - 1);
}

/* Returns one of the places of the bits, of which there is one at least. */
static unsigned one_of(uint64_t bits, unsigned random)
{
	for (unsigned skip = random % (unsigned)__builtin_popcountll(bits); skip; skip--)
		bits &= bits - 1;
	return (unsigned)__builtin_ctzll(bits);
}

/* Returns the place of a job that has the key, and perhaps inherits a smaller tier. */
static uint64_t raised_key(struct rnl_class *c, const struct rnl_job *job, uint64_t key)
{
	const uint64_t tier = rnl__inherit_tier(job), half = UINT64_C(1) << (RNL__CLASS_KEY_TIER_SHIFT - 1);
	uint64_t own;

	if (tier >= rnl__figure_read(&c->tier))
		return key;
	if (key < RNL__CLASS_KEY_DEADLINE)	/* it was raised before */
		own = key % (2 * half);
	else if (key < RNL__CLASS_KEY_HALF - 1)
		own = (key - RNL__CLASS_KEY_DEADLINE) >> RNL__CLASS_KEY_RAISED_SHIFT;
	else
		own = half + key % half;
	return tier << RNL__CLASS_KEY_TIER_SHIFT | own;
}

/*
 * Wakes a worker for a job in a class's queue: an idle one, or else any one, which may nap while its
 * device works.  A full barrier precedes.
 */
static void wake_any(struct rnl_pool *pool, struct rnl_class *c, unsigned queue, uint64_t random)
{
	struct rnl__candidates from = rnl__candidates_all(pool, rnl__pool_staff(pool));
	uint64_t own = rnl__class_workers(c);
	unsigned worker;

	if (queue)
		from = rnl__candidates_on(pool, from, queue - 1);
	if (rnl__classes_wake_idle(pool, c, from.among))
		return;
	worker = rnl__candidates_worker(&from, (unsigned)(random % from.nr));
	if (own)
		worker = one_of(own & rnl__among(from.among, 0), (unsigned)random);
	rnl__park_wake(&rnl__worker_at(pool, worker)->park);
}

/* Puts a job of the class into its queue, and wakes a worker and the timer thread for it. */
static void put_job(struct rnl_pool *pool, struct rnl_class *c, struct rnl_job *job, uint64_t key,
		    uint64_t expires_at)
{
	const unsigned queue = queue_of(c, job);
	const bool known = rnl__prioq_put(rnl__class_queue(c, queue), job->class_slot, job, key,
					  expires_at) >= 0;

	wake_any(pool, c, queue, key);
	if (!known)
		rnl__classes_expect(pool, 0);
	else if (expires_at != RNL__NEVER)
		rnl__classes_expect(pool, expires_at);
}

/* Asks the timer thread to look at jobs with the tag. */
static void ask_search(struct rnl_pool *pool, uint8_t tag)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	/* [inherit.T1] release: the raise, for the search; pairs with [inherit.T2] */
	atomic_fetch_or_explicit(&classes->tags[tag / 64], UINT64_C(1) << tag % 64, memory_order_release);
	/* [inherit.T3] full barrier: the tag is set before the search is due; pairs with [classes.W1] */
	rnl__mb_after_rmw();
	rnl__classes_expect(pool, 0);
}

/* Returns true if a class of a larger tier has jobs queued. */
static bool any_queued_after(struct rnl__classes *classes, unsigned tier)
{
	for (uint64_t bits = rnl__classes_used(classes) & ~UINT64_C(1); bits; bits &= bits - 1) {
		struct rnl_class *c = rnl__class_at(classes, (unsigned)__builtin_ctzll(bits));

		if (rnl__figure_read(&c->tier) > tier && rnl__class_has_queued(c))
			return true;
	}
	return false;
}

void rnl__classes_raise(struct rnl_barrier *b, unsigned slot, unsigned tier)
{
	struct rnl_pool *pool = b->pool;
	const unsigned round = rnl__inherit_wait(b, slot, tier);

	if (round & RNL__ROUND_AT_WORKERS && tier < RNL__TIER_OWN)
		rnl__inherit_raise_workers(pool, tier);
	if (round && any_queued_after(rnl__classes_of(pool), tier))
		ask_search(pool, rnl__inherit_tag_of(b));
}

/* Puts a job that may inherit a tier. */
static __attribute__((noinline)) void put_raised(struct rnl_pool *pool, struct rnl_class *c,
						 struct rnl_job *job, uint64_t expires_at)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	const uint32_t raises = rnl__inherit_raises(classes);
	const uint8_t tag = rnl__inherit_tag(job);

	put_job(pool, c, job, raised_key(c, job, key_of(c, job)), expires_at);
	/* A round was raised meanwhile, and its search may not have found the job. */
	if (rnl__inherit_raises(classes) != raises)
		ask_search(pool, tag);
}

void rnl__classes_put(struct rnl_job *job)
{
	struct rnl_pool *pool = job->pool;
	struct rnl_class *c = class_of_job(pool, job);
	/* relaxed: a cancel that comes later marks the slot, or a search sees the count */
	const bool cancelled = atomic_load_explicit(rnl__atomic(&job->phase), memory_order_relaxed) ==
				       RNL__JOB_CANCELLED || rnl__pool_has_cancelled(pool, job);

	/* A deferred job does not wait for its class until now. */
	if (job->flags & RNL__JOB_TIMED)
		job->link = (void *)(uintptr_t)rnl__now();
	if (!rnl__class_has_queued(c))
		rnl__classes_owe_nothing(rnl__classes_of(pool), c);
	if (rnl__inherit_may(job))
		put_raised(pool, c, job, cancelled ? 0 : rnl__timer_expiry(job));
	else
		put_job(pool, c, job, key_of(c, job), cancelled ? 0 : rnl__timer_expiry(job));
}

uint32_t rnl__classes_slot(const struct rnl_job *job)
{
	/* relaxed: [job.P2] has read the phase that the submit wrote last */
	const uint32_t index = atomic_load_explicit(rnl__atomic((uint8_t *)&job->class_index),
						    memory_order_relaxed);

	if (index & RNL__CLASS_NO_SLOT)
		return 0;
	/* relaxed: like the index */
	return (index & RNL__CLASS_INDEX) << 16 | atomic_load_explicit(rnl__atomic((uint16_t *)&job->class_slot),
						  memory_order_relaxed);
}

void rnl__classes_mark(struct rnl_pool *pool, uint32_t at, const struct rnl_job *job)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	struct rnl_class *c;
	bool known = false;

	if (!classes)
		return;
	c = at >> 16 && at >> 16 < RNL__CLASSES_NR ? rnl__class_at(classes, at >> 16) : NULL;
	for (unsigned i = 0; c && i < c->nr_queues && !known; i++)
		known = rnl__prioq_mark(rnl__class_queue(c, i), at & 0xffff, job);
	/* The job was submitted anew meanwhile, has no class, or is being started. */
	if (c && !known)
		/* relaxed: the cancel is counted later, with release */
		atomic_fetch_add_explicit(&classes->lost_marks, 1, memory_order_relaxed);
}

void rnl__classes_done(struct rnl_pool *pool, unsigned index)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	go_outside(classes, rnl__class_at(classes, index));
}

/* ---- maps and batchers --------------------------------------------------- */

bool rnl__class_enter(struct rnl_class *c, uint32_t id)
{
	return go_inside(rnl__classes_of(c->pool), c, id);
}

void rnl__class_leave(struct rnl_class *c)
{
	go_outside(rnl__classes_of(c->pool), c);
}

int rnl__class_enter_given(struct rnl_pool *pool, const char *call, struct rnl_class *c)
{
	if (c->pool == pool && rnl__class_enter(c, rnl__class_id(c)))
		return 0;
	return rnl__invalid(&pool->log, "%s: cls is of another pool, or has ended", call);
}

int rnl__class_keep(struct rnl_class *c, struct rnl_job *job)
{
	const int slot = claim_slot(c, job);

	if (slot < 0) {
		rnl__figure_add_any(&c->refused, 1);
		return -EAGAIN;
	}
	job->staff = (uint16_t)slot;
	job->class_id = rnl__class_id(c);
	job->flags |= RNL__JOB_CLASS;
	return 0;
}

void rnl__class_unkeep(struct rnl_class *c, const struct rnl_job *job)
{
	if (job->flags & RNL__JOB_CLASS)
		give_slot_back(c->pool, c, rnl__class_queue(c, queue_of(c, job)), job->staff);
}

/* ---- the timer thread ---------------------------------------------------- */

void rnl__classes_expect(struct rnl_pool *pool, uint64_t at)
{
	rnl__classes_lower(pool, &rnl__classes_of(pool)->due, at);
}

uint64_t rnl__classes_due(struct rnl_pool *pool)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	/* relaxed: the timer thread's full barrier orders them, see timer.h */
	return !classes ? RNL__NEVER :
			  rnl__smaller(atomic_load_explicit(&classes->due, memory_order_relaxed),
				       /* relaxed: like `due` */
				       atomic_load_explicit(&classes->wake_at, memory_order_relaxed));
}

bool rnl__classes_search_begin(struct rnl_pool *pool, struct rnl__class_search *s)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	const uint64_t due = rnl__figure_read(&classes->due), wake_at = rnl__figure_read(&classes->wake_at);

	if (wake_at <= s->now) {
		/* relaxed: the barrier below orders it */
		atomic_store_explicit(&classes->wake_at, RNL__NEVER, memory_order_relaxed);
		/* [classes.W2] full barrier: like [classes.W1]; pairs with [park.S1] */
		rnl__full_barrier();
		rnl__classes_wake(pool);
	}
	/* relaxed: a cancel that comes later is counted, and brings another search */
	if (atomic_exchange_explicit(&classes->lost_marks, 0, memory_order_relaxed))
		s->all = true;
	if (!s->all && !s->marked && due > s->now)
		return false;
	s->due = RNL__NEVER;
	s->class = 1;
	s->queue = s->slot = 0;
	/* relaxed: the barrier below orders it */
	atomic_store_explicit(&classes->due, RNL__NEVER, memory_order_relaxed);
	/*
	 * [classes.W1] full barrier: a put after the coming scan finds NEVER here, and sets its own
	 * time; pairs with [prioq.M2], [inherit.T3]
	 */
	rnl__full_barrier();
	rnl__inherit_take_tags(classes, s->tags);
	if (s->all)
		memset(s->tags, 0xff, sizeof(s->tags));
	return true;
}

/* Takes the next job of a queue that was cancelled or has expired, and puts others back, some raised. */
static struct rnl_job *search_class_queue(struct rnl_pool *pool, struct rnl_class *c,
				    struct rnl__class_search *s)
{
	struct rnl__prioq *q = rnl__class_queue(c, s->queue);
	struct rnl_job *job;
	uint64_t key;

	while ((job = rnl__prioq_scan(q, &s->slot, s->now, s->tags, &key, &s->due)) != NULL) {
		const uint32_t raises = rnl__inherit_raises(rnl__classes_of(pool));
		const uint8_t tag = rnl__inherit_tag(job);
		uint64_t expires_at = rnl__timer_expiry(job);

		if (!rnl__job_follows(job) && (expires_at <= s->now || s->cancelled(job))) {
			rnl__outside_leave(pool, RNL__CLASSED);
			give_slot_back(pool, c, q, s->slot - 1);
			return job;
		}
		put_job(pool, c, job, raised_key(c, job, key), expires_at);
		/* Its round was raised while the queue did not have it. */
		if (tag && rnl__inherit_raises(rnl__classes_of(pool)) != raises)
			ask_search(pool, tag);
	}
	return NULL;
}

struct rnl_job *rnl__classes_search(struct rnl_pool *pool, struct rnl__class_search *s)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	for (; s->class < RNL__CLASSES_NR; s->class++, s->queue = 0) {
		struct rnl_class *c = rnl__class_at(classes, s->class);

		if (!(rnl__classes_used(classes) >> s->class & 1))
			continue;
		for (; s->queue < c->nr_queues; s->queue++, s->slot = 0) {
			struct rnl_job *job = search_class_queue(pool, c, s);

			if (job)
				return job;
		}
	}
	rnl__classes_expect(pool, s->due);
	return NULL;
}
