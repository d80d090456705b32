/* SPDX-License-Identifier: MIT */
/* A trace finds a full disk at its n-th write, for n = 1, 2, ..., until no write fails. */
#include <sys/types.h>

#include <runnel/trace.h>

#include "pool.h"
#include "trace.h"

#define FAULTS_MOST 2000

/* errno of the next pwrite() to the file; Check uses other calls. */
static _Atomic int write_error;
static _Atomic long writes_left;	/* number of writes before one fails */

ssize_t __real_pwrite(int fd, const void *buf, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t at);

/* A full disk first takes half of the bytes. */
ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t at)
{
	long left = write_error ? atomic_fetch_sub(&writes_left, 1) : 2;

	/* The file's end has space, and signals do not arrive forever. */
	if (left > 1 || bytes < 4 || (write_error == EINTR && left < -3))
		return __real_pwrite(fd, buf, bytes, at);
	if (left == 1)
		return __real_pwrite(fd, buf, bytes / 2, at);
	errno = write_error;
	return -1;
}

static char *read_file(void)
{
	char *text = text_of(path);
	size_t bytes = strlen(text);

	ck_assert_uint_gt(bytes, 3);
	ck_assert_int_eq(text[0], '[');
	ck_assert_str_eq(text + bytes - 3, "\n]\n");
	return text;
}

/* Without assertions, because Check's writes would count. */
static int run_jobs(struct rnl_pool *pool, unsigned nr)
{
	struct rnl_job job;
	int bad = 0;

	for (unsigned i = 0; i < nr; i++) {
		bad += rnl_job_init(&job, noop_fn) != 0;
		bad += rnl_submit(pool, &job) != 0;
		bad += rnl_job_wait(&job, RNL_FOREVER) != 0;
	}
	return bad;
}

/* The n-th write finds a full disk. */
TEST(test_a_full_disk_ends_the_trace_and_leaves_it_whole,
     .timeout_s = 60, .setup = set_path, .teardown = remove_file)
{
	static const int errors[] = { ENOSPC, EDQUOT, EIO, EFBIG };
	struct rnl_pool *pool = pool_of(2);
	int stopped = 1;

	for (long nth = 2; stopped; nth++) {
		int started, bad, error = errors[nth % 4];

		ck_assert_int_lt(nth, FAULTS_MOST);
		writes_left = nth;
		write_error = error;
		started = rnl_trace_start(pool, path, NULL);
		bad = run_jobs(pool, 50);
		stopped = started ? started : rnl_trace_stop(pool);
		write_error = 0;
		/* The second write is part of the start. */
		ck_assert_int_eq(started, nth == 2 ? -error : 0);
		ck_assert_int_eq(bad, 0);
		ck_assert_int_eq(stopped, writes_left <= 0 ? -error : 0);
		free(read_file());
	}
	ck_assert_uint_eq(figures_of(pool).failed, 0);
	rnl_pool_destroy(pool);
}

TEST(test_a_file_that_takes_nothing_is_told_at_once,
     .timeout_s = 60, .setup = set_path, .teardown = remove_file)
{
	struct rnl_pool *pool = pool_of(1);
	int started;

	writes_left = 0;
	write_error = EFBIG;
	started = rnl_trace_start(pool, path, NULL);
	write_error = 0;
	ck_assert_int_eq(started, -EFBIG);
	ck_assert_int_eq(rnl_trace_stop(pool), -EALREADY);
	ck_assert_int_eq(run_jobs(pool, 3), 0);
	rnl_pool_destroy(pool);
}

TEST(test_a_write_that_a_signal_ends_is_gone_on_with,
     .timeout_s = 60, .setup = set_path, .teardown = remove_file)
{
	struct rnl_pool *pool = pool_of(1);
	int started, bad, stopped;
	char *text;

	writes_left = 1;
	write_error = EINTR;
	started = rnl_trace_start(pool, path, NULL);
	bad = run_jobs(pool, 3);
	stopped = rnl_trace_stop(pool);
	ck_assert_int_lt(writes_left, -3);
	write_error = 0;
	ck_assert_int_eq(started | bad | stopped, 0);
	text = read_file();
	ck_assert_ptr_nonnull(strstr(text, "\"runnel_end\""));
	free(text);
	rnl_pool_destroy(pool);
}
