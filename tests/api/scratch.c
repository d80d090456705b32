/* SPDX-License-Identifier: MIT */
/* Device memory for a running job: its own while it runs, and gone afterwards. */
#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "heap.h"
#include "pool.h"

SANITIZER_OPTIONS("allocator_may_return_null=1");

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)

/* ---- a job that uses pieces --------------------------------------------------- */

enum { MOST_PIECES = 24 };

struct using {
	struct rnl_job job;
	size_t sizes[MOST_PIECES];
	unsigned nr;
	unsigned char first;		/* piece i is filled with first + i */
	unsigned char *out;		/* the pieces are copied here in a row; may be NULL */
	unsigned char *pieces[MOST_PIECES];
	int ret;			/* the function's result unless a call fails */
};

static int using_fn(struct rnl_job *job)
{
	struct using *u = rnl_container_of(job, struct using, job);
	unsigned char *out = u->out;
	void *mem;
	int ret = 0;

	/* All pieces exist at the same time, and keep their content. */
	for (unsigned i = 0; !ret && i < u->nr; i++) {
		ret = rnl_scratch(u->sizes[i], &mem);
		u->pieces[i] = mem;
		if (!ret)
			ret = rnl_fill(mem, (uint8_t)(u->first + i), u->sizes[i]);
	}
	for (unsigned i = 0; !ret && out && i < u->nr; i++) {
		ret = rnl_copy(out, u->pieces[i], u->sizes[i]);
		out += u->sizes[i];
	}
	return ret ? ret : u->ret;
}

static size_t bytes_of(const struct using *u)
{
	size_t bytes = 0;

	for (unsigned i = 0; i < u->nr; i++)
		bytes += u->sizes[i];
	return bytes;
}

MUCH_DATA static void check_pieces(const struct using *u)
{
	const unsigned char *out = u->out;

	for (unsigned i = 0; i < u->nr; i++) {
		ck_assert_uint_eq((uintptr_t)u->pieces[i] % 256, 0);
		ck_assert_bytes(out, u->sizes[i], (unsigned char)(u->first + i));
		out += u->sizes[i];
		for (unsigned k = 0; k < i; k++)
			ck_assert(u->pieces[i] + u->sizes[i] <= u->pieces[k] ||
				  u->pieces[k] + u->sizes[k] <= u->pieces[i]);
	}
}

/* Runs the job and checks its output. */
static void use(struct rnl_pool *pool, struct using *u)
{
	void *out;

	must(rnl_memory_get(pool, RNL_PINNED, bytes_of(u), &out, 0));
	u->out = out;
	submit_job(pool, &u->job, using_fn, NULL);
	ck_assert_int_eq(result_of(&u->job), u->ret);
	check_pieces(u);
	rnl_memory_put(pool, out);
}

/* ---- the pieces of a job --------------------------------------------------------- */

TEST(pieces_are_aligned_and_apart_and_keep_what_they_have, .timeout_s = 60)
{
	static const struct using uses[] = {
		{ .sizes = { 1 }, .nr = 1, .first = 1 },
		{ .sizes = { 1, 255, 256, 257, 1, 4096, 100001, MB }, .nr = 8, .first = 10 },
		/* Now the block is large enough, or just too small. */
		{ .sizes = { MB, 1, 255, 256, 257, 1, 4096, 100001 }, .nr = 8, .first = 20 },
		{ .sizes = { MB + 120 * KB }, .nr = 1, .first = 30 },
		{ .sizes = { 64 * KB, 64 * KB - 1, 64 * KB + 1, 3 }, .nr = 4, .first = 40 },
		/* Pieces that fit into the block, and others. */
		{ .sizes = { 3 * MB, 5, MB, 2 * MB, 7 }, .nr = 5, .first = 50 },
		{ .sizes = { 5, 3 * MB, 7, MB, 2 * MB }, .nr = 5, .first = 60 },
		{ .sizes = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 },
		  .nr = 20 },
	};
	static const uint64_t keeps[] = { 0, 1, 64 * KB, 2 * MB };

	for (unsigned k = 0; k < COUNT(keeps); k++) {
		struct rnl_pool *pool = pool_of(1, .scratch_keep = keeps[k]);

		for (unsigned i = 0; i < 3 * COUNT(uses); i++) {
			struct using u = uses[i % COUNT(uses)];

			use(pool, &u);
		}
		rnl_pool_destroy(pool);
	}
}

TEST(there_may_be_many_pieces_outside_the_block, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1, .scratch_keep = 1);
	struct using u = { .nr = MOST_PIECES };

	for (unsigned i = 0; i < MOST_PIECES; i++)
		u.sizes[i] = 10000 + i;
	for (int i = 0; i < 4; i++)
		use(pool, &u);
	rnl_pool_destroy(pool);
}

TEST(memory_beyond_a_workers_bound_is_gone_with_the_job, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1, .scratch_keep = 128 * KB);
	struct using u = { .sizes = { 20 * MB, 1000, 12 * MB }, .nr = 3 };
	struct using small = { .sizes = { 1 }, .nr = 1 };
	size_t before;

	/* A warm-up, for memory that the first use allocates. */
	use(pool, &u);
	before = live_bytes();
	for (int i = 0; i < 5; i++)
		use(pool, &u);
	/* A free waits in the stream's order, so another job must follow it. */
	use(pool, &small);
	if (on_host())
		ck_assert_uint_lt(live_bytes(), before + MB);
	rnl_pool_destroy(pool);
}

TEST(a_worker_keeps_no_more_than_its_bound, .timeout_s = 60)
{
	struct rnl_pool *pool;
	struct using u = { .sizes = { 8 * MB, 100 }, .nr = 2 };
	size_t before, after;

	if (!on_host() || !live_bytes())
		test_skip("what a worker keeps: only the host device has it on the heap");
	pool = pool_of(1, .scratch_keep = 16 * MB);
	before = live_bytes();
	for (int i = 0; i < 5; i++) {
		u.sizes[0] = (size_t)(i + 1) * MB;
		use(pool, &u);
	}
	u.sizes[0] = 16 * MB;	/* and a second piece */
	use(pool, &u);
	u.sizes[0] = 1;
	use(pool, &u);
	/* Only the page-locked memory and the last block are left. */
	after = live_bytes();
	ck_assert_uint_le(after - figures_of(pool).pinned_locked, before + 6 * MB);
	rnl_pool_destroy(pool);
}

TEST(a_worker_gives_the_next_job_the_last_ones_memory, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct using u = { .sizes = { 100, 3 * MB, 5000 }, .nr = 3 };
	unsigned char *pieces[3];

	/* From the second job on the worker has a block of that size. */
	use(pool, &u);
	use(pool, &u);
	memcpy(pieces, u.pieces, sizeof(pieces));
	for (int i = 0; i < 20; i++) {
		use(pool, &u);
		ck_assert_mem_eq(pieces, u.pieces, sizeof(pieces));
	}
	rnl_pool_destroy(pool);
}

/* ---- jobs in a row -------------------------------------------------------------- */

struct row {
	struct rnl_pool *pool;
	struct using *jobs;
	unsigned nr;
	unsigned char *out;
};
#define ROW_BYTES 1536

/* Each job has its own output. */
static void row_init(struct row *row, struct rnl_pool *pool, unsigned nr, bool keyed)
{
	void *mem;

	*row = (struct row){ .pool = pool, .nr = nr, .jobs = calloc(nr, sizeof(*row->jobs)) };
	must(rnl_memory_get(pool, RNL_PINNED, (size_t)nr * ROW_BYTES, &mem, 0));
	row->out = mem;
	for (unsigned i = 0; i < nr; i++) {
		struct using *u = &row->jobs[i];

		*u = (struct using){ .nr = 1 + i % 3, .first = (unsigned char)i };
		for (unsigned k = 0; k < u->nr; k++)
			u->sizes[k] = 1 + (i * 37 + k * 101) % (ROW_BYTES / 3);
		u->out = row->out + (size_t)i * ROW_BYTES;
		job_of(&u->job, using_fn, NULL);
		ck_assert_int_eq(keyed ? submit_by_key(pool, &u->job, i % 7) :
					 rnl_submit(pool, &u->job), 0);
	}
}

static void row_end(struct row *row)
{
	for (unsigned i = 0; i < row->nr; i++) {
		ck_assert_int_eq(result_of(&row->jobs[i].job), 0);
		check_pieces(&row->jobs[i]);
	}
	rnl_memory_put(row->pool, row->out);
	free(row->jobs);
}

/* Loop 1: the pool is resized meanwhile. */
TEST(jobs_in_a_row_use_the_same_memory_and_do_not_meet, .timeout_s = 60, .loops = 2)
{
	static const unsigned numbers[] = { 1, 4, 2, 3, 1, 2, 4 };
	struct rnl_pool *pool = pool_of(4);

	for (int i = 0; i < 9 / test_scale() + 1; i++) {
		struct row row;

		row_init(&row, pool, 2500, i % 2);
		for (unsigned k = 0; _i && k < COUNT(numbers); k++)
			must(rnl_pool_resize(pool, numbers[k]));
		row_end(&row);
	}
	rnl_pool_destroy(pool);
}

/* ---- callers that get no scratch ---------------------------------------------------- */

static struct gate called = GATE_INIT;
static int callback_ret, hook_ret;

static void callback(struct rnl_job *job)
{
	void *mem = NULL;

	(void)job;
	callback_ret = rnl_scratch(64, &mem);
	if (mem)
		callback_ret = 1;
	gate_wait(&called);
}

static int on_start(void *arg, unsigned worker, void **datap)
{
	(void)arg;
	(void)worker;
	(void)datap;
	hook_ret = rnl_scratch(64, &(void *){ NULL });
	return 0;
}

TEST(outside_of_a_job_there_is_none, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1, .on_start = on_start);
	void *mem = &called;
	struct rnl_job job;

	ck_assert_int_eq(hook_ret, -EINVAL);
	ck_assert_int_eq(rnl_scratch(64, &mem), -EINVAL);
	must(rnl_thread_attach(pool));
	ck_assert_int_eq(rnl_scratch(64, &mem), -EINVAL);
	rnl_thread_attach(NULL);
	ck_assert_ptr_eq(mem, &called);
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_on_done(&job, callback));
	must(rnl_submit(pool, &job));
	gate_await(&called, 1);
	ck_assert_int_eq(callback_ret, -EINVAL);
	gate_open(&called);
	rnl_pool_destroy(pool);
}

/* The call's error fails the job nevertheless. */
static int refused_fn(struct rnl_job *job)
{
	(void)(job->user ? rnl_scratch(0, &(void *){ NULL }) : rnl_scratch(64, NULL));
	return 0;
}

TEST(no_bytes_and_no_place_for_them_are_refused, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct using u = { .sizes = { 100 }, .nr = 1 };
	struct rnl_job job;

	for (int i = 0; i < 4; i++) {
		submit_job(pool, &job, refused_fn, i % 2 ? pool : NULL);
		ck_assert_int_eq(result_of(&job), -EINVAL);
		use(pool, &u);
	}
	rnl_pool_destroy(pool);
}

static int forking_fn(struct rnl_job *job)
{
	int status;
	pid_t pid = fork();

	(void)job;
	if (!pid)
		_exit(rnl_scratch(64, &(void *){ NULL }) == -EINVAL ? 0 : 1);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -ECHILD;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -EPROTO;
}

TEST(in_a_child_forked_by_a_job_there_is_none, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;

	submit_job(pool, &job, forking_fn, NULL);
	ck_assert_int_eq(result_of(&job), 0);
	rnl_pool_destroy(pool);
}

/* ---- more than the device has -------------------------------------------------------- */

struct greedy {
	struct rnl_job job;
	size_t bytes;
	void *mem;
};

/* Ignores an error, after some successful calls. */
static int greedy_fn(struct rnl_job *job)
{
	struct greedy *g = rnl_container_of(job, struct greedy, job);
	void *mem;

	for (int i = 0; i < 3; i++) {
		int ret = rnl_scratch(1000u << 5 * i, &mem);

		if (!ret)
			ret = rnl_fill(mem, 1, 1000u << 5 * i);
		if (ret)
			return ret;
	}
	g->mem = g;
	(void)rnl_scratch(g->bytes, &g->mem);
	return 3;
}

TEST(more_than_the_device_has_fails_that_job_alone, .timeout_s = 60)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool *pool = pool_of(2);
	struct using u = { .sizes = { 5000, 100000 }, .nr = 2 };

	must(rnl_device_describe(pool, NULL, 0, &info));
	for (int i = 0; i < 4; i++) {
		const size_t sizes[] = {
			2 * info.memory_bytes, SIZE_MAX, SIZE_MAX - 1, SIZE_MAX - 254,
			SIZE_MAX - 255, SIZE_MAX - 256, SIZE_MAX - 100000, SIZE_MAX / 2,
			SIZE_MAX / 2 + 1,
		};

		for (unsigned k = 0; k < COUNT(sizes); k++) {
			struct greedy g = { .bytes = sizes[k] };

			submit_job(pool, &g.job, greedy_fn, NULL);
			ck_assert_int_eq(result_of(&g.job), -ENOMEM);
			ck_assert_ptr_eq(g.mem, &g);
			use(pool, &u);
		}
	}
	rnl_pool_destroy(pool);
}

TEST(however_a_job_ends_its_memory_is_freed, .timeout_s = 60)
{
	enum { NR = 300, BYTES = 200000 };
	static const int results[] = { 0, 7, -EPROTO };
	struct rnl_pool *pool = pool_of(1, .scratch_keep = 64 * KB);
	struct using *jobs = calloc(NR, sizeof(*jobs));
	struct using u = { .sizes = { 1 }, .nr = 1 };
	struct gate gate = GATE_INIT;
	struct rnl_job held;
	size_t before;

	use(pool, &u);
	before = live_bytes();
	hold_workers(pool, &gate, &held, 1);
	for (int i = 0; i < NR; i++) {
		jobs[i] = (struct using){ .sizes = { BYTES, 100, BYTES }, .nr = 3,
					  .ret = results[i % 3] };
		job_of(&jobs[i].job, using_fn, NULL);
		if (i % 5 == 1)
			must(rnl_job_set_deadline(&jobs[i].job, 0));
		must(rnl_submit(pool, &jobs[i].job));
		if (i % 5 == 2)
			must(rnl_job_cancel(&jobs[i].job));
	}
	gate_open(&gate);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i].job), i % 5 == 1 ? -ETIMEDOUT :
				 i % 5 == 2 ? -ECANCELED : results[i % 3]);
	use(pool, &u);
	if (on_host())
		ck_assert_uint_lt(live_bytes(), before + MB);
	rnl_pool_destroy(pool);
	free(jobs);
}

/* ---- steady state ------------------------------------------------------------------- */

enum { STEADY_WORKERS = 3, STEADY_BYTES = 300 * 1024, STEADY_SMALL = 2000 };

struct steady {
	struct rnl_job job;
	struct rnl_pool *pool;
	unsigned char *in, *out;	/* pageable */
	size_t bytes;
	void *buf;			/* pinned */
};

static int steady_fn(struct rnl_job *job)
{
	struct steady *s = rnl_container_of(job, struct steady, job);
	void *a, *b;
	int ret = rnl_memory_get(s->pool, RNL_PINNED, s->bytes, &s->buf, 0);

	ret = ret ? ret : rnl_scratch(s->bytes, &a);
	ret = ret ? ret : rnl_scratch(STEADY_BYTES, &b);
	ret = ret ? ret : rnl_copy(a, s->in, s->bytes);
	ret = ret ? ret : rnl_copy(b, a, s->bytes);
	ret = ret ? ret : rnl_copy(s->buf, b, s->bytes);
	ret = ret ? ret : rnl_copy(a, s->buf, s->bytes);
	return ret ? ret : rnl_copy(s->out, a, s->bytes);
}

/* Runs @nr jobs, in turns on each worker, in batches with a barrier; one in @large is large. */
static void run_steady(struct rnl_pool *pool, unsigned nr, unsigned large)
{
	enum { BATCH = 60 };
	struct steady *jobs = calloc(BATCH, sizeof(*jobs));
	struct rnl_barrier barrier;

	for (unsigned i = 0; i < BATCH; i++) {
		jobs[i].in = malloc(STEADY_BYTES);
		jobs[i].out = malloc(STEADY_BYTES);
	}
	for (unsigned done = 0; done < nr; done += BATCH) {
		must(rnl_barrier_init(&barrier, pool));
		for (unsigned i = 0; i < BATCH; i++) {
			struct steady *s = &jobs[i];

			s->pool = pool;
			s->bytes = (done / BATCH + i) % large ? STEADY_SMALL : STEADY_BYTES;
			memset(s->in, (int)(done / BATCH + i), s->bytes);
			job_in(&barrier, &s->job, steady_fn, NULL);
			must(submit_by_key(pool, &s->job, RNL_KEY_WORKER(i % STEADY_WORKERS)));
		}
		ck_assert_int_eq(result_of_barrier(&barrier), 0);
		for (unsigned i = 0; i < BATCH; i++) {
			ck_assert_int_eq(memcmp(jobs[i].in, jobs[i].out, jobs[i].bytes), 0);
			rnl_memory_put(pool, jobs[i].buf);
		}
	}
	for (unsigned i = 0; i < BATCH; i++) {
		free(jobs[i].in);
		free(jobs[i].out);
	}
	free(jobs);
}

TEST(in_steady_state_the_device_is_not_asked_for_anything, .timeout_s = 60)
{
	enum { WARM_UP = 1200, NR = 10000 };
	/*
	 * All buffers that can be in use at a time are page-locked from the start.  The bound of
	 * staging is low, so that the jobs soon reach it.
	 */
	struct rnl_pool *pool =
		pool_of(STEADY_WORKERS, .pinned_preload = 128 * MB, .staging_max = MB);
	uint64_t calls, locked;

	run_steady(pool, WARM_UP, 1);
	calls = figures_of(pool).device_calls;
	locked = figures_of(pool).pinned_locked;
	run_steady(pool, (unsigned)(NR / test_scale()), 4);
	ck_assert_uint_eq(figures_of(pool).device_calls, calls);
	ck_assert_uint_eq(figures_of(pool).pinned_locked, locked);
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	rnl_pool_destroy(pool);
}
