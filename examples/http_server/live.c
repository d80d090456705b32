/* SPDX-License-Identifier: MIT */
/*
 * The data of GET /live, which the page shows.
 *
 * DESIGN
 * Counts are totals since the server's start, and all processes read times from one clock.  The
 * page computes rates and quantiles from two answers, so the server keeps no state for its
 * readers.  "processes" is a list; each entry has the time at which its data were written.
 */
#include "config.h"

#include "server.h"

#include <stdio.h>
#include <unistd.h>

#include <jansson.h>

#include <runnel/device.h>
#include <runnel/stats.h>
#include <runnel/trace.h>

/* Returns counts like { "/wc": { "200": 12 } }; a count of 0 is omitted. */
static json_t *answers_json(const struct server *server)
{
	json_t *all = json_object();

	for (int route = 0; route < NR_ROUTES; route++) {
		json_t *one = json_object();

		for (int code = 0; code < ANSWER_CODES; code++) {
			const unsigned long long nr = metrics_answers(server, route, code);
			char name[16];

			snprintf(name, sizeof(name), "%d", answer_codes[code].code);
			if (nr)
				json_object_set_new(one, name, json_integer((json_int_t)nr));
		}
		if (json_object_size(one))
			json_object_set_new(all, routes[route].path ? routes[route].path : "other",
					    one);
		else
			json_decref(one);
	}
	return all;
}

/* Returns the histogram of the tasks' times. */
static json_t *times_json(const struct server *server)
{
	json_t *bounds = json_array(), *answers = json_array();

	for (int i = 0; i < METRICS_TIMES; i++) {
		if (i < METRICS_TIMES - 1)
			json_array_append_new(bounds,
					      json_integer((json_int_t)metrics_bound_us(i)));
		json_array_append_new(answers, json_integer((json_int_t)(
			metrics_took(server, ROUTE_WC, i) + metrics_took(server, ROUTE_SOBEL, i))));
	}
	return json_pack("{s:o, s:o}", "bounds_us", bounds, "answers", answers);
}

static json_t *devices_json(const struct server *server)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	json_t *names = json_array();

	info.nr_devices = 1;
	for (unsigned i = 0;
	     i < info.nr_devices && !rnl_device_describe(server->pool, NULL, i, &info); i++)
		json_array_append_new(names, json_string(info.name));
	return names;
}

static json_t *overlap_json(const struct server *server, int64_t now_ns)
{
	struct spans_overlap overlap = { 0 };

	if (spans_overlap(server, now_ns, &overlap))
		return NULL;
	return json_pack("{s:I, s:I, s:I}", "jobs", (json_int_t)overlap.nr_jobs,
			 "busy_us", (json_int_t)overlap.busy_ns / 1000,
			 "sum_us", (json_int_t)overlap.sum_ns / 1000);
}

json_t *live_own(const struct server *server)
{
	const int64_t now_ns = rnl_clock();
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;

	rnl_pool_read_stats(server->pool, RNL_ALL_WORKERS, &stats);
	rnl_pool_health(server->pool, &health);
	return json_pack("{s:I, s:i, s:s, s:o, s:I, s:i, s:i, s:i, s:i, s:I, s:I, s:o, s:o, s:o, s:o}",
			 "now_us", (json_int_t)now_ns / 1000, "pid", (int)getpid(),
			 "state", health_name(health.state),
			 "devices", devices_json(server),
			 "began_us", (json_int_t)server->began_ns / 1000,
			 "workers", (int)stats.nr_workers, "slots", (int)server->opt.slots,
			 "slots_used", (int)metrics_nr_slots_used(server),
			 "open", (int)metrics_nr_open(server),
			 "queued", (json_int_t)stats.queued,
			 "in_flight", (json_int_t)stats.in_flight,
			 "answers", answers_json(server), "times", times_json(server),
			 "overlap", overlap_json(server, now_ns),
			 "timeline", spans_json(server, stats.nr_workers, now_ns));
}

json_t *live_json(const struct server *server)
{
	json_t *processes = server->board ? board_live(server) :
					    json_pack("[o]", live_own(server));

	return json_pack("{s:I, s:{s:I, s:I}, s:o}", "now_us", (json_int_t)rnl_clock() / 1000,
			 "limits", "body_bytes", (json_int_t)server->opt.max_body,
			 "pixels", (json_int_t)server->opt.max_pixels,
			 "processes", processes);
}
