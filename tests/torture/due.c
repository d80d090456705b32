/* SPDX-License-Identifier: MIT */
/*
 * Delayed jobs: some start once, some submit themselves again for their next time, some are
 * cancelled long before their time. No job starts early by the test's clock.
 */
#include "life.h"

#include <stdlib.h>

#define NR_DUE 48
#define FAR (3600 * SECOND)

struct due {
	struct life *life;
	_Atomic int64_t start_ns; /* when this life's job should start */
	int64_t period_ns;	/* 0: starts once */
	_Atomic int64_t owed_ns; /* the latest time for the notification; 0: none is due */
};

struct dues {
	struct seat *seat;
	struct due dues[NR_DUE];
};

static int run(struct life *life)
{
	const struct due *d = life->arg;
	const int64_t early = d->start_ns - (int64_t)now_ns();

	if (early > 0)
		tally_wrong(STARTED_EARLY, "by %lld ns", (long long)early);
	dawdle(&life->random);
	return 0;
}

static int64_t patience(void)
{
	return long_ns() / 2;
}

/* Submits a job. Only the calling thread uses the job. */
static void submit(struct due *d)
{
	struct life *life = d->life;
	const bool closed = life->round->closed, keyed = draw(&life->random, 2);
	struct rnl_pool *pool = life->round->pool;
	const uint64_t state = life_begin(life), key = draw(&life->random, 4);
	int ret;

	if (!state)
		return;
	life->waits = true;
	life->classed.queued = !keyed;
	d->owed_ns = d->start_ns + patience();
	submit_anew(&life->job);
	if (keyed)
		ret = submit_by_key_at(pool, &life->job, key, d->start_ns);
	else
		ret = submit_at(pool, &life->job, d->start_ns);
	if (!life_submitted(life, state, ret, MAY_SHUT, closed))
		tally_add(NR_DELAYED, 1);
}

static void notified(struct life *life, int result)
{
	struct due *d = life->arg;

	d->owed_ns = 0;
	dawdle(&life->random);
	if (result || !d->period_ns || life->round->stop)
		return;
	d->start_ns += d->period_ns;
	submit(d);
}

static void begin(struct due *d, uint64_t *random)
{
	const int64_t now = (int64_t)now_ns(), ours = rnl_clock();

	if (ours < now || ours > (int64_t)now_ns())
		tally_wrong(UNDOCUMENTED, "rnl_clock() is not CLOCK_MONOTONIC");
	d->period_ns = draw(random, 4) ? 0 : 1 + draw(random, 3000000);
	d->life->classing = ANY_CLASS;
	switch (draw(random, 8)) {
	case 0:
		/* Not in a class: others would wait for its slot, and the class's end for it. */
		d->start_ns = now + FAR;
		d->life->classing = NO_CLASS;
		break;
	case 1:
		d->start_ns = now - draw(random, 1000);
		break;
	default:
		d->start_ns = now + draw(random, 20000000);
	}
	submit(d);
}

static void look_at(struct due *d, uint64_t *random)
{
	struct life *life = d->life;
	const int64_t owed = d->owed_ns;

	if (life_is_free(life)) {
		begin(d, random);
	} else if (!life->nr_cancelled &&
		   (!draw(random, 16) || d->start_ns > (int64_t)now_ns() + FAR / 2)) {
		if (!life_cancel(life) && owed > (int64_t)now_ns() + 2 * patience())
			d->owed_ns = (int64_t)now_ns() + patience();
	} else if (life->end == BY_WAIT) {
		(void)life_wait(life, 0);
	}
	if (owed && owed == d->owed_ns && (int64_t)now_ns() > owed) {
		if (tally_wrong(NOTIFIED_LATE, "a delayed job"))
			lives_print(life->round);
		d->owed_ns = 0;
	}
}

static void sit(struct seat *seat)
{
	struct dues *all = seat->arg;

	at(seat, "delayed jobs");
	while (!seat->round->stop) {
		look_at(&all->dues[draw(&seat->random, NR_DUE)], &seat->random);
		nap_us(draw(&seat->random, 100));
	}
	seat->round->nr_stopped++;
}

void due_begin(struct round *r)
{
	struct dues *all = round_alloc(r, sizeof(*all));

	for (unsigned i = 0; i < NR_DUE; i++)
		all->dues[i].life = life_new(r, "a delayed job",
					     (enum end)draw(&r->random, NR_ENDS), run, notified,
					     &all->dues[i]);
	seat_take(r, "delayer", MAKES, sit, all);
}
