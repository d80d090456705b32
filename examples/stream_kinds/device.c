/* SPDX-License-Identifier: MIT */
/* stream_kinds without nvcc: only the host function of its kernel. */
#include <runnel/kernel.h>

#include "stream_kinds.h"

RNL_HOST_KERNEL(kinds_kernel, kinds_on_host, struct kinds_args);

const struct kinds_cuda *const kinds_cuda = NULL;
