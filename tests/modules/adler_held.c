/* SPDX-License-Identifier: MIT */
/*
 * In place of examples/modules/adler/device.c: a kernel for the host device and for the double of the
 * CUDA runtime that obeys the first word of its text. "hold": the kernel appends a line to the file
 * $MODULE_GATE.held, and ends when there is no file $MODULE_GATE. "fail": the double fails with a
 * sticky error.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "examples/modules/adler/adler.h"
#include "fake_cudart/fake_cudart.h"

/* Undefined without the double. */
#pragma weak fake_launch
#pragma weak fake_fail_sticky

enum { ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801 };	/* cudaError_t */

static void hold(const char *gate)
{
	char path[4096];
	FILE *held;

	snprintf(path, sizeof(path), "%s.held", gate);
	held = fopen(path, "ae");
	if (held) {
		fputs("held\n", held);
		fclose(held);
	}
	while (!access(gate, F_OK))
		usleep(1000);
}

static void obey(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct adler_args *a = args;
	const char *word = a->bytes < 4 ? "" : (const char *)a->text, *gate = getenv("MODULE_GATE");

	if (gate && !strncmp(word, "hold", 4))
		hold(gate);
	adler_grid(grid, block, args);
	if (fake_fail_sticky && !strncmp(word, "fail", 4))
		fake_fail_sticky(ILLEGAL_ADDRESS);
}

static int launch(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	return fake_launch ? fake_launch(obey, grid, block, args, sizeof(struct adler_args), stream) : NOT_SUPPORTED;
}

static int function(void **functionp)
{
	static const struct fake_kernel kernel = { FAKE_KERNEL_MAGIC, obey, sizeof(struct adler_args) };

	*functionp = (void *)(uintptr_t)&kernel;
	return fake_launch ? 0 : NOT_SUPPORTED;
}

const struct rnl_kernel adler_kernel = { "adler_kernel", sizeof(struct adler_args), obey, launch, function };
