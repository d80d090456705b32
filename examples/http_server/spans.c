/* SPDX-License-Identifier: MIT */
/*
 * The workers' activity in the last seconds: the page's timeline, and the jobs' overlap.
 *
 * DESIGN
 * A span is the time of a job on its worker: it begins with the job's function, and ends when the
 * loop reaps the job, microseconds after it has completed on the device.  A loop records spans in
 * memory of a fixed size, for any load:
 *
 *	columns		how long a worker had jobs of each kind, in each 20 ms.  A job that waits
 *			for others on its stream counts from the end of the previous job.
 *	latest		the last spans, one by one, to compute the overlap.  Under load they
 *			cover less than 6 s; only the time that all loops cover is used.
 *
 * Both are arrays of words.  Only the loop writes them, and each word is consistent by itself, so
 * other loops can read them at any time without a lock:
 *
 *	column		its number (22 bits), then 14 bits for each kind
 *	span		its begin (36 bits), its length (22 bits), its worker (6 bits)
 *
 * Column numbers wrap after 23 hours, begins of spans after 5 hours: old words may appear as new.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdlib.h>

#include <jansson.h>

#include <runnel/trace.h>

#define COLUMN_NS INT64_C(20000000)
#define UNIT_NS 2000		/* resolution of a column */
#define UNITS_MAX 0x3fffu	/* more than a column has */
#define NUMBER_MASK 0x3fffffu
#define TICK_SHIFT 8		/* resolution of a span: 256 ns */
#define BEGIN_MASK 0xfffffffffu
#define LENGTH_MASK 0x3fffffu
#define WORKER_MASK 0x3fu
#define LEVELS 35		/* levels of a column in JSON: 0 to 9, a to z */

/* ---- recording ----------------------------------------------------------- */

static unsigned kind_shift(enum span_kind kind)
{
	return 22 + 14 * ((unsigned)kind - 1);
}

static void add_to_column(atomic_ullong *columns, int64_t number, enum span_kind kind, int64_t ns)
{
	const unsigned long long stamp = (unsigned long long)number & NUMBER_MASK;
	atomic_ullong *column = &columns[number % SPAN_COLUMNS];
	unsigned long long word = atomic_load_explicit(column, memory_order_relaxed), units;

	if ((word & NUMBER_MASK) != stamp)
		word = stamp;
	units = word >> kind_shift(kind) & UNITS_MAX;
	units += (unsigned long long)(ns + UNIT_NS - 1) / UNIT_NS;
	word &= ~((unsigned long long)UNITS_MAX << kind_shift(kind));
	word |= (units < UNITS_MAX ? units : UNITS_MAX) << kind_shift(kind);
	atomic_store_explicit(column, word, memory_order_relaxed);
}

static void note_latest(struct spans *spans, unsigned worker, int64_t begin_ns, int64_t end_ns)
{
	const unsigned long long nr = atomic_load_explicit(&spans->nr, memory_order_relaxed);
	const unsigned long long begin = (unsigned long long)begin_ns >> TICK_SHIFT & BEGIN_MASK;
	const unsigned long long length = (unsigned long long)(end_ns - begin_ns) >> TICK_SHIFT;

	atomic_store_explicit(&spans->latest[nr % SPANS_LATEST], begin << 28 |
			      (length < LENGTH_MASK ? length : LENGTH_MASK) << 6 | worker,
			      memory_order_relaxed);
	atomic_store(&spans->nr, nr + 1);
}

void spans_note(struct spans *spans, unsigned worker, enum span_kind kind, int64_t begin_ns,
		int64_t end_ns)
{
	const int64_t oldest_ns = (end_ns / COLUMN_NS - SPAN_COLUMNS + 1) * COLUMN_NS;
	int64_t at = begin_ns;

	if (kind == SPAN_NONE)
		return;
	note_latest(spans, worker, begin_ns, end_ns);
	if (at < spans->ended_ns[worker])
		at = spans->ended_ns[worker];
	if (at < oldest_ns)
		at = oldest_ns;
	spans->ended_ns[worker] = end_ns;
	while (at < end_ns) {
		const int64_t number = at / COLUMN_NS, next = (number + 1) * COLUMN_NS;
		const int64_t to = next < end_ns ? next : end_ns;

		add_to_column(spans->columns[worker], number, kind, to - at);
		at = to;
	}
}

/* ---- columns ------------------------------------------------------------- */

/* Returns the time of a kind in a column, in units. */
static unsigned long long read_column(const struct server *server, unsigned worker,
				      enum span_kind kind, int64_t number)
{
	unsigned long long units = 0;

	for (unsigned i = 0; i < server->opt.loops; i++) {
		const unsigned long long word = atomic_load_explicit(
			&server->loops[i].spans.columns[worker][number % SPAN_COLUMNS],
			memory_order_relaxed);

		if ((word & NUMBER_MASK) == ((unsigned long long)number & NUMBER_MASK))
			units += word >> kind_shift(kind) & UNITS_MAX;
	}
	return units;
}

/* Writes the columns up to @number, one character each.  Returns false if all are empty. */
static bool draw(const struct server *server, unsigned worker, enum span_kind kind,
		 int64_t number, char *text)
{
	const unsigned long long full = COLUMN_NS / UNIT_NS;
	bool any = false;

	for (int i = 0; i < SPAN_COLUMNS; i++) {
		const unsigned long long units =
			read_column(server, worker, kind, number - SPAN_COLUMNS + 1 + i);
		const unsigned long long level = (units * LEVELS + full - 1) / full;

		text[i] = "0123456789abcdefghijklmnopqrstuvwxyz"[level < LEVELS ? level : LEVELS];
		any |= level;
	}
	return any;
}

struct json_t *spans_json(const struct server *server, unsigned nr_workers, int64_t now_ns)
{
	static const char *const names[NR_SPAN_KINDS] = {
		[SPAN_WORDS] = "words", [SPAN_EDGES] = "edges", [SPAN_PNG] = "png",
	};
	const unsigned nr = server->opt.handler == SYNC ? server->opt.loops : nr_workers;
	const int64_t number = now_ns / COLUMN_NS;
	json_t *workers = json_array();
	int ret = 0;

	for (unsigned worker = 0; worker < nr; worker++) {
		json_t *drawn = json_object();

		for (int kind = 1; kind < NR_SPAN_KINDS; kind++) {
			char text[SPAN_COLUMNS];

			if (draw(server, worker, (enum span_kind)kind, number, text))
				ret |= json_object_set_new(drawn, names[kind],
							   json_stringn(text, sizeof(text)));
		}
		ret |= json_array_append_new(workers, drawn);
	}
	if (ret) {
		json_decref(workers);
		return NULL;
	}
	return json_pack("{s:I, s:I, s:i, s:s, s:o}", "column_us", (json_int_t)COLUMN_NS / 1000,
			 "end_us", (json_int_t)((number + 1) * COLUMN_NS / 1000),
			 "levels", LEVELS, "of", server->opt.handler == SYNC ? "loop" : "worker",
			 "workers", workers);
}

/* ---- overlap ------------------------------------------------------------- */

struct span_time {
	uint64_t begin_ns, end_ns;
};

static struct span_time read_span(const struct spans *spans, unsigned long long i, int64_t now_ns)
{
	const unsigned long long word =
		atomic_load_explicit(&spans->latest[i % SPANS_LATEST], memory_order_relaxed);
	const uint64_t now = (uint64_t)now_ns >> TICK_SHIFT;
	const uint64_t begin = now - ((now - (word >> 28)) & BEGIN_MASK);

	return (struct span_time){
		.begin_ns = begin << TICK_SHIFT,
		.end_ns = (begin + (word >> 6 & LENGTH_MASK)) << TICK_SHIFT,
	};
}

static int by_begin(const void *a, const void *b)
{
	const struct span_time *x = a, *y = b;

	return (x->begin_ns > y->begin_ns) - (x->begin_ns < y->begin_ns);
}

/* Sums up spans.  Time that several spans cover counts once as busy time. */
static void add_up(struct span_time *all, size_t nr, struct spans_overlap *overlap)
{
	uint64_t end = 0;

	qsort(all, nr, sizeof(*all), by_begin);
	for (size_t i = 0; i < nr; i++) {
		const uint64_t from = all[i].begin_ns > end ? all[i].begin_ns : end;

		overlap->sum_ns += all[i].end_ns - all[i].begin_ns;
		if (all[i].end_ns <= from)
			continue;
		overlap->busy_ns += all[i].end_ns - from;
		end = all[i].end_ns;
	}
	overlap->nr_jobs = nr;
}

/* Returns the time since which the latest spans of all loops are known. */
static uint64_t known_since(const struct server *server, int64_t now_ns)
{
	uint64_t since = (uint64_t)(now_ns - SPAN_COLUMNS * COLUMN_NS);

	for (unsigned i = 0; i < server->opt.loops; i++) {
		const struct spans *spans = &server->loops[i].spans;
		const unsigned long long nr = atomic_load(&spans->nr);
		const uint64_t oldest = read_span(spans, nr, now_ns).begin_ns;

		if (nr >= SPANS_LATEST && oldest > since)
			since = oldest;
	}
	return since;
}

int spans_overlap(const struct server *server, int64_t now_ns, struct spans_overlap *overlap)
{
	struct span_time *all = malloc(server->opt.loops * SPANS_LATEST * sizeof(*all));
	const uint64_t since = known_since(server, now_ns);
	size_t nr = 0;

	if (!all)
		return -ENOMEM;
	for (unsigned i = 0; i < server->opt.loops; i++) {
		const struct spans *spans = &server->loops[i].spans;
		const unsigned long long known = atomic_load(&spans->nr);

		for (unsigned at = 0; at < SPANS_LATEST && at < known; at++) {
			all[nr] = read_span(spans, at, now_ns);
			nr += all[nr].begin_ns >= since;
		}
	}
	add_up(all, nr, overlap);
	free(all);
	return 0;
}
