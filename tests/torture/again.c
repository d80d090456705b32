/* SPDX-License-Identifier: MIT */
/*
 * Notices that submit themselves again, as a server's do.
 *
 * DESIGN
 *	A notice comes again only after its mark was left, for which somebody has submitted
 *	a job. So it does not come more often than there are such jobs. SLACK is for
 *	submits that have not returned, SLACK_OTHERS for jobs of batches and maps.
 */
#include "life.h"

#define NR_NOTICES COUNT(((struct round *)0)->notices)
#define SLACK 200
#define SLACK_OTHERS 20000

static int run(struct life *life)
{
	dawdle(&life->random);
	return 0;
}

static void told(struct life *life, int result)
{
	struct round *r = life->round;
	const uint64_t came = ++r->nr_came, others = r->accepted - r->nr_noticed;

	if (came > NR_NOTICES * others + (r->others ? SLACK_OTHERS : SLACK) &&
	    tally_wrong(NOTICED_AGAIN, "%llu times, while %llu other jobs were accepted",
			(unsigned long long)came, (unsigned long long)others))
		return;
	if (result || r->stop || r->shut)
		return;
	/* What is counted here is accepted: no mark, no space, and no deadline is in the way. */
	r->nr_noticed++;
	if (life_submit(life, FOR_LOW_WATER, 0))
		r->nr_noticed--;
}

static void begin_all(struct seat *seat)
{
	struct life **notices = seat->arg;
	struct round *r = seat->round;

	at(seat, "notices that come again");
	for (unsigned i = 0; i < NR_NOTICES; i++)
		told(notices[i], 0);
	r->nr_stopped++;
}

void again_begin(struct round *r)
{
	for (unsigned i = 0; i < NR_NOTICES; i++)
		r->notices[i] = life_new(r, "a notice", draw(&r->random, 2) ? BY_CALLBACK : BY_CQ,
					 run, told, NULL);
	seat_take(r, "noticer", MAKES, begin_all, r->notices);
}
