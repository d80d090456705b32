/* SPDX-License-Identifier: MIT */
/* Start, exit and messages of an example. */
#ifndef EXAMPLES_PROGRAM_H
#define EXAMPLES_PROGRAM_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>
#include <runnel/stats.h>

#include "shared.h"

/*
 * Must be the first call of main().  From then on the exit status is 1 if standard output could
 * not be written in full, because the disk is full for example.
 */
void program_begin(void);

/* Flushes standard output.  Reports the first error immediately. */
void program_flush(void);

/* Prints "program: message" on standard error. */
__attribute__((format(printf, 1, 2))) void program_warn(const char *format, ...);

/* Like program_warn(), then exits with status 1 immediately, without waiting for threads. */
__attribute__((format(printf, 1, 2))) _Noreturn void program_die(const char *format, ...);

/* Dies if @ret is a negative errno: prints "program: @what: ERROR". */
void program_must(int ret, const char *what);

/* Describes a device.  Dies if it does not answer. */
void program_device(const char *device, struct rnl_device_info *info);

/*
 * Creates a pool whose messages go to standard error.  The environment variable RUNNEL_GUARD sets
 * the pool's guard: 1 reports job functions that use the legacy stream, wait, or get memory from
 * CUDA; 2 makes their jobs fail.  RUNNEL_TOP is a path: while the program runs, `runnel top PATH`
 * shows its first pool.  The library itself reads no environment variables.
 * @attr: without a log function in it, errors and the guard's findings are printed; if its log_arg
 *	is not NULL, all messages are printed.
 */
struct rnl_pool *program_pool(struct rnl_pool_attr *attr);

/* Prints the pool's device and workers on standard error.  Returns the pool's statistics. */
struct rnl_pool_stats program_print_pool(struct rnl_pool *pool);

/* Returns the device's name as the user knows it. */
const char *program_device_name(const struct rnl_device_info *info);

/* Reads @bytes, or fewer at end of file.  @err: receives an errno or 0.  Returns the bytes read. */
size_t program_read(int fd, void *to, size_t bytes, int *err);

/* Raises the limit on open files to the hard limit. */
void program_raise_file_limit(void);

uint64_t program_now_ns(void);		/* CLOCK_MONOTONIC */

/* Sorts @values and returns the median. */
double program_median(double *values, unsigned nr);

#endif /* EXAMPLES_PROGRAM_H */
