/* SPDX-License-Identifier: MIT */
/* The beginning, the end, and the messages of an example. */
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/stats.h>

#include "shared.h"

/*
 * The first call of main().  From then on the exit status is 1 if standard output could
 * not be written in full, on a full disk for instance.
 */
void program_begin(void);

/* Flushes standard output.  Reports the first error at once. */
void program_flush(void);

/* Prints "program: message" on standard error. */
__attribute__((format(printf, 1, 2))) void program_warn(const char *format, ...);

/* The same; then ends the process at once with status 1, without waiting for its threads. */
__attribute__((format(printf, 1, 2))) _Noreturn void program_die(const char *format, ...);

/* Dies if @ret is a negative errno: "program: @what: what @ret means". */
void program_must(int ret, const char *what);

/* Describes a device.  Dies if it does not answer. */
void program_device(const char *device, struct rnl_device_info *info);

/*
 * Creates a pool whose messages go to standard error.  The variable RUNNEL_GUARD of the
 * environment sets its guard: 1 reports job functions that use the legacy stream, wait, or
 * get memory from CUDA; 2 makes their jobs fail.  The library itself reads no environment.
 * @attr: if it has no log function, errors and the guard's findings are shown, and all
 *	messages if its log_arg is not NULL.
 * The variable RUNNEL_TOP is a path: `runnel top PATH` shows the first pool while it runs.
 */
struct rnl_pool *program_pool(struct rnl_pool_attr *attr);

/* Prints the pool's device and workers on standard error.  Return: the pool's figures. */
struct rnl_pool_stats program_print_pool(struct rnl_pool *pool);

/* How the user knows the device. */
const char *program_device_name(const struct rnl_device_info *info);

/* Reads @bytes, or less at the end.  @err: receives an errno, or 0.  Return: the bytes read. */
size_t program_read(int fd, void *to, size_t bytes, int *err);

/* Raises the limit on open files as far as the system lets it. */
void program_raise_file_limit(void);

uint64_t program_now_ns(void);		/* CLOCK_MONOTONIC */

/* Sorts @values.  Return: the median. */
double program_median(double *values, unsigned nr);

#endif /* EXAMPLES_PROGRAM_H */
