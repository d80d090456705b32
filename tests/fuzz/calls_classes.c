/* SPDX-License-Identifier: MIT */
/* Classes in sequences of calls: which are created, which jobs they refuse, and their figures. */
#include "config.h"

#include <runnel/class.h>

#include "tests/fuzz/calls.h"

#define CLASSES 3
#define MADE 128			/* most classes of an input */
#define DEADLINE_NS (2 * MS)

static struct class_state {
	struct rnl_class *cls;
	uint32_t max_queued;
	bool hasty;			/* a job may be late */
	bool admits;			/* ... and refused for that */
	int64_t deadline_ns;		/* 0: none */
	uint32_t workers;		/* a bit for each of its own; 0: it has none */
	_Atomic bool ends;
	_Atomic uint64_t nr_accepted, nr_done; /* callbacks submit, too */
	uint64_t nr_timed_out;
} made[MADE];				/* a job that is done may name one that has ended */
static unsigned nr_made;
static struct class_state *classes[CLASSES]; /* NULL: there is none */
static uint32_t lent;			/* workers that classes have */
static unsigned used;			/* the classes of four jobs in turn, 2 bits each; 0: none */

/* Makes one attribute wrong.  Returns false if none is. */
static bool spoil(struct rnl_class_attr *attr, unsigned which)
{
	attr->priority += which == 0 ? 8 : 0;
	attr->priority -= which == 1 ? 8 : 0;
	attr->weight += which == 2 ? 10001 : 0;
	attr->floor_permille = which == 3 ? 1001 : attr->floor_permille;
	attr->order += which == 4 ? 2 : 0;
	attr->flags |= which == 5 ? RNL_CLASS_KEPT_SMS | 8 : 0;
	attr->max_queued += which == 6 ? 65537 : 0;
	attr->deadline_ns |= which == 7 ? UINT64_MAX : 0;
	attr->per_second += which == 8 ? 1000000001 : 0;
	attr->size = which == 9 ? 0 : attr->size;
	attr->nr_workers += which == 10 ? s.nr_class_workers + 1 : 0;
	attr->spin_us += which == 11;
	return which < 12;
}

/* Returns the workers that a class of so many gets: the first ones in a row that are free, or 0. */
static uint32_t free_row(unsigned nr)
{
	const uint32_t row = (1u << nr) - 1;

	for (unsigned i = 0; i + nr <= s.nr_class_workers; i++)
		if (!(lent & row << i))
			return row << i;
	return 0;
}

/* Returns true if the creation of a class that is right may return that. */
static bool may_create(const struct rnl_class_attr *attr, uint32_t row, int ret)
{
	if (s.closed)
		return ret == -ESHUTDOWN;
	if (attr->nr_workers && is_fault(ret))
		return true;
	return ret == (attr->nr_workers && !row ? -EAGAIN : 0);
}

static void create(struct class_state **at, unsigned how, unsigned which)
{
	static const uint32_t floors[] = { 0, RNL_CLASS_NO_FLOOR, 1, 1000 };
	static const uint32_t weights[] = { 0, 1, 7, 10000 }, slots[] = { 1, 2, 5, 0 };
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct class_state *c = &made[nr_made];
	uint32_t row;
	bool wrong;
	int ret;

	if (nr_made == MADE)
		return;
	attr.priority = (int)(how & 7) - 4;
	attr.weight = weights[how >> 3 & 3];
	attr.floor_permille = floors[how >> 5 & 3];
	attr.order = how >> 7 & 1;
	attr.flags = how >> 8 & 1 ? RNL_CLASS_LATE : 0;
	attr.max_queued = slots[how >> 9 & 3];
	attr.max_jobs = how >> 11 & 1;
	attr.deadline_ns = how >> 12 & 1 ? DEADLINE_NS : 0;
	attr.per_second = how >> 13 & 1 ? 10000 : 0;
	attr.burst = attr.per_second ? how >> 14 & 1 : 0;
	attr.max_device_ns = how >> 15;
	if (s.nr_class_workers && which >= 12) {
		attr.nr_workers = s.nr_devices + (how & 1);
		attr.stream_priority = how >> 1 & 3;
	}
	if (which & 4)
		attr.flags |= RNL_CLASS_ADMIT;
	wrong = spoil(&attr, which);
	row = attr.nr_workers && !wrong ? free_row(attr.nr_workers) : 0;
	ret = rnl_class_create(&c->cls, s.pool, &attr);
	must(wrong ? ret == -EINVAL : may_create(&attr, row, ret));
	if (ret)
		return;
	c->workers = row;
	lent |= row;
	c->max_queued = attr.max_queued ? attr.max_queued : 1024;
	c->hasty = !(attr.flags & RNL_CLASS_LATE);
	c->admits = attr.flags & RNL_CLASS_ADMIT;
	c->deadline_ns = (int64_t)attr.deadline_ns;
	nr_made++;
	*at = c;
}

/* Checks a class's figures.  @all_done: the class has no jobs. */
static void check(struct class_state *c, bool all_done)
{
	struct rnl_class_stats stats = RNL_CLASS_STATS_INIT;

	must(!rnl_class_read_stats(c->cls, &stats));
	must(stats.queued <= (s.nr_devices > 1 ? 1 + s.nr_devices : 1) * c->max_queued);
	must(stats.accepted <= c->nr_accepted && (c->hasty || !stats.late));
	must(c->admits || !stats.unadmitted);
	if (!all_done)
		return;
	must(!stats.queued && !stats.started && stats.accepted == c->nr_accepted);
	must(stats.done == c->nr_done && stats.expired + stats.late == c->nr_timed_out);
}

/* Ends a class, which waits for its jobs.  A job that names the class is refused afterwards. */
static void destroy(struct class_state **at)
{
	struct rnl_job *job = &s.works[JOBS].job;
	struct class_state *c = *at;
	int ret;

	if (jobs_any(job_waits_for_caller))
		return;
	must(!rnl_job_init(job, work_fn) && !rnl_job_set_class(job, c->cls));
	c->ends = true;
	rnl_class_destroy(c->cls);
	lent &= ~c->workers;
	*at = NULL;
	for (unsigned i = 0; i < JOBS; i++)
		must(!s.works[i].owned || s.works[i].class != c || work_is_done(&s.works[i]));
	ret = rnl_submit(s.pool, job);
	must(ret == -EINVAL || is_fault(ret));
	/* Nor does it name a class that comes later. */
	c->cls = NULL;
	must(rnl_class_create(&c->cls, s.pool, NULL) == (s.closed ? -ESHUTDOWN : 0));
	ret = rnl_submit(s.pool, job);
	must(ret == -EINVAL || is_fault(ret));
	rnl_class_destroy(c->cls);
}

void class_call(unsigned which, unsigned how)
{
	struct class_state **at = &classes[(which >> 2 & 3) % CLASSES];

	if (which % 4 == 0)
		used = how;
	else if (!*at)
		create(at, how, which >> 4);
	else if (which % 4 == 1)
		destroy(at);
	else
		check(*at, false);
}

/* ---- a job's class ------------------------------------------------------------------- */

void class_set(struct work *w)
{
	const unsigned i = used >> w->number % 4 * 2 & 3;
	struct class_state *c = i && i <= CLASSES ? classes[i - 1] : NULL;

	must(!rnl_job_set_class(&w->job, c ? c->cls : NULL));
	w->class = c;
	/* In a chain, the first job's class counts. */
	if (w->before)
		w->class = w->before->class;
	w->late |= c && !w->before && c->deadline_ns;
}

/* A job with a key or an order runs on the pool's workers. */
bool class_may_run_on(const struct work *w, int worker)
{
	const bool keyed = w->way == KEYED || w->way == ORDERED || w->way == KEYED_DELAYED;

	if (w->class && w->class->workers && !keyed)
		return worker < 32 && w->class->workers >> worker & 1;
	return worker >= (int)s.nr_class_workers;
}

bool class_may_be_full(const struct work *w)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < JOBS; i++)
		nr += s.works[i].owned && s.works[i].class == w->class;
	return nr >= w->class->max_queued;
}

bool class_may_refuse(const struct work *w)
{
	return w->class && w->class->admits && w->late && w->way == PLAIN && w->after < 0;
}

bool class_ends(const struct work *w)
{
	return w->class && w->class->ends;
}

void class_accepted(const struct work *w)
{
	if (w->class)
		w->class->nr_accepted++;
}

void class_comes_again(const struct work *w, int nr)
{
	if (!w->class)
		return;
	w->class->nr_accepted += (uint64_t)(int64_t)nr;
	w->class->nr_done += (uint64_t)(int64_t)nr;
}

void class_done(const struct work *w, bool called, int result)
{
	if (!w->class)
		return;
	w->class->nr_done += called;
	w->class->nr_timed_out += !called && result == -ETIMEDOUT;
}

void classes_begin(void)
{
	memset(made, 0, sizeof(made));
	memset(classes, 0, sizeof(classes));
	nr_made = used = lent = 0;
}

void classes_end(bool destroys)
{
	for (unsigned i = 0; i < CLASSES; i++) {
		if (!classes[i])
			continue;
		check(classes[i], true);
		if (destroys)
			destroy(&classes[i]);
	}
}
