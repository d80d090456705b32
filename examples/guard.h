/* SPDX-License-Identifier: MIT */
/*
 * What the environment wants of the pool's guard: with RUNNEL_GUARD=1 it reports job
 * functions that use the legacy stream, wait, or make memory; with 2 such jobs fail.  The
 * library itself reads no environment.
 */
#ifndef EXAMPLES_GUARD_H
#define EXAMPLES_GUARD_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>

static inline enum rnl_guard guard_wanted(void)
{
	const char *text = getenv("RUNNEL_GUARD");

	if (!text || !*text || !strcmp(text, "0"))
		return RNL_GUARD_OFF;
	if (!strcmp(text, "1"))
		return RNL_GUARD_REPORT;
	if (!strcmp(text, "2"))
		return RNL_GUARD_STRICT;
	fprintf(stderr, "RUNNEL_GUARD is '%s', and was taken for 0: 1 reports, 2 has jobs fail\n",
		text);
	return RNL_GUARD_OFF;
}

/* Whether a message is to be shown: errors are, and what a guard that was asked for finds. */
static inline bool guard_shows(enum rnl_log_level level)
{
	const char *text = getenv("RUNNEL_GUARD");

	return level == RNL_LOG_ERROR ||
	       (level == RNL_LOG_WARNING && text && (!strcmp(text, "1") || !strcmp(text, "2")));
}

#endif /* EXAMPLES_GUARD_H */
