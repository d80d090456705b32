/* SPDX-License-Identifier: MIT */
/* allocator without nvcc: rnl_scratch() and malloc() alone are compared. */
#include "allocator.h"

const struct allocator_cuda *const allocator_cuda = NULL;
