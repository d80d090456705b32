/* SPDX-License-Identifier: MIT */
/* Who was held for too long while a function is watched goes in: what comes of that. */
#include <sys/mman.h>

#include "guard.h"

static struct said said;

/* Waits for the other, then issues. */
struct waiting {
	struct rnl_job job;
	struct gate came, gate;
	void *mem;
	_Atomic unsigned nr_calls;
};

static int wait_and_fill(struct rnl_job *job)
{
	struct waiting *w = rnl_container_of(job, struct waiting, job);
	int ret;

	w->nr_calls++;
	gate_open(&w->came);
	gate_wait(&w->gate);
	ret = rnl_fill(w->mem, 7, 64);
	return ret ? ret : 3;
}

/* What nobody should do beside a capture; CUDA refuses it then. */
static int use_legacy_and_open(struct rnl_job *job)
{
	struct waiting *w = job->user;
	int ret = CUDA(memset_fn *, "cudaMemsetAsync")((char *)w->mem + 64, 1, 64, NULL);

	(void)CUDA(no_args_fn *, "cudaGetLastError")();
	gate_open(&w->gate);
	return ret;
}

START_TEST(what_another_has_spoilt_is_called_again_not_blamed_and_watched_later)
{
	struct waiting w = { .came = GATE_INIT, .gate = GATE_INIT };
	struct rnl_pool *pool;
	struct rnl_job legacy;
	void *mem;

	if (on_host())
		test_skip("what_another_has_spoilt...: the host device has no legacy stream");
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 2);
	ck_assert_int_eq(rnl_pinned_get(pool, 128, &mem), 0);
	w.mem = mem;
	memset(mem, 0, 128);
	job_of(&w.job, wait_and_fill, NULL);
	job_of(&legacy, use_legacy_and_open, &w);
	ck_assert_int_eq(rnl_submit(pool, &w.job), 0);
	gate_wait(&w.came);
	ck_assert_int_eq(rnl_submit(pool, &legacy), 0);
	ck_assert_int_eq(result_of(&w.job), 3);
	ck_assert_int_gt(result_of(&legacy), 0);
	/* What it issued was done once, by the second call. */
	ck_assert_uint_eq(w.nr_calls, 2);
	ck_assert_bytes((unsigned char *)mem, 64, 7);
	ck_assert_uint_eq(figures_of(pool).guard_twice, 1);
	ck_assert(!has_said(&said, "wait_and_fill", ""));
	/* By itself it is watched, and nothing is wrong with it. */
	for (unsigned i = 0; i < 8 && w.nr_calls < 100; i++) {
		ck_assert_int_eq(rnl_submit(pool, &w.job), 0);
		ck_assert_int_eq(result_of(&w.job), 3);
	}
	ck_assert(!has_said(&said, "wait_and_fill", ""));
	ck_assert_uint_ge(figures_of(pool).guard_functions, 1);
	rnl_pinned_put(pool, mem);
	rnl_pool_destroy(pool);
}
END_TEST

#ifdef __x86_64__
static int copy_pageable(struct rnl_job *job)
{
	static char pageable[64];

	return rnl_copy(job->user, pageable, sizeof(pageable));
}
#endif

/* As a compiler at run time makes it: in no file. */
START_TEST(a_function_that_has_no_file_is_named_by_its_address)
{
#ifdef __x86_64__
	/* movabs $fn, %rax; jmp *%rax */
	unsigned char code[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
	int (*const to)(struct rnl_job *job) = copy_pageable;
	struct rnl_pool *pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1);
	void *mem, *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char name[64];

	ck_assert(page != MAP_FAILED);
	memcpy(code + 2, &to, sizeof(to));
	memcpy(page, code, sizeof(code));
	ck_assert_int_eq(mprotect(page, 4096, PROT_READ | PROT_EXEC), 0);
	ck_assert_int_eq(rnl_device_alloc(pool, 64, &mem), 0);
	ck_assert_int_eq(run_job(pool, (int (*)(struct rnl_job *))(uintptr_t)page, mem), 0);
	snprintf(name, sizeof(name), "the function at %p", page);
	ck_assert_msg(has_said(&said, name, "pageable"), "said: %s", said.lines[0]);
	rnl_device_free(pool, mem);
	rnl_pool_destroy(pool);
	munmap(page, 4096);
#else
	test_skip("a_function_that_has_no_file...: it is of x86-64's code");
#endif
}
END_TEST

static Suite *make_suite(void)
{
	Suite *suite = suite_create("api_guard_held");
	TCase *tc = tcase_create("held");

	tcase_add_test(tc, what_another_has_spoilt_is_called_again_not_blamed_and_watched_later);
	tcase_add_test(tc, a_function_that_has_no_file_is_named_by_its_address);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
