/* SPDX-License-Identifier: MIT */
/* allocator without nvcc: compares only rnl_scratch() and malloc(). */
#include "allocator.h"

const struct allocator_cuda *const allocator_cuda = NULL;
