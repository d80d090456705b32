/* SPDX-License-Identifier: MIT */
/*
 * Crowds: jobs that gather, submitted together, so their worker has a backlog.
 *
 * DESIGN
 *	Most functions are short, because long ones end a group. Some crowds have jobs that do not
 *	gather, or that have a key, or jobs of a barrier. Each job's output is checked, however the
 *	crowd's work was grouped. A crowd is over when its maker was notified of all its jobs. The
 *	crowd's barrier is done then, or soon after.
 */
#include "life.h"

#include <stdlib.h>
#include <string.h>

#define NR_CROWD 40

struct one {
	struct life *life;
	struct work work;
	bool dawdles;
	int result;
};

struct crowd {
	struct seat *seat;
	struct rnl_barrier barrier;
	bool has_barrier;
	struct one all[NR_CROWD];
};

static int run(struct life *life)
{
	struct one *one = life->arg;

	if (one->dawdles)
		dawdle(&life->random);
	return work_issue(&one->work);
}

static void notified(struct life *life, int result)
{
	struct one *one = life->arg;
	const bool ran = life->nr_run != 0;

	if ((result >= 0 || !ran) && !work_right(&one->work, ran) &&
	    tally_wrong(WRONG_DATA, "%u bytes in %u rows, work %d, of a crowd",
			one->work.bytes, one->work.rows, one->work.what))
		lives_print(life->round);
	work_end(&one->work, life->round);
	one->result = result;
}

/* ---- its seat -------------------------------------------------------------------- */

static void prepare(struct crowd *c, struct one *one, unsigned dawdlers)
{
	struct round *r = c->seat->round;
	uint64_t *random = &c->seat->random;

	/* A job that issues no work ends a group. */
	do
		work_begin(&one->work, r, random);
	while (one->work.what < COPIES && draw(random, 8));
	one->dawdles = draw(random, 16) < dawdlers;
	if (c->has_barrier && rnl_barrier_add(&c->barrier, &one->life->job))
		tally_wrong(UNDOCUMENTED, "a job of a crowd could not be added");
}

/* Submits all jobs by one call. Returns the number of accepted jobs. */
static unsigned submit(struct crowd *c, unsigned nr)
{
	struct rnl_pool *pool = c->seat->round->pool;
	const bool closed = c->seat->round->closed;
	struct rnl_job *jobs[NR_CROWD] = { NULL };
	uint64_t states[NR_CROWD];
	int ret;

	for (unsigned i = 0; i < nr; i++) {
		jobs[i] = &c->all[i].life->job;
		states[i] = life_begin(c->all[i].life);
	}
	ret = rnl_submit_many(pool, jobs, nr);
	for (int i = 0; i < (int)nr; i++)
		(void)life_submitted(c->all[i].life, states[i],
				     i < ret ? 0 : i || !ret ? -EAGAIN : ret,
				     MAY_AGAIN | MAY_SHUT, closed);
	return ret < 0 ? 0 : (unsigned)ret;
}

/* Submits each job by its own call, with shared keys. Returns the number of accepted jobs. */
static unsigned submit_each(struct crowd *c, unsigned nr)
{
	uint64_t *random = &c->seat->random;
	const unsigned nr_keys = 1 + draw(random, 100);
	unsigned i = 0;

	for (; i < nr; i++) {
		if (life_submit(c->all[i].life, HAS_KEY, draw(random, nr_keys)))
			break;
	}
	return i;
}

static bool all_free(const struct crowd *c)
{
	for (unsigned i = 0; i < NR_CROWD; i++) {
		if (!life_is_free(c->all[i].life))
			return false;
	}
	return true;
}

/* Checks the barrier after all notifications of its jobs. */
static void check_barrier(struct crowd *c, unsigned nr)
{
	bool failed = false, has_it = false;
	int result;

	if (said(c->seat->round, rnl_barrier_wait(&c->barrier, long_ns()), 0, "rnl_barrier_wait"))
		give_up(c->seat->round, "the barrier of a crowd was not done");
	result = c->barrier.result;
	for (unsigned i = 0; i < nr; i++) {
		failed = failed || c->all[i].result < 0;
		has_it = has_it || c->all[i].result == result;
	}
	if (failed ? !has_it || result >= 0 : result)
		tally_wrong(BARRIER_RESULT, "that of a crowd has %d, and %s failed", result,
			    failed ? "a job" : "no job");
	tally_add(NR_BARRIERS, 1);
}

static void come(struct crowd *c)
{
	struct round *r = c->seat->round;
	uint64_t *random = &c->seat->random;
	const unsigned nr = 1 + draw(random, NR_CROWD), dawdlers = draw(random, 4) ? 0 : 8;
	unsigned accepted;

	c->has_barrier = !draw(random, 4);
	if (c->has_barrier)
		barrier_make(r, &c->barrier);
	for (unsigned i = 0; i < nr; i++) {
		life_renew(c->all[i].life);
		prepare(c, &c->all[i], dawdlers);
	}
	accepted = draw(random, 4) ? submit(c, nr) : submit_each(c, nr);
	for (unsigned i = accepted; i < nr; i++)
		work_end(&c->all[i].work, r);
	if (!draw(random, 4))
		(void)life_cancel(c->all[draw(random, nr)].life);
	while (!all_free(c) && !(r->leaves && r->stop))
		nap_us(20);
	if (c->has_barrier && !(r->leaves && r->stop))
		check_barrier(c, accepted);
}

static void sit(struct seat *seat)
{
	struct crowd *c = seat->arg;

	c->seat = seat;
	at(seat, "a crowd");
	while (!seat->round->stop) {
		come(c);
		nap_us(draw(&seat->random, 200));
	}
	seat->round->nr_stopped++;
}

void crowds_begin(struct round *r)
{
	struct crowd *c = round_alloc(r, sizeof(*c));

	r->crowd = c;
	for (unsigned i = 0; i < NR_CROWD; i++)
		c->all[i].life = life_new(r, "one of a crowd that gathers", BY_CALLBACK, run,
					  notified, &c->all[i]);
	seat_take(r, "crowder", MAKES, sit, c);
}

void crowds_end(struct round *r)
{
	for (unsigned i = 0; r->crowd && i < NR_CROWD; i++)
		work_forget(&r->crowd->all[i].work);
}
