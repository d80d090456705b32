/* SPDX-License-Identifier: MIT */
/* gwc without nvcc: only the host function of its kernel. */
#include <runnel/kernel.h>

#include "count.h"

RNL_HOST_KERNEL(gwc_kernel, gwc_count_grid, struct gwc_args);
