/* SPDX-License-Identifier: MIT */
/* The main() of every test program: runs the tests that declared themselves. */
#include <runnel/device.h>

#include "suite.h"

#define TESTS_MAX 256

#define PATIENT_S 60
#define IMPATIENT_S 1

double suite_patience_s = PATIENT_S;

static struct suite_test tests[TESTS_MAX];
static unsigned nr_tests;

void suite_add(const struct suite_test *test)
{
	if (nr_tests == TESTS_MAX) {
		fputs("suite: more than TESTS_MAX tests in one program\n", stderr);
		abort();
	}
	tests[nr_tests++] = *test;
}

static enum fork_status fork_status(void)
{
	if (!strcmp(test_device(), "host") || test_fake() || (suite_forks && suite_forks()))
		return CK_FORK_GETENV;
	return getenv("CK_FORK") ? CK_FORK_GETENV : CK_NOFORK;
}

static int describe_device(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	int ret = rnl_device_describe(NULL, test_device(), 0, &info);

	if (ret)
		printf("no device \"%s\" here: %s\n", test_device(), rnl_strerror(ret));
	fflush(stdout);
	return ret;
}

/* Returns true if the device answers.  If tests fork, a child asks: CUDA must not start yet. */
static int device_answers(void)
{
	int status;
	pid_t pid;

	if (!strcmp(test_device(), "host"))
		return 1;
	if (fork_status() == CK_NOFORK)
		return !describe_device();
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(describe_device() ? 77 : 0);
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;	/* the tests report it */
	return !WIFEXITED(status) || WEXITSTATUS(status) != 77;
}

bool suite_known_to_fail;

static void begin_known_to_fail(void)
{
	suite_known_to_fail = true;
	suite_patience_s = IMPATIENT_S / test_scale();
}

static void end_known_to_fail(void)
{
	suite_known_to_fail = false;
	suite_patience_s = PATIENT_S;
}

static Suite *make_suite(const char *name)
{
	Suite *suite = suite_create(name);

	for (unsigned i = 0; i < nr_tests; i++) {
		const struct suite_test *t = &tests[i];
		TCase *tc;

		if (t->left_out || (sim_begin && t->not_simulated))
			continue;
		tc = tcase_create(t->body->name);	/* for CK_RUN_CASE */
		if (t->timeout_s)
			tcase_set_timeout(tc, t->timeout_s);
		if (sim_begin)
			tcase_add_checked_fixture(tc, sim_begin, NULL);
		if (t->known_to_fail)
			tcase_add_checked_fixture(tc, begin_known_to_fail, end_known_to_fail);
		if (t->setup || t->teardown)
			tcase_add_checked_fixture(tc, t->setup, t->teardown);
		if (t->loops)
			tcase_add_loop_test(tc, t->body, 0, t->loops);
		else
			tcase_add_test(tc, t->body);
		suite_add_tcase(suite, tc);
	}
	return suite;
}

static const char *why_known_to_fail(const char *name)
{
	for (unsigned i = 0; i < nr_tests; i++)
		if (!strcmp(name, tests[i].body->name))
			return tests[i].known_to_fail;
	return NULL;
}

/*
 * Prints a line for each result of a test that is known to fail; the runner counts the lines.
 * Returns the number of wrong results: failures of other tests, and passes of tests that must fail.
 */
static int count_wrong(SRunner *runner)
{
	TestResult **results = srunner_results(runner);
	int nr_wrong = 0;

	for (int i = 0; i < srunner_ntests_run(runner); i++) {
		const char *name = tr_tcname(results[i]), *why = why_known_to_fail(name);
		int failed = tr_rtype(results[i]) != CK_PASS;

		if (why)
			printf("%s: %s: %s\n", failed ? "KNOWN TO FAIL" : "MENDED", name,
			       failed ? why : "it passes, so take its .known_to_fail away");
		nr_wrong += failed != !!why;
	}
	free(results);
	return nr_wrong;
}

/* Writes the results as TAP, which the runner reads. */
int main(int argc, char **argv)
{
	const char *name = strrchr(argv[0], '/');
	char scale[32], timeout[32];
	SRunner *runner;
	int status, nr_wrong;

	status = suite_begin ? suite_begin(argc, argv) : SUITE_GOES_ON;
	if (status != SUITE_GOES_ON)
		return status;
	if (!device_answers())
		return test_fake() ? EXIT_FAILURE : 77;	/* the double is never missing */
	snprintf(scale, sizeof(scale), "%g", test_scale() * SUITE_BUSY);
	setenv("CK_TIMEOUT_MULTIPLIER", scale, 0);
	snprintf(timeout, sizeof(timeout), "%d", SUITE_TIMEOUT_S);
	setenv("CK_DEFAULT_TIMEOUT", timeout, 0);

	runner = srunner_create(make_suite(name ? name + 1 : argv[0]));
	srunner_set_fork_status(runner, fork_status());
	srunner_run_all(runner, CK_NORMAL);
	nr_wrong = count_wrong(runner);
	srunner_free(runner);
	if (suite_end)
		suite_end(nr_wrong);
	return nr_wrong ? EXIT_FAILURE : EXIT_SUCCESS;
}
