/* SPDX-License-Identifier: MIT */
/* The classes of a round's pool, and a job's part in one. classes.h has the DESIGN. */
#include "classes.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>

#include <runnel/class.h>

#define RECORDS_MAX 256
#define IN_A_WORD 64u		/* slots of which a submit sees at one time that all are taken */
#define NR_SEATS_MAX 2

struct class {
	struct round *round;
	unsigned number;
	struct rnl_class *cls;
	struct rnl_class_attr attr;
	_Atomic unsigned ends;		/* its destroy may have begun */
	_Atomic bool over;		/* its destroy has returned */
	_Atomic unsigned pins;
	/* Jobs; by add() and now() only. */
	_Atomic uint64_t drawn, refused, gone;	/* gone: refused or ended */
	_Atomic uint64_t done, timed_out, unadmitted;
	_Atomic uint64_t running, limited;	/* limited: running, and counted by max_jobs */
	_Atomic uint64_t ran_on;	/* a bit for each of its own workers that ran a job */
};

struct classes {
	uint64_t begun;			/* ns */
	unsigned nr_places, nr_seats;
	_Atomic unsigned nr_seated, nr_records;
	_Atomic(struct class *) places[RNL_CLASSES_MAX];
	_Atomic(struct class *) has[OWN_MAX]; /* by worker: the class whose job ran there last */
	struct class records[RECORDS_MAX];
};

static uint64_t add(_Atomic uint64_t *count, int64_t nr)
{
	return atomic_fetch_add_explicit(count, (uint64_t)nr, memory_order_relaxed);
}

/* Returns the last value: a load may return an older one. */
static uint64_t now(_Atomic uint64_t *count)
{
	return add(count, 0);
}

/* ---- a job's class --------------------------------------------------------------- */

/* Returns a drawn class, pinned, or NULL. */
static struct class *pin(struct classes *all, enum classing which, uint64_t *random)
{
	struct class *c = all && which != NO_CLASS && draw(random, 4) ?
				  all->places[draw(random, all->nr_places)] : NULL;

	if (!c || (which == NO_DEADLINE && c->attr.deadline_ns))
		return NULL;
	c->pins++;
	if (!c->ends)
		return c;
	c->pins--;
	return NULL;
}

static void take(struct classed *of, struct class *c)
{
	of->class = c;
	of->gone = now(&c->gone);
	add(&c->drawn, 1);
}

static void give_back(const struct classed *of)
{
	add(&of->class->refused, 1);
	add(&of->class->gone, 1);
}

void class_draw(struct round *r, struct classed *of, struct rnl_job *job, enum classing which,
		uint64_t *random)
{
	struct class *c = pin(r->classes, which, random);

	*of = (struct classed){ .class = NULL };
	if (rnl_job_set_class(job, c ? c->cls : NULL))
		tally_wrong(UNDOCUMENTED, "a job that is done could not be given a class");
	if (!c)
		return;
	take(of, c);
	c->pins--;
}

void class_follow(struct classed *of, const struct classed *first)
{
	if (of->class)
		give_back(of);
	*of = (struct classed){ .follows = true };
	if (first->class)
		take(of, first->class);
}

/* Returns how many other jobs may have had a slot at some time in the submit. */
static uint64_t others(const struct classed *of)
{
	return now(&of->class->drawn) - of->gone - 1;
}

bool class_refused(const struct classed *of, int ret, bool only)
{
	const bool full = of->class && of->queued && (ret == -EAGAIN || ret == -ETIMEDOUT);
	struct class *c = of->class;
	bool ended, late;

	if (!c)
		return false;
	if (only && full && c->attr.max_queued <= IN_A_WORD && others(of) < c->attr.max_queued)
		tally_wrong(CLASS_WRONG, "a submit returned %d, and class %u of %u slots has %"
			    PRIu64 " other jobs", ret, c->number, c->attr.max_queued, others(of));
	/* Not a load, which may return an older value. */
	ended = ret == -EINVAL && atomic_fetch_or(&c->ends, 0);
	late = ret == -ETIME && c->attr.flags & RNL_CLASS_ADMIT;
	if (late && !of->timed && !c->attr.deadline_ns)
		tally_wrong(CLASS_WRONG, "class %u has refused a job without a deadline", c->number);
	add(&c->unadmitted, late);
	tally_add(NR_FULL, only && full);
	tally_add(NR_UNCLASSED, ended);
	tally_add(NR_UNADMITTED, late);
	give_back(of);
	return ended || late || (full && ret == -EAGAIN);
}

void class_has_none(const struct round *r)
{
	if (rnl_worker().index < (int)r->nr_class_workers)
		tally_wrong(CLASS_WRONG, "a job without a class ran on worker %d, and %u are for "
			    "classes", rnl_worker().index, r->nr_class_workers);
}

/* Checks a worker for classes: no other class has it, and the class has no more than it should. */
static void check_own(struct class *c, unsigned worker)
{
	const uint64_t bit = UINT64_C(1) << worker;
	struct class *before = atomic_exchange_explicit(&c->round->classes->has[worker], c,
							memory_order_relaxed);
	uint64_t bits = atomic_fetch_or_explicit(&c->ran_on, bit, memory_order_relaxed) | bit;

	if (before && before != c && !atomic_load_explicit(&before->ends, memory_order_relaxed))
		tally_wrong(CLASS_WRONG, "worker %u ran a job of class %u, and is class %u's", worker,
			    c->number, before->number);
	if (64u - (unsigned)__builtin_clzll(bits) - (unsigned)__builtin_ctzll(bits) >
	    c->attr.nr_workers)
		tally_wrong(CLASS_WRONG, "class %u of %u workers has run on %#" PRIx64, c->number,
			    c->attr.nr_workers, bits);
	tally_add(NR_OWN, 1);
}

static void check_worker(struct class *c)
{
	const unsigned worker = (unsigned)rnl_worker().index, nr = c->round->nr_class_workers;

	if ((worker < nr) != (c->attr.nr_workers != 0))
		tally_wrong(CLASS_WRONG, "a job of class %u of %u workers ran on worker %u, and %u are "
			    "for classes", c->number, c->attr.nr_workers, worker, nr);
	else if (worker < nr)
		check_own(c, worker);
}

void class_runs(const struct classed *of)
{
	struct class *c = of->class;
	uint64_t limited;

	if (!c)
		return;
	add(&c->running, 1);
	if (c->over)
		tally_wrong(CLASS_WRONG, "a job ran after the end of class %u", c->number);
	if (!of->queued)
		return;
	check_worker(c);
	limited = add(&c->limited, 1);
	if (c->attr.max_jobs && limited >= c->attr.max_jobs && !c->round->failing)
		tally_wrong(CLASS_WRONG, "%" PRIu64 " jobs of class %u run, and it may have %u",
			    limited + 1, c->number, c->attr.max_jobs);
}

void class_ran(const struct classed *of)
{
	if (!of->class)
		return;
	if (of->queued)
		add(&of->class->limited, -1);
	add(&of->class->running, -1);
}

void class_ended(const struct classed *of, bool ran, int result)
{
	struct class *c = of->class;

	if (!c)
		return;
	add(&c->done, ran);
	add(&c->timed_out, !ran && result == -ETIMEDOUT);
	add(&c->gone, 1);
	tally_add(NR_CLASSED, 1);
}

int64_t class_deadline(const struct classed *of, int64_t own)
{
	return own < 0 && of->class && !of->follows && of->class->attr.deadline_ns ?
		       (int64_t)of->class->attr.deadline_ns : own;
}

bool class_is_hasty(const struct classed *of)
{
	return of->class && !(of->class->attr.flags & RNL_CLASS_LATE);
}

int class_number(const struct classed *of)
{
	return of->class ? (int)of->class->number : -1;
}

/* ---- creating ------------------------------------------------------------------------ */

static void draw_own(const struct round *r, struct rnl_class_attr *attr, uint64_t *random)
{
	attr->nr_workers = r->nr_devices + draw(random, r->nr_class_workers - r->nr_devices + 1);
	attr->stream_priority = draw(random, 2) ? 0 : draw(random, 8);
	attr->spin_us = draw(random, 2) ? 0 : draw(random, 2000);
}

static void draw_attr(const struct round *r, struct rnl_class_attr *attr, uint64_t *random)
{
	static const uint32_t floors[] = { 0, 0, 1, 300, 1000, RNL_CLASS_NO_FLOOR };
	static const uint32_t slots[] = { 0, 64, 100, 3000 };

	attr->priority = draw(random, 2) ? 0 : (int)draw(random, 8) - 4;
	attr->weight = draw(random, 2) ? 0 : 1 + draw(random, draw(random, 2) ? 8 : 10000);
	attr->floor_permille = floors[draw(random, COUNT(floors))];
	attr->name = draw(random, 2) ? NULL : "a class whose name is too long to be kept";
	attr->order = draw(random, 2) ? RNL_CLASS_FIFO : RNL_CLASS_DEADLINE;
	attr->flags = draw(random, 2) ? RNL_CLASS_LATE : 0;
	if (r->nr_class_workers && draw(random, 2))
		draw_own(r, attr, random);
	if (!draw(random, 3))
		attr->flags |= RNL_CLASS_ADMIT;
	attr->max_queued = draw(random, 2) ? 1 + draw(random, 12) :
					     slots[draw(random, COUNT(slots))];
	attr->max_jobs = draw(random, 3) ? 0 : 1 + draw(random, 4);
	attr->max_device_ns = draw(random, 4) ? 0 : 1 + draw(random, 1000000);
	attr->deadline_ns = draw(random, attr->flags & RNL_CLASS_ADMIT ? 2 : 8) ?
				    0 : 50000 + draw(random, 5000000);
	/* A thousand jobs take 50 ms at most. */
	attr->per_second = draw(random, 4) ? 0 : 20000 + draw(random, 1000000);
	attr->burst = attr->per_second ? draw(random, 100) : 0;
}

static void create(struct round *r, unsigned place, uint64_t *random)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct classes *all = r->classes;
	struct rnl_class *cls = NULL;
	struct class *c;
	unsigned number;

	draw_attr(r, &attr, random);
	if (said(r, rnl_class_create(&cls, r->pool, &attr),
		 MAY_SHUT | MAY_LACK | (attr.nr_workers ? MAY_AGAIN : 0),
		 "rnl_class_create"))
		return;
	number = all->nr_records++;
	c = &all->records[number];
	c->round = r;
	c->number = number;
	c->cls = cls;
	c->attr = attr;
	c->attr.max_queued = attr.max_queued ? attr.max_queued : 1024;
	all->places[place] = c;
	tally_add(NR_CLASSES, 1);
}

/* ---- figures ------------------------------------------------------------------------- */

static bool read_stats(struct class *c, struct rnl_class_stats *stats)
{
	*stats = (struct rnl_class_stats)RNL_CLASS_STATS_INIT;
	return !said(c->round, rnl_class_read_stats(c->cls, stats), 0, "rnl_class_read_stats");
}

/* Checks a class's figures while it has jobs. Only the caller ends the class. */
static void check_now(struct class *c)
{
	const unsigned nr = c->round->nr_devices, nr_queues = nr > 1 ? 1 + nr : 1;
	struct rnl_class_stats before, after;

	if (!read_stats(c, &before) || !read_stats(c, &after))
		return;
	if (before.done + before.expired + before.late > after.accepted ||
	    after.queued > (uint64_t)nr_queues * c->attr.max_queued ||
	    (after.late && c->attr.flags & RNL_CLASS_LATE))
		tally_wrong(CLASS_WRONG, "class %u of %u slots: %" PRIu64 " done, %" PRIu64
			    " expired, then %" PRIu64 " accepted, %u queued, %" PRIu64 " late",
			    c->number, c->attr.max_queued, before.done, before.expired,
			    after.accepted, after.queued, after.late);
}

/* Checks a class's figures when all jobs have ended. Returns the device time that it has used. */
static uint64_t check_drained(struct class *c)
{
	const uint64_t accepted = now(&c->drawn) - now(&c->refused);
	struct rnl_class_stats stats;

	check_now(c);
	if (!read_stats(c, &stats))
		return 0;
	/* The second job of an rnl_submit_many() may be refused as late, which that does not report. */
	if (stats.unadmitted < now(&c->unadmitted) ||
	    (stats.unadmitted && !(c->attr.flags & RNL_CLASS_ADMIT)))
		tally_wrong(CLASS_WRONG, "class %u has refused %" PRIu64 " jobs as late; ours are %" PRIu64,
			    c->number, stats.unadmitted, now(&c->unadmitted));
	/* A replay that fails with the device may have been called or not. */
	if (stats.queued || stats.started || stats.accepted != accepted ||
	    (stats.done != now(&c->done) && !c->round->failing) ||
	    stats.expired + stats.late != now(&c->timed_out))
		tally_wrong(CLASS_WRONG, "class %u: %u queued, %u started, %" PRIu64 " accepted, %"
			    PRIu64 " done, %" PRIu64 " expired, %" PRIu64 " late; ours are %" PRIu64
			    ", %" PRIu64 ", %" PRIu64, c->number, stats.queued, stats.started,
			    stats.accepted, stats.done, stats.expired, stats.late, accepted,
			    now(&c->done), now(&c->timed_out));
	return stats.device_ns;
}

void classes_check_drained(struct round *r)
{
	struct classes *all = r->classes;
	uint64_t used = 0, most;

	if (!all)
		return;
	for (unsigned i = 0; i < all->nr_places; i++)
		used += all->places[i] ? check_drained(all->places[i]) : 0;
	most = (now_ns() - all->begun) * r->nr_devices;
	if (used > most)
		tally_wrong(CLASS_WRONG, "classes have used %" PRIu64 " ns of %" PRIu64, used,
			    most);
}

void classes_print(const struct round *r)
{
	struct classes *all = r->classes;

	for (unsigned i = 0; all && i < all->nr_records; i++) {
		struct class *c = &all->records[i];
		const struct rnl_class_attr *a = &c->attr;

		if (now(&c->drawn) == now(&c->gone) && (c->over || !c->ends))
			continue;
		fprintf(stderr, "torture:   class %u%s: %" PRIu64 " drawn, %" PRIu64 " gone, %"
			PRIu64 " run; priority %d, weight %u, floor %u, order %u, flags %u, most %u"
			" queued, %u jobs, %" PRIu64 " ns, %u a second, deadline %" PRIu64
			" ns, %u workers\n",
			c->number, c->over ? ", which is over" : c->ends ? ", which ends" : "",
			now(&c->drawn), now(&c->gone), now(&c->running), a->priority, a->weight,
			a->floor_permille, a->order, a->flags, a->max_queued, a->max_jobs,
			a->max_device_ns, a->per_second, a->deadline_ns, a->nr_workers);
	}
}

/* ---- ending -------------------------------------------------------------------------- */

static void destroy(struct classes *all, unsigned place)
{
	struct class *c = all->places[place];

	c->ends = 1;
	while (c->pins)
		sched_yield();
	rnl_class_destroy(c->cls);
	c->over = true;
	if (now(&c->running))
		tally_wrong(CLASS_WRONG, "class %u has ended, and %" PRIu64 " of its jobs run",
			    c->number, now(&c->running));
	all->places[place] = NULL;
}

/* Creates, ends and reads the classes of every nr_seats-th place. */
static void meddle(struct seat *seat)
{
	struct round *r = seat->round;
	struct classes *all = r->classes;
	const unsigned first = all->nr_seated++;

	while (!r->over && first < all->nr_places) {
		unsigned place = draw(&seat->random, all->nr_places);

		place -= place % all->nr_seats;
		place = place + first < all->nr_places ? place + first : first;
		if (all->places[place] && draw(&seat->random, 4)) {
			at(seat, "rnl_class_read_stats");
			check_now(all->places[place]);
		} else if (all->places[place]) {
			at(seat, "rnl_class_destroy");
			destroy(all, place);
			tally_add(NR_CLASS_ENDS, 1);
		} else if (all->nr_records + NR_SEATS_MAX < RECORDS_MAX) {
			at(seat, "rnl_class_create");
			create(r, place, &seat->random);
		}
		nap_us(draw(&seat->random, draw(&seat->random, 2) ? 300 : 5000));
	}
}

void classes_begin(struct round *r)
{
	uint64_t *random = &r->random;
	const unsigned drawn = draw(random, 4), full = draw(random, 4);

	if (drawn < 2)
		return;
	r->classes = round_alloc(r, sizeof(*r->classes));
	r->classes->begun = now_ns();
	r->classes->nr_places = 1 + draw(random, drawn == 2 ? 4 : RNL_CLASSES_MAX);
	for (unsigned i = 0; i < r->classes->nr_places; i++) {
		if (draw(random, 4) < full)
			create(r, i, random);
	}
	r->classes->nr_seats = draw(random, 1 + NR_SEATS_MAX);
	for (unsigned i = 0; i < r->classes->nr_seats; i++)
		seat_take(r, "classer", MEDDLES, meddle, NULL);
}

void classes_end(struct round *r)
{
	for (unsigned i = 0; r->classes && i < r->classes->nr_places; i++) {
		if (r->classes->places[i] && draw(&r->random, 2))
			destroy(r->classes, i);
	}
}
