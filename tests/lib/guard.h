/* SPDX-License-Identifier: MIT */
/* Pools with a guard, the guard's messages, and CUDA calls that C tests make by name. */
#ifndef GUARD_H
#define GUARD_H

#include <dlfcn.h>
#include <runnel/unit.h>

#include <runnel/stats.h>
#include <runnel/unit.h>

#include "pool.h"

enum { MOST_LINES = 64 };

/* Finds a CUDA call by name, for tests without CUDA's headers; NULL on the host device. */
static inline void *cuda(const char *name)
{
	return on_host() ? NULL : dlsym(RTLD_DEFAULT, name);
}
#define CUDA(type, name) ((type)(uintptr_t)cuda(name))
typedef int memset_fn(void *mem, int value, size_t bytes, void *stream);
typedef int copy_fn(void *dst, const void *src, size_t bytes, int kind, void *stream);
typedef int no_args_fn(void);
typedef int stream_fn(void *stream);
typedef int malloc_fn(void **memp, size_t bytes);
typedef int free_fn(void *mem);

/* Registers a unit with CUDA calls, like runnel/cuda.h does; on the host device, no unit. */
static inline void add_cuda_unit(void)
{
	static struct rnl__cuda_unit unit = {
		.size = sizeof(unit), .flags = RNL__CUDA_UNIT_NAMES_STREAM | RNL__CUDA_UNIT_KERNELS,
		.runtime = &unit,
	};

	unit.last_error = CUDA(no_args_fn *, "cudaGetLastError");
	if (unit.last_error)
		must(rnl__cuda_unit_add(&unit));
}

/* The guard's messages. */
struct said {
	pthread_mutex_t lock;
	unsigned nr;
	char lines[MOST_LINES][640];
};

static inline void hear_guard(void *arg, enum rnl_log_level level, const char *msg)
{
	struct said *said = arg;

	(void)level;
	if (strncmp(msg, "guard: ", 7))
		return;
	pthread_mutex_lock(&said->lock);
	if (said->nr < MOST_LINES)
		snprintf(said->lines[said->nr++], sizeof(said->lines[0]), "%s", msg);
	pthread_mutex_unlock(&said->lock);
}

/* Returns true if one line contains both texts. */
static inline bool has_said(struct said *said, const char *name, const char *what)
{
	bool has = false;

	pthread_mutex_lock(&said->lock);
	for (unsigned i = 0; i < said->nr; i++)
		has |= strstr(said->lines[i], name) && strstr(said->lines[i], what);
	pthread_mutex_unlock(&said->lock);
	return has;
}

static inline struct rnl_pool *guarded_pool(struct said *said, uint32_t guard, uint32_t stream,
					    unsigned nr_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	*said = (struct said){ .lock = PTHREAD_MUTEX_INITIALIZER };
	attr.guard = guard;
	attr.stream = stream;
	attr.log = hear_guard;
	attr.log_arg = said;
	return pool_with(&attr, nr_workers);
}

/* Returns the sum of all findings. */
static inline uint64_t findings_of(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = figures_of(pool);

	return stats.guard.legacy + stats.guard.waits + stats.guard.memory +
	       stats.guard.waits_or_memory + stats.guard.pageable + stats.guard.unclear +
	       stats.guard.strays;
}

static inline int run_job(struct rnl_pool *pool, int (*fn)(struct rnl_job *job), void *user)
{
	struct rnl_job job;

	submit_job(pool, &job, fn, user);
	return result_of(&job);
}

#endif
