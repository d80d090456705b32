/* SPDX-License-Identifier: MIT */
/* What a class has used, and whether it may start a job; class.h has the design. */
#include "config.h"

#include "class/class.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/sizes.h"
#include "sys/text.h"

#define SCALE 256u		/* the virtual time of a class of weight 1 advances as much per ns */
#define FLOOR_DEFAULT 10u	/* thousandths */
#define FAR (UINT64_C(1) << 56)	/* no class is as far ahead of another */
#define FLOOR_LAG_NS 10000000u	/* a class below its floor catches up on so much time at most */
#define RATE_LATE_NS 2000000u	/* what a timer may be late: then a rate holds on average */
#define NS 1000000000u
#define ERROR_MOST 1000.0f	/* a job that used almost nothing says as much of an estimate */

static void set_word(_Atomic uint32_t *word, uint32_t value)
{
	/* relaxed: the class is published when all is set */
	atomic_store_explicit(word, value, memory_order_relaxed);
}

void rnl__class_begin(struct rnl_class *c, const struct rnl_class_attr *attr)
{
	rnl__text_copy(c->name, sizeof(c->name), attr->name ? attr->name : "class");
	set_word(&c->tier, (uint32_t)(attr->priority + RNL__TIER_OWN));
	set_word(&c->weight, attr->weight ? attr->weight : 1);
	set_word(&c->order, attr->order);
	set_word(&c->flags, attr->flags);
	set_word(&c->floor, attr->floor_permille == RNL_CLASS_NO_FLOOR ? 0 :
		       attr->floor_permille ? attr->floor_permille : FLOOR_DEFAULT);
	set_word(&c->max_queued, attr->max_queued);
	set_word(&c->max_jobs, attr->max_jobs);
	rnl__figure_write(&c->max_ns, attr->max_device_ns);
	rnl__figure_write(&c->interval_ns, attr->per_second ? NS / attr->per_second : 0);
	rnl__figure_write(&c->burst_ns,
			  !attr->per_second ? 0 :
			  rnl__larger(RATE_LATE_NS, (uint64_t)NS / attr->per_second *
							    (attr->burst ? attr->burst - 1 : 0)));
	rnl__figure_write(&c->deadline_ns, attr->deadline_ns);
	rnl__figure_write(&c->used, 0);
	rnl__figure_write(&c->behind, true);
	rnl__figure_write(&c->floor_at, 0);
	rnl__figure_write(&c->rate_at, 0);
	rnl__figure_write(&c->accepted, 0);
	rnl__figure_write(&c->refused, 0);
	rnl__figure_write(&c->unadmitted, 0);
	rnl__figure_write(&c->done, 0);
	rnl__figure_write(&c->expired, 0);
	rnl__figure_write(&c->late, 0);
	rnl__figure_write(&c->device_ns, 0);
	rnl__figure_write(&c->error, 0);
	rnl__costs_init(&c->costs);
	rnl__hist_clear(&c->queue_wait);
}

bool rnl__class_may_start(struct rnl_class *c, uint64_t now, uint64_t *at)
{
	const uint64_t max_ns = rnl__figure_read(&c->max_ns);
	const uint32_t max_jobs = rnl__figure_read(&c->max_jobs);
	const uint64_t burst_ns = rnl__figure_read(&c->burst_ns);
	uint64_t rate_at = rnl__figure_read(&c->rate_at);

	if (max_jobs && rnl__figure_read(&c->under_way) >= max_jobs)
		return false;
	if (max_ns && rnl__figure_read(&c->under_way) &&
	    rnl__figure_read(&c->under_way_ns) + rnl__figure_read(&c->costs.upper) > max_ns)
		return false;
	if (rate_at > now + burst_ns) {
		*at = rnl__smaller(*at, rate_at - burst_ns);
		return false;
	}
	return true;
}

/* Returns true if a virtual time is earlier than another one; they may wrap. */
static bool is_before(uint64_t a, uint64_t b)
{
	return (int64_t)(a - b) < 0;
}

void rnl__class_compare(struct rnl_class *c, uint32_t tier, uint64_t now,
			struct rnl__class_choice *best, uint64_t *at)
{
	const struct rnl__class_choice it = {
		.class = c, .tier = tier, .used = rnl__figure_read(&c->used),
		.floored = rnl__figure_read(&c->floor) && rnl__figure_read(&c->floor_at) <= now,
	};
	bool first = !best->class || it.floored;

	if (best->class && it.floored == best->floored)
		first = it.tier != best->tier ? it.tier < best->tier : is_before(it.used, best->used);
	if (!first)
		return;
	if (rnl__class_may_start(c, now, at))
		*best = it;
	else if (!rnl__figure_read(&c->behind))
		rnl__figure_write(&c->behind, true);
}

static void end_one(struct rnl_class *c)
{
	/*
	 * [class.E1] full barrier: the job is no longer counted before the look for workers that
	 * sleep because of a limit; pairs with [park.S1]
	 */
	atomic_fetch_sub_explicit(&c->under_way, 1, memory_order_relaxed);
	rnl__mb_after_rmw();
}

/* Counts a job against the rate.  Returns false if it comes too early. */
static bool within_rate(struct rnl_class *c, uint64_t now, bool surely, struct rnl__class_start *start)
{
	const uint64_t interval_ns = rnl__figure_read(&c->interval_ns);
	const uint64_t burst_ns = rnl__figure_read(&c->burst_ns);

	*start = (struct rnl__class_start){ 0 };
	if (!interval_ns)
		return true;
	start->rate_before = rnl__peek(&c->rate_at);
	do {
		if (!surely && start->rate_before > now + burst_ns)
			return false;
		start->rate_after = rnl__larger(start->rate_before, now) + interval_ns;
		/* relaxed: one word has all of the rate */
	} while (!atomic_compare_exchange_weak_explicit(&c->rate_at, &start->rate_before,
							start->rate_after, memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* Takes a place of the rate back, unless another job has come since: then it is lost. */
static void leave_rate(struct rnl_class *c, const struct rnl__class_start *start)
{
	uint64_t old = start->rate_after;

	if (old)
		/* relaxed: one word has all of the rate */
		(void)atomic_compare_exchange_strong_explicit(&c->rate_at, &old, start->rate_before,
							      memory_order_relaxed, memory_order_relaxed);
}

bool rnl__class_start(struct rnl_class *c, uint64_t now, bool surely, struct rnl__class_start *start)
{
	const uint32_t max_jobs = surely ? 0 : rnl__figure_read(&c->max_jobs);
	uint32_t old = rnl__peek(&c->under_way);

	if (!within_rate(c, now, surely, start))
		return false;
	do {
		if (max_jobs && old >= max_jobs) {
			leave_rate(c, start);
			return false;
		}
		/* relaxed: a count that orders nothing; see [class.E1] for its end */
	} while (!atomic_compare_exchange_weak_explicit(&c->under_way, &old, old + 1,
							memory_order_relaxed, memory_order_relaxed));
	return true;
}

void rnl__class_take_back(struct rnl_class *c, const struct rnl__class_start *start)
{
	leave_rate(c, start);
	end_one(c);
}

/*
 * Moves a floor's time on by @step, from @now - FLOOR_LAG_NS if it is earlier, to @now + @most at
 * most.
 */
static void move_floor(struct rnl_class *c, uint64_t now, int64_t step, uint64_t most)
{
	const uint64_t least = now > FLOOR_LAG_NS ? now - FLOOR_LAG_NS : 0;
	uint64_t old = rnl__peek(&c->floor_at), at;

	do {
		at = rnl__larger(old, least) + (uint64_t)step;
		at = rnl__smaller(rnl__larger(at, least), now + most);
		/* relaxed: takers that read an old time choose as if a moment earlier */
	} while (!atomic_compare_exchange_weak_explicit(&c->floor_at, &old, at, memory_order_relaxed,
							memory_order_relaxed));
}

/* Returns the virtual time of device time. */
static uint64_t virtual_of(struct rnl_class *c, uint64_t ns)
{
	return ns * SCALE / rnl__figure_read(&c->weight);
}

/* Returns how long a floor's share of the devices' time takes to amount to @ns. */
static uint64_t floor_time(uint64_t ns, uint32_t floor, unsigned nr_devices)
{
	return ns * 1000 / floor / nr_devices;
}

uint16_t rnl__class_charge(struct rnl_class *c, const void *fn, uint64_t now, unsigned nr_devices)
{
	const uint16_t packed = rnl__cost_pack(rnl__cost_guess(&c->costs, fn));
	const uint64_t ns = rnl__cost_unpack(packed);
	const uint32_t floor = rnl__figure_read(&c->floor);

	rnl__figure_add_any(&c->under_way_ns, ns);
	rnl__figure_add_any(&c->used, virtual_of(c, ns));
	if (floor)
		move_floor(c, now, (int64_t)floor_time(ns, floor, nr_devices),
			   floor_time(ns, floor, nr_devices));
	return packed;
}

/* Learns how far a job's estimate was from what the job has used. */
static void note_error(struct rnl_class *c, uint64_t guess, uint64_t ns)
{
	const uint64_t nr = rnl__smaller(rnl__figure_read(&c->done), RNL__COST_JOBS);
	const float far = (float)(guess > ns ? guess - ns : ns - guess) / (float)ns;

	(void)rnl__cost_mean(&c->error, far < ERROR_MOST ? far : ERROR_MOST, (unsigned)nr);
}

void rnl__class_end(struct rnl_class *c, const void *fn, uint16_t charged, uint64_t ns, bool ran,
		    uint64_t now, unsigned nr_devices)
{
	const uint64_t guess = rnl__cost_unpack(charged);
	const uint32_t floor = rnl__figure_read(&c->floor);

	if (ran) {
		rnl__cost_note(&c->costs, fn, ns);
		rnl__figure_add_any(&c->done, 1);
		rnl__figure_add_any(&c->device_ns, ns);
		/* The first jobs of a class have no estimate. */
		if (guess && ns)
			note_error(c, guess, ns);
	}
	/* The difference to the estimate, which may be negative. */
	rnl__figure_add_any(&c->used, virtual_of(c, ns) - virtual_of(c, guess));
	if (floor && ns != guess)
		move_floor(c, now, (int64_t)floor_time(ns, floor, nr_devices) -
					   (int64_t)floor_time(guess, floor, nr_devices),
			   floor_time(ns, floor, nr_devices));
	rnl__figure_add_any(&c->under_way_ns, -guess);
	end_one(c);
}

void rnl__class_least(struct rnl_class *c, uint64_t *least, bool *any)
{
	const uint64_t used = rnl__figure_read(&c->used);

	if (!*any || is_before(used, *least))
		*least = used;
	*any = true;
}

void rnl__class_wakes(struct rnl_class *c, uint64_t least)
{
	uint64_t old = rnl__peek(&c->used);

	/* A class that seems to be far ahead has been idle until the time wrapped. */
	while (old - least >= FAR &&
	       /* relaxed: takers that read an old time choose as if a moment earlier */
	       !atomic_compare_exchange_weak_explicit(&c->used, &old, least, memory_order_relaxed,
						      memory_order_relaxed))
		;
}
