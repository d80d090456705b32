/* SPDX-License-Identifier: MIT */
/*
 * Facts about this machine, from CUDA and the system.
 *
 * DESIGN
 * This file only reads attributes: it launches no work and creates no stream.  The tool links
 * the library's archive, so the calls here go to the copy of the runtime that the pool uses.
 */
#include "config.h"

#include "facts.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "sys/cpus.h"
#include "sys/mps.h"

#ifdef HAVE_CUDA
#include <cuda_runtime_api.h>

static void explain(struct tool_cuda *cuda, cudaError_t code)
{
	const int toolkit = cuda->toolkit;

	if (code == cudaSuccess || code == cudaErrorNoDevice)
		snprintf(cuda->why_none, sizeof(cuda->why_none), "the driver shows no GPU%s",
			 getenv("CUDA_VISIBLE_DEVICES") ? " (CUDA_VISIBLE_DEVICES is set)" : "");
	else if (code == cudaErrorInsufficientDriver && !cuda->driver)
		snprintf(cuda->why_none, sizeof(cuda->why_none), "there is no NVIDIA driver");
	else if (code == cudaErrorInsufficientDriver)
		snprintf(cuda->why_none, sizeof(cuda->why_none),
			 "the NVIDIA driver is for CUDA %d.%d, and this was built with %d.%d",
			 cuda->driver / 1000, cuda->driver % 1000 / 10, toolkit / 1000,
			 toolkit % 1000 / 10);
	else
		snprintf(cuda->why_none, sizeof(cuda->why_none), "CUDA does not start: error %d",
			 (int)code);
}

void tool_cuda_look(struct tool_cuda *cuda)
{
	cudaError_t code;

	*cuda = (struct tool_cuda){ .built = true, .toolkit = CUDART_VERSION };
	if (cudaRuntimeGetVersion(&cuda->runtime) != cudaSuccess)
		cuda->runtime = 0;
	if (cudaDriverGetVersion(&cuda->driver) != cudaSuccess)
		cuda->driver = 0;
	code = cudaGetDeviceCount(&cuda->nr_devices);
	(void)cudaGetLastError();
	if (code != cudaSuccess)
		cuda->nr_devices = 0;
	if (!cuda->nr_devices)
		explain(cuda, code);
}

static bool is_client(const struct cudaDeviceProp *prop)
{
#if CUDART_VERSION >= 13000
	return prop->mpsEnabled;
#else
	(void)prop;
	return rnl__mps_directory() != NULL;
#endif
}

static int compute_mode_of(int ordinal)
{
	int mode;

	if (cudaDeviceGetAttribute(&mode, cudaDevAttrComputeMode, ordinal) == cudaSuccess)
		return mode;
	(void)cudaGetLastError();
	return -1;
}

static int numa_node_of(const struct cudaDeviceProp *prop)
{
#if CUDART_VERSION >= 13000
	return prop->hostNumaId;
#else
	(void)prop;
	return -1;
#endif
}

bool tool_gpu_reaches(int ordinal, int other)
{
	int reaches = 0;

	if (cudaDeviceCanAccessPeer(&reaches, ordinal, other) == cudaSuccess)
		return reaches;
	(void)cudaGetLastError();
	return false;
}

int tool_gpu_look(int ordinal, struct tool_gpu *gpu)
{
	struct cudaDeviceProp prop;
	cudaError_t code = cudaGetDeviceProperties(&prop, ordinal);

	if (code == cudaSuccess)
		code = cudaSetDevice(ordinal);
	if (code != cudaSuccess)
		return (int)code;
	*gpu = (struct tool_gpu){
		.major = prop.major,
		.minor = prop.minor,
		.concurrent_kernels = prop.concurrentKernels,
		.memory_pools = prop.memoryPoolsSupported,
		.unified_addressing = prop.unifiedAddressing,
		.pageable_access = prop.pageableMemoryAccess,
		.ecc = prop.ECCEnabled,
		.pci_domain = (unsigned)prop.pciDomainID,
		.pci_bus = (unsigned)prop.pciBusID,
		.pci_device = (unsigned)prop.pciDeviceID,
		.numa_node = numa_node_of(&prop),
		.mps = is_client(&prop),
		.mig = strstr(prop.name, " MIG ") != NULL,
		.compute_mode = compute_mode_of(ordinal),
	};
	return (int)cudaDeviceGetStreamPriorityRange(&gpu->least_priority,
						     &gpu->greatest_priority);
}
#else
void tool_cuda_look(struct tool_cuda *cuda)
{
	*cuda = (struct tool_cuda){ .built = false };
	snprintf(cuda->why_none, sizeof(cuda->why_none), "this was built without CUDA");
}

int tool_gpu_look(int ordinal, struct tool_gpu *gpu)
{
	(void)ordinal;
	*gpu = (struct tool_gpu){ .major = 0 };
	return -1;
}

bool tool_gpu_reaches(int ordinal, int other)
{
	(void)ordinal;
	(void)other;
	return false;
}
#endif

unsigned tool_connections(const char *setting)
{
	const long nr = setting ? strtol(setting, NULL, 10) : 0;

	if (nr < 1)	/* CUDA ignores such a setting */
		return TOOL_CONNECTIONS_DEFAULT;
	return nr > TOOL_CONNECTIONS_MAX ? TOOL_CONNECTIONS_MAX : (unsigned)nr;
}

unsigned tool_cpus(void)
{
	cpu_set_t set;

	if (!sched_getaffinity(0, sizeof(set), &set))
		return (unsigned)CPU_COUNT(&set);
	return (unsigned)sysconf(_SC_NPROCESSORS_ONLN);
}

void tool_limits_look(struct tool_limits *limits)
{
	const unsigned cpus = tool_cpus(), allowed = rnl__cpus();
	struct rlimit memlock;

	*limits = (struct tool_limits){
		.cpus = cpus,
		.quota = allowed < cpus ? allowed : 0,
		.memlock_bytes = -1,
		.mps = rnl__mps_directory(),
		.mps_percentage = getenv("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"),
	};
	if (!getrlimit(RLIMIT_MEMLOCK, &memlock) && memlock.rlim_cur != RLIM_INFINITY)
		limits->memlock_bytes = (int64_t)memlock.rlim_cur;
}
