/* SPDX-License-Identifier: MIT */
/* examples/pipeline/device.cu for the double of the CUDA runtime. */
#include "doubles/clock.h"
#include "examples/pipeline/pipeline.h"

#define DEFINE_STEP(step, blocks) DOUBLE_KERNEL(step##_kernel, step##_on_host, struct view)
STEPS(DEFINE_STEP)
