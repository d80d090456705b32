/* SPDX-License-Identifier: MIT */
/*
 * Classes of requests: each has its part of the workers, the slots, and the memory.
 *
 * DESIGN
 * A request is in the class that its header X-Class names; without this header in the class of its
 * path, or else in "other".  It is chosen before the body is read.
 *
 * A full class must not cost another class a request.  So the limits of all classes add up to the
 * slots of a loop: a loop has a free slot for each request that its class lets in.  Bodies and
 * answers are counted for their class, which may use as large a part of --memory as of the slots.
 *
 * A request's jobs are in the class of the pool with the same name.  They start by the deadline of
 * their request, so its second job comes before the first jobs of later requests.
 *
 * A request is refused if its class has LIMIT requests, or if, by rnl_class_wait(), its job would
 * wait beyond the deadline.  Retry-After is the same prediction.  RNL_CLASS_ADMIT would refuse second
 * jobs, too, and lose the work of the first ones.
 *
 * Without --class all requests are in "other", with all slots and the whole memory.  Their first jobs
 * are in the pool's own class, their second ones in a class that goes first.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <event2/buffer.h>

#define HEADER "X-Class"
#define OTHER "other"
#define SECOND UINT64_C(1000000000)

/* ---- the option ---------------------------------------------------------- */

/* In the order of the argument; `wrong` is the error text. */
static const struct {
	long long min, max, without;
	const char *wrong;
} fields[] = {
	{ -4, 3, 0, "PRIORITY must be -4, served first, to 3" },
	{ 1, 10000, 1, "WEIGHT must be 1 to 10000" },
	{ 1, 65536, 0, "LIMIT must be 1 to 65536" },
	{ 0, 65536, 0, "JOBS must be 0, no limit, to 65536" },
	{ 0, 1000000000, 0, "PER_SECOND must be 0, no limit, to 1000000000" },
};

enum { NR_FIELDS = sizeof(fields) / sizeof(fields[0]) };

static bool is_task_path(const char *name, size_t bytes)
{
	for (int i = 0; i < NR_ROUTES; i++)
		if (routes[i].task && strlen(routes[i].path) == bytes &&
		    !memcmp(routes[i].path, name, bytes))
			return true;
	return false;
}

/* Returns an error text, or NULL. */
static const char *check_name(const struct options *opt, const char *name, size_t bytes)
{
	if (!bytes || bytes >= CLASS_NAME_BYTES)
		return "NAME must have 1 to 31 characters";
	if (*name == '/')
		return is_task_path(name, bytes) ? NULL : "the path in place of NAME must be one of "
							  "a task: /wc, /sobel";
	for (size_t i = 0; i < bytes; i++)
		if (!head_is_token(name[i]))
			return "NAME must be letters, digits and any of !#$%&'*+-.^_`|~";
	return opt->nr_classes > CLASSES_MAX ? "there are 16 classes already" : NULL;
}

/* Returns the number at *@at, where a ':' or the end follows; on an error *@at becomes NULL. */
static long long read_number(const char **at, long long min, long long max)
{
	char *end = NULL;
	long long number = 0;

	errno = 0;
	if (**at == '-' || (**at >= '0' && **at <= '9'))
		number = strtoll(*at, &end, 10);
	*at = end && end != *at && (!*end || *end == ':') && !errno && number >= min && number <= max ?
	      end : NULL;
	return number;
}

/* Returns the options' class of this name, or NULL. */
static struct class_option *find_option(struct options *opt, const char *name, size_t bytes)
{
	for (unsigned i = 0; i < opt->nr_classes; i++)
		if (strlen(opt->classes[i].name) == bytes && !memcmp(opt->classes[i].name, name, bytes))
			return &opt->classes[i];
	return NULL;
}

const char *classes_parse(void *to, const char *arg)
{
	const size_t name_bytes = strcspn(arg, ":");
	struct options *opt = to;
	const char *at = arg + name_bytes, *wrong = check_name(opt, arg, name_bytes);
	struct class_option *class;
	long long values[NR_FIELDS];
	int nr = 0;

	if (wrong)
		return wrong;
	if (!*at)
		return "give at least NAME:PRIORITY, such as gold:-1";
	for (; *at; nr++) {
		if (nr == NR_FIELDS)
			return "nothing may follow PER_SECOND";
		at++;
		values[nr] = read_number(&at, fields[nr].min, fields[nr].max);
		if (!at)
			return fields[nr].wrong;
	}
	for (; nr < NR_FIELDS; nr++)
		values[nr] = fields[nr].without;
	if (!opt->nr_classes)
		opt->classes[opt->nr_classes++] = (struct class_option){ OTHER, .weight = 1 };
	class = find_option(opt, arg, name_bytes);
	if (class && class->given)
		return "the class is given twice";
	if (!class)
		class = &opt->classes[opt->nr_classes++];
	memcpy(class->name, arg, name_bytes);
	class->given = true;
	class->priority = (int)values[0];
	class->weight = (unsigned)values[1];
	class->limit = (unsigned)values[2];
	class->max_jobs = (unsigned)values[3];
	class->per_second = (unsigned)values[4];
	return NULL;
}

void classes_share(struct options *opt)
{
	unsigned left = opt->slots / opt->loops, nr = 0, sum = 0;

	if (opt->nr_classes && opt->handler != ASYNC)
		program_misuse("--class needs --handler=async: the other handlers have no jobs");
	for (unsigned i = 0; i < opt->nr_classes; i++) {
		sum += opt->classes[i].limit;
		nr += !opt->classes[i].limit;
	}
	if (sum + nr > left)
		program_misuse("--slots=%u is too few for the classes: a loop has %u of them, and the "
			       "LIMITs of --class, \"" OTHER "\" included, need %u", opt->slots, left,
			       sum + nr);
	left -= sum;
	for (unsigned i = 0; i < opt->nr_classes; i++)
		if (!opt->classes[i].limit) {
			opt->classes[i].limit = left / nr;
			left -= left / nr--;
		}
}

/* ---- the classes ----------------------------------------------------------- */

static int create(struct server *server, const struct class_option *option,
		  struct request_class *class)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;

	attr.name = option->name;
	attr.priority = option->priority;
	attr.weight = option->weight;
	attr.order = RNL_CLASS_DEADLINE;
	attr.flags = RNL_CLASS_LATE;
	attr.max_queued = option->limit;
	attr.max_jobs = option->max_jobs;
	attr.per_second = option->per_second;
	attr.deadline_ns = class->deadline_ns;
	return rnl_class_create(&class->cls, server->pool, &attr);
}

/* Without classes of requests: second jobs go before first ones. */
static int create_finishing(struct server *server)
{
	struct rnl_class_attr attr = RNL_CLASS_ATTR_INIT;

	attr.name = "finish";
	attr.priority = -4;
	attr.max_queued = server->opt.slots;
	return rnl_class_create(&server->finishing, server->pool, &attr);
}

int classes_create(struct server *server)
{
	const struct options *opt = &server->opt;
	const uint64_t ms = opt->deadline_ms ? opt->deadline_ms : opt->request_s * UINT64_C(1000);
	int ret = 0;

	if (!opt->nr_classes)
		ret = create_finishing(server);
	server->classes[0].limit = UINT_MAX;
	server->classes[0].memory = opt->memory;
	for (unsigned i = 0; !ret && i < opt->nr_classes; i++) {
		struct request_class *class = &server->classes[i];

		class->name = opt->classes[i].name;
		class->limit = opt->classes[i].limit;
		class->memory = opt->memory / (opt->slots / opt->loops) * class->limit;
		class->deadline_ns = ms * 1000000;
		ret = create(server, &opt->classes[i], class);
	}
	return ret;
}

/* ---- the class of a request ------------------------------------------------ */

static struct request_class *find(struct server *server, const char *name)
{
	for (unsigned i = 0; i < server->opt.nr_classes; i++)
		if (!strcmp(server->classes[i].name, name))
			return &server->classes[i];
	return NULL;
}

int class_choose(struct server *server, const struct route *route, struct request *req)
{
	struct head *head = &req->head;
	const char *name = NULL;

	req->class = &server->classes[0];
	if (!server->opt.nr_classes || !route->task)
		return 0;
	for (unsigned i = 0; i < head->nr_fields; i++) {
		if (strcasecmp(head->fields[i].name, HEADER))
			continue;
		if (name) {
			head->wrong = HEADER " is given twice";
			return HTTP_BADREQUEST;
		}
		name = head->fields[i].value;
	}
	req->class = find(server, name ? name : route->path);
	if (req->class && !(name && *name == '/'))
		return 0;
	req->class = &server->classes[0];
	if (!name)
		return 0;
	head->wrong = HEADER " names no class of this server";
	return HTTP_BADREQUEST;
}

/* ---- entering and leaving -------------------------------------------------- */

/* Returns the predicted wait of a job that would be submitted now. */
static uint64_t wait_of(struct request_class *class)
{
	uint64_t wait_ns = 0;

	if (class->cls)
		(void)rnl_class_wait(class->cls, &wait_ns);
	return wait_ns;
}

int class_enter(struct request_class *class)
{
	unsigned nr = atomic_load(&class->nr);

	if (class->cls && wait_of(class) > class->deadline_ns) {
		atomic_fetch_add(&class->refused, 1);
		return -ETIME;
	}
	do {
		if (nr >= class->limit) {
			atomic_fetch_add(&class->refused, 1);
			return -EAGAIN;
		}
	} while (!atomic_compare_exchange_weak(&class->nr, &nr, nr + 1));
	return 0;
}

void class_leave(struct request_class *class)
{
	atomic_fetch_sub(&class->nr, 1);
}

unsigned class_retry_s(struct request_class *class)
{
	const uint64_t seconds = (wait_of(class) + SECOND - 1) / SECOND;

	return seconds < 1 ? 1 : seconds < UINT_MAX ? (unsigned)seconds : UINT_MAX;
}

int class_set_job(struct slot *slot)
{
	const int64_t left_ns = (int64_t)slot->class->deadline_ns - (rnl_clock() - slot->came_ns);
	const int ret = rnl_job_set_class(&slot->job, slot->class->cls);

	return ret ? ret : rnl_job_set_deadline(&slot->job, left_ns > 0 ? left_ns : 0);
}

/* ---- metrics --------------------------------------------------------------- */

size_t classes_bytes(const struct server *server)
{
	size_t bytes = 0;

	for (unsigned i = 0; i <= CLASSES_MAX; i++)
		bytes += atomic_load(&server->classes[i].bytes);
	return bytes;
}

int classes_write(const struct server *server, struct evbuffer *out)
{
	const unsigned nr = server->opt.nr_classes;
	int ret = 0;

	if (!nr)
		return 0;
	ret |= evbuffer_add_printf(out, "# HELP http_server_class_requests Requests that the class has "
				   "let in.\n# TYPE http_server_class_requests gauge\n");
	for (unsigned i = 0; i < nr; i++)
		ret |= evbuffer_add_printf(out, "http_server_class_requests{class=\"%s\"} %u\n",
					   server->classes[i].name, atomic_load(&server->classes[i].nr));
	ret |= evbuffer_add_printf(out, "# HELP http_server_class_refused_total Requests that the class "
				   "has refused.\n# TYPE http_server_class_refused_total counter\n");
	for (unsigned i = 0; i < nr; i++)
		ret |= evbuffer_add_printf(out, "http_server_class_refused_total{class=\"%s\"} %llu\n",
					   server->classes[i].name,
					   atomic_load(&server->classes[i].refused));
	return ret;
}
