/* SPDX-License-Identifier: MIT */
/* A progress line on the terminal; progress.h describes the design. */
#include "config.h"

#include "common/progress.h"
#include "common/program.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <unistd.h>

#define PERIOD_NS 100000000u
#define BAR_WIDTH 30

static struct {
	const char *what, *unit;
	uint64_t total, begin, told;
	double size;
} now;
static atomic_bool shown;

void progress_begin(const char *what, uint64_t total, double size, const char *unit)
{
	now.what = what;
	now.unit = unit;
	now.total = total;
	now.size = size;
	now.begin = now.told = program_now_ns();
}

void progress_clear(void)
{
	if (atomic_exchange(&shown, false))
		fputs("\r\033[K", stderr);
}

static void print(uint64_t done, double s)
{
	static const char bar[] = "##############################..............................";
	const double per_s = (double)done / now.size / s;

	if (!now.total) {
		fprintf(stderr, "\r%-12s %10.0f %s %7.0f %s/s\033[K", now.what,
			(double)done / now.size, now.unit, per_s, now.unit);
	} else {
		const double part = (double)done / (double)now.total;

		fprintf(stderr, "\r%-12s %.*s %3d %%  %7.*f %s/s  %5.0f s left\033[K", now.what,
			BAR_WIDTH, bar + BAR_WIDTH - (int)(BAR_WIDTH * part), (int)(100 * part),
			per_s < 100, per_s, now.unit, done ? s * (1 - part) / part : 0);
	}
}

void progress_show(uint64_t done)
{
	const uint64_t at = program_now_ns();

	if (now.total && done >= now.total) {
		progress_clear();
		return;
	}
	if (at - now.told < PERIOD_NS || !isatty(STDERR_FILENO))
		return;
	now.told = at;
	print(done, (double)(at - now.begin) / 1e9);
	atomic_store(&shown, true);
}
