/* SPDX-License-Identifier: MIT */
/*
 * Messages go to the log of their pool, or to the process's.
 *
 * DESIGN
 *	The process's log is set before other threads use the library, so it has no lock, which
 *	a fork could leave locked in the child.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "sys/log.h"
#include "sys/thread.h"

static struct rnl__log of_process;

void rnl_set_log(rnl_log_fn *fn, void *arg)
{
	of_process = (struct rnl__log){ fn, arg };
}

void rnl_log_stderr(void *arg, enum rnl_log_level level, const char *msg)
{
	RNL__UNCANCELLED();
	static const char *const names[] = { "error", "warning", "info" };

	(void)arg;
	/* One write, so that lines of several threads do not mix; where it fails nobody can be told. */
	(void)!dprintf(STDERR_FILENO, "runnel: %s: %s\n",
		       names[level < RNL_LOG_INFO ? level : RNL_LOG_INFO], msg);
}

__attribute__((format(printf, 3, 0)))
static void log_list(const struct rnl__log *log, enum rnl_log_level level, const char *format,
		     va_list list)
{
	RNL__UNCANCELLED();
	const struct rnl__log *to = log && log->fn ? log : &of_process;
	char line[640];

	if (!to->fn)
		return;
	vsnprintf(line, sizeof(line), format, list);
	to->fn(to->arg, level, line);
}

void rnl__log(const struct rnl__log *log, enum rnl_log_level level, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_list(log, level, format, list);
	va_end(list);
}

int rnl__invalid(const struct rnl__log *log, const char *format, ...)
{
	va_list list;

	va_start(list, format);
	log_list(log, RNL_LOG_ERROR, format, list);
	va_end(list);
	return -EINVAL;
}

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

int rnl__bad_struct(const struct rnl__log *log, const char *call, const char *what,
		    const void *from, int ret)
{
	uint32_t size;

	memcpy(&size, from, sizeof(size));
	rnl__log(log, RNL_LOG_ERROR, ret == -E2BIG ?
		 "%s: %s, of %" PRIu32 " bytes, have a field set that is newer than the library" :
		 "%s: the size of %s is %" PRIu32 "; it must be the sizeof of that struct", call, what,
		 size);
	return ret;
}
