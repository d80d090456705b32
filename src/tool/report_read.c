/* SPDX-License-Identifier: MIT */
/*
 * runnel report: reads a trace.
 *
 * DESIGN
 * A trace may have hundreds of megabytes, so it is read event by event, not as one value.
 * jansson parses each event; this file parses the brackets and commas around the events.
 * All content of a trace is checked.
 */
#include "config.h"

#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "text.h"
#include "tool.h"

#ifdef HAVE_JANSSON
#include <jansson.h>

#define DEVICE_TID 0x40000000
#define TIME_MAX 1e13		/* microseconds: a third of a year */

struct reader {
	struct report *r;
	uint64_t event;		/* number of the current event, from 1 */
	int64_t host_tid[RNL_WORKERS_MAX];
	bool begun;		/* true once the header was read */
};

__attribute__((format(printf, 2, 3)))
static int wrong(const struct reader *in, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof(text), format, args);
	va_end(args);
	return tool_trouble("%s: event %" PRIu64 ": %s", in->r->path, in->event, text);
}

/* ---- members ------------------------------------------------------------- */

static int get_text(struct reader *in, const json_t *of, const char *name, const char **text)
{
	const json_t *value = json_object_get(of, name);

	*text = "";
	if (!json_is_string(value))
		return wrong(in, "\"%s\" is %s", name, value ? "no text" : "missing");
	*text = json_string_value(value);
	return 0;
}

static int get_integer(struct reader *in, const json_t *of, const char *name, int64_t least,
		       int64_t *number)
{
	const json_t *value = json_object_get(of, name);

	if (!json_is_integer(value))
		return wrong(in, "\"%s\" is %s", name, value ? "no whole number" : "missing");
	*number = json_integer_value(value);
	if (*number < least)
		return wrong(in, "\"%s\" is %" PRId64 ", less than %" PRId64, name, *number, least);
	return 0;
}

/* Gets a member in microseconds, and converts it to nanoseconds. */
static int get_time(struct reader *in, const json_t *of, const char *name, uint64_t *ns)
{
	const json_t *value = json_object_get(of, name);
	double us;

	if (!json_is_number(value))
		return wrong(in, "\"%s\" is %s", name, value ? "no number" : "missing");
	us = json_number_value(value);
	if (us < 0)
		return wrong(in, "\"%s\" is negative: %g", name, us);
	if (!(us < TIME_MAX))
		return wrong(in, "\"%s\" is beyond all reason: %g", name, us);
	*ns = (uint64_t)(us * 1000 + 0.5);
	return 0;
}

/* Returns an optional member, or @otherwise if it is missing. */
static int64_t integer_or(const json_t *of, const char *name, int64_t otherwise)
{
	const json_t *value = json_object_get(of, name);

	return json_is_integer(value) ? json_integer_value(value) : otherwise;
}

static void copy_text(char *to, size_t bytes, const json_t *value)
{
	const char *text = json_string_value(value);

	tool_text(to, bytes, text ? text : "?");
}

/* ---- header and names ---------------------------------------------------- */

static int read_header(struct reader *in, const json_t *args)
{
	struct report *r = in->r;
	int64_t format;

	if (get_integer(in, args, "format", 1, &format))
		return TOOL_TROUBLE;
	if (format != 1)
		return wrong(in, "it is of format %" PRId64 ", which a newer runnel report reads",
			     format);
	copy_text(r->device, sizeof(r->device), json_object_get(args, "device"));
	r->nr_devices = (unsigned)integer_or(args, "devices", 1);
	if (!r->nr_devices || r->nr_devices > RNL_DEVICES_MAX)
		return wrong(in, "\"devices\" is %u", r->nr_devices);
	r->cuda = integer_or(args, "cuda", 0);
	r->connections = integer_or(args, "connections", 8);
	r->timing = integer_or(args, "timing", 0);
	in->begun = true;
	return 0;
}

static void read_end(struct report *r, const json_t *args)
{
	r->whole = true;
	r->dropped = integer_or(args, "dropped", 0);
	r->too_much = integer_or(args, "too_much", 0);
	r->unfinished = integer_or(args, "unfinished", 0);
	r->arrows_lost = integer_or(args, "arrows_lost", 0);
}

/* Returns the thread's index in the report, or -1 if there are too many threads. */
static int thread_of(struct report *r, int64_t tid)
{
	for (unsigned i = 0; i < r->nr_threads; i++) {
		if (r->threads[i] == tid)
			return (int)i;
	}
	if (r->nr_threads == REPORT_THREADS)
		return -1;
	r->threads[r->nr_threads] = tid;
	snprintf(r->thread_names[r->nr_threads].text, sizeof(r->thread_names[0].text),
		 "thread %" PRId64, tid);
	return (int)r->nr_threads++;
}

static int report_worker_of(const struct reader *in, int64_t tid)
{
	if (tid >= DEVICE_TID && tid < DEVICE_TID + RNL_WORKERS_MAX)
		return (int)(tid - DEVICE_TID);
	for (int i = 0; i < RNL_WORKERS_MAX; i++) {
		if (in->host_tid[i] == tid && tid)
			return i;
	}
	return -1;
}

static void note_worker(struct report *r, unsigned worker)
{
	r->nr_workers += !r->has_worker[worker];
	r->has_worker[worker] = true;
}

/* Reads the name of a worker's device track: "NAME device cuda:1". */
static int read_stream_name(struct reader *in, unsigned worker, const char *name)
{
	static const char word[] = " device";
	struct report *r = in->r;
	const unsigned device = worker % r->nr_devices;	/* runnel.h: attr.device */
	const char *end = NULL, *at = name;
	char *shown;

	while ((at = strstr(at, word)) != NULL)
		end = at++;
	if (!end)
		end = name + strlen(name);
	if (!strncmp(end, word, sizeof(word) - 1) && end[sizeof(word) - 1] == ' ')
		tool_text(r->device_names[device], sizeof(r->device_names[0]), end + sizeof(word));
	if (asprintf(&shown, "%.*s%s%s", (int)(end - name), name, r->nr_devices > 1 ? " on " : "",
		     r->nr_devices > 1 ? r->device_names[device] : "") < 0)
		return wrong(in, "out of memory");
	tool_text(r->worker_names[worker].text, sizeof(r->worker_names[0].text), shown);
	free(shown);
	r->device_of[worker] = (uint8_t)device;
	note_worker(r, worker);
	return 0;
}

/* Reads a track's name.  A worker is shown by the name of its stream's track. */
static int read_thread_name(struct reader *in, int64_t tid, const json_t *args)
{
	struct report *r = in->r;
	const char *name;
	int n;

	if (get_text(in, args, "name", &name))
		return TOOL_TROUBLE;
	if (tid >= DEVICE_TID && tid < DEVICE_TID + RNL_WORKERS_MAX)
		return read_stream_name(in, (unsigned)(tid - DEVICE_TID), name);
	n = report_worker_of(in, tid) < 0 ? thread_of(r, tid) : -1;
	if (n >= 0)
		tool_text(r->thread_names[n].text, sizeof(r->thread_names[n].text), name);
	return 0;
}

/* Finds the worker of a thread, by its sort index: see trace/trace_json.c. */
static int read_order(struct reader *in, int64_t tid, const json_t *args)
{
	struct report *r = in->r;
	int64_t order;

	if (get_integer(in, args, "sort_index", 0, &order))
		return TOOL_TROUBLE;
	if (tid >= DEVICE_TID || order < 1000 || order >= 1000 + 2 * RNL_WORKERS_MAX)
		return 0;
	in->host_tid[(order - 1000) / 2] = tid;
	/* The name came before the sort index, so the worker was counted as a plain thread. */
	if (r->nr_threads && r->threads[r->nr_threads - 1] == tid)
		r->nr_threads--;
	return 0;
}

static int read_meta(struct reader *in, const char *name, int64_t tid, const json_t *args)
{
	if (!json_is_object(args))
		return wrong(in, "\"args\" is %s", args ? "no object" : "missing");
	if (!strcmp(name, "runnel"))
		return read_header(in, args);
	if (!strcmp(name, "runnel_end"))
		read_end(in->r, args);
	else if (!strcmp(name, "process_name"))
		copy_text(in->r->program, sizeof(in->r->program), json_object_get(args, "name"));
	else if (!strcmp(name, "thread_name"))
		return read_thread_name(in, tid, args);
	else if (!strcmp(name, "thread_sort_index"))
		return read_order(in, tid, args);
	return 0;
}

/* ---- spans --------------------------------------------------------------- */

static uint16_t report_name_of(struct report *r, const char *text)
{
	struct report_name name;
	unsigned i = 0;

	tool_text(name.text, sizeof(name.text), text);
	while (i < r->nr_names && strcmp(r->names[i].text, name.text))
		i++;
	if (i < r->nr_names)
		return (uint16_t)i;
	if (r->nr_names == REPORT_NAMES)
		return REPORT_NAMES - 1;
	r->names[i] = i == REPORT_NAMES - 1 ? (struct report_name){ "others" } : name;
	return (uint16_t)r->nr_names++;
}

static const struct {
	const char *category;
	uint8_t kind;
	bool device;
} kinds[] = {
	{ "device", REPORT_JOB, true }, { "copy in", REPORT_IN, true },
	{ "kernel", REPORT_KERNEL, true }, { "copy out", REPORT_OUT, true },
	{ "job", REPORT_CALL, false }, { "callback", REPORT_BACK, false },
	{ "submit", REPORT_SUBMIT, false },
	{ "wait", REPORT_WAIT, false },
};

static int add_span(struct report *r, const struct report_span *span)
{
	if (r->nr == r->room) {
		size_t room = r->room ? 2 * r->room : 4096;
		void *more = realloc(r->spans, room * sizeof(*r->spans));

		if (!more)
			return tool_trouble("%s: out of memory for its %zu spans", r->path, room);
		r->spans = more;
		r->room = room;
	}
	r->spans[r->nr++] = *span;
	return 0;
}

static int read_args(struct reader *in, const json_t *args, struct report_span *s)
{
	const json_t *class;
	int64_t id;

	s->queued = UINT64_MAX;
	if (s->kind >= REPORT_BACK)
		return 0;
	if (!json_is_object(args))
		return wrong(in, "\"args\" is %s", args ? "no object" : "missing");
	if (get_integer(in, args, "id", 1, &id))
		return TOOL_TROUBLE;
	s->id = (uint64_t)id;
	if (s->kind != REPORT_CALL)
		return 0;
	s->staged = (uint64_t)integer_or(args, "staged", 0);
	class = json_object_get(args, "class");
	if (json_is_string(class))
		s->class = (uint16_t)(1 + report_name_of(in->r, json_string_value(class)));
	return json_object_get(args, "queued") ? get_time(in, args, "queued", &s->queued) : 0;
}

/* Returns the index of a worker or thread; -1: the thread is left out; -2: after a message. */
static int owner(struct reader *in, const char *category, bool device, bool thread, int64_t tid)
{
	int worker = report_worker_of(in, tid);

	if (thread)
		return thread_of(in->r, tid);
	if (worker < 0 || device != (tid >= DEVICE_TID)) {
		(void)wrong(in, "a span of \"%s\" on track %" PRId64 ", which is no worker's",
			    category, tid);
		return -2;
	}
	return worker;
}

static int read_span(struct reader *in, const json_t *event, const char *name, int64_t tid)
{
	struct report_span s = { 0 };
	const char *category;
	uint64_t duration;
	unsigned i = 0;
	int of;

	if (get_text(in, event, "cat", &category))
		return TOOL_TROUBLE;
	while (i < sizeof(kinds) / sizeof(kinds[0]) && strcmp(kinds[i].category, category))
		i++;
	if (i == sizeof(kinds) / sizeof(kinds[0]))
		return 0;	/* a kind of span that a newer library writes */
	if (get_time(in, event, "ts", &s.begin) || get_time(in, event, "dur", &duration))
		return TOOL_TROUBLE;
	s.kind = kinds[i].kind;
	s.end = s.begin + duration;
	of = owner(in, category, kinds[i].device, s.kind >= REPORT_SUBMIT, tid);
	if (of == -2 || read_args(in, json_object_get(event, "args"), &s))
		return TOOL_TROUBLE;
	if (of < 0)
		return 0;
	s.of = (uint16_t)of;
	s.name = report_name_of(in->r, name);
	if (s.kind <= REPORT_CALL)
		note_worker(in->r, (unsigned)of);
	in->r->nr_calls += s.kind == REPORT_CALL;
	return add_span(in->r, &s);
}

/* Reads the begin of a flight (see report_bounds.c), or its end, which follows directly. */
static int read_flight(struct reader *in, const json_t *event, bool begins, int64_t tid)
{
	struct report_span *last = in->r->nr ? &in->r->spans[in->r->nr - 1] : NULL;
	const char *category = json_string_value(json_object_get(event, "cat"));
	struct report_span s = { .kind = REPORT_MAYBE, .queued = UINT64_MAX };
	int64_t id;
	int of;

	if (!category || strcmp(category, "inflight"))
		return 0;	/* the span of a held job, or a request */
	of = owner(in, category, false, false, tid);
	if (of < 0 || get_integer(in, event, "id", 1, &id) || get_time(in, event, "ts", &s.begin))
		return TOOL_TROUBLE;
	if (!begins) {
		if (last && last->kind == REPORT_MAYBE && last->id == (uint64_t)id)
			last->end = s.begin;
		return 0;
	}
	s.id = (uint64_t)id;
	s.end = s.begin;
	s.of = (uint16_t)of;
	in->r->nr_flights++;
	return add_span(in->r, &s);
}

/* Counts a request that a resident kernel answered. */
static void read_request(struct report *r, const json_t *event, const char *name)
{
	const char *category = json_string_value(json_object_get(event, "cat"));

	if (category && !strcmp(category, "request"))
		r->requests[report_name_of(r, name)]++;
}

/* Stores a finding of the guard, unless an equal one is stored already. */
static void read_instant(struct report *r, const json_t *event, const char *name)
{
	const char *category = json_string_value(json_object_get(event, "cat"));
	char *const to = r->findings[r->nr_findings % REPORT_CAUSES].text;

	if (!category || strcmp(category, "guard") || r->nr_findings == REPORT_CAUSES)
		return;
	tool_text(to, sizeof(r->findings[0].text), name);
	for (unsigned i = 0; i < r->nr_findings; i++) {
		if (!strcmp(r->findings[i].text, to))
			return;
	}
	r->nr_findings++;
}

static int read_event(struct reader *in, const json_t *event)
{
	const char *name, *phase;
	int64_t tid;

	if (!json_is_object(event))
		return wrong(in, "it is no object");
	if (get_text(in, event, "name", &name) || get_text(in, event, "ph", &phase) ||
	    get_integer(in, event, "tid", 0, &tid))
		return TOOL_TROUBLE;
	if (!in->begun && strcmp(name, "runnel"))
		return tool_trouble("%s: is JSON, but no trace that runnel wrote: those of other "
				    "programs are not read", in->r->path);
	if (!strcmp(phase, "M"))
		return read_meta(in, name, tid, json_object_get(event, "args"));
	if (!strcmp(phase, "X"))
		return read_span(in, event, name, tid);
	if (!strcmp(phase, "i"))
		read_instant(in->r, event, name);
	if (!strcmp(phase, "b"))
		read_request(in->r, event, name);
	if (!strcmp(phase, "b") || !strcmp(phase, "e"))
		return read_flight(in, event, *phase == 'b', tid);
	return 0;		/* arrows between spans are not needed */
}

/* ---- the file ------------------------------------------------------------ */

static int next_char(FILE *file)
{
	int c;

	do
		c = getc(file);
	while (c == ' ' || c == '\t' || c == '\n' || c == '\r');
	return c;
}

static int cut_off(const struct reader *in)
{
	return tool_trouble("%s: ends after event %" PRIu64 ", in the middle: it was cut off",
			    in->r->path, in->event);
}

static int read_events(struct reader *in, FILE *file)
{
	int c = next_char(file);

	if (c == EOF)
		return tool_trouble("%s: %s", in->r->path, ferror(file) ? strerror(errno) :
				    "is empty, not a trace");
	if (c == '{')
		return tool_trouble("%s: is no trace that runnel wrote: those are an array of "
				    "events, and those of other programs are not read", in->r->path);
	if (c != '[')
		return tool_trouble("%s: is no trace: it does not begin as JSON", in->r->path);
	do {
		json_error_t error;
		json_t *event = json_loadf(file, JSON_DISABLE_EOF_CHECK, &error);
		int ret;

		if (!event && feof(file))
			return cut_off(in);
		in->event++;
		if (!event)
			return wrong(in, "is no JSON: %s", error.text);
		ret = read_event(in, event);
		json_decref(event);
		if (ret)
			return ret;
		c = next_char(file);
	} while (c == ',');
	if (c == EOF)
		return cut_off(in);
	if (c != ']' || next_char(file) != EOF)
		return tool_trouble("%s: event %" PRIu64 " is followed by text that is not JSON",
				    in->r->path, in->event);
	return 0;
}

static FILE *open_trace(const char *path)
{
	FILE *file = fopen(path, "re");
	struct stat st;

	if (!file) {
		(void)tool_trouble("%s: %s", path, strerror(errno));
		return NULL;
	}
	if (!fstat(fileno(file), &st) && S_ISDIR(st.st_mode)) {
		(void)tool_trouble("%s: is a directory, not a trace", path);
		fclose(file);
		return NULL;
	}
	return file;
}

/* Finds the first begin and the last end of all spans. */
static void find_ends(struct report *r)
{
	r->begin = r->nr ? UINT64_MAX : 0;
	for (size_t i = 0; i < r->nr; i++) {
		const struct report_span *s = &r->spans[i];

		r->begin = s->begin < r->begin ? s->begin : r->begin;
		r->end = s->end > r->end ? s->end : r->end;
	}
}

int report_read(struct report *r, const char *path)
{
	struct reader in = { .r = r };
	FILE *file = open_trace(path);
	int ret;

	r->path = path;
	if (!file)
		return TOOL_TROUBLE;
	ret = read_events(&in, file);
	if (!ret && ferror(file))
		ret = tool_trouble("%s: %s", path, strerror(errno));
	fclose(file);
	find_ends(r);
	return ret ? ret : report_find_bounds(r);
}

#else

int report_read(struct report *r, const char *path)
{
	(void)r;
	return tool_trouble("%s: this runnel was built without jansson, and reads no traces: "
			    "`make deps all` in its sources builds the whole tool", path);
}

#endif

void report_free(struct report *r)
{
	free(r->spans);
}
