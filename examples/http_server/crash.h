/* SPDX-License-Identifier: MIT */
/*
 * A write to an address that is nobody's: what CUDA does not survive.
 */
#ifndef HTTP_CRASH_H
#define HTTP_CRASH_H

#include <stdint.h>

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

struct crash_args {
	uint32_t *where;
};

extern const struct rnl_kernel crash_kernel;

/* The kernel's function for the host device: it ends the process, by SIGSEGV. */
void crash_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);

#ifdef __cplusplus
}
#endif
#endif /* HTTP_CRASH_H */
