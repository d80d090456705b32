/* SPDX-License-Identifier: MIT */
/* pipeline without nvcc: only the host functions of its kernels. */
#include <runnel/kernel.h>

#include "../common/clock.h"
#include "pipeline.h"

#define DEFINE_STEP(step, blocks) RNL_HOST_KERNEL(step##_kernel, step##_on_host, struct view);
STEPS(DEFINE_STEP)
CLOCK_KERNEL;
