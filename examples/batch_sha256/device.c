/* SPDX-License-Identifier: MIT */
/* batch_sha256 without nvcc: only the host function of its kernel. */
#include <runnel/kernel.h>

#include "hash.h"

RNL_HOST_KERNEL(sha256_kernel, sha256_grid, struct sha256_args);
