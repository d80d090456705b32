/* SPDX-License-Identifier: MIT */
/* Prints a command's progress; progress.h describes it. */
#include "progress.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include "experiment.h"

static struct {
	unsigned done, total;
	uint64_t begin;
} now;
static atomic_bool shown;		/* atomic: a worker that prints a message clears the line */

void tool_progress_begin(unsigned total)
{
	now.done = 0;
	now.total = total;
	now.begin = tool_now();
}

void tool_progress_clear(void)
{
	if (atomic_exchange(&shown, false))
		fputs("\r\033[K", stderr);
}

void tool_progress_step(void)
{
	const double s = (double)(tool_now() - now.begin) / 1e9;

	now.done++;
	tool_progress_clear();
	if (now.done >= now.total || !isatty(STDERR_FILENO))
		return;
	fprintf(stderr, "%u of %u, %3u %%, %.0f s left", now.done, now.total,
		100 * now.done / now.total, s * (now.total - now.done) / now.done);
	atomic_store(&shown, true);
}
