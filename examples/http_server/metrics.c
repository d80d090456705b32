/* SPDX-License-Identifier: MIT */
/*
 * The metrics of GET /metrics.
 *
 * DESIGN
 * Each loop has its own counters; the loop that answers GET /metrics adds all of them up.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <inttypes.h>

#include <event2/buffer.h>

#include <runnel/batch.h>
#include <runnel/stats.h>

/* ---- counting ------------------------------------------------------------ */

void metrics_count_answer(struct metrics *metrics, int route, int code)
{
	for (int i = 0; i < ANSWER_CODES; i++)
		if (answer_codes[i].code == code)
			atomic_fetch_add(&metrics->answers[route][i], 1);
}

/* 16, 24, 32, 48, 64, 96 us, ..., 12.6 s: each bound is a third or a half above the last one. */
uint64_t metrics_bound_us(int bucket)
{
	return (bucket % 2 ? UINT64_C(24) : UINT64_C(16)) << bucket / 2;
}

void metrics_count_time(struct metrics *metrics, int route, int64_t took_ns)
{
	int i = 0;

	while (i < METRICS_TIMES - 1 && took_ns > (int64_t)metrics_bound_us(i) * 1000)
		i++;
	atomic_fetch_add(&metrics->took[route][i], 1);
	atomic_fetch_add(&metrics->took_ns[route], (unsigned long long)took_ns);
}

/* ---- adding up ----------------------------------------------------------- */

unsigned long long metrics_answers(const struct server *server, int route, int code)
{
	unsigned long long nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load(&server->loops[i].metrics.answers[route][code]);
	return nr;
}

unsigned long long metrics_took(const struct server *server, int route, int bucket)
{
	unsigned long long nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load(&server->loops[i].metrics.took[route][bucket]);
	return nr;
}

unsigned metrics_nr_open(const struct server *server)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load(&server->loops[i].metrics.nr_open);
	return nr;
}

unsigned metrics_nr_slots_used(const struct server *server)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < server->opt.loops; i++)
		nr += atomic_load(&server->loops[i].metrics.nr_slots_used);
	return nr;
}

/* ---- writing ------------------------------------------------------------- */

static int write_figure(struct evbuffer *out, const char *name, const char *type,
			const char *help, uint64_t value)
{
	return evbuffer_add_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help,
				   name, type, name, value);
}

static int write_times(const struct server *server, int route, struct evbuffer *out)
{
	const char *path = routes[route].path;
	unsigned long long nr = 0, sum_ns = 0;
	int ret = 0;

	for (int i = 0; i < METRICS_TIMES - 1; i++) {
		nr += metrics_took(server, route, i);
		ret |= evbuffer_add_printf(out, "http_server_answer_seconds_bucket{route=\"%s\","
					   "le=\"%g\"} %llu\n", path,
					   (double)metrics_bound_us(i) / 1e6, nr);
	}
	nr += metrics_took(server, route, METRICS_TIMES - 1);
	for (unsigned i = 0; i < server->opt.loops; i++)
		sum_ns += atomic_load(&server->loops[i].metrics.took_ns[route]);
	return ret | evbuffer_add_printf(out, "http_server_answer_seconds_bucket{route=\"%s\","
					 "le=\"+Inf\"} %llu\n"
					 "http_server_answer_seconds_sum{route=\"%s\"} %.9f\n"
					 "http_server_answer_seconds_count{route=\"%s\"} %llu\n",
					 path, nr, path, (double)sum_ns / 1e9, path, nr);
}

static int write_server(const struct server *server, struct evbuffer *out)
{
	struct rnl_batcher_stats batches = RNL_BATCHER_STATS_INIT;
	int ret = 0;

	ret |= evbuffer_add_printf(out, "# HELP http_server_answers_total Answers given.\n"
				   "# TYPE http_server_answers_total counter\n");
	for (int route = 0; route < NR_ROUTES; route++)
		for (int code = 0; code < ANSWER_CODES; code++) {
			const unsigned long long nr = metrics_answers(server, route, code);

			if (nr)
				ret |= evbuffer_add_printf(out, "http_server_answers_total"
							   "{route=\"%s\",code=\"%d\"} %llu\n",
							   routes[route].path ? routes[route].path :
							   "other", answer_codes[code].code,
							   nr);
		}
	ret |= evbuffer_add_printf(out, "# HELP http_server_answer_seconds Time from a request's "
				   "last byte to the start of its answer.\n"
				   "# TYPE http_server_answer_seconds histogram\n");
	ret |= write_times(server, ROUTE_WC, out) | write_times(server, ROUTE_SOBEL, out);
	ret |= write_figure(out, "http_server_open", "gauge",
			    "Requests without a completely sent answer.",
			    metrics_nr_open(server));
	ret |= write_figure(out, "http_server_connections", "gauge", "Connected clients.",
			    atomic_load(&server->nr_connections));
	ret |= write_figure(out, "http_server_bytes_under_way", "gauge",
			    "Bytes of bodies and answers in memory.",
			    classes_bytes(server));
	ret |= write_figure(out, "http_server_slots_used", "gauge", "Slots that hold a request.",
			    metrics_nr_slots_used(server));
	ret |= write_figure(out, "http_server_slots", "gauge", "All slots.",
			    server->opt.slots);
	ret |= classes_write(server, out);
	if (server->batcher && !rnl_batcher_read_stats(server->batcher, &batches)) {
		ret |= write_figure(out, "http_server_small_images_total", "counter",
				    "Small images computed.", batches.requests);
		ret |= write_figure(out, "http_server_batches_total", "counter",
				    "Batches of small images.", batches.batches);
	}
	return ret < 0 ? -ENOMEM : 0;
}

static int write_pool(const struct server *server, struct evbuffer *out)
{
	int bytes = rnl_pool_stats_text(server->pool, NULL, NULL, 0);

	while (bytes >= 0) {
		const int room = bytes + 1024;	/* the text may grow meanwhile */
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
