/* SPDX-License-Identifier: MIT */
/* Pools over several devices: host devices, devices of the double, or all GPUs. */
#ifndef PLACES_H
#define PLACES_H

#include <dlfcn.h>

#include "pool.h"

static inline int ask_double(const char *fields)
{
	int (*plan)(const char *text) = (int (*)(const char *))(uintptr_t)dlsym(RTLD_DEFAULT,
									       "fake_plan");

	return plan ? plan(fields) : 0;
}

/* The name of all of them. */
static inline const char *all_devices(unsigned nr)
{
	static char name[16];

	snprintf(name, sizeof(name), "host:%u", nr);
	return on_host() ? name : "cuda:all";
}

/*
 * A pool of @each workers for each of its devices, which are @nr, or two GPUs or more; NULL: there
 * is one GPU.
 */
static inline struct rnl_pool *pool_over(unsigned nr, unsigned each, struct rnl_pool_attr attr)
{
	struct rnl_pool *pool = NULL;
	char fields[32];

	snprintf(fields, sizeof(fields), "devices=%u", nr);
	if (test_fake())
		must(ask_double(fields));
	attr.device = all_devices(nr);
	attr.nr_workers = nr * each;
	must(rnl_pool_create(&pool, &attr));
	if (rnl_pool_nr_devices(pool) >= 2)
		return pool;
	rnl_pool_destroy(pool);
	return NULL;
}

#define pool_over_of(nr, each, ...) \
	pool_over(nr, each, (struct rnl_pool_attr){ .size = sizeof(struct rnl_pool_attr), \
						    ##__VA_ARGS__ })

#define skip_if_alone(pool) \
	do { \
		if (!(pool)) \
			test_skip("there is one GPU"); \
	} while (0)

#endif /* PLACES_H */
