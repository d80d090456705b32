/* SPDX-License-Identifier: MIT */
/* runnel lint: finds objects and libraries that use the legacy default stream. */
#include "tool.h"

#include <fnmatch.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "lint.h"
#include "options.h"
#include "text.h"

static const char doc[] =
"Finds objects and libraries that use the legacy default stream: they import calls of the CUDA "
"runtime by their plain names.  Also lists imports of the calls for per-thread default streams "
"(..._ptsz, ..._ptds).  An OBJECT is an object file, an archive, an executable or a shared "
"object.\v"
"Calls that runnel makes do not count, because it passes a stream to each.  In a program with "
"librunnel.a these may be the program's calls, too: check its objects.  "
"If the runtime is linked in statically, which is nvcc's default, the symbols of an executable "
"or library do not show which calls it uses: check its objects.  Calls through the driver's "
"interface (cu...) or through pointers (dlsym()) are not seen either.\n"
"\n"
"The exit status is 0 if nothing was found, 1 if something was, and 2 if a file "
"could not be read; the other files are checked nevertheless.";

static const struct {
	const char *member, *text;
} kinds[LINT_USES] = {
	[LINT_ALWAYS] = { "legacy", "legacy stream" },
	[LINT_STREAM_0] = { "legacy_if_stream_0", "legacy stream, where a call's stream is 0" },
	[LINT_NO_FORM] = { "no_per_thread_form",
			   "legacy stream, where a call's stream is 0, whatever the flags" },
	[LINT_PER_THREAD] = { "per_thread", "per-thread streams" },
	[LINT_OWN] = { "runnel", "runnel's own calls, each with a stream" },
};

struct linting {
	bool json;
	const char **ignored;
	unsigned nr_ignored;
	unsigned nr_looked_at, nr_found, nr_per_thread;
	bool no_form, plain;		/* true if a use of that kind was found */
};

/* ---- one object ------------------------------------------------------------------ */

static bool has(const struct lint_object *object, enum lint_use use)
{
	return object->uses[use].nr;
}

static bool matches(const char *pattern, const char *path)
{
	const char *name = path ? strrchr(path, '/') : NULL;

	if (!path)
		return false;
	return !fnmatch(pattern, path, 0) || (name && !fnmatch(pattern, name + 1, 0));
}

static bool is_ignored(const struct linting *l, const struct lint_object *object)
{
	for (unsigned i = 0; i < l->nr_ignored; i++) {
		if (matches(l->ignored[i], object->file) || matches(l->ignored[i], object->member))
			return true;
	}
	return false;
}

static void lint_print_text(const struct lint_object *object, bool ignored)
{
	for (unsigned use = 0; use < LINT_USES; use++) {
		const struct lint_names *n = &object->uses[use];

		if (!n->nr)
			continue;
		tool_put_text(stdout, object->file);
		if (object->member) {
			putchar('(');
			tool_put_text(stdout, object->member);
			putchar(')');
		}
		printf(": %s%s:", kinds[use].text, ignored && use < LINT_PER_THREAD ? " (ignored)" : "");
		for (size_t i = 0; i < n->nr; i++) {
			putchar(' ');
			tool_put_text(stdout, n->names[i]);
		}
		putchar('\n');
	}
}

static void print_json(const struct lint_object *object, bool found)
{
	tool_json_object(NULL);
	tool_json_text("file", object->file);
	tool_json_text("member", object->member);
	tool_json_bool("found", found);
	for (unsigned use = 0; use < LINT_USES; use++) {
		tool_json_array(kinds[use].member);
		for (size_t i = 0; i < object->uses[use].nr; i++)
			tool_json_text(NULL, object->uses[use].names[i]);
		tool_json_close();
	}
	tool_json_close();
}

static void lint_look_at(struct lint_object *object, void *arg)
{
	struct linting *l = arg;
	const bool ignored = is_ignored(l, object);
	const bool plain = has(object, LINT_ALWAYS) || has(object, LINT_STREAM_0);
	const bool found = !ignored && (plain || has(object, LINT_NO_FORM));

	l->nr_looked_at++;
	l->nr_found += found;
	l->nr_per_thread += has(object, LINT_PER_THREAD);
	l->plain |= found && plain;
	l->no_form |= found && has(object, LINT_NO_FORM);
	if (l->json)
		print_json(object, found);
	else
		lint_print_text(object, ignored);
	lint_object_free(object);
}

/* ---- all objects ------------------------------------------------------------------- */

static void print_end(const struct linting *l)
{
	printf("%u of %u object%s found to use the legacy stream, %u to use per-thread streams\n",
	       l->nr_found, l->nr_looked_at, l->nr_looked_at == 1 ? "" : "s", l->nr_per_thread);
	if (l->plain)
		puts("One call on the legacy stream joins the streams of all threads. Compile with nvcc "
		     "--default-stream per-thread,\nor gcc -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1; or pass "
		     "a stream to each call, and --ignore the object.");
	if (l->no_form)
		puts("cudaMemcpyPeerAsync, cudaGraphicsMapResources and cudaGraphicsUnmapResources have no "
		     "per-thread form:\npass cudaStreamPerThread, or use cudaMemcpyAsync; then --ignore the object.");
}

static int lint(struct linting *l, char **paths, unsigned nr)
{
	bool good = true;

	if (l->json) {
		tool_json_object(NULL);
		tool_json_array("objects");
	}
	for (unsigned i = 0; i < nr; i++)
		good = lint_read(paths[i], lint_look_at, l) && good;
	if (l->json) {
		tool_json_close();
		tool_json_integer("looked_at", l->nr_looked_at);
		tool_json_integer("found", l->nr_found);
		tool_json_bool("all_read", good);
		tool_json_close();
	} else if (l->nr_looked_at) {
		print_end(l);
	}
	if (!good)
		return TOOL_TROUBLE;
	return l->nr_found ? TOOL_NO : TOOL_YES;
}

static int take_pattern(const struct tool_option *option, const char *arg)
{
	struct linting *l = option->to;

	l->ignored[l->nr_ignored++] = arg;
	return 0;
}

int tool_lint(int argc, char **argv)
{
	struct linting l = { .ignored = calloc((size_t)argc, sizeof(*l.ignored)) };
	const struct tool_usage usage = {
		.doc = doc, .args = "OBJECT...", .missing = "there is no object to look at",
		.nr_operands = UINT_MAX, .nr_options = 2, .options = {
			{ "ignore", "PATTERN", "find nothing in files and archive members of such a name, "
			  "which pass a stream to each call; may be given more than once",
			  take_pattern, &l, 0, 0 },
			TOOL_FLAG("json", &l.json, "print the objects as JSON"),
		},
	};
	int first, status;

	if (!l.ignored)
		return tool_trouble("out of memory");
	status = tool_options(&usage, argc, argv, &first);
	if (status == TOOL_GO_ON)
		status = lint(&l, argv + first, (unsigned)(argc - first));
	free(l.ignored);
	return status;
}
