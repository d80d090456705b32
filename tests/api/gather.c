/* SPDX-License-Identifier: MIT */
/*
 * Jobs with RNL_GATHER: their work has the usual effect, with fewer driver calls.
 *
 * tests/cuda/gather.c compiles this file again, for a kernel that runs on the GPU.
 */
#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/unit.h>

#include "change.h"
#include "host_kernel.h"
#include "pool.h"
#include "sanitizers.h"
#include "seed.h"

/* Defined by the double: tests/fake_cudart/fake_cudart.h. */
__attribute__((weak)) uint64_t fake_calls(const char *function);
__attribute__((weak)) uint64_t fake_early_sets(void);
__attribute__((weak)) int fake_fail(const char *function, unsigned nth, int code, bool sticky);
__attribute__((weak)) int fake_plan(const char *text);

#ifndef BYTES
#define BYTES 256u		/* of an area; GPUs have larger ones */
#endif

enum { MEMORIES = 6, OPS = 10, JOBS = 40 };

/* Two of each kind of memory: on the device, page-locked, pageable. */
enum { D0, D1, Q0, Q1, P0, P1 };

static struct rnl_dim grid_of(uint32_t add)
{
	return (struct rnl_dim){ 1 + add % 3, 1, 1 };
}

/* Spoils the memory if the launch got another launch's grid. */
static void change_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct change *c = args;

	(void)block;
	for (uint32_t i = 0; i < c->bytes; i++)
		c->mem[i] = changed(c->mem[i], c->add + (grid.x != grid_of(c->add).x));
}

static void flip_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct change *c = args;

	(void)block;
	for (uint32_t i = 0; i < c->bytes; i++)
		c->mem[i] = flipped(c->mem[i], c->add, grid.x);
}

#ifdef CHANGE_ON_GPU
#define skip_without_kernel() ((void)0)
#else
RNL_HOST_KERNEL(change, change_host, struct change);
RNL_HOST_KERNEL(flip, flip_host, struct change);
#define skip_without_kernel() skip_unless_host()
#endif

static int launch(const struct rnl_kernel *kernel, struct rnl_dim grid, const struct change *args)
{
	const struct rnl_dim block = { 128, 1, 1 };

	return rnl_launch(kernel, grid, block, args);
}

static int launch_change(unsigned char *mem, uint32_t bytes, uint32_t add)
{
	return launch(&change, grid_of(add), &(struct change){ mem, bytes, add });
}

/* ---- jobs that do anything to memory of their own ------------------------------- */

struct op {
	enum { COPY, RECT, FILL, LAUNCH, FLIP, LOOK } kind;
	unsigned dst, src, dst_at, src_at, bytes;
	unsigned width, rows, dst_pitch, src_pitch;	/* of RECT */
};

struct program {
	struct rnl_job job;
	unsigned char *mem[MEMORIES], shadow[MEMORIES][BYTES];
	struct op ops[OPS];
	unsigned nr;
};

static struct {
	struct rnl_pool *pool;
	enum rnl_stream_kind stream;
	unsigned char *device, *pinned, pageable[JOBS * 2 * BYTES];
	struct program programs[JOBS];
} all;

/* Returns a size, mostly small; the mover copies up to 16 KB. */
static unsigned any_bytes(uint64_t *random)
{
	static const unsigned most[] = { 16, 96, 400, 16400, BYTES };
	const unsigned max = most[draw(random, COUNT(most))];

	return 1 + draw(random, max < BYTES ? max : BYTES);
}

static unsigned extent(const struct op *op, unsigned pitch)
{
	return (op->rows - 1) * pitch + op->width;
}

static void draw_rows(struct op *op, uint64_t *random)
{
	op->width = 1 + draw(random, 16);
	op->rows = 1 + draw(random, 8);
	op->dst_pitch = op->width + draw(random, 16);
	op->src_pitch = op->width + draw(random, 16);
	op->bytes = extent(op, op->dst_pitch > op->src_pitch ? op->dst_pitch : op->src_pitch);
}

/* Returns an offset; half of them are aligned to 16 bytes, which is the mover's fast case. */
static unsigned any_place(uint64_t *random, unsigned bytes)
{
	const unsigned at = draw(random, BYTES - bytes + 1);

	return draw(random, 2) ? at & ~15u : at;
}

static struct op any_op(uint64_t *random)
{
	struct op op = { .kind = draw(random, LOOK + 1), .dst = draw(random, MEMORIES) };

	op.src = (op.dst + 1 + draw(random, MEMORIES - 1)) % MEMORIES;
	if (op.kind == FILL)
		op.dst = draw(random, P0);
	if (op.kind == LAUNCH || op.kind == FLIP)
		op.dst = draw(random, Q0);
	op.bytes = any_bytes(random);
	if (op.kind == RECT)
		draw_rows(&op, random);
	op.dst_at = any_place(random, op.bytes);
	op.src_at = any_place(random, op.bytes);
	return op;
}

static int issue(struct program *p, const struct op *op)
{
	unsigned char *dst = p->mem[op->dst] + op->dst_at, *src = p->mem[op->src] + op->src_at;

	switch (op->kind) {
	case COPY:
		return rnl_copy(dst, src, op->bytes);
	case RECT:
		return rnl_copy_2d(dst, op->dst_pitch, src, op->src_pitch, op->width, op->rows);
	case FILL:
		return rnl_fill(dst, (uint8_t)op->bytes, op->bytes);
	case LAUNCH:
		return launch_change(dst, op->bytes, op->dst_at);
	case FLIP:
		return launch(&flip, grid_of(op->src),
			      &(struct change){ dst, op->bytes, op->dst_at });
	default:
		/* rnl_stream() issues the gathered work. */
		return rnl_stream() || on_host() ? 0 : -EIO;
	}
}

static void shadow(struct program *p, const struct op *op)
{
	unsigned char *dst = p->shadow[op->dst] + op->dst_at;
	const unsigned char *src = p->shadow[op->src] + op->src_at;
	const struct change c = { dst, op->bytes, op->dst_at };

	switch (op->kind) {
	case COPY:
		memcpy(dst, src, op->bytes);
		break;
	case RECT:
		for (unsigned row = 0; row < op->rows; row++)
			memcpy(dst + row * op->dst_pitch, src + row * op->src_pitch, op->width);
		break;
	case FILL:
		memset(dst, (uint8_t)op->bytes, op->bytes);
		break;
	case LAUNCH:
		change_host(grid_of(c.add), grid_of(c.add), &c);
		break;
	case FLIP:
		flip_host(grid_of(op->src), grid_of(op->src), &c);
		break;
	default:
		break;
	}
}

static int program_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	int ret = 0;

	for (unsigned i = 0; !ret && i < p->nr; i++)
		ret = issue(p, &p->ops[i]);
	return ret;
}

/* Copies a job's shadow to its device memory; back_fn() copies the device memory out. */
static int in_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	int ret = rnl_copy(p->mem[D0], p->shadow[D0], BYTES);

	return ret ? ret : rnl_copy(p->mem[D1], p->shadow[D1], BYTES);
}

static unsigned char back[JOBS][2][BYTES];

static int back_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	int ret = rnl_copy(back[p - all.programs][D0], p->mem[D0], BYTES);

	return ret ? ret : rnl_copy(back[p - all.programs][D1], p->mem[D1], BYTES);
}

static void gathering_job(struct rnl_job *job, int (*fn)(struct rnl_job *job), void *user)
{
	job_of(job, fn, user);
	must(rnl_job_set_flags(job, RNL_GATHER));
}

static void submit_gather(struct rnl_pool *pool, struct rnl_job *job,
			  int (*fn)(struct rnl_job *job), void *user)
{
	gathering_job(job, fn, user);
	must(rnl_submit(pool, job));
}

/* The job is also in a barrier. */
static void submit_gather_in(struct rnl_barrier *barrier, struct rnl_job *job,
			     int (*fn)(struct rnl_job *job), void *user)
{
	gathering_job(job, fn, user);
	must(rnl_barrier_add(barrier, job));
	must(rnl_submit(all.pool, job));
}

/* Runs all jobs.  Another job holds the only worker until they are queued: a backlog. */
static void run_all(int (*fn)(struct rnl_job *job), bool gather)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held;

	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		job_of(&all.programs[i].job, fn, NULL);
		must(rnl_job_set_flags(&all.programs[i].job, gather ? RNL_GATHER : 0));
		must(rnl_submit(all.pool, &all.programs[i].job));
	}
	gate_open(&gate);
	for (int i = 0; i < JOBS; i++)
		ck_assert_int_eq(result_of(&all.programs[i].job), 0);
	must(rnl_job_wait(&held, RNL_FOREVER));
}

/* Runs @fn until the worker knows that it is short: then many of its jobs form a group. */
static void begin(int (*fn)(struct rnl_job *job))
{
	void *mem;

	all.pool = pool_of(1, .in_flight_ns = UINT64_MAX, .stream = all.stream);
	must(rnl_memory_get(all.pool, 0, (size_t)JOBS * 2 * BYTES, &mem, 0));
	all.device = mem;
	must(rnl_memory_get(all.pool, RNL_PINNED, (size_t)JOBS * 2 * BYTES, &mem, 0));
	all.pinned = mem;
	for (unsigned i = 0; i < JOBS; i++) {
		struct program *p = &all.programs[i];

		for (unsigned m = 0; m < MEMORIES; m++) {
			p->mem[m] = m <= D1 ? all.device : m <= Q1 ? all.pinned : all.pageable;
			p->mem[m] += (2 * i + m % 2) * BYTES;
		}
	}
	/* No function should read device memory that was never written. */
	run_all(in_fn, false);
	for (int i = 0; i < 20; i++)
		run_all(fn, true);
	for (unsigned i = 0; i < JOBS; i++) {
		struct program *p = &all.programs[i];

		for (unsigned m = 0; m < MEMORIES; m++) {
			for (unsigned k = 0; k < BYTES; k++)
				p->shadow[m][k] = (unsigned char)(i * 31 + m * 7 + k);
			if (m > D1)
				memcpy(p->mem[m], p->shadow[m], BYTES);
		}
	}
	run_all(in_fn, false);
}

static void end(void)
{
	rnl_memory_put(all.pool, all.pinned);
	rnl_memory_put(all.pool, all.device);
	rnl_pool_destroy(all.pool);
	all.stream = RNL_STREAM_PER_THREAD;
}

static void check_all(void)
{
	run_all(back_fn, false);
	for (unsigned i = 0; i < JOBS; i++) {
		struct program *p = &all.programs[i];

		for (unsigned m = 0; m < MEMORIES; m++)
			ck_assert_mem_eq(m <= D1 ? back[i][m] : p->mem[m], p->shadow[m], BYTES);
	}
}

/* Runs programs that @draw_one draws, and compares them with their shadows. */
static void run_drawn(void (*draw_one)(struct program *p, uint64_t *random), int stream, int rounds)
{
	uint64_t random = draws_of(test_seed(), (uint64_t)stream);

	all.stream = (enum rnl_stream_kind)stream;
	begin(program_fn);
	for (int round = 0; round < rounds / test_scale(); round++) {
		for (unsigned i = 0; i < JOBS; i++) {
			struct program *p = &all.programs[i];

			draw_one(p, &random);
			for (unsigned k = 0; k < p->nr; k++)
				shadow(p, &p->ops[k]);
		}
		run_all(program_fn, true);
		check_all();
	}
	end();
}

static void draw_any(struct program *p, uint64_t *random)
{
	p->nr = 1 + draw(random, OPS);
	for (unsigned k = 0; k < p->nr; k++)
		p->ops[k] = any_op(random);
}

TEST(each_job_finds_its_earlier_operations, .timeout_s = 60, .loops = 2)
{
	skip_without_kernel();
	run_drawn(draw_any, _i, 60);
}

/* ---- copy in, kernel, copy out ---------------------------------------------------- */

static void draw_j(struct program *p, uint64_t *random)
{
	const unsigned bytes = any_bytes(random), at = any_place(random, bytes);
	const unsigned in_at = any_place(random, bytes), out_at = any_place(random, bytes);

	p->nr = 3;
	p->ops[0] = (struct op){ COPY, D0, Q0, at, in_at, .bytes = bytes };
	p->ops[1] = (struct op){ LAUNCH, D0, 0, at, 0, .bytes = bytes };
	p->ops[2] = (struct op){ COPY, Q1, D0, out_at, at, .bytes = bytes };
}

TEST(a_kernel_comes_between_the_copies_of_its_job, .timeout_s = 60, .loops = 2)
{
	skip_without_kernel();
	run_drawn(draw_j, _i, 40);
}

static int j_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	int ret = rnl_copy(p->mem[D0], p->mem[Q0], BYTES);

	if (!ret)
		ret = launch_change(p->mem[D0], BYTES, 5);
	return ret ? ret : rnl_copy(p->mem[Q1], p->mem[D0], BYTES);
}

static void shadow_j(struct program *p)
{
	const struct rnl_dim grid = grid_of(5);

	memcpy(p->shadow[D0], p->shadow[Q0], BYTES);
	change_host(grid, grid, &(struct change){ p->shadow[D0], BYTES, 5 });
	memcpy(p->shadow[Q1], p->shadow[D0], BYTES);
}

static void check_j(void)
{
	for (unsigned i = 0; i < JOBS; i++)
		shadow_j(&all.programs[i]);
	check_all();
}

static uint64_t nr_gathered(void)
{
	return figures_of(all.pool).gathered;
}

/* Returns the number of single copies, which only the double counts. */
static uint64_t nr_copies(void)
{
	return test_fake() ? fake_calls("cudaMemcpyAsync") : 0;
}

/* On a busy machine, slow jobs end a group early, so one good round is enough. */
TEST(small_jobs_take_few_calls_of_the_driver, .timeout_s = 60)
{
	bool few = false;

	skip_unless_host();
	begin(j_fn);
	for (int round = 0; round < 100 && !few; round++) {
		const uint64_t copies = nr_copies(), gathered = nr_gathered();

		run_all(j_fn, true);
		ck_assert_uint_le(nr_gathered(), gathered + JOBS);
		few = nr_gathered() >= gathered + JOBS - 8 && nr_copies() <= copies + 8;
	}
	ck_assert(few);
	check_j();
	end();
}

/* Copies to the device.  @job->user: the program. */
static int copy_fn(struct rnl_job *job)
{
	const struct program *p = job->user;

	return rnl_copy(p->mem[D0], p->mem[Q0], BYTES);
}

static struct rnl_job many[10 * 32];
enum { MANY = sizeof(many) / sizeof(many[0]) };

/* A worker that asked the driver would do so once for each group after the first two. */
TEST(the_end_of_a_group_takes_no_call_of_the_driver, .timeout_s = 60)
{
	bool few = false;

	if (!test_fake())
		test_skip("only the double of CUDA counts calls");
	begin(j_fn);
	for (int round = 0; round < 100 && !few; round++) {
		const uint64_t queries = fake_calls("cudaEventQuery"), gathered = nr_gathered();
		struct gate gate = GATE_INIT;
		struct rnl_job held;

		hold_workers(all.pool, &gate, &held, 1);
		for (int i = 0; i < MANY; i++)
			submit_gather(all.pool, &many[i], copy_fn, &all.programs[i % JOBS]);
		gate_open(&gate);
		for (int i = 0; i < MANY; i++)
			ck_assert_int_eq(result_of(&many[i]), 0);
		must(rnl_job_wait(&held, RNL_FOREVER));
		few = nr_gathered() >= gathered + MANY - 8 &&
		      fake_calls("cudaEventQuery") <= queries + 3;
	}
	ck_assert(few);
	end();
}

/* The worker's last reading of the clock is as old as its sleep. */
TEST(a_sleep_ends_no_group, .timeout_s = 60)
{
	struct rnl_job *jobs[32];
	bool whole = false;

	skip_without_kernel();
	begin(j_fn);
	for (int round = 0; round < 1000 && !whole; round++) {
		const uint64_t gathered = nr_gathered();

		for (int i = 0; i < 32; i++) {
			gathering_job(&many[i], copy_fn, &all.programs[i]);
			jobs[i] = &many[i];
		}
		usleep(2000);	/* no order depends on it */
		ck_assert_int_eq(rnl_submit_many(all.pool, jobs, 32), 32);
		for (int i = 0; i < 32; i++)
			ck_assert_int_eq(result_of(&many[i]), 0);
		whole = nr_gathered() == gathered + 32;
	}
	ck_assert(whole);
	end();
}

/* ---- graphs ------------------------------------------------------------------------- */

static uint64_t nr_graphs(void)
{
	return figures_of(all.pool).graphs;
}

/* Returns true if the library makes graphs: it was built with CUDA 13 or later. */
static bool has_graphs(void)
{
	return !on_host() && (!test_fake() || fake_calls("cuKernelGetFunction"));
}

/* Runs rounds until @nr more graphs are launched.  Groups of a busy machine end early, and have few jobs. */
static bool await_graphs(uint64_t nr)
{
	const double until = seconds_now() + PATIENCE_S;
	const uint64_t before = nr_graphs();

	for (int round = 0; (round < 200 || seconds_now() < until) && nr_graphs() < before + nr; round++)
		run_all(j_fn, true);
	return nr_graphs() >= before + nr;
}

static unsigned turn;

/* Its launch differs from the last turn's in the kernel, the grid, both, or not at all. */
static int turns_fn(struct rnl_job *job)
{
	const struct program *p = rnl_container_of(job, struct program, job);
	const struct change c = { p->mem[D0], BYTES, 0 };

	return launch(turn % 4 < 2 ? &change : &flip, grid_of(turn % 4 == 3), &c);
}

TEST(a_graph_gets_what_is_launched_now)
{
	skip_without_kernel();
	begin(turns_fn);
	for (turn = 0; turn < 40; turn++) {
		const struct rnl_dim grid = grid_of(turn % 4 == 3);

		for (unsigned i = 0; i < JOBS; i++) {
			const struct change c = { all.programs[i].shadow[D0], BYTES, 0 };

			(turn % 4 < 2 ? change_host : flip_host)(grid, grid, &c);
		}
		run_all(turns_fn, true);
	}
	check_all();
	end();
}

/*
 * Half of the jobs launch one kernel, half the other one.  Which half differs with the turn: five ways, so
 * graphs that take turns, up to four, do not get the same way each time.
 */
static bool flips(size_t i)
{
	const unsigned way = turn % 5;

	return (i >> way % 3 ^ way / 3) & 1;
}

static int mixed_fn(struct rnl_job *job)
{
	const struct program *p = rnl_container_of(job, struct program, job);
	const struct change c = { p->mem[D0], BYTES, 0 };

	return launch(flips((size_t)(p - all.programs)) ? &flip : &change, grid_of(0), &c);
}

static void run_mixed(void)
{
	const struct rnl_dim grid = grid_of(0);

	for (unsigned i = 0; i < JOBS; i++) {
		const struct change c = { all.programs[i].shadow[D0], BYTES, 0 };

		(flips(i) ? flip_host : change_host)(grid, grid, &c);
	}
	run_all(mixed_fn, true);
	turn++;
}

/* Groups of a busy machine end early, so that a graph gets another number of each kernel. */
TEST(a_node_keeps_its_kernel, .timeout_s = 60)
{
	const double until = seconds_now() + PATIENCE_S;
	bool kept = false;

	if (!test_fake())
		test_skip("only the double counts the driver's calls");
	if (THREAD_SANITIZED)
		test_skip("jobs are slow with ThreadSanitizer, and end their groups early");
	begin(mixed_fn);
	if (!has_graphs())
		test_skip("the toolkit is older than CUDA 13");
	for (int tries = 0; (tries < 100 || seconds_now() < until) && !kept; tries++) {
		const uint64_t graphs = nr_graphs();
		/* The library asks for a function's limits when a node gets another kernel. */
		const uint64_t asked = fake_calls("cuFuncGetAttribute");

		for (int round = 0; round < 10; round++)
			run_mixed();
		kept = nr_graphs() >= graphs + 10 && fake_calls("cuFuncGetAttribute") == asked;
	}
	ck_assert(kept);
	check_all();
	end();
}

TEST(groups_become_graphs, .timeout_s = 60, .loops = 2)
{
	skip_without_kernel();
	all.stream = (enum rnl_stream_kind)_i;
	begin(j_fn);
	run_all(j_fn, true);
	ck_assert(has_graphs() ? await_graphs(10) : !nr_graphs());
	check_j();
	end();
}

/* Work of a refused graph is issued call by call, and no job fails. */
TEST(a_graph_that_is_refused_costs_no_job, .timeout_s = 60, .loops = 8)
{
	static const char *const calls[] = {
		"cuFuncGetAttribute", "cuGraphCreate", "cuGraphAddKernelNode",
		"cuGraphInstantiateWithFlags", "cuGraphNodeSetEnabled",
		"cuGraphExecKernelNodeSetParams", "cuGraphLaunch", "cuGraphExecDestroy",
	};
	enum { OUT_OF_MEMORY = 2 };

	if (!test_fake())
		test_skip("%s: the double alone refuses calls", calls[_i]);
	begin(j_fn);
	if (!has_graphs())
		test_skip("%s: the toolkit is older than CUDA 13", calls[_i]);
	for (unsigned nth = 1; nth < 200; nth += 1 + nth / 4) {
		must(fake_fail(calls[_i], nth, OUT_OF_MEMORY, false));
		for (int round = 0; round < 3; round++)
			run_all(j_fn, true);
		must(fake_plan("nofail"));
	}
	ck_assert(await_graphs(3));
	check_j();
	end();
}

/* ---- turns -------------------------------------------------------------------------- */

struct store {
	struct rnl_job job;
	struct gate *kernel;
	int word;
};

/* Stores 1 in the word of `user`, if that is not NULL. */
static int store_fn(struct rnl_job *job)
{
	struct store *s = job->user;

	return s ? launch_store(s->kernel, &s->word, 1) : launch_store(NULL, NULL, 0);
}

/*
 * Queues two groups of jobs, and holds the first one on the device until both are launched as graphs.
 * Returns true if they are, and no node was set while its graph could run.
 */
static bool two_groups_take_turns(void)
{
	enum { TWO = 2 * 32 };
	struct gate gate = GATE_INIT, kernel = GATE_INIT;
	struct store stores[TWO] = { { .kernel = &kernel } };
	struct rnl_job held;
	uint64_t graphs, sets;
	bool good;

	/* They are short again. */
	for (int i = 0; i < 20; i++)
		run_all(store_fn, true);
	graphs = nr_graphs();
	sets = fake_early_sets();
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < TWO; i++)
		submit_gather(all.pool, &stores[i].job, store_fn, &stores[i]);
	gate_open(&gate);
	for (int i = 0; i < 100 && nr_graphs() < graphs + 2; i++)
		usleep(100);	/* no order depends on it */
	good = nr_graphs() == graphs + 2 && fake_early_sets() == sets;
	gate_open(&kernel);
	for (int i = 0; i < TWO; i++)
		ck_assert_int_eq(result_of(&stores[i].job), 0);
	must(rnl_job_wait(&held, RNL_FOREVER));
	return good;
}

TEST(a_graph_that_may_still_run_is_not_set, .timeout_s = 60)
{
	bool good = false;

	if (!test_fake())
		test_skip("only the double knows what still runs");
	begin(store_fn);
	if (!has_graphs())
		test_skip("the toolkit is older than CUDA 13");
	for (int round = 0; round < 100 && !good; round++)
		good = two_groups_take_turns();
	ck_assert(good);
	end();
}

/* ---- order ------------------------------------------------------------------------ */

/* Changes memory that all jobs share, in steps that must not mix with another job's. */
static int shared_fn(struct rnl_job *job)
{
	const struct program *p = &all.programs[0];
	const uint32_t nr = (uint32_t)(uintptr_t)job->user;
	int ret = launch_change(p->mem[D0], BYTES, nr);

	if (!ret)
		ret = rnl_copy(p->mem[D1], p->mem[D0], BYTES);
	if (!ret)
		ret = launch_change(p->mem[D1], BYTES, nr);
	return ret ? ret : rnl_copy(p->mem[D0], p->mem[D1], BYTES);
}

static void shadow_shared(uint32_t nr)
{
	struct program *p = &all.programs[0];
	const struct rnl_dim grid = grid_of(nr);
	const struct change c = { p->shadow[D0], BYTES, nr };

	change_host(grid, grid, &c);
	change_host(grid, grid, &c);
	memcpy(p->shadow[D1], p->shadow[D0], BYTES);
}

enum { BY_KEY, BY_BARRIERS, BY_CHAIN, ORDERS };

/* The jobs must run one after the other, although all are queued on one worker. */
TEST(keys_barriers_and_chains_order_jobs_that_gather, .loops = ORDERS)
{
	struct gate gate = GATE_INIT;
	struct program *other = &all.programs[1];
	struct rnl_barrier barriers[JOBS];
	struct rnl_job held, jobs[JOBS];

	skip_without_kernel();
	begin(shared_fn);
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		gathering_job(&jobs[i], shared_fn, (void *)(uintptr_t)i);
		if (_i == BY_BARRIERS) {
			must(rnl_barrier_init(&barriers[i], all.pool));
			must(rnl_barrier_add(&barriers[i], &jobs[i]));
			if (i)
				must(rnl_job_set_after(&jobs[i], &barriers[i - 1]));
		}
		if (_i == BY_CHAIN && i)
			must(rnl_job_set_then(&jobs[i - 1], &jobs[i]));
		if (_i == BY_KEY)
			must(submit_by_key(all.pool, &jobs[i], 7));
		else if (_i == BY_BARRIERS)
			must(rnl_submit(all.pool, &jobs[i]));
	}
	if (_i == BY_CHAIN)
		must(rnl_submit(all.pool, &jobs[0]));
	/* Only a chain's first job is queued, so this job makes a backlog. */
	submit_gather(all.pool, &other->job, j_fn, NULL);
	gate_open(&gate);
	for (int i = 0; i < JOBS; i++)
		ck_assert_int_eq(result_of(&jobs[i]), 0);
	ck_assert_int_eq(result_of(&other->job), 0);
	shadow_j(other);
	for (uint32_t i = 0; i < JOBS; i++)
		shadow_shared(i);
	check_all();
	end();
}

TEST(a_job_after_their_barrier_finds_what_they_issued)
{
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, last;

	skip_without_kernel();
	for (int i = 0; i < JOBS; i++) {
		all.programs[i].nr = 1;
		all.programs[i].ops[0] = (struct op){ LAUNCH, D0, 0, 0, 0, .bytes = BYTES };
	}
	begin(program_fn);
	must(rnl_barrier_init(&barrier, all.pool));
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		submit_gather_in(&barrier, &all.programs[i].job, program_fn, NULL);
	}
	gathering_job(&last, shared_fn, (void *)(uintptr_t)9);
	must(rnl_job_set_after(&last, &barrier));
	must(rnl_submit(all.pool, &last));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&last), 0);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	for (int i = 0; i < JOBS; i++)
		shadow(&all.programs[i], &all.programs[i].ops[0]);
	shadow_shared(9);
	check_all();
	end();
}

/* A job after the barrier starts while the device still runs the first job's kernel. */
TEST(a_job_after_their_barrier_starts_when_they_are_issued)
{
	struct gate gate = GATE_INIT, kernel = GATE_INIT, function = GATE_INIT;
	struct rnl_job held, first[2], last;
	struct rnl_barrier barrier;

	skip_unless_host();
	begin(j_fn);
	must(rnl_barrier_init(&barrier, all.pool));
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < 2; i++) {
		submit_gather_in(&barrier, &first[i], gated_kernel_fn, &kernel);
	}
	job_of(&last, gated_fn, &function);
	must(rnl_job_set_after(&last, &barrier));
	must(rnl_submit(all.pool, &last));
	gate_open(&gate);
	gate_await(&kernel, 1);
	gate_await(&function, 1);
	gate_open(&function);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&last), 0);
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	end();
}

/* ---- on another worker -------------------------------------------------------------- */

/* A job after a barrier: its kernel reads what a job of the barrier stores. */
struct reader {
	struct rnl_job job;
	struct gate *function;
	const int *word;
	int seen;
};

static void read_word_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	struct reader *r = *(struct reader *const *)args;

	(void)grid;
	(void)block;
	r->seen = *r->word;
}
RNL_HOST_KERNEL(read_word, read_word_host, struct reader *);

static int reader_fn(struct rnl_job *job)
{
	struct reader *r = rnl_container_of(job, struct reader, job);
	const struct rnl_dim one = { 1, 1, 1 };

	gate_wait(r->function);
	return rnl_launch(&read_word, one, one, &r);
}

/*
 * The only worker is in the first job after the barrier when another one comes.  It has an empty
 * stream, so it steals the second job.
 */
TEST(the_stream_of_another_worker_waits_for_a_group)
{
	struct gate gate = GATE_INIT, kernel = GATE_INIT, function = GATE_INIT;
	struct reader readers[2];
	struct store stores[8];
	struct rnl_barrier barrier;
	struct rnl_job held;

	skip_unless_host();
	begin(store_fn);
	must(rnl_barrier_init(&barrier, all.pool));
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < 8; i++) {
		stores[i] = (struct store){ .kernel = &kernel };
		submit_gather_in(&barrier, &stores[i].job, store_fn, &stores[i]);
	}
	for (int i = 0; i < 2; i++) {
		readers[i] = (struct reader){ .function = &function, .word = &stores[i].word };
		job_of(&readers[i].job, reader_fn, NULL);
		must(rnl_job_set_after(&readers[i].job, &barrier));
		must(rnl_submit(all.pool, &readers[i].job));
	}
	gate_open(&gate);
	gate_await(&function, 1);
	must(rnl_pool_resize(all.pool, 2));
	gate_await(&function, 2);
	gate_open(&function);
	/* A stream that does not wait reads now. */
	ck_assert_int_eq(rnl_job_wait(&readers[1].job, 20000000), -ETIMEDOUT);
	gate_open(&kernel);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(result_of(&readers[i].job), 0);
		ck_assert_int_eq(readers[i].seen, 1);
	}
	ck_assert_int_eq(result_of_barrier(&barrier), 0);
	end();
}

/* ---- errors ----------------------------------------------------------------------- */

static _Atomic int refused_at_once, called;

static void call(struct rnl_job *job)
{
	(void)job;
	called++;
}

static int called_fn(struct rnl_job *job)
{
	call(job);
	return 0;
}

/* CUDA refuses to fill pageable memory: immediately, or when the group is issued. */
static int refused_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	int ret = job->user ? rnl_fill(p->mem[P0], 1, BYTES) : 0;

	refused_at_once += ret != 0;
	return ret ? ret : j_fn(job);
}

/* Every fifth job fails and issues nothing more; each job has its own barrier. */
TEST(an_error_is_its_own_jobs)
{
	struct gate gate = GATE_INIT;
	struct rnl_barrier barriers[JOBS];
	struct rnl_job held;

	skip_unless_host();
	begin(refused_fn);
	refused_at_once = 0;
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		struct program *p = &all.programs[i];

		must(rnl_barrier_init(&barriers[i], all.pool));
		submit_gather_in(&barriers[i], &p->job, refused_fn, i % 5 ? NULL : p);
	}
	gate_open(&gate);
	for (int i = 0; i < JOBS; i++) {
		const int ret = i % 5 ? 0 : -EINVAL;

		ck_assert_int_eq(result_of(&all.programs[i].job), ret);
		ck_assert_int_eq(result_of_barrier(&barriers[i]), ret);
		ck_assert_int_eq(!all.programs[i].job.device_error, on_host() || !ret);
		if (!ret)
			shadow_j(&all.programs[i]);
	}
	/* Only the last job had no job queued after it, and so did not gather. */
	ck_assert_int_le(refused_at_once, 1);
	check_all();
	end();
}

/* The next job of a chain must not run if a job's work fails, however late it fails. */
TEST(an_error_of_gathered_work_ends_its_chain)
{
	struct program *first = &all.programs[0], *next = &all.programs[1];
	struct gate gate = GATE_INIT;
	struct rnl_job held;

	skip_unless_host();
	begin(refused_fn);
	called = 0;
	hold_workers(all.pool, &gate, &held, 1);
	gathering_job(&first->job, refused_fn, first);
	job_of(&next->job, called_fn, NULL);
	must(rnl_job_set_then(&first->job, &next->job));
	must(rnl_submit(all.pool, &first->job));
	/* Makes a backlog. */
	submit_job(all.pool, &all.programs[2].job, noop_fn, NULL);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&next->job), -ECANCELED);
	ck_assert_int_eq(result_of(&first->job), -EINVAL);
	ck_assert_int_eq(result_of(&all.programs[2].job), 0);
	ck_assert_int_eq(called, 0);
	end();
}

enum { LEAVES_OUT = 1, NOTES_MANY, STOPS, ENDINGS };

/* Its fill is refused; `user` says which calls follow. */
static int goes_on_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	const uintptr_t ending = (uintptr_t)job->user;
	int ret;

	if (!ending)
		return j_fn(job);
	ret = rnl_fill(p->mem[P0], 1, BYTES);
	if (!ret && ending == STOPS)
		(void)rnl_stream();
	for (int i = 0; !ret && i < (ending == NOTES_MANY ? 300 : 1); i++)
		ret = launch_change(p->mem[D0], BYTES, 5);
	return ret ? ret : rnl_copy(p->mem[P1], p->mem[D0], BYTES);
}

TEST(no_work_of_a_job_follows_its_error, .loops = ENDINGS - LEAVES_OUT)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held;

	skip_unless_host();
	begin(goes_on_fn);
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		struct program *p = &all.programs[i];

		submit_gather(all.pool, &p->job, goes_on_fn,
			      (void *)(uintptr_t)(i % 5 ? 0 : LEAVES_OUT + _i));
	}
	gate_open(&gate);
	for (int i = 0; i < JOBS; i++) {
		ck_assert_int_eq(result_of(&all.programs[i].job), i % 5 ? 0 : -EINVAL);
		if (i % 5)
			shadow_j(&all.programs[i]);
	}
	check_all();
	end();
}

/* A unit's own copy of the runtime: it keeps the error of the unit's launches. */
static _Thread_local int unit_error;

static int unit_last_error(void)
{
	const int error = unit_error;

	unit_error = 0;
	return error;
}

static const struct rnl__cuda_unit unit = {
	.size = sizeof(unit), .last_error = unit_last_error, .runtime = &unit,
};

static int refuse_launch(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	enum { INVALID_CONFIGURATION = 9 };	/* cudaError_t */

	(void)grid;
	(void)block;
	(void)args;
	(void)stream;
	return unit_error = INVALID_CONFIGURATION;
}

static const struct rnl_kernel refused = { "refused", 0, NULL, refuse_launch, NULL };

/* `user`: &refused: launches that kernel; another pointer: issues the gathered work first. */
static int of_unit_fn(struct rnl_job *job)
{
	const struct rnl_dim one = { 1, 1, 1 };

	if (job->user == &refused)
		return rnl_launch(&refused, one, one, NULL);
	if (job->user)
		(void)rnl_stream();
	return j_fn(job);
}

TEST(a_launch_that_fails_is_not_another_jobs_error)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held;

	if (!test_fake())
		test_skip("a unit's launches are CUDA's");
	must(rnl__cuda_unit_add(&unit));
	begin(of_unit_fn);
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		struct program *p = &all.programs[i];

		submit_gather(all.pool, &p->job, of_unit_fn,
			      i % 2 ? (void *)p : (void *)(uintptr_t)&refused);
	}
	gate_open(&gate);
	for (int i = 0; i < JOBS; i++)
		ck_assert_int_eq(result_of(&all.programs[i].job), i % 2 ? 0 : -EINVAL);
	end();
}

TEST(a_job_that_is_alone_is_issued_at_once)
{
	struct program *p = &all.programs[0];
	uint64_t gathered;

	skip_unless_host();
	begin(refused_fn);
	refused_at_once = 0;
	gathered = nr_gathered();
	gathering_job(&p->job, refused_fn, p);
	ck_assert_int_eq(submit_and_wait(all.pool, &p->job), -EINVAL);
	ck_assert_int_eq(refused_at_once, 1);
	ck_assert_uint_eq(nr_gathered(), gathered);
	end();
}

/* ---- scratch ---------------------------------------------------------------------- */

/* Copies into scratch, runs a kernel there, and copies out. */
static int scratch_fn(struct rnl_job *job)
{
	struct program *p = rnl_container_of(job, struct program, job);
	void *mem;
	int ret = rnl_scratch(BYTES, &mem);

	if (!ret)
		ret = rnl_copy(mem, p->mem[Q0], BYTES);
	if (!ret)
		ret = launch_change(mem, BYTES, 5);
	return ret ? ret : rnl_copy(p->mem[Q1], mem, BYTES);
}

TEST(each_job_has_scratch_of_its_own, .loops = 2)
{
	skip_without_kernel();
	begin(scratch_fn);
	/* In the first round the worker has no scratch block yet. */
	for (int round = 0; round < 8; round++) {
		run_all(scratch_fn, true);
		for (unsigned i = 0; i < JOBS; i++) {
			struct program *p = &all.programs[i];

			for (unsigned k = 0; k < BYTES; k++)
				ck_assert_uint_eq(p->mem[Q1][k], changed(p->mem[Q0][k], 5));
			memset(p->mem[Q1], 0, BYTES);
		}
	}
	end();
}

/* ---- how jobs end ------------------------------------------------------------------ */

static struct rnl_hold hold;

static int held_fn(struct rnl_job *job)
{
	int ret = rnl_job_hold(job, &hold);

	return ret ? ret : j_fn(job);
}

/* One job is held, every second job has a callback, some jobs expire or are cancelled. */
TEST(holds_callbacks_and_deadlines_are_as_ever)
{
	struct gate gate = GATE_INIT;
	struct rnl_job held;

	skip_without_kernel();
	begin(j_fn);
	called = 0;
	hold_workers(all.pool, &gate, &held, 1);
	for (int i = 0; i < JOBS; i++) {
		struct rnl_job *job = &all.programs[i].job;

		gathering_job(job, i == 3 ? held_fn : j_fn, NULL);
		if (i % 2)
			must(rnl_job_set_on_done(job, call));
		if (i % 7 == 5)
			must(rnl_job_set_deadline(job, 1));
		must(rnl_submit(all.pool, job));
		if (i % 7 == 6)
			ck_assert_int_eq(rnl_job_cancel(job), 0);
	}
	gate_open(&gate);
	for (int i = 0; i < JOBS; i++) {
		if (i != 3)
			ck_assert_int_eq(result_of(&all.programs[i].job),
					 i % 7 == 5 ? -ETIMEDOUT : i % 7 == 6 ? -ECANCELED : 0);
	}
	ck_assert_int_ne(rnl_job_wait(&all.programs[3].job, 0), 0);
	must(rnl_hold_release(&hold, -EDOM));
	ck_assert_int_eq(result_of(&all.programs[3].job), -EDOM);
	ck_eventually(called == JOBS / 2);
	end();
}

/* While a function of the group runs, another worker takes the jobs queued after it. */
TEST(jobs_that_are_not_taken_yet_can_be_stolen)
{
	struct gate function = GATE_INIT, queued = GATE_INIT;
	struct rnl_job held[2], first, rest[JOBS];
	_Atomic int nr = 0;
	struct rnl_pool *pool = pool_of(2);

	hold_workers(pool, &queued, held, 2);
	submit_gather(pool, &first, gated_fn, &function);
	for (int i = 0; i < JOBS; i++) {
		submit_gather(pool, &rest[i], count_fn, (void *)&nr);
	}
	gate_open(&queued);
	gate_await(&function, 1);
	ck_eventually(nr == JOBS);
	gate_open(&function);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}
