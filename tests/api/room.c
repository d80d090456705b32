/* SPDX-License-Identifier: MIT */
/* Threads wait for space in a full pool: a submit goes on when its job can use the space. */
#define _GNU_SOURCE	/* RUSAGE_THREAD */
#include <sys/resource.h>

#include <runnel/hold.h>
#include <runnel/more.h>

#include "classed.h"
#include "record.h"

struct pusher {
	struct rnl_pool *pool;
	struct rnl_job *jobs;
	int nr;
};

static int push_all(void *arg)
{
	struct pusher *p = arg;

	for (int i = 0; i < p->nr; i++) {
		int ret = i % 3 ? rnl_submit_wait(p->pool, &p->jobs[i], RNL_FOREVER) :
				  submit_by_key_wait(p->pool, &p->jobs[i], (uint64_t)i,
							RNL_FOREVER);

		if (ret)
			return ret;
	}
	return 0;
}

/* Starts threads that push @nr jobs each. Each job adds 1 to @ran. */
static void start_pushers(struct rnl_pool *pool, struct pusher *pushers, struct call *calls,
			  int nr_pushers, int nr, _Atomic int *ran)
{
	for (int p = 0; p < nr_pushers; p++) {
		pushers[p] =
			(struct pusher){ pool, calloc((size_t)nr, sizeof(struct rnl_job)), nr };
		for (int i = 0; i < nr; i++)
			job_of(&pushers[p].jobs[i], count_fn, ran);
		call_start(&calls[p], push_all, &pushers[p]);
	}
}

/* Checks that all submits succeeded and that all jobs ran. */
static void end_pushers(struct pusher *pushers, struct call *calls, int nr_pushers,
			_Atomic int *ran)
{
	for (int p = 0; p < nr_pushers; p++)
		must(call_end(&calls[p]));
	must(rnl_pool_drain(pushers[0].pool, RNL_FOREVER));
	ck_assert_int_eq(*ran, nr_pushers * pushers[0].nr);
	for (int p = 0; p < nr_pushers; p++)
		free(pushers[p].jobs);
}

TEST(many_that_wait_all_get_in)
{
	enum { PUSHERS = 12 };
	int nr = (int)(1500 / test_scale());

	for (unsigned nr_workers = 1; nr_workers <= 3; nr_workers++) {
		struct pusher pushers[PUSHERS];
		struct call calls[PUSHERS];
		struct rnl_pool *pool = pool_of(nr_workers, .max_queued = 2);
		_Atomic int ran = 0;

		start_pushers(pool, pushers, calls, PUSHERS, nr, &ran);
		end_pushers(pushers, calls, PUSHERS, &ran);
		rnl_pool_destroy(pool);
	}
}

/* A submit that waits for a long queue does not look at it for a while. */
TEST(many_that_wait_for_a_long_queue_all_get_in)
{
	enum { PUSHERS = 4, MAX = 4096, NR = MAX + 1000 };
	struct pusher pushers[PUSHERS];
	struct call calls[PUSHERS];
	struct rnl_job held, late;
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool = pool_of(1, .max_queued = MAX);
	_Atomic int ran = 0;

	hold_workers(pool, &gate, &held, 1);
	start_pushers(pool, pushers, calls, PUSHERS, NR, &ran);
	for (int p = 0; p < PUSHERS; p++)
		ck_waits(calls[p].tid);
	/* A wait still ends at its timeout. */
	job_of(&late, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit_wait(pool, &late, 1000), -ETIMEDOUT);
	gate_open(&gate);
	end_pushers(pushers, calls, PUSHERS, &ran);
	rnl_pool_destroy(pool);
}

/* Starts a submit that must wait. */
static void start_waiting(struct call *call, struct submitting *s)
{
	call_start(call, submit_waiting, s);
	ck_waits(call->tid);
}

/* Holds a worker at the gate. */
static void hold_worker(struct rnl_pool *pool, unsigned worker, struct gate *gate,
			struct rnl_job *job)
{
	job_of(job, gated_fn, gate);
	must(submit_by_key(pool, job, RNL_KEY_WORKER(worker)));
	gate_await(gate, 1);
}

static void submit_to_worker(struct rnl_pool *pool, unsigned worker, struct rnl_job *job)
{
	job_of(job, noop_fn, NULL);
	must(submit_by_key(pool, job, RNL_KEY_WORKER(worker)));
}

TEST(a_keyed_submit_waits_for_room_at_the_worker_of_its_key)
{
	enum { EACH = 4 };
	struct rnl_pool *pool = pool_of(2, .max_queued = 2 * EACH);
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct record record = { 0 };
	struct rnl_job held[2], other;
	struct noted noted[EACH + 1];
	struct submitting s = { pool, &noted[EACH].job, RNL_FOREVER, RNL_KEY_WORKER(0), true };
	struct call call;

	for (unsigned i = 0; i < 2; i++)
		hold_worker(pool, i, &gates[i], &held[i]);
	for (int i = 0; i <= EACH; i++)
		noted_of(&noted[i], &record, i);
	for (int i = 0; i < EACH; i++)
		must(submit_by_key(pool, &noted[i].job, s.key));
	ck_assert_int_eq(submit_by_key_wait(pool, s.job, s.key, 10 * MS), -ETIMEDOUT);
	/* The other queue has space for other keys. */
	job_of(&other, noop_fn, NULL);
	must(submit_by_key_wait(pool, &other, RNL_KEY_WORKER(1), 0));
	start_waiting(&call, &s);
	gate_open(&gates[1]);
	ck_assert_int_eq(result_of(&other), 0);
	ck_assert(!call.returned);
	gate_open(&gates[0]);
	must(call_end(&call));
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i <= EACH; i++)
		ck_assert_int_eq(place_of(&record, i), i);
	rnl_pool_destroy(pool);
}

TEST(jobs_after_a_barrier_and_of_a_class_wait_for_room_of_their_own)
{
	enum { MAX = 3, DEFERRED, CLASSED, KINDS };

	for (int kind = DEFERRED; kind < KINDS; kind++) {
		struct rnl_pool *pool = pool_of(1, .max_queued = MAX, .nr_class_workers = 1);
		struct rnl_class *cls = class_of(pool, .nr_workers = 1, .max_queued = MAX);
		struct gate gate = GATE_INIT;
		struct rnl_job held[2], jobs[MAX + 1], other;
		struct submitting s = { pool, &jobs[MAX], RNL_FOREVER, 0, false };
		struct rnl_barrier barrier;
		struct call call;

		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < 2; i++) {	/* one for the worker, one for the class's */
			classed_of(&held[i], i ? cls : NULL, gated_fn, &gate);
			must(rnl_barrier_add(&barrier, &held[i]));
			must(rnl_submit(pool, &held[i]));
			gate_await(&gate, (unsigned)i + 1);
		}
		for (int i = 0; i <= MAX; i++) {
			job_of(&jobs[i], noop_fn, NULL);
			must(kind == CLASSED ? rnl_job_set_class(&jobs[i], cls) :
					       rnl_job_set_after(&jobs[i], &barrier));
			ck_assert_int_eq(rnl_submit(pool, &jobs[i]), i < MAX ? 0 : -EAGAIN);
		}
		ck_assert_int_eq(rnl_submit_wait(pool, &jobs[MAX], 5 * MS), -ETIMEDOUT);
		/* The pool has space for jobs of another kind. */
		submit_job(pool, &other, noop_fn, NULL);
		start_waiting(&call, &s);
		gate_open(&gate);
		must(call_end(&call));
		ck_assert_int_eq(result_of(&jobs[MAX]), 0);
		rnl_pool_destroy(pool);
	}
}

TEST(each_waiting_thread_wakes_for_the_room_that_it_can_use)
{
	enum { KEYED0, KEYED1, ANY, WAITERS };

	for (int first = 0; first < WAITERS; first++) {
		/* One place for each worker. */
		struct rnl_pool *pool = pool_of(2, .max_queued = 2);
		struct gate gates[2] = { GATE_INIT, GATE_INIT };
		struct rnl_job held[2], queued[2], jobs[WAITERS];
		struct submitting s[WAITERS];
		struct call calls[WAITERS];

		for (unsigned i = 0; i < 2; i++) {
			hold_worker(pool, i, &gates[i], &held[i]);
			submit_to_worker(pool, i, &queued[i]);
		}
		/* The threads fall asleep in three orders; the right thread must wake. */
		for (int i = 0; i < WAITERS; i++) {
			int which = (first + i) % WAITERS;

			job_of(&jobs[which], noop_fn, NULL);
			s[which] = (struct submitting){ pool, &jobs[which], RNL_FOREVER,
							RNL_KEY_WORKER(which == KEYED1),
							which != ANY };
			start_waiting(&calls[which], &s[which]);
		}
		gate_open(&gates[1]);
		must(call_end(&calls[KEYED1]));
		must(call_end(&calls[ANY]));
		ck_assert_int_eq(result_of(&jobs[KEYED1]), 0);
		ck_assert_int_eq(result_of(&jobs[ANY]), 0);
		ck_assert(!calls[KEYED0].returned);
		gate_open(&gates[0]);
		must(call_end(&calls[KEYED0]));
		ck_assert_int_eq(result_of(&jobs[KEYED0]), 0);
		rnl_pool_destroy(pool);
	}
}

TEST(a_worker_that_comes_is_room_for_those_that_wait)
{
	enum { MAX = 4, WAITERS = 2 };
	struct rnl_pool *pool = pool_of(2, .max_queued = MAX);
	const uint64_t key = key_on(pool, 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued[MAX], jobs[WAITERS];
	struct resize to_two = { pool, 2 };
	struct submitting s[WAITERS];
	struct call calls[WAITERS], resize;

	must(rnl_pool_resize(pool, 1));
	hold_workers(pool, &gate, &held, 1);
	/* No worker can steal these, so only the new worker has space. */
	for (int i = 0; i < MAX; i++) {
		job_of(&queued[i], noop_fn, NULL);
		must(submit_by_key(pool, &queued[i], key + 1));
	}
	for (int i = 0; i < WAITERS; i++) {
		job_of(&jobs[i], index_fn, NULL);
		s[i] = (struct submitting){ pool, &jobs[i], RNL_FOREVER, key, i };
		start_waiting(&calls[i], &s[i]);
	}
	call_start(&resize, resize_fn, &to_two);
	for (int i = 0; i < WAITERS; i++) {
		ck_eventually(calls[i].returned);
		must(call_end(&calls[i]));
	}
	ck_assert_int_eq(result_of(&jobs[0]), 1);	/* the other may be after older jobs */
	ck_assert_int_ne(rnl_job_wait(&held, 0), 0);
	gate_open(&gate);
	must(call_end(&resize));
	ck_assert_int_eq(result_of(&jobs[1]), 1);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_its_barrier_lets_go_makes_room_for_another)
{
	enum { EACH = 3, DEFERRED = 2 * EACH };	/* per worker; in the pool */
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct rnl_job held[2], deferred[DEFERRED], job;
	struct rnl_barrier barriers[2];
	struct rnl_pool *pool = pool_of(2, .max_queued = 2 * EACH);
	struct submitting s = { pool, &job, RNL_FOREVER, RNL_KEY_WORKER(0), true };
	struct call call;

	/* Each worker runs a job of one barrier; jobs after the barriers go to the first worker. */
	for (unsigned i = 0; i < 2; i++) {
		must(rnl_barrier_init(&barriers[i], pool));
		job_in(&barriers[i], &held[i], gated_fn, &gates[i]);
		must(submit_by_key(pool, &held[i], RNL_KEY_WORKER(i)));
		gate_await(&gates[i], 1);
	}
	for (int i = 0; i < DEFERRED; i++) {
		job_of(&deferred[i], noop_fn, NULL);
		must(rnl_job_set_after(&deferred[i], &barriers[i ? 0 : 1]));
		must(submit_by_key(pool, &deferred[i], s.key));
	}
	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_after(&job, &barriers[0]));
	start_waiting(&call, &s);
	/* A deferred job moves to the first worker's queue, so one submit goes on. */
	gate_open(&gates[1]);
	ck_eventually(call.returned);
	must(call_end(&call));
	ck_assert_int_ne(rnl_job_wait(&held[0], 0), 0);
	gate_open(&gates[0]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(job.result, 0);
	rnl_pool_destroy(pool);
}

/* ---- waiters in order --------------------------------------------------------- */

/* Several threads that wait for space, and get it one at a time. */
struct entrants {
	struct rnl_pool *pool;
	struct record came;
	struct entrant {
		struct entrants *all;
		struct rnl_job first, next;	/* a chain; or one job after a barrier */
		struct rnl_barrier barrier;
		struct rnl_job before;		/* of the barrier */
		struct rnl_hold hold;
		struct gate gate;		/* of a chain's first job */
		int id;
	} list[17];
};

static int enter_fn(void *arg)
{
	struct entrant *e = arg;
	int ret = rnl_submit_wait(e->all->pool, &e->first, RNL_FOREVER);

	note(&e->all->came, e->id);
	return ret;
}

static int held_fn(struct rnl_job *job)
{
	struct entrant *e = job->user;

	return rnl_job_hold(job, &e->hold);
}

static void gated_chain(struct rnl_job *first, struct rnl_job *next, struct gate *gate)
{
	job_of(first, gated_fn, gate);
	job_of(next, noop_fn, NULL);
	must(rnl_job_set_then(first, next));
}

static void entrant_of(struct entrants *all, int id, bool chain)
{
	struct entrant *e = &all->list[id];

	*e = (struct entrant){ .all = all, .id = id, .gate = GATE_INIT };
	if (chain) {
		gated_chain(&e->first, &e->next, &e->gate);
		return;
	}
	must(rnl_barrier_init(&e->barrier, all->pool));
	submit_in(all->pool, &e->barrier, &e->before, held_fn, e);
	ck_eventually(figures_of(all->pool).held == (unsigned)id + 1);
	job_of(&e->first, noop_fn, NULL);
	must(rnl_job_set_after(&e->first, &e->barrier));
}

/* Lets an entrant come; only the first one gets in immediately. */
static void enter(struct call *call, struct entrant *e)
{
	call_start(call, enter_fn, e);
	if (e->id)
		ck_waits(call->tid);
	else
		ck_eventually(e->all->came.nr == 1);
}

/* Makes an entrant's job give its place to the job of the next entrant. */
static void leave(struct entrant *e, bool chain)
{
	if (chain)
		gate_open(&e->gate);
	else
		must(rnl_hold_release(&e->hold, 0));
}

/* Loop 0: jobs after barriers; loop 1: chains.  unit/waitq: a free place wakes one waiter. */
TEST(those_that_wait_come_in_in_order, .loops = 2)
{
	enum { NR = 16 };
	static struct entrants all;
	struct entrant *plug = &all.list[NR];
	struct call calls[NR];

	/* There are two places outside of the queue, and two in the queue, which is never full. */
	all.pool = pool_of(1, .max_queued = 2);
	all.came.nr = 0;
	for (int i = 0; i <= NR; i++)
		entrant_of(&all, i, _i);
	/* One job keeps a place all the time. */
	if (_i)
		must(set_time(&plug->first, rnl_clock() + 3600000 * MS));
	must(rnl_submit(all.pool, &plug->first));
	for (int i = 0; i < NR; i++)
		enter(&calls[i], &all.list[i]);
	for (unsigned i = 0; i < NR; i++) {
		ck_eventually(all.came.nr == i + 1);
		/* The other threads sleep again first, because two wakes at a time could merge. */
		for (int j = 0; j < NR; j++)
			ck_eventually(calls[j].returned || thread_state(calls[j].tid) == 'S');
		leave(&all.list[all.came.ids[i]], _i);
		/* It has left the queue: a submit that finds the queue full loses its turn. */
		if (!_i)
			must(rnl_job_wait(&all.list[all.came.ids[i]].first, RNL_FOREVER));
	}
	for (int i = 0; i < NR; i++)
		must(call_end(&calls[i]));
	if (!_i)
		leave(plug, false);
	rnl_pool_destroy(all.pool);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(all.came.ids[i], i);
}

static void chain_of(struct rnl_job *jobs, int nr)
{
	for (int i = 0; i < nr; i++) {
		job_of(&jobs[i], noop_fn, NULL);
		if (i)
			must(rnl_job_set_then(&jobs[i - 1], &jobs[i]));
	}
}

/* Submits short chains until one is refused; one chain runs, and the next one waits. */
TEST(a_long_chain_gets_in_among_short_ones)
{
	enum { NR = 300, LONG = 5 };
	struct rnl_pool *pool = pool_of(1, .max_queued = LONG - 1);
	static struct short_chain { struct rnl_job jobs[2]; struct gate gate; } shorts[NR];
	struct rnl_job chain[LONG];
	struct submitting s = { pool, chain, RNL_FOREVER, 0, false };
	struct call call;
	int nr = 0, ret = 0;

	chain_of(chain, LONG);
	for (; nr < NR; nr++) {
		struct short_chain *it = &shorts[nr];

		it->gate = (struct gate)GATE_INIT;
		gated_chain(&it->jobs[0], &it->jobs[1], &it->gate);
		ret = rnl_submit_wait(pool, &it->jobs[0], 0);
		if (ret)	/* it is the long chain's turn */
			break;
		if (!nr) {
			start_waiting(&call, &s);
		} else {
			gate_open(&shorts[nr - 1].gate);
			gate_await(&it->gate, 1);
		}
	}
	gate_open(&shorts[nr - 1].gate);
	must(call_end(&call));
	ck_assert_int_eq(result_of(&chain[LONG - 1]), 0);
	rnl_pool_destroy(pool);
	ck_assert_msg(nr < NR, "%d short chains got in before the long one", nr);
	ck_assert_int_eq(ret, -ETIMEDOUT);
}

TEST(a_close_ends_all_that_stand_in_line)
{
	enum { NR = 4 };
	static struct entrants all;
	struct call calls[NR];

	all.pool = pool_of(1, .max_queued = 1);
	all.came.nr = 0;
	for (int i = 0; i < NR; i++) {
		entrant_of(&all, i, true);
		enter(&calls[i], &all.list[i]);
	}
	must(rnl_pool_close(all.pool));
	for (int i = 1; i < NR; i++)
		ck_assert_int_eq(call_end(&calls[i]), -ESHUTDOWN);
	must(call_end(&calls[0]));
	leave(&all.list[0], true);
	rnl_pool_destroy(all.pool);
}

TEST(a_full_queue_does_not_stop_submits_to_another_one)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 8);
	struct gate gate = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job held, full[4], after[2];
	struct submitting s = { pool, &after[0], RNL_FOREVER, RNL_KEY_WORKER(0), true };
	struct call call;

	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &held, gated_fn, &gate);
	must(submit_by_key(pool, &held, RNL_KEY_WORKER(0)));
	gate_await(&gate, 1);
	for (int i = 0; i < 4; i++)
		submit_to_worker(pool, 0, &full[i]);
	for (unsigned i = 0; i < 2; i++) {
		job_of(&after[i], noop_fn, NULL);
		must(rnl_job_set_after(&after[i], &barrier));
		must(rnl_job_set_key(&after[i], RNL_KEY_WORKER(i)));
	}
	start_waiting(&call, &s);
	must(rnl_submit(pool, &after[1]));
	gate_open(&gate);
	must(call_end(&call));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(result_of(&after[i]), 0);
	rnl_pool_destroy(pool);
}

/* The submits in the wait queue may need this notice to go on. */
TEST(a_barriers_notice_passes_those_in_line)
{
	struct rnl_pool *pool = pool_of(2, .max_queued = 4);
	struct gate gate = GATE_INIT;
	struct rnl_job pair[2], chain[5], last, notice;
	struct submitting s = { pool, chain, RNL_FOREVER, 0, false };
	struct rnl_barrier barrier;
	struct call call;

	gated_chain(&pair[0], &pair[1], &gate);
	must(rnl_submit(pool, &pair[0]));
	chain_of(chain, 5);
	start_waiting(&call, &s);
	must(rnl_barrier_init(&barrier, pool));
	job_of(&last, NULL, NULL);
	must(rnl_barrier_notify(&barrier, &last));
	ck_assert_int_eq(result_of(&last), 0);
	/* A notice for space waits, too: places are free, but too few for the waiting chain. */
	job_of(&notice, NULL, NULL);
	must(submit_when(pool, &notice, RNL_SPACE));
	ck_assert_int_eq(rnl_job_wait(&notice, 5 * MS), -ETIMEDOUT);
	gate_open(&gate);
	must(call_end(&call));
	ck_assert_int_eq(result_of(&chain[4]), 0);
	ck_assert_int_eq(result_of(&notice), 0);
	rnl_pool_destroy(pool);
}
