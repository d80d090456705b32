/* SPDX-License-Identifier: MIT */
/* The guard: when it checks a function, how often it calls it, and results that stay the same. */
#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "guard.h"

SUITE_FORKS

#define BYTES 4096

static struct said said;

/* ---- jobs ------------------------------------------------------------------- */

/* Memory of one run of a list of jobs. */
struct ground {
	unsigned char *in, *out;	/* pinned */
	unsigned char *device, *other;
	unsigned nr_calls;
};

static void ground_init(struct ground *g, struct rnl_pool *pool)
{
	void *mem[4];

	for (int i = 0; i < 4; i++)
		must(rnl_memory_get(pool, i < 2 ? RNL_PINNED : 0, BYTES, &mem[i], 0));
	*g = (struct ground){ mem[0], mem[1], mem[2], mem[3], 0 };
	for (unsigned i = 0; i < BYTES; i++) {
		g->in[i] = (unsigned char)(i * 7 + 1);
		g->out[i] = 0;
	}
}

static void ground_fini(struct ground *g, struct rnl_pool *pool)
{
	rnl_memory_put(pool, g->in);
	rnl_memory_put(pool, g->out);
	rnl_memory_put(pool, g->device);
	rnl_memory_put(pool, g->other);
}

#define JOB(name) \
	static int name(struct rnl_job *job) \
	{ \
		struct ground *g = job->user; \
		g->nr_calls++;
#define END }

JOB(nothing)
	return 3;
END
JOB(copies_in)
	return rnl_copy(g->device, g->in, BYTES);
END
JOB(copies_on)
	return rnl_copy(g->other, g->device, BYTES);
END
JOB(copies_out)
	return rnl_copy(g->out, g->other, BYTES);
END
JOB(copies_there_and_back)
	int ret = rnl_copy(g->device, g->in, 64);

	return ret ? ret : rnl_copy(g->out + 64, g->device, 64);
END
JOB(copies_rows)
	return rnl_copy_2d(g->out + 128, 32, g->device, 64, 16, 4);
END
JOB(copies_pinned_to_pinned)
	return rnl_copy(g->out + 1024, g->in, 64);
END
JOB(fills)
	return rnl_fill(g->device + 64, 0x5a, 64);
END
JOB(fills_pinned)
	return rnl_fill(g->out + 1088, 0x77, 64);
END
JOB(fills_and_copies)
	int ret = rnl_fill(g->other, 0x11, 128);

	return ret ? ret : rnl_copy(g->out + 1152, g->other, 128);
END
JOB(uses_scratch)
	void *mem;
	int ret = rnl_scratch(BYTES, &mem);

	if (!ret)
		ret = rnl_fill(mem, 0x21, BYTES);
	return ret ? ret : rnl_copy(g->out + 1280, mem, 64);
END
JOB(uses_more_scratch)
	void *mem[8];
	int ret = 0;

	for (unsigned i = 0; !ret && i < 8; i++)
		ret = rnl_scratch(200000, &mem[i]);
	for (unsigned i = 0; !ret && i < 8; i++)
		ret = rnl_fill(mem[i], (uint8_t)i, 200000);
	for (unsigned i = 0; !ret && i < 8; i++)
		ret = rnl_copy(g->out + 1344 + 8 * i, mem[i], 8);
	return ret;
END
JOB(makes_device_memory)
	struct rnl_pool *pool = job->pool;
	void *mem;
	int ret = rnl_memory_get(pool, 0, 4096, &mem, 0);

	if (!ret)
		rnl_memory_put(pool, mem);
	return ret;
END
JOB(gets_a_buffer)
	struct rnl_pool *pool = job->pool;
	void *buf;
	int ret = rnl_memory_get(pool, RNL_PINNED, 64, &buf, 0);

	if (!ret)
		rnl_memory_put(pool, buf);
	return ret ? ret : rnl_copy(g->out + 1408, g->in, 8);
END
JOB(asks_for_its_stream)
	(void)g;
	return rnl_worker().index < 0 || (!on_host() && !rnl_stream());
END
JOB(fails_by_itself)
	int ret = rnl_fill(g->out + 1472, 0x42, 32);

	return ret ? ret : -EPROTO;
END
JOB(copies_nothing)
	return rnl_copy(g->out, g->in, 0);
END
JOB(fills_many)
	int ret = 0;

	for (unsigned i = 0; !ret && i < 100; i++)
		ret = rnl_fill(g->out + 1536 + i, (uint8_t)i, 1);
	return ret;
END
JOB(writes_twice)
	int ret = rnl_fill(g->out + 1700, 1, 16);

	return ret ? ret : rnl_fill(g->out + 1704, 2, 4);
END
JOB(asks_about_the_pool)
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	int ret = rnl_pool_read_stats(job->pool, RNL_ALL_WORKERS, &stats);

	return ret ? ret : rnl_fill(g->out + 1720, 3, 16);
END

static int (*const correct[])(struct rnl_job *job) = {
	nothing, copies_in, copies_on, copies_out, copies_there_and_back, copies_rows,
	copies_pinned_to_pinned, fills, fills_pinned, fills_and_copies, uses_scratch,
	uses_more_scratch, makes_device_memory, gets_a_buffer, asks_for_its_stream,
	fails_by_itself, copies_nothing, fills_many, writes_twice, asks_about_the_pool,
};

/* Runs each job twice in a row and stores the results. */
static void run_correct(struct rnl_pool *pool, struct ground *g, int *results)
{
	ground_init(g, pool);
	for (unsigned i = 0; i < 2 * COUNT(correct); i++)
		results[i] = run_job(pool, correct[i / 2], g);
}

TEST(correct_jobs_are_called_once_have_no_findings_and_do_what_they_do_unguarded, .loops = 3)
{
	static const struct {
		uint32_t guard, stream;
	} ways[] = {
		{ RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD },
		{ RNL_GUARD_REPORT, RNL_STREAM_PRIVATE },
		{ RNL_GUARD_STRICT, RNL_STREAM_PER_THREAD },
	};
	int plain[2 * COUNT(correct)], watched[2 * COUNT(correct)];
	struct rnl_pool *pool = guarded_pool(&said, RNL_GUARD_OFF, ways[_i].stream, 3), *guarded;
	struct ground g, h;

	run_correct(pool, &g, plain);
	ck_assert_uint_eq(figures_of(pool).guard.functions, 0);
	rnl_pool_drain(pool, RNL_FOREVER);
	guarded = guarded_pool(&said, ways[_i].guard, ways[_i].stream, 3);
	run_correct(guarded, &h, watched);
	ck_assert_msg(!said.nr, "said: %s", said.lines[0]);
	ck_assert_uint_eq(findings_of(guarded), 0);
	ck_assert_uint_eq(figures_of(guarded).guard.functions, COUNT(correct));
	ck_assert_uint_eq(figures_of(guarded).guard.twice, 0);
	ck_assert_uint_eq(figures_of(guarded).guard.postponed, 0);
	/* Each function was called once per run. */
	ck_assert_uint_eq(h.nr_calls, 2 * COUNT(correct));
	ck_assert_mem_eq(plain, watched, sizeof(plain));
	ck_assert_mem_eq(g.out, h.out, BYTES);
	ck_assert_uint_eq(h.out[1720], 3);
	ground_fini(&h, guarded);
	rnl_pool_destroy(guarded);
	ground_fini(&g, pool);
	rnl_pool_destroy(pool);
}

/* ---- jobs with findings ------------------------------------------------------ */

struct bad {
	struct ground ground;
	unsigned nr_calls;
	unsigned char pageable[BYTES];
	void *mem;
};

/* Visible, and linked with -rdynamic, because dladdr() must find the names. */
#define BAD_JOB(name) \
	__attribute__((visibility("default"))) int name(struct rnl_job *job); \
	int name(struct rnl_job *job) \
	{ \
		struct bad *b = job->user; \
		b->nr_calls++;

BAD_JOB(bad_waits)
	int ret = rnl_fill(b->ground.out, 1, 64);

	(void)rnl_stream_wait(RNL_FOREVER);
	return ret;
END
BAD_JOB(bad_copies_pageable)
	return rnl_copy(b->ground.device, b->pageable, BYTES);
END
BAD_JOB(bad_copies_to_pageable)
	int ret = rnl_fill(b->ground.device, 0x33, BYTES);

	return ret ? ret : rnl_copy(b->pageable, b->ground.device, BYTES);
END
BAD_JOB(bad_locks_memory)
	struct rnl_pool *pool = job->pool;
	void *buf;
	int ret = rnl_memory_get(pool, RNL_PINNED, 16 << 20, &buf, 0);

	if (!ret)
		rnl_memory_put(pool, buf);
	return ret ? ret : rnl_fill(b->ground.out, 2, 64);
END
BAD_JOB(bad_uses_legacy)
	int ret = CUDA(memset_fn *, "cudaMemsetAsync")(b->ground.device, 0x44, BYTES, NULL);

	return ret ? -EIO : rnl_copy(b->ground.out, b->ground.device, BYTES);
END
/* Waits itself, because a private stream has no order with the legacy stream. */
BAD_JOB(bad_uses_legacy_alone)
	int ret = CUDA(memset_fn *, "cudaMemsetAsync")(b->ground.device, 0x47, BYTES, NULL);

	return ret || CUDA(stream_fn *, "cudaStreamSynchronize")(NULL) ? -EIO : 0;
END
BAD_JOB(bad_uses_legacy_and_goes_on)
	(void)CUDA(memset_fn *, "cudaMemsetAsync")(b->ground.device, 0x45, BYTES, NULL);
	return rnl_copy(b->ground.out, b->ground.device, BYTES);
END
BAD_JOB(bad_uses_legacy_and_forgets_why_not)
	int ret = CUDA(memset_fn *, "cudaMemsetAsync")(b->ground.device, 0x46, BYTES, NULL);

	return ret && CUDA(no_args_fn *, "cudaGetLastError")() == ret ? -EIO : 0;
END
BAD_JOB(bad_waits_for_the_device)
	int ret = rnl_fill(b->ground.out, 4, 64);

	if (!ret && CUDA(no_args_fn *, "cudaDeviceSynchronize")())
		return -EIO;
	return ret;
END
BAD_JOB(bad_waits_for_its_stream)
	int ret = rnl_fill(b->ground.out, 5, 64);

	if (!ret && CUDA(stream_fn *, "cudaStreamSynchronize")(rnl_stream()))
		return -EIO;
	return ret;
END
BAD_JOB(bad_allocates)
	if (CUDA(malloc_fn *, "cudaMalloc")(&b->mem, 4096))
		return -EIO;
	if (CUDA(free_fn *, "cudaFree")(b->mem))
		return -EIO;
	return rnl_fill(b->ground.out, 6, 64);
END
BAD_JOB(bad_copies_raw_pageable)
	return CUDA(copy_fn *, "cudaMemcpyAsync")(b->ground.device, b->pageable, BYTES, 4,
						  rnl_stream()) ? -EIO : 0;
END

static const struct {
	int (*fn)(struct rnl_job *job);
	const char *name, *text;
	size_t figure;			/* the statistic that counts the finding */
	unsigned calls;			/* in report mode, in two runs */
	bool cuda;
} bad_jobs[] = {
#define BAD(fn, text, field, ...) \
	{ fn, #fn "()", text, offsetof(struct rnl_pool_stats, guard.field), __VA_ARGS__ }
	BAD(bad_waits, "waits", waits, 2, false),
	BAD(bad_copies_pageable, "pageable", pageable, 3, false),
	BAD(bad_copies_to_pageable, "pageable", pageable, 3, false),
	BAD(bad_locks_memory, "memory", memory, 2, false),
	BAD(bad_uses_legacy, "legacy", legacy, 3, true),
	BAD(bad_uses_legacy_and_goes_on, "legacy", legacy, 3, true),
	BAD(bad_uses_legacy_and_forgets_why_not, "legacy", unclear, 3, true),
	BAD(bad_waits_for_the_device, "waits", waits_or_memory, 3, true),
	BAD(bad_waits_for_its_stream, "waits", waits_or_memory, 3, true),
	BAD(bad_allocates, "memory", waits_or_memory, 3, true),
	BAD(bad_copies_raw_pageable, "pageable", pageable, 3, true),
};

static int run_bad(struct rnl_pool *pool, unsigned i, struct bad *b)
{
	if (bad_jobs[i].cuda)
		add_cuda_unit();
	return run_job(pool, bad_jobs[i].fn, b);
}

static uint64_t figure_in(const struct rnl_pool_stats *stats, size_t offset)
{
	return *(const uint64_t *)(const void *)((const char *)stats + offset);
}

static struct bad bad;

TEST(a_finding_is_named_and_counted_and_the_work_is_done, .loops = COUNT(bad_jobs))
{
	const bool is_cuda = bad_jobs[_i].cuda;
	unsigned char out[2][BYTES], device[2][BYTES], pageable[2][BYTES];
	struct rnl_pool *pool;

	if (is_cuda && on_host())
		test_skip("%s: a CUDA call", bad_jobs[_i].name);
	for (unsigned guard = RNL_GUARD_OFF; guard <= RNL_GUARD_REPORT; guard++) {
		struct rnl_pool_stats stats;

		pool = guarded_pool(&said, guard, RNL_STREAM_PER_THREAD, 2);
		bad.nr_calls = 0;
		memset(bad.pageable, 0x61, BYTES);
		ground_init(&bad.ground, pool);
		ck_assert_int_eq(run_job(pool, copies_in, &bad.ground), 0);
		for (int run = 0; run < 2; run++)
			ck_assert_int_eq(run_bad(pool, (unsigned)_i, &bad), 0);
		memcpy(out[guard], bad.ground.out, BYTES);
		memcpy(pageable[guard], bad.pageable, BYTES);
		ck_assert_int_eq(run_job(pool, copies_on, &bad.ground), 0);
		ck_assert_int_eq(run_job(pool, copies_out, &bad.ground), 0);
		memcpy(device[guard], bad.ground.out, BYTES);
		stats = figures_of(pool);
		if (guard == RNL_GUARD_REPORT) {
			ck_assert_msg(has_said(&said, bad_jobs[_i].name, bad_jobs[_i].text),
				      "said %u: %s", said.nr, said.lines[0]);
			ck_assert_uint_eq(findings_of(pool), 1);
			/* On a GPU the driver's log may have further messages. */
			if (!is_cuda || test_fake())
				ck_assert_uint_eq(figure_in(&stats, bad_jobs[_i].figure), 1);
			ck_assert_uint_eq(bad.nr_calls, bad_jobs[_i].calls);
			ck_assert_uint_eq(stats.guard.twice, bad_jobs[_i].calls - 2);
		} else {
			ck_assert_uint_eq(bad.nr_calls, 2);
			ck_assert_uint_eq(said.nr, 0);
		}
		ground_fini(&bad.ground, pool);
		rnl_pool_destroy(pool);
	}
	ck_assert_mem_eq(out[0], out[1], BYTES);
	ck_assert_mem_eq(device[0], device[1], BYTES);
	ck_assert_mem_eq(pageable[0], pageable[1], BYTES);
}

TEST(the_drivers_log_tells_waits_from_memory)
{
	int (*plan)(const char *text) = CUDA(int (*)(const char *), "fake_plan");
	static const struct {
		int (*fn)(struct rnl_job *job);
		const char *name, *call;
		size_t figure;
	} logged[] = {
		BAD(bad_waits_for_the_device, "[cudaDeviceSynchronize]", waits),
		BAD(bad_waits_for_its_stream, "[cudaStreamSynchronize]", waits),
		BAD(bad_allocates, "[cudaMalloc]", memory),
	};

	if (!test_fake())
		test_skip("this is about the double's log");
	must(plan("logs"));
	add_cuda_unit();
	for (unsigned i = 0; i < COUNT(logged); i++) {
		struct rnl_pool *pool =
			guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 2);
		struct rnl_pool_stats stats;

		ground_init(&bad.ground, pool);
		ck_assert_int_eq(run_job(pool, logged[i].fn, &bad), 0);
		stats = figures_of(pool);
		ck_assert_msg(has_said(&said, logged[i].name, logged[i].call) &&
			      figure_in(&stats, logged[i].figure) == 1, "said: %s", said.lines[0]);
		ck_assert_uint_eq(findings_of(pool), 1);
		ground_fini(&bad.ground, pool);
		rnl_pool_destroy(pool);
	}
}

TEST(the_strict_guard_fails_such_a_job_without_its_work, .loops = COUNT(bad_jobs))
{
	const bool is_cuda = bad_jobs[_i].cuda;
	struct rnl_pool *pool;

	if (is_cuda && on_host())
		test_skip("%s: a CUDA call", bad_jobs[_i].name);
	pool = guarded_pool(&said, RNL_GUARD_STRICT, RNL_STREAM_PER_THREAD, 2);
	ground_init(&bad.ground, pool);
	ck_assert_int_eq(run_job(pool, copies_in, &bad.ground), 0);
	memset(bad.pageable, 0x61, BYTES);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_int_eq(run_bad(pool, (unsigned)_i, &bad), -ENOTSUP);
	/* Later jobs are refused without a call. */
	ck_assert_uint_eq(bad.nr_calls, 1);
	ck_assert_uint_eq(findings_of(pool), 1);
	ck_assert(has_said(&said, bad_jobs[_i].name, bad_jobs[_i].text));
	ck_assert_uint_eq(figures_of(pool).failed, 3);
	ck_assert_bytes(bad.pageable, BYTES, 0x61);
	ck_assert_bytes(bad.ground.out, BYTES, 0);
	/* The next job works as before. */
	ck_assert_int_eq(run_job(pool, copies_on, &bad.ground), 0);
	ck_assert_int_eq(run_job(pool, copies_out, &bad.ground), 0);
	ck_assert_mem_eq(bad.ground.out, bad.ground.in, BYTES);
	ground_fini(&bad.ground, pool);
	rnl_pool_destroy(pool);
}

TEST(on_a_private_stream_the_legacy_one_is_found_too)
{
	struct rnl_pool *pool;

	if (on_host())
		test_skip("the host device has no legacy stream");
	pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PRIVATE, 2);
	ground_init(&bad.ground, pool);
	add_cuda_unit();
	ck_assert_int_eq(run_job(pool, bad_uses_legacy_alone, &bad), 0);
	ck_assert(has_said(&said, "bad_uses_legacy_alone()", "no order"));
	ck_assert_uint_eq(figures_of(pool).guard.legacy, 1);
	ground_fini(&bad.ground, pool);
	rnl_pool_destroy(pool);
}

TEST(findings_are_in_the_text_for_prometheus)
{
	static const char *const lines[] = {
		"\nrnl_guard_findings_total{pool=\"p\",kind=\"pageable_copy\"} 1\n",
		"\nrnl_guard_findings_total{pool=\"p\",kind=\"legacy_stream\"} 0\n",
		"\nrnl_guard_functions_total{pool=\"p\"} 1\n",
		"\nrnl_guard_called_again_total{pool=\"p\"} 1\n",
	};
	struct rnl_pool *pool = guarded_pool(&said, RNL_GUARD_REPORT, RNL_STREAM_PER_THREAD, 1);
	static char text[65536];

	ground_init(&bad.ground, pool);
	ck_assert_int_eq(run_bad(pool, 1, &bad), 0);
	ck_assert_int_gt(rnl_pool_stats_text(pool, "p", text, sizeof(text)), 0);
	for (unsigned i = 0; i < COUNT(lines); i++)
		ck_assert_msg(strstr(text, lines[i]), "no %s", lines[i]);
	ground_fini(&bad.ground, pool);
	rnl_pool_destroy(pool);

	pool = pool_of(1);
	ck_assert_int_gt(rnl_pool_stats_text(pool, "p", text, sizeof(text)), 0);
	ck_assert_ptr_null(strstr(text, "guard"));
	rnl_pool_destroy(pool);
}
