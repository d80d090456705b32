/* SPDX-License-Identifier: MIT */
/* For programs that are not tests: the machine begins before their main(). */
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"

/* Only the linker and libFuzzer call these functions. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#pragma weak LLVMFuzzerInitialize
#pragma weak LLVMFuzzerTestOneInput

#define INPUT_MAX 1600
#define KINDS 32

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes);
int __real_main(int argc, char **argv);

int __wrap_main(int argc, char **argv)
{
	sim_begin();
	return __real_main(argc, argv);
}

/*
 * Runs one input of a fuzz program, which has no main(): the seed draws the input.  Byte 0 is the
 * device, each fourth byte a kind of call.  Some seeds use few kinds (swarm testing: Groce 2012).
 */
__attribute__((weak)) int main(int argc, char **argv)
{
	const char *device = getenv("RNL_TEST_DEVICE");
	static uint8_t data[INPUT_MAX], kinds[KINDS];
	const uint64_t nr_kinds = 1 + sim_any(KINDS);

	if (LLVMFuzzerInitialize)
		LLVMFuzzerInitialize(&argc, &argv);
	for (size_t i = 0; i < KINDS; i++)
		kinds[i] = (uint8_t)sim_any(256);
	for (size_t i = 0; i < INPUT_MAX; i++)
		data[i] = i % 4 ? (uint8_t)sim_any(256) : kinds[sim_any(nr_kinds)];
	data[0] = data[0] % 2 + (device && !strcmp(device, "cuda") ? 2 : 0);
	return LLVMFuzzerTestOneInput(data, 8 + sim_any(INPUT_MAX - 8));
}
