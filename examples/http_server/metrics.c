/* SPDX-License-Identifier: MIT */
/*
 * The figures of GET /metrics.
 *
 * DESIGN
 * Each loop counts for itself, and the loop that answers GET /metrics adds up all counts.
 * evhttp's own answers are not counted: 413 for a body that is too long, 400 for a request
 * that is no HTTP.
 */
#include "config.h"

#include "server.h"

#include <errno.h>

#include <event2/buffer.h>

static const int codes[METRICS_CODES] = { 200, 400, 404, 405, 413, 500, 503, 504 };

void metrics_count_answer(struct metrics *metrics, int route, int code)
{
	for (int i = 0; i < METRICS_CODES; i++)
		if (codes[i] == code)
			atomic_fetch_add(&metrics->answers[route][i], 1);
}

unsigned metrics_nr_open(const struct server *server)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load(&server->loops[i].metrics.nr_open);
	return nr;
}

static int write_gauge(struct evbuffer *out, const char *name, const char *help, unsigned value)
{
	return evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s gauge\n%s %u\n", name, help, name,
				   name, value);
}

static int write_server(const struct server *server, struct evbuffer *out)
{
	unsigned used = 0;
	int ret = 0;

	ret |= evbuffer_add_printf(out, "# HELP http_server_answers_total Answers given.\n"
				   "# TYPE http_server_answers_total counter\n");
	for (int route = 0; route < NR_ROUTES; route++)
		for (int code = 0; code < METRICS_CODES; code++) {
			unsigned long long nr = 0;

			for (unsigned i = 0; i < server->opt.loops; i++)
				nr += atomic_load(&server->loops[i].metrics.answers[route][code]);
			if (nr)
				ret |= evbuffer_add_printf(out, "http_server_answers_total"
							   "{route=\"%s\",code=\"%d\"} %llu\n",
							   routes[route].path ? routes[route].path :
							   "other", codes[code], nr);
		}
	for (unsigned i = 0; i < server->opt.loops; i++)
		used += atomic_load(&server->loops[i].metrics.nr_slots_used);
	ret |= write_gauge(out, "http_server_open",
			   "Requests begun, and not all of their answer sent.",
			   metrics_nr_open(server));
	ret |= write_gauge(out, "http_server_slots_used", "Slots that hold a request.", used);
	ret |= write_gauge(out, "http_server_slots", "Slots that there are.", server->opt.slots);
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

int metrics_write_own(const struct server *server, struct evbuffer *out)
{
	const int ret = write_server(server, out);

	return ret ? ret : write_pool(server, out);
}

int metrics_write(const struct server *server, struct evbuffer *out)
{
	if (!server->board)
		return metrics_write_own(server, out);
	return board_metrics(server, out) ? -ENOMEM : 0;
}
