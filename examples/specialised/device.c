/* SPDX-License-Identifier: MIT */
/* specialised without nvcc: only the host function of its plain kernel. */
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "specialised.h"

RNL_HOST_KERNEL(specialised_plain, specialised_on_host, struct specialised_args);
RNL_HOST_KERNEL(specialised_ring, NULL, struct specialised_args);
RNL_HOST_KERNEL(specialised_cluster, NULL, struct specialised_args);

const bool specialised_has_cuda = false;

bool specialised_bulk(const struct rnl_device_info *info)
{
	(void)info;
	return false;
}
