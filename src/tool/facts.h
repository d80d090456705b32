/* SPDX-License-Identifier: MIT */
/* Facts about this machine, from CUDA and the system, without a pool. */
#ifndef TOOL_FACTS_H
#define TOOL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#define TOOL_CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"
#define TOOL_CONNECTIONS_DEFAULT 8	/* what CUDA takes if the variable is not set */
#define TOOL_CONNECTIONS_MAX 32		/* the most that CUDA takes */

/* CUDA, independent of a device. */
struct tool_cuda {
	bool built;			/* into this program */
	int toolkit, runtime, driver;	/* as 1000 * major + 10 * minor; driver 0: there is none */
	int nr_devices;
	char why_none[160];		/* if there are no devices: why */
};
void tool_cuda_look(struct tool_cuda *cuda);

/* One of its devices, beyond what rnl_device_describe() tells. */
struct tool_gpu {
	int major, minor;		/* compute capability */
	int least_priority, greatest_priority; /* of streams; equal: there are none */
	bool concurrent_kernels, memory_pools, unified_addressing, pageable_access, ecc;
	unsigned pci_domain, pci_bus, pci_device;
	int numa_node;			/* the host's nearest; -1: not known */
};

/* Return: 0 or a cudaError_t. */
int tool_gpu_look(int ordinal, struct tool_gpu *gpu);

/* Whether a GPU reaches the memory of another one directly. */
bool tool_gpu_reaches(int ordinal, int other);

/*
 * How many hardware queues a CUDA context of this process has, or will have.
 * @setting: the variable's value, NULL if it is not set.
 */
unsigned tool_connections(const char *setting);

/* CPUs that this process may use. */
unsigned tool_cpus(void);

#endif /* TOOL_FACTS_H */
