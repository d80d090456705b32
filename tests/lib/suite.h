/* SPDX-License-Identifier: MIT */
/*
 * What every test program shares: how a test declares itself, the device under test, a
 * time scale. suite.c has main().
 *
 *	TEST(a_key_keeps_its_worker, .timeout_s = 60)
 *	{
 *		...
 *	}
 *
 * Check forks each test, but on a GPU, and CUDA does not survive a fork: touch runnel only in a
 * test's body or in its setup, never before.
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <runnel.h>

#ifdef __cplusplus
/* tests set only some fields */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
extern "C" {
#endif

/* A test's options, in this order. */
struct suite_test {
	const TTest *body;
	int timeout_s;		/* on an idle machine; 0: SUITE_TIMEOUT_S */
	int loops;		/* how often it runs, with _i from 0; 0: once */
	void (*setup)(void), (*teardown)(void);
	int left_out;		/* is not run */
	const char *not_simulated;	/* is not run on a simulated machine (make sim), which lacks that */
	/*
	 * Why the library fails the test until a later change mends it. The runner shows the failure
	 * and counts it as skipped. A pass is a failure: the mend takes the mark away. The test must
	 * not skip; and since a GPU's tests share a process, it must not hang or crash there.
	 */
	const char *known_to_fail;
};

/* Of PATIENCE_S; short in a test that is known to fail, and so waits for what does not come. */
extern double suite_patience_s;
extern bool suite_known_to_fail;	/* the test that runs is */

/* Adds a test to the program.  TEST() calls it. */
void suite_add(const struct suite_test *test);

/* Declares a test and adds it to the program: the only place that names it. */
#define TEST(name_, ...) \
	static void name_##_fn(int _i); \
	static const TTest name_##_body = { #name_, name_##_fn, __FILE__, __LINE__ }; \
	__attribute__((constructor)) static void name_##_is_added(void) \
	{ \
		const struct suite_test test_ = { .body = &name_##_body, ##__VA_ARGS__ }; \
		suite_add(&test_); \
	} \
	static void name_##_fn(int _i CK_ATTRIBUTE_UNUSED)

/*
 * A file may define these.  suite_begin() is called before the first test and returns
 * SUITE_GOES_ON, or the program's exit status; suite_end() after the last test.
 */
#define SUITE_GOES_ON (-1)
__attribute__((weak)) int suite_begin(int argc, char **argv);
__attribute__((weak)) void suite_end(int nr_failed);

/*
 * A GPU takes a second to start in each process, so the tests of a file share one there: one that
 * dies takes the rest of its file along.  A file whose tests each need a process of their own
 * says SUITE_FORKS.
 */
__attribute__((weak)) int suite_forks(void);
#define SUITE_FORKS int suite_forks(void) { return 1; }

/* Begins a test on a simulated machine, if the program is linked with one: docs/simulation.md. */
__attribute__((weak)) void sim_begin(void);

#ifdef __cplusplus
}
#endif

/*
 * Timeouts only end tests that hang. A test says the seconds that it may take on an idle machine:
 * SUITE_TIMEOUT_S if it says nothing, since to create a CUDA context takes some. SUITE_BUSY is how
 * many times slower a machine with other work may be, and PATIENCE_S how long what must come may
 * take there, in seconds.
 */
#define SUITE_TIMEOUT_S 20
#define SUITE_BUSY 10
#define PATIENCE_S (suite_patience_s * test_scale())

/*
 * Ends the test as skipped. The runner prints and counts the line. One that is known to fail does not
 * pass by it.
 */
#define test_skip(...) \
	do { \
		if (suite_known_to_fail) \
			ck_abort_msg(__VA_ARGS__); \
		printf("SKIP: " __VA_ARGS__); \
		printf("\n"); \
		fflush(stdout); \
		return; \
	} while (0)

#define MS 1000000ll		/* in ns, for timeouts */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A call that has to return 0. */
#define must(call) ck_assert_int_eq(call, 0)

/* Checks every byte; an assertion for each would take a second for a million. */
#define ck_assert_bytes(bytes, nr, value) \
	do { \
		const unsigned char *b_ = (bytes); \
		size_t i_ = 0; \
		while (i_ < (size_t)(nr) && b_[i_] == (value)) \
			i_++; \
		ck_assert_msg(i_ == (size_t)(nr), "byte %zu of " #bytes " is %d, not %d", i_, \
			      b_[i_], (value)); \
	} while (0)

/* The device under test, for a pool's attributes. */
static inline const char *test_device(void)
{
	const char *device = getenv("RNL_TEST_DEVICE");

	return device ? device : "host";
}

/* Whether the double of the CUDA runtime must answer: tests/fake_cudart. */
static inline int test_fake(void)
{
	return getenv("RNL_TEST_FAKE") != NULL;
}

/* How many times slower than usual this build is, for sanitizers and wrappers. */
static inline double test_scale(void)
{
	const char *scale = getenv("RNL_TEST_SCALE");

	return scale && atof(scale) > 0 ? atof(scale) : 1;
}

/*
 * The rounds of a loop that hopes for a schedule, of @nr. A real machine shows the same few schedules again
 * and again, so it runs a sample; so does a build that is slow. A simulated one draws its schedules, and
 * each seed brings others: it runs more of them.
 */
#define SAMPLE 10	/* one round in so many */
#define SAMPLE_SIM 4
static inline unsigned rounds_of(unsigned nr)
{
	const double sample = sim_begin ? SAMPLE_SIM : SAMPLE, scale = test_scale();

	return (unsigned)(nr / (scale > sample ? scale : sample));
}

/* Fills or compares much data: on a simulated machine nothing looks for races in it. */
#ifdef RNL__SIMULATION
#define MUCH_DATA __attribute__((no_sanitize("thread")))
#else
#define MUCH_DATA
#endif

/* How long a stress test lasts, if not told otherwise. */
static inline double stress_seconds(double usual)
{
	const char *seconds = getenv("RNL_STRESS_SECONDS");

	return seconds && atof(seconds) > 0 ? atof(seconds) : usual;
}

/* The seconds that something may take: @idle_s, or patience, if the machine has, or had, other work. */
static inline double seconds_allowed(double idle_s)
{
	const double busy = (double)sysconf(_SC_NPROCESSORS_ONLN) / 4;
	FILE *file = fopen("/proc/loadavg", "r");
	double mean = 1e9, now = 1e9;	/* in the last minute; and now, of which we are one */

	if (file) {
		if (fscanf(file, "%lf %*f %*f %lf", &mean, &now) != 2)
			mean = 1e9;
		fclose(file);
	}
	return mean > busy || now - 1 > busy ? PATIENCE_S : idle_s * test_scale();
}

/* For a wait that ends late only if something was lost. */
static inline int64_t patience_ns(void)
{
	return (int64_t)(PATIENCE_S * 1e9);
}

#endif /* SUITE_H */
