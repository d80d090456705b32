/* SPDX-License-Identifier: MIT */
/*
 * Jobs that end while they are queued, by a cancel or their deadline, because a function before
 * them does not return.
 *
 * DESIGN
 *	All jobs have that function's key, so no other worker runs them. When all are submitted, the
 *	function waits until they have ended, at most for a time in which they should have ended
 *	even on a busy machine.
 */
#include "life.h"

#include <stdlib.h>

#define NR_LATE 8

struct late {
	struct seat *seat;
	uint64_t key;
	int place;				/* all jobs have this place, and one key */
	struct life *holder, *jobs[NR_LATE];
	_Atomic bool held;			/* the function runs */
	_Atomic bool complete;			/* all jobs are submitted */
	_Atomic unsigned nr_left;		/* queued jobs that have not ended */
};

static int hold(struct life *life)
{
	struct late *l = life->arg;
	uint64_t until;

	l->held = true;
	while (!l->complete)
		nap_us(200);
	until = now_ns() + (uint64_t)long_ns() / 4;
	while (l->nr_left && now_ns() < until)
		nap_us(200);
	if (l->nr_left && tally_wrong(NOTIFIED_LATE, "%u jobs that were cancelled or past their "
				      "deadline, behind a function of %.0f s", l->nr_left,
				      (double)long_ns() / 4e9))
		lives_print(life->round);
	return 0;
}

static int run(struct life *life)
{
	(void)life;
	return 0;
}

static void notified(struct life *life, int result)
{
	struct late *l = life->arg;

	(void)result;
	dawdle(&life->random);
	l->nr_left--;
}

/* Submits a job that has a deadline, or will be cancelled in the queue. */
static void submit(struct late *l, struct life *life)
{
	uint64_t *random = &l->seat->random;

	life->deadline = draw(random, 2) ? -1 : (int64_t)draw(random, 3000000);
	if (rnl_job_set_deadline(&life->job, life->deadline))
		tally_wrong(UNDOCUMENTED, "a deadline");
	l->nr_left++;
	if (life_submit(life, HAS_KEY, l->key)) {
		l->nr_left--;
		return;
	}
	dawdle(random);
	if (life->deadline < 0 && life_cancel(life) == -EBUSY && life_deadline(life) < 0)
		tally_wrong(KEY_ORDER, "a job has started, and the one before it runs");
}

static bool is_over(const struct late *l)
{
	for (unsigned i = 0; i < NR_LATE; i++) {
		if (!life_is_free(l->jobs[i]))
			return false;
	}
	return life_is_free(l->holder);
}

static void come_late(struct late *l)
{
	struct round *r = l->seat->round;

	at(l->seat, "jobs that end in the queue");
	l->key = draw(&l->seat->random, 1000);
	l->place = place_draw(r, &l->seat->random);
	l->held = l->complete = false;
	l->nr_left = 0;
	if (life_submit(l->holder, HAS_KEY, l->key))
		return;
	while (!l->held && !life_is_free(l->holder))
		nap_us(100);
	for (unsigned i = 0; i < NR_LATE && l->held; i++)
		submit(l, l->jobs[i]);
	l->complete = true;
	for (unsigned i = 0; i < NR_LATE; i++) {
		if (l->jobs[i]->end == BY_WAIT)
			(void)life_wait(l->jobs[i], long_ns());
	}
	while (!is_over(l) && !(r->leaves && r->stop))
		nap_us(100);
}

static void sit(struct seat *seat)
{
	struct late *l = seat->arg;

	l->seat = seat;
	while (!seat->round->stop) {
		come_late(l);
		nap_us(draw(&seat->random, 2000));
	}
	seat->round->nr_stopped++;
}

void late_begin(struct round *r)
{
	struct late *l = round_alloc(r, sizeof(*l));

	l->holder = life_new(r, "a holder", BY_CALLBACK, hold, NULL, l);
	l->holder->waits_for_jobs = true;
	l->holder->same_place = &l->place;
	for (unsigned i = 0; i < NR_LATE; i++) {
		l->jobs[i] = life_new(r, "a job in a queue", (enum end)draw(&r->random, NR_ENDS),
				      run, notified, l);
		l->jobs[i]->same_place = &l->place;
	}
	seat_take(r, "latecomer", MAKES, sit, l);
}
