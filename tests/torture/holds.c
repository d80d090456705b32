/* SPDX-License-Identifier: MIT */
/*
 * Jobs with holds, which other threads release before or after the function returns; some have a
 * deadline that ends their holds. holds.h has the DESIGN of the tickets.
 *
 * DESIGN
 *	A guard may call the function again, which ends the holds of the first call. So each call
 *	has its own tickets, and a second call makes the first call's tickets void.
 */
#include "holds.h"

#include <sched.h>

#include <runnel/hold.h>

#define TAKEN 4
#define IN_JOB 3
#define CALLS 2
#define NR_HOLDERS (NR_TICKETS / (IN_JOB * CALLS))

/* ---- tickets ---------------------------------------------------------------- */

static void release(struct ticket *t)
{
	const bool again = t->nr_begun++ && !t->raced;
	int ret;

	if (!again && !t->raced)
		t->wrote = true;
	ret = rnl_hold_release(&t->hold, t->result);
	t->nr_won += !ret;
	t->nr_already += ret == -EALREADY;
	t->nr_stale += ret == -ESTALE;
	if ((ret && ret != -EALREADY && ret != -ESTALE) || (again && !ret))
		tally_wrong(HOLD_WRONG, "a%s release returned %d", again ? " second" : "", ret);
	t->nr_over++;
}

bool ticket_take(struct ticket *t, struct life *life, bool late)
{
	static const int results[] = { 0, 0, 0, 0, 0, 0, 17, -EPROTO, -EXDEV };
	uint64_t *random = &life->random;
	unsigned nr;

	if (said(life->round, rnl_job_hold(&life->job, &t->hold), MAY_LACK, "rnl_job_hold"))
		return false;
	tally_add(NR_HOLDS, 1);
	t->result = results[draw(random, COUNT(results))];
	t->raced = !draw(random, 4);
	t->late = late && draw(random, 2);
	t->due_ns = draw(random, 2) ? 0 :
		    now_ns() + draw(random, draw(random, 8) ? 300000 : 3000000);
	t->nr = nr = draw(random, 3) ? 1 : 2;
	if (!t->late && !draw(random, 8)) {
		release(t);
		nr--;
	}
	t->left = (t->left / TAKEN + 1) * TAKEN + nr;
	return true;
}

bool ticket_is_over(const struct ticket *t)
{
	return t->nr_over == t->nr;
}

void ticket_check_told(struct ticket *t, const struct life *life)
{
	/* `wrote` first: it is not atomic, so only the library orders this read after releases. */
	if (!t->raced && !t->wrote)
		tally_wrong(HELD_EARLY, "%s, told before the release of a hold", life->what);
	else if (!t->nr_begun)
		tally_wrong(HELD_EARLY, "%s, told before any release of a hold", life->what);
	t->ended = true;
}

void ticket_check_said(const struct ticket *t, bool must)
{
	if (t->nr_won > 1 || (must && !t->nr_won) || (t->nr_already && !t->nr_won) ||
	    t->nr_won + t->nr_already + t->nr_stale != t->nr_begun)
		tally_wrong(HOLD_WRONG, "%u releases: %u returned 0, %u -EALREADY, %u -ESTALE",
			    t->nr_begun, t->nr_won, t->nr_already, t->nr_stale);
}

void ticket_forget(struct ticket *t)
{
	t->wrote = false;
	t->nr = t->nr_begun = t->nr_over = t->nr_won = t->nr_already = t->nr_stale = 0;
	t->ended = false;
}

static bool is_due(const struct ticket *t, const struct round *r)
{
	if (r->reaped)
		return true;
	if (t->late)
		return t->ended;
	return r->stop || now_ns() >= t->due_ns;
}

static void look_at(struct ticket *t, struct seat *seat, bool own)
{
	uint64_t left = t->left;

	if (!(left % TAKEN) || !(own || t->raced) || !is_due(t, seat->round))
		return;
	/* If `left` has not changed, the values read before belong to this hold. */
	if (atomic_compare_exchange_strong(&t->left, &left, left - 1)) {
		release(t);
		dawdle(&seat->random);
	}
}

static void release_all(struct seat *seat)
{
	struct tickets *tickets = seat->arg;
	const unsigned id = tickets->nr_releasers++;
	bool last;

	at(seat, "releasing holds");
	do {
		/* After the pool's end, releases the holds that are left. */
		last = seat->round->reaped;
		for (unsigned i = 0; i < NR_TICKETS; i++)
			look_at(&tickets->all[i], seat, i % NR_RELEASERS == id);
		nap_us(draw(&seat->random, 100));
	} while (!last);
}

void releasers_begin(struct round *r, struct tickets *tickets)
{
	for (unsigned i = 0; i < NR_RELEASERS; i++)
		seat_take(r, "releaser", REAPS, release_all, tickets);
}

/* ---- jobs with holds ----------------------------------------------------------- */

struct holder {
	struct life *life;
	struct ticket *tickets[CALLS];	/* IN_JOB tickets for each call of its function */
	unsigned nr_taken[CALLS];
	bool may_leave;			/* its deadline is near */
	bool known;			/* its last life has ended, and must be checked */
	bool worked;			/* its function has issued its work */
	int result;
	struct work work;
};

struct holders {
	struct tickets tickets;
	struct holder all[NR_HOLDERS];
};

static int run(struct life *life)
{
	struct holder *h = life->arg;
	const unsigned call = life->nr_run - 1, nr = draw(&life->random, 1 + IN_JOB);
	int ret = 0;

	if (draw(&life->random, 2))
		ret = work_issue(&h->work);
	else
		h->worked = false;
	for (unsigned i = 0; i < nr && call < CALLS; i++) {
		if (!ticket_take(&h->tickets[call][h->nr_taken[call]], life, h->may_leave))
			break;
		h->nr_taken[call]++;
	}
	dawdle(&life->random);
	return ret;
}

/* Returns true if a hold may have failed the job with this result. */
static bool may_fail(const struct life *life, int result)
{
	const struct holder *h = life->arg;

	for (unsigned k = 0; k < CALLS * IN_JOB; k++) {
		const struct ticket *t = &h->tickets[k / IN_JOB][k % IN_JOB];

		if (k % IN_JOB < h->nr_taken[k / IN_JOB] && t->nr_begun && t->result == result)
			return result < 0;
	}
	return life->nr_run && result == -ETIMEDOUT && life_is_late(life);
}

static void notified(struct life *life, int result)
{
	struct holder *h = life->arg;
	const unsigned last = life->nr_run ? life->nr_run - 1 : 0;

	for (unsigned i = 0; last < CALLS && i < h->nr_taken[last]; i++) {
		if (life_deadline(life) < 0)
			ticket_check_told(&h->tickets[last][i], life);
	}
	for (unsigned k = 0; k < CALLS * IN_JOB; k++)
		h->tickets[k / IN_JOB][k % IN_JOB].ended = true;
	if (result >= 0 && h->worked && !work_right(&h->work, true))
		tally_wrong(WRONG_DATA, "%u bytes of a job with holds", h->work.bytes);
	work_end(&h->work, life->round);
	h->result = result;
	h->known = true;
	dawdle(&life->random);
}

/* Checks a life after the job's notification and the return of all its releases. */
static void check(const struct holder *h)
{
	const struct life *life = h->life;
	const unsigned last = life->nr_run ? life->nr_run - 1 : 0;
	bool failed = life->gives < 0, before = false;

	for (unsigned k = 0; k < CALLS * IN_JOB; k++) {
		const struct ticket *t = &h->tickets[k / IN_JOB][k % IN_JOB];

		if (k % IN_JOB >= h->nr_taken[k / IN_JOB])
			continue;
		ticket_check_said(t, k / IN_JOB == last && life_deadline(life) < 0);
		if (k / IN_JOB == last)
			failed = failed || !t->nr_won || t->result < 0;
		else
			before = before || (t->nr_won ? t->result < 0 : life_deadline(life) >= 0);
	}
	/* A release or the deadline may have failed the job before the second call. */
	if (life->nr_run && failed != (h->result < 0) && !(before && h->result < 0) &&
	    !may_end_so(life->round, h->result))
		tally_wrong(WRONG_END, "a job with %u holds has result %d, its function's is %d",
			    h->nr_taken[last], h->result, life->gives);
}

static bool is_over(const struct holder *h)
{
	for (unsigned k = 0; k < CALLS * IN_JOB; k++) {
		if (!ticket_is_over(&h->tickets[k / IN_JOB][k % IN_JOB]))
			return false;
	}
	return life_is_free(h->life);
}

static void begin(struct holder *h, struct round *r, uint64_t *random)
{
	const int64_t deadlines[] = { -1, -1, -1, -1, 50000, 3 * MS, 10 * long_ns() };
	struct life *life = h->life;
	const unsigned way = draw(random, 3);

	if (h->known)
		check(h);
	h->known = false;
	for (unsigned k = 0; k < CALLS * IN_JOB; k++)
		ticket_forget(&h->tickets[k / IN_JOB][k % IN_JOB]);
	h->nr_taken[0] = h->nr_taken[1] = 0;
	life->deadline = deadlines[draw(random, COUNT(deadlines))];
	h->may_leave = life->deadline >= 0 && life->deadline < SECOND;
	if (rnl_job_set_deadline(&life->job, life->deadline))
		tally_wrong(UNDOCUMENTED, "a deadline");
	h->worked = true;
	work_begin(&h->work, r, random);
	if (life_submit(life, way ? HAS_KEY : 0, way == 1 ? draw(random, 4) :
			RNL_KEY_WORKER(draw(random, RNL_WORKERS_MAX))))
		work_end(&h->work, r);
}

static void sit(struct seat *seat)
{
	struct holders *all = seat->arg;

	at(seat, "jobs with holds");
	while (!seat->round->stop) {
		struct holder *h = &all->all[draw(&seat->random, NR_HOLDERS)];

		if (is_over(h))
			begin(h, seat->round, &seat->random);
		else if (h->life->end == BY_WAIT)
			(void)life_wait(h->life, draw(&seat->random, 2) ? 0 : MS);
		if (!draw(&seat->random, 8))
			(void)life_cancel(h->life);
		nap_us(draw(&seat->random, 100));
	}
	seat->round->nr_stopped++;
}

void holds_begin(struct round *r)
{
	struct holders *all = round_alloc(r, sizeof(*all));

	r->holders = all;
	for (unsigned i = 0; i < NR_HOLDERS; i++) {
		struct holder *h = &all->all[i];

		h->life = life_new(r, "a job with holds", (enum end)draw(&r->random, NR_ENDS), run,
				   notified, h);
		h->life->may_end = may_fail;
		for (unsigned call = 0; call < CALLS; call++)
			h->tickets[call] = &all->tickets.all[(i * CALLS + call) * IN_JOB];
	}
	releasers_begin(r, &all->tickets);
	seat_take(r, "holder", MAKES, sit, all);
}

void holds_end(struct round *r)
{
	for (unsigned i = 0; r->holders && i < NR_HOLDERS; i++)
		work_forget(&r->holders->all[i].work);
}
