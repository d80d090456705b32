/* SPDX-License-Identifier: MIT */
/*
 * An event loop: a thread that has its own evhttp and its own completion queue.
 *
 * DESIGN
 * One thread uses libevent and evhttp of a loop, so they take no locks, and a request never
 * leaves the loop of its connection: its job comes back by the loop's completion queue, whose
 * descriptor is one more event.
 *
 * A loop that stops goes on answering, and tells each client with its answer that the
 * connection ends.  The loop ends when no connection waits to be accepted, no request is open,
 * and no byte has come in for --linger: HTTP cannot tell a client that its idle connection
 * will be closed, and its next request may be on its way.  If the device has failed and a
 * parent keeps the listening sockets, the loop accepts no more at once.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#define REAP_MAX 64
#define HEADERS_MAX 16384	/* bytes */
#define IDLE_S 60		/* a connection may be, before it is closed */

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
		/* A client that reads no answers can have one request held, no more. */
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
	if (server->opt.sync)
		ret = rnl_thread_attach(server->pool);
	if (ret)
		fprintf(stderr, "http_server: a stream for a loop: %s\n", rnl_strerror(ret));
	else
		event_base_dispatch(loop->base);
	if (server->opt.sync)
		rnl_thread_detach();
	eventfd_write(server->ended_fd, 1);
	return NULL;
}

int loop_start(struct loop *loop)
{
	return -pthread_create(&loop->thread, NULL, run, loop);
}

/* ---- stopping ------------------------------------------------------------ */

void loop_stop(struct loop *loop)
{
	eventfd_write(loop->stop_fd, 1);
}

static void tick(struct loop *loop)
{
	const unsigned ms = loop->server->opt.linger_ms;
	const struct timeval time = {
		.tv_sec = ms / 1000,
		.tv_usec = ms % 1000 * 1000,
	};

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
	if (atomic_load(&loop->server->leaves_listeners))
		close_listener(loop);
	else
		listener_deafen(evhttp_bound_socket_get_fd(loop->listener));
	loop->received_before = loop->received;
	tick(loop);
}

static bool all_answered(struct loop *loop)
{
	return !atomic_load(&loop->metrics.nr_open) &&
	       !atomic_load(&loop->metrics.nr_slots_used);
}

static void on_tick(evutil_socket_t fd, short what, void *arg)
{
	struct loop *loop = arg;

	(void)fd;
	(void)what;
	if (loop->listener && !listener_pending(evhttp_bound_socket_get_fd(loop->listener)))
		close_listener(loop);
	if (!loop->listener && all_answered(loop) && loop->received == loop->received_before) {
		event_base_loopbreak(loop->base);
		return;
	}
	loop->received_before = loop->received;
	tick(loop);
}

/* ---- making -------------------------------------------------------------- */

static int make_events(struct loop *loop)
{
	loop->finished = event_new(loop->base, rnl_cq_fd(loop->cq), EV_READ | EV_PERSIST,
				   on_finished, loop);
	loop->stop = event_new(loop->base, loop->stop_fd, EV_READ, on_stop, loop);
	loop->tick = evtimer_new(loop->base, on_tick, loop);
	if (!loop->finished || !loop->stop || !loop->tick || event_add(loop->finished, NULL) ||
	    event_add(loop->stop, NULL))
		return -ENOMEM;
	return 0;
}

static int make_http(struct loop *loop, int listener)
{
	const struct options *opt = &loop->server->opt;

	loop->http = evhttp_new(loop->base);
	if (!loop->http)
		return -ENOMEM;
	loop->listener = evhttp_accept_socket_with_handle(loop->http, listener);
	if (!loop->listener)
		return -ENOMEM;
	evhttp_set_max_headers_size(loop->http, HEADERS_MAX);
	evhttp_set_max_body_size(loop->http, (ev_ssize_t)opt->max_body);
	/* A client listens to a 413 only when it has sent its request. */
	evhttp_set_flags(loop->http, EVHTTP_SERVER_LINGERING_CLOSE);
	evhttp_set_timeout(loop->http, IDLE_S);
	evhttp_set_bevcb(loop->http, on_connection, loop);
	return routes_set(loop);
}

int loop_init(struct loop *loop, struct server *server, int listener)
{
	const unsigned nr_slots = server->opt.slots / server->opt.loops;
	int ret;

	loop->server = server;
	loop->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (loop->stop_fd < 0)
		ret = -errno;
	else
		ret = rnl_cq_create(&loop->cq);
	if (!ret) {
		loop->base = event_base_new();
		ret = loop->base ? make_http(loop, listener) : -ENOMEM;
	}
	if (!loop->listener)
		close(listener);
	if (!ret)
		ret = make_events(loop);
	return ret ? ret : slots_create(loop, nr_slots);
}

void loop_fini(struct loop *loop)
{
	struct event *const events[] = { loop->finished, loop->stop, loop->tick };

	if (loop->http)
		evhttp_free(loop->http);
	for (unsigned i = 0; i < 3; i++)
		if (events[i])
			event_free(events[i]);
	if (loop->base)
		event_base_free(loop->base);
	if (loop->stop_fd >= 0)
		close(loop->stop_fd);
	rnl_cq_destroy(loop->cq);
	slots_destroy(loop);
}
