/* SPDX-License-Identifier: MIT */
/*
 * A tool for NVTX (NVTX_INJECTION64_PATH): counts ranges by their name, and writes the counts to
 * the file NVTX_TOOL_OUT when the process ends.
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NVTX_NO_IMPL
#include <nvtx3/nvToolsExt.h>

static _Atomic int nr_pushed, nr_popped, nr_named;
static _Thread_local int depth;
static _Atomic int deepest;

static int push(const char *name)
{
	nr_pushed++;
	nr_named += !strcmp(name, getenv("NVTX_TOOL_NAME"));
	depth++;
	if (depth > deepest)
		deepest = depth;
	return depth - 1;
}

static int pop(void)
{
	nr_popped++;
	return --depth;
}

static void write_out(void)
{
	FILE *file = fopen(getenv("NVTX_TOOL_OUT"), "w");

	if (!file)
		return;
	fprintf(file, "pushed %d popped %d named %d deepest %d\n", nr_pushed, nr_popped, nr_named,
		deepest);
	fclose(file);
}

__attribute__((visibility("default")))
int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table);

int InitializeInjectionNvtx2(NvtxGetExportTableFunc_t get_table)
{
	const NvtxExportTableCallbacks *callbacks = get_table(NVTX_ETID_CALLBACKS);
	NvtxFunctionTable functions = NULL;
	unsigned nr = 0;

	if (!callbacks || !callbacks->GetModuleFunctionTable(NVTX_CB_MODULE_CORE, &functions, &nr) ||
	    nr <= NVTX_CBID_CORE_RangePop)
		return 0;
	*functions[NVTX_CBID_CORE_RangePushA] = (NvtxFunctionPointer)push;
	*functions[NVTX_CBID_CORE_RangePop] = (NvtxFunctionPointer)pop;
	atexit(write_out);
	return 1;
}
