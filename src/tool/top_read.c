/* SPDX-License-Identifier: MIT */
/*
 * runnel top: parses the text from a pool's socket.
 *
 * DESIGN
 * The text has Prometheus's format, with one sample a line: NAME{LABEL="VALUE",...} NUMBER.
 * Samples with unknown names are ignored, so text of a newer library can be parsed.
 */
#include "top.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "text.h"

struct sample {
	char name[64], pool[64], worker[16], device[24], le[32], class[32], index[16];
	double value;
};

static const struct {
	const char *name;
	size_t field;
} of_workers[] = {
	{ "rnl_jobs_done_total", offsetof(struct top_worker, done) },
	{ "rnl_jobs_failed_total", offsetof(struct top_worker, failed) },
	{ "rnl_jobs_stolen_total", offsetof(struct top_worker, stolen) },
	{ "rnl_jobs_queued", offsetof(struct top_worker, queued) },
	{ "rnl_jobs_in_flight", offsetof(struct top_worker, in_flight) },
	{ "rnl_jobs_held", offsetof(struct top_worker, held) },
}, of_classes[] = {
	{ "rnl_class_jobs_run_total", offsetof(struct top_class, run) },
	{ "rnl_class_jobs_refused_total", offsetof(struct top_class, refused) },
	{ "rnl_class_jobs_expired_total", offsetof(struct top_class, expired) },
	{ "rnl_class_jobs_late_total", offsetof(struct top_class, late) },
	{ "rnl_class_jobs_queued", offsetof(struct top_class, queued) },
	{ "rnl_class_jobs_started", offsetof(struct top_class, started) },
}, of_pool[] = {
	{ "rnl_health", offsetof(struct top_figures, health) },
	{ "rnl_workers", offsetof(struct top_figures, workers) },
	{ "rnl_jobs_unfinished", offsetof(struct top_figures, unfinished) },
	{ "rnl_pinned_locked_bytes", offsetof(struct top_figures, locked) },
	{ "rnl_pinned_used_bytes", offsetof(struct top_figures, used) },
};

static const char *const time_names[TOP_TIMES] = {
	"rnl_queue_wait_seconds", "rnl_host_seconds", "rnl_device_seconds",
};

/* ---- a line -------------------------------------------------------------- */

/* Copies the text before the first of the characters @ends.  Returns its end; NULL: too long. */
static const char *top_take(const char *at, const char *ends, char *to, size_t bytes)
{
	const size_t length = strcspn(at, ends);

	if (length >= bytes)
		return NULL;
	memcpy(to, at, length);
	to[length] = '\0';
	return at + length;
}

/* Copies a label's value up to its closing quote, with escapes removed. */
static const char *take_value(const char *at, char *to, size_t bytes)
{
	size_t n = 0;

	for (; *at && *at != '"' && *at != '\n'; at++) {
		if (*at == '\\' && at[1] && at[1] != '\n')
			at++;
		if (n + 1 < bytes)	/* a longer value is truncated */
			to[n++] = *at;
	}
	to[n] = '\0';
	return *at == '"' ? at + 1 : NULL;
}

static const char *take_label(const char *at, struct sample *s)
{
	char name[16], other[16];

	at = top_take(at, "=\"},\n", name, sizeof(name));
	if (!at || at[0] != '=' || at[1] != '"')
		return NULL;
	at += 2;
	if (!strcmp(name, "pool"))
		return take_value(at, s->pool, sizeof(s->pool));
	if (!strcmp(name, "worker"))
		return take_value(at, s->worker, sizeof(s->worker));
	if (!strcmp(name, "device"))
		return take_value(at, s->device, sizeof(s->device));
	if (!strcmp(name, "class"))
		return take_value(at, s->class, sizeof(s->class));
	if (!strcmp(name, "index"))
		return take_value(at, s->index, sizeof(s->index));
	if (!strcmp(name, "le"))
		return take_value(at, s->le, sizeof(s->le));
	return take_value(at, other, sizeof(other));
}

static bool take_sample(const char *at, struct sample *s)
{
	char *end;

	*s = (struct sample){ .value = 0 };
	at = top_take(at, "{ \n", s->name, sizeof(s->name));
	if (!at || *at != '{')
		return false;
	do
		at = take_label(at + 1, s);
	while (at && *at == ',');
	if (!at || at[0] != '}' || at[1] != ' ')
		return false;
	s->value = strtod(at + 2, &end);
	return end > at + 2 && (*end == '\n' || !*end) && s->value >= 0 && s->value < 1e19;
}

/* ---- the figures --------------------------------------------------------- */

/* Returns a number less than @end, or @end. */
static unsigned number_of(const char *text, unsigned end)
{
	char *behind;
	const unsigned long i = strtoul(text, &behind, 10);

	return *text >= '0' && *text <= '9' && !*behind && i < end ? (unsigned)i : end;
}

static struct top_worker *top_worker_of(struct top_figures *f, const char *name)
{
	const unsigned i = number_of(name, TOP_TIMER);

	return i < TOP_TIMER || !strcmp(name, "timer") ? &f->of[i] : NULL;
}

static void note_of_worker(struct top_figures *f, const struct sample *s)
{
	struct top_worker *w = top_worker_of(f, s->worker);

	for (size_t i = 0; w && i < sizeof(of_workers) / sizeof(of_workers[0]); i++) {
		if (strcmp(s->name, of_workers[i].name))
			continue;
		*(uint64_t *)(void *)((char *)w + of_workers[i].field) = (uint64_t)s->value;
		w->there = true;
		tool_text(w->device, sizeof(w->device), s->device);
	}
}

static void note_time(struct top_times *t, const struct sample *s, const char *part)
{
	char *end;

	if (!strcmp(part, "_count"))
		t->all = (uint64_t)s->value;
	if (strcmp(part, "_bucket") || !strcmp(s->le, "+Inf") || t->nr == TOP_BUCKETS)
		return;
	t->s[t->nr] = strtod(s->le, &end);
	t->below[t->nr++] = (uint64_t)s->value;
}

static void note_of_class(struct top_figures *f, const struct sample *s)
{
	static const char queued_for[] = "rnl_class_queue_wait_seconds";
	const unsigned index = number_of(s->index, TOP_CLASSES);
	struct top_class *c = &f->classes[index % TOP_CLASSES];

	if (index == TOP_CLASSES)
		return;
	c->there = true;
	tool_text(c->name, sizeof(c->name), s->class);
	if (!strncmp(s->name, queued_for, sizeof(queued_for) - 1))
		note_time(&c->queued_for, s, s->name + sizeof(queued_for) - 1);
	if (!strcmp(s->name, "rnl_class_device_seconds_total"))
		c->device_s = s->value;
	for (size_t i = 0; i < sizeof(of_classes) / sizeof(of_classes[0]); i++)
		if (!strcmp(s->name, of_classes[i].name))
			*(uint64_t *)(void *)((char *)c + of_classes[i].field) = (uint64_t)s->value;
}

static void top_note(struct top_figures *f, const struct sample *s)
{
	if (*s->worker)
		note_of_worker(f, s);
	if (*s->index)
		note_of_class(f, s);
	for (size_t i = 0; i < sizeof(of_pool) / sizeof(of_pool[0]); i++) {
		if (!*s->worker && !*s->index && !strcmp(s->name, of_pool[i].name))
			*(uint64_t *)(void *)((char *)f + of_pool[i].field) = (uint64_t)s->value;
	}
	for (unsigned i = 0; i < TOP_TIMES; i++) {
		const size_t length = strlen(time_names[i]);

		if (!strncmp(s->name, time_names[i], length))
			note_time(&f->times[i], s, s->name + length);
	}
	tool_text(f->pool, sizeof(f->pool), s->pool);
}

bool top_parse(struct top_figures *f, const char *text)
{
	bool any = false, ended = false;

	*f = (struct top_figures){ .ns = 0 };
	while (*text && !ended) {
		struct sample s;

		ended = !strcmp(text, "# EOF\n");
		if (*text != '#') {
			if (!take_sample(text, &s))
				return false;
			top_note(f, &s);
			any = true;
		}
		text += strcspn(text, "\n");
		text += *text == '\n';
	}
	return any && ended;
}
