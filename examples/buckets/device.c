/* SPDX-License-Identifier: MIT */
/* buckets without nvcc: only the host function of its kernel. */
#include <runnel/kernel.h>

#include "../common/clock.h"
#include "buckets.h"

RNL_HOST_KERNEL(compute_kernel, compute_on_host, struct compute_args);
CLOCK_KERNEL;
