/* SPDX-License-Identifier: MIT */
/* The CUDA functions of backends.h in a library that was built without CUDA. */
#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "device/backends.h"

#define NO_DRIVER 35	/* cudaErrorInsufficientDriver */
#define NO_DEVICE 100	/* cudaErrorNoDevice */

unsigned rnl__device_nr_cuda(char why[RNL__WHY_BYTES])
{
	if (why)
		snprintf(why, RNL__WHY_BYTES, "the library was built without CUDA");
	return 0;
}

/* The program's units may still use CUDA. */
int rnl__cuda_errno(int code)
{
	return code == NO_DEVICE || code == NO_DRIVER ? -ENODEV : -EIO;
}

const char *rnl__cuda_text(int code)
{
	return code == NO_DEVICE ? "no device" : code == NO_DRIVER ? "no driver" : "see cuda.h";
}

bool rnl__cuda_wait_thread(int *code)
{
	*code = 0;
	return false;
}

int rnl__device_cuda(unsigned ordinal, struct rnl__device **devicep)
{
	(void)ordinal;
	(void)devicep;
	return -ENODEV;
}
