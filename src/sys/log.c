/* SPDX-License-Identifier: MIT */
/*
 * Messages: writes to the pool's log, or to the log of the process.
 *
 * DESIGN
 *	The process's log is set before other threads use the library.  So it needs no lock, which a
 *	fork could leave locked in the child.
 *	The variable RUNNEL_LOG is read once, at the first line that may be logged, at the latest when
 *	the first pool is created.
 *	A mistake in a job repeats with each job, so most lines about refused calls are limited.  A
 *	table counts the lines of the current second for each format.  Formats that share a slot of
 *	the table share a limit.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sys/abi.h"
#include "sys/atomic.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/mute.h"
#include "sys/thread.h"

#define LINE_BYTES 640u		/* size of a message with its NUL */
#define LIMIT 100u		/* lines of one format in a second */
#define LIMIT_BITS 6

static struct rnl__log of_process;

static _Atomic uint64_t limits[1 << LIMIT_BITS]; /* second << 32 | lines in it */

static const char *const level_names[] = { "error", "warning", "info", "debug" };

#define NR_LEVELS ((int)(sizeof(level_names) / sizeof(level_names[0])))
#define LEVEL_UNREAD (-2)	/* RUNNEL_LOG was not read yet */
#define LEVEL_UNSET (-1)

static _Atomic int level_set = LEVEL_UNREAD;

void rnl_set_log(rnl_log_fn *fn, void *arg)
{
	of_process = (struct rnl__log){ fn, arg };
}

/* Logs to the standard error output, if the process set no log. */
static void log_default(enum rnl_log_level level, const char *msg)
{
	struct rnl__mute mute;
	char line[LINE_BYTES + sizeof("runnel: warning: \n")];
	int nr;

	/* dprintf() would allocate. */
	nr = snprintf(line, sizeof(line), "runnel: %s: %s\n", level_names[level], msg);
	rnl__mute_begin(&mute);
	/* One write, so lines of several threads do not mix; if it fails, the line is lost. */
	rnl__mute_end(&mute, write(STDERR_FILENO, line, (size_t)nr) < 0 ? errno : 0);
}

/* Reads the variable RUNNEL_LOG.  Returns its level, or LEVEL_UNSET. */
static int level_read(void)
{
	const char *value = getenv("RUNNEL_LOG");
	int level = 0;

	if (value && !*value)
		value = NULL;
	while (value && level < NR_LEVELS && strcmp(value, level_names[level]))
		level++;
	if (!value || level == NR_LEVELS)
		level = LEVEL_UNSET;
	/* relaxed: each thread that reads the variable finds the same */
	atomic_store_explicit(&level_set, level, memory_order_relaxed);
	if (value && level == LEVEL_UNSET)
		rnl__log(NULL, RNL_LOG_WARNING, "RUNNEL_LOG is \"%.40s\"; it must be error, warning, "
			 "info or debug: it is ignored", value);
	return level;
}

bool rnl__log_wants(const struct rnl__log *log, enum rnl_log_level level)
{
	const bool has_function = (log && log->fn) || of_process.fn;
	/* relaxed: it is set once, and orders nothing */
	int most = atomic_load_explicit(&level_set, memory_order_relaxed);

	if (most == LEVEL_UNREAD)
		most = level_read();
	if (most == LEVEL_UNSET)
		most = has_function ? RNL_LOG_INFO : RNL_LOG_WARNING;
	return (int)level <= most;
}

__attribute__((format(printf, 3, 0)))
static void log_list(const struct rnl__log *log, enum rnl_log_level level, const char *format,
		     va_list list)
{
	RNL__UNCANCELLED();
	const struct rnl__log *to = log && log->fn ? log : &of_process;
	char line[LINE_BYTES];

	if (!rnl__log_wants(log, level))
		return;
	vsnprintf(line, sizeof(line), format, list);
	if (to->fn)
		to->fn(to->arg, level, line);
	else
		log_default(level, line);
}

void rnl__log(const struct rnl__log *log, enum rnl_log_level level, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_list(log, level, format, list);
	va_end(list);
}

/* ---- lines that a program can cause in a loop ---------------------------- */

/* Counts a line.  Returns true if it may be logged.  @left_out: earlier lines, not logged. */
static bool log_count(const char *format, uint32_t *left_out)
{
	/* Fibonacci hashing: the high bits of the product are the random ones. */
	const uint64_t hash = (uintptr_t)format * UINT64_C(11400714819323198485);
	_Atomic uint64_t *limit = &limits[hash >> (64 - LIMIT_BITS)];
	const uint64_t second = rnl__now_coarse() / 1000000000u;
	uint64_t old = rnl__peek(limit), now;

	do {
		now = old >> 32 == (uint32_t)second ? old + 1 : second << 32 | 1;
		/* relaxed, both: a figure orders nothing */
	} while (!atomic_compare_exchange_weak_explicit(limit, &old, now, memory_order_relaxed,
							memory_order_relaxed));
	*left_out = (uint32_t)now == 1 && (uint32_t)old > LIMIT ? (uint32_t)old - LIMIT : 0;
	return (uint32_t)now <= LIMIT;
}

/* Returns true if the line may be logged now.  Logs how many earlier lines were left out. */
bool rnl__log_admits(const struct rnl__log *log, enum rnl_log_level level, const char *format)
{
	uint32_t left_out;

	if (!rnl__log_wants(log, level) || !log_count(format, &left_out))
		return false;
	if (left_out)
		rnl__log(log, level, "%" PRIu32 " more lines like the next one were left out",
			 left_out);
	return true;
}

__attribute__((format(printf, 3, 0)))
static void log_limited(const struct rnl__log *log, enum rnl_log_level level, const char *format,
			va_list list)
{
	if (rnl__log_admits(log, level, format))
		log_list(log, level, format, list);
}

void rnl__log_limited(const struct rnl__log *log, enum rnl_log_level level, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_limited(log, level, format, list);
	va_end(list);
}

int rnl__refused(const struct rnl__log *log, int ret, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_limited(log, RNL_LOG_ERROR, format, list);
	va_end(list);
	return ret;
}

int rnl__invalid(const struct rnl__log *log, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_limited(log, RNL_LOG_ERROR, format, list);
	va_end(list);
	return -EINVAL;
}

/* ---- arguments that are refused ------------------------------------------ */

int rnl__check_ranges(const struct rnl__log *log, const char *call,
		      const struct rnl__range *ranges, unsigned nr)
{
	for (const struct rnl__range *r = ranges; r < ranges + nr; r++) {
		if (r->value < r->least || r->value > r->most)
			return rnl__invalid(log, "%s: %s is %" PRIu64 "; it must be %" PRIu64
					    " to %" PRIu64, call, r->name, r->value, r->least,
					    r->most);
	}
	return 0;
}

int rnl__check_given(const struct rnl__log *log, const char *call, const char *what,
		     const void *dst, size_t min)
{
	const int ret = rnl__check_out(dst, min);

	if (!ret)
		return 0;
	return dst ? rnl__bad_struct(log, call, what, dst, ret) :
		     rnl__invalid(log, "%s: %s is NULL", call, what);
}

int rnl__system_refused(const struct rnl__log *log, const char *what, const char *call, int err)
{
	if (err == -EAGAIN || err == -ENOMEM || err == -EMFILE || err == -ENFILE)
		return err;
	rnl__log(log, RNL_LOG_ERROR, "%s: the system refuses %s (%s): allow it, if a filter of system "
		 "calls (seccomp) or a policy does that", what, call, rnl_strerror(err));
	return -ENOTSUP;
}

int rnl__bad_struct(const struct rnl__log *log, const char *call, const char *what,
		    const void *from, int ret)
{
	uint32_t size;

	memcpy(&size, from, sizeof(size));
	return rnl__refused(log, ret, ret == -E2BIG ?
			    "%s: %s, of %" PRIu32 " bytes, have a field set that is newer than the "
			    "library" :
			    "%s: the size of %s is %" PRIu32 "; it must be the sizeof of that "
			    "struct, as its RNL_..._INIT sets it", call, what, size);
}
