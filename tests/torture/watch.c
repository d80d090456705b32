/* SPDX-License-Identifier: MIT */
/*
 * The watch: when work lasts too long, it prints the activity of each seat and the records of
 * unfinished jobs, and ends the run.
 */
#include "life.h"

#include <stdio.h>
#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	struct round *round;	/* NULL: none yet */
	uint64_t until;		/* 0: no limit */
	bool begun;
} on = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* On the double the parent prints the tally; a simulation has no parent. */
_Noreturn void give_up(struct round *r, const char *why)
{
	tally_wrong(TOO_LATE, "%s; the seats:", why);
	if (r) {
		seats_print(r);
		jobs_print(r);
		lives_print(r);
		classes_print(r);
	}
	if (!options.fake || sim_begin)
		tally_print();
	_exit(EXIT_FAILURE);
}

static void *watch_all(void *arg)
{
	for (;;) {
		nap_us(20000);
		pthread_mutex_lock(&on.lock);
		if (on.until && now_ns() > on.until)
			give_up(on.round, "a round did not end");
		pthread_mutex_unlock(&on.lock);
	}
	return arg;
}

void watch(struct round *r, int64_t ns)
{
	pthread_t thread;

	pthread_mutex_lock(&on.lock);
	on.round = r;
	on.until = ns ? now_ns() + (uint64_t)ns : 0;
	if (!on.begun && pthread_create(&thread, NULL, watch_all, NULL))
		give_up(r, "a thread could not be started");
	if (!on.begun)
		pthread_detach(thread);
	on.begun = true;
	pthread_mutex_unlock(&on.lock);
}
