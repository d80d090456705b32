/* SPDX-License-Identifier: MIT */
/* The checksum without nvcc: only the host function of its kernel. */
#include "adler.h"

RNL_HOST_KERNEL(adler_kernel, adler_grid, struct adler_args);
