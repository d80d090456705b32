/* SPDX-License-Identifier: MIT */
/* Makes the n-th allocation, or write, of a trace fail, for n = 1, 2, ..., until none does. */
#include "faults.h"

#include <sys/mman.h>
#include <sys/types.h>

#include "gate.h"

#define FAULTS_MOST 2000

static char path[64];

/* Which errno the next pwrite gives; the file's own writes alone: Check uses others. */
static _Atomic int write_error;
static _Atomic long writes_left;	/* until then */

ssize_t __real_pwrite(int fd, const void *buf, size_t bytes, off_t at);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t at);
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);

/* A disk that is full takes half of what it is given first. */
ssize_t __wrap_pwrite(int fd, const void *buf, size_t bytes, off_t at)
{
	long left = write_error ? atomic_fetch_sub(&writes_left, 1) : 2;

	if (left > 1 || bytes < 4)	/* what ends the file has room */
		return __real_pwrite(fd, buf, bytes, at);
	if (left == 1)
		return __real_pwrite(fd, buf, bytes / 2, at);
	errno = write_error;
	return -1;
}

void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset)
{
	return fails() ? MAP_FAILED : __real_mmap(at, bytes, protection, flags, fd, offset);
}

static char *read_file(void)
{
	FILE *file = fopen(path, "r");
	size_t bytes;
	char *text;

	ck_assert_ptr_nonnull(file);
	text = calloc(1, 1 << 20);
	bytes = fread(text, 1, (1 << 20) - 1, file);
	fclose(file);
	ck_assert_uint_gt(bytes, 3);
	ck_assert_int_eq(text[0], '[');
	ck_assert_str_eq(text + bytes - 3, "\n]\n");
	return text;
}

/* No assertions: these would be counted. */
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

static long try_fault(struct rnl_pool *pool, long nth, bool from_then_on, int *nr_refused)
{
	int started, stopped = 0, bad;

	begin(nth, from_then_on);
	started = rnl_trace_start(pool, path, NULL);
	bad = run_jobs(pool, 3);
	if (!started)
		stopped = rnl_trace_stop(pool);
	end();
	ck_assert_msg(!started || started == -ENOMEM || started == -EAGAIN, "start gave %d", started);
	ck_assert_int_eq(stopped, 0);
	ck_assert_int_eq(bad, 0);
	*nr_refused += started != 0;
	/* Whatever it was, it is over. */
	ck_assert_int_eq(rnl_trace_stop(pool), -EALREADY);
	if (!started)
		free(read_file());
	return failed;
}

START_TEST(test_memory_that_is_missing_is_told_or_costs_arrows)
{
	struct rnl_pool *pool = pool_of(2);
	int nr_refused = 0;
	long nth = 1, before;

	/* The first trace has what stays: names of symbols are read, the clock is asked. */
	ck_assert_int_eq(rnl_trace_start(pool, path, NULL), 0);
	ck_assert_int_eq(run_jobs(pool, 3), 0);
	ck_assert_int_eq(rnl_trace_stop(pool), 0);
	before = living;
	while (try_fault(pool, nth, _i, &nr_refused)) {
		ck_assert_int_lt(nth, FAULTS_MOST);
		nth++;
	}
	/* Its own memory, its buffers, the spans, the writer; and for each worker its jobs and events. */
	ck_assert_int_gt(nr_refused, 8);
	ck_assert_int_gt(nth, nr_refused);
	ck_assert_int_eq(living, before);
	rnl_pool_destroy(pool);
}
END_TEST

/* The n-th write meets a full disk. */
START_TEST(test_a_full_disk_ends_the_trace_and_leaves_it_whole)
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
		/* The second write is that of what it is about. */
		ck_assert_int_eq(started, nth == 2 ? -error : 0);
		ck_assert_int_eq(bad, 0);
		ck_assert_int_eq(stopped, writes_left <= 0 ? -error : 0);
		free(read_file());
	}
	ck_assert_uint_eq(figures_of(pool).failed, 0);
	rnl_pool_destroy(pool);
}
END_TEST

START_TEST(test_a_file_that_takes_nothing_is_told_at_once)
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
END_TEST

static void set_path(void)
{
	snprintf(path, sizeof(path), "/tmp/unit_trace_faults.%d.json", (int)getpid());
}

static void remove_file(void)
{
	unlink(path);
}

static Suite *make_suite(void)
{
	Suite *suite = suite_create("unit_trace_faults");
	TCase *tc = tcase_create("faults");

	tcase_add_checked_fixture(tc, set_path, remove_file);
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, test_memory_that_is_missing_is_told_or_costs_arrows, 0, 2);
	tcase_add_test(tc, test_a_full_disk_ends_the_trace_and_leaves_it_whole);
	tcase_add_test(tc, test_a_file_that_takes_nothing_is_told_at_once);
	suite_add_tcase(suite, tc);
	return suite;
}

int main(void)
{
	return suite_main(make_suite);
}
