/* SPDX-License-Identifier: MIT */
/*
 * The life of classes: creating and ending.
 *
 * DESIGN
 *	A class has a place in the pool's table.  Its memory stays until the pool's end, and serves
 *	the next class in that place, because a taker that was preempted may still read it.  So a
 *	creation sets words by atomic stores, and replaces the queues only if they are too small.
 *	`inside` counts the class's jobs, and has the bit CLOSED: a submit is counted, or refused.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "pool/classes.h"
#include "sys/abi.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"
#include "sys/text.h"
#include "sys/thread.h"
#include "worker/staff.h"

#define CREATE "rnl_class_create()"
#define QUEUED_DEFAULT 1024u

struct rnl__old_queues {
	struct rnl__old_queues *next;
	struct rnl__prioq *queues;
};

static unsigned nr_queues(const struct rnl_pool *pool)
{
	return pool->devices.nr > 1 ? 1 + pool->devices.nr : 1;
}

static void free_queues(struct rnl__prioq *queues, unsigned nr)
{
	for (unsigned i = 0; queues && i < nr; i++)
		rnl__prioq_fini(&queues[i]);
	free(queues);
}

static struct rnl_class *make_class(struct rnl_pool *pool, unsigned index)
{
	struct rnl_class *c = aligned_alloc(RNL__CACHE_LINE, sizeof(*c));

	if (!c)
		return NULL;
	*c = (struct rnl_class){ .pool = pool, .index = index, .nr_queues = nr_queues(pool) };
	atomic_init(&c->inside, RNL__CLASS_CLOSED);
	rnl__eventcount_init(&c->space);
	return c;
}

static void free_table(struct rnl_pool *pool, struct rnl__classes *classes)
{
	struct rnl__old_queues *old, *next;

	for (old = classes->old; old; old = next) {
		next = old->next;
		free_queues(old->queues, nr_queues(pool));
		free(old);
	}
	for (unsigned i = 0; i < RNL__CLASSES_NR; i++) {
		struct rnl_class *c = rnl__class_at(classes, i);

		if (c)
			free_queues(rnl__class_queues(c), nr_queues(pool));
		free(c);
	}
	for (unsigned i = 0; i < pool->devices.nr; i++)
		rnl__cut_fini(&classes->cuts[i]);
	pthread_mutex_destroy(&classes->lock);
	free(classes);
}

void rnl__classes_free(struct rnl_pool *pool)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	if (classes)
		free_table(pool, classes);
}

/* Returns the pool's table, which the first call makes; NULL: there is no memory. */
static struct rnl__classes *make_table(struct rnl_pool *pool)
{
	const struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct rnl__classes *classes = rnl__classes_of(pool), *none = NULL;
	struct rnl_class *own;

	if (classes)
		return classes;
	own = make_class(pool, 0);
	classes = own ? aligned_alloc(RNL__CACHE_LINE, sizeof(*classes)) : NULL;
	if (!classes) {
		free(own);
		return NULL;
	}
	*classes = (struct rnl__classes){ .list[0] = own };
	rnl__class_begin(own, &attr);
	rnl__text_copy(own->name, sizeof(own->name), "pool");
	rnl__figure_write(&own->behind, true);
	rnl__figure_write(&classes->used, 1);
	rnl__figure_write(&classes->due, RNL__NEVER);
	rnl__figure_write(&classes->wake_at, RNL__NEVER);
	rnl__eventcount_init(&classes->ended);
	pthread_mutex_init(&classes->lock, NULL);
	for (unsigned i = 0; i < pool->devices.nr; i++)
		rnl__cut_init(&classes->cuts[i]);
	/* [classes.C2] acq_rel: the table; pairs with [classes.C1].  One of two first calls wins. */
	if (atomic_compare_exchange_strong_explicit(&pool->classes, &none, classes, memory_order_acq_rel,
						    memory_order_acquire))
		return classes;
	free_table(pool, classes);
	return none;
}

/* ---- creating ------------------------------------------------------------ */

/* Checks what is said of workers of the class's own. */
static int check_workers(const struct rnl_pool *pool, const struct rnl_class_attr *attr)
{
	const struct rnl__log *log = &pool->log;

	if (attr->nr_workers && !pool->nr_class_workers)
		return rnl__invalid(log, CREATE ": nr_workers is %u, and the pool has no workers for classes: "
				    "set nr_class_workers of its attributes", attr->nr_workers);
	if (attr->nr_workers > pool->nr_class_workers)
		return rnl__invalid(log, CREATE ": nr_workers is %u; it must be 0 to %u, the pool's "
				    "nr_class_workers", attr->nr_workers, pool->nr_class_workers);
	if (attr->nr_workers && attr->nr_workers < pool->devices.nr)
		return rnl__invalid(log, CREATE ": nr_workers is %u, the pool has %u devices, and each needs "
				    "a worker", attr->nr_workers, pool->devices.nr);
	if (attr->flags & RNL_CLASS_KEPT_SMS && !pool->sms[0])
		return rnl__invalid(log, CREATE ": flags have RNL_CLASS_KEPT_SMS, and the pool keeps no SMs: "
				    "set kept_sms of its attributes");
	if (!attr->nr_workers &&
	    (attr->flags & RNL_CLASS_KEPT_SMS || attr->stream_priority || attr->spin_us))
		return rnl__invalid(log, CREATE ": %s, and nr_workers is 0: only workers of the class's own "
				    "have that", attr->spin_us ? "spin_us is set" : attr->stream_priority ?
				    "stream_priority is set" : "flags have RNL_CLASS_KEPT_SMS");
	return 0;
}

static int check_attr(const struct rnl_pool *pool, struct rnl_class_attr *attr,
		      const struct rnl_class_attr *user_attr)
{
	const struct rnl__log *log = &pool->log;
	int ret = rnl__copy_in(attr, sizeof(*attr), user_attr, RNL__FIRST_CLASS_ATTR);

	if (ret)
		return rnl__bad_struct(log, CREATE, "the attributes", user_attr, ret);
	if (!user_attr)
		*attr = (struct rnl_class_attr)RNL_CLASS_ATTR_INIT;
	if (!attr->max_queued)
		attr->max_queued = QUEUED_DEFAULT;
	const struct rnl__range ranges[] = {
		{ "weight", attr->weight, 0, 10000 },
		{ "floor_permille", attr->floor_permille == RNL_CLASS_NO_FLOOR ? 0 : attr->floor_permille,
		  0, 1000 },
		{ "order", attr->order, 0, RNL_CLASS_DEADLINE },
		{ "flags", attr->flags, 0, RNL_CLASS_LATE | RNL_CLASS_KEPT_SMS | RNL_CLASS_ADMIT },
		{ "max_queued", attr->max_queued, 1, RNL__PRIOQ_MAX },
		{ "deadline_ns", attr->deadline_ns, 0, INT64_MAX },
		{ "per_second", attr->per_second, 0, 1000000000 },
		{ "spin_us", attr->spin_us, 0, 1000000 },
	};

	if (attr->burst && !attr->per_second)
		return rnl__invalid(log, CREATE ": burst is %u, and per_second is 0", attr->burst);
	if (attr->priority < -RNL__TIER_OWN || attr->priority >= (int)RNL__TIERS - RNL__TIER_OWN)
		return rnl__invalid(log, CREATE ": priority is %d; it must be %d to %d", attr->priority,
				    -RNL__TIER_OWN, (int)RNL__TIERS - RNL__TIER_OWN - 1);
	if (rnl__check_ranges(log, CREATE, ranges, sizeof(ranges) / sizeof(ranges[0])))
		return -EINVAL;
	return check_workers(pool, attr);
}

/* Gives the class queues of @nr slots: those that it has, if they are large enough, or new ones. */
static int give_queues(struct rnl__classes *classes, struct rnl_class *c, unsigned nr)
{
	struct rnl__prioq *old = rnl__class_queues(c), *queues;
	struct rnl__old_queues *keep = NULL;
	unsigned slots = 64;
	int ret = 0;

	while (slots < nr)
		slots *= 2;
	if (!old || old->nr_slots < nr) {
		if (old && !(keep = malloc(sizeof(*keep))))
			return -ENOMEM;
		queues = aligned_alloc(RNL__CACHE_LINE, c->nr_queues * sizeof(*queues));
		for (unsigned i = 0; queues && i < c->nr_queues; i++)
			ret |= rnl__prioq_init(&queues[i], slots);
		if (!queues || ret) {
			free_queues(queues, c->nr_queues);
			free(keep);
			return -ENOMEM;
		}
		if (keep) {
			*keep = (struct rnl__old_queues){ classes->old, old };
			classes->old = keep;
		}
		/* [class.Q2] release: the queues as they were made; pairs with [class.Q1] */
		atomic_store_explicit(&c->queues, queues, memory_order_release);
	}
	for (unsigned i = 0; i < c->nr_queues; i++)
		rnl__prioq_bound(rnl__class_queue(c, i), nr);
	return 0;
}

/* Returns an id that no other class of the process has; its lowest bits are the place. */
static uint32_t next_id(unsigned index)
{
	static _Atomic uint32_t last;

	/* relaxed: each value is used once */
	return (atomic_fetch_add_explicit(&last, 1, memory_order_relaxed) + 1) << RNL__CLASS_ID_BITS | index;
}

/* Creates a class in the first free place.  @workers: its own. */
static int create_class(struct rnl__classes *classes, struct rnl_pool *pool,
			const struct rnl_class_attr *attr, uint64_t workers, struct rnl_class **classp)
{
	unsigned i = 1;
	struct rnl_class *c, *made = NULL;
	int ret;

	while (i < RNL__CLASSES_NR && rnl__figure_read(&classes->used) >> i & 1)
		i++;
	if (i == RNL__CLASSES_NR)
		return -EAGAIN;
	c = rnl__class_at(classes, i);
	if (!c)
		c = made = make_class(pool, i);
	ret = c ? give_queues(classes, c, attr->max_queued) : -ENOMEM;
	if (ret) {
		free(made);
		return ret;
	}
	/* Of the class that had this place. */
	classes->ended_ns += rnl__figure_read(&c->device_ns);
	rnl__class_begin(c, attr);
	rnl__figure_write(&c->workers, workers);
	rnl__staff_assign(pool, workers, i);
	c->all_before_ns = rnl__classes_device_ns(classes);
	/* [classes.L2] release: the class and its queues; pairs with [classes.L1] */
	atomic_store_explicit(&classes->list[i], c, memory_order_release);
	rnl__figure_write(&c->id, next_id(i));
	/* [classes.U2] release: the class, for takers; pairs with [classes.U1] */
	atomic_fetch_or_explicit(&classes->used, UINT64_C(1) << i, memory_order_release);
	/* [classes.I2] release: the class, for submits; pairs with [classes.I1] */
	atomic_fetch_and_explicit(&c->inside, ~RNL__CLASS_CLOSED, memory_order_release);
	*classp = c;
	return 0;
}

/* Starts the workers that the class is to have as its own. */
static int get_workers(struct rnl_pool *pool, const struct rnl_class_attr *attr, uint64_t *workers)
{
	const struct rnl__own like = {
		.spin_ns = (uint64_t)attr->spin_us * 1000,
		.stream = { .level = attr->stream_priority, .kept = attr->flags & RNL_CLASS_KEPT_SMS },
	};

	if (!attr->nr_workers)
		return 0;
	if (rnl__pool_worker(pool))
		return rnl__pool_waits_for_itself(pool, CREATE ", for workers of the class's own");
	return rnl__staff_lend(pool, attr->nr_workers, &like, workers);
}

int rnl_class_create(struct rnl_class **classp, struct rnl_pool *pool,
		     const struct rnl_class_attr *user_attr)
{
	RNL__UNCANCELLED();
	struct rnl_class_attr attr;
	struct rnl__classes *classes;
	uint64_t workers = 0;
	int ret = rnl__pool_given(pool, CREATE);

	if (ret)
		return ret;
	if (!classp)
		return rnl__invalid(&pool->log, CREATE ": classp is NULL");
	ret = check_attr(pool, &attr, user_attr);
	if (!ret && rnl__pool_closed(pool))
		ret = -ESHUTDOWN;
	if (ret)
		return ret;
	classes = make_table(pool);
	if (!classes)
		return -ENOMEM;
	ret = get_workers(pool, &attr, &workers);
	if (ret)
		return ret;
	pthread_mutex_lock(&classes->lock);
	ret = create_class(classes, pool, &attr, workers, classp);
	pthread_mutex_unlock(&classes->lock);
	if (ret)
		rnl__staff_take_back(pool, workers);
	return ret;
}

/* ---- ending -------------------------------------------------------------- */

static bool class_is_empty(struct rnl_class *c)
{
	/* [classes.I4] acquire: the jobs are their owners' again; pairs with [classes.I3] */
	return atomic_load_explicit(&c->inside, memory_order_acquire) == RNL__CLASS_CLOSED;
}

void rnl_class_destroy(struct rnl_class *c)
{
	RNL__UNCANCELLED();
	struct rnl__classes *classes;

	if (!c || rnl__pool_check(c->pool))
		return;
	classes = rnl__classes_of(c->pool);
	/* relaxed: on one word with the submits' counts: a submit is counted, or refused */
	atomic_fetch_or_explicit(&c->inside, RNL__CLASS_CLOSED, memory_order_relaxed);
	/* [classes.S2] full barrier: closed before the look for submits; pairs with [eventcount.L2] */
	rnl__mb_after_rmw();
	rnl__eventcount_wake(&c->space);
	rnl__pool_wake_batches(c->pool);
	if (rnl__pool_worker(c->pool)) {
		rnl__pool_log(c->pool, RNL_LOG_ERROR, "rnl_class_destroy() on a worker of the pool: class "
			      "\"%s\" takes no more jobs, and stays until the pool's end", c->name);
		return;
	}
	for (;;) {
		uint32_t listened = rnl__eventcount_prepare(&classes->ended);

		if (class_is_empty(c))
			break;
		(void)rnl__eventcount_wait(&classes->ended, listened, RNL__NEVER);
	}
	/* Before another class has the place: they would take its jobs. */
	rnl__staff_take_back(c->pool, rnl__class_workers(c));
	pthread_mutex_lock(&classes->lock);
	/* relaxed: a taker that still sees the class finds it empty */
	atomic_fetch_and_explicit(&classes->used, ~(UINT64_C(1) << c->index), memory_order_relaxed);
	pthread_mutex_unlock(&classes->lock);
}
