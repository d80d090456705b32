/* SPDX-License-Identifier: MIT */
/* Finds a device by its name. */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "sys/abi.h"
#include "sys/thread.h"
#include "device/device.h"

#ifndef HAVE_CUDA
int rnl__device_cuda(int ordinal, struct rnl__device **devicep)
{
	(void)ordinal;
	(void)devicep;
	return -ENODEV;
}
#endif

/* "cuda" or "cuda:N". */
static int cuda_ordinal(const char *name, int *ordinal)
{
	char *end;
	long n;

	*ordinal = 0;
	if (!strcmp(name, "cuda"))
		return 0;
	if (strncmp(name, "cuda:", 5) || name[5] < '0' || name[5] > '9')
		return -EINVAL;
	n = strtol(name + 5, &end, 10);
	if (*end || n > INT_MAX)
		return -EINVAL;
	*ordinal = (int)n;
	return 0;
}

int rnl__device_open(const char *name, struct rnl__device **devicep)
{
	int ordinal, ret;

	if (!name)
		name = "auto";
	if (!strcmp(name, "auto")) {
		ret = rnl__device_cuda(0, devicep);
		if (ret != -ENODEV)
			return ret;
		name = "host";
	}
	if (!strcmp(name, "host")) {
		*devicep = rnl__device_host();
		return 0;
	}
	ret = cuda_ordinal(name, &ordinal);
	return ret ? ret : rnl__device_cuda(ordinal, devicep);
}

int rnl_device_describe(const char *name, struct rnl_device_info *info)
{
	RNL__UNCANCELLED();
	struct rnl__device *device;
	int ret;

	ret = rnl__check_out(info, RNL__FIRST_DEVICE_INFO);
	if (ret)
		return ret;
	ret = rnl__device_open(name, &device);
	if (ret)
		return ret;
	rnl__copy_out(info, &device->info, sizeof(*info));
	return 0;
}
