/* SPDX-License-Identifier: MIT */
/*
 * What the server answered, in numbers, for GET /metrics.
 *
 * DESIGN
 * Each loop counts for itself, in words that it alone writes.  Whichever loop is
 * asked reads those of all.  The figures order nothing, so relaxed atomics do.
 *
 * What evhttp answers without asking us is in no count: 413 for a body that is too
 * long, 400 for what is no HTTP.
 */
#include "config.h"

#include "server.h"

#include <errno.h>

#include <event2/buffer.h>

static const int codes[METRICS_CODES] = { 200, 400, 404, 405, 413, 500, 503, 504 };
static const char *const routes[NR_ROUTES] = {
	[ROUTE_WC] = "/wc",
	[ROUTE_SOBEL] = "/sobel",
	[ROUTE_METRICS] = "/metrics",
	[ROUTE_HEALTHZ] = "/healthz",
	[ROUTE_CRASH] = "/crash",
	[ROUTE_OTHER] = "other",
};

void metrics_count_answer(struct metrics *metrics, int route, int code)
{
	for (int i = 0; i < METRICS_CODES; i++)
		if (codes[i] == code)
			atomic_fetch_add_explicit(&metrics->answers[route][i], 1,
						  memory_order_relaxed);
}

static unsigned long long answers(const struct server *server, int route, int code)
{
	unsigned long long sum = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		sum += atomic_load_explicit(&server->loops[i].metrics.answers[route][code],
					    memory_order_relaxed);
	return sum;
}

static int write_server(const struct server *server, struct evbuffer *out)
{
	unsigned open = 0, used = 0;
	int ret = 0;

	ret |= evbuffer_add_printf(out, "# HELP http_server_answers_total Answers given.\n"
				   "# TYPE http_server_answers_total counter\n");
	for (int route = 0; route < NR_ROUTES; route++)
		for (int code = 0; code < METRICS_CODES; code++) {
			const unsigned long long nr = answers(server, route, code);

			if (nr)
				ret |= evbuffer_add_printf(out, "http_server_answers_total"
							   "{route=\"%s\",code=\"%d\"} %llu\n",
							   routes[route], codes[code], nr);
		}
	for (unsigned i = 0; i < server->opt.loops; i++) {
		const struct metrics *m = &server->loops[i].metrics;

		open += atomic_load_explicit(&m->nr_open, memory_order_relaxed);
		used += atomic_load_explicit(&m->nr_slots_used, memory_order_relaxed);
	}
	ret |= evbuffer_add_printf(out,
		"# HELP http_server_open Requests begun, and not all of their answer sent.\n"
		"# TYPE http_server_open gauge\n"
		"http_server_open %u\n"
		"# HELP http_server_slots_used Slots that hold a request.\n"
		"# TYPE http_server_slots_used gauge\n"
		"http_server_slots_used %u\n"
		"# HELP http_server_slots Slots that there are.\n"
		"# TYPE http_server_slots gauge\n"
		"http_server_slots %u\n",
		open, used, server->opt.slots);
	return ret < 0 ? -ENOMEM : 0;
}

static int write_pool(const struct server *server, struct evbuffer *out)
{
	int bytes = rnl_pool_stats_text(server->pool, NULL, NULL, 0);

	while (bytes >= 0) {
		const int room = bytes + 1024;	/* counts grow */
		struct evbuffer_iovec space;

		if (evbuffer_reserve_space(out, room, &space, 1) != 1)
			return -ENOMEM;
		bytes = rnl_pool_stats_text(server->pool, NULL, space.iov_base, (size_t)room);
		if (bytes >= 0 && bytes < room) {
			space.iov_len = (size_t)bytes;
			return evbuffer_commit_space(out, &space, 1) ? -ENOMEM : 0;
		}
	}
	return bytes;
}

int metrics_write(const struct server *server, struct evbuffer *out)
{
	const int ret = write_server(server, out);

	return ret ? ret : write_pool(server, out);
}
