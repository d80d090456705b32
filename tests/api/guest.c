/* SPDX-License-Identifier: MIT */
/*
 * State that the library leaves unchanged: the caller's last CUDA error and its current device,
 * which belong to the thread, and devices that no pool names.
 */
#include "guard.h"
#include "places.h"
#include "pool.h"
#include "skip.h"
#include "trace.h"

#include <runnel/device.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

/* Defined by the double: tests/fake_cudart/fake_cudart.h. */
__attribute__((weak)) bool fake_has_context(int device);

enum { BYTES = 4096, BAD_ERROR = 1 /* cudaErrorInvalidValue */ };

typedef int get_device_fn(int *device);

static unsigned char pageable[1 << 20];

static int touch_fn(struct rnl_job *job)
{
	void *mem;
	int ret = rnl_scratch(BYTES, &mem);

	if (!ret)
		ret = rnl_fill(mem, 1, BYTES);
	if (!ret)
		ret = rnl_copy(mem, pageable, BYTES);
	if (!ret)
		ret = rnl_copy(pageable, mem, BYTES);
	return ret ? ret : rnl_copy(mem, job->user, BYTES);
}

/* ---- the steps of a caller's thread, in the order of `steps` ------------------------------ */

static struct {
	struct rnl_pool *pool;
	const char *device;
	void *device_mem, *pinned;
	struct rnl_barrier barrier;
} state;

static void create(void)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = state.device;
	attr.nr_workers = 2;
	must(rnl_pool_create(&state.pool, &attr));
}

static void describe(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	must(rnl_device_describe(NULL, state.device, 0, &info));
}

static void describe_none(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

	ck_assert_int_eq(rnl_device_describe(NULL, "cuda:9", 0, &info), -ENODEV);
}

static void get_memory(void)
{
	must(rnl_memory_get(state.pool, 0, BYTES, &state.device_mem, 0));
	must(rnl_memory_get(state.pool, RNL_PINNED, 8 << 20, &state.pinned, 0));
}

static void run_one(void)
{
	struct rnl_job job;

	submit_job(state.pool, &job, touch_fn, state.pinned);
	ck_assert_int_eq(result_of(&job), 0);
}

static void resize(void)
{
	must(rnl_pool_resize(state.pool, 3));
	must(rnl_pool_resize(state.pool, 1));
}

static void map(void)
{
	struct rnl_map map = RNL_MAP_INIT;

	must(rnl_barrier_init(&state.barrier, state.pool));
	map.in = map.out = pageable;
	map.nr = sizeof(pageable);
	map.in_bytes = map.out_bytes = 1;
	map.chunk = BYTES;
	map.fn = noop_chunk;
	must(rnl_map_start(state.pool, &map, &state.barrier));
	must(rnl_barrier_wait(&state.barrier, RNL_FOREVER));
}

static void look(void)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	(void)figures_of(state.pool);
	must(rnl_pool_health(state.pool, &health));
}

static void trace(void)
{
	must(rnl_trace_start(state.pool, path, NULL));
	run_one();
	must(rnl_trace_stop(state.pool));
}

static void attach(void)
{
	must(rnl_thread_attach(state.pool));
	must(rnl_copy(state.pinned, state.device_mem, BYTES));
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
}

static void put_memory(void)
{
	rnl_memory_put(state.pool, state.pinned);
	rnl_memory_put(state.pool, state.device_mem);
}

static void free_strange(void)
{
	rnl_memory_put(state.pool, pageable);
}

static void destroy(void)
{
	rnl_pool_destroy(state.pool);
}

static const struct {
	const char *name;
	void (*take)(void);
} steps[] = {
	{ "describe", describe }, { "describe no device", describe_none }, { "create", create },
	{ "get memory", get_memory }, { "run a job", run_one }, { "resize", resize },
	{ "map", map }, { "look", look }, { "trace", trace },
	{ "free strange memory", free_strange },
	{ "put memory", put_memory }, { "destroy", destroy },
	/* Another pool.  attach() sets the thread's current device to the pool's, and it stays. */
	{ "create", create }, { "get memory", get_memory }, { "attach", attach },
	{ "put memory", put_memory }, { "destroy", destroy },
};
#define NR_UNATTACHED (COUNT(steps) - 3)

/* ---- tests --------------------------------------------------------------------------- */

static int last_error(void)
{
	return CUDA(no_args_fn *, "cudaPeekAtLastError")();
}

TEST(the_callers_last_cuda_error_stays, .setup = set_path, .teardown = remove_file)
{
	if (on_host())
		test_skip("the host device has no CUDA");
	state.device = "cuda:0";
	/* An error of the caller's own, which the library must not clear. */
	ck_assert_int_eq(CUDA(malloc_fn *, "cudaMalloc")(NULL, 1), BAD_ERROR);
	for (unsigned i = 0; i < COUNT(steps); i++) {
		steps[i].take();
		ck_assert_msg(last_error() == BAD_ERROR, "%s: the last error is %d", steps[i].name,
			      last_error());
	}
	ck_assert_int_eq(CUDA(no_args_fn *, "cudaGetLastError")(), BAD_ERROR);
}

TEST(no_error_of_the_librarys_own_calls_stays, .setup = set_path, .teardown = remove_file)
{
	if (on_host())
		test_skip("the host device has no CUDA");
	state.device = "cuda:0";
	for (unsigned i = 0; i < COUNT(steps); i++) {
		steps[i].take();
		ck_assert_msg(!last_error(), "%s: the last error is %d", steps[i].name,
			      last_error());
	}
}

TEST(a_pool_on_another_device_makes_no_context_on_device_0, .setup = set_path,
     .teardown = remove_file)
{
	int current = -1;

	if (!test_fake())
		test_skip("only the double lists contexts; cuda/peers asks the driver");
	must(ask_double("devices=2"));
	state.device = "cuda:1";
	for (unsigned i = 0; i < COUNT(steps); i++) {
		steps[i].take();
		ck_assert_msg(!fake_has_context(0), "%s: device 0 has a context", steps[i].name);
		must(CUDA(get_device_fn *, "cudaGetDevice")(&current));
		ck_assert_msg(current == (i >= NR_UNATTACHED), "%s: the current device is %d",
			      steps[i].name, current);
	}
	ck_assert(fake_has_context(1));
}

TEST(only_a_pool_on_a_device_makes_its_context)
{
	if (!test_fake())
		test_skip("the double says which devices have a context");
	must(ask_double("devices=2"));
	state.device = "cuda:1";
	describe();
	ck_assert(!fake_has_context(0));
	ck_assert(!fake_has_context(1));
}
