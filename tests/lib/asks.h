/* SPDX-License-Identifier: MIT */
/* What tests ask of a job and of a pool. */
#ifndef ASKS_H
#define ASKS_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/device.h>

static inline bool is_done(struct rnl_job *job)
{
	return rnl_job_wait(job, 0) == 0;
}

/* How many devices the pool has; 0: it cannot say. */
static inline unsigned nr_devices_of(struct rnl_pool *pool)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	return rnl_device_describe(pool, NULL, 0, &info) ? 0 : info.nr_devices;
}

#endif
