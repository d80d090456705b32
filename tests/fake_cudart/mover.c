/* SPDX-License-Identifier: MIT */
/* The one kernel that the library brings along: src/device/cuda_copies.c. */
#include <string.h>

#include "internal.h"

struct move {
	uint64_t dst, src, bytes;
};

static const char code_begin[] = ".version", kernel_name[] = "rnl_move";

static bool reaches(const void *mem, size_t bytes)
{
	enum cudaMemoryType type;

	return fake__memory_of((struct fake_area){ mem, bytes }, &type) == cudaSuccess &&
	       type != cudaMemoryTypeUnregistered;
}

/* Block by block, the last one first; what is no device or page-locked memory is the end of the device. */
static void move_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct move *list = args;

	(void)block;
	for (uint32_t i = grid.x; i--;) {
		char *dst = (char *)(uintptr_t)list[i].dst;
		const char *src = (const char *)(uintptr_t)list[i].src;
		bool goes;

		fake__lock();
		if (!reaches(dst, list[i].bytes) || !reaches(src, list[i].bytes))
			fake__fail(cudaErrorIllegalAddress);
		goes = fake__move();
		fake__unlock();
		if (!goes)
			return;
		memmove(dst, src, list[i].bytes);
		fake__lock();
		fake__moved();
		fake__unlock();
	}
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
				enum cudaJitOption *jit, void **jit_values, unsigned nr_jit,
				enum cudaLibraryOption *options, void **values, unsigned nr)
{
	CALL(cudaLibraryLoadData);
	(void)jit;
	(void)jit_values;
	(void)options;
	(void)values;
	if (nr || nr_jit || strncmp(code, code_begin, strlen(code_begin)))
		return fake__said(cudaErrorInvalidValue);
	*library = (cudaLibrary_t)(uintptr_t)code;
	return cudaSuccess;
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
	CALL(cudaLibraryGetKernel);
	if (strcmp(name, kernel_name) || !strstr((const char *)library, kernel_name))
		return fake__said(cudaErrorSymbolNotFound);
	*kernel = (cudaKernel_t)(uintptr_t)kernel_name;
	return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args,
			     size_t shared_bytes, cudaStream_t stream)
{
	const struct rnl_dim blocks = { grid.x, grid.y, grid.z };
	const struct rnl_dim threads = { block.x, block.y, block.z };

	if (kernel != kernel_name || shared_bytes)
		return fake__said(cudaErrorInvalidDeviceFunction);
	return (cudaError_t)fake_launch(move_host, blocks, threads, args[0],
					grid.x * sizeof(struct move), stream);
}
