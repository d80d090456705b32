/* SPDX-License-Identifier: MIT */
/*
 * What batch_sha256 prints: hashes, diagnostics, and how it went.
 *
 * DESIGN
 * Hashes and diagnostics come in the order in which sha256sum would print them, also
 * where both go to the same place, so standard output is flushed before anything is
 * written to standard error.  A name with a backslash, a newline or a return in it is
 * printed with these escaped, and a backslash goes before the hash.
 */
#include "config.h"

#include "batch_sha256.h"
#include "quote.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct {
	bool no_stdout;
	bool failed;		/* to write */
} report;

void sha256_report_begin(bool no_stdout)
{
	report.no_stdout = no_stdout;
}

void sha256_report_flush(void)
{
	if (fflush(stdout))
		report.failed = true;
}

void sha256_report_error(int err, const char *format, ...)
{
	va_list args;

	sha256_report_flush();
	fputs("batch_sha256: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	if (err)
		fprintf(stderr, ": %s", strerror(err));
	fputc('\n', stderr);
}

void sha256_report_die(int err, const char *what)
{
	sha256_report_error(0, "%s: %s", what, rnl_strerror(err));
	_exit(sha256_report_end(true));
}

/* ---- messages ------------------------------------------------------------ */

static void print_name(const char *name)
{
	for (; *name; name++) {
		if (*name == '\n')
			fputs("\\n", stdout);
		else if (*name == '\r')
			fputs("\\r", stdout);
		else if (*name == '\\')
			fputs("\\\\", stdout);
		else
			putchar(*name);
	}
}

static void print_hash(const struct sha256_message *m)
{
	static const char digits[] = "0123456789abcdef";
	char hex[64 + 2];

	for (int i = 0; i < 64; i++)
		hex[i] = digits[m->state.word[i / 8] >> (28 - i % 8 * 4) & 15];
	hex[64] = hex[65] = ' ';
	if (!strpbrk(m->name, "\\\n\r")) {
		fwrite(hex, 1, sizeof(hex), stdout);
		fputs(m->name, stdout);
	} else {
		putchar('\\');
		fwrite(hex, 1, sizeof(hex), stdout);
		print_name(m->name);
	}
	if (m->number)
		printf(":%" PRIu64, m->number);
	putchar('\n');
}

void sha256_report_message(const struct sha256_message *m)
{
	if (m->err)
		sha256_report_error(m->err, "%s", quote_name(m->name, false));
	else
		print_hash(m);
}

/* ---- the end ------------------------------------------------------------- */

void sha256_report_stats(const struct sha256_slots *slots, uint64_t messages, uint64_t bytes,
			 uint64_t ns)
{
	struct rnl_batcher_stats batches = RNL_BATCHER_STATS_INIT;
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats jobs = RNL_POOL_STATS_INIT;
	const double seconds = (double)(ns ? ns : 1) / 1e9;

	if (rnl_pool_device(slots->pool, &info) || rnl_pool_stats(slots->pool, &jobs))
		return;
	sha256_report_flush();
	fprintf(stderr,
		"device:   %s, %u workers\n"
		"messages: %" PRIu64 ", %.1f MB, in %.3f s: %.0f MB/s, %.0f messages/s\n",
		info.cuda ? info.name : "host (no GPU)", jobs.nr_workers, messages,
		(double)bytes / 1e6, seconds, (double)bytes / 1e6 / seconds,
		(double)messages / seconds);
	if (!slots->batcher || rnl_batcher_stats(slots->batcher, &batches))
		fprintf(stderr, "parts:    %" PRIu64 ", a job for each\n", slots->nr_parts);
	else
		fprintf(stderr, "parts:    %" PRIu64 " in %" PRIu64 " batches, %u in the largest\n",
			slots->nr_parts, batches.batches, batches.largest);
}

/*
 * Data that could not be written may have been dropped by then, and with it the
 * reason; sha256sum says what we say.
 */
int sha256_report_end(bool failed)
{
	int err = report.no_stdout ? EBADF : 0;

	sha256_report_flush();
	if (ferror(stdout))
		report.failed = true;
	if (fclose(stdout) && !report.failed) {
		err = errno;
		report.failed = true;
	}
	if (report.failed)
		fprintf(stderr, "batch_sha256: write error%s%s\n", err ? ": " : "",
			err ? strerror(err) : "");
	return failed || report.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
