/* SPDX-License-Identifier: MIT */
/*
 * Which jobs a class admits, and how long a job would wait: what a pool's queues say of it.
 *
 * DESIGN
 *	class/predict.h predicts from work that this file reads: of the job's class, of classes that
 *	workers choose first, and of those of its tier.  It is the sum of the estimates that are
 *	stored with the slots.  The workers' own queues have none: their jobs count as the mean of
 *	those before.
 *	Jobs placed on a device are that device's work.  To the others of a pool they are a part of
 *	all devices' work.
 *	Nothing is reserved: submits at one moment do not see each other, and may each be admitted.
 *	Nor does a submit see a job that a worker has just taken and not charged yet.
 *	Floors are left out: they are small, and go both ways.
 */
#include "config.h"

#include <errno.h>

#include "class/predict.h"
#include "pool/classes.h"
#include "stream/job_flags.h"
#include "sys/clock.h"

#define ANY_DEVICE UINT32_MAX

/* Returns what each ns of a queue's work is of all devices' work, for a job placed on @device. */
static unsigned part_of_queue(const struct rnl_class *c, unsigned queue, unsigned device)
{
	if (!queue || device == ANY_DEVICE)
		return 1;
	return queue - 1 == device ? c->nr_queues - 1 : 0;
}

/* Returns a slot's estimate, which was rounded down by less than a thousandth. */
static uint64_t estimate_of(uint16_t cost)
{
	const uint64_t ns = rnl__cost_unpack(cost);

	return ns + ns / 1024;
}

/* Returns the deadline that a key has; a raised job goes before all others. */
static uint64_t deadline_of_key(uint64_t key, uint64_t now)
{
	if (key < RNL__CLASS_KEY_DEADLINE)
		return now;
	return key < RNL__CLASS_KEY_HALF - 1 ?
		       (key - RNL__CLASS_KEY_DEADLINE) << RNL__CLASS_DEADLINE_SHIFT : RNL__NEVER;
}

/* Returns the estimates of the jobs that are queued in the class.  @p: also counts each; or NULL. */
static uint64_t work_of(struct rnl_class *c, unsigned device, struct rnl__predict *p)
{
	uint64_t key, sum = 0;
	uint16_t cost;

	for (unsigned i = 0; i < c->nr_queues; i++) {
		const unsigned part = part_of_queue(c, i, device);
		unsigned at = 0;

		if (!part || !rnl__prioq_holds(rnl__class_queue(c, i)))
			continue;
		while (rnl__prioq_read(rnl__class_queue(c, i), &at, &key, &cost)) {
			const uint64_t ns = part * estimate_of(cost);

			if (p)
				rnl__predict_queued(p, deadline_of_key(key, p->now), ns);
			sum += ns;
		}
	}
	return sum;
}

/* Returns the work in the workers' queues. */
static uint64_t work_of_own(struct rnl_pool *pool, struct rnl_class *own)
{
	const uint64_t done = rnl__figure_read(&own->done);

	return done ? rnl__pool_queued(pool) * (rnl__figure_read(&own->device_ns) / done) : 0;
}

static void read_other(struct rnl__predict *p, struct rnl_pool *pool, struct rnl_class *c,
		       struct rnl_class *other, unsigned device)
{
	const unsigned rank = rnl__class_rank(c), its = rnl__class_rank(other);
	uint64_t ns;

	if (its > rank)
		return;
	ns = other->index ? work_of(other, device, NULL) : work_of_own(pool, other);
	if (its < rank)
		p->before_ns += ns;
	else if (ns)
		rnl__predict_other(p, ns, rnl__figure_read(&other->weight));
}

/* Returns how many workers are busy: the class's own, or all, if other classes have work for them. */
static unsigned nr_busy(struct rnl_pool *pool, const struct rnl_class *c, const struct rnl__predict *p)
{
	struct rnl__classes *classes = rnl__classes_of(pool);
	unsigned nr = 0;

	if (rnl__class_workers(c))
		return (unsigned)__builtin_popcountll(rnl__class_workers(c));
	if (p->nr_others || p->before_ns)
		return rnl__pool_staff(pool).nr;
	for (unsigned i = 0; i < pool->devices.nr; i++)
		nr += rnl__share_clock_busy(&classes->clocks[i]);
	return nr;
}

static void read_others(struct rnl__predict *p, struct rnl_pool *pool, struct rnl_class *c, unsigned device)
{
	struct rnl__classes *classes = rnl__classes_of(pool);

	for (uint64_t bits = rnl__classes_used(classes); bits; bits &= bits - 1) {
		struct rnl_class *other = rnl__class_at(classes, (unsigned)__builtin_ctzll(bits));

		p->under_way_ns += rnl__figure_read(&other->under_way_ns);
		/* Workers of its own wait for no other class. */
		if (other != c && !rnl__class_workers(c))
			read_other(p, pool, c, other, device);
	}
	p->nr_busy = nr_busy(pool, c, p);
}

/* Reads all that goes before a job.  @deadline: RNL__NEVER: none. */
static void predict(struct rnl__predict *p, struct rnl_class *c, uint64_t now, uint64_t deadline,
		    unsigned device)
{
	p->now = now;
	p->deadline = deadline;
	p->nr_devices = c->pool->devices.nr;
	p->under_way_ns = p->before_ns = 0;
	p->stretch = 1;
	rnl__predict_begin(p, c);
	read_others(p, c->pool, c, device);
	(void)work_of(c, device, p);
}

static uint64_t deadline_in(uint64_t now, uint64_t ns)
{
	return ns < RNL__NEVER - now ? now + ns : RNL__NEVER;
}

bool rnl__classes_admit(struct rnl_class *c, const struct rnl_job *job, uint64_t deadline_ns)
{
	const void *fn = (const void *)(uintptr_t)job->fn;
	const bool placed = job->flags & RNL__JOB_PLACED;
	const unsigned device = placed ? rnl__job_device(job) : 0;
	const uint64_t now = rnl__now(), known = rnl__cost_known(&c->costs, fn);
	const uint64_t elapsed =
		rnl__cost_elapsed(&c->costs, &rnl__classes_of(c->pool)->clocks[device], fn);
	struct rnl__predict p;

	predict(&p, c, now, deadline_in(now, deadline_ns), placed ? device : ANY_DEVICE);
	if (known)
		p.stretch = (double)elapsed / (double)known;
	if (rnl__predict_fits(&p, known, rnl__cost_guess(&c->costs, fn)))
		return true;
	/* Even at once it would be late: a later one is tried. */
	if (elapsed > deadline_ns)
		rnl__cost_doubt(&c->costs, fn);
	rnl__figure_add_any(&c->unadmitted, 1);
	return false;
}

int rnl_class_wait(struct rnl_class *c, uint64_t *wait_ns)
{
	int ret = c && wait_ns ? rnl__pool_check(c->pool) :
				 rnl__invalid(NULL, "rnl_class_wait(): %s is NULL", c ? "wait_ns" : "cls");
	struct rnl__predict p;
	uint64_t now, deadline_ns;

	if (ret)
		return ret;
	now = rnl__now();
	deadline_ns = rnl__figure_read(&c->deadline_ns);
	predict(&p, c, now, deadline_ns ? deadline_in(now, deadline_ns) : RNL__NEVER, ANY_DEVICE);
	*wait_ns = rnl__predict_start(&p) - now;
	return 0;
}
