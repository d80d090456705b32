/* SPDX-License-Identifier: MIT */
/* Request kernels that are refused, cannot be resident, are slow, or whose device fails. */
#include <runnel/batch.h>
#include <runnel/unit.h>

#include "answering.h"
#include "heard.h"

#define BYTES 64

static void end(struct rnl_pool *pool, struct rnl_batcher *batcher)
{
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* A create is refused with -EINVAL and a line that has @text. */
static void refused(struct rnl_pool *pool, const struct rnl_batcher_attr *attr, struct heard *heard,
		    const char *text)
{
	struct rnl_batcher *batcher = NULL;

	heard->bytes = 0;
	ck_assert_int_eq(rnl_batcher_create(&batcher, pool, attr), -EINVAL);
	ck_assert_ptr_null(batcher);
	ck_assert_msg(has_heard(heard, text), "%s", heard->text);
}

TEST(mistakes_are_refused)
{
	static const struct rnl_request_kernel empty = { "empty", NULL, NULL, NULL };
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct rnl_batcher_attr attr;
	struct rnl_pool *pool;
	struct heard heard;

	hear(&heard, &pool_attr);
	pool = pool_with(&pool_attr, 1);
	attr = answering_attr(NULL, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	attr.kernel = NULL;
	refused(pool, &attr, &heard, "fn is NULL, and so is kernel: set one of them");
	attr.fn = noop_batch;
	refused(pool, &attr, &heard, "flags have RNL_BATCHER_RESIDENT, and kernel is NULL: name");
	attr.kernel = &empty;
	refused(pool, &attr, &heard, "the request kernel empty has no function for the pool's devices");
	attr.kernel = &answering;
	attr.nr_mailboxes = 17;
	if (on_host() || test_fake())
		refused(pool, &attr, &heard, "nr_mailboxes is 17");
	rnl_pool_destroy(pool);
}

static int no_error(void)
{
	return 0;
}

/* A unit that does not say that its CUDA calls name the stream; all functions are its. */
static const struct rnl__cuda_unit unit = {
	.size = sizeof(unit), .last_error = no_error, .runtime = &unit, .text_end = (const char *)UINTPTR_MAX,
};

/* Its functions are refused there, but a request kernel makes no call of CUDA. */
TEST(a_private_pool_takes_a_request_kernel_of_any_unit)
{
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct rnl_batcher *batcher = NULL;
	struct answering a = { 0 };
	struct rnl_batcher_attr attr = answering_attr(&a, 0, BYTES, BYTES);
	struct rnl_pool *pool;
	struct heard heard;

	skip_unless_answering();
	if (!test_fake())
		test_skip("a function for the host device may make calls of CUDA");
	must(rnl__cuda_unit_add(&unit));
	hear(&heard, &pool_attr);
	pool_attr.stream = RNL_STREAM_PRIVATE;
	pool = pool_with(&pool_attr, 1);
	must(rnl_batcher_create(&batcher, pool, &attr));
	ask(batcher, BYTES, BYTES, 1);
	rnl_batcher_destroy(batcher);
	attr.fn = noop_batch;
	refused(pool, &attr, &heard, "this unit does not say that its CUDA calls name");
	rnl_pool_destroy(pool);
	rnl__cuda_unit_remove(&unit);
}

/* Creates a batcher whose kernel cannot be resident, which is logged, and uses it. */
static void stays_off(struct rnl_pool *pool, struct heard *heard, struct answering *a, size_t in_bytes,
		      size_t out_bytes, uint32_t clear, const char *why)
{
	struct rnl_batcher_attr attr = answering_attr(a, RNL_BATCHER_RESIDENT, in_bytes, out_bytes);
	struct rnl_batcher *batcher = NULL;

	heard->bytes = 0;
	attr.flags &= ~clear;
	must(rnl_batcher_create(&batcher, pool, &attr));
	ck_assert_msg(has_heard(heard, why), "%s", heard->text);
	for (unsigned i = 0; i < 20; i++)
		ask(batcher, in_bytes, out_bytes, i);
	ck_assert_uint_eq(counts_of(batcher).leases, 0);
	rnl_batcher_destroy(batcher);
}

TEST(a_kernel_that_cannot_be_resident_runs_batches)
{
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct answering a = { 0 };
	struct rnl_pool *pool;
	struct heard heard;

	skip_unless_kernels();
	if (test_fake())
		ck_assert_int_eq(fake_plan("mps"), 0);
	hear(&heard, &pool_attr);
	pool = pool_with(&pool_attr, 2);
	stays_off(pool, &heard, &a, 12289, 8, 0, "cannot be resident: in_bytes is more than 12288");
	stays_off(pool, &heard, &a, 8, 12289, 0, "cannot be resident: out_bytes is more than 12288");
	if (test_fake())
		stays_off(pool, &heard, &a, 8, 8, RNL_BATCHER_SHARED, "MPS shares the device");
	rnl_pool_destroy(pool);
}

TEST(a_lease_that_takes_too_long_is_followed_by_none_for_a_while)
{
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct answering a = { 0 };
	struct rnl_batcher_attr attr = answering_attr(&a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_pool *pool;
	struct heard heard;

	skip_unless_kernels();
	hear(&heard, &pool_attr);
	pool = pool_with(&pool_attr, 2);
	attr.flags &= ~(uint32_t)RNL_BATCHER_SHARED;
	must(rnl_batcher_create(&batcher, pool, &attr));
	for (unsigned i = 0; !has_heard(&heard, "a lease of 200 us took more than 1000 us"); i++) {
		a.takes_ms = 0;
		ask_until_resident(batcher, BYTES, BYTES, 1);
		a.takes_ms = 5;
		request_of(&request, NULL);
		send(batcher, &request, BYTES, i);
		receive(&request, i, BYTES);
	}
	end(pool, batcher);
}

static _Atomic bool refuses;

static int refuse_lease(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	return refuses ? 2 : /* cudaErrorMemoryAllocation */
	       answering.lease->cuda(grid, block, args, stream);
}

TEST(a_launch_that_failed_is_tried_again)
{
	static const struct rnl_kernel lease = {
		"refused_lease", sizeof(struct rnl__lease_args), NULL, refuse_lease, NULL
	};
	const struct rnl_request_kernel kernel = {
		"refused", answering.host, answering.batch, &lease
	};
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct answering a = { 0 };
	struct rnl_batcher_attr attr = answering_attr(&a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	struct rnl_batcher *batcher;
	struct rnl_pool *pool;
	struct heard heard;

	skip_unless_answering();
	if (!test_fake())
		test_skip("the host device refuses no launch");
	hear(&heard, &pool_attr);
	pool = pool_with(&pool_attr, 2);
	attr.kernel = &kernel;
	refuses = true;
	must(rnl_batcher_create(&batcher, pool, &attr));
	for (uint64_t seed = 0; !has_heard(&heard, "refused_lease was not launched"); seed++)
		ask(batcher, BYTES, BYTES, seed);
	ck_assert_uint_eq(counts_of(batcher).leases, 0);
	refuses = false;
	ask_until_resident(batcher, BYTES, BYTES, 3);
	end(pool, batcher);
}

/* ---- health ---------------------------------------------------------------- */

static _Atomic(struct gate *) held_at;
static _Atomic bool dies;		/* a fault ends the kernel there, and so the device */

static int held_fn(const struct rnl_request_view *view)
{
	struct gate *gate = held_at;

	(void)view;
	if (gate)
		gate_wait(gate);
	if (dies) {
		fake_fail_sticky(719);
		for (;;)
			pause();
	}
	return 0;
}

HOST_REQUEST_KERNEL(held_kernel, held_fn);

static _Atomic unsigned nr_calls;

static void note_call(struct rnl_job *job)
{
	(void)job;
	nr_calls++;
}

static struct rnl_health health_of(struct rnl_pool *pool)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	must(rnl_pool_health(pool, &health));
	return health;
}

/* Sends a request whose function waits at the gate.  Returns the health of the pool then. */
static struct rnl_health hold_request(struct rnl_pool *pool, struct rnl_batcher *batcher,
				      struct rnl_request *request, struct gate *gate)
{
	struct rnl_health health;

	*gate = (struct gate)GATE_INIT;
	held_at = gate;
	request_of(request, NULL);
	send(batcher, request, BYTES, 0);
	gate_await(gate, 1);
	ck_eventually((health = health_of(pool)).state == RNL_HEALTH_STUCK);
	return health;
}

/* Opens the gate.  Then the pool is well again. */
static void let_go(struct rnl_pool *pool, struct rnl_request *request, struct gate *gate)
{
	held_at = NULL;
	gate_open(gate);
	must(rnl_job_wait(&request->job, RNL_FOREVER));
	must(rnl_request_release(request));
	ck_eventually(health_of(pool).state == RNL_HEALTH_OK);
	ck_assert_ptr_null(health_of(pool).stuck_kernel);
}

TEST(health_names_a_request_kernel_that_does_not_return)
{
	struct rnl_pool_attr pool_attr = RNL_POOL_ATTR_INIT;
	struct rnl_batcher_attr attr = answering_attr(NULL, RNL_BATCHER_RESIDENT, BYTES, 0);
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_health health;
	struct rnl_pool *pool;
	struct heard heard;
	struct gate gate;
	unsigned found = 0;

	skip_unless_answering();
	hear(&heard, &pool_attr);
	pool_attr.stuck_ms = 150;
	pool = pool_with(&pool_attr, 2);
	attr.kernel = &held_kernel;
	must(rnl_batcher_create(&batcher, pool, &attr));
	/* The kernel may get stuck in a batch, too: on a worker. */
	while (found < 2) {
		ask_until_resident(batcher, BYTES, 0, 1);
		health = hold_request(pool, batcher, &request, &gate);
		ck_assert_uint_eq(health.nr_stuck, 1);
		if (health.stuck_kernel) {
			ck_assert_str_eq(health.stuck_kernel, "held_kernel");
			ck_assert_uint_eq(health.stuck_worker, RNL_WORKERS_MAX);
			ck_assert_uint_eq(health.on_device, 1);
			ck_assert_ptr_null(health.stuck_job);
			ck_assert_uint_ge(health.stuck_ms, 150);
			ck_assert(has_heard(&heard, "the resident kernel held_kernel"));
			ck_assert(has_heard(&heard, "its function does not return"));
			found++;
		}
		let_go(pool, &request, &gate);
	}
	end(pool, batcher);
}

/* ---- failures -------------------------------------------------------------- */

/* The lease never writes that it has ended. */
TEST(a_fault_in_a_lease_ends_all_requests_with_an_error)
{
	struct rnl_batcher_attr attr = answering_attr(NULL, RNL_BATCHER_RESIDENT, BYTES, 0);
	struct rnl_batcher *batcher;
	struct rnl_request requests[3];
	struct rnl_pool *pool;
	struct gate gate;

	if (!test_fake())
		test_skip("a_fault_in_a_lease_ends_all_requests_with_an_error: needs the double");
	skip_unless_answering();
	pool = pool_of(2);
	attr.kernel = &held_kernel;
	attr.spin_us = 10000;
	must(rnl_batcher_create(&batcher, pool, &attr));
	/* Until the first one is held in a lease. */
	do {
		held_at = NULL;
		ask_until_resident(batcher, BYTES, 0, 1);
		gate = (struct gate)GATE_INIT;
		held_at = &gate;
		for (unsigned i = 0; i < COUNT(requests); i++) {
			request_of(&requests[i], NULL);
			if (i == 2)
				must(rnl_job_set_on_done(&requests[i].job, note_call));
			send(batcher, &requests[i], BYTES, i);
			if (!i)
				gate_await(&gate, 1);
		}
		dies = requests[0].answers;
		gate_open(&gate);
		for (unsigned i = 0; i < COUNT(requests); i++) {
			must(rnl_job_wait(&requests[i].job, RNL_FOREVER));
			if (dies)
				ck_assert_int_eq(requests[i].job.result, -EIO);
		}
		ck_eventually(nr_calls > 0);
		for (unsigned i = 0; i < COUNT(requests); i++)
			must(rnl_request_release(&requests[i]));
		nr_calls = 0;
	} while (!dies);
	end(pool, batcher);
}

TEST(a_failed_device_ends_requests_with_an_error)
{
	struct answering *a;
	struct rnl_batcher *batcher;
	struct rnl_request request;
	struct rnl_pool *pool;
	int ret;

	if (!test_fake())
		test_skip("a_failed_device_ends_requests_with_an_error: needs the double");
	pool = answering_pool(2, &a);
	batcher = answering_batcher(pool, a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	ask_until_resident(batcher, BYTES, BYTES, 5);
	fake_fail_sticky(719);
	for (unsigned i = 0;; i++) {
		request_of(&request, NULL);
		ret = rnl_batcher_reserve(batcher, &request, BYTES, 0);
		if (ret)
			break;
		request_fill(&request, i);
		ret = rnl_request_commit(&request);
		if (ret) {
			must(rnl_request_release(&request));
			break;
		}
		must(rnl_job_wait(&request.job, RNL_FOREVER));
		must(rnl_request_release(&request));
	}
	ck_assert_int_eq(ret, -EIO);
	end(pool, batcher);
}
