/* SPDX-License-Identifier: MIT */
/*
 * runnel check: tests whether copies and kernels overlap on this machine.
 *
 * DESIGN
 * Experiments call the library's public functions, after rnl_setup(), as a user's program
 * should.  A busy machine must not look like a broken one.  Where possible, an experiment
 * therefore tests whether one operation is done before another ends, instead of measuring
 * times.  Other experiments compare medians, with a wide margin.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "json.h"
#include "options.h"
#include "progress.h"
#include "sharing.h"
#include "tool.h"

#define WORKERS 8
#define PATIENCE_CUDA_NS 150000000u	/* a wait on a GPU takes about a millisecond */
#define PATIENCE_HOST_NS 1500000000u	/* CPUs may be busy */

enum {
	STREAMS, KERNELS, QUEUES, COPIES_IN, COPIES_OUT, COPIES_BOTH, PINNED, PRIORITIES, TURNS, PEERS,
	NR_CHECKS
};

#define CHECK(called, asks) { .name = (called), .question = (asks) }

static struct check checks[NR_CHECKS] = {
	[STREAMS] = CHECK("streams", "each worker has a stream of its own"),
	[KERNELS] = CHECK("kernels", "kernels of different workers run at the same time"),
	[QUEUES] = CHECK("connections", "there are hardware queues for all workers"),
	[COPIES_IN] = CHECK("copies-in", "copies to the device run while kernels run"),
	[COPIES_OUT] = CHECK("copies-out", "copies from the device run while kernels run"),
	[COPIES_BOTH] = CHECK("copies-both", "copies in and out run at the same time"),
	[PINNED] = CHECK("pinned", "pinned memory is page-locked"),
	[PRIORITIES] = CHECK("priorities", "a class goes before others"),
	[TURNS] = CHECK("turns", "no other process takes turns with this one"),
	[PEERS] = CHECK("peers", "copies between devices arrive intact"),
};

static const char *const answers[] = {
	[CHECK_NOT_HERE] = "-", [CHECK_YES] = "yes", [CHECK_NO] = "no", [CHECK_UNKNOWN] = "unknown",
};

static const char doc[] =
"Tests whether on this machine kernels of different workers overlap, copies overlap kernels and "
"each other, streams are per thread, pinned memory is page-locked, connections suffice, priorities "
"work, other processes leave the GPU to this one, and copies between devices arrive.  Names the "
"likely cause of a no.  Takes some seconds.\v"
"The exit status is 0 if every answer is yes, 1 if at least one is no, else 2: a question "
"could not be answered.";

/* ---- printing ------------------------------------------------------------ */

static void check_print_machine(const struct check_machine *m)
{
	static const struct tool_labels labels = { "", ":", 10 };

	if (!m->info.cuda && !m->cuda.nr_devices)
		printf("No GPU answers here: %s.  The host device is checked.\n",
		       m->cuda.why_none);
	printf("device:   ");
	if (m->info.cuda)
		printf("cuda:%d, %s, compute capability %d.%d\n", m->info.ordinal, m->info.name,
		       m->gpu.major, m->gpu.minor);
	else
		printf("host; this process may use %u CPUs\n", m->limits.cpus);
	if (m->info.cuda)
		tool_gpu_print_sharing(&m->gpu, &m->limits, &labels);
	tool_limits_print(&m->limits, &labels);
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
	tool_json_integer("cpus", m->limits.cpus);
	tool_limits_json(&m->limits);
	if (m->info.cuda)
		tool_gpu_json_sharing(&m->gpu);
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

static int check_look(struct check_machine *m)
{
	int ret;

	snprintf(m->first, sizeof(m->first), m->info.cuda ? "cuda:%d" : "host", m->info.ordinal);
	tool_cuda_look(&m->cuda);
	tool_limits_look(&m->limits);
	m->connections = tool_connections(getenv(TOOL_CONNECTIONS));
	m->patience_ns = m->info.cuda ? PATIENCE_CUDA_NS : PATIENCE_HOST_NS;
	ret = m->info.cuda ? tool_gpu_look(m->info.ordinal, &m->gpu) : 0;
	return ret ? tool_trouble("device '%s' does not answer: CUDA error %d", m->device, ret) : 0;
}

/* Runs on the worker's thread, but not in a job, where the guard would report the call. */
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
	m->pool = tool_pool((struct rnl_pool_attr){
		.device = m->first, .nr_workers = m->nr_workers, .on_start = ask_stream, .hook_arg = m,
	});
	tool_progress_begin(6);
	check_meet(m, &checks[STREAMS], &checks[KERNELS], &checks[QUEUES]);
	tool_progress_step();
	check_beside(m, &checks[COPIES_IN], &checks[COPIES_OUT], &checks[PINNED]);
	tool_progress_step();
	check_both(m, &checks[COPIES_BOTH]);
	tool_progress_step();
	check_urgent(m, &checks[PRIORITIES]);
	tool_progress_step();
	check_turns(m, &checks[TURNS]);
	tool_progress_step();
	rnl_pool_destroy(m->pool);
	check_peers(m, &checks[PEERS]);
	tool_progress_step();
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
	const struct tool_usage usage = {
		.doc = doc, .too_many = "give only options", .nr_options = 3, .options = {
			/* The highest number is 62, like for bench. */
			TOOL_NUMBER("workers", &m.nr_workers, 2, TOOL_WORKERS_MAX - 2,
				    "threads with a stream each, 2 to 62; default 8"),
			TOOL_TEXT("device", "D", &m.device, TOOL_DEVICES),
			TOOL_FLAG("json", &json, "print the answers as JSON"),
		},
	};
	int status = tool_options(&usage, argc, argv, NULL);

	if (status != TOOL_GO_ON)
		return status;
	status = tool_begin(m.device, &m.info);
	if (!status)
		status = check_look(&m);
	if (status)
		return status;
	if (!json)
		check_print_machine(&m);
	experiment(&m);
	answer = together();
	if (json)
		json_all(&m, answer);
	else
		print_checks();
	return answer == CHECK_YES ? TOOL_YES : answer == CHECK_NO ? TOOL_NO : TOOL_TROUBLE;
}
