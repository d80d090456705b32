/* SPDX-License-Identifier: MIT */
/*
 * What the experiments of check and bench are made of: pools, jobs, memory, times.
 *
 * DESIGN
 * A call that fails ends the program with status 2 and says what @what names: there is
 * nothing else to find out then.
 */
#ifndef TOOL_EXPERIMENT_H
#define TOOL_EXPERIMENT_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>

#define TOOL_WAIT_NS 20000000000	/* nothing here takes this long */

/* If @ret is an error: says so, and exits with status 2. */
void tool_must(int ret, const char *what);

/*
 * Reads what RUNNEL_GUARD wants of the pools' guard: nothing, 1 (reports) or 2 (has jobs fail).
 * Return: 0, or the exit status, and what is wrong was said.
 */
int tool_guard(void);

/* A pool with that guard, which shows errors, and what the guard finds. */
struct rnl_pool *tool_pool(struct rnl_pool_attr attr);

/* Submits a job; waits until it is done, and has gone well. */
void tool_submit(struct rnl_pool *pool, struct rnl_job *job);
void tool_wait(struct rnl_job *job, const char *what);

/* Pinned memory, zeroed; and the device's. */
void *tool_pinned(struct rnl_pool *pool, size_t bytes);
void *tool_device_memory(struct rnl_pool *pool, size_t bytes);

/* The pool's counters. */
struct rnl_pool_stats tool_stats(struct rnl_pool *pool);

uint64_t tool_now(void);

/* Sorts numbers. */
void tool_sort(double *values, unsigned nr);

#endif /* TOOL_EXPERIMENT_H */
