/* SPDX-License-Identifier: MIT */
/* Pools with the largest number of workers, where the system can start so many threads. */
#ifndef CROWD_H
#define CROWD_H

#include "pool.h"

/*
 * Creates a pool of RNL_WORKERS_MAX workers, less those for classes, which do not start yet; NULL:
 * the system lacks threads or memory for them.
 */
static inline struct rnl_pool *crowd_of(unsigned nr_class_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;
	int ret;

	attr.device = test_device();
	attr.nr_class_workers = nr_class_workers;
	attr.nr_workers = RNL_WORKERS_MAX - nr_class_workers;
	ret = rnl_pool_create(&pool, &attr);
	ck_assert_msg(!ret || ret == -EAGAIN || ret == -ENOMEM, "a pool: %s", rnl_strerror(ret));
	return pool;
}

#define skip_without(crowd) \
	do { \
		if (!(crowd)) \
			test_skip("%.*s: the system does not start %u threads", \
				  (int)strlen(__func__) - 3, __func__, RNL_WORKERS_MAX); \
	} while (0)

#endif /* CROWD_H */
