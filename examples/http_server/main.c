/* SPDX-License-Identifier: MIT */
/*
 * http_server: this file starts the server, waits for a signal, and ends it.
 *
 * DESIGN
 * All event loops share one pool.  A loop is a thread with its own libevent and completion queue.
 * The signals that end the server are blocked in every thread, and main() reads them from a
 * descriptor, so no call is interrupted.  A second signal changes nothing, because --grace limits
 * the end in any case.  In the last part of the grace the pool is stopped.  When the grace is over,
 * the process reports the requests that were not finished, and exits.
 *
 * A process cannot use its GPU again after a failure.  It continues, and answers 503; or, with
 * --exit-on-failure, it ends as after a signal.  With --processes or --gpus, the first process
 * is the parent of the processes that serve (supervise.c).
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <limits.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <jansson.h>

#include <runnel/batch.h>
#include <runnel/device.h>
#include <runnel/stats.h>

#define PINNED_SPARE (64u << 20)	/* bytes: regions are large even for few slots */
#define SCRATCH_SPARE (64u << 10)	/* bytes that rounding up may add */
#define STOP_PART 4u			/* the pool is stopped for the last 1/4 of the grace */
#define LAST_S 3			/* for the last messages, after the grace */
#define FAILED_PART 5u			/* after a failure 1/5 is enough: all answers are 503 */

/* Prints the library's errors and warnings.  Context: any thread. */
static void log_message(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (level <= RNL_LOG_WARNING)
		program_warn("%s", msg);
}

/* ---- the processes of a parent ------------------------------------------- */

static bool gpu_answers(unsigned gpu)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	char name[16];

	snprintf(name, sizeof(name), "cuda:%u", gpu);
	return !rnl_device_describe(NULL, name, 0, &info);
}

/* Counts GPUs in a child process: the parent must not call CUDA before it forks. */
static unsigned nr_gpus(void)
{
	const pid_t child = fork();
	unsigned nr = 0;
	int status;

	if (!child) {
		while (nr < PROCESSES_MAX && gpu_answers(nr))
			nr++;
		_exit((int)nr);
	}
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		program_die("asking for GPUs: %s", child < 0 ? strerror(errno) : "it died");
	return (unsigned)WEXITSTATUS(status);
}

/* Returns the parent's number of processes; 0: there is no parent, this process serves. */
static unsigned count_processes(const struct options *opt)
{
	unsigned nr = 1;

	if (!opt->gpus)
		return opt->processes;
	if (!strcmp(opt->gpus, "all")) {
		nr = nr_gpus();
		if (!nr)
			program_die("--gpus=all: no GPU answers");
	} else {
		for (const char *at = opt->gpus; *at; at++)
			nr += *at == ',';
	}
	if (nr > PROCESSES_MAX)
		program_die("--gpus: %u GPUs are more than %d", nr, PROCESSES_MAX);
	return nr;
}

/* With --gpus, chooses this process's GPU: process 0 uses the first one of the list, and so on. */
static void choose_gpu(struct server *server)
{
	static char name[16];
	const char *at = server->opt.gpus;
	unsigned gpu = server->process;

	if (!at)
		return;
	if (strcmp(at, "all")) {
		for (unsigned i = 0; i < server->process; i++)
			if (!(at = strchr(at, ',')) || !*++at)
				program_die("--gpus=%s has no GPU for process %u: restart the parent",
					    server->opt.gpus, server->process);
		gpu = (unsigned)strtoul(at, NULL, 10);
	}
	snprintf(name, sizeof(name), "cuda:%u", gpu);
	server->opt.device = name;
}

/* Begins to serve, and notifies the parent. */
static void tell_serving(struct server *server)
{
	struct place *own;

	if (!server->board)
		return;
	own = board_own(server);
	for (unsigned i = 0; i < server->opt.loops; i++)
		atomic_store(&own->beat_ns[i], program_now_ns());
	/* The first loop's next beat posts the metrics, and sets PLACE_SERVES. */
	atomic_store(&own->pid, (int)getpid());
}

/* Leaves this process's connections to the other processes. */
static void leave_sockets(struct server *server)
{
	atomic_store(&server->leaves_listeners, true);
	if (atomic_load(&board_own(server)->pid) == (int)getpid())
		atomic_store(&board_own(server)->state, PLACE_EMPTY);
}

/* ---- starting ------------------------------------------------------------ */

static void end_signals(sigset_t *signals)
{
	struct sigaction before;

	sigemptyset(signals);
	sigaddset(signals, SIGTERM);
	sigaddset(signals, SIGINT);
	sigaddset(signals, SIGQUIT);
	/* nohup starts programs with SIGHUP ignored. */
	if (sigaction(SIGHUP, NULL, &before) || before.sa_handler != SIG_IGN)
		sigaddset(signals, SIGHUP);
}

/* Returns a descriptor for the signals that end the server.  Context: no threads yet. */
static int take_signals(void)
{
	sigset_t signals;
	int fd;

	signal(SIGPIPE, SIG_IGN);	/* write() to a client that has left returns an error */
	signal(SIGUSR1, SIG_IGN);	/* by default they end the process, and lose requests */
	signal(SIGUSR2, SIG_IGN);
	end_signals(&signals);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	fd = signalfd(-1, &signals, SFD_CLOEXEC);
	if (fd < 0)
		program_die("signalfd: %s", strerror(errno));
	return fd;
}

/* It ends with the pool. */
static void start_trace(const struct server *server)
{
	char path[PATH_MAX];

	if (server->board)
		snprintf(path, sizeof(path), "%s.%u", server->opt.trace, server->process);
	else
		snprintf(path, sizeof(path), "%s", server->opt.trace);
	program_must(rnl_trace_start(server->pool, path, NULL), path);
}

static void create_pool(struct server *server)
{
	const struct options *opt = &server->opt;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.nr_workers = opt->workers;
	attr.device = opt->device;
	attr.stream = opt->stream;
	attr.max_queued = opt->queue;
	attr.name = "http";
	/* Twice the buffers, because sizes are rounded up, and the ends of regions stay unused. */
	attr.pinned_max = 2 * ((uint64_t)opt->slots * 2 * slot_buffer_bytes(opt) +
			       small_pinned_bytes(opt)) + PINNED_SPARE;
	/* A worker that kept less scratch would allocate it again for each job. */
	attr.scratch_keep = 2 * (uint64_t)slot_buffer_bytes(opt) + SCRATCH_SPARE;
	attr.log = log_message;
	server->pool = program_pool(&attr);
	program_must(classes_create(server), "creating the classes of requests");
	program_must(small_create(server), "creating the batcher of small images");
	if (opt->trace)
		start_trace(server);
}

/* Writes "127.0.0.1:8080", or "[::1]:8080". */
static void print_address(const struct options *opt, char *text, size_t bytes)
{
	char host[NI_MAXHOST] = "?", port[NI_MAXSERV] = "?";
	const bool colons = opt->addr.ss_family == AF_INET6;

	getnameinfo((const struct sockaddr *)&opt->addr, opt->addr_len, host, sizeof(host), port,
		    sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV);
	snprintf(text, bytes, colons ? "[%s]:%s" : "%s:%s", host, port);
}

static void open_listeners(struct server *server)
{
	struct options *opt = &server->opt;
	char address[NI_MAXHOST + NI_MAXSERV];
	const unsigned nr = opt->loops * (server->nr_processes ? server->nr_processes : 1);
	int ret;

	server->listeners_passed = listener_take(server->listeners, nr);
	if (server->listeners_passed) {
		opt->addr_len = sizeof(opt->addr);
		getsockname(server->listeners[0], (struct sockaddr *)&opt->addr, &opt->addr_len);
		return;
	}
	ret = listener_open((struct sockaddr *)&opt->addr, opt->addr_len, server->listeners, nr);
	if (ret) {
		print_address(opt, address, sizeof(address));
		program_die("listening on %s: %s", address, strerror(-ret));
	}
}

static void start_loops(struct server *server)
{
	server->ended_fd = eventfd(0, EFD_CLOEXEC);
	server->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (server->ended_fd < 0 || server->failed_fd < 0)
		program_die("starting: %s", strerror(errno));
	/* Create all loops first: a request may make the device fail, which stops all of them. */
	for (unsigned i = 0; i < server->opt.loops; i++)
		loop_create(&server->loops[i], server,
			    server->listeners[server->process * server->opt.loops + i]);
	for (unsigned i = 0; i < server->opt.loops; i++)
		loop_start(&server->loops[i]);
}

static void announce(struct server *server)
{
	struct rnl_device_info device = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	char address[NI_MAXHOST + NI_MAXSERV], ordinal[16] = "";

	rnl_device_describe(server->pool, NULL, 0, &device);
	rnl_pool_read_stats(server->pool, RNL_ALL_WORKERS, &stats);
	if (device.cuda)
		snprintf(ordinal, sizeof(ordinal), "cuda:%d, ", device.ordinal);
	print_address(&server->opt, address, sizeof(address));
	printf("listening on http://%s (device %s%s, %u loops, %u workers)\n", address, ordinal,
	       device.name, server->opt.loops, stats.nr_workers);
	bound_print(server, device.cuda);
	program_flush();
}

/* ---- ending -------------------------------------------------------------- */

enum reason { BY_SIGNAL, BY_ORDER, BY_FAILURE };

/* Returns the reason for the end: a signal, the parent's order, or a failed device. */
static enum reason wait_for_end(const struct server *server, int signals)
{
	/* poll() ignores a negative descriptor. */
	struct pollfd fds[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = server->ended_fd, .events = POLLIN },
		{ .fd = server->board ? server->leave_fd : -1, .events = POLLIN },
		{ .fd = server->opt.exit_on_failure ? server->failed_fd : -1, .events = POLLIN },
	};

	while (poll(fds, 4, -1) < 0)
		;
	if (fds[1].revents)
		program_die("an event loop ended unexpectedly");
	return fds[0].revents ? BY_SIGNAL : fds[2].revents ? BY_ORDER : BY_FAILURE;
}

/*
 * Joins the threads of loops that have ended.  If the device has failed, only detaches them: with
 * --handler=sync they have used the device, and CUDA may never let them end.
 */
static void end_threads(struct server *server)
{
	struct rnl_health health = RNL_HEALTH_INIT;
	const bool failed = !rnl_pool_health(server->pool, &health) &&
			    health.state == RNL_HEALTH_FAILED;

	for (unsigned i = 0; i < server->opt.loops; i++) {
		if (failed)
			pthread_detach(server->loops[i].thread);
		else
			pthread_join(server->loops[i].thread, NULL);
	}
}

/* Reports the unfinished requests, and the cause of each. */
static void log_held(const struct server *server)
{
	struct rnl_unfinished unfinished[PROGRAM_WORKERS_MAX + 1];
	struct rnl_health health = RNL_HEALTH_INIT;

	health.unfinished = unfinished;
	health.max_unfinished = PROGRAM_WORKERS_MAX + 1;
	rnl_pool_health(server->pool, &health);
	for (unsigned i = 0; i < health.nr_unfinished && i < health.max_unfinished; i++) {
		const struct slot *slot = slot_find(server, unfinished[i].job);

		program_warn("%s is held by %s for %.1f s, on worker %u",
			     slot ? slot->endpoint->route->path : "a job",
			     unfinished[i].where == RNL_IN_DEVICE ? "the device" :
			     unfinished[i].where == RNL_IN_HOLD ? "a hold" : "its function",
			     (double)unfinished[i].for_ns / 1e9, unfinished[i].worker);
	}
	if (health.nr_unfinished > health.max_unfinished)
		program_warn("and %u more", health.nr_unfinished - health.max_unfinished);
}

/*
 * Makes the loops end, and waits for them.  In the last part of the grace, jobs that have not
 * started are cancelled, and running ones are notified, so that their requests are still answered.
 */
static void stop_loops(struct server *server, unsigned grace_s)
{
	const uint64_t end_ns = program_now_ns() + grace_s * UINT64_C(1000000000);
	const uint64_t stop_ns = end_ns - grace_s * UINT64_C(1000000000) / STOP_PART;
	struct pollfd ended = { .fd = server->ended_fd, .events = POLLIN };
	unsigned left = server->opt.loops;
	bool stopped = false;

	atomic_store(&server->grace_ns, grace_s * UINT64_C(1000000000));
	for (unsigned i = 0; i < server->opt.loops; i++)
		eventfd_write(server->loops[i].stop_fd, 1);
	while (left) {
		const uint64_t until_ns = stopped ? end_ns : stop_ns;
		const int64_t rest_ms = (int64_t)(until_ns - program_now_ns()) / 1000000;
		const int ready = poll(&ended, 1, rest_ms > 0 ? (int)rest_ms : 0);
		eventfd_t nr = 0;

		if (ready == 0 && !stopped) {
			(void)rnl_pool_stop(server->pool, 0);
			stopped = true;
			continue;
		}
		if (ready == 0) {
			/* If writing to standard error blocks, SIGALRM ends the process. */
			alarm(LAST_S);
			log_held(server);
			program_die("the grace of %u s is over: %u requests are not answered, and "
				    "in %u of %u loops clients are still busy", grace_s,
				    metrics_nr_open(server), left, server->opt.loops);
		}
		if (ready > 0 && eventfd_read(server->ended_fd, &nr) == 0)
			left -= (unsigned)nr;
	}
	end_threads(server);
}

int main(int argc, char **argv)
{
	static struct server server;
	unsigned grace_s;
	enum reason reason;
	int signals;

	program_begin();
	options_parse(&server.opt, argc, argv);
	program_raise_file_limit();
	if (!supervise_join(&server)) {
		server.nr_processes = count_processes(&server.opt);
		open_listeners(&server);
		if (server.nr_processes)
			supervise(&server, argv);
	}
	choose_gpu(&server);
	signals = take_signals();
	json_object_seed(0);
	server.began_ns = rnl_clock();
	create_pool(&server);
	start_loops(&server);
	announce(&server);
	tell_serving(&server);

	reason = wait_for_end(&server, signals);
	grace_s = server.opt.grace_s;
	if (reason == BY_FAILURE)
		grace_s = (grace_s + FAILED_PART - 1) / FAILED_PART;
	if (server.board && reason != BY_SIGNAL)
		leave_sockets(&server);
	else
		atomic_store(&server.leaves_listeners, server.listeners_passed);
	stop_loops(&server, grace_s);
	for (unsigned i = 0; i < server.opt.loops; i++)
		loop_free(&server.loops[i]);
	rnl_batcher_destroy(server.batcher);
	rnl_pool_destroy(server.pool);
	libevent_global_shutdown();
	return reason == BY_FAILURE ? EXIT_DEVICE_FAILED : EXIT_SUCCESS;
}
