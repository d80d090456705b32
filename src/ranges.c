/* SPDX-License-Identifier: MIT */
/* NVTX ranges; ranges.h has the design. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "ranges.h"
#include "symbol.h"

#ifdef HAVE_NVTX
#include <nvtx3/nvToolsExt.h>

#define NR_NAMES 32u

struct rnl__ranges {
	struct {
		const void *fn;
		char name[100];
	} names[NR_NAMES];
};

struct rnl__ranges *rnl__ranges_create(void)
{
	const char *tool = getenv("NVTX_INJECTION64_PATH");

	return tool && *tool ? calloc(1, sizeof(struct rnl__ranges)) : NULL;
}

void rnl__ranges_begin(struct rnl__ranges *r, const void *fn)
{
	const unsigned i = (unsigned)((uintptr_t)fn >> 4) % NR_NAMES;

	if (r->names[i].fn != fn) {
		rnl__symbol(fn, r->names[i].name, sizeof(r->names[i].name));
		r->names[i].fn = fn;
	}
	(void)nvtxRangePushA(r->names[i].name);
}

void rnl__ranges_end(void)
{
	(void)nvtxRangePop();
}

#else

struct rnl__ranges *rnl__ranges_create(void)
{
	return NULL;
}

void rnl__ranges_begin(struct rnl__ranges *r, const void *fn)
{
	(void)r;
	(void)fn;
}

void rnl__ranges_end(void)
{
}

#endif

void rnl__ranges_destroy(struct rnl__ranges *r)
{
	free(r);
}
