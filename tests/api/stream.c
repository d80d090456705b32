/* SPDX-License-Identifier: MIT */
/* Work on the calling thread's implicit stream: copies, fills, launches, and the wait for them. */
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "host_kernel.h"
#include "pool.h"

static const struct rnl_dim one = { 1, 1, 1 };

/* ---- attaching ----------------------------------------------------------- */

static void check_detached(void)
{
	char byte = 0;

	ck_assert_int_eq(rnl_copy(&byte, &byte, 1), -ENODEV);
	ck_assert_int_eq(rnl_fill(&byte, 0, 1), -ENODEV);
	ck_assert_int_eq(launch_store(NULL, NULL, 0), -ENODEV);
	ck_assert_int_eq(rnl_stream_wait(0), -ENODEV);
	ck_assert_ptr_null(rnl_stream());
	ck_assert_int_eq(rnl_worker().index, -1);
}

/* The thread has used its per-thread default stream before. */
TEST(a_thread_attaches_with_work_of_its_own_under_way)
{
	void *const per_thread = (void *)2;	/* cudaStreamPerThread */
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool;
	struct gated_store args;
	void *mem;
	int *word;

	if (!test_fake())
		test_skip("a_thread_attaches_with_work...: a gate holds the kernels of the double");
	pool = pool_of(1);
	must(rnl_memory_get(pool, RNL_PINNED, 64, &mem, 0));
	word = memset(mem, 0, 64);
	args = (struct gated_store){ &gate, word, 5 };
	must(fake_launch(gated_store_host, one, one, &args, sizeof(args), per_thread));
	gate_await(&gate, 1);
	must(rnl_thread_attach(pool));
	ck_assert_ptr_eq(rnl_stream(), per_thread);
	/* New work comes after the older work. */
	must(rnl_fill(word, 7, sizeof(int)));
	ck_assert_int_eq(rnl_stream_wait(0), -ETIMEDOUT);
	ck_assert_int_eq(*word, 0);
	gate_open(&gate);
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_int_eq(*word, 0x07070707);
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(a_thread_has_a_stream_between_attach_and_detach)
{
	struct rnl_pool *pool = pool_of(1);
	void *mem;

	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	check_detached();
	rnl_thread_attach(NULL);
	for (int round = 0; round < 3; round++) {
		must(rnl_thread_attach(pool));
		must(rnl_thread_attach(pool));
		must(rnl_fill(mem, 1, 64));
		must(rnl_stream_wait(RNL_FOREVER));
		ck_assert_int_eq(!rnl_stream(), on_host());
		ck_assert_int_eq(rnl_worker().index, -1);
		rnl_thread_attach(NULL);
		rnl_thread_attach(NULL);
		check_detached();
	}
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(pools_of_one_device_share_a_threads_stream)
{
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);

	must(rnl_thread_attach(pool));
	must(rnl_thread_attach(other));
	rnl_pool_destroy(pool);
	/* The stream belongs to the device, not to the pool. */
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
	rnl_pool_destroy(other);
}

TEST(a_thread_has_a_stream_on_one_device)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = pool_of(1), *other;
	struct rnl_barrier barrier;
	int ret;

	attr.nr_workers = 1;
	attr.device = on_host() ? "cuda" : "host";
	ret = rnl_pool_create(&other, &attr);
	if (ret == -ENODEV)
		test_skip("a_thread_has_a_stream_on_one_device: there is only one device");
	ck_assert_int_eq(ret, 0);
	must(rnl_thread_attach(pool));
	ck_assert_int_eq(rnl_thread_attach(other), -EBUSY);
	must(rnl_barrier_init(&barrier, other));
	ck_assert_int_eq(rnl_barrier_join(&barrier), -ENODEV);
	rnl_thread_attach(NULL);
	must(rnl_thread_attach(other));
	rnl_thread_attach(NULL);
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

struct leaving {
	struct rnl_pool *pool;
	unsigned char *from, *to;
	size_t bytes;
	bool detaches;
	struct gate *gate;		/* the kernel waits there */
	_Atomic pid_t tid;		/* set right before it ends */
};

static int fill_and_leave(void *arg)
{
	struct leaving *l = arg;
	int ret = rnl_thread_attach(l->pool);

	for (int i = 0; i < 20 && !ret; i++) {
		ret = rnl_fill(l->from, (uint8_t)i, l->bytes);
		if (!ret)
			ret = rnl_copy(l->to, l->from, l->bytes);
	}
	if (l->detaches)
		rnl_thread_attach(NULL);
	return ret;
}

TEST(a_thread_that_detaches_or_ends_waits_for_its_work)
{
	enum { BYTES = 1 << 20 };
	struct rnl_pool *pool = pool_of(1);
	struct leaving leaving = { .pool = pool, .bytes = BYTES };
	struct call call;
	void *mem;

	must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
	leaving.from = mem;
	must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem, 0));
	leaving.to = mem;
	for (int i = 0; i < 4; i++) {
		memset(leaving.to, 0xff, BYTES);
		/* On CUDA the end of a thread does not wait for its stream. */
		leaving.detaches = i % 2 || !on_host();
		call_start(&call, fill_and_leave, &leaving);
		must(call_end(&call));
		ck_assert_bytes(leaving.to, BYTES, 19);
	}
	rnl_memory_put(pool, leaving.from);
	rnl_memory_put(pool, leaving.to);
	rnl_pool_destroy(pool);
}

static int store_and_leave(void *arg)
{
	struct leaving *l = arg;
	int ret = rnl_thread_attach(l->pool);

	if (!ret)
		ret = launch_store(l->gate, (int *)(void *)l->to, 29);
	l->tid = own_tid();
	if (l->detaches)
		rnl_thread_attach(NULL);
	return ret;
}

TEST(a_thread_waits_for_its_kernels_before_it_ends)
{
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(1);
	for (int i = 0; i < 4; i++) {
		int word = 0;
		struct gate gate = GATE_INIT;
		struct leaving leaving = { .pool = pool, .to = (unsigned char *)&word,
					   .detaches = i % 2 || !on_host(), .gate = &gate };
		struct call call;

		call_start(&call, store_and_leave, &leaving);
		ck_waits(leaving.tid);
		gate_open(&gate);
		must(call_end(&call));
		ck_assert_int_eq(word, 29);
	}
	rnl_pool_destroy(pool);
}

/* ---- copies and fills ---------------------------------------------------- */

TEST(a_stream_does_its_work_in_order)
{
	enum { BYTES = 1 << 20 };
	struct rnl_pool *pool = pool_of(1);
	unsigned char *on_device, *host[2];
	void *mem;

	must(rnl_memory_get(pool, 0, BYTES, &mem, 0));
	on_device = mem;
	for (int i = 0; i < 2; i++) {
		must(rnl_memory_get(pool, RNL_PINNED, BYTES, &mem, 0));
		host[i] = mem;
		memset(host[i], 0xff, BYTES);
	}
	must(rnl_thread_attach(pool));
	/* More work than any queue on the way to the device can hold. */
	for (int i = 0; i < 1500; i++)
		must(rnl_fill(on_device, (uint8_t)i, i % 500 ? 64 : BYTES));
	must(rnl_fill(on_device, 3, BYTES));
	must(rnl_copy(host[0], on_device, BYTES));
	must(rnl_fill(on_device, 4, BYTES));
	must(rnl_copy(on_device, host[0], BYTES / 2));
	must(rnl_copy(host[1], on_device, BYTES));
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_bytes(host[0], BYTES, 3);
	ck_assert_bytes(host[1], BYTES / 2, 3);
	ck_assert_bytes(host[1] + BYTES / 2, BYTES / 2, 4);
	must(rnl_stream_wait(0));
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, on_device);
	rnl_memory_put(pool, host[0]);
	rnl_memory_put(pool, host[1]);
	rnl_pool_destroy(pool);
}

TEST(nothing_to_copy_or_fill_is_no_error_and_null_is)
{
	struct rnl_pool *pool = pool_of(1);
	void *mem;

	must(rnl_memory_get(pool, 0, 64, &mem, 0));
	must(rnl_thread_attach(pool));
	must(rnl_copy(NULL, NULL, 0));
	must(rnl_copy(mem, NULL, 0));
	must(rnl_fill(NULL, 1, 0));
	ck_assert_int_eq(rnl_copy(NULL, mem, 1), -EINVAL);
	ck_assert_int_eq(rnl_copy(mem, NULL, 1), -EINVAL);
	ck_assert_int_eq(rnl_fill(NULL, 1, 1), -EINVAL);
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
}

TEST(work_is_issued_and_done_later)
{
	struct rnl_pool *pool;
	struct gate gate = GATE_INIT;
	int *word, copy = -1;
	double start;
	void *mem;

	skip_on_cuda("a copy of pageable memory holds a thread that is no worker");
	pool = pool_of(1);
	must(rnl_thread_attach(pool));
	must(rnl_memory_get(pool, RNL_PINNED, sizeof(*word), &mem, 0));
	word = mem;
	*word = 0;
	/* These calls must not wait for the kernel, because its gate would never open. */
	ck_assert_int_eq(launch_store(&gate, word, 17), 0);
	must(rnl_copy(&copy, word, sizeof(copy)));
	must(rnl_fill(word, 1, 1));
	ck_assert_int_eq(rnl_stream_wait(0), -ETIMEDOUT);
	start = seconds_now();
	ck_assert_int_eq(rnl_stream_wait(20 * MS), -ETIMEDOUT);
	ck_assert_double_ge(seconds_now() - start, 0.020);
	ck_assert_int_eq(*word, 0);
	ck_assert_int_eq(copy, -1);
	gate_open(&gate);
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_int_eq(copy, 17);
	ck_assert_int_eq(*word, 1);
	rnl_memory_put(pool, word);
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

/* ---- launches ------------------------------------------------------------ */

struct large {
	unsigned char bytes[RNL_KERNEL_ARGS_MAX];
};

static struct rnl_dim seen_grid, seen_block;
static struct large seen_args;

static void large_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	seen_grid = grid;
	seen_block = block;
	memcpy(&seen_args, args, sizeof(seen_args));
}
RNL_HOST_KERNEL(large_kernel, large_host, struct large);

static void plain_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)args;
	seen_grid = grid;
	seen_block = block;
}
static const struct rnl_kernel plain = { "plain", 0, plain_host, NULL, NULL };
static const struct rnl_kernel nowhere = { "nowhere", 0, NULL, NULL, NULL };
static const struct rnl_kernel too_large = { "too_large", RNL_KERNEL_ARGS_MAX + 1, plain_host,
					     NULL, NULL };

TEST(a_launch_takes_its_arguments_over_at_once)
{
	struct rnl_pool *pool;
	struct gate gate = GATE_INIT;
	struct large args;

	skip_unless_host();
	pool = pool_of(1);
	must(rnl_thread_attach(pool));
	must(launch_store(&gate, NULL, 0));
	memset(&args, 8, sizeof(args));
	must(rnl_launch(&large_kernel, (struct rnl_dim){ 2, 3, 4 },
			(struct rnl_dim){ 5, 6, 7 }, &args));
	memset(&args, 0, sizeof(args));
	gate_open(&gate);
	must(rnl_stream_wait(RNL_FOREVER));
	ck_assert_bytes(seen_args.bytes, sizeof(seen_args), 8);
	ck_assert(seen_grid.x == 2 && seen_grid.y == 3 && seen_grid.z == 4);
	ck_assert(seen_block.x == 5 && seen_block.y == 6 && seen_block.z == 7);

	if (on_host()) {
		must(rnl_launch(&plain, one, one, NULL));
		must(rnl_stream_wait(RNL_FOREVER));
		ck_assert_uint_eq(seen_grid.x, 1);
	}
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}

TEST(a_launch_with_wrong_sizes_or_no_kernel_is_refused)
{
	struct rnl_pool *pool = pool_of(1);
	const struct rnl_dim sizes[] = { { 0, 1, 1 }, { 1, 0, 1 }, { 1, 1, 0 }, { 0, 0, 0 } };
	const struct {
		struct rnl_dim grid, block;
	} beyond[] = {
		{ { 1, 1, 1 }, { 1025, 1, 1 } }, { { 1, 1, 1 }, { 32, 33, 1 } },
		{ { 1, 1, 1 }, { 1, 1, 65 } }, { { 1, 65536, 1 }, { 1, 1, 1 } },
		{ { 1, 1, 65536 }, { 1, 1, 1 } }, { { 1u << 31, 1, 1 }, { 1, 1, 1 } },
		{ { 1, 1, 1 }, { 1u << 31, 1u << 31, 4 } },
	};
	struct large args = { { 0 } };

	must(rnl_thread_attach(pool));
	ck_assert_int_eq(rnl_launch(NULL, one, one, &args), -EINVAL);
	ck_assert_int_eq(rnl_launch(&gated_store, one, one, NULL), -EINVAL);
	ck_assert_int_eq(rnl_launch(&too_large, one, one, &args), -EINVAL);
	for (unsigned i = 0; i < COUNT(sizes); i++) {
		ck_assert_int_eq(rnl_launch(&plain, sizes[i], one, &args), -EINVAL);
		ck_assert_int_eq(rnl_launch(&plain, one, sizes[i], &args), -EINVAL);
	}
	/* Sizes that no GPU accepts; the host device refuses them, too. */
	for (unsigned i = 0; on_host() && i < COUNT(beyond); i++)
		ck_assert_int_eq(rnl_launch(&plain, beyond[i].grid, beyond[i].block, &args),
				 -EINVAL);
	ck_assert_int_eq(rnl_launch(&nowhere, one, one, &args), -ENOTSUP);
	if (!on_host())
		ck_assert_int_eq(rnl_launch(&plain, one, one, &args), -ENOTSUP);
	/* The refused launches did not harm the stream. */
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
	rnl_pool_destroy(pool);
}
