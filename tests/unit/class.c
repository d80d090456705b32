/* SPDX-License-Identifier: MIT */
/*
 * Which class is next, in made-up time: shares, floors, limits and rates are exact.
 *
 * DESIGN
 *	A model of a device: some workers, each with one job.  While n are busy, each job progresses
 *	at 1/n; or the jobs run one at a time; or each progresses as if alone, and uses 1/n of the device.
 *	As on a GPU, only the ends of jobs are seen.
 */
#include <math.h>

#include "class/class.h"
#include "class/share_clock.h"
#include "seed.h"
#include "suite.h"
#include "sys/clock.h"
#include "sys/sizes.h"

enum { MOST = 16, WORKERS_MOST = 16 };

/* A class of the model. */
struct client {
	struct rnl_class class;
	uint64_t job_ns;		/* of each of its jobs */
	uint64_t used_ns;
	uint64_t nr;
	bool sleeps;			/* has no jobs now */
	int fn;				/* its address names the function */
};

enum how { SHARED, SERIAL, CONCURRENT };

struct work {
	struct client *client;		/* NULL: the worker has no job */
	uint64_t left_ns;
	uint64_t began;			/* the device's clock */
	unsigned turn;			/* jobs that were started before */
	bool clocked;
	uint16_t charged;
};

struct model {
	struct client clients[MOST];
	unsigned nr_clients, nr_workers;
	struct work works[WORKERS_MOST];
	struct rnl__share_clock clock;
	enum how how;
	unsigned turn;
	uint64_t now, idle_ns, random;
	bool varies;			/* jobs take up to twice as long */
	bool knows;			/* how: the device need not be learned */
	double worst_lag;		/* the largest difference in weighted time, / the bound */
};

static struct model model;

static void add_client(uint64_t job_ns, const struct rnl_class_attr *attr)
{
	struct client *c = &model.clients[model.nr_clients++];

	rnl__class_begin(&c->class, attr);
	c->job_ns = job_ns;
}

#define add(job_ns, ...) \
	add_client(job_ns, &(struct rnl_class_attr){ .size = sizeof(struct rnl_class_attr), \
						     ##__VA_ARGS__ })

static void begin_model(unsigned nr_workers)
{
	memset(&model, 0, sizeof(model));
	model.nr_workers = nr_workers;
	model.now = 1000000000;
	model.random = 1;
}

/* A class had no job, or was at a limit. */
static void wake(struct client *c)
{
	uint64_t least = 0;
	bool any = false;

	for (unsigned i = 0; i < model.nr_clients; i++) {
		struct client *other = &model.clients[i];

		if (other != c && !other->sleeps && other->class.tier == c->class.tier)
			rnl__class_least(&other->class, &least, &any);
	}
	if (any)
		rnl__class_wakes(&c->class, least);
}

/* Gives a job to a worker; returns false if no class may start one. */
static bool start(struct work *work, uint64_t *at)
{
	struct rnl__class_choice best = { 0 };
	struct rnl__class_start counted;
	struct client *c;

	for (unsigned i = 0; i < model.nr_clients; i++)
		if (!model.clients[i].sleeps)
			rnl__class_compare(&model.clients[i].class, model.clients[i].class.tier,
					   model.now, &best, at);
	if (!best.class)
		return false;
	c = rnl_container_of(best.class, struct client, class);
	if (c->class.behind)
		wake(c);
	c->class.behind = false;
	ck_assert(rnl__class_start(&c->class, model.now, false, &counted));
	work->client = c;
	work->charged = rnl__class_charge(&c->class, &c->fn, model.now, 1);
	if (!work->clocked)
		work->began = rnl__share_clock_change(&model.clock, 1, model.now);
	work->clocked = true;
	work->turn = model.turn++;
	work->left_ns = model.varies ? 1 + c->job_ns * draw(&model.random, 2000) / 1000 : c->job_ns;
	c->nr++;
	return true;
}

/* Returns the weighted time of a client's largest job. */
static double largest_of(const struct client *c)
{
	return (double)c->job_ns * (model.varies ? 2 : 1) / c->class.weight;
}

/* The bound of fair queueing: the weighted time that two busy classes got, at each moment. */
static void note_lag(void)
{
	for (unsigned i = 0; i < model.nr_clients; i++) {
		for (unsigned k = 0; k < i; k++) {
			const struct client *a = &model.clients[i], *b = &model.clients[k];
			const double lag = fabs((double)a->used_ns / a->class.weight -
						(double)b->used_ns / b->class.weight);
			const double most = fmax(largest_of(a), largest_of(b));
			/* A virtual time has 256 steps a ns; a job's charge is rounded, and its correction. */
			const double rounded = 2 * (double)(a->nr + b->nr) / 256;

			model.worst_lag = fmax(model.worst_lag, (lag - rounded) / (2 * most * model.nr_workers));
		}
	}
}

/* Returns the job that ends next; *@nr: how many are under way. */
static struct work *next_end(unsigned *nr)
{
	struct work *first = NULL;

	*nr = 0;
	for (unsigned i = 0; i < model.nr_workers; i++) {
		struct work *work = &model.works[i];

		if (!work->client)
			continue;
		++*nr;
		if (!first || (model.how == SERIAL ? work->turn < first->turn :
							 work->left_ns < first->left_ns))
			first = work;
	}
	return first;
}

/* Goes on until the next job ends, or to @at. */
static void advance(uint64_t at)
{
	unsigned nr, slower;
	struct work *first = next_end(&nr);
	uint64_t ns;

	if (!first) {
		ck_assert_uint_ne(at, RNL__NEVER);
		model.idle_ns += at - model.now;
		model.now = at;
		return;
	}
	slower = model.how == SHARED ? nr : 1;
	ns = first->left_ns;
	if (at != RNL__NEVER && model.now + ns * slower > at)
		ns = (at - model.now) / slower + 1;
	model.now += ns * slower;
	for (unsigned i = 0; i < model.nr_workers; i++) {
		struct work *work = &model.works[i];

		if (!work->client || (model.how == SERIAL && work != first))
			continue;
		work->client->used_ns += model.how == CONCURRENT ? ns / nr : ns;
		work->left_ns -= rnl__smaller(ns, work->left_ns);
	}
}

static void end_works(void)
{
	for (unsigned i = 0; i < model.nr_workers; i++) {
		struct work *work = &model.works[i];
		struct client *c = work->client;
		uint64_t at, ns, serial;

		if (!c || work->left_ns)
			continue;
		at = rnl__share_clock_read(&model.clock, model.now);
		serial = rnl__share_clock_end(&model.clock, model.now);
		ns = rnl__share_clock_since(at, work->began);
		rnl__cost_learn(&c->class.costs, &model.clock, &c->fn, serial, ns, 0);
		if (model.knows ? model.how == SERIAL : rnl__cost_is_serial(&model.clock))
			ns = serial;
		rnl__class_end(&c->class, &c->fn, work->charged, ns, true, model.now, 1);
		work->began = at;
		work->client = NULL;
	}
}

/* Workers that got no job are idle. */
static void note_idle(void)
{
	for (unsigned i = 0; i < model.nr_workers; i++) {
		struct work *work = &model.works[i];

		if (work->client || !work->clocked)
			continue;
		work->clocked = false;
		(void)rnl__share_clock_change(&model.clock, -1, model.now);
	}
}

static void run_until(uint64_t end)
{
	while (model.now < end) {
		uint64_t at = RNL__NEVER;

		for (unsigned i = 0; i < model.nr_workers; i++)
			if (!model.works[i].client && !start(&model.works[i], &at))
				break;
		note_idle();
		advance(at);
		note_lag();
		end_works();
	}
}

static double share_of(unsigned i)
{
	uint64_t sum = 0;

	for (unsigned k = 0; k < model.nr_clients; k++)
		sum += model.clients[k].used_ns;
	return 100.0 * (double)model.clients[i].used_ns / (double)sum;
}

static void forget_use(void)
{
	for (unsigned i = 0; i < model.nr_clients; i++)
		model.clients[i].used_ns = model.clients[i].nr = 0;
}

/* ---- shares -------------------------------------------------------------- */

TEST(two_classes_of_3_to_1_get_75_percent_whatever_their_jobs_take, .loops = 72)
{
	static const uint64_t us[3][2] = { { 500, 510 }, { 50, 500 }, { 2000, 50 } };
	static const unsigned workers[] = { 1, 2, 3, 4, 5, 6, 7, 8 };
	const uint64_t *jobs = us[_i % 3];

	begin_model(workers[_i / 3 % 8]);
	model.how = (enum how)(_i / 24);
	add(jobs[0] * 1000, .weight = 3);
	add(jobs[1] * 1000, .weight = 1);
	/* The device learns whether it runs one job at a time. */
	run_until(model.now + 1000000000);
	for (unsigned second = 0; second < 5; second++) {
		forget_use();
		run_until(model.now + 1000000000);
		ck_assert_msg(share_of(0) >= 74 && share_of(0) <= 76, "%.2f %% of second %u, %u workers, %d",
			      share_of(0), second, model.nr_workers, model.how);
	}
	ck_assert_uint_eq(model.idle_ns, 0);
}

TEST(three_of_4_to_2_to_1_and_sixteen_equal_ones)
{
	double squares = 0, sum = 0;

	begin_model(6);
	add(300000, .weight = 4);
	add(700000, .weight = 2);
	add(50000, .weight = 1);
	run_until(model.now + 5000000000);
	for (unsigned i = 0; i < 3; i++)
		ck_assert_msg(share_of(i) > 100.0 * (4 >> i) / 7 - 1 && share_of(i) < 100.0 * (4 >> i) / 7 + 1,
			      "%u: %.2f", i, share_of(i));
	begin_model(6);
	for (unsigned i = 0; i < 16; i++)
		add(20000 + 100000 * i);
	run_until(model.now + 5000000000);
	for (unsigned i = 0; i < 16; i++) {
		sum += share_of(i);
		squares += share_of(i) * share_of(i);
	}
	/* Jain's index */
	ck_assert_double_ge(sum * sum / (16 * squares), 0.99);
}

/* Without floors, which go before the order; and each job is charged what it used. */
TEST(two_busy_classes_never_differ_by_more_than_twice_the_largest_jobs, .loops = 48)
{
	begin_model((unsigned)_i % 8 + 1);
	model.how = (enum how)(_i / 8 % 3);
	model.varies = _i / 24;
	model.knows = true;
	model.random = draws_of(test_seed(), (uint64_t)_i);
	/* From 20 us to 20 ms, as many in each power of ten. */
	for (unsigned i = 0; i < MOST; i++)
		add((uint64_t)(20000 * pow(1000, draw(&model.random, 1001) / 1000.0)),
		    .weight = 1 + draw(&model.random, 8), .floor_permille = RNL_CLASS_NO_FLOOR);
	run_until(model.now + 1000000000);
	ck_assert_double_le(model.worst_lag, 1);
}

TEST(a_class_that_had_no_jobs_is_owed_nothing)
{
	begin_model(4);
	add(200000);
	add(200000);
	model.clients[1].sleeps = true;
	run_until(model.now + 2000000000);
	forget_use();
	model.clients[1].sleeps = false;
	wake(&model.clients[1]);
	run_until(model.now + 100000000);
	ck_assert_double_ge(share_of(0), 48);
	ck_assert_double_le(share_of(0), 52);
}

TEST(a_long_job_of_an_unknown_function_costs_its_class_alone)
{
	begin_model(1);
	add(1000000);
	add(1000000);
	run_until(model.now + 100000000);
	/* A hundred times as long as the estimate says. */
	model.clients[1].job_ns = 100000000;
	run_until(model.now + 110000000);
	model.clients[1].job_ns = 1000000;
	run_until(model.now + 500000000);
	ck_assert_double_ge(share_of(0), 48);
}

/* ---- priorities and floors ----------------------------------------------- */

TEST(a_smaller_priority_goes_first_and_a_floor_goes_before)
{
	begin_model(2);
	add(100000, .priority = -1);
	add(100000, .priority = 3);
	add(100000, .priority = 3, .floor_permille = 100);
	add(100000, .priority = 2, .floor_permille = RNL_CLASS_NO_FLOOR);
	run_until(model.now + 2000000000);
	ck_assert_msg(share_of(1) > 0.9 && share_of(1) < 1.1, "%.2f", share_of(1));
	ck_assert_msg(share_of(2) > 9.8 && share_of(2) < 10.2, "%.2f", share_of(2));
	ck_assert_uint_eq(model.clients[3].nr, 0);
	model.clients[0].sleeps = true;
	forget_use();
	run_until(model.now + 1000000000);
	ck_assert_double_ge(share_of(3), 88);
}

TEST(a_floor_holds_after_a_class_had_the_device_alone)
{
	begin_model(2);
	add(100000, .priority = -1);
	add(100000, .priority = 0, .floor_permille = 100);
	model.clients[0].sleeps = true;
	run_until(model.now + 20000000000);
	model.clients[0].sleeps = false;
	forget_use();
	run_until(model.now + 1000000000);
	ck_assert_msg(share_of(1) > 9.8 && share_of(1) < 10.3, "%.2f", share_of(1));
}

TEST(a_class_pays_for_its_own_wrong_estimate)
{
	begin_model(8);
	add(1000000);
	add(1000000);
	model.clients[1].sleeps = true;
	run_until(model.now + 100000000);
	/* The mean of one outlier is charged to the jobs that start until it falls. */
	rnl__cost_note(&model.clients[0].class.costs, &model.clients[0].fn, 400000000);
	run_until(model.now + 3000000);
	model.clients[1].sleeps = false;
	wake(&model.clients[1]);
	forget_use();
	run_until(model.now + 1000000000);
	ck_assert_msg(share_of(1) > 45 && share_of(1) < 70, "%.2f", share_of(1));
}

TEST(a_job_is_charged_its_estimate_and_at_its_end_the_rest)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;
	static struct rnl_class class;
	struct rnl__class_start counted;
	uint64_t used = 0;
	const int fn = 0;

	attr.weight = 4;
	rnl__class_begin(&class, &attr);
	for (uint64_t ns = 1000; ns < 100000000; ns *= 3) {
		uint16_t charged;

		ck_assert(rnl__class_start(&class, 1, false, &counted));
		charged = rnl__class_charge(&class, &fn, 1, 1);
		ck_assert_uint_eq(class.under_way_ns, rnl__cost_unpack(charged));
		rnl__class_end(&class, &fn, charged, ns, true, 1, 1);
		used += ns;
		ck_assert_uint_eq(class.device_ns, used);
		ck_assert_uint_eq(class.under_way_ns, 0);
		/* 256 for each ns and weight, each job rounded. */
		ck_assert_uint_le(class.used, used * 64);
		ck_assert_uint_ge(class.used + 64, used * 64);
	}
}

TEST(a_class_at_a_limit_collects_no_credit)
{
	begin_model(1);
	add(10000, .per_second = 100);
	add(1000000);
	run_until(model.now + 10000000000);
	model.clients[0].job_ns = 10000000;
	forget_use();
	run_until(model.now + 2000000000);
	ck_assert_msg(share_of(0) < 55, "%.2f", share_of(0));
}

TEST(a_class_that_was_idle_until_the_time_wrapped_is_not_ahead)
{
	begin_model(1);
	add(1000000);
	add(1000000);
	model.clients[1].sleeps = true;
	run_until(model.now + 10000000);
	model.clients[0].class.used += UINT64_C(1) << 63;
	model.clients[1].sleeps = false;
	wake(&model.clients[1]);
	forget_use();
	run_until(model.now + 100000000);
	ck_assert_double_ge(share_of(1), 48);
	ck_assert_double_le(share_of(1), 52);
}

TEST(a_start_is_taken_back_also_from_the_rate)
{
	struct rnl__class_start counted;
	struct rnl_class *c;
	uint64_t at = RNL__NEVER;

	begin_model(1);
	add(1000, .per_second = 1);
	c = &model.clients[0].class;
	ck_assert(rnl__class_start(c, model.now, false, &counted));
	ck_assert(!rnl__class_may_start(c, model.now, &at));
	ck_assert_uint_gt(at, model.now);
	rnl__class_take_back(c, &counted);
	ck_assert(rnl__class_may_start(c, model.now, &at));
	/* Not if the class has ended since. */
	ck_assert(rnl__class_start(c, model.now, false, &counted));
	rnl__class_begin(c, &(struct rnl_class_attr){ .per_second = 5 });
	rnl__class_take_back(c, &counted);
	ck_assert(rnl__class_may_start(c, model.now, &at));
}

TEST(a_floor_does_not_collect_what_an_idle_class_did_not_use)
{
	begin_model(1);
	add(100000, .priority = -1);
	add(100000, .priority = 3, .floor_permille = 100);
	model.clients[1].sleeps = true;
	run_until(model.now + 2000000000);
	forget_use();
	model.clients[1].sleeps = false;
	run_until(model.now + 100000000);
	/* A tenth, and at most a tenth of 10 ms from before. */
	ck_assert_double_ge(share_of(1), 9.5);
	ck_assert_double_le(share_of(1), 11.5);
}

/* ---- limits -------------------------------------------------------------- */

static unsigned under_way(unsigned i)
{
	unsigned nr = 0;

	for (unsigned k = 0; k < model.nr_workers; k++)
		nr += model.works[k].client == &model.clients[i];
	return nr;
}

TEST(a_limit_of_jobs_or_device_time_holds_and_others_go_on)
{
	begin_model(8);
	add(100000, .priority = -1, .max_jobs = 3);
	add(100000, .priority = -1, .max_device_ns = 250000);
	add(100000, .priority = 1);
	for (unsigned i = 0; i < 2000; i++) {
		run_until(model.now + 10000);
		ck_assert_uint_le(under_way(0), 3);
		if (i > 100)
			ck_assert_uint_le(under_way(1), 2);
	}
	ck_assert_uint_gt(model.clients[2].nr, 0);
	ck_assert_uint_eq(model.idle_ns, 0);
}

TEST(one_job_may_start_whatever_device_time_it_takes)
{
	begin_model(2);
	add(1000000, .max_device_ns = 1000);
	run_until(model.now + 100000000);
	ck_assert_uint_ge(model.clients[0].nr, 99);
	ck_assert_uint_le(under_way(0), 1);
}

TEST(a_rate_holds_and_a_burst_is_what_was_saved)
{
	begin_model(4);
	add(1000, .per_second = 1000, .burst = 10);
	run_until(model.now + 1000000000);
	ck_assert_msg(model.clients[0].nr >= 1008 && model.clients[0].nr <= 1011, "%lu",
		      (unsigned long)model.clients[0].nr);
	model.clients[0].sleeps = true;
	model.now += 1000000000;
	model.clients[0].sleeps = false;
	forget_use();
	run_until(model.now + 500000);
	ck_assert_uint_eq(model.clients[0].nr, 10);
}

/* ---- what jobs cost ------------------------------------------------------ */

TEST(two_jobs_of_a_function_are_estimated_by_the_class_and_later_ones_by_the_function)
{
	static char fns[2][64];
	const char *known = fns[0], *unknown = fns[1];
	struct rnl__costs costs;

	rnl__costs_init(&costs);
	ck_assert_uint_eq(rnl__cost_guess(&costs, known), 0);
	for (unsigned i = 0; i < 1000; i++)
		rnl__cost_note(&costs, known, i % 10 ? 1000 : 9000);
	ck_assert_uint_ge(rnl__cost_guess(&costs, unknown), 800);
	ck_assert_uint_ge(rnl__cost_guess(&costs, known), 1000);
	ck_assert_uint_le(rnl__cost_guess(&costs, known), 4000);
	rnl__cost_note(&costs, unknown, 50);
	ck_assert_uint_ge(rnl__cost_guess(&costs, unknown), 800);
	rnl__cost_note(&costs, unknown, 50);
	ck_assert_uint_le(rnl__cost_guess(&costs, unknown), 50);
}

TEST(more_functions_than_there_are_places_are_estimated_as_well)
{
	static char fns[4 * RNL__COST_ENTRIES][64];
	struct rnl__costs costs;

	rnl__costs_init(&costs);
	for (unsigned round = 0; round < 3; round++)
		for (unsigned i = 0; i < 4 * RNL__COST_ENTRIES; i++)
			rnl__cost_note(&costs, fns[i], 1000);
	for (unsigned i = 0; i < 4 * RNL__COST_ENTRIES; i++) {
		ck_assert_uint_ge(rnl__cost_guess(&costs, fns[i]), 900);
		ck_assert_uint_le(rnl__cost_guess(&costs, fns[i]), 1100);
	}
}

TEST(functions_of_one_class_do_not_replace_each_other, .loops = 20)
{
	enum { FNS = 10 };
	static char fns[1 << 16];
	uint64_t random = draws_of(test_seed(), (uint64_t)_i);
	const char *fn[FNS];
	struct rnl__costs costs;

	rnl__costs_init(&costs);
	for (unsigned i = 0; i < FNS; i++)
		fn[i] = &fns[i * 4096 + 16 * draw(&random, 256)];
	for (unsigned k = 0; k < 3; k++)
		for (unsigned i = 0; i < FNS; i++)
			rnl__cost_note(&costs, fn[i], 1000 * (i + 1));
	for (unsigned i = 0; i < FNS; i++)
		ck_assert_uint_eq(rnl__cost_known(&costs, fn[i]), 1000 * (i + 1));
}

TEST(an_estimate_that_refuses_jobs_falls)
{
	static char fn[64];
	struct rnl__costs costs;
	unsigned nr = 0;

	rnl__costs_init(&costs);
	rnl__cost_note(&costs, fn, 400000);
	ck_assert_uint_eq(rnl__cost_known(&costs, fn), 0);
	rnl__cost_note(&costs, fn, 400000);
	for (; rnl__cost_known(&costs, fn) > 50000; nr++)
		rnl__cost_doubt(&costs, fn);
	ck_assert_uint_le(nr, 20);
}

TEST(on_a_device_that_is_shared_a_job_takes_longer_than_it_uses_and_a_refusal_doubts_both)
{
	struct rnl__share_clock clock = { 0 };
	struct rnl__costs costs;
	int fn;

	rnl__costs_init(&costs);
	(void)rnl__cost_learn_took(&costs, &fn, 4000);
	ck_assert_uint_eq(rnl__cost_elapsed(&costs, &clock, &fn), 0);
	for (int i = 0; i < 2; i++)
		rnl__cost_note(&costs, &fn, 1000);
	ck_assert_uint_eq(rnl__cost_elapsed(&costs, &clock, &fn), 4000);
	rnl__cost_doubt(&costs, &fn);
	ck_assert_uint_eq(rnl__cost_known(&costs, &fn), 875);
	ck_assert_uint_eq(rnl__cost_elapsed(&costs, &clock, &fn), 3500);
	/* One job at a time: then the others are before it. */
	clock.serial_differ = 1;
	ck_assert_uint_eq(rnl__cost_elapsed(&costs, &clock, &fn), 875);
	/* A table that forgets its functions forgets this. */
	rnl__costs_init(&costs);
	ck_assert_uint_eq(rnl__cost_elapsed(&costs, &clock, &fn), 0);
}

TEST(an_estimate_keeps_eleven_bits)
{
	for (uint64_t ns = 1; ns < RNL__COST_MOST; ns += 1 + ns / 7) {
		const uint64_t back = rnl__cost_unpack(rnl__cost_pack(ns));

		ck_assert_uint_le(back, ns);
		ck_assert_uint_le(ns - back, ns / 1024);
	}
	ck_assert_uint_ge(rnl__cost_unpack(rnl__cost_pack(UINT64_MAX)), RNL__COST_MOST - RNL__COST_MOST / 1024);
}

/* ---- the clock ----------------------------------------------------------- */

TEST(the_clock_divides_time_among_busy_workers_and_stands_without)
{
	struct rnl__share_clock clock = { 0 };
	uint64_t now = 123456789, one, two, three;

	one = rnl__share_clock_change(&clock, 1, now);
	two = rnl__share_clock_change(&clock, 1, now + 1000);
	ck_assert_uint_eq(rnl__share_clock_since(two, one), 1000);
	three = rnl__share_clock_change(&clock, 2, now + 2000);
	ck_assert_uint_eq(rnl__share_clock_since(three, two), 500);
	two = rnl__share_clock_change(&clock, -3, now + 6000);
	ck_assert_uint_eq(rnl__share_clock_since(two, three), 1000);
	one = rnl__share_clock_change(&clock, -1, now + 7000);
	ck_assert_uint_eq(rnl__share_clock_since(one, two), 1000);
	ck_assert_uint_eq(rnl__share_clock_since(rnl__share_clock_read(&clock, now + 1000000), one), 0);
	/* It does not go back. */
	ck_assert_uint_eq(rnl__share_clock_since(one, rnl__share_clock_read(&clock, now + 1000000) + 5), 0);
}

TEST(the_clock_counts_each_ns_once_among_any_workers)
{
	struct rnl__share_clock clock = { 0 };
	uint64_t random = draws_of(test_seed(), 0), now = 1u << 30, busy_ns = 0, sum = 0, at[8];
	bool busy[8] = { false };
	unsigned nr = 0, changes = 0;

	for (; changes < 20000; changes++) {
		const unsigned i = draw(&random, 8), step = draw(&random, 10000);

		now += step;
		busy_ns += nr ? step : 0;
		if (busy[i]) {
			sum += rnl__share_clock_since(rnl__share_clock_change(&clock, -1, now), at[i]);
			nr--;
		} else {
			at[i] = rnl__share_clock_change(&clock, 1, now);
			nr++;
		}
		busy[i] = !busy[i];
	}
	for (unsigned i = 0; i < 8; i++)
		if (busy[i])
			sum += rnl__share_clock_since(rnl__share_clock_read(&clock, now), at[i]);
	/* A change and a reading each round to a ns. */
	ck_assert_uint_le(sum > busy_ns ? sum - busy_ns : busy_ns - sum, 8 * changes);
	ck_assert_uint_le(sum > busy_ns ? sum - busy_ns : busy_ns - sum, busy_ns / 1000);
}
