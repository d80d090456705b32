/* SPDX-License-Identifier: MIT */
/*
 * The figures of GET /metrics.
 *
 * DESIGN
 * Each loop counts for itself, and the loop that answers GET /metrics adds up all counts.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <inttypes.h>

#include <event2/buffer.h>

void metrics_count_answer(struct metrics *metrics, int route, int code)
{
	for (int i = 0; i < ANSWER_CODES; i++)
		if (answer_codes[i].code == code)
			atomic_fetch_add(&metrics->answers[route][i], 1);
}

unsigned metrics_nr_open(const struct server *server)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load(&server->loops[i].metrics.nr_open);
	return nr;
}

static int write_figure(struct evbuffer *out, const char *name, const char *type,
			const char *help, uint64_t value)
{
	return evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help,
				   name, type, name, value);
}

static int write_server(const struct server *server, struct evbuffer *out)
{
	struct rnl_batcher_stats batches = RNL_BATCHER_STATS_INIT;
	unsigned used = 0;
	int ret = 0;

	ret |= evbuffer_add_printf(out, "# HELP http_server_answers_total Answers given.\n"
				   "# TYPE http_server_answers_total counter\n");
	for (int route = 0; route < NR_ROUTES; route++)
		for (int code = 0; code < ANSWER_CODES; code++) {
			unsigned long long nr = 0;

			for (unsigned i = 0; i < server->opt.loops; i++)
				nr += atomic_load(&server->loops[i].metrics.answers[route][code]);
			if (nr)
				ret |= evbuffer_add_printf(out, "http_server_answers_total"
							   "{route=\"%s\",code=\"%d\"} %llu\n",
							   routes[route].path ? routes[route].path :
							   "other", answer_codes[code].code,
							   nr);
		}
	for (unsigned i = 0; i < server->opt.loops; i++)
		used += atomic_load(&server->loops[i].metrics.nr_slots_used);
	ret |= write_figure(out, "http_server_open", "gauge",
			    "Requests begun, and not all of their answer sent.",
			    metrics_nr_open(server));
	ret |= write_figure(out, "http_server_connections", "gauge", "Clients that are connected.",
			    atomic_load(&server->nr_connections));
	ret |= write_figure(out, "http_server_bytes_under_way", "gauge",
			    "Bytes of bodies and answers under way.",
			    atomic_load(&server->bytes_under_way));
	ret |= write_figure(out, "http_server_slots_used", "gauge", "Slots that hold a request.",
			    used);
	ret |= write_figure(out, "http_server_slots", "gauge", "Slots that there are.",
			    server->opt.slots);
	if (server->batcher && !rnl_batcher_read_stats(server->batcher, &batches)) {
		ret |= write_figure(out, "http_server_small_images_total", "counter",
				    "Small images computed.", batches.requests);
		ret |= write_figure(out, "http_server_batches_total", "counter",
				    "Batches that they came in.", batches.batches);
	}
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
