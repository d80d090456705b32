/* SPDX-License-Identifier: MIT */
/*
 * --supervise: a parent that starts a fresh server when one is lost.
 *
 * DESIGN
 * A process whose GPU has failed does not get it back, so another has to serve.  The parent
 * opens the listening sockets, forks, and waits; it never calls CUDA.  Each child serves on
 * these sockets: a connection that comes while there is no child waits for the next one.  The
 * child ends when the parent does, in any way.
 *
 * A child is replaced if it exits with EXIT_DEVICE_FAILED, dies by a signal, or, once any child
 * has served, fails in another way.  A child that lasted QUICK_S is replaced at once, another
 * one after a pause that doubles.  After more than QUICK_MAX short lives in a row the parent
 * gives up, because a fresh process does not help then.  The parent exits with the child's
 * status if that is 0, which the child was told to end with, or if no child has served.
 *
 * The parent hands SIGTERM and SIGINT on, and exits as the child does.  It kills a child that
 * has not ended some time after its grace, perhaps because the driver holds it.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUICK_S 10
#define QUICK_MAX 5
#define PAUSE_MS 100
#define ENDING_S 4	/* of a child, after its grace */

static sigset_t watched;

static double seconds(void)
{
	return (double)program_now_ns() * 1e-9;
}

/* Blocks the signals that the parent waits for, so none is lost while it does not wait. */
static void watch_signals(void)
{
	sigemptyset(&watched);
	sigaddset(&watched, SIGCHLD);
	sigaddset(&watched, SIGTERM);
	sigaddset(&watched, SIGINT);
	sigprocmask(SIG_BLOCK, &watched, NULL);
	signal(SIGCHLD, SIG_DFL);	/* if it were ignored, the status would be lost */
}

static void begin_child(const struct server *server, pid_t parent)
{
	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent)	/* it ended before the prctl() */
		_exit(EXIT_FAILURE);
	for (unsigned i = 0; i < server->opt.loops; i++)
		listener_hear(server->listeners[i]);
}

/* There will be no next child. */
static void close_listeners(struct server *server)
{
	for (unsigned i = 0; i < server->opt.loops; i++)
		close(server->listeners[i]);
}

/* Return: a watched signal, or -1 if none came until @end, or the call was interrupted. */
static int next_signal(double end)
{
	const double left = end - seconds();
	struct timespec time = { 0, 0 };

	if (left > 0) {
		time.tv_sec = (time_t)left;
		time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
	}
	return sigtimedwait(&watched, NULL, &time);
}

/* Waits for the child's end and hands signals on; return: whether there was one. */
static bool await_end(struct server *server, pid_t child, int *status)
{
	double end = 0;
	bool told = false;

	while (waitpid(child, status, WNOHANG) != child) {
		const int number = told ? next_signal(end) : sigwaitinfo(&watched, NULL);

		if (number == SIGTERM || number == SIGINT) {
			if (!told) {
				close_listeners(server);
				end = seconds() + server->opt.grace_s + ENDING_S;
			}
			told = true;
			kill(child, number);
		} else if (told && seconds() >= end) {
			program_warn("process %d does not end", (int)child);
			kill(child, SIGKILL);
			end += ENDING_S;
		}
	}
	return told;
}

/* Return: how the child ended, as an exit status. */
static int exit_status(pid_t child, int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	program_warn("process %d was killed by signal %d, %s", (int)child, WTERMSIG(status),
		     strsignal(WTERMSIG(status)));
	return EXIT_FAILURE;
}

/* Return: false if the parent was told to end meanwhile. */
static bool pause_before(unsigned nr_quick)
{
	const double end = seconds() + (nr_quick ? PAUSE_MS << (nr_quick - 1) : 0) * 1e-3;
	int number;

	do
		number = next_signal(end);
	while (number == SIGCHLD || (number < 0 && seconds() < end));
	return number < 0;
}

void supervise(struct server *server)
{
	const pid_t parent = getpid();
	unsigned nr_quick = 0;
	bool served = false;

	watch_signals();
	server->serving_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	for (;;) {
		const double began = seconds();
		const pid_t child = server->serving_fd < 0 ? -1 : fork();
		int status, code;
		eventfd_t nr;

		if (!child) {
			begin_child(server, parent);
			return;
		}
		if (child < 0)
			program_die("starting a process: %s", strerror(errno));
		if (await_end(server, child, &status)) {
			code = exit_status(child, status);
			/* If its device has just failed, its requests are answered: all is well. */
			exit(code == EXIT_DEVICE_FAILED ? EXIT_SUCCESS : code);
		}
		served |= eventfd_read(server->serving_fd, &nr) == 0;
		code = exit_status(child, status);
		if (code == EXIT_SUCCESS || (!served && WIFEXITED(status)))
			exit(code);
		nr_quick = seconds() - began < QUICK_S ? nr_quick + 1 : 0;
		if (nr_quick > QUICK_MAX)
			program_die("gives up: %u processes in a row lasted less than %d s", nr_quick,
				    QUICK_S);
		program_warn("process %d %s: starting another", (int)child, code == EXIT_DEVICE_FAILED ?
			     "leaves a device that has failed" : "is lost");
		if (!pause_before(nr_quick))
			exit(EXIT_SUCCESS);
	}
}
