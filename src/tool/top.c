/* SPDX-License-Identifier: MIT */
/*
 * runnel top: shows the figures of a pool while its program runs.
 *
 * DESIGN
 * Each second the command connects to the socket of a pool with the attribute top, and reads to
 * the end.  So it never blocks the program, and a failed connect shows that the program has ended.
 * Rates are differences between two reads; --once reads once, and shows totals.
 */
#include "top.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "experiment.h"
#include "json.h"
#include "options.h"
#include "text.h"
#include "tool.h"

#define TEXT_MAX (4u << 20)
#define PATIENCE_MS 5000
#define PERIOD_MS 1000
#define GONE (-1)		/* no program listens on the socket */

static const char doc[] =
"Shows what a pool does while its program runs: its health, jobs done per second, how long they "
"take, and each worker's and each class's share; every second, until the program ends.\v"
"SOCKET is the attribute top of the program's pool; the examples take it from the variable "
"RUNNEL_TOP.  The exit status is 0; 1 if the program has ended; 2 if there is no such "
"socket, or it does not answer.";

/* ---- reading ------------------------------------------------------------- */

static int connect_to(const char *path, int *fd)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	struct stat st;

	if (strlen(path) >= sizeof(name.sun_path))
		return tool_trouble("%s: is too long for a socket's name", path);
	if (stat(path, &st))
		return errno == ENOENT ? GONE : tool_trouble("%s: %s", path, strerror(errno));
	if (!S_ISSOCK(st.st_mode))
		return tool_trouble("%s: is no socket: give the attribute top of the "
				    "program's pool", path);
	strcpy(name.sun_path, path);
	*fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (*fd < 0)
		return tool_trouble("%s: %s", path, strerror(errno));
	if (!connect(*fd, (const struct sockaddr *)&name, sizeof(name)))
		return 0;
	close(*fd);
	if (errno == EAGAIN)
		return tool_trouble("%s: does not answer: too many others ask", path);
	return errno == ECONNREFUSED || errno == ENOENT ? GONE :
	       tool_trouble("%s: %s", path, strerror(errno));
}

/* Reads to the end.  Returns the text, which the caller frees, or NULL after a message. */
static char *read_text(int fd)
{
	const uint64_t until = tool_now() + PATIENCE_MS * UINT64_C(1000000);
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	char *text = malloc(TEXT_MAX);
	size_t length = 0;

	while (text && length + 1 < TEXT_MAX && tool_now() < until) {
		const ssize_t got = poll(&poll_fd, 1, PATIENCE_MS) == 1 ?
				    read(fd, text + length, TEXT_MAX - 1 - length) : 0;

		if (got > 0)
			length += (size_t)got;
		else if (!got && (poll_fd.revents & POLLHUP))
			break;
		else if (got < 0 && errno != EAGAIN && errno != EINTR)
			break;
	}
	if (text)
		text[strnlen(text, length)] = '\0';
	if (!text)
		(void)tool_trouble("out of memory");
	return text;
}

/* Reads the pool's figures.  Returns 0, GONE, or TOOL_TROUBLE after a message. */
static int top_look(const char *path, struct top_figures *f)
{
	int fd = -1, ret = connect_to(path, &fd);
	char *text;

	if (ret)
		return ret;
	text = read_text(fd);
	close(fd);
	if (!text)
		return TOOL_TROUBLE;
	if (!*text)
		ret = tool_trouble("%s: does not answer: the program is stopped, or a child of it holds "
				   "the socket", path);
	else if (!top_parse(f, text))
		ret = tool_trouble("%s: gives no figures of a pool, or is cut off", path);
	free(text);
	f->ns = tool_now();
	return ret;
}

/* ---- showing ------------------------------------------------------------- */

static const char *const healths[] = { "ok", "overloaded", "a worker is stuck", "the device failed" };
static const char *const time_names[TOP_TIMES] = { "in the queue", "in the function", "on the device" };

static const char *health_of(const struct top_figures *f)
{
	return f->health < sizeof(healths) / sizeof(healths[0]) ? healths[f->health] : "?";
}

/* Returns the increase of a counter, or 0 after a restart of the program, which resets it. */
static uint64_t more(uint64_t now, uint64_t before)
{
	return now > before ? now - before : 0;
}

static struct top_worker sum_of(const struct top_figures *f)
{
	struct top_worker sum = { .there = true };

	for (unsigned i = 0; i <= TOP_TIMER; i++) {
		sum.done += f->of[i].done;
		sum.failed += f->of[i].failed;
		sum.stolen += f->of[i].stolen;
		sum.queued += f->of[i].queued;
		sum.in_flight += f->of[i].in_flight;
		sum.held += f->of[i].held;
	}
	return sum;
}

/*
 * Returns the lowest bucket limit such that, since @before, at most 1 job in @one_in took longer.
 * Returns 0 if there were no jobs, and infinity if the limit is beyond the last bucket.
 */
static double at_most(const struct top_times *now, const struct top_times *before, uint64_t one_in)
{
	const uint64_t all = more(now->all, before->all);
	uint64_t below = 0;

	for (unsigned i = 0, j = 0; i < now->nr && all; i++) {
		/* A bucket without counts is in no text. */
		while (j < before->nr && before->s[j] <= now->s[i])
			below = before->below[j++];
		if (all - more(now->below[i], below) <= all / one_in)
			return now->s[i];
	}
	return all && now->nr ? (double)INFINITY : 0;
}

static void print_time(double s)
{
	if (!s)
		printf(" %12s", "-");
	else if (isinf(s))
		printf(" %12s", "longer");
	else if (s < 1e-3)
		printf(" %9.3g us", s * 1e6);
	else if (s < 1)
		printf(" %9.3g ms", s * 1e3);
	else
		printf(" %9.3g s ", s);
}

static void print_worker(const char *name, const struct top_worker *now,
			 const struct top_worker *before, double s)
{
	printf("%-8s %-10s %10.0f %10.0f %10.0f %8" PRIu64 " %9" PRIu64 " %6" PRIu64 "\n", name,
	       now->device, (double)more(now->done, before->done) / s,
	       (double)more(now->failed, before->failed) / s,
	       (double)more(now->stolen, before->stolen) / s, now->queued, now->in_flight, now->held);
}

/* Returns the part of the device time since @before that a class has used. */
static double class_share(const struct top_figures *f, const struct top_figures *before,
			  unsigned class)
{
	double part = 0, all = 0;

	for (unsigned i = 0; i < TOP_CLASSES; i++) {
		double s = f->classes[i].device_s - before->classes[i].device_s;

		/* Another class is in that place now. */
		s = s > 0 ? s : 0;
		part = i == class ? s : part;
		all += s;
	}
	return all ? part / all : 0;
}

static const char *class_name(const struct top_figures *f, unsigned class)
{
	return class ? f->classes[class].name : "(no class)";
}

/* Prints the classes, if there are any.  Of the jobs without a class little is known. */
static void show_classes(const struct top_figures *f, const struct top_figures *before, bool once)
{
	const double s = once ? 1 : (double)(f->ns - before->ns) / 1e9;

	if (f->classes[0].there)
		printf("\n%-16s %7s %8s %9s %9s %7s %7s %7s %25s\n", "class", "device",
		       once ? "run" : "run/s", once ? "refused" : "refused/s",
		       once ? "expired" : "expired/s", once ? "late" : "late/s", "queued",
		       "started", "half, 99 of 100 queued");
	for (unsigned i = 0; i < TOP_CLASSES; i++) {
		const struct top_class *c = &f->classes[i], *b = &before->classes[i];

		if (!c->there)
			continue;
		printf("%-16s %5.1f %% %8.0f", class_name(f, i), 100 * class_share(f, before, i),
		       (double)more(c->run, b->run) / s);
		if (i) {
			printf(" %9.0f %9.0f %7.0f %7" PRIu64 " %7" PRIu64,
			       (double)more(c->refused, b->refused) / s,
			       (double)more(c->expired, b->expired) / s,
			       (double)more(c->late, b->late) / s, c->queued, c->started);
			print_time(at_most(&c->queued_for, &b->queued_for, 2));
			print_time(at_most(&c->queued_for, &b->queued_for, 100));
		}
		putchar('\n');
	}
}

/* Prints the figures.  @before: the previous ones; all 0 for --once. */
static void top_show(const struct top_figures *f, const struct top_figures *before, bool once)
{
	const double s = once ? 1 : (double)(f->ns - before->ns) / 1e9;
	const struct top_worker all = sum_of(f), all_before = sum_of(before);

	printf("%s: %s, %" PRIu64 " workers, %" PRIu64 " jobs not done, %.1f of %.1f MB pinned in "
	       "use\n\n", f->pool, health_of(f), f->workers, f->unfinished, (double)f->used / 1e6,
	       (double)f->locked / 1e6);
	printf("%-19s %12s %12s\n", "half, and 99 of 100", "took at most", "");
	for (unsigned i = 0; i < TOP_TIMES; i++) {
		printf("%-19s", time_names[i]);
		print_time(at_most(&f->times[i], &before->times[i], 2));
		print_time(at_most(&f->times[i], &before->times[i], 100));
		putchar('\n');
	}
	printf("\n%-8s %-10s %10s %10s %10s %8s %9s %6s\n", "worker", "", once ? "done" : "done/s",
	       once ? "failed" : "failed/s", once ? "stolen" : "stolen/s", "queued", "in flight",
	       "held");
	for (unsigned i = 0; i <= TOP_TIMER; i++) {
		char name[12];

		snprintf(name, sizeof(name), i == TOP_TIMER ? "timer" : "%u", i);
		if (f->of[i].there)
			print_worker(name, &f->of[i], &before->of[i], s);
	}
	print_worker("all", &all, &all_before, s);
	show_classes(f, before, once);
}

/* Prints seconds; null if no job was timed, or if the time is beyond the last bucket. */
static void top_json_times(const struct top_times *times, const char *name)
{
	const struct top_times none = { .nr = 0 };

	tool_json_object(name);
	tool_json_integer("jobs", (int64_t)times->all);
	tool_json_number("half_at_most_s", times->all ? at_most(times, &none, 2) : (double)NAN);
	tool_json_number("99_of_100_at_most_s", times->all ? at_most(times, &none, 100) : (double)NAN);
	tool_json_close();
}

static void json_worker(const struct top_worker *w, const char *name, int64_t worker)
{
	tool_json_object(name);
	if (worker >= 0)
		tool_json_integer("worker", worker);
	if (w->device[0])
		tool_json_text("device", w->device);
	tool_json_integer("done", (int64_t)w->done);
	tool_json_integer("failed", (int64_t)w->failed);
	tool_json_integer("stolen", (int64_t)w->stolen);
	tool_json_integer("queued", (int64_t)w->queued);
	tool_json_integer("in_flight", (int64_t)w->in_flight);
	tool_json_integer("held", (int64_t)w->held);
	tool_json_close();
}

static void json_class(const struct top_figures *f, unsigned class)
{
	const struct top_class *c = &f->classes[class];
	static const struct top_figures none = { .ns = 0 };

	tool_json_object(NULL);
	tool_json_text("class", class ? c->name : NULL);
	tool_json_number("device_s", c->device_s);
	tool_json_number("device_share", class_share(f, &none, class));
	tool_json_integer("run", (int64_t)c->run);
	if (class) {
		tool_json_integer("refused", (int64_t)c->refused);
		tool_json_integer("expired", (int64_t)c->expired);
		tool_json_integer("late", (int64_t)c->late);
		tool_json_integer("queued", (int64_t)c->queued);
		tool_json_integer("started", (int64_t)c->started);
		top_json_times(&c->queued_for, "in_queue");
	}
	tool_json_close();
}

static void top_json(const struct top_figures *f)
{
	const struct top_worker all = sum_of(f);

	tool_json_object(NULL);
	tool_json_text("pool", f->pool);
	tool_json_text("health", health_of(f));
	tool_json_integer("unfinished", (int64_t)f->unfinished);
	tool_json_integer("pinned_used_bytes", (int64_t)f->used);
	tool_json_integer("pinned_locked_bytes", (int64_t)f->locked);
	top_json_times(&f->times[0], "in_queue");
	top_json_times(&f->times[1], "in_function");
	top_json_times(&f->times[2], "on_device");
	json_worker(&all, "all", -1);
	tool_json_array("workers");
	for (unsigned i = 0; i < TOP_TIMER; i++)
		if (f->of[i].there)
			json_worker(&f->of[i], NULL, i);
	tool_json_close();
	tool_json_array("classes");
	for (unsigned i = 0; i < TOP_CLASSES; i++)
		if (f->classes[i].there)
			json_class(f, i);
	tool_json_close();
	tool_json_close();
}

/* ---- the command --------------------------------------------------------- */

static int nobody(const char *path)
{
	return tool_trouble("%s: nothing listens there: the program has ended, or has no "
			    "pool yet with this path as its attribute top", path);
}

static int top_watch(const char *path)
{
	static struct top_figures figures[2];
	int ret = top_look(path, &figures[0]);

	if (ret)
		return ret == GONE ? nobody(path) : ret;
	for (unsigned now = 1; ; now = !now) {
		poll(NULL, 0, PERIOD_MS);
		ret = top_look(path, &figures[now]);
		if (ret == GONE) {
			puts("The program has ended.");
			return TOOL_NO;
		}
		if (ret)
			return ret;
		fputs(isatty(STDOUT_FILENO) ? "\033[H\033[2J" : "", stdout);
		top_show(&figures[now], &figures[!now], false);
		putchar('\n');
		if (fflush(stdout))
			return TOOL_TROUBLE;	/* main() says why */
	}
}

static int look_once(const char *path, bool as_json)
{
	static const struct top_figures none = { .ns = 0 };
	static struct top_figures figures;
	const int ret = top_look(path, &figures);

	if (ret)
		return ret == GONE ? nobody(path) : ret;
	if (as_json)
		top_json(&figures);
	else
		top_show(&figures, &none, true);
	return TOOL_YES;
}

int tool_top(int argc, char **argv)
{
	bool once = false, as_json = false;
	const struct tool_usage usage = {
		.doc = doc, .args = "SOCKET", .missing = "there is no socket to look at",
		.too_many = "one socket at a time", .nr_operands = 1, .nr_options = 2, .options = {
			TOOL_FLAG("once", &once, "look once, print what was done so far, and exit"),
			TOOL_FLAG("json", &as_json, "look once, and print it as JSON"),
		},
	};
	int first, status = tool_options(&usage, argc, argv, &first);

	if (status != TOOL_GO_ON)
		return status;
	return once || as_json ? look_once(argv[first], as_json) : top_watch(argv[first]);
}
