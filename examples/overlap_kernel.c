/* SPDX-License-Identifier: MIT */
/*
 * overlap where there is no CUDA: its kernel's host function alone.
 *
 * DESIGN
 * overlap_kernel.cu defines the same for the host device and for CUDA; a build
 * links one of the two.
 */
#include "overlap.h"

#include <errno.h>

RNL_HOST_KERNEL(overlap_kernel, overlap_on_host, struct overlap_args);

int overlap_legacy_share(const struct overlap_work *work, unsigned thread)
{
	(void)work;
	(void)thread;
	return -ENOTSUP;
}
