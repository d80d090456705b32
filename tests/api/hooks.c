/* SPDX-License-Identifier: MIT */
/* Hooks: functions called when a worker begins and ceases to serve, and the worker's data. */
#include <runnel/guard.h>

#include "classed.h"

/* The hooks' record of one worker; the worker's thread writes it until it ends. */
struct seen {
	_Atomic unsigned starts, started, stops;	/* calls; calls that returned 0; calls */
	pid_t start_tid, stop_tid;
	int index;		/* rnl_worker().index in on_start */
	int copy;		/* rnl_copy() in on_start */
	void *data_in_stop;
	unsigned char own[64];
	int token;		/* the worker's jobs get its address */
};

struct hooks {
	struct seen seen[RNL_WORKERS_MAX];
	_Atomic unsigned fails_from;	/* from this worker on, starts fail ... */
	int error;			/* ... with this */
	_Atomic unsigned bad;		/* wrong calls */
};

static unsigned char sevens[64];

static int on_start(void *arg, unsigned worker, void **datap)
{
	struct hooks *h = arg;
	struct seen *s;

	if (worker >= RNL_WORKERS_MAX) {
		h->bad++;
		return -EPROTO;
	}
	s = &h->seen[worker];
	s->starts++;
	if (worker >= h->fails_from)
		return h->error;
	/* No second start without a stop. */
	h->bad += s->started != s->stops;
	s->start_tid = own_tid();
	s->index = rnl_worker().index;
	if (on_host())
		s->copy = rnl_copy(s->own, sevens, sizeof(s->own));
	*datap = &s->token;
	s->started++;
	return 0;
}

static void on_stop(void *arg, unsigned worker, void *data)
{
	struct hooks *h = arg;
	struct seen *s = &h->seen[worker];

	s->stop_tid = own_tid();
	s->data_in_stop = data;
	s->stops++;
}

static struct hooks *hooks_of(void)
{
	struct hooks *h = calloc(1, sizeof(*h));

	h->fails_from = RNL_WORKERS_MAX;
	memset(sevens, 7, sizeof(sevens));
	return h;
}

static struct rnl_pool_attr attr_of(struct hooks *h)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = test_device();
	attr.on_start = on_start;
	attr.on_stop = on_stop;
	attr.hook_arg = h;
	return attr;
}

/* Workers below @serving serve for the @nr-th time; those up to @had did, and have stopped. */
static void check_seen(struct hooks *h, unsigned serving, unsigned nr, unsigned had)
{
	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		struct seen *s = &h->seen[i];

		ck_assert_uint_eq(s->started, i < had ? nr : 0);
		ck_assert_uint_eq(s->stops, i < serving ? nr - 1 : s->started);
		if (!s->started)
			continue;
		ck_assert_int_eq(s->index, (int)i);
		ck_assert_int_eq(s->copy, 0);
		if (s->stops) {
			ck_assert_int_eq(s->start_tid, s->stop_tid);
			ck_assert_ptr_eq(s->data_in_stop, &s->token);
		}
	}
	ck_assert_uint_eq(h->bad, 0);
}

/* A job that records its worker's data. */
struct asking {
	struct rnl_job job;
	struct gate *gate;
	void *data;
	pid_t tid;
};

static int asking_fn(struct rnl_job *job)
{
	struct asking *a = rnl_container_of(job, struct asking, job);

	a->data = rnl_worker().data;
	a->tid = own_tid();
	gate_wait(a->gate);
	return rnl_worker().index;
}

/* Runs a job on each of @nr workers concurrently. */
static void ask_all(struct rnl_pool *pool, struct hooks *h, unsigned nr)
{
	struct gate gate = GATE_INIT;
	struct asking asking[RNL_WORKERS_MAX];

	for (unsigned i = 0; i < nr; i++) {
		asking[i].gate = &gate;
		submit_job(pool, &asking[i].job, asking_fn, NULL);
	}
	gate_await(&gate, nr);
	gate_open(&gate);
	for (unsigned i = 0; i < nr; i++) {
		int worker = result_of(&asking[i].job);

		ck_assert_int_ge(worker, 0);
		ck_assert_int_lt(worker, (int)nr);
		ck_assert_ptr_eq(asking[i].data, h ? &h->seen[worker].token : NULL);
		if (h)
			ck_assert_int_eq(asking[i].tid, h->seen[worker].start_tid);
	}
}

/* Loop 1: a class has two of the workers. */
TEST(each_worker_has_its_hooks_called_once_in_its_own_thread, .loops = 2)
{
	enum { NR = 5 };
	struct hooks *h = hooks_of();
	struct rnl_pool_attr attr = attr_of(h);
	struct rnl_pool *pool;

	attr.nr_class_workers = _i ? 2 : 0;
	pool = pool_with(&attr, NR - attr.nr_class_workers);
	if (_i)
		(void)own_class(pool, 2);
	check_seen(h, NR, 1, NR);
	if (!_i)
		ask_all(pool, h, NR);
	ck_assert_ptr_null(rnl_worker().data);
	rnl_pool_destroy(pool);
	check_seen(h, 0, 1, NR);
	/* The work of on_start was done before the worker ended. */
	if (on_host())
		for (int i = 0; i < NR; i++)
			ck_assert_bytes(h->seen[i].own, 64, 7);
	free(h);
}

TEST(without_on_start_there_is_no_data)
{
	struct rnl_pool *pool = pool_of(2);

	ask_all(pool, NULL, 2);
	rnl_pool_destroy(pool);
	ck_assert_ptr_null(rnl_worker().data);
}

static int start_only(void *arg, unsigned worker, void **datap)
{
	(void)worker;
	(void)datap;		/* datap stays NULL */
	(*(_Atomic int *)arg)++;
	return 0;
}

TEST(one_hook_does_without_the_other)
{
	_Atomic int nr_starts = 0;
	struct rnl_pool *pool = pool_of(3, .on_start = start_only, .hook_arg = &nr_starts);

	ck_assert_int_eq(nr_starts, 3);
	ask_all(pool, NULL, 3);
	rnl_pool_destroy(pool);
}

TEST(a_start_that_fails_fails_the_creation_and_stops_only_started_workers)
{
	static const int errors[] = { -EPROTO, -ENOMEM, -1 };
	enum { NR = 6 };

	for (unsigned from = 0; from < NR; from++) {
		struct hooks *h = hooks_of();
		struct rnl_pool_attr attr = attr_of(h);
		struct rnl_pool *const untouched = (struct rnl_pool *)&(char){ 0 };
		struct rnl_pool *pool = untouched;

		attr.nr_workers = NR;
		h->fails_from = from;
		h->error = errors[from % COUNT(errors)];
		ck_assert_int_eq(rnl_pool_create(&pool, &attr), h->error);
		ck_assert_ptr_eq(pool, untouched);
		for (unsigned i = 0; i < NR; i++) {
			ck_assert_uint_eq(h->seen[i].stops, h->seen[i].started);
			ck_assert_uint_le(h->seen[i].starts, 1);
			if (i >= from)
				ck_assert_uint_eq(h->seen[i].started, 0);
		}
		ck_assert_uint_eq(h->bad, 0);
		/* The same without a failing start. */
		memset(h, 0, sizeof(*h));
		h->fails_from = RNL_WORKERS_MAX;
		must(rnl_pool_create(&pool, &attr));
		check_seen(h, NR, 1, NR);
		rnl_pool_destroy(pool);
		free(h);
	}
}

TEST(a_start_returns_no_positive_number)
{
	struct hooks *h = hooks_of();
	struct rnl_pool_attr attr = attr_of(h);
	struct rnl_pool *pool = NULL;

	attr.nr_workers = 2;
	h->fails_from = 0;
	h->error = 5;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EINVAL);
	ck_assert_ptr_null(pool);
	check_seen(h, 0, 1, 0);
	free(h);
}

TEST(a_guard_lets_them_in)
{
	struct hooks *h = hooks_of();
	struct rnl_pool_attr attr = attr_of(h);
	struct rnl_pool *pool;

	attr.guard = RNL_GUARD_STRICT;
	pool = pool_with(&attr, 2);
	ask_all(pool, h, 2);
	must(rnl_pool_resize(pool, 1));
	check_seen(h, 1, 1, 2);
	rnl_pool_destroy(pool);
	check_seen(h, 0, 1, 2);
	free(h);
}

TEST(each_time_that_a_worker_serves_has_its_own_calls)
{
	struct hooks *h = hooks_of();
	struct rnl_pool_attr attr = attr_of(h);
	struct rnl_pool *pool = pool_with(&attr, 2);

	for (unsigned round = 1; round <= 4; round++) {
		must(rnl_pool_resize(pool, 5));
		for (unsigned i = 0; i < 5; i++) {
			ck_assert_uint_eq(h->seen[i].started, i < 2 ? 1 : round);
			ck_assert_uint_eq(h->seen[i].stops, i < 2 ? 0 : round - 1);
		}
		ask_all(pool, h, 5);
		must(rnl_pool_resize(pool, 2));
		for (unsigned i = 0; i < 5; i++)
			ck_assert_uint_eq(h->seen[i].stops, i < 2 ? 0 : round);
		ask_all(pool, h, 2);
	}
	rnl_pool_destroy(pool);
	for (unsigned i = 0; i < 5; i++) {
		ck_assert_uint_eq(h->seen[i].started, i < 2 ? 1 : 4);
		ck_assert_uint_eq(h->seen[i].stops, h->seen[i].started);
		ck_assert_int_eq(h->seen[i].stop_tid, h->seen[i].start_tid);
	}
	ck_assert_uint_eq(h->bad, 0);
	free(h);
}

TEST(a_pool_whose_growth_failed_is_as_it_was)
{
	struct hooks *h = hooks_of();
	struct rnl_pool_attr attr = attr_of(h);
	struct rnl_pool *pool = pool_with(&attr, 2);

	h->error = -EPROTO;
	for (unsigned round = 1; round <= 3; round++) {
		/* Worker 2 may start, 3 may not. From the second round on their threads exist. */
		h->fails_from = 3;
		ck_assert_int_eq(rnl_pool_resize(pool, 5), -EPROTO);
		ck_assert_uint_eq(figures_of(pool).nr_workers, 2);
		ask_all(pool, h, 2);
		for (unsigned i = 0; i < 5; i++) {
			if (i < 2)
				ck_assert_uint_eq(h->seen[i].stops, 0);
			else
				ck_assert_uint_eq(h->seen[i].stops, h->seen[i].started);
		}
		h->fails_from = RNL_WORKERS_MAX;
		must(rnl_pool_resize(pool, 5));
		ask_all(pool, h, 5);
		must(rnl_pool_resize(pool, 2));
	}
	rnl_pool_destroy(pool);
	for (unsigned i = 0; i < 5; i++)
		ck_assert_uint_eq(h->seen[i].stops, h->seen[i].started);
	ck_assert_uint_eq(h->bad, 0);
	free(h);
}
