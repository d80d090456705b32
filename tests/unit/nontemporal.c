/* SPDX-License-Identifier: MIT */
/* Copies past the caches write all bytes of the target, and no others. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "sys/nontemporal.h"
#include "suite.h"

#define SPARE 256		/* bytes around the copy, on both sides */
#define LARGEST (2u << 20)

static unsigned char *src, *dst, *was;

static unsigned char byte_at(size_t i)
{
	return (unsigned char)(i * 2654435761u >> 13);
}

static void get_memory(void)
{
	src = malloc(LARGEST + 2 * SPARE);
	dst = malloc(LARGEST + 2 * SPARE);
	was = malloc(LARGEST + 2 * SPARE);
	ck_assert(src && dst && was);
	for (size_t i = 0; i < LARGEST + 2 * SPARE; i++) {
		src[i] = byte_at(i);
		was[i] = (unsigned char)~byte_at(i);
	}
}

static void put_memory(void)
{
	free(src);
	free(dst);
	free(was);
}

static void copy(size_t to, size_t from, size_t bytes)
{
	const size_t end = SPARE + to + bytes, all = LARGEST + 2 * SPARE;

	memcpy(dst, was, all);
	rnl__nontemporal_copy(dst + SPARE + to, src + SPARE + from, bytes);
	ck_assert_msg(!memcmp(dst, was, SPARE + to), "before %zu bytes to + %zu", bytes, to);
	ck_assert_msg(!memcmp(dst + SPARE + to, src + SPARE + from, bytes),
		      "%zu bytes from + %zu to + %zu", bytes, from, to);
	ck_assert_msg(!memcmp(dst + end, was + end, all - end), "behind %zu bytes to + %zu", bytes,
		      to);
}

TEST(copies_every_byte_and_no_other, .setup = get_memory, .teardown = put_memory)
{
	static const size_t sizes[] = {
		0, 1, 63, 64, 65, 4096, (512u << 10) - 1, 512u << 10, (512u << 10) + 1,
		(512u << 10) + 63, (512u << 10) + 64, (512u << 10) + 65, (1u << 20) + 127,
		LARGEST - 128,
	};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		copy(0, 0, sizes[i]);
		copy(1, 0, sizes[i]);
		copy(0, 1, sizes[i]);
		copy(63, 17, sizes[i]);
		copy(16, 64, sizes[i]);
		copy(100, 99, sizes[i]);
	}
}
