/* SPDX-License-Identifier: MIT */
/*
 * http_server: counts words and finds edges for HTTP clients, on the workers of a
 * runnel pool.  This file starts it, waits for a signal, and ends it.
 *
 * DESIGN
 * One pool, which all event loops share.  A loop is a thread with an evhttp and a
 * completion queue of its own; main() is none of them.  Signals are blocked in
 * every thread, and main() reads SIGTERM and SIGINT from a descriptor, so nothing
 * is ever interrupted.  A signal that comes again changes nothing: the time to
 * finish in has a bound anyway, --grace.
 *
 * A process whose GPU has failed cannot have it back.  It stays, and answers 503,
 * until somebody ends it; told so, --exit-on-failure, it ends by itself, in the same
 * way as by a signal.  Sockets are opened before all else, so that --supervise has
 * them when it forks, before CUDA starts.
 *
 * Exit status: 0 all that was accepted is answered; 1 it is not, or the server
 * could not start; 2 wrong arguments; EXIT_DEVICE_FAILED.
 */
#include "config.h"

#include "guard.h"
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <time.h>
#include <unistd.h>

#include <jansson.h>

#define PINNED_SPARE (64u << 20)	/* bytes, for what is cut off the ends */
#define FAILED_GRACE_S 2u		/* nobody's request is worth more, if all are 503 */

static _Noreturn __attribute__((format(printf, 1, 2))) void die(const char *format, ...)
{
	va_list args;

	fputs("http_server: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	/* At once: threads may run, and what they do is lost anyway. */
	_exit(EXIT_FAILURE);
}

/* What the library has to say; any thread. */
static void log_message(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (level <= RNL_LOG_WARNING)
		fprintf(stderr, "http_server: %s\n", msg);
}

/* ---- starting ------------------------------------------------------------ */

/* Before there are threads.  Return: a descriptor that reads SIGTERM and SIGINT. */
static int take_signals(void)
{
	sigset_t signals;
	int fd;

	signal(SIGPIPE, SIG_IGN);	/* a client that is gone is an error of write() */
	sigemptyset(&signals);
	sigaddset(&signals, SIGTERM);
	sigaddset(&signals, SIGINT);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	fd = signalfd(-1, &signals, SFD_CLOEXEC);
	if (fd < 0)
		die("signalfd: %s", strerror(errno));
	return fd;
}

/* As many connections at a time as the system lets it have. */
static void raise_descriptor_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
}

static void create_pool(struct server *server)
{
	const struct options *opt = &server->opt;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int ret;

	attr.nr_workers = opt->workers;
	attr.device = opt->device;
	attr.stream = opt->stream;
	attr.max_queued = opt->queue;
	attr.name = "http";
	/* All slots' buffers, which are rounded up by a fifth at most. */
	attr.pinned_max = (uint64_t)opt->slots * 2 * slot_buffer_bytes(opt) / 4 * 5 + PINNED_SPARE;
	attr.guard = guard_wanted();
	attr.log = log_message;
	ret = rnl_pool_create(&server->pool, &attr);
	if (ret == -ENODEV)
		die("no GPU answers as --device=%s: use --device=host, or auto to take a GPU "
		    "where there is one", opt->device);
	if (ret)
		die("creating the workers: %s", rnl_strerror(ret));
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
	int ret = -ENOMEM;

	server->listeners = calloc(opt->loops, sizeof(*server->listeners));
	if (server->listeners)
		ret = listener_open((struct sockaddr *)&opt->addr, opt->addr_len,
				    server->listeners, opt->loops);
	if (ret) {
		print_address(opt, address, sizeof(address));
		die("listening on %s: %s", address, strerror(-ret));
	}
}

static void create_loops(struct server *server)
{
	const struct options *opt = &server->opt;
	int ret;

	server->loops = calloc(opt->loops, sizeof(*server->loops));
	server->ended_fd = eventfd(0, EFD_CLOEXEC);
	server->failed_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (!server->loops || server->ended_fd < 0 || server->failed_fd < 0)
		die("starting: %s", strerror(errno));
	for (unsigned i = 0; i < opt->loops; i++) {
		ret = loop_init(&server->loops[i], server, server->listeners[i]);
		if (ret)
			die("creating an event loop: %s%s", rnl_strerror(ret), ret == -ENOMEM ?
			    " (less --slots, --max-body or --max-pixels need less)" : "");
	}
	for (unsigned i = 0; i < opt->loops; i++) {
		ret = loop_start(&server->loops[i]);
		if (ret)
			die("starting an event loop: %s", strerror(-ret));
	}
}

static void announce(struct server *server)
{
	struct rnl_device_info device = RNL_DEVICE_INFO_INIT;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	char address[NI_MAXHOST + NI_MAXSERV], ordinal[16] = "";

	rnl_pool_device(server->pool, &device);
	rnl_pool_stats(server->pool, &stats);
	if (device.cuda)
		snprintf(ordinal, sizeof(ordinal), "cuda:%d, ", device.ordinal);
	print_address(&server->opt, address, sizeof(address));
	printf("listening on http://%s (device %s%s, %u loops, %u workers)\n", address, ordinal,
	       device.name, server->opt.loops, stats.nr_workers);
	fflush(stdout);
}

/* ---- ending -------------------------------------------------------------- */

static int64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Return: whether it is to end because the device has failed; else by a signal. */
static bool wait_for_end(const struct server *server, int signals)
{
	struct pollfd fds[] = {
		{ .fd = signals, .events = POLLIN },
		{ .fd = server->ended_fd, .events = POLLIN },
		/* poll() passes over a negative one. */
		{ .fd = server->opt.exit_on_failure ? server->failed_fd : -1, .events = POLLIN },
	};

	while (poll(fds, 3, -1) < 0)
		;
	if (fds[1].revents)
		die("an event loop ended by itself");
	return !fds[0].revents;
}

static unsigned nr_open(const struct server *server)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load_explicit(&server->loops[i].metrics.nr_open,
					   memory_order_relaxed);
	return nr;
}

/*
 * Loops that have told their end.  With --handler=sync their threads have used the device: if
 * that has failed, CUDA may never come back from the end of one.  Nobody waits for that.
 */
static void let_threads_go(struct server *server)
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

/* Has the loops finish, and waits for them. */
static void stop_loops(struct server *server, unsigned grace_s)
{
	const int64_t end_ms = now_ms() + (int64_t)grace_s * 1000;
	struct pollfd ended = { .fd = server->ended_fd, .events = POLLIN };
	unsigned left = server->opt.loops;

	for (unsigned i = 0; i < server->opt.loops; i++)
		loop_stop(&server->loops[i]);
	while (left) {
		const int64_t rest_ms = end_ms - now_ms();
		const int ready = poll(&ended, 1, rest_ms > 0 ? (int)rest_ms : 0);
		eventfd_t nr = 0;

		if (ready == 0)
			die("the grace of %u s is over: %u requests are not answered, and in %u "
			    "of %u loops clients are still busy", grace_s,
			    nr_open(server), left, server->opt.loops);
		if (ready > 0 && eventfd_read(server->ended_fd, &nr) == 0)
			left -= (unsigned)nr;
	}
	let_threads_go(server);
}

int main(int argc, char **argv)
{
	struct server server = { .serving_fd = -1 };
	unsigned grace_s;
	bool failed;
	int signals;

	rnl_setup();		/* without it there may be fewer streams at once, no more */
	options_parse(&server.opt, argc, argv);
	signals = take_signals();
	open_listeners(&server);
	if (server.opt.supervise)
		supervise(&server);
	raise_descriptor_limit();
	json_object_seed(0);
	create_pool(&server);
	create_loops(&server);
	announce(&server);
	if (server.serving_fd >= 0)
		eventfd_write(server.serving_fd, 1);

	failed = wait_for_end(&server, signals);
	grace_s = server.opt.grace_s;
	if (failed && grace_s > FAILED_GRACE_S)
		grace_s = FAILED_GRACE_S;
	atomic_store_explicit(&server.leaves_listeners, failed && server.opt.supervise,
			      memory_order_relaxed);
	stop_loops(&server, grace_s);
	for (unsigned i = 0; i < server.opt.loops; i++)
		loop_fini(&server.loops[i]);
	rnl_pool_destroy(server.pool);
	free(server.loops);
	free(server.listeners);
	close(server.ended_fd);
	close(server.failed_fd);
	close(signals);
	libevent_global_shutdown();
	return failed ? EXIT_DEVICE_FAILED : EXIT_SUCCESS;
}
