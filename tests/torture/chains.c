/* SPDX-License-Identifier: MIT */
/*
 * Chains: a few jobs, each of which begins the next one from its function or its callback, like a
 * connection's state machine. Some chains have a key, and some of their jobs are cancelled.
 *
 * DESIGN
 *	A chain has a number of hops left. When a link cannot be begun, or ends without having run,
 *	the chain breaks, and its maker continues it with new hops. The links of a chain run one
 *	after the other, so with a key they are counted in memory that is not atomic.
 */
#include "life.h"

#include <stdlib.h>

#define NR_CHAINS 4
#define NR_LINKS_MAX 3

struct chain {
	struct life *links[NR_LINKS_MAX];
	unsigned nr_links;
	bool keyed, from_function;
	uint64_t key;
	_Atomic unsigned hops;		/* hops left */
	_Atomic bool whole;		/* a link is in flight */
	uint64_t nr_ran;		/* links that ran; only if the chain has a key */
};

static unsigned place_of(const struct chain *c, const struct life *life)
{
	unsigned i = 0;

	while (c->links[i] != life)
		i++;
	return i;
}

/* Begins the link after @life, or breaks the chain. */
static void hop(struct chain *c, const struct life *life)
{
	struct life *next = c->links[(place_of(c, life) + 1) % c->nr_links];

	if (life->round->stop || !c->hops || life_submit(next, c->keyed ? HAS_KEY : 0, c->key))
		c->whole = false;
	else
		c->hops--;
}

static int run(struct life *life)
{
	struct chain *c = life->arg;

	dawdle(&life->random);
	if (c->keyed)
		c->nr_ran++;
	tally_add(NR_LINKS, 1);
	if (c->from_function)
		hop(c, life);
	return 0;
}

static void notified(struct life *life, int result)
{
	struct chain *c = life->arg;

	if (!c->from_function)
		hop(c, life);
	else if (result == -ECANCELED || result == -ETIMEDOUT)
		c->whole = false;
}

static void keep(struct seat *seat)
{
	struct chain *chains = seat->arg;

	at(seat, "mending chains");
	while (!seat->round->stop) {
		struct chain *c = &chains[draw(&seat->random, NR_CHAINS)];
		struct life *life = c->links[draw(&seat->random, c->nr_links)];

		if (!c->whole && life_is_free(life)) {
			c->hops = draw(&seat->random, 2) ? 20 : 2000;
			c->whole = true;
			if (life_submit(life, c->keyed ? HAS_KEY : 0, c->key))
				c->whole = false;
		} else if (!draw(&seat->random, 4)) {
			(void)life_cancel(life);
		}
		nap_us(draw(&seat->random, 200));
	}
	seat->round->nr_stopped++;
}

void chains_begin(struct round *r)
{
	struct chain *chains = round_alloc(r, NR_CHAINS * sizeof(*chains));

	for (unsigned i = 0; i < NR_CHAINS; i++) {
		struct chain *c = &chains[i];

		c->nr_links = 1 + draw(&r->random, NR_LINKS_MAX);
		c->keyed = draw(&r->random, 2);
		c->key = draw(&r->random, 2);
		/* A function cannot begin its own job. */
		c->from_function = c->nr_links > 1 && draw(&r->random, 2);
		for (unsigned k = 0; k < c->nr_links; k++)
			c->links[k] = life_new(r, "a link", BY_CALLBACK, run, notified, c);
	}
	seat_take(r, "chainer", MAKES, keep, chains);
}
