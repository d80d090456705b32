/* SPDX-License-Identifier: MIT */
/* Facts about this machine, from CUDA and the system, without a pool. */
#ifndef TOOL_FACTS_H
#define TOOL_FACTS_H

#include <stdbool.h>
#include <stdint.h>

#include <runnel.h>

#define TOOL_CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"
#define TOOL_CONNECTIONS_DEFAULT 8	/* CUDA's value if the variable is not set */
#define TOOL_CONNECTIONS_MAX 32		/* the largest value that CUDA accepts */

/* CUDA, independent of a device. */
struct tool_cuda {
	bool built;			/* true if this program was built with CUDA */
	int toolkit, runtime, driver;	/* 1000 * major + 10 * minor; driver 0: there is none */
	int nr_devices;
	char why_none[160];		/* the reason if there are no devices */
};
void tool_cuda_look(struct tool_cuda *cuda);

/* A GPU's attributes that rnl_device_describe() does not give. */
struct tool_gpu {
	int major, minor;		/* compute capability */
	int least_priority, greatest_priority; /* of streams; equal if there are no priorities */
	bool concurrent_kernels, memory_pools, unified_addressing, pageable_access, ecc;
	unsigned pci_domain, pci_bus, pci_device;
	int numa_node;			/* the host's nearest node, or -1 if it is not known */
	bool mps;			/* processes share the GPU through MPS */
	bool mig;			/* a slice of a GPU, by its name */
	int compute_mode;		/* index of a cudaComputeMode; -1: unknown */
};

/* Reads a GPU's attributes.  Returns 0 or a cudaError_t; -1 without CUDA. */
int tool_gpu_look(int ordinal, struct tool_gpu *gpu);

/* Returns true if a GPU can access the memory of another GPU directly. */
bool tool_gpu_reaches(int ordinal, int other);

/*
 * Returns how many hardware queues a CUDA context of this process has, or will have.
 * @setting: the variable's value, NULL if it is not set.
 */
unsigned tool_connections(const char *setting);

/* Returns the number of CPUs that this process may use. */
unsigned tool_cpus(void);

/* What the system and MPS allow this process; pointers are into the environment. */
struct tool_limits {
	unsigned cpus;			/* tool_cpus() */
	unsigned quota;			/* CPUs whose time its control groups allow; 0: all of them */
	int64_t memlock_bytes;		/* RLIMIT_MEMLOCK; -1: no limit */
	const char *mps;		/* the directory in which MPS's control daemon listens, or NULL */
	const char *mps_percentage;	/* CUDA_MPS_ACTIVE_THREAD_PERCENTAGE, or NULL */
};
void tool_limits_look(struct tool_limits *limits);

#endif /* TOOL_FACTS_H */
