/* SPDX-License-Identifier: MIT */
/*
 * The kernels of http_server, except gwc's.
 *
 * DESIGN
 * A thread of Sobel's kernels computes a pixel from the nine around it.  Neighbours read the same
 * bytes, which stay in the caches: each byte of the image is read from memory about once.
 */
#include <runnel/cuda.h>

#include "kernels.h"

static __device__ void compute_pixel(const struct sobel_args &args, uint32_t x, uint32_t y)
{
	const unsigned char *row = args.pixels + (size_t)y * args.width;

	args.edges[(size_t)y * args.width + x] =
		sobel_edge(y ? row - args.width : row, row,
			   y + 1 < args.height ? row + args.width : row,
			   x ? x - 1 : 0, x, x + 1 < args.width ? x + 1 : x);
}

static __global__ void __launch_bounds__(SOBEL_BLOCK_X * SOBEL_BLOCK_Y)
sobel_pixel(const struct sobel_args args)
{
	const uint32_t x = blockIdx.x * SOBEL_BLOCK_X + threadIdx.x;
	const uint32_t y = blockIdx.y * SOBEL_BLOCK_Y + threadIdx.y;

	if (x < args.width && y < args.height)
		compute_pixel(args, x, y);
}

RNL_KERNEL(sobel_kernel, sobel_grid, sobel_pixel, struct sobel_args);

static __global__ void __launch_bounds__(SOBEL_BLOCK_X * SOBEL_BLOCK_Y)
sobel_picture(const struct pictures_args args)
{
	const struct sobel_args one = picture_of(&args, blockIdx.x);

	if (!threadIdx.x)
		sign_picture(&args, blockIdx.x);
	for (uint32_t i = threadIdx.x; i < one.width * one.height; i += blockDim.x)
		compute_pixel(one, i % one.width, i / one.width);
}

RNL_KERNEL(pictures_kernel, pictures_grid, sobel_picture, struct pictures_args);

static __global__ void crash_write_to(const struct crash_args args)
{
	*(volatile uint32_t *)args.where = 1;
}

RNL_KERNEL(crash_kernel, crash_grid, crash_write_to, struct crash_args);
