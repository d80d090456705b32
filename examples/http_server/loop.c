/* SPDX-License-Identifier: MIT */
/*
 * An event loop: a thread with its own libevent and its own completion queue.
 *
 * DESIGN
 * Only the loop's thread uses its libevent, so no locks are needed.  A request never leaves the
 * loop of its connection: its job completes on the loop's completion queue, whose descriptor is
 * one more event.
 *
 * At the limit of --connections, the connection that was idle for longest is closed to make room.
 * If no connection is idle, or no descriptor is free, the loop stops accepting, and clients wait in
 * the listening socket.  The loop tries again when one of its connections ends, and periodically.
 *
 * A loop that stops still answers, and each answer says that the connection will close.  The loop
 * ends when no connection waits to be accepted, no request is open, and no byte has arrived for
 * --linger: HTTP cannot announce that an idle connection will be closed, and the client's next
 * request may be on its way.  If other processes have the listening sockets, or a parent keeps
 * them for the next process, the loop stops accepting immediately.
 *
 * If a parent started this process, the loop has a periodic timer, its beat.  At each beat the loop
 * shows that it is alive, and accepts from the sockets of processes that do not serve.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/listener.h>

#include <runnel/stats.h>
#include <runnel/thread.h>

#define REAP_MAX 64
#define PAUSE_MS 100		/* until a paused loop tries to accept again */

/* ---- running ------------------------------------------------------------- */

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
	struct rnl_job *jobs[REAP_MAX];
	struct loop *loop = arg;
	const int nr = rnl_cq_reap(loop->cq, jobs, REAP_MAX, 0);

	(void)fd;
	(void)what;
	/* If more jobs are done, the descriptor stays readable. */
	for (int i = 0; i < nr; i++)
		async_reaped(jobs[i]);
}

/* ---- accepting ----------------------------------------------------------- */

static bool is_full(const struct server *server)
{
	return atomic_load(&server->nr_connections) >= server->opt.connections;
}

static void drop_listener(struct loop *loop, unsigned process)
{
	if (loop->taken[process])
		evconnlistener_free(loop->taken[process]);
	loop->taken[process] = NULL;
}

static void pause_accepting(struct loop *loop)
{
	const struct timeval time = { 0, PAUSE_MS * 1000 };

	loop->paused = true;
	evconnlistener_disable(loop->listener);
	for (unsigned i = 0; i < PROCESSES_MAX; i++)
		drop_listener(loop, i);
	event_add(loop->resume, &time);
}

static void resume_accepting(struct loop *loop)
{
	if (!loop->paused || !loop->listener)
		return;
	if (is_full(loop->server)) {
		pause_accepting(loop);
	} else {
		loop->paused = false;
		evconnlistener_enable(loop->listener);
	}
}

static void on_resume(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	if (loop->listener && is_full(loop->server) &&
	    listener_pending(evconnlistener_get_fd(loop->listener)))
		(void)connections_make_space(loop);
	resume_accepting(loop);
}

static void on_connection(struct evconnlistener *listener, evutil_socket_t fd,
			  struct sockaddr *from, int from_len, void *arg)
{
	struct loop *loop = arg;

	(void)listener;
	(void)from;
	(void)from_len;
	loop->received++;
	atomic_fetch_add(&loop->server->nr_connections, 1);
	if (!connection_begin(loop, fd)) {
		close(fd);
		loop_left(loop);
	} else if (is_full(loop->server) && !connections_make_space(loop)) {
		pause_accepting(loop);
	}
}

/* Called when accept() has failed, most likely because no descriptor is free. */
static void on_refused(struct evconnlistener *listener, void *arg)
{
	const int err = errno;
	struct loop *loop = arg;

	(void)listener;
	if (!atomic_exchange(&loop->server->has_refused, true))
		program_warn("accepting a connection: %s; clients wait meanwhile (reported only "
			     "once)", strerror(err));
	pause_accepting(loop);
}

/* Returns a listener that accepts from the socket, and closes it when freed; or NULL. */
static struct evconnlistener *listen_on(struct loop *loop, int fd)
{
	struct evconnlistener *listener =
		evconnlistener_new(loop->base, on_connection, loop,
				   LEV_OPT_CLOSE_ON_FREE | LEV_OPT_CLOSE_ON_EXEC, 0, fd);

	if (listener)
		evconnlistener_set_error_cb(listener, on_refused);
	return listener;
}

void loop_left(struct loop *loop)
{
	atomic_fetch_sub(&loop->server->nr_connections, 1);
	resume_accepting(loop);
}

static void *run(void *arg)
{
	struct loop *loop = arg;
	struct server *server = loop->server;
	char name[16];
	int ret = 0;

	snprintf(name, sizeof(name), "loop-%u", (unsigned)(loop - server->loops));
	pthread_setname_np(pthread_self(), name);
	if (server->opt.handler == SYNC)
		ret = rnl_thread_attach(server->pool);
	/* -EIO: the device has failed already; each request gets an error. */
	if (ret && ret != -EIO)
		program_warn("creating a loop's stream: %s", rnl_strerror(ret));
	else
		event_base_dispatch(loop->base);
	if (server->opt.handler == SYNC)
		rnl_thread_attach(NULL);
	eventfd_write(server->ended_fd, 1);
	return NULL;
}

/* ---- with other processes ------------------------------------------------ */

static const struct timeval beat_time = { 0, 200000 };

static int listener_of(const struct loop *loop, unsigned process)
{
	const struct server *server = loop->server;

	return server->listeners[process * server->opt.loops + (unsigned)(loop - server->loops)];
}

/* Accepts for another process, from a copy of its socket, which the listener will close. */
static void take_listener(struct loop *loop, unsigned process)
{
	const int fd = fcntl(listener_of(loop, process), F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return;
	loop->taken[process] = listen_on(loop, fd);
	if (!loop->taken[process])
		close(fd);
}

/* Has the process replaced if a worker is stuck: a job that never returns blocks it permanently. */
static void look_for_stuck(const struct server *server)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	if (!server->opt.stuck_s || rnl_pool_health(server->pool, &health) ||
	    health.state != RNL_HEALTH_STUCK || health.stuck_ms < server->opt.stuck_s * 1000u)
		return;
	program_warn("a worker does not come back from a request for %u s", server->opt.stuck_s);
	eventfd_write(server->failed_fd, 1);
}

static void on_beat(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	const struct server *server = loop->server;
	struct place *own = board_own(server);

	(void)fd;
	(void)what;
	if (loop->stop_ns || atomic_load(&own->pid) != (int)getpid())
		return;
	atomic_store(&own->beat_ns[loop - server->loops], program_now_ns());
	for (unsigned i = 0; i < server->nr_processes; i++) {
		if (i == server->process)
			continue;
		if (board_serves(&server->board[i]))
			drop_listener(loop, i);
		else if (!loop->taken[i] && !loop->paused)
			take_listener(loop, i);
	}
	if (loop == server->loops) {
		look_for_stuck(server);
		board_post(server);
		if (!loop->told)
			atomic_store(&own->state, PLACE_SERVES);
		loop->told = true;
	}
}

/* ---- stopping ------------------------------------------------------------ */

static void tick(struct loop *loop)
{
	const unsigned ms = loop->server->opt.linger_ms;
	const struct timeval time = { ms / 1000, ms % 1000 * 1000 };

	loop->received_before = loop->received;
	event_add(loop->tick, &time);
}

static void close_listener(struct loop *loop)
{
	evconnlistener_free(loop->listener);
	loop->listener = NULL;
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	for (unsigned i = 0; i < PROCESSES_MAX; i++)
		drop_listener(loop, i);
	loop->stop_ns = program_now_ns();
	connections_stop(loop);
	if (atomic_load(&loop->server->leaves_listeners))
		close_listener(loop);
	else
		listener_deafen(evconnlistener_get_fd(loop->listener));
	tick(loop);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;
	const bool quiet = loop->received == loop->received_before && !connections_wait(loop) &&
			   !atomic_load(&loop->metrics.nr_slots_used);

	(void)fd;
	(void)what;
	if (loop->listener && !listener_pending(evconnlistener_get_fd(loop->listener)))
		close_listener(loop);
	if (quiet && !loop->listener) {
		event_base_loopbreak(loop->base);
		return;
	}
	if (quiet && loop->paused)	/* idle clients prevent new clients from being accepted */
		connections_close(loop);
	tick(loop);
}

/* ---- making -------------------------------------------------------------- */

static void must(int ret)
{
	program_must(ret, ret == -ENOMEM ? "creating an event loop (reduce --slots, --max-body or "
		     "--max-pixels)" : "creating an event loop");
}

static void *made(void *object)
{
	must(object ? 0 : -ENOMEM);
	return object;
}

static void make_events(struct loop *loop)
{
	loop->finished = made(event_new(loop->base, rnl_cq_fd(loop->cq), EV_READ | EV_PERSIST,
					on_finished, loop));
	loop->stop = made(event_new(loop->base, loop->stop_fd, EV_READ, on_stop, loop));
	loop->tick = made(evtimer_new(loop->base, on_tick, loop));
	loop->resume = made(evtimer_new(loop->base, on_resume, loop));
	if (loop->server->opt.handler == THREAD) {
		must(pipe2(loop->answered_fds, O_CLOEXEC) ? -errno : 0);
		loop->answered = made(event_new(loop->base, loop->answered_fds[0],
						EV_READ | EV_PERSIST, threads_reap, loop));
		if (event_add(loop->answered, NULL))
			must(-ENOMEM);
	}
	if (loop->server->board) {
		loop->beat = made(event_new(loop->base, -1, EV_PERSIST, on_beat, loop));
		if (event_add(loop->beat, &beat_time))
			must(-ENOMEM);
	}
	if (event_add(loop->finished, NULL) || event_add(loop->stop, NULL))
		must(-ENOMEM);
}

void loop_create(struct loop *loop, struct server *server, int listener)
{
	loop->server = server;
	loop->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	must(loop->stop_fd < 0 ? -errno : rnl_cq_create(&loop->cq));
	loop->base = made(event_base_new());
	make_events(loop);
	loop->listener = made(listen_on(loop, listener));
	routes_set(loop);
	must(slots_create(loop));
}

void loop_start(struct loop *loop)
{
	must(-pthread_create(&loop->thread, NULL, run, loop));
}

void loop_free(struct loop *loop)
{
	connections_close(loop);
	event_free(loop->resume);
	event_free(loop->finished);
	event_free(loop->stop);
	event_free(loop->tick);
	if (loop->beat)
		event_free(loop->beat);
	if (loop->answered) {
		event_free(loop->answered);
		close(loop->answered_fds[0]);
		close(loop->answered_fds[1]);
	}
	event_base_free(loop->base);
	close(loop->stop_fd);
	rnl_cq_destroy(loop->cq);
	slots_destroy(loop);
}
