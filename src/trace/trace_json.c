/* SPDX-License-Identifier: MIT */
/* A trace's events: the JSON of each record; trace_json.h has the design. */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>
#include <runnel/trace.h>

#include "pool/pool.h"
#include "sys/symbol.h"
#include "sys/text.h"
#include "trace/trace.h"
#include "trace/trace_json.h"

static uint64_t since(const struct rnl__trace *t, uint64_t ns)
{
	return ns > t->start ? ns - t->start : 0;
}

/* Copies text into a JSON string.  Leaves out control characters, and bytes that are not UTF-8. */
static void quote(char *to, size_t bytes, const char *from)
{
	unsigned length;
	size_t n = 0;

	for (; *from && n + 4 < bytes; from += length ? length : 1) {
		length = rnl__character(from);
		if (*from == '"' || *from == '\\')
			to[n++] = '\\';
		if ((unsigned char)*from >= ' ' && *from != 127) {
			memcpy(to + n, from, length);
			n += length;
		}
	}
	to[n] = 0;
}

static const char *trace_name_of(struct rnl__trace *t, const void *fn)
{
	unsigned nr = sizeof(t->names) / sizeof(t->names[0]);
	struct rnl__trace_name *name = &t->names[((uintptr_t)fn >> 4) % nr];
	char text[100];

	if (name->fn == fn)
		return name->text;
	rnl__symbol(fn, text, sizeof(text));
	quote(name->text, sizeof(name->text), text);
	name->fn = fn;
	return name->text;
}

/*
 * Returns the name of a class.  A record is written some ms after its job.  If another class has
 * the place of the job's class by then, the name is only known if it was looked up before: or "".
 */
static const char *trace_class_of(struct rnl__trace *t, uint32_t id)
{
	struct rnl__trace_class *class = &t->classes[id % (1 << RNL__CLASS_ID_BITS)];
	char name[RNL__CLASS_NAME] = "";

	if (class->id == id)
		return class->text;
	(void)rnl__classes_name(t->pool, id, name);
	quote(class->text, sizeof(class->text), name);
	class->id = id;
	return class->text;
}

/* ---- names, the header, the footer --------------------------------------- */

static void put_meta(struct rnl__trace *t, const char *what, uint32_t tid, const char *value)
{
	rnl__trace_print(&t->file, ",\n{\"name\":\"%s\",\"ph\":\"M\",\"pid\":%d,\"tid\":%" PRIu32
			 ",\"args\":{\"name\":\"%s\"}}", what, t->pid, tid, value);
	rnl__trace_mark(&t->file);
}

/* Writes a track's place in the order of tracks. */
static void put_place(struct rnl__trace *t, uint32_t tid, unsigned place)
{
	rnl__trace_print(&t->file, ",\n{\"name\":\"thread_sort_index\",\"ph\":\"M\",\"pid\":%d,"
			 "\"tid\":%" PRIu32 ",\"args\":{\"sort_index\":%u}}", t->pid, tid,
			 place);
	rnl__trace_mark(&t->file);
}

void rnl__trace_header(struct rnl__trace *t)
{
	const struct rnl_pool *pool = t->pool;
	const struct rnl_device_info *info = &rnl__pool_any_device(pool)->info;
	const char *connections = getenv("CUDA_DEVICE_MAX_CONNECTIONS");
	char name[128], device[128];

	quote(name, sizeof(name), program_invocation_short_name);
	quote(device, sizeof(device), info->name);
	rnl__trace_print(&t->file, "{\"name\":\"runnel\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
			 "\"args\":{\"format\":1,\"version\":\"%d.%d.%d\",\"device\":\"%s\","
			 "\"cuda\":%" PRIu32 ",\"copy_engines\":%" PRIu32
			 ",\"connections\":%d,\"timing\":%d,\"class_workers\":%u,\"devices\":%u}}",
			 t->pid, RNL_VERSION_MAJOR, RNL_VERSION_MINOR, RNL_VERSION_PATCH,
			 device, info->cuda, info->nr_copy_engines,
			 connections ? atoi(connections) : 8, (int)t->timing, pool->nr_class_workers,
			 pool->devices.nr);
	rnl__trace_mark(&t->file);
	put_meta(t, "process_name", 0, name);
}

void rnl__trace_name_track(struct rnl__trace *t, const struct rnl__track *track)
{
	char pool[160], name[256], device[RNL__DEVICE_NAME_BYTES];

	if (!rnl__trace_fits(&t->file, 4 * RNL__TRACE_EVENT_MAX))
		return;
	quote(pool, sizeof(pool), t->pool->name);
	rnl__device_name(track->device, device);
	snprintf(name, sizeof(name), "%s-%u%s", pool, track->index,
		 track->of_class ? " (of a class)" : "");
	put_meta(t, "thread_name", track->tid, name);
	put_place(t, track->tid, 2 * track->index + 1000);
	snprintf(name, sizeof(name), "%s-%u%s device %s", pool, track->index,
		 track->of_class ? " (of a class)" : "", device);
	put_meta(t, "thread_name", RNL__TRACE_DEVICE_TID + track->index, name);
	put_place(t, RNL__TRACE_DEVICE_TID + track->index, 2 * track->index + 1001);
}

void rnl__trace_name_thread(struct rnl__trace *t, uint32_t tid)
{
	char path[64], text[64], name[128];
	FILE *comm;

	snprintf(path, sizeof(path), "/proc/self/task/%" PRIu32 "/comm", tid);
	snprintf(text, sizeof(text), "thread %" PRIu32, tid);
	comm = fopen(path, "re");
	if (comm) {
		if (fgets(text, sizeof(text), comm))
			text[strcspn(text, "\n")] = 0;
		fclose(comm);
	}
	quote(name, sizeof(name), text);
	put_meta(t, "thread_name", tid, name);
}

void rnl__trace_footer(struct rnl__trace *t)
{
	uint64_t dropped = 0;

	for (unsigned i = 0; i < RNL_WORKERS_MAX; i++) {
		struct rnl__track *track = rnl__tracks_at(&t->tracks, i);

		dropped += track ? rnl__figure_read(&track->dropped) : 0;
	}
	rnl__trace_print(&t->file, ",\n{\"name\":\"runnel_end\",\"ph\":\"M\",\"pid\":%d,\"tid\":0,"
			 "\"args\":{\"jobs\":%" PRIu64 ",\"flown\":%" PRIu64 ",\"timed\":%" PRIu64
			 ",\"unfinished\":%" PRIu64 ",\"dropped\":%" PRIu64
			 ",\"too_much\":%" PRIu64 ",\"arrows_lost\":%" PRIu64
			 "}}", t->pid, t->nr_jobs, t->nr_flown, t->nr_timed, t->nr_cut,
			 dropped, t->too_much, t->arrows.lost);
	rnl__trace_mark(&t->file);
}

/* ---- records ------------------------------------------------------------- */

void rnl__trace_begin_span(struct rnl__trace *t, const char *name, const char *category,
			   uint32_t tid, uint64_t begin, uint64_t end)
{
	begin = since(t, begin);
	end = since(t, end);
	rnl__trace_print(&t->file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"X\",\"pid\":%d,"
			 "\"tid\":%" PRIu32 ",\"ts\":" RNL__TRACE_TIME ",\"dur\":" RNL__TRACE_TIME,
			 name, category, t->pid, tid, rnl__trace_time(begin),
			 rnl__trace_time(end - begin));
}

static void put_call(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	static const uint8_t none[sizeof(r->call.trace_id)];

	rnl__trace_begin_span(t, trace_name_of(t, (const void *)(uintptr_t)r->call.fn), "job",
			      track->tid, r->call.picked, r->call.issued);
	rnl__trace_print(&t->file, ",\"args\":{\"id\":%" PRIu64 ",\"result\":%" PRId32, r->id,
			 r->call.result);
	if (r->call.queued)
		rnl__trace_print(&t->file, ",\"queued\":" RNL__TRACE_TIME,
				 rnl__trace_time(since(t, r->call.queued)));
	if (r->call.class && *trace_class_of(t, r->call.class))
		rnl__trace_print(&t->file, ",\"class\":\"%s\"", trace_class_of(t, r->call.class));
	if (r->call.staged)
		rnl__trace_print(&t->file, ",\"staged\":%" PRIu64, r->call.staged);
	if (memcmp(r->call.trace_id, none, sizeof(none))) {
		rnl__trace_print(&t->file, ",\"trace_id\":\"");
		for (unsigned i = 0; i < sizeof(none); i++)
			rnl__trace_print(&t->file, "%02x", r->call.trace_id[i]);
		rnl__trace_print(&t->file, "\"");
	}
	rnl__trace_print(&t->file, "}}");
	rnl__trace_mark(&t->file);
}

/* Writes the begin or the end of an event that may overlap other events of its worker. */
static void put_async(struct rnl__trace *t, uint32_t tid, const char *name, const char *category,
		      uint64_t id, char ph, uint64_t at, const char *args)
{
	rnl__trace_print(&t->file, ",\n{\"name\":\"%s\",\"cat\":\"%s\",\"ph\":\"%c\","
			 "\"id\":%" PRIu64 ",\"pid\":%d,\"tid\":%" PRIu32 ",\"ts\":" RNL__TRACE_TIME
			 "%s}", name, category, ph, id, t->pid, tid, rnl__trace_time(since(t, at)), args);
}

void rnl__trace_request(struct rnl__trace *t, const struct rnl__wait *wait, uint64_t id)
{
	const char *class = wait->class ? trace_class_of(t, wait->class) : "";
	char name[2 * RNL__WAIT_KERNEL], args[2 * RNL__CLASS_NAME + 32] = "";

	quote(name, sizeof(name), wait->kernel);
	if (*class)
		snprintf(args, sizeof(args), ",\"args\":{\"class\":\"%s\"}", class);
	put_async(t, wait->tid, name, "request", id, 'b', wait->begin, args);
	put_async(t, wait->tid, name, "request", id, 'e', wait->end, "");
	rnl__trace_mark(&t->file);
}

static void put_held(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	const char *name = trace_name_of(t, (const void *)(uintptr_t)r->held.fn);

	put_async(t, track->tid, name, "held", r->id, 'b', r->held.begin, "");
	put_async(t, track->tid, name, "held", r->id, 'e', r->held.end, "");
	rnl__trace_mark(&t->file);
}

/* Writes a job that was in flight when the trace ended. */
static void put_cut(struct rnl__trace *t, const struct rnl__track *track,
		    const struct rnl__track_record *r)
{
	put_async(t, track->tid, "unfinished", "inflight", r->id, 'b', r->done.issued, "");
	put_async(t, track->tid, "unfinished", "inflight", r->id, 'e', r->done.done, "");
	rnl__trace_mark(&t->file);
}

static void put_done(struct rnl__trace *t, const struct rnl__track *track,
		     const struct rnl__track_record *r)
{
	put_async(t, track->tid, "in flight", "inflight", r->id, 'b', r->done.issued, "");
	put_async(t, track->tid, "in flight", "inflight", r->id, 'e', r->done.done, "");
	rnl__trace_mark(&t->file);
	if (!r->done.end)
		return;
	rnl__trace_begin_span(t, trace_name_of(t, (const void *)(uintptr_t)r->done.fn), "device",
		   RNL__TRACE_DEVICE_TID + track->index, r->done.begin, r->done.end);
	rnl__trace_print(&t->file, ",\"args\":{\"id\":%" PRIu64 "}}", r->id);
	rnl__trace_mark(&t->file);
}

static void trace_put_back(struct rnl__trace *t, const struct rnl__track *track,
			   const struct rnl__track_record *r)
{
	rnl__trace_begin_span(t, trace_name_of(t, (const void *)(uintptr_t)r->back.fn), "callback",
			      track->tid, r->back.begin, r->back.end);
	rnl__trace_print(&t->file, "}");
	rnl__trace_mark(&t->file);
}

/* Returns a finding in few words; the log has more. */
static const char *trace_text_of(unsigned finding)
{
	switch (finding) {
	case RNL__LEGACY_STREAM:
		return "uses the legacy default stream, which joins all workers' streams";
	case RNL__WAITED:
		return "waits for a stream or the device";
	case RNL__MADE_MEMORY:
		return "makes or frees memory";
	case RNL__WAITED_OR_MADE:
		return "waits for a stream or the device, or makes or frees memory";
	case RNL__PAGEABLE_COPY:
		return "copies pageable memory";
	case RNL__STRAY:
		return "uses stream 0, which is not the job's stream";
	default:
		return "does what CUDA refuses under capture";
	}
}

static void put_found(struct rnl__trace *t, const struct rnl__track *track,
		      const struct rnl__track_record *r)
{
	for (unsigned left = r->found.what; left; left &= left - 1) {
		rnl__trace_print(&t->file, ",\n{\"name\":\"%s %s\",\"cat\":\"guard\",\"ph\":\"i\","
				 "\"s\":\"t\",\"pid\":%d,\"tid\":%" PRIu32 ",\"ts\":"
				 RNL__TRACE_TIME "}",
				 trace_name_of(t, (const void *)(uintptr_t)r->found.fn),
				 trace_text_of(left & -left), t->pid, track->tid,
				 rnl__trace_time(since(t, r->found.at)));
		rnl__trace_mark(&t->file);
	}
}

static void put_op(struct rnl__trace *t, const struct rnl__track *track,
		   const struct rnl__track_record *r)
{
	const char *name = r->kind == RNL__TRACK_IN ? "copy in" :
			   r->kind == RNL__TRACK_OUT ? "copy out" : "kernel";

	rnl__trace_begin_span(t, name, name, RNL__TRACE_DEVICE_TID + track->index, r->op.begin,
			      r->op.end);
	rnl__trace_print(&t->file, ",\"args\":{\"id\":%" PRIu64 "}}", r->id);
	rnl__trace_mark(&t->file);
}

bool rnl__trace_record(struct rnl__trace *t, const struct rnl__track *track,
		       const struct rnl__track_record *r)
{
	const bool call = r->kind == RNL__TRACK_CALL;

	/* Counted even if the file has no space. */
	t->nr_jobs += call;
	t->nr_flown += call && r->call.in_flight;
	t->nr_cut += r->kind == RNL__TRACK_CUT;
	t->nr_timed += r->kind == RNL__TRACK_DONE && r->done.end;
	if (!rnl__trace_fits(&t->file, (r->kind == RNL__TRACK_FOUND ? 8 :
					call || r->kind == RNL__TRACK_HELD ? 2 : 1) *
					RNL__TRACE_EVENT_MAX)) {
		t->too_much += call;
		return false;
	}
	if (call)
		put_call(t, track, r);
	else if (r->kind == RNL__TRACK_DONE)
		put_done(t, track, r);
	else if (r->kind == RNL__TRACK_CUT)
		put_cut(t, track, r);
	else if (r->kind == RNL__TRACK_BACK)
		trace_put_back(t, track, r);
	else if (r->kind == RNL__TRACK_HELD)
		put_held(t, track, r);
	else if (r->kind == RNL__TRACK_FOUND)
		put_found(t, track, r);
	else
		put_op(t, track, r);
	return call;
}
