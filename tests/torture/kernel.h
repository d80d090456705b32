/* SPDX-License-Identifier: MIT */
/* The kernels of torture, for C and for CUDA. */
#ifndef TORTURE_KERNEL_H
#define TORTURE_KERNEL_H

#include <errno.h>
#include <stdint.h>
#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Sleeps, then does bytes[i] ^= salt. */
struct mix_args {
	unsigned char *bytes;
	uint32_t nr;
	uint32_t dawdle_us;
	uint8_t salt;
};

/*
 * A batch's requests: each output is its input, cut off, or followed by FILLER. With results, a
 * request's result is its first byte.
 */
struct unpack_args {
	struct rnl_batch batch;
	uint64_t in_bytes, out_bytes;
};
#define FILLER 0xee

/*
 * Does *facts->to = facts->value, if the mark matches; the facts are on the device. The double's
 * kernels still run after the device has failed, when their memory may have another owner.
 */
struct echo_facts {
	uint64_t *to, value, mark;
};

/* For C and CUDA C. */
#define ECHO_MARK(facts) ((uint64_t)(uintptr_t)(facts)->to * 3 ^ (facts)->value ^ 0x6563686f)

struct echo_args {
	const struct echo_facts *facts;
};

extern const struct rnl_kernel mix, unpack, echo_kernel;

/*
 * A function for one request: the output is its input, cut off, or followed by FILLER; the input's
 * first byte says which number of the batcher's `arg` counts its executions.
 */
#define ANSWERS_MAX 32
struct answer_counts {
	uint32_t nr[ANSWERS_MAX];
};
/* The result, for C and CUDA C; some requests fail. */
#define ANSWER(last_byte, bytes) ((last_byte) % 16 == 5 ? -EPROTO : (int)(bytes))

extern const struct rnl_request_kernel answer;

/* The GPU versions, if nvcc has built them. */
extern const struct rnl_kernel echo_gpu, mix_gpu, unpack_gpu;
#pragma weak echo_gpu
#pragma weak mix_gpu
#pragma weak unpack_gpu
extern const struct rnl_request_kernel answer_gpu;
#pragma weak answer_gpu

#ifdef __cplusplus
}
#endif
#endif /* TORTURE_KERNEL_H */
