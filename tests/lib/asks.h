/* SPDX-License-Identifier: MIT */
/* Questions of tests about a job and a pool. */
#ifndef ASKS_H
#define ASKS_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/device.h>

static inline bool is_done(struct rnl_job *job)
{
	return rnl_job_wait(job, 0) == 0;
}

/* Returns the number of the pool's devices; 0: unknown. */
static inline unsigned nr_devices_of(struct rnl_pool *pool)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	return rnl_device_describe(pool, NULL, 0, &info) ? 0 : info.nr_devices;
}

#endif
