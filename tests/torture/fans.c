/* SPDX-License-Identifier: MIT */
/*
 * Fans: some jobs of a barrier, and one or two tellers, which complete after them: a notice by
 * rnl_barrier_notify(), or a job that comes after the barrier, in an order or not.
 *
 * DESIGN
 *	The barrier's jobs have no notification. When all tellers have completed, the jobs are done:
 *	the barrier is freed and the jobs' memory overwritten immediately. If no teller was
 *	accepted, the thread waits for the barrier.
 *	Each lane is a thread, which numbers its submits to the shared order. The last number that
 *	started is not atomic, because one worker runs the order's jobs.
 */
#include "holds.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/more.h>

#define NR_LANES 2
#define NR_FANS 9		/* fans of a lane, three of each kind */
#define NR_BLADES 4
#define NR_TELLERS 2		/* the second one, if any, is a notice */

enum kind { NOTIFIES, AFTER, ORDERED, NR_KINDS };	/* kind of the first teller */

struct fan {
	struct lane *lane;
	enum kind kind;
	void *memory;			/* memory of the barrier */
	struct rnl_barrier *barrier;
	unsigned nr;			/* accepted jobs */
	struct life *jobs[NR_BLADES], *tellers[NR_TELLERS];
	bool notifies[NR_TELLERS];	/* the teller is a notice */
	int notified[NR_TELLERS];		/* results of the tellers */
	bool was_notified[NR_TELLERS];
	_Atomic unsigned nr_to_tell;	/* tellers that are not done; + 1 while the fan begins */
	struct ticket *tickets[NR_BLADES];
	bool held[NR_BLADES];
	int results[NR_BLADES];
	bool wrote[NR_BLADES];		/* written by the jobs; not atomic */
	uint64_t number;		/* in the order */
	_Atomic bool busy;
};

struct lane {
	struct fans *fans;
	struct round *round;
	uint64_t submitted, started;
	struct fan fans_of[NR_FANS];
};

struct fans {
	struct tickets tickets;
	struct rnl_order order;
	uint64_t key;
	int place;			/* place of the order's jobs */
	_Atomic unsigned nr_lanes;	/* lanes that submit to the order */
	struct lane lanes[NR_LANES];
};

/* ---- on workers ---------------------------------------------------------------- */

static int run_job(struct life *life)
{
	struct fan *f = life->arg;
	const unsigned i = life->number;

	/* A guard may have the function called again. */
	if (!life->round->guarded && !draw(&life->random, 4))
		f->held[i] = ticket_take(f->tickets[i], life, false);
	f->wrote[i] = true;
	dawdle(&life->random);
	return draw(&life->random, 20) ? (int)draw(&life->random, 100) : -EPROTO;
}

static bool may_end_job(const struct life *life, int result)
{
	const struct fan *f = life->arg;
	const struct ticket *t = f->tickets[life->number];

	return life->nr_run && f->held[life->number] && result < 0 && t->nr_begun &&
	       t->result == result;
}

static void job_notified(struct life *life, int result)
{
	struct fan *f = life->arg;

	f->results[life->number] = result;
	if (f->held[life->number])
		ticket_check_told(f->tickets[life->number], life);
}

static int run(struct life *life)
{
	struct fan *f = life->arg;

	for (unsigned i = 0; i < f->nr; i++) {
		if (!f->wrote[i])
			tally_wrong(AFTER_EARLY, "a job ran before job %u of its fan", i);
		if (f->held[i] && !f->tickets[i]->raced && !f->tickets[i]->wrote)
			tally_wrong(HELD_EARLY, "a job ran before the release of job %u of its "
				    "fan", i);
	}
	if (f->kind == ORDERED) {
		if (f->lane->started > f->number ||
		    (f->lane->started == f->number && life->nr_run == 1))
			tally_wrong(ORDER_WRONG, "number %llu came after %llu",
				    (unsigned long long)f->number,
				    (unsigned long long)f->lane->started);
		f->lane->started = f->number;
	}
	dawdle(&life->random);
	return (int)draw(&life->random, 100);
}

/* Returns true if a notice may have this result; check() decides. */
static bool may_end(const struct life *life, int result)
{
	const struct fan *f = life->arg;

	return f->notifies[life->number] && !life->nr_cancelled && result <= 0;
}

/* ---- the end of a fan ------------------------------------------------------------ */

static void scrap(struct fan *f)
{
	for (unsigned i = 0; i < NR_BLADES; i++)
		life_scrap(f->jobs[i]);
	for (unsigned i = 0; i < NR_TELLERS; i++)
		life_scrap(f->tellers[i]);
	free(f->memory);
	f->memory = NULL;
	f->busy = false;
}

static void check(const struct fan *f, unsigned teller)
{
	const struct life *life = f->tellers[teller];
	const int result = f->notified[teller];
	bool failed = false, has_it = !result;

	for (unsigned i = 0; i < f->nr; i++) {
		failed = failed || f->results[i] < 0;
		has_it = has_it || f->results[i] == result;
	}
	if (f->notifies[teller] && (!has_it || failed != (result < 0)))
		tally_wrong(BARRIER_RESULT, "a notice has %d, and %s failed", result,
			    failed ? "a job" : "no job");
	if (f->notifies[teller] || life->round->failing)
		return;
	if ((failed && life->nr_run) || (!failed && result == -ECANCELED && !life->nr_cancelled))
		tally_wrong(WRONG_END, "a job has result %d, and ran %u times; of the jobs before "
			    "it %s failed", result, life->nr_run, failed ? "one" : "none");
}

/* Called by each teller, and by the thread that began the fan; the last call ends the fan. */
static void one_less(struct fan *f)
{
	if (--f->nr_to_tell)
		return;
	for (unsigned i = 0; i < f->nr; i++)
		life_over(f->jobs[i]);
	for (unsigned i = 0; i < NR_TELLERS; i++) {
		if (f->was_notified[i])
			check(f, i);
	}
	scrap(f);
}

static void notified(struct life *life, int result)
{
	struct fan *f = life->arg;

	for (unsigned i = 0; i < f->nr; i++) {
		if (rnl_job_wait(&f->jobs[i]->job, 0))
			tally_wrong(NOTIFIED_EARLY, "%s, before job %u of %u, result %d",
				    f->notifies[life->number] ? "a notice" : "a job after", i,
				    f->nr, result);
	}
	f->notified[life->number] = result;
	f->was_notified[life->number] = true;
	dawdle(&life->random);
	one_less(f);
}

/* ---- its seats ------------------------------------------------------------------- */

static void submit_jobs(struct fan *f, uint64_t *random)
{
	unsigned nr = draw(random, 1 + NR_BLADES);

	for (f->nr = 0; f->nr < nr; f->nr++) {
		const unsigned way = draw(random, 3);

		if (life_submit(f->jobs[f->nr], way ? HAS_KEY : 0, way == 1 ? f->lane->fans->key :
				RNL_KEY_WORKER(draw(random, RNL_WORKERS_MAX))))
			break;
		if (!draw(random, 40))
			(void)life_cancel(f->jobs[draw(random, f->nr + 1)]);
	}
}

static int submit_it(struct fan *f, unsigned teller, uint64_t *random)
{
	struct rnl_order *order = &f->lane->fans->order;
	struct rnl_job *job = &f->tellers[teller]->job;

	submit_anew(job);
	if (f->notifies[teller]) {
		tally_add(NR_NOTIFIED, 1);
		return rnl_barrier_notify(f->barrier, job);
	}
	if (f->kind == AFTER)
		return rnl_submit(f->lane->round->pool, job);
	tally_add(NR_ORDERED, 1);
	f->number = ++f->lane->submitted;
	if (draw(random, 2))
		return submit_in_order_wait(order, job, draw(random, 2) ? 0 : 2 * MS);
	return submit_in_order(order, job);
}

/* Returns true if the teller was accepted. */
static bool submit_teller(struct fan *f, unsigned teller, uint64_t *random)
{
	const bool closed = f->lane->round->closed;
	const uint64_t state = life_begin(f->tellers[teller]);

	f->nr_to_tell++;
	if (!life_submitted(f->tellers[teller], state, submit_it(f, teller, random),
			    MAY_AGAIN | MAY_SHUT | MAY_TIME_OUT, closed))
		return true;
	f->nr_to_tell--;
	return false;
}

static void prepare(struct fan *f)
{
	struct rnl_pool *pool = f->lane->round->pool;
	int ret;

	f->memory = must_alloc(sizeof(struct rnl_barrier));
	f->barrier = f->memory;
	ret = rnl_barrier_init(f->barrier, pool);
	for (unsigned i = 0; i < NR_BLADES; i++) {
		ticket_check_said(f->tickets[i], f->held[i]);
		ticket_forget(f->tickets[i]);
		f->held[i] = f->wrote[i] = false;
		life_renew(f->jobs[i]);
		ret = ret ? ret : rnl_barrier_add(f->barrier, &f->jobs[i]->job);
	}
	for (unsigned i = 0; i < NR_TELLERS; i++) {
		life_renew(f->tellers[i]);
		f->was_notified[i] = false;
	}
	if (!f->notifies[0])
		ret = ret ? ret : rnl_job_set_after(&f->tellers[0]->job, f->barrier);
	if (ret)
		tally_wrong(UNDOCUMENTED, "a fan could not be made: %d", ret);
}

static void begin(struct fan *f, uint64_t *random)
{
	struct round *r = f->lane->round;
	const unsigned first = draw(random, 2), nr = draw(random, 2) ? 1 : NR_TELLERS;
	bool tells = false;

	f->busy = true;
	f->nr_to_tell = 1;
	prepare(f);
	submit_jobs(f, random);
	for (unsigned i = 0; i < nr; i++)
		tells = submit_teller(f, nr == 1 ? 0 : (first + i) % 2, random) || tells;
	if (!tells && said(r, rnl_barrier_wait(f->barrier, long_ns()), 0, "rnl_barrier_wait"))
		give_up(r, "the barrier of a fan was not done");
	tally_add(NR_BARRIERS, 1);
	one_less(f);
}

static bool is_over(const struct fan *f)
{
	for (unsigned i = 0; i < NR_BLADES; i++) {
		if (!life_is_free(f->jobs[i]) || !ticket_is_over(f->tickets[i]))
			return false;
	}
	return life_is_free(f->tellers[0]) && life_is_free(f->tellers[1]) && !f->busy;
}

static void sit(struct seat *seat)
{
	struct lane *lane = seat->arg;
	uint64_t *random = &seat->random;

	at(seat, "fans");
	while (!seat->round->stop) {
		struct fan *f = &lane->fans_of[draw(random, NR_FANS)];

		if (is_over(f))
			begin(f, random);
		for (unsigned i = 0; i < NR_TELLERS; i++) {
			if (f->tellers[i]->end == BY_WAIT)
				(void)life_wait(f->tellers[i], draw(random, 2) ? 0 : MS);
		}
		if (!draw(random, 20))
			(void)life_cancel(f->tellers[draw(random, NR_TELLERS)]);
		nap_us(draw(random, 200));
	}
	/* The last lane destroys the order: there are no more submits. */
	at(seat, "rnl_order_fini");
	if (!--lane->fans->nr_lanes) {
		rnl_order_fini(&lane->fans->order);
		memset(&lane->fans->order, 0x5a, sizeof(lane->fans->order));
	}
	seat->round->nr_stopped++;
}

static void make(struct fan *f, struct round *r, struct ticket *tickets)
{
	for (unsigned i = 0; i < NR_BLADES; i++) {
		f->jobs[i] = life_new(r, "a job of a fan", BY_ANOTHER, run_job, job_notified, f);
		f->jobs[i]->number = i;
		f->jobs[i]->may_end = may_end_job;
		f->jobs[i]->classing = NO_DEADLINE;	/* which would end its holds */
		f->tickets[i] = &tickets[i];
	}
	/* Makes the tellers after the jobs, because a teller's end is also the jobs' end. */
	for (unsigned i = 0; i < NR_TELLERS; i++) {
		f->notifies[i] = i || f->kind == NOTIFIES;
		f->tellers[i] = life_new(r, f->notifies[i] ? "a notice of a fan" : "a fan",
					 (enum end)draw(&r->random, NR_ENDS),
					 f->notifies[i] ? NULL : run, notified, f);
		f->tellers[i]->number = i;
		if (f->kind == ORDERED)
			f->tellers[i]->same_place = &f->lane->fans->place;
		f->tellers[i]->may_end_unrun = true;	/* check() decides */
		f->tellers[i]->may_end = may_end;
	}
}

void fans_begin(struct round *r)
{
	struct fans *all = round_alloc(r, sizeof(*all));

	all->key = draw(&r->random, 2) ? draw(&r->random, 4) :
		   RNL_KEY_WORKER(draw(&r->random, RNL_WORKERS_MAX));
	all->place = place_draw(r, &r->random);
	all->nr_lanes = NR_LANES;
	if (rnl_order_init(&all->order, r->pool, all->key))
		tally_wrong(UNDOCUMENTED, "an order could not be made");
	for (unsigned l = 0; l < NR_LANES; l++) {
		struct lane *lane = &all->lanes[l];

		lane->fans = all;
		lane->round = r;
		for (unsigned i = 0; i < NR_FANS; i++) {
			struct fan *f = &lane->fans_of[i];

			f->lane = lane;
			f->kind = (enum kind)(i % NR_KINDS);
			make(f, r, &all->tickets.all[(l * NR_FANS + i) * NR_BLADES]);
		}
	}
	releasers_begin(r, &all->tickets);
	for (unsigned l = 0; l < NR_LANES; l++)
		seat_take(r, "fanner", MAKES, sit, &all->lanes[l]);
}
