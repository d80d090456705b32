/* SPDX-License-Identifier: MIT */
/* Large page-locked memory, on CUDA; cuda_preload.h has the design. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>

#include "device/cuda_preload.h"
#include "sys/cgroup.h"
#include "sys/cpus.h"
#include "sys/sizes.h"
#include "sys/thread.h"

#define PAGE 4096u
#define HUGE_PAGE ((size_t)2 << 20)
#define PIECE ((size_t)16 << 20)	/* bytes that a thread touches at a time */
#define THREADS_MAX 16u			/* more threads were not faster */
#define MEMINFO "/proc/meminfo"

/* Stored in the page before the memory. */
struct mapping {
	void *begin;
	size_t bytes;
};

struct touching {
	char *mem;
	size_t bytes;
	atomic_size_t next;		/* offset of the first piece that no thread has claimed */
};

static struct mapping *mapping_of(void *mem)
{
	return (struct mapping *)(void *)((char *)mem - PAGE);
}

/* Returns the bytes that the kernel could give without swapping; 0: unknown. */
static uint64_t available(void)
{
	unsigned long long kib = 0;
	FILE *file = fopen(MEMINFO, "re");
	char line[128];

	if (!file)
		return 0;
	while (fgets(line, sizeof(line), file) && !sscanf(line, "MemAvailable: %llu kB", &kib))
		;
	(void)fclose(file);
	return (uint64_t)kib << 10;
}

/* Lowers *@arg to the bytes that a control group still allows. */
static void preload_look(void *arg, const char *folder, bool unified)
{
	uint64_t *least = arg, limit, used;

	if (rnl__cgroup_read(folder, unified ? "memory.max" : "memory.limit_in_bytes", &limit, 1) &&
	    rnl__cgroup_read(folder, unified ? "memory.current" : "memory.usage_in_bytes", &used, 1) &&
	    limit != RNL__NO_LIMIT)
		*least = rnl__smaller(*least, limit > used ? limit - used : 0);
}

static void *touch(void *arg)
{
	struct touching *t = arg;
	size_t at;

	/* relaxed: it only claims a piece; pthread_join() publishes the writes */
	while ((at = atomic_fetch_add_explicit(&t->next, PIECE, memory_order_relaxed)) < t->bytes)
		for (size_t end = rnl__smaller(at + PIECE, t->bytes); at < end; at += PAGE)
			*(volatile char *)(t->mem + at) = 0;
	return NULL;
}

static void touch_all(char *mem, size_t bytes)
{
	const unsigned nr = (unsigned)rnl__smaller(rnl__smaller(rnl__cpus(), THREADS_MAX),
						   bytes / PIECE);
	struct touching touching = { .mem = mem, .bytes = bytes };
	pthread_t threads[THREADS_MAX];
	unsigned started = 0;

	while (started + 1 < nr && !rnl__thread_create(&threads[started], touch, &touching))
		started++;
	(void)touch(&touching);
	while (started)
		pthread_join(threads[--started], NULL);
}

cudaError_t rnl__cuda_preload(size_t bytes, void **memp)
{
	const size_t whole = rnl__round_up(bytes, PAGE) + HUGE_PAGE;
	char *begin, *mem;
	uint64_t space = available();
	cudaError_t code;

	rnl__cgroup_each("", "memory", preload_look, &space);
	/* An eighth stays free for other threads and processes. */
	if (whole < bytes || whole > space / 8 * 7)
		return cudaErrorMemoryAllocation;
	begin = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (begin == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	mem = begin + HUGE_PAGE - (uintptr_t)begin % HUGE_PAGE;
	/* Small pages work, too, but are slower. */
	(void)madvise(begin, whole, MADV_HUGEPAGE);
	(void)madvise(begin, whole, MADV_DONTFORK);
	(void)madvise(begin, whole, MADV_DONTDUMP);
	touch_all(mem, bytes);
	*mapping_of(mem) = (struct mapping){ begin, whole };
	code = cudaHostRegister(mem, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
	if (code == cudaSuccess)
		*memp = mem;
	else
		(void)munmap(begin, whole);
	return code;
}

cudaError_t rnl__cuda_preload_free(void *mem)
{
	const struct mapping mapping = *mapping_of(mem);
	const cudaError_t code = cudaHostUnregister(mem);

	/* Pages that the driver keeps stay allocated, for the driver only. */
	(void)munmap(mapping.begin, mapping.bytes);
	return code;
}
