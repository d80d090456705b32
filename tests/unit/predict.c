/* SPDX-License-Identifier: MIT */
/* When a job of a class would end, in made-up time: the predictions are exact. */
#include "class/predict.h"
#include "seed.h"
#include "suite.h"
#include "sys/clock.h"
#include "sys/sizes.h"

#define NOW UINT64_C(1000000000)
#define US UINT64_C(1000)

static struct rnl_class class;
static struct rnl__predict p;

/* Begins a prediction for a job of a class with these attributes. */
#define begin(deadline_us, under_way_us, ...) \
	begin_with(deadline_us, under_way_us, \
		   &(struct rnl_class_attr){ .size = sizeof(struct rnl_class_attr), ##__VA_ARGS__ })

static uint64_t at_us(uint64_t us)
{
	return us == RNL__NEVER ? RNL__NEVER : NOW + us * US;
}

static void begin_with(uint64_t deadline_us, uint64_t under_way_us, const struct rnl_class_attr *attr)
{
	rnl__class_begin(&class, attr);
	class.under_way_ns = under_way_us * US;
	p = (struct rnl__predict){
		.now = NOW, .deadline = at_us(deadline_us), .nr_devices = 1, .nr_busy = 1,
		.stretch = 1,
		.under_way_ns = under_way_us * US,
	};
	rnl__predict_begin(&p, &class);
}

static void queued(uint64_t deadline_us, uint64_t us)
{
	rnl__predict_queued(&p, at_us(deadline_us), us * US);
}

static uint64_t wait_us(void)
{
	return (rnl__predict_start(&p) - NOW) / US;
}

static bool fits(uint64_t us)
{
	return rnl__predict_fits(&p, us * US, us * US);
}

/* ---- one class ------------------------------------------------------------ */

TEST(in_order_of_submits_all_work_is_ahead)
{
	begin(1000, 200);
	ck_assert_uint_eq(wait_us(), 200);
	queued(RNL__NEVER, 300);
	queued(RNL__NEVER, 100);
	ck_assert_uint_eq(wait_us(), 600);
	ck_assert(fits(400));
	ck_assert(!fits(401));
}

TEST(a_function_that_is_not_known_is_admitted_if_it_would_start_in_time)
{
	begin(1000, 1000);
	ck_assert(rnl__predict_fits(&p, 0, 1000 * US));
	begin(1000, 1001);
	ck_assert(!rnl__predict_fits(&p, 0, 0));
}

TEST(by_deadline_only_earlier_deadlines_are_ahead)
{
	begin(1000, 0, .order = RNL_CLASS_DEADLINE);
	queued(500, 100);
	queued(1000, 50);	/* submitted before */
	queued(RNL__NEVER, 5000);
	ck_assert_uint_eq(wait_us(), 150);
	queued(9000, 7000);
	ck_assert_uint_eq(wait_us(), 150);
	ck_assert(fits(850));
	ck_assert(!fits(851));
}

TEST(a_job_without_a_deadline_waits_for_all_that_have_one)
{
	begin(RNL__NEVER, 10, .order = RNL_CLASS_DEADLINE);
	queued(500, 100);
	queued(RNL__NEVER, 200);
	ck_assert_uint_eq(wait_us(), 310);
	ck_assert(fits(1000000));
}

TEST(an_expired_job_is_not_work)
{
	begin(1000, 0, .order = RNL_CLASS_DEADLINE);
	rnl__predict_queued(&p, NOW - 1, 900 * US);
	ck_assert_uint_eq(wait_us(), 0);
}

/* ---- later deadlines ------------------------------------------------------- */

TEST(an_accepted_job_with_a_later_deadline_is_not_made_late)
{
	begin(1000, 0, .order = RNL_CLASS_DEADLINE);
	queued(500, 100);
	queued(2000, 1500);	/* it can wait for 400 */
	ck_assert(fits(400));
	ck_assert(!fits(401));
}

TEST(jobs_of_one_bucket_protect_the_first_and_the_last)
{
	begin(100, 0, .order = RNL_CLASS_DEADLINE);
	queued(100000, 99000);
	queued(100010, 500);	/* the last has 510 left, the first 1000 */
	ck_assert(!fits(511) && fits(90));
	begin(1000, 0, .order = RNL_CLASS_DEADLINE);
	queued(100500, 100);
	queued(100000, 99900);	/* the first has 100 left, the last 500 */
	ck_assert(fits(100));
	ck_assert(!fits(101));
}

TEST(a_job_that_is_late_anyway_keeps_no_other_one_out)
{
	begin(1000, 0, .order = RNL_CLASS_DEADLINE);
	queued(2000, 3000);
	ck_assert(fits(900));
	/* The job after it is late because of it. */
	queued(3500, 600);
	ck_assert(fits(900));
	/* This one is not. */
	queued(9000, 5000);
	ck_assert(fits(400));
	ck_assert(!fits(401));
}

TEST(deadlines_from_a_microsecond_to_days_have_buckets_in_order)
{
	/* A job of each power of two, half as long; the one in @i has some time left. */
	for (unsigned i = 5; i < 46; i++) {
		begin(2, 0, .order = RNL_CLASS_DEADLINE);
		for (unsigned k = 5; k < 46; k++)
			rnl__predict_queued(&p, NOW + (UINT64_C(1) << k),
					    k == i ? (UINT64_C(1) << (k - 1)) - 1 : k < i ? UINT64_C(1) << (k - 2) : 1);
		ck_assert(rnl__predict_fits(&p, 1, 1));
	}
}

/* Jobs that the model has admitted and not started. */
struct admitted {
	uint64_t deadline, ns;
};

/* Starts the job with the earliest deadline on the device, which is free at *@free_at. */
static bool start_first(struct admitted *jobs, unsigned *nr, uint64_t *free_at, uint64_t *started_ns)
{
	unsigned first = 0;
	bool late;

	for (unsigned k = 1; k < *nr; k++)
		if (jobs[k].deadline < jobs[first].deadline)
			first = k;
	*started_ns = jobs[first].ns;
	*free_at += jobs[first].ns;
	late = *free_at > jobs[first].deadline;
	jobs[first] = jobs[--*nr];
	return late;
}

TEST(what_was_admitted_is_in_time_if_the_estimates_are_exact, .loops = 50)
{
	enum { NR = 200, ARRIVALS = 5000 };
	uint64_t random = draws_of(test_seed(), (uint64_t)_i), now = NOW, free_at = NOW;
	uint64_t started_ns = 0;
	struct admitted jobs[NR];
	unsigned nr = 0, admitted = 0, late = 0;

	for (unsigned i = 0; i < ARRIVALS; i++) {
		const uint64_t ns = 1000 + draw(&random, 100000);

		begin(0, 0, .order = RNL_CLASS_DEADLINE);
		p.now = now;
		p.deadline = now + 2 * ns + draw(&random, 8 * ns);
		/* The whole job, of which a part is done. */
		p.under_way_ns = free_at > now ? started_ns : 0;
		for (unsigned k = 0; k < nr; k++)
			rnl__predict_queued(&p, jobs[k].deadline, jobs[k].ns);
		if (nr < NR && rnl__predict_fits(&p, ns, ns)) {
			jobs[nr++] = (struct admitted){ p.deadline, ns };
			admitted++;
		}
		if (free_at < now)
			free_at = now;
		now += draw(&random, 50000);
		while (nr && free_at <= now)
			late += start_first(jobs, &nr, &free_at, &started_ns);
	}
	/* Twice as much comes as the device can do. */
	ck_assert_uint_gt(admitted, ARRIVALS / 3);
	ck_assert_uint_lt(admitted, ARRIVALS * 4 / 5);
	/* Between the first and the last job of a bucket, one may be late. */
	ck_assert_msg(late * 1000 <= admitted, "%u of %u are late", late, admitted);
}

/* ---- other classes ---------------------------------------------------------- */

TEST(classes_of_a_tier_share_by_weight_until_their_work_ends)
{
	begin(1000, 0, .weight = 3);
	rnl__predict_other(&p, 1000 * US, 1);
	queued(RNL__NEVER, 300);
	ck_assert_uint_eq(wait_us(), 400);	/* it gets three quarters */
	begin(1000, 0, .weight = 1);
	rnl__predict_other(&p, 200 * US, 9);
	queued(RNL__NEVER, 300);
	ck_assert_uint_eq(wait_us(), 500);	/* the other one has ended */
	rnl__predict_other(&p, 1000 * US, 2);
	ck_assert_uint_eq(wait_us(), 1100);
}

TEST(what_goes_first_is_before_all_of_the_class)
{
	begin(1000, 100, .weight = 3);
	p.before_ns += 500 * US;
	rnl__predict_other(&p, 1000 * US, 1);
	queued(RNL__NEVER, 300);
	ck_assert_uint_eq(wait_us(), 1000);
}

/* ---- limits ------------------------------------------------------------------ */

TEST(a_rate_holds_and_what_was_saved_is_at_once)
{
	begin(10000, 0, .per_second = 1000, .burst = 3);
	class.rate_at = NOW;
	rnl__predict_begin(&p, &class);
	ck_assert_uint_eq(wait_us(), 0);
	queued(RNL__NEVER, 1);
	queued(RNL__NEVER, 1);
	ck_assert_uint_eq(wait_us(), 2);
	queued(RNL__NEVER, 1);
	ck_assert_uint_eq(wait_us(), 1000);
	queued(RNL__NEVER, 1);
	ck_assert_uint_eq(wait_us(), 2000);
	ck_assert(fits(8000));
	ck_assert(!fits(8001));
}

TEST(a_class_with_few_jobs_at_once_has_a_part_of_the_busy_workers)
{
	begin(1000, 100, .max_jobs = 1);
	p.nr_busy = 4;
	queued(RNL__NEVER, 100);
	ck_assert_uint_eq(wait_us(), 800);
	p.nr_busy = 1;
	ck_assert_uint_eq(wait_us(), 200);
}

TEST(several_devices_work_beside_each_other_but_one_does_a_job)
{
	begin(1000, 400);
	p.nr_devices = 4;
	queued(RNL__NEVER, 1200);
	ck_assert_uint_eq(wait_us(), 400);
	ck_assert(fits(600));
	ck_assert(!fits(601));
}

TEST(a_job_takes_longer_than_its_device_time_if_the_device_does_others)
{
	begin(1000, 200);
	p.stretch = 4;
	queued(RNL__NEVER, 300);
	ck_assert_uint_eq(wait_us(), 500);
	ck_assert(fits(125));
	ck_assert(!fits(126));
	begin(500, 0, .order = RNL_CLASS_DEADLINE);
	p.stretch = 4;
	queued(1000, 200);
	ck_assert(!fits(126));
	/* The queued job ends 800 us after its start. */
	begin(500, 100, .order = RNL_CLASS_DEADLINE);
	p.stretch = 4;
	queued(1000, 200);
	ck_assert(fits(100));
	ck_assert(!fits(101));
}

/* ---- the estimates' error ------------------------------------------------------- */

TEST(the_error_is_the_mean_distance_in_parts_of_what_jobs_used)
{
	static char fn[64];
	uint16_t charged;

	rnl__class_begin(&class, &(struct rnl_class_attr){ .size = sizeof(struct rnl_class_attr) });
	for (unsigned i = 0; i < 1000; i++) {
		charged = rnl__class_charge(&class, fn, NOW, 1);
		rnl__class_end(&class, fn, charged, 1000, true, NOW, 1);
	}
	ck_assert_double_le((double)class.error, 0.01);
	for (unsigned i = 0; i < 2000; i++) {
		charged = rnl__class_charge(&class, fn, NOW, 1);
		rnl__class_end(&class, fn, charged, i % 2 ? 1000 : 2000, true, NOW, 1);
	}
	/* The estimate is around 1500. */
	ck_assert_double_ge((double)class.error, 0.25);
	ck_assert_double_le((double)class.error, 0.6);
}
