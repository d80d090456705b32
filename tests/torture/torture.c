/* SPDX-License-Identifier: MIT */
/*
 * Torture: round after round for some time, then a histogram of errors.
 *
 * DESIGN
 *	On the double, a child runs some rounds, and the parent never uses a device. After a child
 *	has lost its device, the next child starts fresh. Elsewhere there is one process, which is
 *	easier for debuggers and compute-sanitizer.
 */
#include "torture.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <runnel/device.h>

#define CHILD_ROUNDS 12

static void interrupt(int signo)
{
	(void)signo;
	tally->interrupted = true;
}

static bool is_time_left(void)
{
	return !tally->interrupted &&
	       (double)now_ns() * 1e-9 - tally->began < options.seconds;
}

/* Creates and destroys a pool, so later leak checks do not count objects that a device keeps. */
static void warm_up(enum rnl_stream_kind stream)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	char name[PLACES_NAME];
	struct rnl_pool *pool;
	int ret;

	places_name_all(name);
	attr.device = name;
	attr.nr_workers = PLACES_MAX;
	attr.stream = stream;
	ret = rnl_pool_create(&pool, &attr);
	if (ret && !(memory_lacks() && ret == -ENOMEM))
		tally_wrong(UNDOCUMENTED, "a first pool: %d (%s)", ret, rnl_strerror(ret));
	if (!ret)
		rnl_pool_destroy(pool);
}

/* Runs @nr rounds, or fewer if time is over.  Returns the number of the next round. */
static void run_rounds(uint64_t number, uint64_t nr)
{
	uint64_t random = draws_of(~options.seed, number);

	faults_prepare(&random);
	watch(NULL, 2 * long_ns());
	warm_up(RNL_STREAM_PER_THREAD);
	warm_up(RNL_STREAM_PRIVATE);
	leaks_expect();
	do {
		if (!round_run(number))
			return;
	} while (++number && --nr && is_time_left());
}

static void run_children(void)
{
	uint64_t number = options.first_round;

	while (is_time_left()) {
		int status = 0;
		pid_t pid;

		fflush(NULL);
		pid = fork();
		if (!pid) {
			(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
			run_rounds(number, CHILD_ROUNDS);
			exit(EXIT_SUCCESS);
		}
		while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
			;
		if (pid < 0 || status)
			tally_wrong(CRASHED, "a child ended with status 0x%x", status);
		if (pid < 0 || status)
			return;
		number = tally->round + 1;
	}
}

static int look_for_device(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	int ret = rnl_device_describe(NULL, options.device, 0, &info);

	if (ret)
		printf("torture: no device \"%s\" here: %s\n", options.device, rnl_strerror(ret));
	return ret;
}

/* Drops the library's messages, because torture provokes refused calls. */
static void say_nothing(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESTART };

	options_parse(argc, argv);
	rnl_set_log(say_nothing, NULL);
	tally_open();
	(void)rnl_setup();
	if (!options.fake && look_for_device())
		return 77;
	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGINT, &action, NULL);
	(void)sigaction(SIGTERM, &action, NULL);
	printf("torture: seed %llu, device %s, %.0f s\n", (unsigned long long)options.seed,
	       options.device, options.seconds);
	fflush(stdout);
	if (sim_begin)
		run_rounds(options.first_round, 1);
	else if (options.fake)
		run_children();
	else
		run_rounds(options.first_round, UINT64_MAX);
	tally_print();
	return tally_nr_wrong() || !is_printed() ? EXIT_FAILURE : EXIT_SUCCESS;
}
