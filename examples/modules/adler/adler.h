/* SPDX-License-Identifier: MIT */
/* The work of all modules of this folder: the Adler-32 checksum (RFC 1950) of a text, on any device. */
#ifndef ADLER_H
#define ADLER_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/kernel.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ADLER_MAX ((size_t)1 << 28)	/* bytes of a text; the sums fit 64 bits */
#define ADLER_PRIME 65521
#define ADLER_THREADS 256		/* per block */

/* A part of a request's memory, which must stay valid until the job is done. */
struct adler {
	struct rnl_job job;
	const void *text;
	size_t bytes;
	uint64_t sums[2];
};

struct adler_args {
	const unsigned char *text;
	uint64_t bytes;
	uint64_t *sums;		/* 0 before the launch */
};

extern const struct rnl_kernel adler_kernel;

/* Initialises a job. It fails with -EINVAL if the text is empty or too long. */
void adler_init(struct adler *adler, const void *text, size_t bytes);

/* Returns the checksum after the job has succeeded. */
uint32_t adler_value(const struct adler *adler);

/* The kernel's host function. */
void adler_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);

#ifdef __cplusplus
}
#endif
#endif /* ADLER_H */
