/* SPDX-License-Identifier: MIT */
/* Devices for callers: their description, a pool's memory on them, and pinned host memory. */
#include "config.h"

#include <errno.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#include "device/device.h"
#include "device/devices.h"
#include "memory/pinned.h"
#include "pool/pool.h"
#include "sys/abi.h"
#include "sys/clock.h"

#define DESCRIBE "rnl_device_describe()"

int rnl_device_describe(struct rnl_pool *pool, const char *name, unsigned device,
			struct rnl_device_info *info)
{
	RNL__UNCANCELLED();
	int ret = pool ? rnl__pool_given(pool, DESCRIBE) : 0;
	const struct rnl__log *log = pool ? &pool->log : NULL;
	struct rnl__devices devices;
	struct rnl_device_info found;
	char why[RNL__WHY_BYTES];

	if (!ret)
		ret = rnl__check_given(log, DESCRIBE, "info", info, RNL__FIRST_DEVICE_INFO);
	if (ret)
		return ret;
	if (pool)
		devices = pool->devices;
	else
		ret = rnl__devices_open(name, &devices, why);
	if (ret) {
		/* A missing device is an answer, not a mistake. */
		rnl__log_limited(log, ret == -ENODEV ? RNL_LOG_INFO : RNL_LOG_ERROR,
				 DESCRIBE ": device is \"%s\": %s", name ? name : "auto", why);
		return ret;
	}
	if (device >= devices.nr)
		return rnl__invalid(log, DESCRIBE ": device is %u; there are devices 0 to %u",
				    device, devices.nr - 1);
	found = devices.list[device]->info;
	found.nr_devices = devices.nr;
	rnl__copy_out(info, &found, sizeof(found));
	return 0;
}

#define GET "rnl_memory_get()"

int rnl_memory_get(struct rnl_pool *pool, int where, size_t bytes, void **memp, int64_t timeout_ns)
{
	int ret = rnl__pool_given(pool, GET);

	if (ret)
		return ret;
	if (!bytes || !memp)
		return rnl__invalid(&pool->log,
				    bytes ? GET ": no place for the memory: the pointer to it "
						"is NULL"
					  : GET ": bytes is 0; it must be 1 or more");
	if (where < RNL_PINNED)
		return rnl__invalid(&pool->log, GET ": where is %d; it must be RNL_PINNED or a "
				    "device of the pool", where);
	if (where >= 0 && rnl__pool_lacks(pool, GET, (unsigned)where))
		return -EINVAL;
	if (rnl__pool_failed(pool))
		return -EIO;
	if (where >= 0)
		return rnl__device_alloc(pool->devices.list[where], RNL__DEVICE, bytes, memp);
	if (!timeout_ns || rnl__pool_worker(pool))
		return rnl__pinned_get(pool->pinned, bytes, memp);
	return rnl__pinned_get_wait(pool->pinned, bytes, memp, rnl__deadline(timeout_ns));
}

/* Returns the device of the pool that owns the memory, or NULL. */
static struct rnl__device *device_of(struct rnl_pool *pool, const void *mem)
{
	for (unsigned i = 0; i < pool->devices.nr; i++) {
		struct rnl__device *device = pool->devices.list[i];

		if (rnl__device_has(device, mem, 1) || device->ops->owns(device, mem))
			return device;
	}
	return NULL;
}

void rnl_memory_put(struct rnl_pool *pool, void *mem)
{
	struct rnl__device *device = NULL;
	bool is_pinned;

	if (!mem || rnl__pool_given(pool, "rnl_memory_put()"))
		return;
	if (!rnl__pinned_put(pool->pinned, mem))
		return;
	is_pinned = rnl__pinned_holds(pool->pinned, mem, 1);
	if (!is_pinned)
		device = device_of(pool, mem);
	if (device)
		rnl__device_free(device, RNL__DEVICE, mem);
	/* A failed device may own nothing any more. */
	else if (is_pinned || !rnl__pool_failed(pool))
		rnl__log(&pool->log, RNL_LOG_ERROR,
			 "rnl_memory_put(%p): no memory of this pool, or put back already, or "
			 "overwritten in front of its start: left alone", mem);
}
