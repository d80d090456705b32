/* SPDX-License-Identifier: MIT */
/* Messages: a pool's log, or the process's; and what a call says that refuses its arguments. */
#ifndef RNL_LOG_H
#define RNL_LOG_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

struct rnl__log {
	rnl_log_fn *fn;			/* NULL: the log of rnl_set_log() */
	void *arg;
};

/* @log: NULL is the log of rnl_set_log(). */
__attribute__((format(printf, 3, 4)))
void rnl__log(const struct rnl__log *log, enum rnl_log_level level, const char *format, ...);

/*
 * As rnl__log(), for a line that a program can cause in a loop: of the lines with one @format the
 * first 100 in a second are logged, and a later one says how many were left out.
 */
__attribute__((format(printf, 3, 4)))
void rnl__log_limited(const struct rnl__log *log, enum rnl_log_level level, const char *format, ...);

/* Logs why a call is refused, as rnl__log_limited().  Return: @ret. */
__attribute__((format(printf, 3, 4)))
int rnl__refused(const struct rnl__log *log, int ret, const char *format, ...);

/* Logs why a call's arguments are refused, as rnl__log_limited().  Return: -EINVAL. */
__attribute__((format(printf, 2, 3)))
int rnl__invalid(const struct rnl__log *log, const char *format, ...);

/* A number that a caller gave, and its least and greatest values. */
struct rnl__range {
	const char *name;
	uint64_t value, least, most;
};

/* 0; -EINVAL the first one that is out of its range is logged. */
int rnl__check_ranges(const struct rnl__log *log, const char *call,
		      const struct rnl__range *ranges, unsigned nr);
/*
 * What becomes of a system call's error: a limit that may pass is returned as it is; what refuses the
 * call itself, such as a filter of system calls, is logged.
 * @call: of the system.  @err: its negative errno.
 * Return: -EAGAIN, -ENOMEM, -EMFILE or -ENFILE, as @err is; -ENOTSUP.
 */
int rnl__system_refused(const struct rnl__log *log, const char *what, const char *call, int err);

/*
 * Logs why rnl__copy_in() refused a caller's struct, @what, with @ret.  Return: @ret.
 */
int rnl__bad_struct(const struct rnl__log *log, const char *call, const char *what,
		    const void *from, int ret);

/* As rnl__check_out(), and logs why a caller's struct, @what, cannot be filled in. */
int rnl__check_given(const struct rnl__log *log, const char *call, const char *what,
		     const void *dst, size_t min);

#endif
