/* SPDX-License-Identifier: MIT */
/*
 * Each call that is refused for a mistake is logged, with the mistake and the remedy. This file has
 * a case for each public function that can refuse a call; tests/tree/refused.sh checks that.
 *
 * An answer is not logged, because the program asks for it: -EAGAIN, -ETIMEDOUT, -ESHUTDOWN,
 * -EALREADY, -ESTALE, and -EBUSY of rnl_job_cancel(), of a reap during another reap, or of a wait
 * with a timeout of 0. -ENOMEM and -EIO are not the caller's mistakes. A forked child does not log
 * -EOWNERDEAD, because another thread of the parent may have held a lock of the log.
 *
 * These refuse nothing: rnl_version rnl_strerror rnl_set_log rnl_pool_destroy rnl_cq_destroy
 * rnl_class_destroy rnl_order_fini rnl_clock rnl_stream rnl_worker
 * rnl__cuda_unit_remove
 * In api/pinned and api/devices: rnl_memory_put
 * In api/log: rnl_map_start rnl_trace_start
 * In api/batch_errors and api/log: rnl_batcher_create rnl_batcher_destroy rnl_batcher_read_stats
 * rnl_batcher_reserve rnl_request_commit rnl_request_release
 */
#include <limits.h>
#include <runnel/class.h>
#include <runnel/device.h>
#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/replay.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>
#include <runnel/unit.h>

#include "asks.h"
#include "cq.h"
#include "heard.h"

static struct heard heard;

static struct rnl_pool *hearing_pool_for(unsigned nr_workers, unsigned nr_class_workers)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	hear(&heard, &attr);
	rnl_set_log(hear_line, &heard);
	attr.nr_class_workers = nr_class_workers;
	return pool_with(&attr, nr_workers);
}

static struct rnl_pool *hearing_pool(unsigned nr_workers)
{
	return hearing_pool_for(nr_workers, 0);
}

static void end_hearing(struct rnl_pool *pool)
{
	rnl_pool_destroy(pool);
	rnl_set_log(NULL, NULL);
}

/* The call must return @ret and log one line, which has @wanted. */
#define refused(call, ret, wanted) \
	do { \
		const char *text_ = (wanted); \
		heard.bytes = 0; \
		heard.text[0] = '\0'; \
		ck_assert_int_eq(call, ret); \
		ck_assert_msg(strstr(heard.text, text_), "%s: not \"%s\": \"%s\"", #call, text_, \
			      heard.text); \
		ck_assert_ptr_eq(strchr(heard.text, '\n') + 1, heard.text + heard.bytes); \
	} while (0)

#define invalid(call, wanted) refused(call, -EINVAL, wanted)

/* The call must return @ret and log nothing. */
#define answered(call, ret) \
	do { \
		heard.bytes = 0; \
		heard.text[0] = '\0'; \
		ck_assert_int_eq(call, ret); \
		ck_assert_str_eq(heard.text, ""); \
	} while (0)

/* ---- pools and their descriptions ------------------------------------------------- */

TEST(a_call_without_its_pool_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_barrier barrier;
	struct rnl_order order;
	void *mem;

	invalid(rnl_pool_create(NULL, NULL), "rnl_pool_create(): poolp is NULL");
	invalid(rnl__cuda_unit_add(NULL), "rnl__cuda_unit_add(): unit is NULL");
	invalid(rnl_pool_resize(NULL, 1), "rnl_pool_resize(): pool is NULL");
	invalid(rnl_pool_close(NULL), "rnl_pool_close(): pool is NULL");
	invalid(rnl_pool_cancel(NULL), "rnl_pool_cancel(): pool is NULL");
	invalid(rnl_pool_drain(NULL, 0), "rnl_pool_drain(): pool is NULL");
	invalid(rnl_pool_stop(NULL, 0), "rnl_pool_stop(): pool is NULL");
	invalid(rnl_pool_read_stats(NULL, RNL_ALL_WORKERS, &stats),
		"rnl_pool_read_stats(): pool is NULL");
	invalid(rnl_pool_stats_text(NULL, NULL, NULL, 0), "rnl_pool_stats_text(): pool is NULL");
	invalid(rnl_pool_health(NULL, &health), "rnl_pool_health(): pool is NULL");
	invalid(rnl_trace_stop(NULL), "rnl_trace_stop(): pool is NULL");
	invalid(rnl_barrier_init(&barrier, NULL), "rnl_barrier_init(): pool is NULL");
	invalid(rnl_order_init(&order, NULL, 1), "rnl_order_init(): pool is NULL");
	invalid(rnl_memory_get(NULL, RNL_PINNED, 1, &mem, 0), "rnl_memory_get(): pool is NULL");
	end_hearing(pool);
}

TEST(a_struct_that_cannot_be_filled_in_is_logged)
{
	static const char sized[] = "is 0; it must be the sizeof of that struct, as its RNL_";
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_device_info info = { 0 };
	struct rnl_pool_stats stats = { 0 };
	struct rnl_health health = { 0 };
	struct rnl_unfinished unfinished;

	invalid(rnl_device_describe(NULL, "host", 0, &info), sized);
	invalid(rnl_device_describe(pool, NULL, 0, &info), sized);
	invalid(rnl_device_describe(pool, NULL, 0, NULL), "rnl_device_describe(): info is NULL");
	invalid(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &stats), sized);
	invalid(rnl_pool_read_stats(pool, RNL_ALL_WORKERS, NULL),
		"rnl_pool_read_stats(): stats is NULL");
	invalid(rnl_pool_health(pool, &health), "rnl_pool_health(): the size of health is 0");
	invalid(rnl_pool_health(pool, NULL), "rnl_pool_health(): health is NULL");
	stats.size = sizeof(stats);
	invalid(rnl_pool_read_stats(pool, 1, &stats),
		"worker is 1; the pool has had workers 0 to 0");
	invalid(rnl_pool_read_stats(pool, -2, &stats), "worker is -2; the pool");
	invalid(rnl_pool_stats_text(pool, NULL, NULL, 9), "buf is NULL, and bytes is 9");
	health.size = sizeof(health);
	health.max_unfinished = 1;
	invalid(rnl_pool_health(pool, &health), "unfinished is NULL, and max_unfinished is 1");
	health.unfinished = &unfinished;
	answered(rnl_pool_health(pool, &health), 0);
	answered(rnl_trace_stop(pool), -EALREADY);
	end_hearing(pool);
}

TEST(a_wrong_class_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1), *other;
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct rnl_class_stats stats = RNL_CLASS_STATS_INIT;
	uint64_t wait_ns;
	struct rnl_class *cls;
	struct rnl_job job;

	invalid(rnl_class_create(&cls, NULL, NULL), "rnl_class_create(): pool is NULL");
	invalid(rnl_class_create(NULL, pool, NULL), "rnl_class_create(): classp is NULL");
	attr.size = 4;
	invalid(rnl_class_create(&cls, pool, &attr), "rnl_class_create(): the size of the attributes is 4");
	attr.size = sizeof(attr);
	attr.priority = 4;
	invalid(rnl_class_create(&cls, pool, &attr), "priority is 4; it must be -4 to 3");
	attr.priority = 0;
	attr.burst = 2;
	invalid(rnl_class_create(&cls, pool, &attr), "burst is 2, and per_second is 0");
	attr.burst = 0;
	attr.max_queued = 70000;
	invalid(rnl_class_create(&cls, pool, &attr), "max_queued is 70000; it must be 1 to 65536");
	attr.max_queued = 0;
	attr.flags = 8;
	invalid(rnl_class_create(&cls, pool, &attr), "flags is 8; it must be 0 to 7");
	answered(rnl_class_create(&cls, pool, NULL), 0);
	invalid(rnl_class_read_stats(NULL, &stats), "rnl_class_read_stats(): cls is NULL");
	invalid(rnl_class_read_stats(cls, NULL), "rnl_class_read_stats(): stats is NULL");
	invalid(rnl_class_wait(NULL, &wait_ns), "rnl_class_wait(): cls is NULL");
	invalid(rnl_class_wait(cls, NULL), "rnl_class_wait(): wait_ns is NULL");
	stats.size = 0;
	invalid(rnl_class_read_stats(cls, &stats), "rnl_class_read_stats(): the size of stats is 0");
	invalid(rnl_job_set_class(NULL, cls), "rnl_job_set_class(): the job is NULL");
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_class(&job, cls));
	other = pool_of(1);
	must(rnl_job_set_class(&job, NULL));
	must(submit_and_wait(other, &job));
	must(rnl_job_set_class(&job, cls));
	rnl_class_destroy(cls);
	invalid(rnl_submit(pool, &job), "is of another pool, or has ended");
	rnl_pool_destroy(other);
	end_hearing(pool);
}

static int create_class_fn(struct rnl_job *job)
{
	const struct rnl_class_attr attr = { .size = sizeof(attr), .nr_workers = 1 };
	struct rnl_class *cls;

	return rnl_class_create(&cls, job->user, &attr);
}

TEST(workers_that_a_class_cannot_have_are_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	struct rnl_class *cls, *has;
	struct rnl_job job;

	attr.nr_workers = 1;
	invalid(rnl_class_create(&cls, pool, &attr),
		"nr_workers is 1, and the pool has no workers for classes: set nr_class_workers");
	end_hearing(pool);
	pool = hearing_pool_for(1, 2);
	attr.nr_workers = 3;
	invalid(rnl_class_create(&cls, pool, &attr),
		"rnl_class_create(): nr_workers is 3; it must be 0 to 2");
	attr.nr_workers = 2;
	attr.spin_us = 1000001;
	invalid(rnl_class_create(&cls, pool, &attr), "spin_us is 1000001; it must be 0 to 1000000");
	attr.spin_us = 0;
	attr.flags = RNL_CLASS_KEPT_SMS;
	invalid(rnl_class_create(&cls, pool, &attr),
		"flags have RNL_CLASS_KEPT_SMS, and the pool keeps no SMs: set kept_sms");
	attr.flags = 0;
	attr.nr_workers = 0;
	attr.spin_us = 1;
	invalid(rnl_class_create(&cls, pool, &attr), "spin_us is set, and nr_workers is 0");
	attr.spin_us = 0;
	attr.stream_priority = 1;
	invalid(rnl_class_create(&cls, pool, &attr), "stream_priority is set, and nr_workers is 0");
	attr.stream_priority = 0;
	attr.nr_workers = 1;
	answered(rnl_class_create(&has, pool, &attr), 0);
	attr.nr_workers = 2;
	refused(rnl_class_create(&cls, pool, &attr), -EAGAIN,
		"nr_workers is 2, and classes have 1 of the 2 workers (nr_class_workers) of the pool");
	job_of(&job, create_class_fn, pool);
	refused(submit_and_wait(pool, &job), -EBUSY, "rnl_class_create(), for workers of the class's own");
	must(rnl_pool_close(pool));
	attr.nr_workers = 1;
	answered(rnl_class_create(&cls, pool, &attr), -ESHUTDOWN);
	end_hearing(pool);
}

TEST(a_device_that_is_not_there_is_logged)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct rnl_pool *pool = hearing_pool(1);
	void *mem;

	invalid(rnl_device_describe(NULL, "gpu", 0, &info),
		"rnl_device_describe(): device is \"gpu\": no name of a device");
	refused(rnl_device_describe(NULL, "cuda:777", 0, &info), -ENODEV, "device is \"cuda:777\"");
	invalid(rnl_device_describe(NULL, "host:2", 2, &info),
		"device is 2; there are devices 0 to 1");
	invalid(rnl_device_describe(pool, NULL, 9, &info), "device is 9");
	invalid(rnl_memory_get(pool, 9, 1, &mem, 0), "device is 9");
	invalid(rnl_memory_get(pool, -2, 1, &mem, 0), "where is -2");
	end_hearing(pool);
}

TEST(memory_that_is_not_asked_for_rightly_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	void *mem;

	invalid(rnl_memory_get(pool, RNL_PINNED, 0, &mem, 0), "rnl_memory_get(): bytes is 0");
	invalid(rnl_memory_get(pool, RNL_PINNED, 1, NULL, 0),
		"rnl_memory_get(): no place for the memory");
	invalid(rnl_scratch(1, &mem), "rnl_scratch(): called outside of a job's function");
	end_hearing(pool);
}

/* ---- jobs ----------------------------------------------------------------------------- */

static void on_done(struct rnl_job *job)
{
	(void)job;
}

/* Calls each setter, which must return @ret and log @text. */
static void try_setters(struct rnl_job *job, struct rnl_barrier *barrier, struct rnl_cq *cq,
			struct rnl_job *next, int ret, const char *text)
{
	refused(rnl_job_set_after(job, barrier), ret, text);
	refused(rnl_barrier_add(barrier, job), ret, text);
	refused(rnl_job_set_then(job, next), ret, text);
	refused(rnl_job_set_on_done(job, on_done), ret, text);
	refused(rnl_job_set_cq(job, cq), ret, text);
	refused(rnl_job_set_deadline(job, 1), ret, text);
	refused(rnl_job_set_class(job, NULL), ret, text);
	refused(rnl_job_set_device(job, 0), ret, text);
	refused(rnl_job_set_flags(job, RNL_GATHER), ret, text);
	refused(rnl_job_set_flags(job, RNL_REPLAY), ret, text);
}

TEST(a_job_that_cannot_be_changed_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct gate gate = GATE_INIT;
	struct rnl_job job, queued, next, zero = { 0 }, *reaped;
	struct rnl_barrier barrier;
	struct rnl_cq *cq = cq_of();

	must(rnl_barrier_init(&barrier, pool));
	job_of(&next, noop_fn, NULL);
	invalid(rnl_job_init(NULL, noop_fn), "rnl_job_init(): the job is NULL");
	try_setters(NULL, &barrier, cq, &next, -EINVAL, "the job is NULL");
	try_setters(&zero, &barrier, cq, &next, -EINVAL,
		    "the job was not initialised: rnl_job_init()");
	hold_workers(pool, &gate, &job, 1);
	submit_job(pool, &queued, noop_fn, NULL);
	try_setters(&job, &barrier, cq, &next, -EBUSY, "was submitted, and is not done");
	try_setters(&queued, &barrier, cq, &next, -EBUSY, "was submitted, and is not done");
	refused(rnl_job_set_then(&next, &job), -EBUSY, "rnl_job_set_then(): job");
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	invalid(rnl_job_set_device(&job, RNL_DEVICES_MAX), "device is 16; it must be -1 to 15");
	invalid(rnl_job_set_then(&job, &job), "would come after itself");
	must(rnl_job_set_on_done(&job, on_done));
	invalid(rnl_job_set_cq(&job, cq), "has a callback, and so no completion queue");
	must(rnl_job_set_on_done(&job, NULL));
	must(rnl_job_set_cq(&job, cq));
	invalid(rnl_job_set_on_done(&job, on_done), "has a completion queue, and so no callback");
	/* The refused calls changed nothing. */
	must(rnl_submit(pool, &job));
	reap_all(cq, &reaped, 1);
	ck_assert_ptr_eq(reaped, &job);
	rnl_cq_destroy(cq);
	end_hearing(pool);
}

TEST(a_question_about_no_job_is_logged)
{
	static const char never[] = "was never submitted";
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_hold none = { 0 }, hold;
	struct gate gate = GATE_INIT;
	struct rnl_job job;

	job_of(&job, gated_fn, &gate);
	invalid(rnl_job_wait(&job, 0), never);
	invalid(rnl_job_cancel(&job), never);
	invalid(rnl_job_is_cancelled(&job), never);
	invalid(rnl_job_wait(NULL, 0), "rnl_job_wait(): the job is NULL");
	invalid(rnl_job_cancel(NULL), "rnl_job_cancel(): the job is NULL");
	invalid(rnl_job_is_cancelled(NULL), "rnl_job_is_cancelled(): the job is NULL");
	invalid(rnl_job_hold(&job, &hold), "call it in the job's function");
	invalid(rnl_hold_release(NULL, 0), "hold is NULL");
	invalid(rnl_hold_release(&none, 0), "is no hold");
	must(rnl_submit(pool, &job));
	gate_await(&gate, 1);
	answered(is_done(&job), 0);
	answered(rnl_job_wait(&job, 0), -ETIMEDOUT);
	answered(rnl_job_cancel(&job), -EBUSY);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	answered(rnl_job_cancel(&job), -EALREADY);
	end_hearing(pool);
}

/* Calls each submit, which must return @ret and log @text. */
static void try_submits(struct rnl_pool *pool, struct rnl_job *job, int ret, const char *text)
{
	struct rnl_job *list[] = { job };

	refused(rnl_submit(pool, job), ret, text);
	refused(rnl_submit_wait(pool, job, RNL_FOREVER), ret, text);
	refused(rnl_submit_many(pool, list, 1), ret, text);
}

/* The same with a key, a time, both, and an order. */
static void try_ways(struct rnl_pool *pool, struct rnl_order *order, struct rnl_job *job, int ret,
		     const char *text)
{
	try_submits(pool, job, ret, text);
	must(rnl_job_set_key(job, 1));
	try_submits(pool, job, ret, text);
	must(set_time(job, 1));
	try_submits(pool, job, ret, text);
	must(rnl_job_set_key(job, RNL_KEY_NONE));
	try_submits(pool, job, ret, text);
	must(set_order(job, order));
	try_submits(pool, job, ret, text);
}

/* Settings that a key, a time or an order excludes.  @other: an order of another pool. */
static void try_combinations(struct rnl_pool *pool, struct rnl_order *order,
			     struct rnl_order *other, struct rnl_barrier *barrier)
{
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct rnl_job job, first;

	job_of(&job, noop_fn, NULL);
	job_of(&first, noop_fn, NULL);
	must(rnl_job_set_more(&job, &more));
	invalid(rnl_job_trace_id(&job, more.carried_id), "was never submitted");
	invalid(rnl_job_trace_id(NULL, NULL), "rnl_job_trace_id(): id is NULL");
	more.start_ns = 1;
	more.when = RNL_SPACE;
	try_submits(pool, &job, -EINVAL, "has a key, an order or a time, and is a notice");
	more.when = RNL_NOW;
	more.order = order;
	try_submits(pool, &job, -EINVAL, "has a time, and is in an order");
	must(rnl_job_set_after(&job, barrier));
	try_submits(pool, &job, -EINVAL, "has a time, and comes after a barrier");
	must(rnl_job_set_after(&job, NULL));
	more.start_ns = 0;
	must(rnl_job_set_key(&job, 2));
	try_submits(pool, &job, -EINVAL, "has another key than the order");
	must(rnl_job_set_more(&job, NULL));
	invalid(rnl_barrier_notify(barrier, &job), "rnl_barrier_notify() takes no such job");
	must(rnl_job_set_then(&first, &job));
	try_submits(pool, &first, -EINVAL, "and is behind a job by");
	must(rnl_job_set_more(&job, &more));
	more.order = other;
	try_submits(pool, &job, -EINVAL, "the order of job ");
}

/* Calls the setters of the key, the time and the order, like try_setters(). */
static void try_settings(struct rnl_order *order, struct rnl_job *job, int ret, const char *text)
{
	refused(rnl_job_set_key(job, 1), ret, text);
	refused(set_time(job, 1), ret, text);
	refused(set_order(job, order), ret, text);
}

TEST(a_submit_that_is_refused_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_job job, next, silent, zero = { 0 };
	struct rnl_pool *elsewhere = pool_of(1);
	struct rnl_order order, other, none = { 0 };
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;

	must(rnl_order_init(&order, pool, 1));
	must(rnl_order_init(&other, elsewhere, 1));
	must(rnl_barrier_init(&barrier, pool));
	try_combinations(pool, &order, &other, &barrier);
	rnl_order_fini(&other);
	rnl_pool_destroy(elsewhere);
	job_of(&next, noop_fn, NULL);
	try_ways(NULL, NULL, &next, -EINVAL, "pool is NULL");
	try_submits(pool, NULL, -EINVAL, "job is NULL");
	try_settings(&order, NULL, -EINVAL, "job is NULL");
	try_submits(pool, &zero, -EINVAL, "was not initialised: call rnl_job_init() first");
	try_settings(&order, &zero, -EINVAL, "was not initialised");
	job_of(&silent, NULL, NULL);
	try_ways(pool, &order, &silent, -EINVAL, "has no function");
	submit_job(pool, &job, gated_fn, &gate);
	try_submits(pool, &job, -EBUSY, "was submitted before, and is not done");
	try_settings(&order, &job, -EBUSY, "is not done");
	refused(rnl_barrier_notify(&barrier, &job), -EBUSY, "was submitted before");
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	invalid(submit_when(NULL, &job, RNL_SPACE), "pool is NULL");
	invalid(submit_when(pool, &job, (enum rnl_when)7), "is 7; it must be RNL_NOW");
	must(set_order(&job, &none));
	invalid(rnl_submit(pool, &job), "was not initialised, or has ended");
	must(rnl_job_set_more(&job, NULL));
	invalid(rnl_order_init(NULL, pool, 1), "rnl_order_init(): the order is NULL");
	invalid(rnl_submit_many(pool, NULL, 1), "jobs is NULL, and nr is 1");
	must(rnl_pool_close(pool));
	answered(rnl_submit(pool, &job), -ESHUTDOWN);
	rnl_order_fini(&order);
	end_hearing(pool);
}

TEST(a_chain_with_a_job_that_is_under_way_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct gate gate = GATE_INIT;
	struct rnl_job first, job;

	job_of(&first, noop_fn, NULL);
	job_of(&job, gated_fn, &gate);
	must(rnl_job_set_then(&first, &job));
	must(rnl_submit(pool, &job));
	refused(rnl_submit(pool, &first), -EBUSY, "was submitted before, and is not done");
	gate_open(&gate);
	ck_assert_int_eq(result_of(&job), 0);
	end_hearing(pool);
}

/* The time of day is decades ahead of rnl_clock(), so the job would never start. */
TEST(a_start_that_is_a_time_of_day_is_refused)
{
	struct rnl_pool *pool = hearing_pool(1);
	const int64_t year_ns = INT64_C(366) * 24 * 3600 * 1000000000;
	struct timespec now;
	struct rnl_job job;
	int64_t today;

	clock_gettime(CLOCK_REALTIME, &now);
	today = now.tv_sec * INT64_C(1000000000);
	job_of(&job, noop_fn, NULL);
	invalid(submit_at(pool, &job, today), "which is not the time of day");
	invalid(submit_by_key_at(pool, &job, 1, INT64_MAX), "more than a year later");
	answered(submit_at(pool, &job, rnl_clock() + year_ns - INT64_C(1000000000)), 0);
	must(rnl_job_cancel(&job));
	ck_assert_int_eq(result_of(&job), -ECANCELED);
	answered(submit_at(pool, &job, INT64_MIN), 0);
	ck_assert_int_eq(result_of(&job), 0);
	end_hearing(pool);
}

/* ---- barriers and completion queues ----------------------------------------------------- */

TEST(a_call_on_no_barrier_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_barrier barrier, *bad[2] = { NULL, &barrier };
	static const char *const text[2] = { "the barrier is NULL",
					     "the barrier was not initialised" };
	struct rnl_job job;

	memset(&barrier, 0, sizeof(barrier));
	job_of(&job, noop_fn, NULL);
	for (int i = 0; i < 2; i++) {
		invalid(rnl_barrier_add(bad[i], &job), text[i]);
		invalid(rnl_barrier_wait(bad[i], 0), text[i]);
		invalid(rnl_barrier_join(bad[i]), text[i]);
		invalid(rnl_barrier_notify(bad[i], &job), text[i]);
	}
	invalid(rnl_barrier_init(NULL, pool), "rnl_barrier_init(): the barrier is NULL");
	invalid(rnl_job_set_after(&job, &barrier), text[1]);
	end_hearing(pool);
}

TEST(a_call_on_no_completion_queue_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_cq *cq = cq_of();
	struct rnl_job *list[1];

	invalid(rnl_cq_create(NULL), "rnl_cq_create(): cqp is NULL");
	invalid(rnl_cq_fd(NULL), "rnl_cq_fd(): the completion queue is NULL");
	invalid(rnl_cq_reap(NULL, list, 1, 0), "the completion queue is NULL");
	invalid(rnl_cq_reap(cq, NULL, 1, RNL_FOREVER), "jobs is NULL");
	invalid(rnl_cq_reap(cq, list, 0, RNL_FOREVER), "max is 0");
	invalid(rnl_cq_reap(cq, list, 0, 0), "max is 0");
	answered(rnl_cq_reap(cq, list, 1, 0), 0);
	answered(rnl_cq_reap(cq, list, 1, 1), 0);
	rnl_cq_destroy(cq);
	end_hearing(pool);
}

/* Perhaps no thread reaps the job, or only the thread that would wait. */
TEST(a_wait_for_ever_for_a_job_that_has_to_be_reaped_is_refused)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_job job, *list[1];
	struct gate gate = GATE_INIT;
	struct rnl_cq *cq = cq_of();

	cq_job(&job, gated_fn, &gate, cq);
	must(rnl_job_set_device(&job, 0));
	must(rnl_submit(pool, &job));
	refused(rnl_job_wait(&job, RNL_FOREVER), -EBUSY, "is done when it is reaped");
	refused(rnl_job_wait(&job, -7), -EBUSY, "rnl_cq_reap()");
	answered(rnl_job_wait(&job, 0), -ETIMEDOUT);
	answered(rnl_job_wait(&job, MS), -ETIMEDOUT);
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	refused(rnl_job_wait(&job, RNL_FOREVER), -EBUSY, "is done when it is reaped");
	ck_assert_int_eq(rnl_cq_reap(cq, list, 1, 0), 1);
	answered(rnl_job_wait(&job, RNL_FOREVER), 0);
	/* Without its queue the job can be waited for like any job. */
	must(rnl_job_set_cq(&job, NULL));
	must(rnl_submit(pool, &job));
	answered(rnl_job_wait(&job, RNL_FOREVER), 0);
	rnl_cq_destroy(cq);
	end_hearing(pool);
}

/* ---- work on the stream ------------------------------------------------------------------- */

static void host_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	(void)args;
}

static int cuda_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	(void)grid;
	(void)block;
	(void)args;
	(void)stream;
	return 0;
}

static const struct rnl_kernel plain = { "plain", 4, host_kernel, cuda_kernel, NULL };
static const struct rnl_kernel huge = { "huge", RNL_KERNEL_ARGS_MAX + 1, host_kernel,
					cuda_kernel, NULL };
static const struct rnl_kernel nowhere = { "nowhere", 0, NULL, NULL, NULL };

TEST(work_of_a_thread_without_a_stream_is_logged)
{
	static const char none[] =
		"this thread has no stream: call it in a job's function, or call rnl_thread_attach()";
	const struct rnl_dim one = { 1, 1, 1 };
	struct rnl_pool *pool = hearing_pool(1);
	char a[4] = "abc", b[4];
	void *mem;

	refused(rnl_copy(b, a, sizeof(a)), -ENODEV, none);
	refused(rnl_copy_2d(b, 2, a, 2, 2, 2), -ENODEV, none);
	refused(rnl_fill(b, 0, sizeof(b)), -ENODEV, none);
	refused(rnl_launch(&plain, one, one, a), -ENODEV, none);
	refused(rnl_stream_wait(0), -ENODEV, none);
	refused(rnl_job_args(1, &mem), -ENODEV, none);
	end_hearing(pool);
}

TEST(work_that_is_refused_is_logged)
{
	const struct rnl_dim one = { 1, 1, 1 }, flat = { 1, 0, 1 };
	struct rnl_pool *pool = hearing_pool(1);
	char a[64] = "", b[64];
	void *mem;

	must(rnl_thread_attach(pool));
	invalid(rnl_copy(NULL, a, 4), "rnl_copy(): dst is NULL, and 4 bytes");
	invalid(rnl_copy(b, NULL, 4), "rnl_copy(): src is NULL");
	invalid(rnl_copy_2d(b, 8, a, 3, 4, 2), "src_pitch is 3, of 2 rows; both must be 4");
	invalid(rnl_fill(NULL, 0, 4), "rnl_fill(): dst is NULL, and bytes is 4");
	invalid(rnl_fill(b, 0, sizeof(b)), "they must be memory of the device or page-locked");
	invalid(rnl_launch(NULL, one, one, a), "rnl_launch(): kernel is NULL");
	invalid(rnl_launch(&plain, one, one, NULL), "args is NULL, and kernel plain has 4");
	invalid(rnl_launch(&huge, one, one, a), "kernel huge are 4097 bytes; 4096 is the most");
	invalid(rnl_launch(&plain, one, flat, a),
		"kernel plain: grid is (1, 1, 1), and block is (1, 0, 1); no dimension may be 0");
	refused(rnl_launch(&nowhere, one, one, NULL), -ENOTSUP,
		"kernel nowhere has no function for");
	invalid(rnl_job_args(1, &mem), "rnl_job_args(): called outside of a job's function");
	must(rnl_stream_wait(RNL_FOREVER));
	rnl_thread_attach(NULL);
	end_hearing(pool);
}

TEST(a_launch_beyond_the_device_is_logged)
{
	const struct rnl_dim one = { 1, 1, 1 }, large = { 2048, 1, 1 };
	struct rnl_pool *pool;

	if (!on_host())
		test_skip("the kernel of this test asks nothing of a GPU");
	pool = hearing_pool(1);
	must(rnl_thread_attach(pool));
	invalid(rnl_launch(&plain, one, large, "abc"),
		"the device refused kernel plain with grid (1, 1, 1) and block (2048, 1, 1)");
	rnl_thread_attach(NULL);
	end_hearing(pool);
}

TEST(a_thread_of_another_device_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1), *other;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_barrier barrier;

	attr.device = on_host() ? "host:2" : "host";
	attr.nr_workers = 2;
	must(rnl_pool_create(&other, &attr));
	if (on_host()) {
		/* This pool's device is the first of the other pool's two host devices. */
		must(rnl_thread_attach(other));
		answered(rnl_thread_attach(pool), 0);
	} else {
		must(rnl_thread_attach(other));
		refused(rnl_thread_attach(pool), -EBUSY,
			"rnl_thread_attach(): this thread is attached to");
		must(rnl_barrier_init(&barrier, pool));
		refused(rnl_barrier_join(&barrier), -ENODEV, "call rnl_thread_attach(NULL) first");
	}
	rnl_thread_attach(NULL);
	rnl_pool_destroy(other);
	end_hearing(pool);
}

TEST(a_setup_that_comes_too_late_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);

	unsetenv("CUDA_DEVICE_MAX_CONNECTIONS");
	refused(rnl_setup(), -EBUSY, "rnl_setup(): other threads run");
	end_hearing(pool);
}

/* ---- in a job's function -------------------------------------------------------------------- */

struct inside {
	struct rnl_job job, waiting;
	struct rnl_pool *pool;
	struct rnl_barrier unissued;
	struct gate gate;
};

static int inside_fn(struct rnl_job *job)
{
	struct inside *in = rnl_container_of(job, struct inside, job);
	static const char itself[] = "would wait for itself";
	void *mem;

	refused(rnl_job_wait(job, MS), -EBUSY, itself);
	refused(rnl_barrier_wait(&in->unissued, MS), -EBUSY, itself);
	refused(rnl_barrier_join(&in->unissued), -EBUSY, itself);
	refused(rnl_pool_drain(in->pool, MS), -EBUSY, itself);
	refused(rnl_pool_resize(in->pool, 1), -EBUSY, itself);
	refused(rnl_trace_start(in->pool, "/dev/null", NULL), -EBUSY, itself);
	refused(rnl_trace_stop(in->pool), -EBUSY, itself);
	refused(rnl_stream_wait(MS), -EBUSY, "rnl_stream_wait(): called in a job's function");
	invalid(rnl_job_args(1, &mem), "rnl_job_args(): the job's user is NULL");
	invalid(rnl_scratch(0, &mem), "rnl_scratch(): bytes is 0");
	invalid(rnl_scratch(1, NULL), "rnl_scratch(): memp is NULL");
	job->user = job;
	invalid(rnl_job_args(RNL_JOB_ARGS_MAX + 1, &mem), "bytes is 1025; it must be 1 to 1024");
	invalid(rnl_job_hold(job, NULL), "rnl_job_hold(): hold is NULL");
	return 0;
}

TEST(a_call_that_a_job_may_not_make_is_logged)
{
	struct inside in = { .gate = GATE_INIT };

	in.pool = hearing_pool(2);
	hold_barrier(in.pool, &in.unissued, &in.gate, &in.waiting);
	submit_job(in.pool, &in.job, inside_fn, NULL);
	/* The job fails with an error of its calls, although the function returns 0. */
	ck_assert_int_eq(result_of(&in.job), -EINVAL);
	gate_open(&in.gate);
	end_hearing(in.pool);
}

static int fill_stack_fn(struct rnl_job *job)
{
	char mem[64];

	(void)job;
	(void)rnl_fill(mem, 1, sizeof(mem));
	return 0;
}

TEST(a_fill_of_the_stack_in_a_job_is_logged_whether_it_gathers_or_not)
{
	enum { NR = 8 };
	struct rnl_pool *pool = hearing_pool(1);
	struct gate gate = GATE_INIT;
	struct rnl_job plug, jobs[NR];

	job_of(&jobs[0], fill_stack_fn, NULL);
	invalid(submit_and_wait(pool, &jobs[0]), "rnl_fill(): the device refused 64 bytes");
	heard.bytes = 0;
	hold_workers(pool, &gate, &plug, 1);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], fill_stack_fn, NULL);
		must(rnl_job_set_flags(&jobs[i], RNL_GATHER));
		must(rnl_submit(pool, &jobs[i]));
	}
	gate_open(&gate);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&jobs[i]), -EINVAL);
	ck_assert(has_heard(&heard, "which gathers"));
	end_hearing(pool);
}

/* ---- mistakes that no call refuses ------------------------------------------------------- */

static int positive_fn(struct rnl_job *job)
{
	(void)job;
	return EIO;
}

TEST(a_positive_result_succeeds_and_the_pool_says_so_once)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_job job;

	job_of(&job, positive_fn, NULL);
	refused(submit_and_wait(pool, &job), EIO, "returned 5, a value: its job has succeeded");
	answered(submit_and_wait(pool, &job), EIO);
	end_hearing(pool);
}

static int positive_chunk(const struct rnl_chunk *chunk)
{
	(void)chunk;
	return 3;
}

TEST(a_positive_result_of_a_maps_function_ends_the_map_and_is_logged)
{
	struct rnl_pool *pool = hearing_pool(1);
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier barrier;
	char in[64] = "";

	must(rnl_barrier_init(&barrier, pool));
	map.fn = positive_chunk;
	map.in = in;
	map.in_bytes = 1;
	map.nr = sizeof(in);
	map.chunk = sizeof(in);
	must(rnl_map_start(pool, &map, &barrier));
	ck_assert_int_eq(result_of_barrier(&barrier), -EINVAL);
	ck_assert(has_heard(&heard,
			    "a map's fn() returned 3; it must return 0 or a negative errno"));
	end_hearing(pool);
}

/* ---- floods ---------------------------------------------------------------------------------- */

static void count_line(void *arg, enum rnl_log_level level, const char *msg)
{
	unsigned *lines = arg;

	(void)level;
	lines[0]++;
	lines[1] += strstr(msg, "more lines like the next one were left out") != NULL;
}

TEST(a_loop_of_refused_calls_does_not_flood_the_log, .timeout_s = 60,
     .not_simulated = "it loops for seconds")
{
	const int64_t end = rnl_clock() + patience_ns();
	unsigned lines[2] = { 0, 0 };
	uint64_t calls = 0;

	rnl_set_log(count_line, lines);
	/* Goes on until a second has passed in which lines were left out. */
	while (!lines[1] && rnl_clock() < end) {
		ck_assert_int_eq(rnl_job_wait(NULL, 0), -EINVAL);
		calls++;
	}
	ck_assert_uint_eq(lines[1], 1);
	ck_assert_uint_lt(lines[0], calls);
	ck_assert_uint_le(lines[0], 202);
	rnl_set_log(NULL, NULL);
}
