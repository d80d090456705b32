/* SPDX-License-Identifier: MIT */
/* http_server without nvcc: only the host functions of its kernels. */
#include <runnel/kernel.h>

#include "kernels.h"

RNL_HOST_KERNEL(sobel_kernel, sobel_grid, struct sobel_args);
RNL_HOST_KERNEL(pictures_kernel, pictures_grid, struct pictures_args);
RNL_HOST_KERNEL(crash_kernel, crash_grid, struct crash_args);
