/* SPDX-License-Identifier: MIT */
/*
 * The backends' devices, and what CUDA says, which pools on the host device ask for, too.
 *
 * DESIGN
 *	Only the registry, devices.c, and callers above it include this: the seam, device.h, knows no
 *	backend.  Without CUDA's headers at build time, no_cuda.c replaces the files cuda*.c.
 */
#ifndef RNL_BACKENDS_H
#define RNL_BACKENDS_H

#include "device/device.h"

struct rnl__device *rnl__device_host(unsigned ordinal);

/* 0, -ENODEV, or the errno of what failed. */
int rnl__device_cuda(unsigned ordinal, struct rnl__device **devicep);

/* How many devices CUDA has; @why: receives that, or why there are none, for people. */
unsigned rnl__device_nr_cuda(char why[RNL__WHY_BYTES]);

/* The errno of a code of CUDA's, and CUDA's text for it. */
int rnl__cuda_errno(int code);
const char *rnl__cuda_text(int code);

/* Waits for the thread's per-thread stream.  Return: whether it had work; @code: what failed, or 0. */
bool rnl__cuda_wait_thread(int *code);

#endif
