/* SPDX-License-Identifier: MIT */
/*
 * The data that the processes of one parent share, in shared memory.
 *
 * DESIGN
 * Each process has a place, where it writes its state, the time of each loop's last beat, and, at
 * each beat, its metrics and its health, as text.  Any process can answer for all processes: from
 * its own current data, and from the texts that the other processes posted last.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <jansson.h>

#define WATCHED_NS UINT64_C(3000000000)	/* /live data is posted for this long after a GET */

int board_make(unsigned nr)
{
	const int fd = memfd_create("http_server", 0);

	return fd >= 0 && ftruncate(fd, (off_t)(nr * sizeof(struct place))) ? -1 : fd;
}

struct place *board_map(int fd, unsigned nr)
{
	void *mem = mmap(NULL, nr * sizeof(struct place), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

struct place *board_own(const struct server *server)
{
	return &server->board[server->process];
}

/* ---- posting --------------------------------------------------------------- */

static void post(struct posted *posted, struct evbuffer *text)
{
	const unsigned char *mem = evbuffer_pullup(text, -1);

	if (mem)
		posted_write(posted, mem, evbuffer_get_length(text));
}

void board_post(const struct server *server)
{
	struct place *own = board_own(server);
	struct evbuffer *text = evbuffer_new();

	if (!text)
		return;
	if (!metrics_write_own(server, text))
		post(&own->metrics, text);
	evbuffer_drain(text, evbuffer_get_length(text));
	if (health_write_own(server, text) >= 0)
		post(&own->health, text);
	evbuffer_drain(text, evbuffer_get_length(text));
	if (program_now_ns() < atomic_load(&own->watched_ns) + WATCHED_NS &&
	    answer_json(live_own(server), text))
		post(&own->live, text);
	evbuffer_free(text);
}

static char *own_text(const struct server *server,
		      int (*write)(const struct server *server, struct evbuffer *out))
{
	struct evbuffer *out = evbuffer_new();
	char *text = NULL;

	if (out && write(server, out) >= 0 && !evbuffer_add(out, "", 1)) {
		text = malloc(evbuffer_get_length(out));
		if (text)
			evbuffer_remove(out, text, evbuffer_get_length(out));
	}
	if (out)
		evbuffer_free(out);
	return text;
}

/* ---- the metrics of all processes -------------------------------------------- */

/* Returns the end of the metric at @at.  A metric is "# HELP NAME ...", "# TYPE ...", samples. */
static const char *family_end(const char *at)
{
	const char *next = strstr(at, "\n# HELP ");

	return next ? next + 1 : at + strlen(at);
}

static const char *next_line(const char *at)
{
	return at + strcspn(at, "\n") + (at[strcspn(at, "\n")] == '\n');
}

/* Returns the metric in @text that begins with the line @head, or NULL. */
static const char *find_family(const char *text, const char *head)
{
	const size_t bytes = (size_t)(next_line(head) - head);

	while (text && *text && strncmp(text, head, bytes))
		text = family_end(text);
	return text && *text ? text : NULL;
}

/* Adds a label: NAME{LABELS} VALUE becomes NAME{process="0",LABELS} VALUE. */
static void add_samples(struct evbuffer *out, const char *family, unsigned process)
{
	const char *const end = family_end(family);
	const char *next;

	for (const char *line = family; line < end; line = next) {
		const size_t name = strcspn(line, "{ ");
		const bool labels = line[name] == '{';

		next = next_line(line);
		if (*line == '#')
			continue;
		evbuffer_add_printf(out, "%.*s{process=\"%u\"%s", (int)name, line, process,
				    labels ? "," : "}");
		evbuffer_add(out, line + name + labels, (size_t)(next - line) - name - labels);
	}
}

int board_metrics(const struct server *server, struct evbuffer *out)
{
	char *texts[PROCESSES_MAX], *own = own_text(server, metrics_write_own);

	if (!own)
		return -1;
	for (unsigned i = 0; i < server->nr_processes; i++)
		texts[i] = i == server->process ? own : posted_read(&server->board[i].metrics);
	evbuffer_add_printf(out, "# HELP http_server_process_up Whether the process serves.\n"
			    "# TYPE http_server_process_up gauge\n");
	for (unsigned i = 0; i < server->nr_processes; i++)
		evbuffer_add_printf(out, "http_server_process_up{process=\"%u\"} %d\n", i,
				    board_serves(&server->board[i]));
	for (const char *head = own; *head; head = family_end(head)) {
		const char *rest = next_line(head);

		evbuffer_add(out, head, (size_t)((*rest == '#' ? next_line(rest) : rest) - head));
		for (unsigned i = 0; i < server->nr_processes; i++) {
			const char *family = find_family(texts[i], head);

			if (family)
				add_samples(out, family, i);
		}
	}
	for (unsigned i = 0; i < server->nr_processes; i++)
		free(texts[i]);
	return 0;
}

/* ---- the activity of all processes --------------------------------------------- */

json_t *board_live(const struct server *server)
{
	json_t *all = json_array();

	for (unsigned i = 0; i < server->nr_processes; i++) {
		struct place *place = &server->board[i];
		char *text;

		atomic_store(&place->watched_ns, program_now_ns());
		if (i == server->process) {
			json_array_append_new(all, live_own(server));
		} else if (board_serves(place) && (text = posted_read(&place->live))) {
			/* Broken text is omitted. */
			(void)json_array_append_new(all, json_loads(text, 0, NULL));
			free(text);
		}
	}
	return all;
}

/* ---- the health of all processes --------------------------------------------- */

/* Returns a process's health; NULL: unknown.  @well: receives true if the process is well. */
static json_t *health_of(const struct server *server, unsigned process, bool *well)
{
	char *text = process == server->process ? own_text(server, health_write_own) :
		     posted_read(&server->board[process].health);
	json_t *json = text ? json_loads(text, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
	const char *state = json_string_value(json_object_get(json, "state"));

	free(text);
	if (!board_serves(&server->board[process])) {
		json_decref(json);
		json = json_pack("{s:s}", "state", "lost");
		state = NULL;
	}
	*well = state && (!strcmp(state, "ok") || !strcmp(state, "overloaded"));
	if (json)
		json_object_set_new(json, "pid",
				    json_integer(atomic_load(&server->board[process].pid)));
	return json;
}

bool board_health(const struct server *server, json_t **json)
{
	json_t *all = json_array();
	unsigned nr_well = 0;

	for (unsigned i = 0; i < server->nr_processes; i++) {
		bool well;

		json_array_append_new(all, health_of(server, i, &well));
		nr_well += well;
	}
	*json = json_pack("{s:s, s:i, s:o}", "state", nr_well == server->nr_processes ? "ok" :
			  nr_well ? "degraded" : "failed", "well", (int)nr_well, "processes", all);
	return nr_well > 0;
}
