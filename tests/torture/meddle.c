/* SPDX-License-Identifier: MIT */
/* Meddlers: resizes, drains, traces and reads of statistics while other threads work. */
#include "torture.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel/stats.h>
#include <runnel/trace.h>

static void resize(struct seat *seat)
{
	struct round *r = seat->round;

	while (!r->over) {
		int ret;

		at(seat, "rnl_pool_resize");
		/* A new worker's thread or stream may not be available. */
		ret = said(r, rnl_pool_resize(r->pool, r->nr_devices +
				   draw(&seat->random, WORKERS_MAX - r->nr_devices + 1)),
			   MAY_SHUT | MAY_LACK, "rnl_pool_resize");
		tally_add(NR_RESIZES, !ret);
		nap_us(draw(&seat->random, draw(&seat->random, 2) ? 500 : 10000));
	}
}

static void drain(struct seat *seat)
{
	struct round *r = seat->round;

	while (!r->over) {
		at(seat, "rnl_pool_drain");
		(void)said(r, rnl_pool_drain(r->pool, draw(&seat->random, 2) ? 0 : 2 * MS),
			   MAY_TIME_OUT, "rnl_pool_drain");
		tally_add(NR_DRAINS, 1);
		nap_us(draw(&seat->random, 5000));
	}
}

/* Checks that a finished trace is a complete JSON file. */
static void check_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char end[4] = "";

	if (!file || getc(file) != '[' || fseek(file, -3, SEEK_END) ||
	    fread(end, 1, 3, file) != 3 || strcmp(end, "\n]\n"))
		tally_wrong(COUNTS, "a trace's file does not open");
	if (file)
		fclose(file);
}

static void trace(struct seat *seat)
{
	struct round *r = seat->round;
	const char *dir = getenv("TMPDIR");
	char path[200];

	snprintf(path, sizeof(path), "%s/torture.%ld.json", dir ? dir : "/tmp", (long)getpid());
	while (!r->over) {
		struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;

		attr.timing = draw(&seat->random, 3);
		attr.buffer_bytes = 65536u << draw(&seat->random, 4);
		attr.file_max = 65536u << draw(&seat->random, 6);
		at(seat, "rnl_trace_start");
		if (said(r, rnl_trace_start(r->pool, path, &attr), MAY_LACK, "rnl_trace_start"))
			break;
		nap_us(draw(&seat->random, 20000));
		/* The end of the pool ends the trace. */
		if (r->over)
			break;
		at(seat, "rnl_trace_stop");
		if (!said(r, rnl_trace_stop(r->pool), 0, "rnl_trace_stop"))
			check_file(path);
		tally_add(NR_TRACES, 1);
		nap_us(draw(&seat->random, 5000));
	}
	(void)unlink(path);
}

static void check_stats(struct round *r)
{
	struct rnl_pool_stats before = RNL_POOL_STATS_INIT, after = RNL_POOL_STATS_INIT;

	if (said(r, rnl_pool_read_stats(r->pool, RNL_ALL_WORKERS, &before), 0, "rnl_pool_read_stats") ||
	    said(r, rnl_pool_read_stats(r->pool, RNL_ALL_WORKERS, &after), 0, "rnl_pool_read_stats"))
		return;
	if (before.done > after.accepted || before.done > after.done ||
	    before.failed > after.done || after.cancelled > after.done)
		tally_wrong(COUNTS, "of %llu jobs %llu are done, then of %llu %llu",
			    (unsigned long long)before.accepted, (unsigned long long)before.done,
			    (unsigned long long)after.accepted, (unsigned long long)after.done);
	(void)said(r, rnl_pool_read_stats(r->pool, 0, &before), 0, "rnl_pool_read_stats");
}

static void look_on(struct seat *seat)
{
	const size_t bytes = 1 << 16;
	struct round *r = seat->round;
	char *text = malloc(bytes);

	if (!text)
		abort();
	while (!r->over) {
		struct rnl_health health = RNL_HEALTH_INIT;
		const bool failing = r->failing;
		int ret;

		at(seat, "rnl_pool_read_stats");
		check_stats(r);
		at(seat, "rnl_pool_health");
		if (!said(r, rnl_pool_health(r->pool, &health), 0, "rnl_pool_health") &&
		    health.state == RNL_HEALTH_FAILED && !failing && !r->failing)
			tally_wrong(COUNTS, "a device that works is said to have failed: %d",
				    health.device_error);
		at(seat, "rnl_pool_stats_text");
		ret = said(r, rnl_pool_stats_text(r->pool, NULL, text, bytes), 0,
			   "rnl_pool_stats_text");
		if (!ret || (ret < 0 && !memory_lacks()))
			tally_wrong(COUNTS, "there is no text of the figures");
		nap_us(1 + draw(&seat->random, 3000));
	}
	free(text);
}

void meddle_begin(struct round *r)
{
	static void (*const fns[])(struct seat *seat) = { resize, drain, trace };
	static const char *const names[] = { "resizer", "drainer", "tracer" };

	seat_take(r, "onlooker", MEDDLES, look_on, NULL);
	for (unsigned i = 0; i < COUNT(fns); i++) {
		if (draw(&r->random, 2))
			seat_take(r, names[i], MEDDLES, fns[i], NULL);
	}
}
