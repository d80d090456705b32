/* SPDX-License-Identifier: MIT */
/* loader without nvcc: the host functions of its kernels alone. */
#include <runnel/kernel.h>

#include "../common/clock.h"
#include "loader.h"

RNL_HOST_KERNEL(compute_kernel, compute_on_host, struct compute_args);
CLOCK_KERNEL;
