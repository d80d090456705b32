/* SPDX-License-Identifier: MIT */
/*
 * Limits the rounds of a randomized test: all rounds on an idle machine, fewer on a busy one.  So
 * the test ends in time, and its time limit only ends a test that hangs.
 */
#ifndef EFFORT_H
#define EFFORT_H

#include "await.h"

/* Exceeds the time of all rounds on an idle machine; a test's limit is SUITE_BUSY times more. */
#define EFFORT_S (2 * PATIENCE_S)

struct effort {
	double until;
	unsigned nr, wanted;
};

static inline struct effort effort_of(unsigned wanted)
{
	return (struct effort){ .until = seconds_now() + EFFORT_S, .wanted = wanted };
}

/* Counts a round.  Returns false if all are done or, with a message, if the time is over. */
static inline bool effort_goes_on(struct effort *effort)
{
	if (effort->nr == effort->wanted)
		return false;
	if (seconds_now() >= effort->until) {
		printf("# %u of %u rounds in %.0f s: the machine is busy\n", effort->nr,
		       effort->wanted, EFFORT_S);
		return false;
	}
	effort->nr++;
	return true;
}

#endif /* EFFORT_H */
