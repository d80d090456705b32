/* SPDX-License-Identifier: MIT */
/* Pools over several devices: host devices, devices of the double, or GPUs. */
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

/* Returns the name of the first @nr devices. */
static inline const char *first_devices(unsigned nr)
{
	static char name[64];
	int length = snprintf(name, sizeof(name), on_host() ? "host:%u" : "cuda:0", nr);

	for (unsigned i = 1; !on_host() && i < nr; i++)
		length += snprintf(name + length, sizeof(name) - (size_t)length, ",%u", i);
	return name;
}

/*
 * Creates a pool of @each workers for each of @nr devices.  If there are fewer GPUs, the workers
 * are spread over two or more of them; NULL: there is only one GPU.
 */
static inline struct rnl_pool *pool_over(unsigned nr, unsigned each, struct rnl_pool_attr attr)
{
	struct rnl_pool *pool;
	char fields[32];

	snprintf(fields, sizeof(fields), "devices=%u", nr);
	if (test_fake())
		must(ask_double(fields));
	attr.nr_workers = nr * each;
	for (unsigned i = nr; i > 1; i--) {
		int ret;

		attr.device = first_devices(i);
		ret = rnl_pool_create(&pool, &attr);
		if (!ret)
			return pool;
		/* There are not so many GPUs. */
		ck_assert_int_eq(ret, on_host() || test_fake() ? 0 : -ENODEV);
	}
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
