/* SPDX-License-Identifier: MIT */
/* Creating a pool: its attributes, its device, and its threads. */
#include <sys/resource.h>

#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/stats.h>

#include "host_kernel.h"
#include "pool.h"

/* ---- attributes ---------------------------------------------------------- */

static struct rnl_pool *const untouched = (struct rnl_pool *)&(char){ 0 };

static int create(struct rnl_pool_attr attr)
{
	struct rnl_pool *pool = untouched;
	int ret = rnl_pool_create(&pool, &attr);

	if (ret)
		ck_assert_ptr_eq(pool, untouched);
	else
		rnl_pool_destroy(pool);
	return ret;
}

static struct rnl_pool_attr attributes(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = 1;
	attr.device = test_device();
	return attr;
}

TEST(a_pool_of_defaults_runs_a_job)
{
	struct rnl_pool *pool = NULL;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_job job;

	must(rnl_pool_create(&pool, NULL));
	must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
	ck_assert_uint_ge(stats.nr_workers, 1);
	ck_assert_uint_le(stats.nr_workers, 8);
	submit_job(pool, &job, noop_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	rnl_pool_destroy(pool);
}

TEST(a_pool_has_the_workers_it_was_asked_for)
{
	static const unsigned counts[] = { 1, 2, 3, 8, 70 };

	for (unsigned i = 0; i < COUNT(counts); i++) {
		struct rnl_pool *pool = pool_of(counts[i]);
		struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
		struct rnl_job jobs[70];
		struct gate gate = GATE_INIT;

		must(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats));
		ck_assert_uint_eq(stats.nr_workers, counts[i]);
		hold_workers(pool, &gate, jobs, counts[i]);
		gate_open(&gate);
		rnl_pool_destroy(pool);
	}
}

TEST(attributes_out_of_their_range_are_refused)
{
	static const struct {
		uint32_t nr_workers, stream, max_in_flight, guard;
		int32_t spin_us;
	} bad[] = {
		{ .nr_workers = RNL_WORKERS_MAX + 1 },
		{ .nr_workers = UINT32_MAX },
		{ .stream = 2 },
		{ .stream = UINT32_MAX },
		{ .max_in_flight = 1001 },
		{ .max_in_flight = UINT32_MAX },
		{ .guard = RNL_GUARD_STRICT + 1 },
		{ .guard = UINT32_MAX },
		{ .spin_us = -2 },
		{ .spin_us = INT32_MIN },
	};

	for (unsigned i = 0; i < COUNT(bad); i++) {
		struct rnl_pool_attr attr = attributes();

		attr.nr_workers = bad[i].nr_workers;
		attr.stream = bad[i].stream;
		attr.max_in_flight = bad[i].max_in_flight;
		attr.guard = bad[i].guard;
		attr.spin_us = bad[i].spin_us;
		ck_assert_msg(create(attr) == -EINVAL, "row %u of the table", i);
	}
	ck_assert_int_eq(rnl_pool_create(NULL, NULL), -EINVAL);
}

TEST(attributes_at_the_ends_of_their_range_are_taken)
{
	struct rnl_pool_attr attr = attributes();

	attr.stream = RNL_STREAM_PRIVATE;
	attr.max_queued = 1;
	attr.max_in_flight = 1;
	attr.spin_us = -1;
	attr.watchdog_ms = 1;
	ck_assert_int_eq(create(attr), 0);
	attr.max_queued = UINT32_MAX;
	attr.max_in_flight = 1000;
	attr.spin_us = 1;
	attr.watchdog_ms = UINT32_MAX;
	ck_assert_int_eq(create(attr), 0);
}

TEST(device_names_are_taken_or_refused)
{
	static const char *const unknown[] = {
		"", "cuda:", "cuda:x", "cuda:-1", "cuda: 1", "cuda:+1", "cuda:1x", "cuda:1:",
		"cuda:99999999999999999999", "cud", "cuda0",
		"Host", "hosts", "host:0", "auto ", "gpu",
	};
	static const char *const known[] = { NULL, "auto", "host" };
	struct rnl_pool_attr attr = attributes();
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	for (unsigned i = 0; i < COUNT(unknown); i++) {
		attr.device = unknown[i];
		ck_assert_msg(create(attr) == -EINVAL, "\"%s\"", unknown[i]);
		ck_assert_int_eq(rnl_device_describe(NULL, unknown[i], 0, &info), -EINVAL);
	}
	attr.device = "cuda:99";
	ck_assert_int_eq(create(attr), -ENODEV);
	ck_assert_int_eq(rnl_device_describe(NULL, "cuda:99", 0, &info), -ENODEV);
	for (unsigned i = 0; i < COUNT(known); i++) {
		attr.device = known[i];
		ck_assert_int_eq(create(attr), 0);
		must(rnl_device_describe(NULL, known[i], 0, &info));
	}
	ck_assert_str_eq(info.name, "host");
}

TEST(attributes_of_other_versions_are_taken_if_they_can_be)
{
	struct {
		struct rnl_pool_attr attr;
		uint64_t newer[4];
	} both = { .attr = attributes() };
	struct rnl_pool *pool = untouched;

	for (uint32_t size = 0; size < sizeof(both.attr); size++) {
		both.attr.size = size;
		ck_assert_int_eq(rnl_pool_create(&pool, &both.attr), -EINVAL);
	}
	both.attr.size = sizeof(both);
	for (unsigned i = 0; i < COUNT(both.newer); i++) {
		both.newer[i] = i == 3 ? UINT64_C(1) << 63 : 1;	/* also in the last byte */
		ck_assert_int_eq(rnl_pool_create(&pool, &both.attr), -E2BIG);
		both.newer[i] = 0;
	}
	ck_assert_ptr_eq(pool, untouched);
	must(rnl_pool_create(&pool, &both.attr));
	rnl_pool_destroy(pool);
}

TEST(a_pool_tells_of_its_device)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_device_info of_pool = RNL_DEVICE_INFO_INIT, by_name = RNL_DEVICE_INFO_INIT;

	must(rnl_device_describe(pool, NULL, 0, &of_pool));
	must(rnl_device_describe(NULL, test_device(), 0, &by_name));
	ck_assert_mem_eq(&of_pool, &by_name, sizeof(of_pool));
	ck_assert_uint_eq(of_pool.cuda, !on_host());
	ck_assert_uint_gt(of_pool.memory_bytes, 0);
	ck_assert_uint_gt(of_pool.nr_multiprocessors, 0);
	ck_assert_uint_lt(strnlen(of_pool.name, sizeof(of_pool.name)), sizeof(of_pool.name));
	ck_assert_uint_gt(strlen(of_pool.name), 0);
	rnl_pool_destroy(pool);
}

/* ---- threads ------------------------------------------------------------- */

static double cpu_seconds(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* Returns the process's CPU time while the calling thread sleeps for @seconds. */
static double cpu_used_in(double seconds)
{
	double before = cpu_seconds();

	usleep((useconds_t)(seconds * 1e6));
	return cpu_seconds() - before;
}

TEST(an_idle_pool_uses_no_cpu)
{
	struct rnl_pool *pool = pool_of(8);
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_job jobs[8];
	struct gate gate = GATE_INIT;
	double used;

	hold_workers(pool, &gate, jobs, 8);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_eventually(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && stats.slept >= 8);
	used = cpu_used_in(2);
	printf("8 idle workers: %.1f ms of CPU in 2 s\n", used * 1e3);
	ck_assert_msg(used < 0.040 * test_scale(), "%.1f ms", used * 1e3);
	rnl_pool_destroy(pool);
}

struct held_kernel {
	struct rnl_job job;
	struct gate *all_here, *kernel;
};

static int held_kernel_fn(struct rnl_job *job)
{
	struct held_kernel *h = rnl_container_of(job, struct held_kernel, job);

	gate_wait(h->all_here);
	return launch_store(h->kernel, NULL, 0);
}

TEST(a_pool_that_waits_for_its_device_uses_little_cpu)
{
	enum { NR = 4 };
	struct rnl_pool *pool;
	struct gate all_here = GATE_INIT, kernel = GATE_INIT;
	struct held_kernel held[NR];
	double used;

	skip_unless_host();
	pool = pool_of(NR);
	for (unsigned i = 0; i < NR; i++) {
		held[i] = (struct held_kernel){ .all_here = &all_here, .kernel = &kernel };
		submit_job(pool, &held[i].job, held_kernel_fn, NULL);
	}
	gate_await(&all_here, NR);
	gate_open(&all_here);
	gate_await(&kernel, NR);
	used = cpu_used_in(1);
	printf("%d workers that wait: %.1f %% of a core each\n", NR, used / NR * 100);
	ck_assert_msg(used / NR < 0.15 * test_scale(), "%.1f %%", used / NR * 100);
	gate_open(&kernel);
	for (unsigned i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&held[i].job), 0);
	rnl_pool_destroy(pool);
}
