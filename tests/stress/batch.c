/* SPDX-License-Identifier: MIT */
/*
 * Producers send requests of any size; they cancel some, delay some, and never commit some. Each
 * committed request completes once, by the means that it asked for, with the right output.
 *
 * env: RNL_TEST_SEED repeats the draws; RNL_STRESS_SECONDS sets the duration.
 */
#include <runnel/batch.h>

#include "answering.h"
#include "seed.h"

#define NR_PRODUCERS 4
#define NR_EACH 24		/* requests of a producer */
#define WORKERS 3
#define ROUND_MS 60		/* a batcher's approximate lifetime */

enum means { WAIT, CALL, QUEUE, BARRIER, NR_MEANS };
enum stage { FREE, RESERVED, COMMITTED, ENDED };

struct item {
	struct rnl_request request;
	struct producer *producer;
	enum means means;
	enum stage stage;
	uint64_t seed;
	_Atomic unsigned nr_ends;	/* callbacks since this commit */
};

struct producer {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
	struct kind *kind;
	struct rnl_cq *cq;
	struct rnl_barrier barrier;
	uint64_t random, number, nr_sent;
	const char *wrong;		/* the first error; NULL: none */
	_Atomic bool *over;
	pthread_t thread;
	struct item items[NR_EACH];
};

static _Atomic uint64_t nr_committed, nr_done, nr_cancelled;

static void say(struct producer *p, const char *what)
{
	if (!p->wrong)
		p->wrong = what;
}

/* Makes a batcher, whose kernel may be resident: that is answering.h's then. */
static struct rnl_batcher *some_batcher(struct rnl_pool *pool, struct kind *kind)
{
	static struct answering zero;
	struct rnl_batcher *batcher = NULL;

	if (!(kind->attr.flags & RNL_BATCHER_RESIDENT))
		return batcher_of(pool, kind);
	kind->attr.kernel = &answering;
	kind->attr.arg = &zero;
	must(rnl_batcher_create(&batcher, pool, &kind->attr));
	return batcher;
}

/* ---- an item ------------------------------------------------------------- */

static void verify(struct item *item)
{
	struct producer *p = item->producer;
	struct rnl_request *request = &item->request;

	if (rnl_job_wait(&request->job, 0))
		say(p, "an end, and not done");
	if (request->job.result)
		say(p, "a result that is none");
	if (wrong_byte(request, item->seed, p->kind->attr.out_bytes) >= 0)
		say(p, "an output of another, or none");
	if (rnl_request_release(request))
		say(p, "not released");
	item->stage = FREE;
	nr_done++;
}

/* Runs on a worker, so the producer checks the request later. */
static void on_done(struct rnl_job *job)
{
	rnl_container_of(job, struct item, request.job)->nr_ends++;
}

static void set_means(struct item *item, enum means means)
{
	struct rnl_job *job = &item->request.job;
	struct producer *p = item->producer;

	(void)rnl_job_init(&item->request.job, NULL);
	item->means = means;
	item->nr_ends = 0;
	if (means == CALL && rnl_job_set_on_done(job, on_done))
		say(p, "no callback");
	if (means == QUEUE && rnl_job_set_cq(job, p->cq))
		say(p, "no queue");
	if (means == BARRIER && rnl_barrier_add(&p->barrier, job))
		say(p, "no barrier");
}

static void reserve_item(struct producer *p, struct item *item)
{
	const size_t most = p->kind->attr.in_bytes;
	const size_t bytes = p->kind->attr.flags & RNL_BATCHER_VARIABLE ?
			     1 + draw(&p->random, (unsigned)most) : most;
	int ret;

	set_means(item, draw(&p->random, NR_MEANS));
	ret = rnl_batcher_reserve(p->batcher, &item->request, bytes, draw(&p->random, 32) ? 0 : MS);
	if (ret == -EAGAIN || ret == -ETIMEDOUT)
		return;
	if (ret) {
		say(p, "not reserved");
		return;
	}
	item->seed = p->number << 32 | p->nr_sent++;
	request_fill(&item->request, item->seed);
	item->stage = RESERVED;
}

static void commit_item(struct producer *p, struct item *item)
{
	if (!draw(&p->random, 10)) {
		if (rnl_request_release(&item->request))
			say(p, "not cancelled");
		item->stage = FREE;
		nr_cancelled++;
		return;
	}
	item->stage = COMMITTED;
	if (rnl_request_commit(&item->request))
		say(p, "not committed");
	nr_committed++;
}

/* ---- completions ---------------------------------------------------------------- */

static void reap(struct producer *p)
{
	struct rnl_job *jobs[NR_EACH];
	int nr = rnl_cq_reap(p->cq, jobs, NR_EACH, 0);

	if (nr < 0)
		say(p, "not reaped");
	for (int i = 0; i < nr; i++) {
		struct item *item = rnl_container_of(jobs[i], struct item, request.job);

		if (item->means != QUEUE || item->stage != COMMITTED) {
			say(p, "reaped what was not committed for that");
			return;
		}
		verify(item);
	}
}

static void look_at(struct producer *p, struct item *item, bool wait)
{
	if (item->means == QUEUE) {
		reap(p);
		return;
	}
	if (item->means == WAIT && wait && rnl_job_wait(&item->request.job, RNL_FOREVER))
		say(p, "not waited for");
	if (item->means == BARRIER && wait && rnl_barrier_wait(&p->barrier, RNL_FOREVER))
		say(p, "no barrier to wait for");
	if (item->means == CALL) {
		if (item->nr_ends > 1)
			say(p, "called twice");
		if (!item->nr_ends)
			return;
	} else if (rnl_job_wait(&item->request.job, 0)) {
		return;
	}
	verify(item);
}

/* ---- a producer ---------------------------------------------------------- */

static void *produce(void *arg)
{
	struct producer *p = arg;
	unsigned left = NR_EACH;

	while (!*p->over && !p->wrong) {
		struct item *item = &p->items[draw(&p->random, NR_EACH)];

		/* Other reserved requests are committed later; the last one never is. */
		if (item->stage == FREE)
			reserve_item(p, item);
		if (item->stage == RESERVED && item != &p->items[NR_EACH - 1] &&
		    draw(&p->random, 4))
			commit_item(p, item);
		else if (item->stage == COMMITTED)
			look_at(p, item, draw(&p->random, 2));
		if (!draw(&p->random, 64))
			sched_yield();
	}
	/* Waits until all committed requests have ended. */
	while (left && !p->wrong) {
		left = 0;
		for (unsigned i = 0; i < NR_EACH; i++) {
			if (p->items[i].stage == COMMITTED) {
				look_at(p, &p->items[i], true);
				left++;
			}
		}
	}
	return NULL;
}

static struct kind draw_kind(uint64_t *random)
{
	static const size_t sizes[] = { 1, 4, 60, 64, 500, 4096 };
	const bool variable = (on_host() || test_fake()) && draw(random, 2);
	const uint32_t copy = draw(random, 2) ? RNL_BATCHER_ALWAYS_COPY : 0;
	const uint32_t resident = (on_host() || test_fake()) && draw(random, 2) ?
				  RNL_BATCHER_RESIDENT | RNL_BATCHER_SHARED : 0;
	struct kind kind = kind_of(copy | resident | (variable ? RNL_BATCHER_VARIABLE : 0),
				   sizes[draw(random, 6)],
				   draw(random, 5) ? sizes[draw(random, 6)] : 0);

	kind.attr.max_batch = 1 + draw(random, draw(random, 2) ? 64 : 5);
	kind.attr.max_in_flight = 1 + draw(random, 6);
	kind.attr.slab_bytes = kind.attr.in_bytes * (1 + draw(random, 40));
	kind.attr.nr_slabs = 1 + draw(random, 6);
	/* One slab for each request that is never committed, plus one. */
	kind.attr.max_slabs = kind.attr.nr_slabs + NR_PRODUCERS + 1;
	return kind;
}

static void round_of(struct rnl_pool *pool, uint64_t seed, uint64_t *random)
{
	static struct producer producers[NR_PRODUCERS];
	const unsigned lasts_ms = (unsigned)(ROUND_MS * test_scale());
	struct kind kind = draw_kind(random);
	struct rnl_batcher *batcher = some_batcher(pool, &kind);
	const uint64_t executed = answering_nr() - nr_committed;
	_Atomic bool over = false;

	for (unsigned i = 0; i < NR_PRODUCERS; i++) {
		struct producer *p = &producers[i];

		*p = (struct producer){ .pool = pool, .batcher = batcher, .kind = &kind,
					.number = i, .random = draws_of(seed ^ *random, i),
					.over = &over };
		must(rnl_cq_create(&p->cq));
		must(rnl_barrier_init(&p->barrier, pool));
		for (unsigned k = 0; k < NR_EACH; k++)
			p->items[k].producer = p;
		must(pthread_create(&p->thread, NULL, produce, p));
	}
	usleep(1000 * (1 + draw(random, lasts_ms)));
	over = true;
	for (unsigned i = 0; i < NR_PRODUCERS; i++) {
		struct producer *p = &producers[i];

		pthread_join(p->thread, NULL);
		ck_assert_msg(!p->wrong, "producer %u: %s", i, p->wrong);
	}
	rnl_batcher_destroy(batcher);
	/* All callbacks have returned, so a second call would have been counted. */
	for (unsigned i = 0; i < NR_PRODUCERS; i++) {
		for (unsigned k = 0; k < NR_EACH; k++)
			ck_assert_uint_le(producers[i].items[k].nr_ends, 1);
		rnl_cq_destroy(producers[i].cq);
	}
	ck_assert_uint_eq(nr_committed, nr_done);
	if (kind.attr.kernel)
		ck_assert_uint_eq(answering_nr() - nr_committed, executed);
}

TEST(every_request_ends_once_and_right, .timeout_s = 30 + stress_seconds(3))
{
	uint64_t seed = test_seed(), random = draws_of(seed, 99);
	const double until = seconds_now() + stress_seconds(3);
	struct rnl_pool *pool = pool_of(WORKERS);
	unsigned nr_rounds = 0;

	while (seconds_now() < until) {
		round_of(pool, seed, &random);
		nr_rounds++;
	}
	printf("%u batchers, %llu requests done, %llu cancelled\n", nr_rounds,
	       (unsigned long long)nr_done, (unsigned long long)nr_cancelled);
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	rnl_pool_destroy(pool);
}

/* ---- two concurrent commits --------------------------------------------------- */

#define PAIR 2
#define NR_LONE 4000

struct lone {
	struct rnl_batcher *batcher;
	_Atomic unsigned *nr_there;	/* of all rounds */
	uint64_t random;
	int wrong;
	pthread_t thread;
};

/* Commits one request at about the time when the other thread commits one; both wait. */
static void *send_lone(void *arg)
{
	struct lone *l = arg;
	const unsigned nr = (unsigned)(NR_LONE / test_scale());
	struct rnl_request request;

	(void)rnl_job_init(&request.job, NULL);
	for (unsigned i = 1; i <= nr && !l->wrong; i++) {
		l->wrong = rnl_batcher_reserve(l->batcher, &request, 64, 0);
		++*l->nr_there;
		while (*l->nr_there < PAIR * i)
			sched_yield();
		for (volatile unsigned k = draw(&l->random, 3000); k; k--)
			;
		if (!l->wrong)
			l->wrong = rnl_request_commit(&request);
		if (!l->wrong)
			l->wrong = rnl_job_wait(&request.job, patience_ns());
		if (!l->wrong)
			l->wrong = rnl_request_release(&request);
	}
	/* The other thread must not wait for this one any more. */
	*l->nr_there += PAIR * nr;
	return NULL;
}

static void send_pairs(struct rnl_pool *pool, uint64_t seed, uint32_t flags)
{
	struct kind kind = kind_of(flags, 64, 64);
	struct lone pair[PAIR];

	for (kind.attr.max_in_flight = 1; kind.attr.max_in_flight <= 4; kind.attr.max_in_flight++) {
		struct rnl_batcher *batcher = some_batcher(pool, &kind);
		_Atomic unsigned nr_there = 0;

		for (unsigned i = 0; i < PAIR; i++) {
			pair[i] = (struct lone){ .batcher = batcher, .nr_there = &nr_there,
						 .random = draws_of(seed, i) };
			must(pthread_create(&pair[i].thread, NULL, send_lone, &pair[i]));
		}
		for (unsigned i = 0; i < PAIR; i++) {
			pthread_join(pair[i].thread, NULL);
			ck_assert_int_eq(pair[i].wrong, 0);
		}
		rnl_batcher_destroy(batcher);
	}
}

TEST(no_commit_goes_unheard, .timeout_s = 30 + stress_seconds(3))
{
	struct rnl_pool *pool = pool_of(WORKERS);

	send_pairs(pool, test_seed(), 0);
	rnl_pool_destroy(pool);
}

TEST(no_lone_request_is_lost_or_executed_twice, .timeout_s = 30 + stress_seconds(3))
{
	const unsigned executed = answering_nr(), nr = 4 * PAIR * (unsigned)(NR_LONE / test_scale());
	struct rnl_pool *pool;

	skip_unless_kernels();
	pool = pool_of(WORKERS);
	send_pairs(pool, test_seed(), RNL_BATCHER_RESIDENT | RNL_BATCHER_SHARED);
	ck_assert_uint_eq(answering_nr() - executed, nr);
	rnl_pool_destroy(pool);
}
