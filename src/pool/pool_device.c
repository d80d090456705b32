/* SPDX-License-Identifier: MIT */
/* A pool's device, for callers: what it is, its memory, and pinned memory of the host beside it. */
#include "config.h"

#include <errno.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#include "device/device.h"
#include "memory/pinned.h"
#include "pool/pool.h"
#include "sys/abi.h"
#include "sys/clock.h"

int rnl_pool_device(struct rnl_pool *pool, unsigned device, struct rnl_device_info *info)
{
	int ret = rnl__pool_given(pool, "rnl_pool_device()");
	struct rnl_device_info found;

	if (!ret)
		ret = rnl__check_given(&pool->log, "rnl_pool_device()", "info", info,
				       RNL__FIRST_DEVICE_INFO);
	if (!ret && rnl__pool_lacks(pool, "rnl_pool_device()", device))
		ret = -EINVAL;
	if (ret)
		return ret;
	found = pool->devices.list[device]->info;
	found.nr_devices = pool->devices.nr;
	rnl__copy_out(info, &found, sizeof(found));
	return 0;
}

/* Whether the pool can be asked for memory. */
static int check_ask(struct rnl_pool *pool, const char *call, size_t bytes, void *const *memp)
{
	int ret = rnl__pool_given(pool, call);

	if (ret)
		return ret;
	if (!bytes || !memp)
		return rnl__invalid(&pool->log, bytes ? "%s: no place for the memory: the pointer to it "
				    "is NULL" : "%s: bytes is 0; it must be 1 or more", call);
	return rnl__pool_failed(pool) ? -EIO : 0;
}

int rnl_pinned_get(struct rnl_pool *pool, size_t bytes, void **bufp, int64_t timeout_ns)
{
	int ret = check_ask(pool, "rnl_pinned_get()", bytes, bufp);

	if (ret)
		return ret;
	if (!timeout_ns || rnl__pool_worker(pool))
		return rnl__pinned_get(pool->pinned, bytes, bufp);
	return rnl__pinned_get_wait(pool->pinned, bytes, bufp, rnl__deadline(timeout_ns));
}

void rnl_pinned_put(struct rnl_pool *pool, void *buf)
{
	struct rnl__pinned *pinned;

	if (!buf || (pool && rnl__pool_check(pool)))
		return;
	pinned = pool ? pool->pinned : rnl__pinned_of(buf);
	if (!pinned || rnl__pinned_put(pinned, buf))
		rnl__log(pool ? &pool->log : NULL, RNL_LOG_ERROR,
			 "rnl_pinned_put(%p): no buffer of this pool, or put back already, or "
			 "overwritten in front of its start: left alone", buf);
}

int rnl_device_alloc(struct rnl_pool *pool, unsigned device, size_t bytes, void **memp)
{
	int ret = check_ask(pool, "rnl_device_alloc()", bytes, memp);

	if (!ret && rnl__pool_lacks(pool, "rnl_device_alloc()", device))
		ret = -EINVAL;
	return ret ? ret : rnl__device_alloc(pool->devices.list[device], RNL__DEVICE, bytes, memp);
}

void rnl_device_free(struct rnl_pool *pool, void *mem)
{
	if (!mem || rnl__pool_check(pool))
		return;
	for (unsigned i = 0; i < pool->devices.nr; i++) {
		struct rnl__device *device = pool->devices.list[i];

		if (rnl__device_has(device, mem, 1) || device->ops->owns(device, mem)) {
			rnl__device_free(device, RNL__DEVICE, mem);
			return;
		}
	}
	/* A device that has failed may own nothing any more. */
	if (!rnl__pool_failed(pool))
		rnl__pool_log(pool, RNL_LOG_ERROR, "rnl_device_free(%p): no memory of this pool's "
			      "devices, or freed already: left alone", mem);
}
