/* SPDX-License-Identifier: MIT */
/* Parts of each program of make fuzz: libFuzzer's entry, and assertions. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);

/* Prints the failed check, which a repeated input shows. */
#define must(holds) must_hold(holds, #holds, __FILE__, __LINE__)
static inline void must_hold(bool holds, const char *what, const char *file, int line)
{
	if (holds)
		return;
	fprintf(stderr, "%s:%d: not so: %s\n", file, line, what);
	abort();
}

/* Formats a message like the tool: checks that it has a text, and reads its arguments. */
static inline void must_format(const char *format, va_list args)
{
	char text[8192];

	vsnprintf(text, sizeof(text), format, args);
	must(*text);
}

#endif
