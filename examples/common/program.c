/* SPDX-License-Identifier: MIT */
/* Start, exit and messages of an example. */
#include "config.h"

#include "common/program.h"
#include "common/progress.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/stats.h>

static atomic_bool output_failed;

void program_flush(void)
{
	const int err = fflush(stdout) ? errno : 0;

	if ((err || ferror(stdout)) && !atomic_exchange(&output_failed, true))
		program_warn("standard output: %s", err ? strerror(err) :
			     "the output is incomplete");
}

static void check_output(void)
{
	progress_clear();
	program_flush();
	if (atomic_load(&output_failed))
		_exit(EXIT_FAILURE);
}

/*
 * The next opened file would take the number of a standard descriptor that is closed.  Opens
 * /dev/null there instead, in the wrong direction, so that reads and writes still fail.
 */
static void keep_standard_descriptors(void)
{
	for (int fd = 0; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", fd ? O_RDONLY : O_WRONLY) != fd)
			_exit(EXIT_FAILURE);
}

void program_begin(void)
{
	keep_standard_descriptors();
	atexit(check_output);
	rnl_setup();	/* if it fails, fewer streams may run concurrently; that is not fatal */
}

/* Hides control characters, which a terminal would obey; in UTF-8 also U+0080 to U+009F. */
static void put(char *text)
{
	for (char *c = text; *c; c++) {
		if ((c[0] & 0xff) == 0xc2 && (c[1] & 0xe0) == 0x80)
			*c++ = '?';
		else if (!iscntrl((unsigned char)*c))
			continue;
		*c = '?';
	}
	fprintf(stderr, "%s: %s\n", program_invocation_short_name, text);
}

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list args)
{
	char text[1024];

	vsnprintf(text, sizeof(text), format, args);
	progress_clear();
	program_flush();	/* keeps stdout and stderr in order if both go to one place */
	put(text);
}

void program_warn(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
}

void program_die(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	_exit(EXIT_FAILURE);
}

void program_must(int ret, const char *what)
{
	if (ret < 0)
		program_die("%s: %s", what, rnl_strerror(ret));
}

/* ---- the device and the pool --------------------------------------------- */

static void check_device(int ret, const char *device)
{
	if (ret == -ENODEV)
		program_die("no GPU answers as '%s': use --device=host, or --device=auto to take "
			    "a GPU where there is one", device);
}

void program_device(const char *device, struct rnl_device_info *info)
{
	const int ret = rnl_device_describe(NULL, device, 0, info);

	check_device(ret, device);
	program_must(ret, device);
}

static enum rnl_guard wanted_guard(void)
{
	const char *text = getenv("RUNNEL_GUARD");

	if (!text || !*text)
		return RNL_GUARD_OFF;
	if (*text >= '0' && *text <= '2' && !text[1])	/* the numbers of enum rnl_guard */
		return (enum rnl_guard)(*text - '0');
	program_warn("RUNNEL_GUARD is '%s', and is ignored: 1 reports, 2 makes jobs fail", text);
	return RNL_GUARD_OFF;
}

static bool guarded;

/* Context: any thread. */
static void log_message(void *all, enum rnl_log_level level, const char *text)
{
	char shown[1024];

	if (!all && level != RNL_LOG_ERROR && !(level == RNL_LOG_WARNING && guarded))
		return;
	snprintf(shown, sizeof(shown), "%s", text);
	put(shown);
}

struct rnl_pool *program_pool(struct rnl_pool_attr *attr)
{
	static bool shown;	/* only the first pool gets the socket */
	struct rnl_pool *pool = NULL;
	const char *top = getenv("RUNNEL_TOP");
	int ret;

	attr->top = top && *top && !shown ? top : NULL;
	shown = true;
	attr->guard = wanted_guard();
	guarded = attr->guard;
	if (!attr->log)
		attr->log = log_message;
	ret = rnl_pool_create(&pool, attr);
	if (ret == -EADDRINUSE) {	/* another process uses the socket: go on without it */
		attr->top = NULL;
		ret = rnl_pool_create(&pool, attr);
	}
	check_device(ret, attr->device);
	program_must(ret, ret == -EAGAIN ? "starting a thread for each worker (try --workers=1)" :
					   "creating the workers");
	return pool;
}

const char *program_device_name(const struct rnl_device_info *info)
{
	return info->cuda ? info->name : "host (no GPU)";
}

struct rnl_pool_stats program_print_pool(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	program_must(rnl_device_describe(pool, NULL, 0, &info), "the pool's device");
	program_must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats), "the pool's figures");
	program_flush();
	fprintf(stderr, "device:   %s, %u workers\n", program_device_name(&info), stats.nr_workers);
	return stats;
}

/* ---- the system ---------------------------------------------------------- */

size_t program_read(int fd, void *to, size_t bytes, int *err)
{
	size_t done = 0;

	*err = 0;
	while (done < bytes) {
		const ssize_t got = read(fd, (char *)to + done, bytes - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			*err = errno;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}

void program_raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

uint64_t program_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static int compare(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

double program_median(double *values, unsigned nr)
{
	qsort(values, nr, sizeof(*values), compare);
	return values[nr / 2];
}
