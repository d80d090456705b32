/* SPDX-License-Identifier: MIT */
/* Batchers, and requests of a batcher. */
#include <runnel/batch.h>
#include <runnel/stats.h>

#include "asks.h"
#include "asserts.h"

#include "answering.h"
#include "batch.h"

enum { NR = 8, NR_LONE = 30, BYTES = 64 };

static struct rnl_batcher *const untouched = (struct rnl_batcher *)&(char){ 0 };
static struct rnl_batcher *batcher;
static struct kind kind;
static struct rnl_request requests[NR];
static unsigned nr_committed, nr_failed, nr_ended[NR];

/* ---- batchers ---------------------------------------------------------------- */

static int create_with(struct rnl_pool *pool, uint32_t flags)
{
	int ret;

	kind = kind_of(flags, BYTES, BYTES);
	kind.attr.fn = kind_fn;
	kind.attr.arg = &kind;
	kind.attr.slab_bytes = NR / 2 * BYTES;
	kind.attr.max_batch = NR / 2;
	/* Each device has its part. */
	kind.attr.nr_slabs = nr_devices_of(pool) > 1 ? 2 : 1;
	kind.attr.max_slabs = 2 * kind.attr.nr_slabs;
	kind.attr.max_in_flight = 2;
	batcher = untouched;
	ret = rnl_batcher_create(&batcher, pool, &kind.attr);
	expect((batcher == untouched) == (ret != 0));
	if (ret)
		batcher = NULL;
	return ret;
}

static int create(struct rnl_pool **pool)
{
	return create_with(*pool, RNL_BATCHER_VARIABLE | RNL_BATCHER_STATUS);
}

static void check_pinned(struct rnl_pool *pool)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	rnl_batcher_destroy(batcher);
	batcher = NULL;
	expect(!rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats) && !stats.pinned_used);
}

static void after_create(struct rnl_pool *pool, int ret)
{
	(void)ret;
	check_pinned(pool);
	if (fault_lasts())
		return;
	expect(!create_with(pool, 0));
	check_pinned(pool);
}

static void make_with(struct rnl_pool *pool, uint32_t flags)
{
	expect(!create_with(pool, flags));
	for (unsigned i = 0; i < NR; i++)
		expect(!rnl_job_init(&requests[i].job, NULL));
}

static void make(struct rnl_pool *pool)
{
	make_with(pool, 0);
}

static void make_copying(struct rnl_pool *pool)
{
	make_with(pool, RNL_BATCHER_ALWAYS_COPY);
}

/* ---- requests ------------------------------------------------------------------ */

static void request_done(struct rnl_job *job)
{
	nr_ended[rnl_container_of(job, struct rnl_request, job) - requests]++;
}

/* A worker makes a slab after a request has found none. */
static int reserve_twice(struct rnl_pool *pool, struct rnl_request *r)
{
	int ret = rnl_batcher_reserve(batcher, r, BYTES, 0);

	if (ret != -EAGAIN)
		return ret;
	expect(!rnl_pool_drain(pool, RNL_FOREVER));
	return rnl_batcher_reserve(batcher, r, BYTES, 0);
}

/* Waits longer than a worker may be without a CPU. */
static int reserve_patiently(struct rnl_request *r)
{
	const double until = seconds_now() + PATIENCE_S;
	int ret;

	do
		ret = rnl_batcher_reserve(batcher, r, BYTES, 1000 * MS);
	while (ret == -ETIMEDOUT && !fault() && seconds_now() < until);
	return ret;
}

/* Half of the requests fill a slab; the rest needs a second slab, whose failure is noticed late. */
static int send_some(struct rnl_pool *pool, bool waits)
{
	for (; nr_committed < NR; nr_committed++) {
		struct rnl_request *r = &requests[nr_committed];
		int ret = waits ? reserve_patiently(r) : reserve_twice(pool, r);

		if (ret)
			return ret;
		request_fill(r, nr_committed);
		expect(!rnl_job_set_on_done(&r->job, request_done));
		ret = rnl_request_commit(r);
		if (ret) {
			expect(!rnl_request_release(r));
			return ret;
		}
	}
	return 0;
}

/* Checks the results of the committed requests. */
static void receive_some(void)
{
	for (unsigned i = 0; i < nr_committed; i++) {
		struct rnl_request *r = &requests[i];
		int result;

		expect(!rnl_job_wait(&r->job, RNL_FOREVER));
		result = r->job.result;
		expect_msg(!result || (fault() && result == fault()), "a request has %d, %s",
			   result, rnl_strerror(result));
		expect(result || wrong_byte(r, i, BYTES) == -1);
		expect(!rnl_request_release(r));
	}
}

static int send_and_receive(struct rnl_pool **pool)
{
	int ret = send_some(*pool, false);

	receive_some();
	return ret;
}

static int wait_and_receive(struct rnl_pool **pool)
{
	int ret = send_some(*pool, true);

	receive_some();
	return ret;
}

static void check_ended(struct rnl_pool *pool)
{
	expect(!rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned i = 0; i < NR; i++)
		expect_msg(nr_ended[i] == (i < nr_committed), "request %u ended %u times", i,
			   nr_ended[i]);
}

/* Each committed request has ended once, so there is space for all requests. */
static void after_requests(struct rnl_pool *pool, int ret)
{
	(void)ret;
	check_ended(pool);
	nr_committed = 0;
	if (!fault_lasts()) {
		expect(!send_some(pool, true));
		receive_some();
	}
	check_pinned(pool);
}

static int reserve_and_cancel(struct rnl_pool **pool)
{
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;

	(void)pool;
	expect(!rnl_job_init(&requests[0].job, NULL));
	expect(!rnl_batcher_reserve(batcher, &requests[0], BYTES, 0));
	expect(!rnl_request_release(&requests[0]) && !rnl_batcher_read_stats(batcher, &stats));
	return 0;
}

/* Some requests are in flight. */
static int destroy(struct rnl_pool **pool)
{
	(void)send_some(*pool, false);
	rnl_batcher_destroy(batcher);
	batcher = NULL;
	return 0;
}

static void after_destroy(struct rnl_pool *pool, int ret)
{
	(void)ret;
	check_ended(pool);
	check_pinned(pool);
}

/* ---- a resident kernel ------------------------------------------------------------ */

static int create_resident(struct rnl_pool **pool)
{
	static struct answering a;
	const struct rnl_batcher_attr attr = answering_attr(&a, RNL_BATCHER_RESIDENT, BYTES, BYTES);
	int ret;

	batcher = untouched;
	ret = rnl_batcher_create(&batcher, *pool, &attr);
	expect((batcher == untouched) == (ret != 0));
	if (ret)
		batcher = NULL;
	return ret;
}

static void make_resident(struct rnl_pool *pool)
{
	expect(!create_resident(&pool) && !rnl_job_init(&requests[0].job, NULL));
}

static void await_one(struct rnl_request *r, unsigned i)
{
	int result;

	expect(!rnl_job_wait(&r->job, RNL_FOREVER));
	result = r->job.result;
	expect_msg(!result || (fault() && result == fault()) || (fault_lasts() && result == -EIO),
		   "a request has %d, %s", result, rnl_strerror(result));
	expect(result || wrong_byte(r, i, BYTES) == -1);
	nr_committed++;
	nr_failed += result < 0;
}

/* Requests that follow each other closely.  Returns the first error of a call. */
static int send_lone_ones(struct rnl_pool **pool)
{
	struct rnl_request *r = &requests[0];
	int ret;

	(void)pool;
	for (unsigned i = 0; i < NR_LONE; i++) {
		ret = rnl_batcher_reserve(batcher, r, BYTES, 0);
		if (ret)
			return ret;
		request_fill(r, i);
		ret = rnl_request_commit(r);
		if (!ret)
			await_one(r, i);
		expect(!rnl_request_release(r));
		if (ret)
			return ret;
	}
	return 0;
}

/* A request that has failed may have been executed; a request of a failed device, twice. */
static void after_lone_ones(struct rnl_pool *pool, int ret)
{
	const unsigned nr = answering_nr();

	(void)ret;
	expect_msg(fault_lasts() || (nr <= nr_committed && nr + nr_failed >= nr_committed),
		   "%u requests were committed, %u failed, %u were executed", nr_committed, nr_failed, nr);
	if (!fault_lasts())
		expect(!send_lone_ones(&pool));
	check_pinned(pool);
}

/* The keeper has its stream still, and leases may run. */
static int destroy_resident(struct rnl_pool **pool)
{
	(void)send_lone_ones(pool);
	rnl_batcher_destroy(batcher);
	batcher = NULL;
	return 0;
}

static void after_destroy_resident(struct rnl_pool *pool, int ret)
{
	(void)ret;
	check_pinned(pool);
}

#define CREATE_ERRNOS { -ENOMEM, -EIO }
/* A request whose slab cannot be made finds no space. */
#define NO_SPACE(error) .errnos = { error, -EIO }, .instead = { error }

const struct operation batch_operations[] = {
	{ .name = "rnl_batcher_create", .attr = TWO_SMALL_WORKERS, .run = create,
	  .after = after_create, .errnos = CREATE_ERRNOS },
	{ .name = "rnl_batcher_create, over devices", .several = true, .run = create,
	  .after = after_create, .errnos = CREATE_ERRNOS },
	{ .name = "rnl_batcher_create, resident", .attr = TWO_SMALL_WORKERS, .run = create_resident,
	  .after = after_create, .errnos = { -ENOMEM, -EIO, -EAGAIN } },
	{ .name = "rnl_request_commit, rnl_job_wait, resident", .attr = TWO_SMALL_WORKERS,
	  .before = make_resident, .run = send_lone_ones, .after = after_lone_ones,
	  .errnos = { -EIO } },
	{ .name = "rnl_batcher_destroy, resident", .attr = TWO_SMALL_WORKERS,
	  .before = make_resident, .run = destroy_resident, .after = after_destroy_resident },
	{ .name = "rnl_batcher_destroy", .attr = TWO_SMALL_WORKERS, .before = make,
	  .run = destroy, .after = after_destroy },
	{ .name = "rnl_request_commit, over devices", .several = true, .before = make_copying,
	  .run = send_and_receive, .after = after_requests, NO_SPACE(-EAGAIN) },
	{ .name = "rnl_request_commit, rnl_request_release, rnl_batcher_reserve",
	  .attr = TWO_SMALL_WORKERS, .before = make, .run = send_and_receive,
	  .after = after_requests, NO_SPACE(-EAGAIN) },
	{ .name = "rnl_request_commit, always copied", .attr = TWO_SMALL_WORKERS,
	  .before = make_copying, .run = send_and_receive, .after = after_requests,
	  NO_SPACE(-EAGAIN) },
	{ .name = "rnl_batcher_reserve, with a timeout", .attr = TWO_SMALL_WORKERS,
	  .before = make, .run = wait_and_receive, .after = after_requests,
	  NO_SPACE(-ETIMEDOUT) },
	{ .name = "rnl_request_release, rnl_batcher_read_stats", .before = make,
	  .run = reserve_and_cancel, .after = after_destroy },
	{ 0 }
};
