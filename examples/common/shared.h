/* SPDX-License-Identifier: MIT */
/* Macros for headers that C and CUDA C++ share. */
#ifndef EXAMPLES_SHARED_H
#define EXAMPLES_SHARED_H

#define PROGRAM_WORKERS_MAX 64	/* an example's limit; a pool's is RNL_WORKERS_MAX */

#ifdef __cplusplus
#define SHARED_BEGIN extern "C" {
#define SHARED_END }
#else
#define SHARED_BEGIN
#define SHARED_END
#endif

/* A function for the host and for the device. */
#ifdef __CUDACC__
#define SHARED static __host__ __device__ __forceinline__
#else
#define SHARED static inline
#endif

#endif /* EXAMPLES_SHARED_H */
