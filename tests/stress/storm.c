/* SPDX-License-Identifier: MIT */
/*
 * Storms: jobs of every kind beside cancels, deadlines, resizes and a close.
 * Each job ends once, with the status that its history allows; storm.h looks
 * at that.
 *
 * env: RNL_TEST_SEED repeats the draws; RNL_STORM_SECONDS is how long it storms.
 */
#include "halts.h"
#include "pool.h"
#include "storm.h"

/* ---- submitters ----------------------------------------------------------- */

static void wait_for(struct slot *slot, int64_t timeout_ns)
{
	int ret = rnl_job_wait(&slot->shot->job, timeout_ns);

	if (!ret)
		end_for_good(slot);
	else if (ret != -ETIMEDOUT)
		wrong("a wait returned %d", ret);
}

static bool is_waited_for(uint64_t state)
{
	return phase_of(state) == ACCEPTED && state & MINE;
}

/* Submits what was begun to go together. */
static void flush(struct submitter *s)
{
	struct rnl_job *jobs[NR_MANY];
	uint64_t states[NR_MANY];
	int ret;

	for (unsigned i = 0; i < s->nr_many; i++) {
		jobs[i] = &s->many[i]->shot->job;
		states[i] = s->many[i]->state;
	}
	ret = rnl_submit_many(s->storm->pool, jobs, s->nr_many);
	if (ret > (int)s->nr_many)
		wrong("of %u jobs, %d were accepted", s->nr_many, ret);
	for (int i = 0; i < (int)s->nr_many; i++)
		(void)after_submit(s->many[i], states[i], i < ret ? 0 : ret < 0 ? ret : -EAGAIN);
	s->nr_many = 0;
}

/* Does for a slot what is to be done. */
static void tend(struct submitter *s, struct slot *slot, bool anew)
{
	uint64_t state = slot->state;

	if (is_waited_for(state))
		wait_for(slot, draw(&s->random, 4) ? 0 : 50000);
	if (phase_of(state) == ENDED && !slot->group && !slot->after)
		slot->state = in_phase(state, FREE);
	if (phase_of(state) != FREE || !anew)
		return;
	begin(slot, s->keys, NULL, NULL);
	if (slot->way != MANY) {
		(void)submit_one(slot);
		return;
	}
	s->many[s->nr_many++] = slot;
	if (s->nr_many == NR_MANY)
		flush(s);
}

static struct slot *free_slot(struct submitter *s)
{
	for (unsigned i = 0; i < 8; i++) {
		struct slot *slot = &s->slots[draw(&s->random, NR_SLOTS)];

		if (phase_of(slot->state) == FREE)
			return slot;
	}
	return NULL;
}

/* Submits some jobs of a barrier, then some that come after it. */
static void open_group(struct submitter *s, struct group *g)
{
	unsigned nr_in = 1 + draw(&s->random, IN_GROUP), nr_after = 1 + draw(&s->random, IN_GROUP);
	struct slot *slot;

	if (rnl_barrier_init(&g->barrier, s->storm->pool) ||
	    rnl_barrier_init(&g->tail, s->storm->pool))
		wrong("a barrier could not be made");
	for (; nr_in && (slot = free_slot(s)); nr_in--) {
		begin(slot, s->keys, g, NULL);
		if (submit_one(slot))
			g->in[g->nr_in++] = slot;
	}
	for (; nr_after && (slot = free_slot(s)); nr_after--) {
		begin(slot, s->keys, NULL, g);
		if (submit_one(slot))
			g->after[g->nr_after++] = slot;
	}
}

/* Waits, or just looks; if the barrier is done, so are these, which are its jobs. */
static void wait_for_barrier(struct rnl_barrier *barrier, struct slot *const *slots, unsigned nr,
			     int64_t timeout_ns)
{
	uint64_t since = now_ns();

	if (rnl_barrier_wait(barrier, timeout_ns))
		return;
	check_woken(since, "wait for a barrier");
	for (unsigned i = 0; i < nr; i++) {
		if (is_waited_for(slots[i]->state) && rnl_job_test(&slots[i]->shot->job) != 1)
			wrong("a barrier was done before a job of it");
	}
}

/* Of a barrier all of whose jobs have ended; its result. */
static int check_result(struct rnl_barrier *barrier, struct slot *const *slots, unsigned nr)
{
	int result, first = 0;
	uint64_t since = now_ns();

	if (rnl_barrier_wait(barrier, LONG_NS))
		wrong("all jobs of a barrier have ended, and it has not");
	check_woken(since, "wait for a barrier");
	result = rnl_barrier_result(barrier);
	for (unsigned i = 0; i < nr; i++) {
		if (slots[i]->result < 0 && first != result)
			first = slots[i]->result;
	}
	if (first != result)
		wrong("the result of a barrier is %d, that of a job of it %d", result, first);
	return result;
}

static bool all_ended(struct slot *const *slots, unsigned nr)
{
	bool all = true;

	for (unsigned i = 0; i < nr; i++) {
		if (is_waited_for(slots[i]->state))
			wait_for(slots[i], 0);
		all = all && phase_of(slots[i]->state) == ENDED;
	}
	return all;
}

static void free_all(struct slot **slots, unsigned *nr)
{
	for (; *nr; --*nr) {
		struct slot *slot = slots[*nr - 1];

		slot->group = slot->after = NULL;
		slot->state = in_phase(slot->state, FREE);
	}
}

/* Once all of them have ended: did the one half end as the other half demands? */
static void close_group(struct submitter *s, struct group *g)
{
	int64_t timeout_ns = draw(&s->random, 2) ? 0 : LONG_NS;
	int result;

	if (!g->nr_in && !g->nr_after)
		return;
	if (!draw(&s->random, 8))
		wait_for_barrier(&g->tail, g->after, g->nr_after, timeout_ns);
	else if (!draw(&s->random, 4))
		wait_for_barrier(&g->barrier, g->in, g->nr_in, timeout_ns);
	if (!all_ended(g->in, g->nr_in) || !all_ended(g->after, g->nr_after))
		return;
	(void)check_result(&g->tail, g->after, g->nr_after);
	result = check_result(&g->barrier, g->in, g->nr_in);
	for (unsigned i = 0; i < g->nr_after; i++) {
		struct slot *slot = g->after[i];

		if (result ? slot->runs : slot->result == -ECANCELED && !slot->nr_cancelled)
			wrong("a job after a barrier with result %d has result %d", result,
			      slot->result);
	}
	free_all(g->in, &g->nr_in);
	free_all(g->after, &g->nr_after);
}

static void *submit_all(void *arg)
{
	struct submitter *s = arg;
	struct storm *storm = s->storm;
	double until;
	bool left;

	halts_come();
	while (!storm->stop && !something_wrong) {
		struct group *g = &s->groups[draw(&s->random, NR_GROUPS)];

		tend(s, &s->slots[draw(&s->random, NR_SLOTS)], true);
		if (!draw(&s->random, 32))
			sched_yield();
		if (!draw(&s->random, 16))
			flush(s);
		if (!draw(&s->random, 16) && !g->nr_in && !g->nr_after)
			open_group(s, g);
		else if (!draw(&s->random, 4))
			close_group(s, g);
	}
	flush(s);
	storm->nr_stopped++;
	until = seconds_now() + 1e-9 * (double)LONG_NS;
	do {
		left = false;
		for (unsigned i = 0; i < NR_GROUPS; i++)
			close_group(s, &s->groups[i]);
		for (unsigned i = 0; i < NR_SLOTS; i++) {
			tend(s, &s->slots[i], false);
			left = left || phase_of(s->slots[i].state) != FREE;
		}
		if (seconds_now() > until)
			wrong("jobs have not ended");
		usleep(100);
	} while (left && !something_wrong);
	return NULL;
}

/* ---- the weather ---------------------------------------------------------- */

static void *cancel_all(void *arg)
{
	struct storm *storm = arg;
	uint64_t random = draws_of(storm->seed, 1000);

	halts_come();
	while (!storm->over && !something_wrong) {
		cancel_some(storm, &random);
		if (!draw(&random, 32))
			usleep(draw(&random, 100));
	}
	return NULL;
}

static void *resize_all(void *arg)
{
	struct storm *storm = arg;
	uint64_t random = draws_of(storm->seed, 1001);

	halts_come();
	while (!storm->over && !something_wrong) {
		int ret = rnl_pool_resize(storm->pool, 1 + draw(&random, WORKERS));

		storm->resizes += !ret;
		if (ret && !(ret == -ESHUTDOWN && storm->shut))
			wrong("a resize returned %d", ret);
		usleep(draw(&random, 2000));
	}
	return NULL;
}

static void *reap_all(void *arg)
{
	struct storm *storm = arg;
	uint64_t random = draws_of(storm->seed, 1002);
	struct rnl_job *jobs[16];

	halts_come();
	while (!storm->over && !something_wrong) {
		int ret = rnl_cq_wait(storm->cq, jobs, 1 + draw(&random, 16), MS);

		if (ret < 0 && ret != -ETIMEDOUT)
			wrong("a wait for the completion queue returned %d", ret);
		for (int i = 0; i < ret; i++)
			end_for_good(rnl_container_of(jobs[i], struct shot, job)->slot);
	}
	return NULL;
}

static struct storm *storm_of(uint64_t seed)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct storm *storm = calloc(1, sizeof(*storm));
	uint64_t random = draws_of(seed, 1003);

	ck_assert_ptr_nonnull(storm);
	attr.nr_urgent = 1;
	attr.max_queued = 16u << draw(&random, 6);
	attr.max_in_flight = 1 + draw(&random, 16);
	attr.spin_us = draw(&random, 2) ? -1 : 0;
	attr.time_every = 1 + draw(&random, 4);
	storm->seed = seed;
	storm->pool = pool_with(&attr, 1 + draw(&random, WORKERS));
	must(rnl_cq_create(&storm->cq));
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		struct submitter *s = &storm->submitters[i];

		s->storm = storm;
		s->random = draws_of(seed, i);
		for (unsigned k = 0; k < NR_SLOTS; k++) {
			s->slots[k].storm = storm;
			s->slots[k].random = draws_of(seed, (i + 1) * 10000 + k);
		}
	}
	return storm;
}

static void drain(struct rnl_pool *pool)
{
	uint64_t since = now_ns();

	if (rnl_pool_drain(pool, LONG_NS))
		wrong("a pool did not drain");
	check_woken(since, "drain");
	check_nothing_wrong();
}

/* Everybody has gone. */
static void check_all(struct storm *storm)
{
	struct rnl_pool_stats stats;
	struct rnl_job *job;

	drain(storm->pool);
	stats = figures_of(storm->pool);
	printf("%llu accepted: %llu ran, %llu cancelled, %llu timed out; %llu resizes\n",
	       (unsigned long long)storm->accepted, (unsigned long long)storm->ran,
	       (unsigned long long)storm->cancelled, (unsigned long long)storm->timed_out,
	       (unsigned long long)storm->resizes);
	ck_assert_uint_eq(storm->ended, storm->accepted);
	ck_assert_uint_eq(storm->ran + storm->cancelled + storm->timed_out, storm->ended);
	ck_assert_uint_eq(stats.accepted, storm->accepted);
	ck_assert_uint_eq(stats.done, storm->accepted);
	ck_assert_uint_eq(stats.cancelled, storm->cancelled);
	ck_assert_uint_eq(stats.timed_out, storm->timed_out);
	ck_assert_uint_eq(stats.failed, storm->failed);
	ck_assert_uint_eq(stats.queued, 0);
	ck_assert_uint_eq(stats.in_flight, 0);
	ck_assert_int_eq(rnl_cq_reap(storm->cq, &job, 1), 0);
}

/* Figures are asked for meanwhile: they hold nobody up, and make sense. */
static void look_on(struct rnl_pool *pool, double seconds)
{
	double until = seconds_now() + seconds;
	struct rnl_health health = RNL_HEALTH_INIT;
	static char text[65536];

	do {
		uint64_t done = figures_of(pool).done;

		ck_assert_uint_le(done, figures_of(pool).accepted);
		ck_assert_int_eq(rnl_pool_health(pool, &health), 0);
		ck_assert_uint_le(health.state, RNL_HEALTH_STUCK);
		ck_assert_int_gt(rnl_pool_stats_text(pool, NULL, text, sizeof(text)), 0);
		usleep(1000);
	} while (seconds_now() < until);
}

static void storms(uint64_t seed, double seconds, bool close_midway)
{
	void *(*const others[])(void *) = { cancel_all, resize_all, reap_all };
	pthread_t threads[COUNT(others)];
	struct storm *storm = storm_of(seed);

	for (unsigned i = 0; i < COUNT(others); i++)
		must(pthread_create(&threads[i], NULL, others[i], storm));
	for (unsigned i = 0; i < NR_SUBMITTERS; i++)
		must(pthread_create(&storm->submitters[i].thread, NULL, submit_all,
				    &storm->submitters[i]));
	halts_begin(COUNT(others) + NR_SUBMITTERS, seed);
	look_on(storm->pool, seconds);
	if (close_midway) {
		storm->shut = true;
		must(rnl_pool_close(storm->pool));
		usleep(2000);
	}
	storm->stop = true;
	while (storm->nr_stopped < NR_SUBMITTERS)
		usleep(100);
	if (!something_wrong)
		drain(storm->pool);
	/* Notices that still wait are cancelled by that. */
	storm->shut = true;
	must(rnl_pool_close(storm->pool));
	halts_end();
	for (unsigned i = 0; i < NR_SUBMITTERS; i++)
		pthread_join(storm->submitters[i].thread, NULL);
	check_nothing_wrong();
	storm->over = true;
	for (unsigned i = 0; i < COUNT(others); i++)
		pthread_join(threads[i], NULL);
	check_nothing_wrong();
	check_all(storm);
	rnl_pool_destroy(storm->pool);
	rnl_cq_destroy(storm->cq);
	for (unsigned i = 0; i < NR_SUBMITTERS; i++) {
		for (unsigned k = 0; k < NR_SLOTS; k++)
			free(storm->submitters[i].slots[k].shot);
	}
	free(storm);
}

static double storm_seconds(void)
{
	const char *given = getenv("RNL_STORM_SECONDS");

	return given && atof(given) > 0 ? atof(given) : 2;
}

TEST(in_a_storm_every_job_ends_once_as_its_history_allows, .timeout_s = 120 + storm_seconds() * 2)
{
	uint64_t seed = test_seed();
	unsigned nr = 2 + (unsigned)(storm_seconds() / 5);

	for (unsigned i = 0; i < nr; i++)
		storms(draws_of(seed, i), storm_seconds() / nr, false);
}

TEST(in_a_storm_that_is_closed_midway_it_does_so_too, .timeout_s = 120 + storm_seconds() * 2)
{
	uint64_t seed = test_seed(), random = draws_of(seed, 0);
	double until = seconds_now() + storm_seconds() / 3;

	while (seconds_now() < until)
		storms(draws_of(seed, random), 1e-3 * (1 + draw(&random, 100)), true);
}
