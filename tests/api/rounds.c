/* SPDX-License-Identifier: MIT */
/* Jobs after a barrier and its rounds: when they complete, and which jobs they wait for. */
#include <runnel/memory.h>

#include "cq.h"
#include "host_kernel.h"
#include "record.h"

/* ---- completion ---------------------------------------------------------- */

static void count_done(struct rnl_job *job)
{
	atomic_fetch_add((_Atomic int *)job->user, 1);
}

/* Worker 0 issues the barrier's only job, whose kernel waits at the gate. */
static void hold_kernel(struct rnl_pool *pool, struct rnl_barrier *barrier, struct gate *kernel,
			struct rnl_job *job)
{
	must(rnl_barrier_init(barrier, pool));
	job_in(barrier, job, gated_kernel_fn, kernel);
	must(submit_by_key(pool, job, RNL_KEY_WORKER(0)));
	gate_await(kernel, 1);
}

/* Waits until the key's worker has run the jobs queued there before. */
static void await_worker(struct rnl_pool *pool, uint64_t key)
{
	struct rnl_job job;

	job_of(&job, noop_fn, NULL);
	must(submit_by_key(pool, &job, key));
	ck_assert_int_eq(result_of(&job), 0);
}

enum { ISSUES_NOTHING, CANCELLED, LATE, REFUSED, WAYS };

/* While a gate holds the barrier's kernel, no wait reports a job after the barrier as done. */
TEST(a_job_after_is_done_after_the_barriers_jobs_whether_it_runs_or_not, .loops = WAYS)
{
	static const int expected[WAYS] = { 0, -ECANCELED, -ETIMEDOUT, -ECANCELED };
	struct gate kernel = GATE_INIT, plug = GATE_INIT;
	struct rnl_job before, fails, held, after[3];
	struct rnl_barrier first, second;
	_Atomic int callbacks = 0;
	struct rnl_job *reaped;
	struct rnl_pool *pool;
	struct rnl_cq *cq;

	skip_unless_host();
	pool = pool_of(2);
	cq = cq_of();
	must(rnl_barrier_init(&second, pool));
	hold_kernel(pool, &first, &kernel, &before);
	if (_i == REFUSED) {
		job_in(&first, &fails, result_fn, (void *)(intptr_t)-EPROTO);
		must(submit_by_key(pool, &fails, RNL_KEY_WORKER(1)));
		await_worker(pool, RNL_KEY_WORKER(1));
	}
	job_of(&held, gated_fn, &plug);
	must(submit_by_key(pool, &held, RNL_KEY_WORKER(1)));
	gate_await(&plug, 1);
	for (int i = 0; i < 3; i++) {
		job_in(&second, &after[i], noop_fn, &callbacks);
		must(rnl_job_set_after(&after[i], &first));
		if (_i == LATE)
			must(rnl_job_set_deadline(&after[i], 1));
	}
	must(rnl_job_set_on_done(&after[1], count_done));
	must(rnl_job_set_cq(&after[2], cq));
	for (int i = 0; i < 3; i++) {
		must(submit_by_key(pool, &after[i], RNL_KEY_WORKER(1)));
		if (_i == CANCELLED)
			must(rnl_job_cancel(&after[i]));
	}
	gate_open(&plug);
	/* On CUDA the worker's stream waits for the kernel, and so would await_worker(). */
	if (_i != ISSUES_NOTHING)
		await_worker(pool, RNL_KEY_WORKER(1));
	ck_assert_int_eq(rnl_job_wait(&after[0], MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_barrier_wait(&second, 0), -ETIMEDOUT);
	ck_assert_int_eq(rnl_pool_drain(pool, 0), -ETIMEDOUT);
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, 0), 0);
	ck_assert_int_eq(callbacks, 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&after[0]), expected[_i]);
	must(rnl_barrier_wait(&first, 0));
	ck_assert_int_eq(result_of_barrier(&second), expected[_i]);
	ck_assert_int_eq(callbacks, 1);
	ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER), 1);
	ck_assert_int_eq(after[2].result, expected[_i]);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

static void note_done(struct rnl_job *job)
{
	(void)note_fn(job);
}

TEST(jobs_of_a_key_that_are_held_back_complete_in_their_order)
{
	struct gate kernel = GATE_INIT;
	struct record record = { 0 };
	struct noted after[8];
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	struct rnl_job before;

	skip_unless_host();
	pool = pool_of(2);
	hold_kernel(pool, &barrier, &kernel, &before);
	/* The barrier's job is issued, so jobs after the barrier are queued immediately. */
	must(rnl_barrier_join(&barrier));
	for (int i = 0; i < (int)COUNT(after); i++) {
		noted_of(&after[i], &record, i);
		must(rnl_job_set_on_done(&after[i].job, note_done));
		must(rnl_job_set_deadline(&after[i].job, 0));
		must(rnl_job_set_after(&after[i].job, &barrier));
		must(submit_by_key(pool, &after[i].job, RNL_KEY_WORKER(1)));
	}
	await_worker(pool, RNL_KEY_WORKER(1));
	gate_open(&kernel);
	for (int i = 0; i < (int)COUNT(after); i++)
		ck_assert_int_eq(result_of(&after[i].job), -ETIMEDOUT);
	/* A job's callback comes after its result. */
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < (int)COUNT(after); i++)
		ck_assert_int_eq(record.ids[i], i);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_is_held_back_is_counted_when_it_is_done)
{
	struct gate kernel = GATE_INIT;
	struct rnl_barrier barrier;
	struct rnl_job before, after;
	struct rnl_pool *pool;

	skip_unless_done_on_return();
	pool = pool_of(2);
	hold_kernel(pool, &barrier, &kernel, &before);
	await_worker(pool, RNL_KEY_WORKER(0));
	job_of(&after, noop_fn, NULL);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_job_set_deadline(&after, 1));
	must(submit_by_key(pool, &after, RNL_KEY_WORKER(1)));
	await_worker(pool, RNL_KEY_WORKER(1));
	ck_assert_uint_eq(figures_of(pool).timed_out, 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&after), -ETIMEDOUT);
	ck_assert_uint_eq(figures_of(pool).timed_out, 1);
	rnl_pool_destroy(pool);
}

/* ---- memory that is reused immediately ----------------------------------- */

/* An item: parts that jobs copy to the device and back, and a job after them. */
enum { PARTS = 3, BYTES = 64 };

struct item {
	unsigned char (*to)[BYTES], (*from)[BYTES];	/* pinned */
	void *memory;					/* of the device */
	int number;
	struct rnl_barrier barrier;
	struct part {
		struct rnl_job job;
		struct item *item;
		int index;
	} parts[PARTS];
	struct rnl_job after;
};

static int part_fn(struct rnl_job *job)
{
	struct part *p = rnl_container_of(job, struct part, job);
	unsigned char *memory = p->item->memory;
	int ret;

	memory += p->index * BYTES;
	if (p->index == PARTS - 1 && p->item->number % 8 == 7)
		return -EPROTO;
	ret = rnl_copy(memory, p->item->from[p->index], BYTES);
	return ret ? ret : rnl_copy(p->item->to[p->index], memory, BYTES);
}

static void submit_item(struct rnl_pool *pool, struct rnl_cq *cq, struct item *item, int number)
{
	item->number = number;
	memset(item->to, 0, PARTS * BYTES);
	memset(item->from, number, PARTS * BYTES);
	must(rnl_barrier_init(&item->barrier, pool));
	for (int i = 0; i < PARTS; i++) {
		item->parts[i].item = item;
		item->parts[i].index = i;
		job_in(&item->barrier, &item->parts[i].job, part_fn, NULL);
		must(rnl_submit_wait(pool, &item->parts[i].job, RNL_FOREVER));
	}
	job_of(&item->after, noop_fn, item);
	must(rnl_job_set_after(&item->after, &item->barrier));
	must(rnl_job_set_cq(&item->after, cq));
	must(rnl_submit_wait(pool, &item->after, RNL_FOREVER));
	if (number % 5 == 0)
		(void)rnl_job_cancel(&item->after);
}

TEST(memory_is_free_when_the_job_after_is_reaped, .timeout_s = 120)
{
	enum { ITEMS = 40 };
	const int nr = (int)rounds_of(10000);
	struct rnl_pool *pool = pool_of(4);
	struct rnl_job *reaped[ITEMS];
	static struct item items[ITEMS];
	int submitted = 0, done = 0;
	struct rnl_cq *cq = cq_of();

	for (int i = 0; i < ITEMS; i++) {
		void *pinned;

		must(rnl_memory_get(pool, 0, PARTS * BYTES, &items[i].memory, 0));
		must(rnl_memory_get(pool, RNL_PINNED, (size_t)2 * PARTS * BYTES, &pinned, 0));
		items[i].to = pinned;
		items[i].from = items[i].to + PARTS;
		submit_item(pool, cq, &items[i], submitted++);
	}
	while (done < nr) {
		int n = rnl_cq_reap(cq, reaped, ITEMS, RNL_FOREVER);

		ck_assert_int_gt(n, 0);
		for (int i = 0; i < n; i++) {
			struct item *item = reaped[i]->user;
			int number = item->number;

			done++;
			for (int p = 0; p < PARTS; p++) {
				if (p == PARTS - 1 && number % 8 == 7)
					continue;
				ck_assert_int_eq(rnl_job_wait(&item->parts[p].job, 0), 0);
				ck_assert_bytes(item->to[p], BYTES, (unsigned char)number);
			}
			if (submitted < nr)
				submit_item(pool, cq, item, submitted++);
		}
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (int i = 0; i < ITEMS; i++) {
		rnl_memory_put(pool, items[i].memory);
		rnl_memory_put(pool, items[i].to);
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

/* ---- rounds -------------------------------------------------------------- */

/* With a larger queue a waiting submit first sleeps for some time, and then until it is woken. */
#define SMALL 1024

TEST(a_job_after_waits_for_no_later_job)
{
	struct gate early = GATE_INIT, later = GATE_INIT;
	struct rnl_job before, after, next;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;

	/* On CUDA a job is completed by its worker, which a gate may hold. */
	skip_unless_done_on_return();
	pool = pool_of(3);
	hold_barrier(pool, &barrier, &early, &before);
	job_of(&after, noop_fn, NULL);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_submit(pool, &after));
	submit_in(pool, &barrier, &next, gated_fn, &later);
	gate_await(&later, 1);
	gate_open(&early);
	ck_assert_int_eq(result_of(&after), 0);
	ck_assert_int_eq(rnl_job_wait(&before, 0), 0);
	ck_assert_int_eq(rnl_barrier_wait(&barrier, 0), -ETIMEDOUT);
	gate_open(&later);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

/* A stage of a pipeline, which runs after the stage before. */
struct stage {
	struct rnl_job job;
	_Atomic int *reached;
	int number;
	struct gate *gate;
};

static int stage_fn(struct rnl_job *job)
{
	struct stage *s = rnl_container_of(job, struct stage, job);

	if (s->gate)
		gate_wait(s->gate);
	/* Stages of a pipeline run one after another. */
	return atomic_exchange(s->reached, s->number) == s->number - 1 ? 0 : -EPROTO;
}

static void stage_of(struct stage *s, struct rnl_barrier *barriers, int number,
		     _Atomic int *reached)
{
	*s = (struct stage){ .reached = reached, .number = number };
	job_in(&barriers[number % 2], &s->job, stage_fn, NULL);
	if (number > 1)
		must(rnl_job_set_after(&s->job, &barriers[(number + 1) % 2]));
}

TEST(two_barriers_in_turns_wait_for_no_host, .timeout_s = 60)
{
	enum { STAGES = 100 };
	struct stage stages[STAGES + 1];
	struct rnl_barrier barriers[2];
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool = pool_of(3);
	_Atomic int reached = 0;
	int i, ret = 0;

	for (i = 0; i < 2; i++)
		must(rnl_barrier_init(&barriers[i], pool));
	/* The first stage is held, so the submits reach the limit of rounds under way. */
	for (i = 1; i <= STAGES && !ret; i++) {
		stage_of(&stages[i], barriers, i, &reached);
		stages[i].gate = i == 1 ? &gate : NULL;
		ret = rnl_submit(pool, &stages[i].job);
	}
	ck_assert_int_eq(ret, -EAGAIN);
	ck_assert_int_ge(--i, 14);
	/* A refused submit changes nothing, and a submit that may wait waits for a round. */
	ck_assert_int_eq(rnl_submit_wait(pool, &stages[i].job, 2 * MS), -ETIMEDOUT);
	ck_assert_int_eq(rnl_submit(pool, &stages[i].job), -EAGAIN);
	gate_open(&gate);
	for (; i <= STAGES; i++) {
		stage_of(&stages[i], barriers, i, &reached);
		must(rnl_submit_wait(pool, &stages[i].job, RNL_FOREVER));
	}
	ck_assert_int_eq(result_of(&stages[STAGES].job), 0);
	ck_assert_int_eq(reached, STAGES);
	for (i = 1; i <= STAGES; i++)
		ck_assert_int_eq(stages[i].job.result, 0);
	/* The last stage came after one barrier, and is in the other. */
	must(rnl_barrier_wait(&barriers[1], 0));
	must(rnl_barrier_wait(&barriers[0], RNL_FOREVER));
	rnl_pool_destroy(pool);
}

TEST(a_submit_that_waits_for_a_round_is_woken, .timeout_s = 60)
{
	enum { STAGES = 100 };
	struct stage stages[STAGES + 1];
	struct rnl_barrier barriers[2];
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool = pool_of(2, .max_queued = SMALL);
	_Atomic int reached = 0;
	struct submitting submitting;
	struct call call;
	int i = 0;

	for (int k = 0; k < 2; k++)
		must(rnl_barrier_init(&barriers[k], pool));
	do {
		i++;
		stage_of(&stages[i], barriers, i, &reached);
		stages[i].gate = i == 1 ? &gate : NULL;
	} while (!rnl_submit(pool, &stages[i].job));
	submitting = (struct submitting){ pool, &stages[i].job, RNL_FOREVER, 0, false };
	call_start(&call, submit_waiting, &submitting);
	ck_waits(call.tid);
	gate_open(&gate);
	must(call_end(&call));
	ck_assert_int_eq(result_of(&stages[i].job), 0);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	rnl_pool_destroy(pool);
}

/* Only the end of the first round makes space: the other rounds' kernels are held. */
TEST(a_submit_that_waits_for_a_round_is_woken_by_the_end_of_one, .timeout_s = 60)
{
	enum { MOST = 20 };
	struct rnl_job in[MOST], after[MOST];
	struct gate first = GATE_INIT, others = GATE_INIT;
	struct submitting submitting;
	struct rnl_barrier barrier;
	struct rnl_pool *pool;
	_Atomic int runs = 0;
	struct call call;
	int nr = 0, ret;

	skip_unless_host();
	pool = pool_of(2, .in_flight_ns = UINT64_MAX, .max_queued = SMALL);
	must(rnl_barrier_init(&barrier, pool));
	do {
		job_in(&barrier, &in[nr], gated_kernel_fn, nr ? &others : &first);
		must(submit_by_key(pool, &in[nr], RNL_KEY_WORKER(nr > 0)));
		if (nr < 2)
			gate_await(nr ? &others : &first, 1);
		job_of(&after[nr], count_fn, &runs);
		must(rnl_job_set_after(&after[nr], &barrier));
		ret = submit_by_key(pool, &after[nr], RNL_KEY_WORKER(nr > 0));
		/* Otherwise the job's stream would wait for a later job of the barrier, too. */
		if (nr == 0)
			ck_eventually(runs == 1);
	} while (!ret && ++nr < MOST);
	ck_assert_int_eq(ret, -EAGAIN);
	/* A worker that takes a job makes space as well, so wait until all jobs ran. */
	ck_eventually(runs == nr);
	submitting = (struct submitting){ pool, &after[nr], RNL_FOREVER, 0, false };
	call_start(&call, submit_waiting, &submitting);
	ck_waits(call.tid);
	gate_open(&first);
	must(call_end(&call));
	ck_assert_int_ne(rnl_job_wait(&in[1], 0), 0);
	gate_open(&others);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_int_eq(after[nr].result, 0);
	rnl_pool_destroy(pool);
}

TEST(jobs_after_share_a_round)
{
	enum { NR = 200 };
	struct rnl_pool *pool = pool_of(3);
	struct rnl_barrier barrier;
	struct gate gate = GATE_INIT;
	struct rnl_job before, after[NR];
	_Atomic int runs = 0;

	hold_barrier(pool, &barrier, &gate, &before);
	for (int i = 0; i < NR; i++) {
		job_of(&after[i], count_fn, &runs);
		must(rnl_job_set_after(&after[i], &barrier));
		must(rnl_submit(pool, &after[i]));
	}
	ck_assert_int_eq(runs, 0);
	gate_open(&gate);
	for (int i = 0; i < NR; i++)
		ck_assert_int_eq(result_of(&after[i]), 0);
	ck_assert_int_eq(runs, NR);
	rnl_pool_destroy(pool);
}

/* ---- concurrent threads -------------------------------------------------- */

struct crossing {
	struct rnl_pool *pool;
	struct rnl_barrier *in, *after;
	pthread_barrier_t *both;
	unsigned rounds;
};

/* Submits jobs of one barrier that come after the other; a second thread does the reverse. */
static int cross(void *arg)
{
	enum { AHEAD = 32 };
	struct crossing *c = arg;
	struct rnl_job jobs[AHEAD];

	for (int i = 0; i < AHEAD; i++) {
		job_in(c->in, &jobs[i], noop_fn, NULL);
		must(rnl_job_set_after(&jobs[i], c->after));
	}
	pthread_barrier_wait(c->both);
	for (unsigned i = 0; i < c->rounds; i++) {
		if (i >= AHEAD)
			must(rnl_job_wait(&jobs[i % AHEAD], RNL_FOREVER));
		must(rnl_submit_wait(c->pool, &jobs[i % AHEAD], RNL_FOREVER));
	}
	for (int i = 0; i < AHEAD; i++)
		must(rnl_job_wait(&jobs[i], RNL_FOREVER));
	return 0;
}

static int wait_often(void *arg)
{
	struct crossing *c = arg;

	for (unsigned i = 0; i < c->rounds / 4; i++) {
		int ret = rnl_barrier_wait(c->in, i % 2 ? RNL_FOREVER : 0);

		if (ret && ret != -ETIMEDOUT)
			return ret;
		ret = rnl_barrier_join(c->after);
		if (ret)
			return ret;
	}
	return 0;
}

TEST(two_threads_in_turns_do_not_wait_for_each_other_forever, .timeout_s = 120)
{
	const unsigned rounds = rounds_of(4000);
	struct rnl_pool *pool = pool_of(3);
	struct rnl_barrier barriers[2];
	pthread_barrier_t both;
	struct crossing crossings[2];
	struct call calls[4];

	pthread_barrier_init(&both, NULL, 2);
	for (int i = 0; i < 2; i++)
		must(rnl_barrier_init(&barriers[i], pool));
	for (int i = 0; i < 2; i++) {
		crossings[i] =
			(struct crossing){ pool, &barriers[i], &barriers[!i], &both, rounds };
		call_start(&calls[i], cross, &crossings[i]);
		call_start(&calls[2 + i], wait_often, &crossings[i]);
	}
	for (int i = 0; i < 4; i++)
		must(call_end(&calls[i]));
	for (int i = 0; i < 2; i++)
		ck_assert_int_eq(result_of_barrier(&barriers[i]), 0);
	pthread_barrier_destroy(&both);
	rnl_pool_destroy(pool);
}

TEST(hosts_that_wait_see_the_last_round_end, .timeout_s = 60)
{
	const int rounds = (int)rounds_of(4000);
	struct rnl_pool *pool = pool_of(2, .spin_us = -1);

	for (int i = 0; i < rounds; i++) {
		struct rnl_barrier barrier;
		struct rnl_job before[2], after;

		/* The barrier is on the stack, so an access after the wait is seen. */
		must(rnl_barrier_init(&barrier, pool));
		job_of(&after, noop_fn, NULL);
		must(rnl_job_set_after(&after, &barrier));
		submit_in(pool, &barrier, &before[0], noop_fn, NULL);
		submit_in(pool, &barrier, &before[1], noop_fn, NULL);
		must(rnl_submit(pool, &after));
		if (i % 2)
			must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		must(rnl_job_wait(&after, RNL_FOREVER));
		memset(&barrier, 0xa5, sizeof(barrier));
		ck_assert_bytes((unsigned char *)&barrier, sizeof(barrier), 0xa5);
	}
	rnl_pool_destroy(pool);
}
