/* SPDX-License-Identifier: MIT */
/* Much page-locked memory in one piece: registered, or by cudaHostAlloc() if that is refused. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <runnel/memory.h>

#include "fake.h"
#include "pool.h"

#define MANY ((size_t)64 << 20)
#define BUFFER ((size_t)8 << 20)

static int copying_fn(struct rnl_job *job)
{
	char *pinned = job->user;
	void *mem = NULL;
	int ret = rnl_scratch(BUFFER, &mem);

	if (!ret)
		ret = rnl_copy(mem, pinned, BUFFER);
	return ret ? ret : rnl_copy(pinned + BUFFER, mem, BUFFER);
}

/* Copies from the first half of the memory to the second. */
static void use(struct rnl_pool *pool)
{
	struct rnl_job job;
	void *mem;

	must(rnl_memory_get(pool, RNL_PINNED, 2 * BUFFER, &mem, 0));
	for (size_t i = 0; i < BUFFER; i += 512)
		((unsigned char *)mem)[i] = (unsigned char)(i / 512 + 1);
	job_of(&job, copying_fn, mem);
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	ck_assert_int_eq(memcmp(mem, (char *)mem + BUFFER, BUFFER), 0);
	rnl_memory_put(pool, mem);
}

static struct rnl_pool *preloaded(size_t bytes)
{
	struct rnl_pool *pool = pool_of(1, .pinned_max = 4 * MANY, .pinned_preload = bytes);

	ck_assert_uint_ge(alive().pinned_bytes, bytes);
	use(pool);
	return pool;
}

TEST(much_memory_is_registered, .timeout_s = 60)
{
	struct rnl_pool *pool = preloaded(MANY);

	ck_assert_uint_eq(fake_calls("cudaHostRegister"), 1);
	rnl_pool_destroy(pool);
	ck_assert_uint_eq(fake_calls("cudaHostUnregister"), 1);
	ck_assert_uint_eq(alive().pinned_bytes, 0);
}

TEST(little_memory_is_not_registered, .timeout_s = 60)
{
	struct rnl_pool *pool = preloaded(MANY - 1);

	ck_assert_uint_eq(fake_calls("cudaHostRegister"), 0);
	rnl_pool_destroy(pool);
	ck_assert_uint_eq(alive().pinned_bytes, 0);
}

TEST(memory_that_cannot_be_registered_is_had_otherwise, .loops = 3, .timeout_s = 60)
{
	const cudaError_t codes[] = {
		cudaErrorNotSupported, cudaErrorOperatingSystem, cudaErrorHostMemoryAlreadyRegistered,
	};
	struct rnl_pool *pool;

	ck_assert_int_eq(fake_fail("cudaHostRegister", 1, codes[_i], false), 0);
	pool = preloaded(MANY);
	ck_assert_uint_eq(fake_calls("cudaHostUnregister"), 0);
	rnl_pool_destroy(pool);
	ck_assert_uint_eq(alive().pinned_bytes, 0);
}

/* Otherwise the child's write would replace the parent's page that the device uses. */
TEST(a_forked_child_has_no_registered_memory, .timeout_s = 60)
{
	struct rnl_pool *pool = preloaded(MANY);
	char *mapping;
	unsigned char in_core;
	void *mem;
	pid_t child;
	int status;

	must(rnl_memory_get(pool, RNL_PINNED, BUFFER, &mem, 0));
	mapping = (char *)((uintptr_t)mem & ~(uintptr_t)4095);
	ck_assert_int_eq(mincore(mapping, 4096, &in_core), 0);
	child = fork();
	ck_assert_int_ge(child, 0);
	if (!child)
		_exit(mincore(mapping, 4096, &in_core) == -1 && errno == ENOMEM ? 0 : 1);
	ck_assert_int_eq(waitpid(child, &status, 0), child);
	ck_assert_int_eq(status, 0);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}
