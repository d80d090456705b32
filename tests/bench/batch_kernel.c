/* SPDX-License-Identifier: MIT */
/* The kernel of tests/bench/batch where there is no CUDA: its host function alone. */
#include "batch.h"

RNL_HOST_KERNEL(batch_kernel, batch_add_host, struct batch_args);
