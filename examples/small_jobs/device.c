/* SPDX-License-Identifier: MIT */
/* small_jobs without nvcc: only the host functions of its kernels. */
#include "small_jobs.h"

RNL_HOST_KERNEL(small_kernel, small_on_host, struct small_work);
RNL_HOST_KERNEL(small_place_kernel, small_place_on_host, struct small_place);
RNL_HOST_REQUEST_KERNEL(small_each, small_each_on_host);
