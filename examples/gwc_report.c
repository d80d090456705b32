/* SPDX-License-Identifier: MIT */
/*
 * What gwc prints: counts, diagnostics, and how the work goes on.
 *
 * DESIGN
 * Counts and diagnostics come in the order in which wc would print them, also
 * where both go to the same place, so standard output is flushed before
 * anything is written to standard error.
 *
 * The line of progress is on standard error, only if that is a terminal, only
 * while nothing else is printed, and gone at the end.
 */
#include "config.h"

#include "gwc.h"
#include "quote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define PROGRESS_FIRST_NS 500000000	/* work that is done by then shows none */
#define PROGRESS_EVERY_NS 100000000

static struct {
	bool no_stdout;
	bool failed;		/* to write */
	bool progress;		/* there is a line of it */
	uint64_t progress_ns;	/* when it was written, and ... */
	uint64_t progress_bytes;	/* ... what was counted then */
} report;

uint64_t gwc_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void flush(void)
{
	if (fflush(stdout))
		report.failed = true;
}

static void erase_progress(void)
{
	if (report.progress)
		fputs("\r\033[K", stderr);
	report.progress = false;
}

void gwc_report_begin(bool no_stdout)
{
	report.no_stdout = no_stdout;
}

/* ---- lines --------------------------------------------------------------- */

void gwc_report_counts(const struct gwc_options *opt, int width, const struct gwc_counts *counts,
		       const char *name)
{
	const struct {
		bool wanted;
		uint64_t count;
	} columns[] = {
		{ opt->lines, counts->lines },
		{ opt->words, counts->words },
		{ opt->chars, counts->bytes },
		{ opt->bytes, counts->bytes },
	};
	const char *space = "";

	erase_progress();
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		if (!columns[i].wanted)
			continue;
		printf("%s%*" PRIu64, space, width, columns[i].count);
		space = " ";
	}
	if (name)
		printf(" %s", strchr(name, '\n') ? quote_name(name, false) : name);
	putchar('\n');
}

void gwc_report_error(int err, const char *format, ...)
{
	va_list args;

	erase_progress();
	flush();
	fputs("gwc: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
}

bool gwc_report_progress_wanted(void)
{
	return isatty(STDERR_FILENO);
}

void gwc_report_progress(uint64_t bytes, uint64_t since_ns)
{
	const uint64_t now = gwc_now_ns();
	const double seconds = (double)(now - since_ns) / 1e9;

	if (now - since_ns < PROGRESS_FIRST_NS || now - report.progress_ns < PROGRESS_EVERY_NS)
		return;
	/* Without progress no line of it: somebody may be typing the input. */
	erase_progress();
	if (bytes != report.progress_bytes) {
		flush();
		fprintf(stderr, "gwc: %.0f MB counted, %.0f MB/s", (double)bytes / 1e6,
			(double)bytes / 1e6 / seconds);
		report.progress = true;
	}
	report.progress_ns = now;
	report.progress_bytes = bytes;
}

void gwc_report_stats(struct rnl_pool *pool, const struct gwc_pipe_stats *stats,
		      const struct gwc_options *opt, uint64_t files, uint64_t bytes, uint64_t ns)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats jobs = RNL_POOL_STATS_INIT;
	const double seconds = (double)(ns ? ns : 1) / 1e9;

	if (rnl_pool_device(pool, &info) || rnl_pool_stats(pool, &jobs))
		return;
	erase_progress();
	flush();
	fprintf(stderr,
		"device:  %s\n"
		"workers: %u, fed by %u producers\n"
		"counted: %.1f MB in %" PRIu64 " files, %.3f s, %.0f MB/s\n"
		"jobs:    %" PRIu64 ", up to %" PRIu64 " in flight at once\n",
		info.cuda ? info.name : "host (no GPU)", jobs.nr_workers, opt->producers,
		(double)bytes / 1e6, files, seconds, (double)bytes / 1e6 / seconds,
		stats->jobs, stats->max_in_flight);
}

/*
 * Data that could not be written may have been dropped by then, and with it the
 * reason; wc says what we say.
 */
int gwc_report_end(bool failed)
{
	int err = report.no_stdout ? EBADF : 0;

	erase_progress();
	flush();
	if (ferror(stdout))
		report.failed = true;
	if (fclose(stdout) && !report.failed) {
		err = errno;
		report.failed = true;
	}
	if (report.failed)
		fprintf(stderr, "gwc: write error%s%s\n", err ? ": " : "", err ? strerror(err) : "");
	return failed || report.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
