/* SPDX-License-Identifier: MIT */
/*
 * Sobel's edges: what the host function and the CUDA kernel have in common.
 */
#ifndef HTTP_SOBEL_H
#define HTTP_SOBEL_H

#include <stdint.h>

#include <runnel.h>

#ifdef __CUDACC__
#define SOBEL_SHARED static __host__ __device__ __forceinline__
#else
#define SOBEL_SHARED static inline
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* A thread computes one pixel; the grid covers the image. */
#define SOBEL_BLOCK_X 32
#define SOBEL_BLOCK_Y 8

struct sobel_args {
	const unsigned char *pixels;	/* grey, row after row */
	unsigned char *edges;		/* the same */
	uint32_t width;
	uint32_t height;
};

/*
 * The edge at the middle of three rows, whose columns there are l, m and r: the
 * absolute differences across and down, weighed, added, and at most 255.
 * Outside of the image, pixels are as the nearest one inside.
 */
SOBEL_SHARED unsigned char sobel_edge(const unsigned char *above, const unsigned char *row,
				      const unsigned char *below, uint32_t l, uint32_t m,
				      uint32_t r)
{
	const int across = above[r] + 2 * row[r] + below[r] - above[l] - 2 * row[l] - below[l];
	const int down = below[l] + 2 * below[m] + below[r] - above[l] - 2 * above[m] - above[r];
	const int edge = (across < 0 ? -across : across) + (down < 0 ? -down : down);

	return (unsigned char)(edge > 255 ? 255 : edge);
}

extern const struct rnl_kernel sobel_kernel;

/* The kernel's function for the host device. */
void sobel_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);

#ifdef __cplusplus
}
#endif
#endif /* HTTP_SOBEL_H */
