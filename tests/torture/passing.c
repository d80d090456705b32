/* SPDX-License-Identifier: MIT */
/*
 * Checks that jobs that have completed on the device are reported, however long the queue is.
 *
 * DESIGN
 *	Time is counted in functions, so a busy machine changes nothing.
 *	A crowd is a backlog of slow functions on one worker, each with a kernel. The kernel of job
 *	n notes the number of functions that had begun. A mark of runnel covers at most MARKS jobs.
 *	So when the kernel of job n + MARKS runs, the device has reached a mark after job n. From
 *	then on only few functions may begin before the notification of job n. Two other jobs submit
 *	each other, so their queue is never empty, until the notification of a third job, which has
 *	a kernel.
 *	A kernel is a host function, so this is for the host device and the double.
 */
#include "life.h"

#include <stdlib.h>

#include <runnel/kernel.h>

#define MARKS 8			/* most jobs that share a mark */
#define SLACK 4			/* functions */
#define SLOW_US 1100		/* so long that the worker checks the stream after each function */
#define CROWD 40
#define HOPS 1000000

struct seen {
	_Atomic uint64_t begun;			/* functions that began on this worker */
	_Atomic uint64_t at[2 * CROWD];		/* `begun` when kernel n ran; 0: not run */
};

struct passing {
	struct seat *seat;
	int place;				/* all jobs have this place, and one key */
	struct life *crowd[CROWD];
	uint64_t numbers[CROWD];		/* each job's number on its worker */
	int workers[CROWD];
	struct seen seen[RNL_WORKERS_MAX];
	struct life *pair[2], *third;
	_Atomic uint64_t passed_ns;		/* when the third job's kernel ran; 0: not run */
	_Atomic uint64_t hops;			/* hops of the pair since then */
	_Atomic bool over;			/* the third job was notified */
};

/* ---- a kernel that notes a value ---------------------------------------------- */

static int note(_Atomic uint64_t *to, const _Atomic uint64_t *from)
{
	const struct note_args args = { to, from };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&note_kernel, one, one, &args);
}

/* ---- a crowd ------------------------------------------------------------------- */

static unsigned index_of(const struct passing *p, const struct life *life)
{
	unsigned i = 0;

	while (p->crowd[i] != life)
		i++;
	return i;
}

static int crowd_run(struct life *life)
{
	struct passing *p = life->arg;
	const unsigned i = index_of(p, life);
	struct seen *seen = &p->seen[rnl_worker().index];
	int ret;

	p->workers[i] = rnl_worker().index;
	p->numbers[i] = ++seen->begun;
	ret = note(&seen->at[p->numbers[i] % COUNT(seen->at)], &seen->begun);
	nap_us(SLOW_US);
	return ret;
}

static void crowd_told(struct life *life, int result)
{
	struct passing *p = life->arg;
	const unsigned i = index_of(p, life);
	struct seen *seen = &p->seen[p->workers[i]];
	uint64_t at;

	if (result)
		return;
	at = seen->at[(p->numbers[i] + MARKS) % COUNT(seen->at)];
	if (at && seen->begun > at + SLACK)
		tally_wrong(NOTIFIED_LATE, "%llu functions began after the device had passed it",
			    (unsigned long long)(seen->begun - at));
}

static bool is_any_under_way(const struct passing *p)
{
	for (unsigned i = 0; i < CROWD; i++) {
		if (!life_is_free(p->crowd[i]))
			return true;
	}
	return false;
}

/* Runs a crowd.  Its key puts all jobs on one worker. */
static void crowd(struct passing *p)
{
	const unsigned nr = 2 * MARKS + draw(&p->seat->random, CROWD - 2 * MARKS + 1);
	const uint64_t key = draw(&p->seat->random, 100);

	at(p->seat, "a crowd");
	p->place = place_draw(p->seat->round, &p->seat->random);
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		p->seen[i].begun = 0;
		for (unsigned k = 0; k < COUNT(p->seen[i].at); k++)
			p->seen[i].at[k] = 0;
	}
	for (unsigned i = 0; i < nr && !life_submit(p->crowd[i], HAS_KEY, key); i++)
		;
	while (!p->seat->round->stop && is_any_under_way(p))
		nap_us(200);
}

/* ---- a pair and a third job ------------------------------------------------------ */

static bool is_late(struct passing *p)
{
	const uint64_t since = p->passed_ns;

	return since && ++p->hops > HOPS &&
	       now_ns() - since > (uint64_t)(1e9 * options.scale);
}

static int pair_run(struct life *life)
{
	(void)life;
	return 0;
}

static void pair_told(struct life *life, int result)
{
	struct passing *p = life->arg;
	struct life *other = p->pair[p->pair[0] == life];

	(void)result;
	if (!p->over && is_late(p)) {
		tally_wrong(NOTIFIED_LATE,
			    "a pair has begun each other %llu times since the device "
			    "passed it",
			    (unsigned long long)p->hops);
		p->over = true;
	}
	if (!p->over && life_submit(other, HAS_KEY, 1))
		p->over = true;
}

static int third_run(struct life *life)
{
	struct passing *p = life->arg;
	static const _Atomic uint64_t *const none;

	return note(&p->passed_ns, none);
}

static void third_told(struct life *life, int result)
{
	struct passing *p = life->arg;

	(void)result;
	p->over = true;
}

static void pair(struct passing *p)
{
	at(p->seat, "a pair and a third one");
	p->place = place_draw(p->seat->round, &p->seat->random);
	p->passed_ns = p->hops = 0;
	p->over = false;
	if (life_submit(p->pair[0], HAS_KEY, 1))
		return;
	if (life_submit(p->third, HAS_KEY, 1))
		p->over = true;
	while (!p->over || !life_is_free(p->pair[0]) || !life_is_free(p->pair[1]) ||
	       !life_is_free(p->third)) {
		if (p->seat->round->leaves && p->seat->round->stop)
			p->over = true;
		nap_us(200);
	}
}

/* ---- the seat -------------------------------------------------------------------- */

static void pass(struct seat *seat)
{
	struct passing *p = seat->arg;

	p->seat = seat;
	while (!seat->round->stop) {
		if (draw(&seat->random, 2))
			crowd(p);
		else
			pair(p);
		nap_us(draw(&seat->random, 1000));
	}
	seat->round->nr_stopped++;
}

void passing_begin(struct round *r)
{
	struct passing *p;

	/* With a guard a function may run again. */
	if (r->guarded || !(on_host() || options.fake))
		return;
	p = round_alloc(r, sizeof(*p));
	for (unsigned i = 0; i < CROWD; i++)
		p->crowd[i] = life_new(r, "one of a crowd", BY_CALLBACK, crowd_run, crowd_told, p);
	for (unsigned i = 0; i < 2; i++)
		p->pair[i] = life_new(r, "one of a pair", BY_CALLBACK, pair_run, pair_told, p);
	p->third = life_new(r, "one beside a pair", BY_CALLBACK, third_run, third_told, p);
	for (unsigned i = 0; i < CROWD; i++)
		p->crowd[i]->same_place = &p->place;
	p->pair[0]->same_place = p->pair[1]->same_place = p->third->same_place = &p->place;
	seat_take(r, "passer", MAKES, pass, p);
}
