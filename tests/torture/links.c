/* SPDX-License-Identifier: MIT */
/*
 * Chains that rnl_job_set_then() makes, with failures, cancels, deadlines and holds inside.
 *
 * DESIGN
 *	Each link writes the chain's byte into its own word on the device, and copies the word of
 *	the link before. The numbers of the next link to run and to end are not atomic, because the
 *	library orders the links. In half of the chains only the end of the last link is reported:
 *	by then all links must be done. Their memory is overwritten immediately.
 */
#include "holds.h"

#include <stdlib.h>
#include <string.h>

#include <runnel/memory.h>

#define NR_CHAINS 8
#define NR_LINKS_MAX 6

struct chain {
	struct round *round;
	struct life *links[NR_LINKS_MAX];	/* links from `first` on */
	struct ticket *tickets[NR_LINKS_MAX];
	bool held[NR_LINKS_MAX];
	int results[NR_LINKS_MAX];
	unsigned first;
	bool silent;
	unsigned nr_ran, nr_notified;	/* number of the next link to run, and to end */
	int ran_on;			/* the device of the first link */
	uint8_t byte;
	uint64_t *words, *seen;		/* on the device, on the host; NULL: none */
	bool pinned;
	_Atomic bool busy;
};

struct links {
	struct tickets tickets;
	struct chain chains[NR_CHAINS];
};

/* ---- on workers ---------------------------------------------------------------- */

static int issue(const struct chain *c, unsigned i)
{
	int ret;

	if (!c->words)
		return 0;
	ret = rnl_fill(&c->words[i], (uint8_t)(c->byte + i), sizeof(*c->words));
	if (ret || i == c->first)
		return ret;
	return rnl_copy(&c->seen[i], &c->words[i - 1], sizeof(*c->seen));
}

static int run(struct life *life)
{
	struct chain *c = life->arg;
	const unsigned i = life->number;
	int ret;

	if (c->nr_ran != i && !(life->nr_run == 2 && c->nr_ran == i + 1))
		tally_wrong(CHAIN_WRONG, "link %u ran, and %u was next", i, c->nr_ran);
	c->nr_ran = i + 1;
	if (i == c->first)
		c->ran_on = rnl_worker().device;
	place_check(life->round, i == c->first ? life->place : c->ran_on, "a link");
	if (i > c->first && c->held[i - 1]) {
		if (c->silent && rnl_job_wait(&c->links[i - 1]->job, 0))
			tally_wrong(CHAIN_WRONG, "link %u ran, and the one before has a hold", i);
		if (life_deadline(c->links[i - 1]) < 0 && !c->tickets[i - 1]->raced &&
		    !c->tickets[i - 1]->wrote)
			tally_wrong(HELD_EARLY, "a link ran before the release of the one before");
	}
	/* A guard may call the function again. */
	if (!life->round->guarded && !draw(&life->random, 3))
		c->held[i] = ticket_take(c->tickets[i], life, life->deadline >= 0);
	dawdle(&life->random);
	ret = issue(c, i);
	return ret ? ret : draw(&life->random, 12) ? (int)draw(&life->random, 100) : -EPROTO;
}

static bool may_end(const struct life *life, int result)
{
	const struct chain *c = life->arg;
	const struct ticket *t = c->tickets[life->number];

	return life->nr_run && c->held[life->number] && result < 0 &&
	       ((t->nr_begun && t->result == result) ||
		(result == -ETIMEDOUT && life_is_late(life)));
}

static void check(const struct chain *c, struct life *life, int result)
{
	const unsigned i = life->number;
	const int before = i > c->first ? c->results[i - 1] : 0;

	if (c->held[i] && life_deadline(life) < 0)
		ticket_check_told(c->tickets[i], life);
	c->tickets[i]->ended = true;
	/* A lost device may fail a job after the next link has run. */
	if ((before < 0 && life->nr_run && !life->round->failing) ||
	    (before < 0 && result >= 0) ||
	    (result == -ECANCELED && before >= 0 && !life->nr_cancelled &&
	     !(life->waits && life->round->shut)))
		tally_wrong(WRONG_END, "link %u has result %d, and ran %u times; the one before "
			    "has %d", i, result, life->nr_run, before);
	if (!c->words || i == c->first || result < 0 || before < 0)
		return;
	for (unsigned k = 0; k < sizeof(*c->seen); k++) {
		if (((unsigned char *)&c->seen[i])[k] !=
		    (uint8_t)(c->byte + i - 1 + options.wrong)) {
			tally_wrong(WRONG_DATA, "link %u saw not what the one before wrote", i);
			return;
		}
	}
}

static void scrap(struct chain *c)
{
	for (unsigned i = c->first; i < NR_LINKS_MAX; i++)
		life_scrap(c->links[i]);
	c->busy = false;
}

static void notified(struct life *life, int result)
{
	struct chain *c = life->arg;
	const unsigned i = life->number, last = NR_LINKS_MAX - 1;

	for (unsigned k = c->first; c->silent && i == last && k < last; k++) {
		if (rnl_job_wait(&c->links[k]->job, 0))
			tally_wrong(NOTIFIED_EARLY, "the last link, before link %u", k);
		life_over(c->links[k]);
	}
	if (c->nr_notified != i)
		tally_wrong(CHAIN_WRONG, "link %u was told, and %u was next", i, c->nr_notified);
	c->nr_notified = i + 1;
	c->results[i] = result;
	check(c, life, result);
	dawdle(&life->random);
	if (i == last)
		scrap(c);
}

/* ---- the thread that submits --------------------------------------------------- */

static int submit(struct chain *c, uint64_t *random)
{
	struct rnl_pool *pool = c->round->pool;
	struct rnl_job *job = &c->links[c->first]->job;

	switch (draw(random, 5)) {
	case 0:
		for (unsigned i = c->first; i < NR_LINKS_MAX; i++)
			c->links[i]->waits = true;
		return submit_at(pool, job, rnl_clock() + draw(random, 2000000));
	case 1:
		return submit_by_key(pool, job, draw(random, 4));
	case 2:
		return submit_by_key(pool, job, RNL_KEY_WORKER(draw(random, RNL_WORKERS_MAX)));
	case 3:
		return rnl_submit_wait(pool, job, draw(random, 2) ? 0 : MS);
	default:
		return rnl_submit(pool, job);
	}
}

static void prepare(struct chain *c, unsigned i, uint64_t *random)
{
	struct life *life = c->links[i];

	life_renew(life);
	life->waits = false;
	life->deadline = draw(random, 16) ? -1 : (int64_t)draw(random, 3000000);
	c->held[i] = false;
	if (rnl_job_set_deadline(&life->job, life->deadline) ||
	    (i > c->first && rnl_job_set_then(&c->links[i - 1]->job, &life->job)))
		tally_wrong(UNDOCUMENTED, "a link could not be made");
}

static void begin(struct chain *c, uint64_t *random)
{
	const bool closed = c->round->closed;
	uint64_t states[NR_LINKS_MAX];
	int ret;

	for (unsigned i = 0; i < NR_LINKS_MAX; i++) {
		ticket_check_said(c->tickets[i], c->held[i] && life_deadline(c->links[i]) < 0);
		ticket_forget(c->tickets[i]);
		c->held[i] = false;
	}
	c->busy = true;
	c->first = c->nr_ran = c->nr_notified = draw(random, NR_LINKS_MAX - 1);
	c->byte = (uint8_t)draw(random, 200);
	if (c->seen)
		memset(c->seen, 0, NR_LINKS_MAX * sizeof(*c->seen));
	for (unsigned i = c->first; i < NR_LINKS_MAX; i++)
		prepare(c, i, random);
	for (unsigned i = c->first; i < NR_LINKS_MAX; i++) {
		states[i] = life_begin(c->links[i]);
		if (i > c->first)
			class_follow(&c->links[i]->classed, &c->links[c->first]->classed);
	}
	ret = submit(c, random);
	for (unsigned i = c->first; i < NR_LINKS_MAX; i++)
		(void)life_submitted(c->links[i], states[i], ret,
				     MAY_AGAIN | MAY_SHUT | MAY_TIME_OUT, closed);
	if (ret)
		scrap(c);
	else
		tally_add(NR_LINKS, NR_LINKS_MAX - c->first);
}

static bool is_over(const struct chain *c)
{
	for (unsigned i = 0; i < NR_LINKS_MAX; i++) {
		if (!life_is_free(c->links[i]) || !ticket_is_over(c->tickets[i]))
			return false;
	}
	return !c->busy;
}

/* Allocates the words, like turns.c. Without words, the data on the device is not checked. */
static void get_memory(struct chain *c, uint64_t *random)
{
	const size_t bytes = NR_LINKS_MAX * sizeof(*c->seen);
	struct round *r = c->round;

	if (!r->leaves)
		c->words = memory_get(r, draw(random, r->nr_devices), bytes);
	if (!c->words)
		return;
	c->pinned = draw(random, 2);
	c->seen = buffer_get(r, bytes, &c->pinned);
}

static void put_memory(struct chain *c)
{
	while (!is_over(c) && c->words) {
		if (c->links[NR_LINKS_MAX - 1]->end == BY_WAIT)
			(void)life_wait(c->links[NR_LINKS_MAX - 1], 0);
		nap_us(100);
	}
	rnl_memory_put(c->round->pool, c->words);
	buffer_put(c->round, c->seen, c->pinned);
}

static void sit(struct seat *seat)
{
	struct links *all = seat->arg;
	uint64_t *random = &seat->random;

	at(seat, "links");
	for (unsigned i = 0; i < NR_CHAINS; i++)
		get_memory(&all->chains[i], random);
	while (!seat->round->stop) {
		struct chain *c = &all->chains[draw(random, NR_CHAINS)];

		if (is_over(c))
			begin(c, random);
		else if (c->links[NR_LINKS_MAX - 1]->end == BY_WAIT)
			(void)life_wait(c->links[NR_LINKS_MAX - 1], draw(random, 2) ? 0 : MS);
		if (!draw(random, 12))
			(void)life_cancel(c->links[draw(random, NR_LINKS_MAX)]);
		nap_us(draw(random, 200));
	}
	at(seat, "the last links");
	for (unsigned i = 0; i < NR_CHAINS; i++)
		put_memory(&all->chains[i]);
	seat->round->nr_stopped++;
}

void links_begin(struct round *r)
{
	struct links *all = round_alloc(r, sizeof(*all));

	for (unsigned k = 0; k < NR_CHAINS * NR_LINKS_MAX; k++) {
		struct chain *c = &all->chains[k / NR_LINKS_MAX];
		const unsigned i = k % NR_LINKS_MAX;
		enum end end = (enum end)draw(&r->random, NR_ENDS);

		c->round = r;
		if (!i)
			c->silent = draw(&r->random, 2);
		if (i < NR_LINKS_MAX - 1)
			end = c->silent ? BY_ANOTHER : k / NR_LINKS_MAX % 2 ? BY_CQ : BY_CALLBACK;
		else if (!c->silent)
			end = c->links[0]->end;
		c->links[i] = life_new(r, "a link", end, run, notified, c);
		c->links[i]->number = i;
		c->links[i]->goes_along = true;		/* run() looks closer */
		c->links[i]->may_end_unrun = true;	/* check() looks closer */
		c->links[i]->may_end = may_end;
		c->tickets[i] = &all->tickets.all[k];
	}
	releasers_begin(r, &all->tickets);
	seat_take(r, "linker", MAKES, sit, all);
}
