/* SPDX-License-Identifier: MIT */
/* Maps: every element goes in, through the function and out, for all sizes and memories. */
#include <runnel/device.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "host_kernel.h"
#include "map.h"
#include "pool.h"

#define MANY 5		/* whole chunks; half a chunk more follows */

/* Starts a map and waits for it. */
static void run_map(struct rnl_pool *pool, struct rnl_map *map)
{
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, map, &barrier));
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
}

/* ---- sizes --------------------------------------------------------------- */

TEST(elements_of_every_size_go_in_chunks_of_every_size, .timeout_s = 60)
{
	static const size_t sizes[] = { 1, 3, 4, 16, 4096 };
	static const uint64_t chunks[] = { 1, 2, 7, 64 };
	struct rnl_pool *pool = pool_of(3);

	for (unsigned i = 0; i < COUNT(sizes) * COUNT(chunks); i++) {
		const uint64_t chunk = chunks[i % COUNT(chunks)];
		const uint64_t nrs[] = { 1, chunk - 1, chunk, chunk + 1, MANY * chunk + chunk / 2 };

		for (unsigned k = 0; k < COUNT(nrs); k++) {
			struct task t = {
				.in = PINNED, .out = PINNED, .nr = nrs[k] ? nrs[k] : 1,
				.chunk = chunk, .in_bytes = sizes[i / COUNT(chunks)],
				.out_bytes = sizes[i / COUNT(chunks)], .reports = true,
				.flags = k % 2 ? RNL_MAP_COPIES_FIRST : 0,
			};

			task_run(&t, pool);
		}
	}
	rnl_pool_destroy(pool);
}

TEST(a_chunk_may_be_larger_than_the_array, .timeout_s = 60)
{
	static const uint64_t chunks[] = { 101, 1000, UINT64_MAX / 2, UINT64_MAX - 1 };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < COUNT(chunks); i++) {
		struct task t = {
			.in = i % 2 ? PINNED : PAGEABLE, .out = PINNED, .nr = 100,
			.chunk = chunks[i], .in_bytes = 8, .out_bytes = 8, .reports = true,
		};

		task_run(&t, pool);
		t.before = t.after = 100;
		task_run(&t, pool);
		t.before = chunks[i];
		t.after = 1;
		task_run(&t, pool);
	}
	rnl_pool_destroy(pool);
}

TEST(runnel_chooses_a_chunk_size_on_request, .timeout_s = 60)
{
	static const uint64_t nrs[] = { 1, 2, 1000, 65536, 1 << 20, (1 << 20) + 1 };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < COUNT(nrs); i++) {
		struct task t = {
			.in = PINNED, .out = PINNED, .nr = nrs[i], .chunk = RNL_MAP_AUTO,
			.in_bytes = 2, .out_bytes = 2, .reports = true,
		};

		task_run(&t, pool);
		ck_assert_uint_ge(t.found_chunk, 1);
		/* A small array is one chunk; a large array has chunks for every worker. */
		if (nrs[i] <= 1000)
			ck_assert_uint_eq(t.report.chunks, 1);
		if (nrs[i] >= 1 << 20)
			ck_assert_uint_ge(t.report.chunks, 4);
	}
	for (unsigned i = 0; i < COUNT(nrs); i++) {
		struct task t = {
			.in = PINNED, .out = PINNED, .nr = nrs[i] / 100 + 1, .chunk = RNL_MAP_AUTO,
			.in_bytes = 4, .out_bytes = 4, .before = 3 * nrs[i], .after = nrs[i] / 200,
		};

		task_run(&t, pool);
	}
	rnl_pool_destroy(pool);
}

TEST(a_single_element_may_be_larger_than_a_chunk_should_be, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(2);
	struct task t = {
		.in = PINNED, .out = PAGEABLE, .nr = 3, .chunk = RNL_MAP_AUTO, .in_bytes = 9 << 20,
		.out_bytes = 1, .reports = true,
	};

	task_run(&t, pool);
	ck_assert_uint_eq(t.report.chunks, 3);
	rnl_pool_destroy(pool);
}

TEST(elements_become_larger_or_smaller, .timeout_s = 60)
{
	static const size_t sizes[][2] = {
		{ 1, 2 }, { 4, 8 }, { 3, 7 }, { 2, 64 }, { 16, 4 }, { 4096, 1 }, { 7, 3 },
	};
	static const enum where wheres[] = { PINNED, PAGEABLE, CALLED };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < COUNT(sizes) * COUNT(wheres) * COUNT(wheres); i++) {
		const unsigned size = i / COUNT(wheres) / COUNT(wheres);
		struct task t = {
			.in = wheres[i % COUNT(wheres)],
			.out = wheres[i / COUNT(wheres) % COUNT(wheres)],
			.nr = 203, .chunk = 10, .before = i % 3, .after = i % 2 * 10,
			.in_bytes = sizes[size][0], .out_bytes = sizes[size][1], .reports = true,
		};

		task_run(&t, pool);
	}
	rnl_pool_destroy(pool);
}

TEST(nothing_may_come_out, .timeout_s = 60)
{
	static const enum where wheres[] = { PINNED, PAGEABLE, CALLED };
	struct rnl_pool *pool = pool_of(3);

	for (unsigned i = 0; i < 4 * COUNT(wheres); i++) {
		struct task t = {
			.in = wheres[i / 4], .out = NOWHERE, .nr = 1000, .chunk = 11,
			.before = i % 4, .in_bytes = 5, .flags = i % 4, .reports = true,
		};

		task_run(&t, pool);
	}
	rnl_pool_destroy(pool);
}

/* ---- places -------------------------------------------------------------- */

static void run_everywhere(struct rnl_pool *pool, uint64_t nr, uint64_t chunk, uint64_t before,
			   uint64_t after)
{
	static const enum where outs[] = { PINNED, PAGEABLE, CALLED, IN_PLACE };

	for (unsigned i = 0; i < 2 * 3 * COUNT(outs); i++) {
		struct task t = {
			.in = i % 3 ? i % 3 == 1 ? PAGEABLE : CALLED : PINNED,
			.out = outs[i / 3 % COUNT(outs)], .nr = nr, .chunk = chunk,
			.before = before, .after = after, .in_bytes = 4, .out_bytes = 4,
			.flags = i / 3 / COUNT(outs) ? RNL_MAP_COPIES_FIRST : 0, .reports = i % 2,
		};

		if (t.in != CALLED || t.out != IN_PLACE)
			task_run(&t, pool);
	}
}

TEST(arrays_are_pinned_or_pageable_or_in_callbacks, .timeout_s = 60)
{
	static const unsigned workers[] = { 1, 2, 5, 8 };

	for (unsigned i = 0; i < COUNT(workers); i++) {
		struct rnl_pool *pool =
			pool_of(workers[i], .nr_class_workers = i / 2,
				.stream = i % 2 ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD);

		run_everywhere(pool, 2000, 33, 0, 0);
		run_everywhere(pool, 33 * 7, 33, 0, 0);
		run_everywhere(pool, 20000, 5000, 0, 0);
		run_everywhere(pool, 300, 17, 5, 2);
		rnl_pool_destroy(pool);
	}
}

TEST(halos_are_as_wide_as_a_chunk_at_most, .timeout_s = 60)
{
	enum { CHUNK = 4 };
	static const uint64_t nrs[] = { 1, CHUNK - 1, CHUNK, CHUNK + 1, 4 * CHUNK + 2 };
	struct rnl_pool *pool = pool_of(2);

	for (uint64_t before = 0; before <= CHUNK; before++) {
		for (uint64_t after = 0; after <= CHUNK; after++) {
			for (unsigned i = 0; i < COUNT(nrs); i++)
				run_everywhere(pool, nrs[i], CHUNK, before, after);
		}
	}
	rnl_pool_destroy(pool);
}

/* Meanwhile other chunks overwrite the neighbours in the halo. */
TEST(in_place_with_halos_neighbours_are_as_they_were, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(4);
	const unsigned rounds = (unsigned)(120 / test_scale()) + 4;

	for (unsigned k = 0; k < rounds; k++) {
		const unsigned i = k / 2;
		struct task t = {
			.in = k % 2 ? PAGEABLE : PINNED, .out = IN_PLACE, .nr = 1200 + i % 7,
			.chunk = 1 + i % 5, .before = (1 + i % 5) * (i % 3 > 0), .after = 1,
			.in_bytes = 8, .out_bytes = 8, .flags = i / 2 % 4, .reports = i % 3 == 0,
		};

		task_run(&t, pool);
	}
	rnl_pool_destroy(pool);
}

TEST(arrays_may_be_adjacent, .timeout_s = 60)
{
	enum { NR = 1000 };
	struct rnl_pool *pool = pool_of(2);
	struct task t = { .in = PINNED, .out = CALLED, .nr = NR, .chunk = 10, .in_bytes = 4,
			  .out_bytes = 4 };
	unsigned char *both = array_get(pool, PINNED, 2 * NR * 4);

	task_prepare(&t, pool);
	for (int i = 0; i < 2; i++) {
		memcpy(both + i * NR * 4, t.original, NR * 4);
		t.map.in = both + i * NR * 4;
		t.map.out = both + !i * NR * 4;
		t.map.write = NULL;
		run_map(pool, &t.map);
		ck_assert_mem_eq(both, t.original, NR * 4);
		ck_assert_mem_eq(both + NR * 4, t.original, NR * 4);
	}
	array_put(pool, PINNED, both, 2 * NR * 4);
	task_end(&t);
	rnl_pool_destroy(pool);
}

/* ---- a kernel ------------------------------------------------------------ */

struct sum_args {
	const uint32_t *in;
	uint32_t *out;
	uint64_t nr, before, after;
};

/* Adds to each element its neighbours, where they exist. */
static void sum_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct sum_args *a = args;

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < a->nr; i++) {
		a->out[i] = a->in[i];
		if (i || a->before)
			a->out[i] += a->in[(int64_t)i - 1];
		if (i + 1 < a->nr || a->after)
			a->out[i] += a->in[i + 1];
	}
}
RNL_HOST_KERNEL(sum, sum_host, struct sum_args);

static int sum_fn(const struct rnl_chunk *c)
{
	const struct sum_args args = { c->in, c->out, c->nr, c->before, c->after };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&sum, one, one, &args);
}

TEST(a_kernel_gets_its_chunk_and_the_neighbours, .timeout_s = 60)
{
	enum { NR = 100000 };
	struct rnl_pool *pool;
	struct rnl_map map = RNL_MAP_INIT;
	static uint32_t array[NR];

	skip_unless_host();
	pool = pool_of(3);
	for (uint32_t i = 0; i < NR; i++)
		array[i] = i * i;
	map.fn = sum_fn;
	map.nr = NR;
	map.chunk = 999;
	map.halo_before = map.halo_after = 1;
	map.in_bytes = map.out_bytes = sizeof(*array);
	map.in = map.out = array;
	run_map(pool, &map);
	ck_assert_uint_eq(array[0], 1);
	for (uint32_t i = 1; i < NR - 1; i++)
		ck_assert_msg(array[i] == 3 * i * i + 2, "element %u", i);
	rnl_pool_destroy(pool);
}

/* ---- reports, figures ---------------------------------------------------- */

TEST(a_report_has_the_time_of_each_stage)
{
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < 8; i++) {
		struct task t = {
			.in = i % 2 ? PAGEABLE : PINNED, .out = i / 2 % 2 ? PAGEABLE : PINNED,
			.nr = 1 << 20, .chunk = 100000, .before = 10, .after = 20, .in_bytes = 1,
			.out_bytes = 1, .reports = true,
			.flags = i / 4 ? RNL_MAP_COPIES_FIRST : 0,
		};

		task_run(&t, pool);
		ck_assert_uint_gt(t.report.in_ns, 0);
		ck_assert_uint_gt(t.report.kernel_ns, 0);
		ck_assert_uint_gt(t.report.out_ns, 0);
		ck_assert_int_eq(t.report.read_ns > 0, i % 2);
		ck_assert_int_eq(t.report.write_ns > 0, i / 2 % 2);
		ck_assert_uint_eq(t.report.nr_jobs, 2 * 2);
	}
	rnl_pool_destroy(pool);
}

/* A few chunks keep an idle GPU's engines busy; more would only wait. */
TEST(a_single_gpu_gets_few_jobs)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool *pool = pool_of(8);
	struct task t = { .in = PINNED, .out = PINNED, .nr = 5 * 2048 - 7, .chunk = 2048,
			  .in_bytes = 4096, .out_bytes = 4096, .reports = true };

	must(rnl_device_describe(pool, NULL, 0, &info));
	task_run(&t, pool);
	ck_assert_uint_eq(t.report.nr_jobs, info.cuda ? 4 : 5);
	rnl_pool_destroy(pool);
}

TEST(a_map_of_nothing_is_done_at_once)
{
	struct rnl_pool *pool = pool_of(1);
	struct task t = { .in = PINNED, .out = PAGEABLE, .chunk = 1, .in_bytes = 1, .out_bytes = 1,
			  .reports = true };
	struct rnl_map_report none = RNL_MAP_REPORT_INIT;
	struct rnl_barrier barrier;

	task_prepare(&t, pool);
	memset((char *)&t.report + sizeof(t.report.size), 0xa5,
	       sizeof(t.report) - sizeof(t.report.size));
	must(rnl_barrier_init(&barrier, pool));
	must(rnl_map_start(pool, &t.map, &barrier));
	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_mem_eq(&t.report, &none, sizeof(none));
	ck_assert_uint_eq(t.nr_fn, 0);
	must(rnl_pool_close(pool));
	ck_assert_int_eq(rnl_map_start(pool, &t.map, &barrier), -ESHUTDOWN);
	task_end(&t);
	rnl_pool_destroy(pool);
}

TEST(bytes_that_the_cpu_copies_are_counted)
{
	enum { NR = 5000 };
	struct rnl_pool *pool = pool_of(2);

	for (unsigned i = 0; i < 4; i++) {
		const uint64_t before = figures_of(pool).staged_bytes;
		struct task t = {
			.in = i % 2 ? PAGEABLE : PINNED, .out = i / 2 ? PAGEABLE : PINNED, .nr = NR,
			.chunk = 100, .in_bytes = 2, .out_bytes = 4,
		};

		task_run(&t, pool);
		ck_assert_uint_eq(figures_of(pool).staged_bytes - before,
				  (i % 2 ? NR * 2 : 0) + (i / 2 ? NR * 4 : 0));
	}
	rnl_pool_destroy(pool);
}

TEST(maps_in_steady_state_have_the_device_make_nothing)
{
	struct rnl_pool *pool = pool_of(2);
	uint64_t calls = 0, used = figures_of(pool).pinned_used;

	for (unsigned i = 0; i < 40; i++) {
		struct task t = {
			.in = PAGEABLE, .out = PAGEABLE, .nr = 100000, .chunk = 1000,
			.in_bytes = 8, .out_bytes = 8, .reports = i % 2,
			.flags = i / 2 % 2 ? RNL_MAP_COPIES_FIRST : 0,
		};

		if (i == 20)
			calls = figures_of(pool).device_calls;
		task_run(&t, pool);
		ck_assert_uint_eq(figures_of(pool).pinned_used, used);
	}
	ck_assert_uint_eq(figures_of(pool).device_calls, calls);
	rnl_pool_destroy(pool);
}

TEST(with_little_pinned_memory_fewer_jobs_take_turns)
{
	enum { WORKERS = 4, CHUNK = 300000 };
	struct rnl_pool *pool = pool_of(WORKERS, .pinned_max = 4 << 20);
	struct task t = { .in = PAGEABLE, .out = PAGEABLE, .nr = 7 * CHUNK - 1, .chunk = CHUNK,
			  .in_bytes = 1, .out_bytes = 1, .reports = true };
	struct rnl_barrier barrier;

	task_run(&t, pool);
	ck_assert_uint_ge(t.report.nr_jobs, 1);
	ck_assert_uint_lt(t.report.nr_jobs, 7);

	/* There is no memory for a single chunk. */
	t.chunk = t.nr = 9 << 20;
	task_prepare(&t, pool);
	must(rnl_barrier_init(&barrier, pool));
	ck_assert_int_eq(rnl_map_start(pool, &t.map, &barrier), -ENOMEM);
	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	task_end(&t);
	rnl_pool_destroy(pool);
}

/* ---- wrong use ----------------------------------------------------------- */

/* Asserts that a valid map with one @change is refused with @error. */
#define refused(change, error) \
	do { \
		struct rnl_map map = good; \
		change; \
		ck_assert_int_eq(rnl_map_start(pool, &map, &barrier), error); \
	} while (0)

TEST(what_makes_no_sense_is_refused)
{
	struct rnl_pool *pool = pool_of(2), *other = pool_of(1);
	struct rnl_barrier barrier, others, unset = { 0 };
	struct task t = { .in = PINNED, .out = PINNED, .nr = 100, .chunk = 10, .in_bytes = 4,
			  .out_bytes = 4, .reports = true };
	const struct rnl_pool_stats before = figures_of(pool);
	struct rnl_map good;
	void *device;

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&others, other));
	task_prepare(&t, pool);
	good = t.map;

	refused(map.fn = NULL, -EINVAL);
	refused(map.in_bytes = 0, -EINVAL);
	refused(map.chunk = 0, -EINVAL);
	refused(map.halo_before = 11, -EINVAL);
	refused(map.halo_after = 11, -EINVAL);
	refused(map.halo_before = UINT64_MAX, -EINVAL);
	refused(map.flags = 8, -EINVAL);
	refused(map.flags = UINT32_MAX, -EINVAL);

	refused(map.in = NULL, -EINVAL);
	refused(map.read = task_read, -EINVAL);
	refused(map.out = NULL, -EINVAL);
	refused(map.write = task_write, -EINVAL);
	refused(map.out_bytes = 0, -EINVAL);
	refused((map.out_bytes = 0, map.out = NULL, map.write = task_write), -EINVAL);

	refused(map.out = t.from + 1, -EINVAL);
	refused(map.out = t.from + 399, -EINVAL);
	refused(map.in = t.to + 399, -EINVAL);
	refused((map.out = t.from - 399), -EINVAL);
	refused((map.out = t.from, map.out_bytes = 3), -EINVAL);
	refused((map.out = t.from, map.out_bytes = 5), -EINVAL);

	must(rnl_memory_get(pool, 0, 400, &device, 0));
	refused(map.in = device, -EINVAL);
	refused(map.out = device, -EINVAL);
	refused((map.in = map.out = device), -EINVAL);
	rnl_memory_put(pool, device);

	refused(map.size = 0, -EINVAL);
	refused(map.size = 8, -EINVAL);
	refused(map.size = sizeof(map) - 1, -EINVAL);
	refused(map.size = 1 << 20, -EINVAL);
	t.report.size = 0;
	refused((void)map, -EINVAL);
	t.report.size = sizeof(t.report) - 1;
	refused((void)map, -EINVAL);
	t.report.size = sizeof(t.report);

	ck_assert_int_eq(rnl_map_start(NULL, &good, &barrier), -EINVAL);
	ck_assert_int_eq(rnl_map_start(pool, NULL, &barrier), -EINVAL);
	ck_assert_int_eq(rnl_map_start(pool, &good, NULL), -EINVAL);
	ck_assert_int_eq(rnl_map_start(pool, &good, &others), -EINVAL);
	ck_assert_int_eq(rnl_map_start(pool, &good, &unset), -EINVAL);

	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_uint_eq(t.nr_fn, 0);
	ck_assert_uint_eq(figures_of(pool).accepted, before.accepted);
	must(rnl_map_start(pool, &good, &barrier));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	task_verify(&t);
	task_end(&t);
	ck_assert_uint_eq(figures_of(pool).pinned_used, before.pinned_used);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

TEST(sizes_that_overflow_are_refused)
{
	/* Three times this size, for the halos, overflows to 2. */
	const uint64_t third = (UINT64_MAX - 2) / 3 + 2;
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier barrier;
	struct task t = { .in = CALLED, .out = CALLED, .nr = 10, .chunk = 1, .in_bytes = 4,
			  .out_bytes = 4 };
	struct rnl_map good;

	must(rnl_barrier_init(&barrier, pool));
	task_prepare(&t, pool);
	good = t.map;
	refused(map.nr = UINT64_MAX, -EINVAL);
	refused(map.nr = UINT64_MAX / 4 + 1, -EINVAL);
	refused((map.nr = UINT64_MAX, map.in_bytes = 1), -EINVAL);
	refused((map.nr = UINT64_MAX / 2 + 1, map.in_bytes = 2, map.out_bytes = 1), -EINVAL);
	refused((map.in_bytes = SIZE_MAX, map.nr = 2), -EINVAL);
	refused((map.out_bytes = SIZE_MAX, map.nr = 2), -EINVAL);
	refused((map.nr = map.chunk = map.halo_before = map.halo_after = third, map.in_bytes = 1,
		 map.out_bytes = 0, map.write = NULL), -EINVAL);
	ck_assert_uint_eq(t.nr_read + t.nr_fn, 0);
	task_end(&t);
	rnl_pool_destroy(pool);
}

TEST(structs_of_newer_programs_will_do)
{
	struct rnl_pool *pool = pool_of(1);
	struct task t = { .in = PINNED, .out = PINNED, .nr = 100, .chunk = 10, .in_bytes = 4,
			  .out_bytes = 4, .reports = true };
	struct {
		struct rnl_map map;
		char more[24];
	} newer = { .more = { 0 } };
	struct {
		struct rnl_map_report report;
		char more[24];
	} larger;
	struct rnl_barrier barrier;

	memset(&larger, 0xa5, sizeof(larger));
	larger.report.size = sizeof(larger);
	task_prepare(&t, pool);
	newer.map = t.map;
	newer.map.size = sizeof(newer);
	newer.map.report = &larger.report;
	must(rnl_barrier_init(&barrier, pool));
	newer.more[23] = 1;
	ck_assert_int_eq(rnl_map_start(pool, &newer.map, &barrier), -E2BIG);
	newer.more[23] = 0;
	run_map(pool, &newer.map);
	ck_assert_uint_eq(larger.report.size, sizeof(larger));
	ck_assert_uint_eq(larger.report.chunks, 10);
	ck_assert_bytes((unsigned char *)larger.more, sizeof(larger.more), 0);
	task_verify(&t);
	task_end(&t);
	rnl_pool_destroy(pool);
}
