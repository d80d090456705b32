/* SPDX-License-Identifier: MIT */
/*
 * Command lines of long options alone.  What is wrong is named on standard error, and
 * the exit status is 2.
 */
#include "bench.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void bench_try_help(void)
{
	fprintf(stderr, "Try '%s --help' for more information.\n", bench_name);
	exit(BENCH_EXIT_USAGE);
}

void bench_usage(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", bench_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	bench_try_help();
}

void bench_help(const char *text)
{
	fputs(text, stdout);
	if (!fflush(stdout))
		exit(EXIT_SUCCESS);
	fprintf(stderr, "%s: standard output: %s\n", bench_name, strerror(errno));
	exit(EXIT_FAILURE);
}

unsigned long bench_number_at(const char *arg, unsigned long max, char **end)
{
	unsigned long number;

	*end = (char *)arg;
	if (*arg < '0' || *arg > '9')
		return 0;
	errno = 0;
	number = strtoul(arg, end, 10);
	return errno || number > max ? 0 : number;
}

unsigned long bench_number(const char *option, const char *arg, unsigned long max)
{
	char *end;
	unsigned long number = bench_number_at(arg, max, &end);

	if (!number || *end)
		bench_usage("'%s' is not good for --%s: give a number from 1 to %lu", arg, option,
			    max);
	return number;
}

void bench_names(const char *option, const char *arg, bool *set, const char *(*name)(unsigned))
{
	for (unsigned i = 0; name(i); i++)
		set[i] = false;
	for (const char *at = arg;; at++) {
		const size_t length = strcspn(at, ",");
		unsigned i = 0;

		while (name(i) && (strlen(name(i)) != length || memcmp(name(i), at, length)))
			i++;
		if (!name(i))
			bench_usage("'%.*s' is not good for --%s: see --help for its names",
				    (int)length, at, option);
		set[i] = true;
		at += length;
		if (!*at)
			return;
	}
}
