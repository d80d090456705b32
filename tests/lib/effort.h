/* SPDX-License-Identifier: MIT */
/*
 * How many rounds a test at random does: all of them on an idle machine, fewer on a busy one. So a
 * test ends by itself, and its time limit only ends one that hangs.
 */
#ifndef EFFORT_H
#define EFFORT_H

#include "await.h"

/* All rounds of a test take less on an idle machine; its limit is SUITE_BUSY times a longer time. */
#define EFFORT_S (2 * PATIENCE_S)

struct effort {
	double until;
	unsigned nr, wanted;
};

static inline struct effort effort_of(unsigned wanted)
{
	return (struct effort){ .until = seconds_now() + EFFORT_S, .wanted = wanted };
}

/* Counts a round. False: all were done, or the time is over, which is said. */
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
