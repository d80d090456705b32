/* SPDX-License-Identifier: MIT */
/*
 * The hashing kernel where there is no CUDA: its host function alone.
 *
 * DESIGN
 * batch_sha256_kernel.cu defines the same kernel for the host device and for CUDA; a
 * build links one of the two.
 */
#include "batch_sha256_hash.h"

RNL_HOST_KERNEL(sha256_kernel, sha256_grid, struct sha256_args);
