/* SPDX-License-Identifier: MIT */
/* loader without nvcc: only the host functions of its kernels. */
#include <runnel/kernel.h>

#include "../common/clock.h"
#include "loader.h"

RNL_HOST_KERNEL(compute_kernel, compute_on_host, struct compute_args);
CLOCK_KERNEL;
