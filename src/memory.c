/* SPDX-License-Identifier: MIT */
/* Memory of a pool's device, and pinned memory of the host beside it. */
#include "config.h"

#include <errno.h>

#include "device.h"
#include "pool.h"

static int alloc(struct rnl_pool *pool, enum rnl__memory kind, size_t bytes, void **memp)
{
	int ret = rnl__pool_check(pool);

	if (ret)
		return ret;
	if (!bytes || !memp)
		return -EINVAL;
	if (rnl__device_failed(pool->device))
		return -EIO;
	return pool->device->ops->alloc(pool->device, kind, bytes, memp);
}

static void release(struct rnl_pool *pool, enum rnl__memory kind, void *mem)
{
	if (mem && !rnl__pool_check(pool))
		pool->device->ops->free(pool->device, kind, mem);
}

int rnl_pinned_get(struct rnl_pool *pool, size_t bytes, void **bufp)
{
	return alloc(pool, RNL__PINNED, bytes, bufp);
}

void rnl_pinned_put(struct rnl_pool *pool, void *buf)
{
	release(pool, RNL__PINNED, buf);
}

int rnl_device_alloc(struct rnl_pool *pool, size_t bytes, void **memp)
{
	return alloc(pool, RNL__DEVICE, bytes, memp);
}

void rnl_device_free(struct rnl_pool *pool, void *mem)
{
	release(pool, RNL__DEVICE, mem);
}
