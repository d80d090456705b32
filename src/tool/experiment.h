/* SPDX-License-Identifier: MIT */
/*
 * What the experiments of check and bench share: pools, jobs, memory, times.
 *
 * DESIGN
 * A call that fails ends the program with status 2, and with a message that names @what.
 */
#ifndef TOOL_EXPERIMENT_H
#define TOOL_EXPERIMENT_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/stats.h>

#define TOOL_WORKERS_MAX 64	/* of its pools; a pool may have RNL_WORKERS_MAX */

#define TOOL_WAIT_NS 120000000000	/* nothing here takes this long */

/* If @ret is an error: prints it, and exits with status 2. */
void tool_must(int ret, const char *what);

/*
 * Reads RUNNEL_GUARD, which sets the guard of all pools: unset, 1 (reports) or 2 (makes jobs fail).
 * Return: 0, or the exit status after a message.
 */
int tool_guard(void);

/* A pool with that guard, which prints errors and the guard's findings. */
struct rnl_pool *tool_pool(struct rnl_pool_attr attr);

/* Submit a job; wait until it is done, without an error. */
void tool_submit(struct rnl_pool *pool, struct rnl_job *job);
void tool_wait(struct rnl_job *job, const char *what);

unsigned tool_nr_devices(struct rnl_pool *pool);

/* Pinned memory, zeroed; device memory. */
void *tool_pinned(struct rnl_pool *pool, size_t bytes);
void *tool_device_memory(struct rnl_pool *pool, unsigned device, size_t bytes);

/* The pool's counters. */
struct rnl_pool_stats tool_stats(struct rnl_pool *pool);

uint64_t tool_now(void);

/* Sorts numbers. */
void tool_sort(double *values, unsigned nr);

#endif /* TOOL_EXPERIMENT_H */
