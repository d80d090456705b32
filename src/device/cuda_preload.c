/* SPDX-License-Identifier: MIT */
/* Much page-locked memory at once, on CUDA; cuda_preload.h has the design. */
#include "config.h"

#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "device/cuda_preload.h"
#include "sys/sizes.h"
#include "sys/thread.h"

#define PAGE 4096u
#define HUGE_PAGE ((size_t)2 << 20)
#define PIECE ((size_t)16 << 20)	/* that a thread touches at a time */
#define THREADS_MAX 16u			/* more were no faster */
#define MEMINFO "/proc/meminfo"

/* In the page before the memory. */
struct mapping {
	void *begin;
	size_t bytes;
};

struct touching {
	char *mem;
	size_t bytes;
	atomic_size_t next;		/* byte that nobody touches yet */
};

static struct mapping *mapping_of(void *mem)
{
	return (struct mapping *)(void *)((char *)mem - PAGE);
}

/* Bytes that the kernel could give without swapping; 0: it does not say. */
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

/* Return: the number in a file; UINT64_MAX: there is none. */
static uint64_t number_in(const char *folder, const char *name)
{
	unsigned long long number = UINT64_MAX;
	char path[PATH_MAX];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return UINT64_MAX;
	file = fopen(path, "re");
	if (!file)
		return UINT64_MAX;
	if (fscanf(file, "%llu", &number) != 1)
		number = UINT64_MAX;
	(void)fclose(file);
	return number;
}

/* A version of control groups. */
struct groups {
	const char *line;		/* what stands before the group's path in /proc/self/cgroup */
	const char *folder, *limit, *used;
};

static const struct groups versions[] = {
	{ "0::", "/sys/fs/cgroup", "memory.max", "memory.current" },
	{ "memory:", "/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes" },
};

/* Bytes that a control group and those around it still allow.  @folder: is changed. */
static uint64_t allowed_in(const struct groups *groups, char *folder)
{
	uint64_t least = UINT64_MAX;

	while (strlen(folder) >= strlen(groups->folder)) {
		const uint64_t limit = number_in(folder, groups->limit);
		const uint64_t used = number_in(folder, groups->used);

		if (limit != UINT64_MAX && used != UINT64_MAX)
			least = rnl__smaller(least, limit > used ? limit - used : 0);
		*strrchr(folder, '/') = '\0';
	}
	return least;
}

/* The same, of the process's groups; UINT64_MAX: nothing is known. */
static uint64_t allowed(void)
{
	char folder[PATH_MAX], line[PATH_MAX];
	FILE *file = fopen("/proc/self/cgroup", "re");
	uint64_t least = UINT64_MAX;

	if (!file)
		return least;
	while (fgets(line, sizeof(line), file)) {
		line[strcspn(line, "\n")] = '\0';
		for (unsigned i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
			const char *path = strstr(line, versions[i].line);

			if (!path)
				continue;
			path += strlen(versions[i].line);
			if (snprintf(folder, sizeof(folder), "%s%s", versions[i].folder, path) <
			    (int)sizeof(folder))
				least = rnl__smaller(least, allowed_in(&versions[i], folder));
		}
	}
	(void)fclose(file);
	return least;
}

static void *touch(void *arg)
{
	struct touching *t = arg;
	size_t at;

	/* relaxed: it hands nothing over; the join does */
	while ((at = atomic_fetch_add_explicit(&t->next, PIECE, memory_order_relaxed)) < t->bytes)
		for (size_t end = rnl__smaller(at + PIECE, t->bytes); at < end; at += PAGE)
			*(volatile char *)(t->mem + at) = 0;
	return NULL;
}

static void touch_all(char *mem, size_t bytes)
{
	const unsigned nr = (unsigned)rnl__smaller(rnl__smaller(rnl__thread_nr_cpus(), THREADS_MAX),
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
	cudaError_t code;

	/* An eighth stays free, for other threads and processes. */
	if (whole < bytes || whole > rnl__smaller(available(), allowed()) / 8 * 7)
		return cudaErrorMemoryAllocation;
	begin = mmap(NULL, whole, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (begin == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	mem = begin + HUGE_PAGE - (uintptr_t)begin % HUGE_PAGE;
	/* Small pages do as well, only slower. */
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

	/* Pages that the driver does not let go stay, for it alone. */
	(void)munmap(mapping.begin, mapping.bytes);
	return code;
}
