/* SPDX-License-Identifier: MIT */
/*
 * runnel check: whether this machine does at the same time what it should.
 *
 * DESIGN
 * All goes through the library's public functions, as a user's program does it, after
 * rnl_setup(), as such a program should begin.  Experiments are made such that a busy
 * machine is not called a broken one: by what has to be done before something else
 * ends, not by how long it takes, wherever that can be; else by medians, and with room.
 */
#include "check.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "json.h"
#include "options.h"
#include "tool.h"

#define WORKERS 8
#define PATIENCE_CUDA_NS 150000000u	/* what waits for a GPU takes a millisecond */
#define PATIENCE_HOST_NS 1500000000u	/* CPUs may have other things to do */

enum {
	STREAMS, KERNELS, QUEUES, COPIES_IN, COPIES_OUT, COPIES_BOTH, PINNED, PRIORITIES, NR_CHECKS
};

#define CHECK(called, asks) { .name = (called), .question = (asks) }

static struct check checks[NR_CHECKS] = {
	[STREAMS] = CHECK("streams", "each worker has a stream of its own"),
	[KERNELS] = CHECK("kernels", "kernels of different workers run at the same time"),
	[QUEUES] = CHECK("connections", "there are hardware queues for all workers"),
	[COPIES_IN] = CHECK("copies-in", "copies to the device run beside kernels"),
	[COPIES_OUT] = CHECK("copies-out", "copies from the device run beside kernels"),
	[COPIES_BOTH] = CHECK("copies-both", "copies in and out run at the same time"),
	[PINNED] = CHECK("pinned", "pinned memory is page-locked"),
	[PRIORITIES] = CHECK("priorities", "urgent jobs go before others"),
};

static const char *const answers[] = {
	[CHECK_NOT_HERE] = "-", [CHECK_YES] = "yes", [CHECK_NO] = "no", [CHECK_UNKNOWN] = "unknown",
};

static const struct option options[] = {
	{ "workers", required_argument, NULL, 'w' },
	{ "device", required_argument, NULL, 'd' },
	{ "json", no_argument, NULL, 'j' },
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: runnel check [OPTION]...\n"
"Tries whether on this machine kernels of different workers overlap, copies overlap\n"
"kernels and each other, streams are per thread, pinned memory is, connections suffice,\n"
"and priorities work; tells the likely cause where not.  It takes a few seconds.\n"
"\n"
"      --workers=N  threads with a stream each, 2 to 62; 8\n"
"      --device=D   auto (a GPU if there is one, if nothing is said), cuda, cuda:N, host\n"
"      --json       print it as JSON\n"
"      --help       print this and exit\n"
"\n"
"The exit status is 0 if every answer is yes, 1 if one is no, 2 if something could not\n"
"be found out.\n";

/* ---- printing ------------------------------------------------------------ */

static void print_machine(const struct check_machine *m)
{
	if (!m->info.cuda && !m->cuda.nr_devices)
		printf("No GPU answers here: %s.  This is about the host device.\n",
		       m->cuda.why_none);
	printf("device:   ");
	if (m->info.cuda)
		printf("cuda:%d, %s, compute capability %d.%d\n", m->info.ordinal, m->info.name,
		       m->gpu.major, m->gpu.minor);
	else
		printf("host, of which this process may use %u CPUs\n", tool_cpus());
	printf("workers:  %u\n\n", m->nr_workers);
	fflush(stdout);		/* the experiments take some time */
}

static void print_checks(void)
{
	for (unsigned i = 0; i < NR_CHECKS; i++) {
		const struct check *c = &checks[i];

		printf("%-8s %-12s %s\n", answers[c->answer], c->name, c->question);
		printf("%21s   %s\n", "", c->says);
		if (c->cause[0])
			printf("%21s   likely cause: %s\n", "", c->cause);
	}
}

static void json_all(const struct check_machine *m, enum check_answer answer)
{
	char text[32];

	snprintf(text, sizeof(text), m->info.cuda ? "cuda:%d" : "host", m->info.ordinal);
	tool_json_object(NULL);
	tool_json_text("answer", answers[answer]);
	tool_json_text("device", text);
	tool_json_text("name", m->info.name);
	tool_json_text("no_gpu", m->cuda.nr_devices ? NULL : m->cuda.why_none);
	tool_json_integer("cpus", tool_cpus());
	tool_json_integer("workers", m->nr_workers);
	tool_json_array("checks");
	for (unsigned i = 0; i < NR_CHECKS; i++) {
		const struct check *c = &checks[i];

		tool_json_object(NULL);
		tool_json_text("name", c->name);
		tool_json_text("question", c->question);
		tool_json_text("answer", c->answer == CHECK_NOT_HERE ? NULL : answers[c->answer]);
		tool_json_text("says", c->says);
		tool_json_text("cause", c->cause[0] ? c->cause : NULL);
		tool_json_object("figures");
		for (unsigned j = 0; j < sizeof(c->figures) / sizeof(c->figures[0]) &&
		     c->figures[j].name; j++)
			tool_json_number(c->figures[j].name, c->figures[j].value);
		tool_json_close();
		tool_json_close();
	}
	tool_json_close();
	tool_json_close();
}

/* ---- the command --------------------------------------------------------- */

static int look(struct check_machine *m)
{
	int ret = tool_device(m->device, &m->info);

	if (ret)
		return ret;
	tool_cuda_look(&m->cuda);
	m->connections = tool_connections(getenv(TOOL_CONNECTIONS));
	m->patience_ns = m->info.cuda ? PATIENCE_CUDA_NS : PATIENCE_HOST_NS;
	ret = m->info.cuda ? tool_gpu_look(m->info.ordinal, &m->gpu) : 0;
	return ret ? tool_trouble("device '%s' does not answer: CUDA error %d", m->device, ret) : 0;
}

/* In the worker's thread, and not in a job, where a guard would find it odd. */
static int ask_stream(void *arg, unsigned worker, void **data)
{
	struct check_machine *m = arg;
	struct check_stream *stream = &m->streams[worker];

	(void)data;
	stream->ret = tool_stream_ids(rnl_stream(), &stream->id, &stream->id_of_0);
	return 0;
}

static void experiment(struct check_machine *m)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = m->device;
	attr.nr_workers = m->nr_workers;
	attr.guard = m->guard;
	attr.log = tool_log;
	attr.on_start = ask_stream;
	attr.hook_arg = m;
	check_must(rnl_pool_create(&m->pool, &attr), "creating the workers");
	check_meet(m, &checks[STREAMS], &checks[KERNELS], &checks[QUEUES]);
	check_beside(m, &checks[COPIES_IN], &checks[COPIES_OUT], &checks[PINNED]);
	check_both(m, &checks[COPIES_BOTH]);
	check_urgent(m, &checks[PRIORITIES]);
	rnl_pool_destroy(m->pool);
}

static enum check_answer together(void)
{
	enum check_answer answer = CHECK_YES;

	for (unsigned i = 0; i < NR_CHECKS; i++) {
		if (checks[i].answer == CHECK_NO)
			return CHECK_NO;
		if (checks[i].answer == CHECK_UNKNOWN)
			answer = CHECK_UNKNOWN;
	}
	return answer;
}

int tool_check(int argc, char **argv)
{
	struct check_machine m = {
		.device = "auto", .nr_workers = WORKERS, .setting = getenv(TOOL_CONNECTIONS),
	};
	enum check_answer answer;
	bool json = false;
	int option, ret = 0;

	while (!ret && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		switch (option) {
		case 'w':	/* the pools' own streams are some more */
			ret = tool_number("workers", optarg, 2, RNL_WORKERS_MAX - 2, &m.nr_workers);
			break;
		case 'd':
			m.device = optarg;
			break;
		case 'j':
			json = true;
			break;
		case 'h':
			fputs(help, stdout);
			return TOOL_YES;
		default:
			return tool_misused_said();
		}
	}
	if (!ret && optind < argc)
		ret = tool_misused("'%s' is too much: all arguments are options", argv[optind]);
	if (!ret)
		ret = tool_guard(&m.guard);
	if (!ret)
		check_must(rnl_setup(), "preparing the process");
	if (!ret)
		ret = look(&m);
	if (ret)
		return ret;
	if (!json)
		print_machine(&m);
	experiment(&m);
	answer = together();
	if (json)
		json_all(&m, answer);
	else
		print_checks();
	return answer == CHECK_YES ? TOOL_YES : answer == CHECK_NO ? TOOL_NO : TOOL_TROUBLE;
}
