/* SPDX-License-Identifier: MIT */
/*
 * Code that the experiments of check and bench share: pools, jobs, memory, times.
 *
 * DESIGN
 * A call that fails ends the program with exit status 2 and a message that includes @what.
 */
#ifndef TOOL_EXPERIMENT_H
#define TOOL_EXPERIMENT_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/stats.h>

#define TOOL_WORKERS_MAX 64	/* of a pool of the tool; the library allows RNL_WORKERS_MAX */

#define TOOL_WAIT_NS 120000000000	/* the limit of each wait */

/* Prints the error and exits with status 2 if @ret is an error. */
void tool_must(int ret, const char *what);

/*
 * Sets the guard of all pools from RUNNEL_GUARD: unset or 0, 1 (reports) or 2 (makes jobs fail).
 * Returns 0, or the exit status after a message.
 */
int tool_guard(void);

/* Returns a pool with that guard.  Its log prints errors and the guard's findings. */
struct rnl_pool *tool_pool(struct rnl_pool_attr attr);

/* Submit a job; wait for it, and exit if it failed. */
void tool_submit(struct rnl_pool *pool, struct rnl_job *job);
void tool_wait(struct rnl_job *job, const char *what);

unsigned tool_nr_devices(struct rnl_pool *pool);

/* Return pinned memory, zeroed, and device memory, not initialised. */
void *tool_pinned(struct rnl_pool *pool, size_t bytes);
void *tool_device_memory(struct rnl_pool *pool, unsigned device, size_t bytes);

/* Returns the pool's counters. */
struct rnl_pool_stats tool_stats(struct rnl_pool *pool);

uint64_t tool_now(void);

/* Sorts numbers, the lowest first. */
void tool_sort(double *values, unsigned nr);

#endif /* TOOL_EXPERIMENT_H */
