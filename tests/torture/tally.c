/* SPDX-License-Identifier: MIT */
/*
 * Counts of errors by kind, and of the work done, in memory that children share.
 *
 * DESIGN
 *	Every kind is printed, as in rcutorture's histogram; every count should be 0. The first
 *	errors of a kind are printed when they happen, with their round.
 */
#include "torture.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define NOTIFIED_MAX 5		/* printed errors of each kind */

struct tally *tally;

#define TEXT_OF(name, text) text,
static const char *const wrong_texts[NR_WRONGS] = { WRONGS(TEXT_OF) };
static const char *const count_texts[NR_COUNTS] = { COUNTS_OF(TEXT_OF) };

void tally_open(void)
{
	tally = mmap(NULL, sizeof(*tally), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
		     0);
	if (tally == MAP_FAILED) {
		perror("torture: mmap");
		exit(EXIT_FAILURE);
	}
	tally->began = (double)now_ns() * 1e-9;
}

bool tally_wrong(enum wrong wrong, const char *format, ...)
{
	char what[400];
	va_list ap;

	if (tally->wrongs[wrong]++ >= NOTIFIED_MAX)
		return false;
	va_start(ap, format);
	vsnprintf(what, sizeof(what), format, ap);
	va_end(ap);
	fprintf(stderr, "torture: seed %llu, round %llu: %s: %s\n",
		(unsigned long long)options.seed, (unsigned long long)tally->round,
		wrong_texts[wrong], what);
	if (sim_report) {
		sim_report(wrong_texts[wrong]);
		_exit(EXIT_FAILURE);
	}
	return true;
}

uint64_t tally_nr_wrong(void)
{
	uint64_t nr = 0;

	for (unsigned i = 0; i < NR_WRONGS; i++)
		nr += tally->wrongs[i];
	return nr;
}

void tally_print(void)
{
	const double seconds = (double)now_ns() * 1e-9 - tally->began;

	for (unsigned i = 0; i < NR_WRONGS; i++)
		printf("%8llu  %s\n", (unsigned long long)tally->wrongs[i], wrong_texts[i]);
	printf("torture: seed %llu, device %s%s, %.1f s:", (unsigned long long)options.seed,
	       options.device, options.fake ? " (the double)" : "", seconds);
	for (unsigned i = 0; i < NR_COUNTS; i++)
		printf("%s %llu %s", i ? "," : "", (unsigned long long)tally->counts[i],
		       count_texts[i]);
	if (tally->slowest_end_ns)
		printf("; all jobs of a lost device ended within %.0f ms",
		       (double)tally->slowest_end_ns * 1e-6);
	printf("\n");
}

bool is_printed(void)
{
	if (!fflush(stdout) && !ferror(stdout))
		return true;
	fprintf(stderr, "torture: standard output: %s\n", strerror(errno));
	return false;
}
