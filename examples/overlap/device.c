/* SPDX-License-Identifier: MIT */
/* overlap without nvcc: only the host function of its kernel. */
#include <runnel/kernel.h>

#include "overlap.h"

RNL_HOST_KERNEL(overlap_kernel, overlap_on_host, struct overlap_args);

int (*const overlap_legacy_share)(const struct overlap *o, unsigned thread) = NULL;
