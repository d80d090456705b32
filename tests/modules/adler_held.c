/* SPDX-License-Identifier: MIT */
/*
 * In place of examples/modules/adler/device.c, for the host device and the double of the CUDA runtime.
 * The first word of a text is obeyed. "hold": its job's worker appends a line to the file
 * $MODULE_GATE.held, and waits until no other process has locked the file $MODULE_GATE. "fail": the kernel makes the
 * double fail with a sticky error.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "examples/modules/adler/adler.h"
#include "fake_cudart/fake_cudart.h"

/* The modules are compiled with -Drnl_copy=adler_copy. */
#undef rnl_copy
int rnl_copy(void *dst, const void *src, size_t bytes);

/* Undefined without the double. */
#pragma weak fake_launch
#pragma weak fake_fail_sticky

enum { ILLEGAL_ADDRESS = 700, NOT_SUPPORTED = 801 };	/* cudaError_t */

static void hold(const char *gate)
{
	char path[4096];
	FILE *held;
	int fd;

	snprintf(path, sizeof(path), "%s.held", gate);
	held = fopen(path, "ae");
	if (held) {
		fputs("held\n", held);
		fclose(held);
	}
	fd = open(gate, O_RDONLY | O_CLOEXEC);
	while (flock(fd, LOCK_SH) && errno == EINTR)
		;
	close(fd);
}

/* Called by the job's function, first for the text. */
int adler_copy(void *dst, const void *src, size_t bytes)
{
	const char *gate = getenv("MODULE_GATE");

	if (gate && bytes > 4 && !memcmp(src, "hold", 4))
		hold(gate);
	return rnl_copy(dst, src, bytes);
}

static void obey(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct adler_args *a = args;

	adler_grid(grid, block, args);
	if (fake_fail_sticky && a->bytes == 4 && !memcmp(a->text, "fail", 4))
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
