/* SPDX-License-Identifier: MIT */
/*
 * Keys keep their order through a thousand resizes, on the host and on the device, and a job that
 * was submitted during a resize does not wait for another resize.
 *
 * Each key has one submitter, so its jobs have one order. Each function adds 1 to its key's
 * count. Some also issue copies: the first reads the key's note on the device, the second
 * writes the job's number there. It must be the note of the job before. All this is plain memory,
 * so ThreadSanitizer checks the order, too.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/more.h>

#include "halts.h"
#include "host_kernel.h"
#include "pool.h"

#define NR_RESIZES rounds_of(1000)
#define MAX_WORKERS 16
#define NR_SUBMITTERS 3
#define NR_KEYS 64
#define WINDOW 128		/* limit of a submitter's jobs in flight */

struct key {
	uint64_t submitted, noting;	/* number of the last job; of the last job with a note */
	uint64_t ran;			/* written by functions */
	uint64_t noted;			/* written on the device */
};

struct item {
	struct rnl_job job;
	struct key *key;		/* NULL: none */
	enum { ON_HOST, BY_COPIES, BY_KERNEL } notes;
	uint64_t number, before, found;
	bool ran;
};

struct submitter {
	pthread_t thread;
	struct test *test;
	uint64_t random, nr;
	unsigned key;
	const char *wrong;
	struct item items[WINDOW];
};

/* Memory that the device copies from and to. */
struct test {
	struct rnl_pool *pool;
	_Atomic bool stop;
	struct key keys[NR_KEYS];
	struct submitter submitters[NR_SUBMITTERS];
};

struct note_args {
	struct item *item;
};

static void take_note_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	struct item *item = ((const struct note_args *)args)->item;

	(void)grid;
	(void)block;
	item->found = item->key->noted;
	item->key->noted = item->number;
}
RNL_HOST_KERNEL(take_note, take_note_host, struct note_args);

static int run(struct rnl_job *job)
{
	struct item *item = rnl_container_of(job, struct item, job);
	const struct note_args args = { item };
	const struct rnl_dim one = { 1, 1, 1 };
	struct key *key = item->key;

	item->ran = true;
	if (!key)
		return 0;
	if (key->ran + 1 != item->number)
		return -EPROTO;
	key->ran = item->number;
	if (item->notes == BY_COPIES) {
		(void)rnl_copy(&item->found, &key->noted, sizeof(key->noted));
		(void)rnl_copy(&key->noted, &item->number, sizeof(key->noted));
	} else if (item->notes == BY_KERNEL) {
		(void)rnl_launch(&take_note, one, one, &args);
	}
	return 0;
}

static int submit(struct submitter *s, struct item *item)
{
	unsigned k = s->key * NR_SUBMITTERS + (unsigned)(s - s->test->submitters);
	struct key *key = k < NR_KEYS && draw(&s->random, 4) ? &s->test->keys[k] : NULL;
	int ret;

	/* Keeps one key for some jobs: if one of them is delayed, others can overtake it. */
	if (!draw(&s->random, 4))
		s->key = draw(&s->random, (NR_KEYS - 1) / NR_SUBMITTERS + 1);
	item->key = key;
	item->ran = false;
	item->found = UINT64_MAX;
	item->notes = draw(&s->random, 4) || !key ? ON_HOST :
		      draw(&s->random, 2) && on_host() ? BY_KERNEL : BY_COPIES;
	if (key) {
		item->number = ++key->submitted;
		item->before = key->noting;
		key->noting = item->notes ? item->number : key->noting;
	}
	do {
		ret = key ? submit_by_key(s->test->pool, &item->job, k) :
			    rnl_submit(s->test->pool, &item->job);
		if (ret == -EAGAIN)
			sched_yield();
	} while (ret == -EAGAIN);
	return ret;
}

static void collect(struct submitter *s, struct item *item)
{
	const double patience = PATIENCE_S, since = seconds_now();

	if (rnl_job_wait(&item->job, (int64_t)(patience * 1e9)))
		s->wrong = "a job was lost";
	else if (seconds_now() - since >= patience)
		s->wrong = "a wait was not woken";
	else if (item->job.result == -EPROTO)
		s->wrong = "a key's functions ran out of order";
	else if (item->job.result || !item->ran)
		s->wrong = "a job did not run";
	else if (item->notes && item->found != item->before)
		s->wrong = "a key's device work was out of order";
}

static void *submit_all(void *arg)
{
	struct submitter *s = arg;
	uint64_t first;

	halts_come();
	for (unsigned i = 0; i < WINDOW; i++)
		rnl_job_init(&s->items[i].job, run);
	for (; !s->test->stop && !s->wrong; s->nr++) {
		struct item *item = &s->items[s->nr % WINDOW];

		if (s->nr >= WINDOW)
			collect(s, item);
		if (!s->wrong && submit(s, item))
			s->wrong = "a submit failed";
		/* Sometimes no jobs are in flight, sometimes many. */
		if (!draw(&s->random, 256))
			usleep(draw(&s->random, 500));
	}
	first = s->nr < WINDOW ? 0 : s->nr - WINDOW;
	for (uint64_t i = first; i < s->nr && !s->wrong; i++)
		collect(s, &s->items[i % WINDOW]);
	return NULL;
}

static void resize_often(struct rnl_pool *pool, uint64_t random, unsigned nr_workers)
{
	for (unsigned i = 0; i < NR_RESIZES; i++) {
		unsigned other = 1 + draw(&random, MAX_WORKERS - 1);

		/* Each resize changes the number of workers. */
		nr_workers = other + (other >= nr_workers);
		must(rnl_pool_resize(pool, nr_workers));
		ck_assert_uint_eq(figures_of(pool).nr_workers, nr_workers);
		if (!draw(&random, 4))
			usleep(draw(&random, 500));
	}
}

static void order_is_kept(int32_t spin_us, uint32_t max_queued)
{
	uint64_t seed = test_seed(), nr = 0;
	struct rnl_pool *pool = pool_of(4, .spin_us = spin_us, .max_queued = max_queued);
	struct test *test;
	void *buf;

	must(rnl_memory_get(pool, RNL_PINNED, sizeof(*test), &buf, 0));
	test = memset(buf, 0, sizeof(*test));
	test->pool = pool;
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		struct submitter *s = &test->submitters[i];

		s->test = test;
		s->random = draws_of(seed, i);
		must(pthread_create(&s->thread, NULL, submit_all, s));
	}
	halts_begin(NR_SUBMITTERS, seed);
	resize_often(pool, draws_of(seed, NR_SUBMITTERS), 4);
	halts_end();
	test->stop = true;
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		must(pthread_join(test->submitters[i].thread, NULL));
		nr += test->submitters[i].nr;
	}
	for (unsigned i = 0; i < NR_SUBMITTERS; i++)
		ck_assert_msg(!test->submitters[i].wrong, "%s", test->submitters[i].wrong);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	for (unsigned k = 0; k < NR_KEYS; k++) {
		ck_assert_uint_eq(test->keys[k].ran, test->keys[k].submitted);
		ck_assert_uint_eq(test->keys[k].noted, test->keys[k].noting);
	}
	ck_assert_uint_eq(figures_of(pool).accepted, nr);
	ck_assert_uint_eq(figures_of(pool).done, nr);
	printf("%llu jobs through %u resizes\n", (unsigned long long)nr, NR_RESIZES);
	rnl_memory_put(pool, buf);
	rnl_pool_destroy(pool);
}

/* _i: queues are full, and workers park immediately. */
TEST(keys_keep_their_order_through_a_thousand_resizes, .timeout_s = 120, .loops = 2)
{
	order_is_kept(_i ? -1 : 0, _i ? 64 : 0);
}

/* ---- no later submit wakes a worker -------------------------------------------- */

#define BURST 64

/*
 * Submits some jobs, then waits for them. The resizer halts the thread during a submit. The halt
 * lasts until the resize is done, unless the resize waits for the submit, and until the pool is
 * idle. The halted submit is the burst's last one, so no later submit wakes a worker.
 */
struct lone {
	pthread_t thread;
	struct rnl_pool *pool;
	struct rnl_barrier done;	/* all of its jobs are done */
	uint64_t random;
	_Atomic bool stop, halted, resizes;
	_Atomic unsigned begun, ended;	/* bursts */
	const char *_Atomic wrong;
	struct rnl_job jobs[BURST];
};

static struct lone lone;

static void note_halt(void)
{
	const struct timespec ts = { .tv_nsec = 100000 };

	lone.halted = true;
	for (int i = 0; i < 30 && lone.resizes; i++)
		nanosleep(&ts, NULL);
	nanosleep(&ts, NULL);
}

/* Keeps workers busy: most submits wake no worker, and are halted before the critical part. */
static int work_fn(struct rnl_job *job)
{
	(void)job;
	for (unsigned volatile i = 0; i < 2000; i++)
		;
	return 0;
}

static int submit_in_a_way(struct rnl_job *job, unsigned way)
{
	switch (way) {
	case 0:
		return submit_by_key(lone.pool, job, lone.begun);
	case 1:
		return rnl_submit_many(lone.pool, &job, 1) == 1 ? 0 : -EIO;
	case 2:
		return submit_when(lone.pool, job, RNL_SPACE);
	case 3:
		return rnl_job_set_after(job, &lone.done) ? -EIO : rnl_submit(lone.pool, job);
	default:
		return rnl_submit(lone.pool, job);
	}
}

static void *submit_bursts(void *arg)
{
	for (; !lone.stop && !lone.wrong; lone.ended++) {
		unsigned nr = 0, way = draw(&lone.random, 5);

		lone.halted = false;
		lone.begun++;
		for (; nr < BURST && !lone.halted; nr++) {
			if (rnl_job_init(&lone.jobs[nr], work_fn) ||
			    submit_in_a_way(&lone.jobs[nr], way))
				lone.wrong = "a submit failed";
		}
		for (unsigned i = 0; i < nr && !lone.wrong; i++) {
			if (rnl_job_wait(&lone.jobs[i], patience_ns()))
				lone.wrong = "a job submitted during a resize waits for another resize";
			else if (lone.jobs[i].result)
				lone.wrong = "a job failed";
		}
	}
	return arg;
}

TEST(a_job_submitted_during_a_resize_waits_for_no_other_resize, .timeout_s = 120)
{
	uint64_t seed = test_seed(), random = draws_of(seed, 1);
	unsigned nr_workers = 4, begun;

	lone.pool = pool_of(nr_workers, .spin_us = -1);
	lone.random = draws_of(seed, 0);
	must(rnl_barrier_init(&lone.done, lone.pool));
	halts_init();
	halts.hook = note_halt;
	must(pthread_create(&lone.thread, NULL, submit_bursts, NULL));
	for (unsigned i = 0; i < 4 * NR_RESIZES && !lone.wrong;) {
		begun = lone.begun;
		spin_until(lone.begun != begun || lone.wrong);
		lone.resizes = true;
		halts_one(lone.thread, draw(&random, 5000));
		for (unsigned nr = 1 + draw(&random, 3); nr; nr--, i++) {
			unsigned other = 1 + draw(&random, MAX_WORKERS - 1);

			nr_workers = other + (other >= nr_workers);
			must(rnl_pool_resize(lone.pool, nr_workers));
		}
		lone.resizes = false;
		/* All jobs of the burst must end without another resize. */
		while (lone.ended == begun && !lone.wrong)
			usleep(10);
	}
	lone.stop = true;
	must(pthread_join(lone.thread, NULL));
	ck_assert_msg(!lone.wrong, "%s", lone.wrong);
	rnl_pool_destroy(lone.pool);
}
