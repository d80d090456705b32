/* SPDX-License-Identifier: MIT */
/*
 * --processes and --gpus: a parent, the processes that serve, and a replacement for each lost one.
 *
 * DESIGN
 * A process is one fault domain: an illegal address on any of its GPUs ends it, and after a failure
 * a process cannot use its GPU again.  So each GPU has a process, and the parent, which never calls
 * CUDA, keeps all listening sockets.  A process accepts from its own sockets.  While another
 * process does not serve, it also accepts from that process's sockets, so that no connection waits
 * for a restart.
 *
 * The parent starts a process by fork and exec of the program's file as it was at the start or at
 * the last SIGHUP.  A process sets its state on the board when it serves, and ends when the parent
 * ends for any reason.  A process is replaced if it exits with EXIT_DEVICE_FAILED, dies by a
 * signal, has a loop that hangs for --stuck seconds, or takes too long to start.  It is replaced
 * after other failures only if a process with its place on the board has served.  A process that
 * lasted QUICK_S is replaced immediately, others after a pause that doubles.  If more than
 * QUICK_MAX in a row did not last and no process serves, another would not help: the parent ends.
 *
 * SIGHUP replaces the processes one after another: the parent starts a new process next to the old
 * one, and when the new one serves, orders the old one to answer its requests and to end.  The
 * order is given by an eventfd that only the old process and the parent have, so no signal can be
 * mistaken for the order.  If the new process does not serve, the old one stays.
 *
 * SIGTERM, SIGINT and SIGQUIT are passed on to all processes, even if only one of them received
 * the signal.  The parent exits with the first non-zero status.  It kills processes that have not
 * ended some time after the grace, perhaps because the driver blocks them.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define QUICK_S 10
#define QUICK_MAX 5
#define PAUSE_FIRST_MS 100	/* before a new process */
#define PAUSES_MAX 7		/* the pause doubles at most this many times */
#define ENDING_S 4	/* a process is killed this long after its grace */
#define LOOK_S 0.1	/* between checks while SIGHUP replaces a process */
#define START_S 10	/* limit for a process to begin to serve */
#define START_PART 4	/* times --stuck, added to START_S */
#define BEATS_S 1.0	/* between checks that all processes are alive */
#define VARIABLE "HTTP_SERVER_PLACE"	/* environment variable: see become() */

struct process {
	pid_t pid;		/* 0: no process */
	int leave_fd;		/* an eventfd: the order to end */
	double kill_at;		/* when it is killed; 0: no order to end was sent */
};

/* The processes of one place on the board. */
struct child {
	struct process now;
	struct process old;	/* ends when `now` serves */
	double began;		/* start of `now` */
	double start_at;	/* when to start a process, while `now` is empty */
	unsigned nr_quick;
	unsigned generation;	/* generation in which `now` was started */
};

struct parent {
	struct server *server;
	char **argv;
	char path[PATH_MAX];	/* the program's file */
	int program;		/* descriptor of that file */
	int board;
	sigset_t before;	/* the blocked signals at the start */
	sigset_t watched;	/* the signals that the parent waits for */
	struct child children[PROCESSES_MAX];
	unsigned generation;	/* grows with each SIGHUP */
	bool ending;
	int status;
};

static double seconds(void)
{
	return (double)program_now_ns() * 1e-9;
}

static struct child *children_end(struct parent *p)
{
	return p->children + p->server->nr_processes;
}

static struct place *place_of(const struct parent *p, const struct child *c)
{
	return &p->server->board[c - p->children];
}

/* Returns true if the current process has served; an earlier process does not count. */
static bool has_served(const struct parent *p, const struct child *c)
{
	return c->now.pid && atomic_load(&place_of(p, c)->pid) == c->now.pid;
}

static unsigned nr_serving(const struct parent *p)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < p->server->nr_processes; i++)
		nr += board_serves(&p->server->board[i]);
	return nr;
}

/* ---- starting -------------------------------------------------------------- */

static void keep_on_exec(int fd)
{
	fcntl(fd, F_SETFD, 0);
}

/* Executes the program, in the child process. */
static _Noreturn void become(const struct parent *p, unsigned process, int leave_fd, pid_t parent)
{
	const struct server *server = p->server;
	const unsigned nr = server->nr_processes * server->opt.loops;
	char *text = NULL;
	size_t bytes = 0;
	FILE *out = open_memstream(&text, &bytes);

	prctl(PR_SET_PDEATHSIG, SIGTERM);
	if (getppid() != parent || !out)	/* the parent ended before the prctl() */
		_exit(EXIT_FAILURE);
	fprintf(out, "%u,%u,%d,%d,%d", process, server->nr_processes, p->board, leave_fd,
		server->listeners_passed);
	keep_on_exec(p->board);
	keep_on_exec(leave_fd);
	for (unsigned i = 0; i < nr; i++) {
		fprintf(out, ",%d", server->listeners[i]);
		keep_on_exec(server->listeners[i]);
	}
	if (fclose(out) || setenv(VARIABLE, text, 1))
		program_die("starting a process: %s", strerror(ENOMEM));
	sigprocmask(SIG_SETMASK, &p->before, NULL);
	fexecve(p->program, p->argv, environ);
	program_die("%s: %s", p->path, strerror(errno));
}

static void start(struct parent *p, struct child *c)
{
	const pid_t parent = getpid();
	const int leave_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	const pid_t child = leave_fd < 0 ? -1 : fork();

	if (!child)
		become(p, (unsigned)(c - p->children), leave_fd, parent);
	c->began = seconds();
	c->generation = p->generation;
	if (child > 0) {
		c->now = (struct process){ .pid = child, .leave_fd = leave_fd };
		return;
	}
	program_warn("starting a process: %s", strerror(errno));
	if (leave_fd >= 0)
		close(leave_fd);
	c->start_at = c->began + QUICK_S;
}

bool supervise_join(struct server *server)
{
	char *text = getenv(VARIABLE), *at = text;
	unsigned numbers[5], nr = 0;
	int fd;

	if (!text)
		return false;
	for (unsigned i = 0; i < 5; i++)
		numbers[i] = (unsigned)strtoul(at, &at, 10), at += *at == ',';
	server->process = numbers[0];
	server->nr_processes = numbers[1];
	fd = (int)numbers[2];
	server->leave_fd = (int)numbers[3];
	server->listeners_passed = numbers[4];
	while (*at && nr < PROCESSES_MAX * LOOPS_MAX) {
		server->listeners[nr++] = (int)strtol(at, &at, 10);
		at += *at == ',';
	}
	if (server->process >= server->nr_processes || server->nr_processes > PROCESSES_MAX)
		program_die(VARIABLE " is invalid: only the parent sets it");
	if (nr != server->nr_processes * server->opt.loops)
		program_die("--loops=%u: the parent has other sockets; to change that, restart it",
			    server->opt.loops);
	server->board = board_map(fd, server->nr_processes);
	if (!server->board)
		program_die("the board of the processes: %s", strerror(errno));
	fcntl(fd, F_SETFD, FD_CLOEXEC);
	fcntl(server->leave_fd, F_SETFD, FD_CLOEXEC);
	unsetenv(VARIABLE);
	signal(SIGHUP, SIG_IGN);	/* from a terminal: the parent handles it */
	for (unsigned i = 0; i < nr; i++)
		fcntl(server->listeners[i], F_SETFD, FD_CLOEXEC);
	server->opt.addr_len = sizeof(server->opt.addr);
	if (getsockname(server->listeners[0], (struct sockaddr *)&server->opt.addr,
			&server->opt.addr_len))
		program_die(VARIABLE ": %s", strerror(errno));
	for (unsigned i = 0; i < server->opt.loops; i++)
		listener_hear(server->listeners[server->process * server->opt.loops + i]);
	return true;
}

/* ---- ending ---------------------------------------------------------------- */

/* Orders a process to end.  @number: a signal; 0: by the eventfd. */
static void tell(const struct parent *p, struct process *process, int number)
{
	if (!process->pid || process->kill_at)
		return;
	if (number)
		kill(process->pid, number);
	else
		eventfd_write(process->leave_fd, 1);
	process->kill_at = seconds() + p->server->opt.grace_s + ENDING_S;
}

static void end_all(struct parent *p, int number, int status)
{
	if (!p->ending)		/* no more processes will be started */
		for (unsigned i = 0; i < p->server->nr_processes * p->server->opt.loops; i++)
			close(p->server->listeners[i]);
	p->ending = true;
	p->status = p->status ? p->status : status;
	for (struct child *c = p->children; c < children_end(p); c++) {
		tell(p, &c->now, number);
		tell(p, &c->old, number);
	}
}

static void kill_late(struct process *process)
{
	if (!process->pid || !process->kill_at || seconds() < process->kill_at)
		return;
	program_warn("process %d does not end", (int)process->pid);
	kill(process->pid, SIGKILL);
	process->kill_at += ENDING_S;
}

static void forget(struct process *process)
{
	close(process->leave_fd);
	*process = (struct process){ .pid = 0 };
}

/* Returns the exit status of a process, or EXIT_FAILURE if a signal killed the process. */
static int exit_status(pid_t child, int status)
{
	if (WIFEXITED(status))
		return WEXITSTATUS(status);
	program_warn("process %d was killed by signal %d, %s", (int)child, WTERMSIG(status),
		     strsignal(WTERMSIG(status)));
	return EXIT_FAILURE;
}

/* Returns true if a passed-on signal killed the process before it waited for signals. */
static bool ended_early(const struct parent *p, bool served, int status)
{
	const int number = WIFSIGNALED(status) ? WTERMSIG(status) : 0;

	return p->ending && !served &&
	       (number == SIGTERM || number == SIGINT || number == SIGQUIT);
}

/* Sets the time to start the next process. */
static void pause_before_next(struct parent *p, struct child *c)
{
	const unsigned doubles = c->nr_quick > PAUSES_MAX ? PAUSES_MAX : c->nr_quick - 1;

	if (c->nr_quick > QUICK_MAX && !nr_serving(p))
		program_die("gives up: %u processes in a row lasted less than %d s", c->nr_quick,
			    QUICK_S);
	c->start_at = seconds() + (c->nr_quick ? PAUSE_FIRST_MS << doubles : 0) * 1e-3;
}

/* Marks a place as empty: other processes take its connections. */
static void clear_place(const struct parent *p, const struct child *c, pid_t pid)
{
	if (atomic_load(&place_of(p, c)->pid) == pid)
		atomic_store(&place_of(p, c)->state, PLACE_EMPTY);
}

/* Keeps all old processes until the next SIGHUP, because a new one did not serve. */
static void give_renewal_up(struct parent *p, struct child *c, pid_t fresh)
{
	program_warn("process %d does not begin to serve: process %d stays", (int)fresh,
		     (int)c->old.pid);
	c->now = c->old;
	c->began = 0;
	c->old = (struct process){ .pid = 0 };
	for (unsigned i = 0; i < p->server->nr_processes; i++)
		p->children[i].generation = p->generation;
}

static void ended(struct parent *p, struct child *c, int status)
{
	const pid_t pid = c->now.pid;
	const bool served = has_served(p, c);
	const int code = ended_early(p, served, status) ? EXIT_SUCCESS : exit_status(pid, status);

	forget(&c->now);
	clear_place(p, c, pid);
	if (p->ending) {
		/* After a device's failure the requests were answered: this is not an error. */
		if (code != EXIT_DEVICE_FAILED && !p->status)
			p->status = code;
		return;
	}
	if (c->old.pid && !c->old.kill_at && !served) {
		give_renewal_up(p, c, pid);
		return;
	}
	if ((code == EXIT_SUCCESS && served) ||
	    (!atomic_load(&place_of(p, c)->pid) && WIFEXITED(status))) {
		end_all(p, SIGTERM, code);
		return;
	}
	c->nr_quick = seconds() - c->began < QUICK_S ? c->nr_quick + 1 : 0;
	pause_before_next(p, c);
	program_warn("process %d %s: starting another", (int)pid, code == EXIT_DEVICE_FAILED ?
		     "leaves a failed device or a stuck worker" : "is lost");
}

static void reap(struct parent *p)
{
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		for (struct child *c = p->children; c < children_end(p); c++) {
			if (c->now.pid == pid) {
				ended(p, c, status);
			} else if (c->old.pid == pid) {
				(void)exit_status(pid, status);
				clear_place(p, c, pid);
				forget(&c->old);
			}
		}
}

/* ---- SIGHUP ---------------------------------------------------------------- */

/* Begins a new generation: all processes of earlier ones will be replaced. */
static void begin_renewal(struct parent *p)
{
	const int program = open(p->path, O_RDONLY | O_CLOEXEC);

	if (program < 0) {
		program_warn("SIGHUP: %s: %s: all processes stay", p->path, strerror(errno));
		return;
	}
	close(p->program);
	p->program = program;
	p->generation++;
}

/* Returns true while a new process starts next to an old one. */
static bool renews(const struct parent *p)
{
	for (unsigned i = 0; i < p->server->nr_processes; i++)
		if (p->children[i].old.pid && !p->children[i].old.kill_at)
			return true;
	return false;
}

/* Continues to replace processes, one after another. */
static void renew(struct parent *p)
{
	struct child *const end = children_end(p);

	if (p->ending)
		return;
	for (struct child *c = p->children; c < end; c++)
		if (has_served(p, c))
			tell(p, &c->old, 0);
	for (struct child *c = p->children; c < end && !renews(p); c++) {
		if (c->old.pid || c->now.kill_at || c->generation == p->generation ||
		    !has_served(p, c))
			continue;
		c->old = c->now;
		c->now = (struct process){ .pid = 0 };
		c->start_at = 0;
	}
}

/* ---- watching -------------------------------------------------------------- */

static void kill_stuck(struct parent *p, struct child *c)
{
	const unsigned stuck_s = p->server->opt.stuck_s;
	const uint64_t most_ns = stuck_s * UINT64_C(1000000000);
	const uint64_t now_ns = program_now_ns();

	if (!most_ns || !c->now.pid || c->now.kill_at)
		return;
	if (!has_served(p, c)) {
		if (seconds() < c->began + START_S + START_PART * stuck_s)
			return;
		program_warn("process %d does not begin to serve", (int)c->now.pid);
		kill(c->now.pid, SIGKILL);
	}
	if (!board_serves(place_of(p, c)) || !has_served(p, c))
		return;
	for (unsigned i = 0; i < p->server->opt.loops; i++) {
		const uint64_t beat_ns = atomic_load(&place_of(p, c)->beat_ns[i]);

		if (now_ns < beat_ns + most_ns)
			continue;
		program_warn("process %d: loop %u has hung for %u s", (int)c->now.pid, i, stuck_s);
		kill(c->now.pid, SIGKILL);
		return;
	}
}

static void look_after(struct parent *p, struct child *c)
{
	if (!c->now.pid && !p->ending && seconds() >= c->start_at)
		start(p, c);
	kill_stuck(p, c);
	kill_late(&c->now);
	kill_late(&c->old);
}

/* Returns the time of the parent's next check. */
static double next_look(struct parent *p)
{
	double at = seconds() + (renews(p) ? LOOK_S : BEATS_S);

	for (const struct child *c = p->children; c < children_end(p); c++) {
		const double times[] = {
			c->now.pid || p->ending ? 0 : c->start_at, c->now.kill_at, c->old.kill_at,
		};

		for (unsigned i = 0; i < 3; i++)
			at = times[i] && times[i] < at ? times[i] : at;
	}
	return at;
}

/* Returns a watched signal, or -1 at @end, or if the call was interrupted. */
static int next_signal(const struct parent *p, double end)
{
	const double left = end - seconds();
	struct timespec time = { 0, 0 };

	if (left > 0) {
		time.tv_sec = (time_t)left;
		time.tv_nsec = (long)((left - (double)time.tv_sec) * 1e9);
	}
	return sigtimedwait(&p->watched, NULL, &time);
}

static bool all_ended(const struct parent *p)
{
	for (unsigned i = 0; i < p->server->nr_processes; i++)
		if (p->children[i].now.pid || p->children[i].old.pid)
			return false;
	return true;
}

/* Blocks the signals that the parent waits for, so that they stay pending between waits. */
static void watch_signals(struct parent *p)
{
	sigemptyset(&p->watched);
	sigaddset(&p->watched, SIGCHLD);
	sigaddset(&p->watched, SIGTERM);
	sigaddset(&p->watched, SIGINT);
	sigaddset(&p->watched, SIGQUIT);
	sigaddset(&p->watched, SIGHUP);
	sigprocmask(SIG_BLOCK, &p->watched, &p->before);
	signal(SIGCHLD, SIG_DFL);	/* if it were ignored, exit statuses would be lost */
	signal(SIGPIPE, SIG_IGN);	/* the reader of standard error may have ended */
	signal(SIGUSR1, SIG_IGN);	/* inherited by new processes */
	signal(SIGUSR2, SIG_IGN);
}

static void find_program(struct parent *p)
{
	const ssize_t bytes = readlink("/proc/self/exe", p->path, sizeof(p->path) - 1);

	p->program = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
	if (bytes < 0 || p->program < 0)
		program_die("/proc/self/exe: %s", strerror(errno));
	p->path[bytes] = '\0';
}

_Noreturn void supervise(struct server *server, char **argv)
{
	static struct parent parent;
	struct parent *p = &parent;

	p->server = server;
	p->argv = argv;
	p->board = board_make(server->nr_processes);
	server->board = p->board < 0 ? NULL : board_map(p->board, server->nr_processes);
	if (!server->board)
		program_die("the board of the processes: %s", strerror(errno));
	find_program(p);
	watch_signals(p);
	for (;;) {
		int number;

		reap(p);
		renew(p);
		for (unsigned i = 0; i < server->nr_processes; i++)
			look_after(p, &p->children[i]);
		if (p->ending && all_ended(p))
			exit(p->status);
		number = next_signal(p, next_look(p));
		if (number == SIGTERM || number == SIGINT || number == SIGQUIT)
			end_all(p, number, EXIT_SUCCESS);
		else if (number == SIGHUP)
			begin_renewal(p);
	}
}
