/* SPDX-License-Identifier: MIT */
/* NVTX ranges; nvtx.h has the design. */
#include "config.h"

#include <stdint.h>
#include <stdlib.h>

#include "watch/nvtx.h"
#include "sys/symbol.h"

#ifdef HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
#define TOOL getenv("NVTX_INJECTION64_PATH")
#else
#define TOOL NULL
#define nvtxRangePushA(name) (name)
#define nvtxRangePop() 0
#endif

#define NR_NAMES 32u

struct rnl__nvtx {
	struct {
		const void *fn;
		char name[100];
	} names[NR_NAMES];
};

struct rnl__nvtx *rnl__nvtx_create(void)
{
	const char *tool = TOOL;

	return tool && *tool ? calloc(1, sizeof(struct rnl__nvtx)) : NULL;
}

void rnl__nvtx_begin(struct rnl__nvtx *r, const void *fn)
{
	const unsigned i = (unsigned)((uintptr_t)fn >> 4) % NR_NAMES;

	if (r->names[i].fn != fn) {
		rnl__symbol(fn, r->names[i].name, sizeof(r->names[i].name));
		r->names[i].fn = fn;
	}
	(void)nvtxRangePushA(r->names[i].name);
}

void rnl__nvtx_end(void)
{
	(void)nvtxRangePop();
}

void rnl__nvtx_destroy(struct rnl__nvtx *r)
{
	free(r);
}
