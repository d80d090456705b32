/* SPDX-License-Identifier: MIT */
/*
 * The backends' devices, and queries of CUDA, which pools on the host device need, too.
 *
 * DESIGN
 *	Only the registry, devices.c, and callers above it include this header: the seam, device.h,
 *	knows no backend.  In a build without CUDA's headers, no_cuda.c replaces the files cuda*.c.
 */
#ifndef RNL_BACKENDS_H
#define RNL_BACKENDS_H

#include "device/device.h"

struct rnl__device *rnl__device_host(unsigned ordinal);

/* Returns 0, -ENODEV, or the errno of the failure. */
int rnl__device_cuda(unsigned ordinal, struct rnl__device **devicep);

/* Returns the number of CUDA devices.  @why: receives the number as a text, or the reason for 0. */
unsigned rnl__device_nr_cuda(char why[RNL__WHY_BYTES]);

/* Return the errno of a CUDA error code, and CUDA's text for it. */
int rnl__cuda_errno(int code);
const char *rnl__cuda_text(int code);

/* Waits for the thread's per-thread stream.  Returns true if it had work.  @code: error or 0. */
bool rnl__cuda_wait_thread(int *code);

#endif
