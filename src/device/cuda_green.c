/* SPDX-License-Identifier: MIT */
/* A GPU's SMs in two sets; cuda_green.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "device/backends.h"
#include "device/cuda_calls.h"
#include "device/cuda_driver.h"
#include "device/cuda_green.h"

struct rnl__sms {
	struct rnl__cuda_device *device;
	CUgreenCtx kept, rest;
	unsigned nr_streams;		/* existing streams of both; under the device's lock */
};

/* A device's SMs before they are divided. */
struct whole {
	CUdevice handle;
	CUdevResource sms;
	unsigned group, most;		/* sets are multiples of `group`; `most` can be kept */
};

static CUresult green_measure(int ordinal, struct whole *whole)
{
	CUdevResource least = { 0 };
	unsigned nr = 1;
	CUresult code = rnl__cuda_contexts.device(&whole->handle, ordinal);

	if (code == CUDA_SUCCESS)
		code = rnl__cuda_greens.sms(whole->handle, &whole->sms, CU_DEV_RESOURCE_TYPE_SM);
	/* The driver rounds up, so one SM becomes a group. */
	if (code == CUDA_SUCCESS)
		code = rnl__cuda_greens.split(&least, &nr, &whole->sms, NULL, 0, 1);
	if (code != CUDA_SUCCESS)
		return code;
	whole->group = least.sm.smCount;
	/* Both sets have an SM at least; a part of a small GPU (MIG) may have only one group. */
	if (!whole->group || whole->sms.sm.smCount <= whole->group)
		return CUDA_ERROR_NOT_SUPPORTED;
	whole->most = (whole->sms.sm.smCount - 1) / whole->group * whole->group;
	return CUDA_SUCCESS;
}

uint32_t rnl__cuda_green_group(int ordinal)
{
	struct whole whole = { 0 };

	if (!rnl__cuda_greens.complete || !rnl__cuda_contexts.complete ||
	    green_measure(ordinal, &whole) != CUDA_SUCCESS)
		return 0;
	return whole.group;
}

/* Returns the errno of a driver's code, and its text. */
static int green_refused(struct rnl__device *device, CUresult code, char why[RNL__WHY_BYTES])
{
	/* The driver and the runtime have the same codes for these calls. */
	const int ret = rnl__cuda_errno_of(device, (int)code);

	snprintf(why, RNL__WHY_BYTES, "the driver refuses to divide the multiprocessors of cuda:%d: CUDA "
		 "error %d (%.90s)", (int)device->info.ordinal, (int)code, rnl__cuda_text((int)code));
	return ret == -ENOMEM || rnl__device_failed(device) ? ret : -ENOTSUP;
}

/* Divides the SMs.  Returns -EINVAL if that number of SMs cannot be kept. */
static int green_divide(struct rnl__device *device, uint32_t nr_kept, struct whole *whole,
			CUdevResource *kept, CUdevResource *rest, char why[RNL__WHY_BYTES])
{
	CUresult code = green_measure(device->info.ordinal, whole);
	unsigned nr = 1;

	if (code == CUDA_SUCCESS && nr_kept % whole->group == 0 && nr_kept <= whole->most)
		code = rnl__cuda_greens.split(kept, &nr, &whole->sms, rest, 0, nr_kept);
	if (code != CUDA_SUCCESS)
		return green_refused(device, code, why);
	/* Both are 0 if the driver was not asked.  It may also round up. */
	if (kept->sm.smCount == nr_kept && rest->sm.smCount)
		return 0;
	snprintf(why, RNL__WHY_BYTES, "of its %u multiprocessors cuda:%d can keep multiples of %u, at most "
		 "%u", whole->sms.sm.smCount, (int)device->info.ordinal, whole->group, whole->most);
	return -EINVAL;
}

static CUresult green_context(const struct whole *whole, CUdevResource *sms, CUgreenCtx *contextp)
{
	CUdevResourceDesc description;
	CUresult code = rnl__cuda_greens.describe(&description, sms, 1);

	if (code != CUDA_SUCCESS)
		return code;
	return rnl__cuda_greens.create(contextp, description, whole->handle,
				       CU_GREEN_CTX_DEFAULT_STREAM);
}

static int green_fill(struct rnl__sms *sms, uint32_t nr_kept, char why[RNL__WHY_BYTES])
{
	struct rnl__device *device = &sms->device->base;
	struct whole whole = { 0 };
	CUdevResource kept = { 0 }, rest = { 0 };
	CUresult code;
	int ret = green_divide(device, nr_kept, &whole, &kept, &rest, why);

	if (ret)
		return ret;
	/* The contexts share the primary context, which must be active. */
	code = (CUresult)rnl__cuda_enter(device);
	if (code != CUDA_SUCCESS)
		return green_refused(device, code, why);
	code = green_context(&whole, &kept, &sms->kept);
	if (code == CUDA_SUCCESS)
		code = green_context(&whole, &rest, &sms->rest);
	rnl__cuda_leave();
	if (code != CUDA_SUCCESS)
		return green_refused(device, code, why);
	snprintf(why, RNL__WHY_BYTES, "%u of the %u multiprocessors of cuda:%d", nr_kept,
		 whole.sms.sm.smCount, (int)device->info.ordinal);
	return 0;
}

int rnl__cuda_green_create(struct rnl__device *device, uint32_t nr_kept, char why[RNL__WHY_BYTES],
			   struct rnl__sms **smsp)
{
	struct rnl__sms *sms;
	int ret;

	if (!rnl__cuda_greens.complete || !rnl__cuda_contexts.complete) {
		snprintf(why, RNL__WHY_BYTES, "the driver cannot divide a GPU's multiprocessors; a driver for CUDA "
			 "12.5 or newer can");
		return -ENOTSUP;
	}
	why[0] = '\0';
	sms = calloc(1, sizeof(*sms));
	if (!sms)
		return -ENOMEM;
	sms->device = (struct rnl__cuda_device *)device;
	ret = green_fill(sms, nr_kept, why);
	if (ret)
		rnl__cuda_green_destroy(sms);
	else
		*smsp = sms;
	return ret;
}

void rnl__cuda_green_destroy(struct rnl__sms *sms)
{
	if (!sms->nr_streams) {
		if (sms->kept)
			(void)rnl__cuda_greens.destroy(sms->kept);
		if (sms->rest)
			(void)rnl__cuda_greens.destroy(sms->rest);
	}
	free(sms);
}

static void green_count(struct rnl__sms *sms, int by)
{
	pthread_mutex_lock(&sms->device->lock);
	sms->nr_streams += (unsigned)by;
	pthread_mutex_unlock(&sms->device->lock);
}

cudaError_t rnl__cuda_green_stream(struct rnl__sms *sms, bool kept, int priority,
				   cudaStream_t *streamp)
{
	const CUresult code = rnl__cuda_greens.stream(streamp, kept ? sms->kept : sms->rest,
						      CU_STREAM_NON_BLOCKING, priority);

	if (code == CUDA_SUCCESS)
		green_count(sms, 1);
	return (cudaError_t)code;
}

void rnl__cuda_green_stream_gone(struct rnl__sms *sms)
{
	green_count(sms, -1);
}
