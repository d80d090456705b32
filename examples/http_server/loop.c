/* SPDX-License-Identifier: MIT */
/*
 * An event loop: a thread that has its own evhttp and its own completion queue.
 *
 * DESIGN
 * Only the loop's thread uses its libevent and evhttp, so they take no locks.  A request never
 * leaves the loop of its connection: its job comes back by the loop's completion queue, whose
 * descriptor is one more event.
 *
 * A loop that stops goes on answering, and each answer says that the connection ends.  The
 * loop ends when no connection waits to be accepted, no request is open, and no byte has come
 * in for --linger: HTTP cannot tell a client that its idle connection will be closed, and its
 * next request may be on its way.  If other processes have the listening sockets as well, the loop
 * stops accepting at once.
 *
 * With other processes the loop has a beat: it shows that it is alive, and accepts from the sockets
 * of processes that do not serve.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#define REAP_MAX 64
#define HEADERS_MAX 16384	/* bytes */
#define IDLE_S 60		/* until an idle connection is closed */

/* ---- running ------------------------------------------------------------- */

static void on_finished(evutil_socket_t fd, short what, void *arg)
{
	struct rnl_job *jobs[REAP_MAX];
	struct loop *loop = arg;
	const int nr = rnl_cq_reap(loop->cq, jobs, REAP_MAX);

	(void)fd;
	(void)what;
	/* If there are more, the descriptor stays readable. */
	for (int i = 0; i < nr; i++)
		async_reaped(jobs[i]);
}

static void on_received(struct evbuffer *in, const struct evbuffer_cb_info *info, void *arg)
{
	struct loop *loop = arg;

	(void)in;
	loop->received += info->n_added;
}

/* evhttp wants a bufferevent for a new connection. */
static struct bufferevent *on_connection(struct event_base *base, void *arg)
{
	struct bufferevent *connection = bufferevent_socket_new(base, -1, 0);
	struct loop *loop = arg;

	loop->received++;
	if (connection) {
		evbuffer_add_cb(bufferevent_get_input(connection), on_received, loop);
		/* Of a client that reads no answers one request is held, no more. */
		bufferevent_setwatermark(connection, EV_READ, 0,
					 loop->server->opt.max_body + HEADERS_MAX);
	}
	return connection;
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
	/* -EIO: the device has failed already, and each request is told so. */
	if (ret && ret != -EIO)
		program_warn("a stream for a loop: %s", rnl_strerror(ret));
	else
		event_base_dispatch(loop->base);
	if (server->opt.handler == SYNC)
		rnl_thread_detach();
	eventfd_write(server->ended_fd, 1);
	return NULL;
}

/* ---- beside other processes ---------------------------------------------- */

static const struct timeval beat_time = { 0, 200000 };

static int listener_of(const struct loop *loop, unsigned process)
{
	const struct server *server = loop->server;

	return server->listeners[process * server->opt.loops + (unsigned)(loop - server->loops)];
}

/* evhttp closes the descriptor that it is given. */
static void take_listener(struct loop *loop, unsigned process)
{
	const int fd = fcntl(listener_of(loop, process), F_DUPFD_CLOEXEC, 0);

	if (fd < 0)
		return;
	loop->taken[process] = evhttp_accept_socket_with_handle(loop->http, fd);
	if (!loop->taken[process])
		close(fd);
}

static void drop_listener(struct loop *loop, unsigned process)
{
	if (loop->taken[process])
		evhttp_del_accept_socket(loop->http, loop->taken[process]);
	loop->taken[process] = NULL;
}

/* A request that does not come back holds its worker for good: the process is to be replaced. */
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
	if (loop->stopping || atomic_load(&own->pid) != (int)getpid())
		return;
	atomic_store(&own->beat_ns[loop - server->loops], program_now_ns());
	for (unsigned i = 0; i < server->nr_processes; i++) {
		if (i == server->process)
			continue;
		if (board_serves(&server->board[i]))
			drop_listener(loop, i);
		else if (!loop->taken[i])
			take_listener(loop, i);
	}
	if (loop == server->loops) {
		look_for_stuck(server);
		board_post(server);
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
	evhttp_del_accept_socket(loop->http, loop->listener);
	loop->listener = NULL;
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	loop->stopping = true;
	for (unsigned i = 0; i < PROCESSES_MAX; i++)
		drop_listener(loop, i);
	if (atomic_load(&loop->server->leaves_listeners))
		close_listener(loop);
	else
		listener_deafen(evhttp_bound_socket_get_fd(loop->listener));
	tick(loop);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	if (loop->listener && !listener_pending(evhttp_bound_socket_get_fd(loop->listener)))
		close_listener(loop);
	if (!loop->listener && !atomic_load(&loop->metrics.nr_open) &&
	    !atomic_load(&loop->metrics.nr_slots_used) && loop->received == loop->received_before)
		event_base_loopbreak(loop->base);
	else
		tick(loop);
}

/* ---- making -------------------------------------------------------------- */

static void must(int ret)
{
	program_must(ret, ret == -ENOMEM ? "creating an event loop (less --slots, --max-body or "
		     "--max-pixels need less)" : "creating an event loop");
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

static void make_http(struct loop *loop, int listener)
{
	loop->http = made(evhttp_new(loop->base));
	loop->listener = made(evhttp_accept_socket_with_handle(loop->http, listener));
	evhttp_set_max_headers_size(loop->http, HEADERS_MAX);
	evhttp_set_max_body_size(loop->http, (ev_ssize_t)loop->server->opt.max_body);
	/* A client reads a 413 only when it has sent its whole request. */
	evhttp_set_flags(loop->http, EVHTTP_SERVER_LINGERING_CLOSE);
	evhttp_set_timeout(loop->http, IDLE_S);
	evhttp_set_bevcb(loop->http, on_connection, loop);
	must(routes_set(loop));
}

void loop_create(struct loop *loop, struct server *server, int listener)
{
	loop->server = server;
	loop->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	must(loop->stop_fd < 0 ? -errno : rnl_cq_create(&loop->cq));
	loop->base = made(event_base_new());
	make_http(loop, listener);
	make_events(loop);
	must(slots_create(loop));
}

void loop_start(struct loop *loop)
{
	must(-pthread_create(&loop->thread, NULL, run, loop));
}

void loop_free(struct loop *loop)
{
	evhttp_free(loop->http);
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
