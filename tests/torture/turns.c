/* SPDX-License-Identifier: MIT */
/*
 * Barriers in turns: the jobs of each turn come after the jobs of the turn before, and no thread
 * waits in between.
 *
 * DESIGN
 *	Turn n has some jobs of barrier n % nr, after barrier (n - 1) % nr. Each job writes the
 *	turn's byte into its own word on the device, and copies the words of the turn before. So a
 *	job that runs early, on the host or on the device, or is notified early, is noticed. There
 *	are two sets of words: turn n + 1 writes the words of turn n - 1 again, after all jobs that
 *	read them.
 *	When a job has failed, all jobs of later turns are cancelled.
 */
#include "life.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/memory.h>

#define NR_TURNS 20
#define IN_TURN 4
#define NR_BARRIERS NR_TURNS	/* the most: with so many, no barrier is used twice */

struct turns {
	struct seat *seat;
	struct rnl_barrier barriers[NR_BARRIERS];
	unsigned nr_barriers;
	uint8_t first;				/* the byte of the first turn */
	unsigned nr_in[NR_TURNS];		/* accepted jobs */
	struct life *jobs[NR_TURNS][IN_TURN];
	int results[NR_TURNS][IN_TURN];
	bool pinned;				/* the jobs copy to pinned memory */
	uint64_t (*words)[IN_TURN];		/* two sets on the device; NULL: none */
	uint64_t (*seen)[IN_TURN];		/* each job's copies */
};

struct place {
	unsigned turn, i;
};

static struct place place_of(const struct turns *t, const struct life *life)
{
	struct place at = { 0, 0 };

	while (t->jobs[at.turn][at.i] != life) {
		at.i = (at.i + 1) % IN_TURN;
		at.turn += !at.i;
	}
	return at;
}

/* ---- on workers ------------------------------------------------------------- */

static int run(struct life *life)
{
	struct turns *t = life->arg;
	const struct place at = place_of(t, life);
	const uint8_t byte = (uint8_t)(t->first + at.turn);
	int ret;

	for (unsigned i = 0; at.turn && i < t->nr_in[at.turn - 1]; i++) {
		if (!t->jobs[at.turn - 1][i]->nr_run)
			tally_wrong(AFTER_EARLY, "a job of turn %u ran before one of the turn "
				    "before", at.turn);
	}
	dawdle(&life->random);
	if (!t->words)
		return 0;
	ret = rnl_fill(&t->words[at.turn % 2][at.i], byte, sizeof(uint64_t));
	if (ret || !at.turn)
		return ret;
	return rnl_copy(t->seen[at.turn * IN_TURN + at.i], t->words[(at.turn - 1) % 2],
			t->nr_in[at.turn - 1] * sizeof(uint64_t));
}

static void check_seen(const struct turns *t, struct place at)
{
	const unsigned char *seen = (const unsigned char *)t->seen[at.turn * IN_TURN + at.i];
	const uint8_t byte = (uint8_t)(t->first + at.turn - 1 + options.wrong);

	for (unsigned i = 0; i < t->nr_in[at.turn - 1] * sizeof(uint64_t); i++) {
		if (seen[i] != byte) {
			tally_wrong(AFTER_EARLY, "a job of turn %u saw %u in word %zu, not %u",
				    at.turn, seen[i], i / sizeof(uint64_t), byte);
			return;
		}
	}
}

static void check(struct turns *t, struct life *life, int result)
{
	const struct place at = place_of(t, life);
	bool failed = false, unrun = false;

	t->results[at.turn][at.i] = result;
	for (unsigned i = 0; at.turn && i < t->nr_in[at.turn - 1]; i++) {
		const struct life *before = t->jobs[at.turn - 1][i];

		if (!life_is_free(before)) {
			tally_wrong(NOTIFIED_EARLY,
				    "a job of turn %u, with result %d, before one of "
				    "the turn before",
				    at.turn, result);
			return;
		}
		failed = failed || t->results[at.turn - 1][i] < 0;
		unrun = unrun || !before->nr_run;
	}
	if ((result == -ECANCELED && !life->nr_cancelled && !failed) ||
	    (unrun && life->nr_run))
		tally_wrong(WRONG_END, "a job of turn %u has result %d, and ran %u times; of the "
			    "turn before it one %s", at.turn, result, life->nr_run,
			    unrun ? "did not run" : failed ? "failed" : "did neither");
	if (t->words && at.turn && !failed && result >= 0)
		check_seen(t, at);
}

static void notified(struct life *life, int result)
{
	struct turns *t = life->arg;

	check(t, life, result);
	dawdle(&life->random);
}

/* ---- its seat ----------------------------------------------------------------- */

static void submit(struct turns *t, struct place at)
{
	struct life *life = t->jobs[at.turn][at.i];
	struct rnl_barrier *barrier = &t->barriers[at.turn % t->nr_barriers];
	uint64_t *random = &t->seat->random;
	int ret;

	ret = rnl_job_set_after(&life->job, NULL);
	ret = ret ? ret : rnl_barrier_add(barrier, &life->job);
	if (!ret && at.turn)
		ret = rnl_job_set_after(&life->job, &t->barriers[(at.turn - 1) % t->nr_barriers]);
	if (ret)
		tally_wrong(UNDOCUMENTED, "a job of a turn: %d", ret);
	if (!life_submit(life, draw(random, 2) ? HAS_KEY : 0, draw(random, 4)))
		t->nr_in[at.turn] = at.i + 1;
}

/* Waits for a barrier, and checks that its jobs so far have ended. */
static void wait_for(struct turns *t, unsigned barrier, unsigned nr_turns)
{
	const uint64_t since = now_ns();

	at(t->seat, "waiting for a barrier of turns");
	if (said(t->seat->round, rnl_barrier_wait(&t->barriers[barrier], long_ns()), 0,
		 "rnl_barrier_wait"))
		give_up(t->seat->round, "a barrier of turns was not done");
	if (now_ns() - since >= (uint64_t)long_ns())
		tally_wrong(TOO_LATE, "a wait for a barrier was not woken");
	for (unsigned turn = barrier; turn < nr_turns; turn += t->nr_barriers) {
		for (unsigned i = 0; i < t->nr_in[turn]; i++) {
			if (!life_is_free(t->jobs[turn][i]))
				tally_wrong(BARRIER_EARLY, "a wait for it ended before a job of "
					    "turn %u", turn);
		}
	}
}

static bool all_free(const struct turns *t)
{
	for (unsigned k = 0; k < NR_TURNS * IN_TURN; k++) {
		if (!life_is_free(t->jobs[k / IN_TURN][k % IN_TURN]))
			return false;
	}
	return true;
}

static void begin(struct turns *t)
{
	uint64_t *random = &t->seat->random;

	t->nr_barriers = 2 + draw(random, draw(random, 4) ? 2 : NR_BARRIERS - 1);
	t->first = (uint8_t)draw(random, 200);
	memset(t->nr_in, 0, sizeof(t->nr_in));
	if (t->seen)
		memset(t->seen, 0, NR_TURNS * IN_TURN * sizeof(*t->seen));
	for (unsigned i = 0; i < t->nr_barriers; i++)
		barrier_make(t->seat->round, &t->barriers[i]);
}

static void take_turns(struct turns *t)
{
	struct round *r = t->seat->round;
	uint64_t *random = &t->seat->random;
	const unsigned nr = 2 + draw(random, NR_TURNS - 1);
	struct place place = { 0, 0 };

	begin(t);
	for (; place.turn < nr; place.turn++) {
		const unsigned in_turn = 1 + draw(random, IN_TURN);

		for (place.i = 0; place.i < in_turn && t->nr_in[place.turn] == place.i; place.i++)
			submit(t, place);
		/* A job was refused. */
		if (t->nr_in[place.turn] < in_turn)
			break;
		tally_add(NR_TURNS_TAKEN, 1);
		if (!draw(random, 20))
			(void)life_cancel(t->jobs[draw(random, place.turn + 1)][0]);
		if (!draw(random, 20) && !r->leaves)
			wait_for(t, draw(random, t->nr_barriers), place.turn + 1);
	}
	at(t->seat, "turns");
	while (!all_free(t) && !(r->leaves && r->stop))
		nap_us(100);
	/* A barrier may still be in use after its jobs' ends, so wait for it, too. */
	for (unsigned i = 0; i < t->nr_barriers && !(r->leaves && r->stop); i++)
		wait_for(t, i, nr);
}

/* Allocates the words and their copies. If that fails, only the functions' order is checked. */
static void get_memory(struct turns *t)
{
	struct round *r = t->seat->round;
	uint64_t *random = &t->seat->random;

	if (!r->leaves)
		t->words = memory_get(r, draw(random, r->nr_devices), 2 * sizeof(*t->words));
	if (!t->words)
		return;
	t->pinned = draw(random, 2);
	t->seen = buffer_get(r, NR_TURNS * IN_TURN * sizeof(*t->seen), &t->pinned);
}

static void sit(struct seat *seat)
{
	struct turns *t = seat->arg;

	t->seat = seat;
	get_memory(t);
	while (!seat->round->stop) {
		take_turns(t);
		nap_us(draw(&seat->random, 500));
	}
	rnl_memory_put(seat->round->pool, t->words);
	buffer_put(seat->round, t->seen, t->pinned);
	seat->round->nr_stopped++;
}

void turns_begin(struct round *r)
{
	struct turns *t = round_alloc(r, sizeof(*t));

	for (unsigned k = 0; k < NR_TURNS * IN_TURN; k++) {
		struct life *life = life_new(r, "a job of a turn", BY_CALLBACK, run, notified, t);

		life->number = k / IN_TURN;
		life->may_end_unrun = true;	/* check() decides */
		t->jobs[k / IN_TURN][k % IN_TURN] = life;
	}
	seat_take(r, "turner", MAKES, sit, t);
}
