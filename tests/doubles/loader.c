/* SPDX-License-Identifier: MIT */
/* examples/loader/device.cu for the double of the CUDA runtime. */
#include "doubles/clock.h"
#include "examples/loader/loader.h"

DOUBLE_KERNEL(compute_kernel, compute_on_host, struct compute_args)
