/* SPDX-License-Identifier: MIT */
/* Messages to a pool's log or the process's, and checks that log why arguments are refused. */
#ifndef RNL_LOG_H
#define RNL_LOG_H

#include <stdbool.h>
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

/* Returns true if that log gets lines of the level: for lines that cost time to make. */
bool rnl__log_wants(const struct rnl__log *log, enum rnl_log_level level);

/*
 * Like rnl__log(), for lines that a program can cause in a loop.  Logs the first 100 lines of one
 * @format in a second; a later line reports how many were left out.
 */
__attribute__((format(printf, 3, 4)))
void rnl__log_limited(const struct rnl__log *log, enum rnl_log_level level, const char *format, ...);

/* For a line that costs time to make: returns true if rnl__log_limited() would log it now. */
bool rnl__log_admits(const struct rnl__log *log, enum rnl_log_level level, const char *format);

/* Logs why a call is refused, limited like rnl__log_limited().  Returns @ret. */
__attribute__((format(printf, 3, 4)))
int rnl__refused(const struct rnl__log *log, int ret, const char *format, ...);

/* Logs why a call's arguments are refused, limited like rnl__log_limited().  Returns -EINVAL. */
__attribute__((format(printf, 2, 3)))
int rnl__invalid(const struct rnl__log *log, const char *format, ...);

/* A number that the caller passed, and its least and greatest allowed values. */
struct rnl__range {
	const char *name;
	uint64_t value, least, most;
};

/* Returns 0, or -EINVAL after it logs the first number out of its range. */
int rnl__check_ranges(const struct rnl__log *log, const char *call,
		      const struct rnl__range *ranges, unsigned nr);
/*
 * Maps the error of a system call.  Returns @err if it is a limit that may pass: -EAGAIN, -ENOMEM,
 * -EMFILE or -ENFILE.  Otherwise something, such as a filter of system calls, refuses the call:
 * logs it and returns -ENOTSUP.
 * @call: the system call's name.  @err: its negative errno.
 */
int rnl__system_refused(const struct rnl__log *log, const char *what, const char *call, int err);

/* Logs why rnl__copy_in() refused a caller's struct, @what, with @ret.  Returns @ret. */
int rnl__bad_struct(const struct rnl__log *log, const char *call, const char *what,
		    const void *from, int ret);

/* Like rnl__check_out(), and logs why a caller's struct, @what, cannot be filled in. */
int rnl__check_given(const struct rnl__log *log, const char *call, const char *what,
		     const void *dst, size_t min);

#endif
