/* SPDX-License-Identifier: MIT */
/*
 * The command line of http_server.
 *
 * DESIGN
 * Numbers are checked here; a device is checked only when it is used.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY ((size_t)256 << 20)

static const char doc[] =
	"Counts words and finds edges for HTTP clients, on the workers of a runnel pool.\n"
	"\n"
	"  GET /          a page with forms, live statistics, and a timeline of the workers\n"
	"  POST /wc       counts the body's lines, words and bytes; JSON\n"
	"  POST /sobel    finds the edges of an image (PNG, PGM, PPM); PNG\n"
	"  GET /docs      the documentation\n"
	"  GET /live      the data of the page; JSON\n"
	"  GET /metrics   metrics for Prometheus\n"
	"  GET /healthz   200 if the pool is well; else 503 and the reason\n"
	"\v@FILE inserts the options in FILE, one per line, as NAME=VALUE.  SIGHUP does not change "
	"the parent's own --listen, --loops, --processes, --gpus, --grace and "
	"--stuck.\n"
	"\n"
	"SIGTERM, SIGINT, SIGQUIT and SIGHUP (unless ignored, like after nohup) end the server "
	"when all accepted requests are answered; SIGHUP to the parent of several processes "
	"replaces them. SIGUSR1 and SIGUSR2 are ignored.\n"
	"\n"
	"Exit status: 0 all accepted requests were answered; 1 some were not, or the server could "
	"not start or write standard output; 2 wrong arguments; 75 like 0, but the GPU has failed.";

/* @arg: HOST:PORT; [HOST]:PORT for an IPv6 address, which contains colons. */
static const char *parse_address(void *to, const char *arg)
{
	const struct addrinfo hints = { .ai_flags = AI_NUMERICSERV, .ai_socktype = SOCK_STREAM };
	const bool brackets = *arg == '[';
	const char *host = arg + brackets;
	const char *host_end = brackets ? strchr(arg, ']') : strchr(arg, ':');
	const char *colon = host_end && brackets ? host_end + 1 : host_end;
	const char *port = colon && *colon == ':' ? colon + 1 : NULL;
	struct options *opt = to;
	struct addrinfo *found = NULL;
	char name[256];
	int ret;

	if (!port || !*port || port[strspn(port, "0123456789")] ||
	    strtoul(port, NULL, 10) > 65535 || host_end == host ||
	    (size_t)(host_end - host) >= sizeof(name))
		return "give an address and a port, such as 127.0.0.1:8080 or [::1]:8080";
	memcpy(name, host, (size_t)(host_end - host));
	name[host_end - host] = '\0';
	ret = getaddrinfo(name, port, &hints, &found);
	if (ret)
		return gai_strerror(ret);
	memcpy(&opt->addr, found->ai_addr, found->ai_addrlen);
	opt->addr_len = found->ai_addrlen;
	freeaddrinfo(found);
	return NULL;
}

/* ---- @FILE ----------------------------------------------------------------- */

struct arguments {
	char **list;
	int nr;
};

static void add_argument(struct arguments *arguments, char *text)
{
	/* 2: the argument, and the NULL at the end.  Never freed. */
	arguments->list = realloc(arguments->list, (size_t)(arguments->nr + 2) * sizeof(char *));
	if (!arguments->list || !text)
		program_die("options: no memory");
	arguments->list[arguments->nr++] = text;
	arguments->list[arguments->nr] = NULL;
}

/* Each line is NAME=VALUE, or NAME; empty lines and lines with # at the start are ignored. */
static void read_arguments(struct arguments *arguments, const char *name)
{
	FILE *file = fopen(name, "re");
	char *line = NULL, *text;
	size_t space = 0;
	ssize_t bytes;

	if (!file)
		program_misuse("%s: %s", name, strerror(errno));
	while ((bytes = getline(&line, &space, file)) > 0) {
		if (strlen(line) != (size_t)bytes)
			program_misuse("%s: it contains a NUL", name);
		line[strcspn(line, "\n")] = '\0';
		if (!*line || *line == '#')
			continue;
		if (asprintf(&text, "--%s", line) < 0)
			text = NULL;
		add_argument(arguments, text);
	}
	if (ferror(file))
		program_misuse("%s: %s", name, strerror(errno));
	fclose(file);
	free(line);
}

static struct arguments expand(int argc, char **argv)
{
	struct arguments arguments = { NULL, 0 };

	for (int i = 0; i < argc; i++) {
		if (i && *argv[i] == '@')
			read_arguments(&arguments, argv[i] + 1);
		else
			add_argument(&arguments, argv[i]);
	}
	return arguments;
}

/* ---- the table ------------------------------------------------------------- */

/* Accepts "all", or numbers separated by commas. */
static const char *parse_gpus(void *to, const char *arg)
{
	unsigned long seen = 0;
	const char *at = arg;
	char *end = (char *)(uintptr_t)arg;

	*(const char **)to = arg;
	if (!strcmp(arg, "all"))
		return NULL;
	for (;; at = end + 1) {
		const unsigned long gpu = *at >= '0' && *at <= '9' ? strtoul(at, &end, 10) : 64;

		if (gpu >= 64)
			return "give all, or numbers of GPUs, such as 0,1";
		if (seen >> gpu & 1)
			return "a GPU is named twice";
		seen |= 1ul << gpu;
		if (!*end)
			return NULL;
		if (*end != ',')
			return "give all, or numbers of GPUs, such as 0,1";
	}
}

/* Sets --memory: one request of each class must have space for its body and its answer. */
static void set_memory(struct options *opt)
{
	const size_t answer = 2 * image_png_bytes_max(opt->max_pixels);
	const size_t one = opt->max_body > answer ? opt->max_body : answer;
	const unsigned slots = opt->slots / opt->loops;
	size_t least = one;

	/* A class has as large a part of the memory as of the slots. */
	for (unsigned i = 0; i < opt->nr_classes; i++) {
		const unsigned limit = opt->classes[i].limit;
		const size_t need = (one + limit - 1) / limit * slots;

		least = need > least ? need : least;
	}
	if (!opt->memory)
		opt->memory = opt->nr_classes ? one * slots : least;
	else if (opt->memory < least)
		program_misuse("--memory is too small for one request%s: give %zuM, or smaller "
			       "--max-body and --max-pixels", opt->nr_classes ? " of each class" : "",
			       (least >> 20) + 1);
	else
		return;
	if (opt->memory < MEMORY)
		opt->memory = MEMORY;
}

void options_parse(struct options *opt, int argc, char **argv)
{
	static struct arguments all;	/* opt points into it */
	const struct program_option table[] = {
		{ "listen", 0, "ADDR:PORT", "address to listen on; 127.0.0.1:8080; port 0: any, "
		  "which is printed; a socket that systemd passes by LISTEN_FDS takes precedence",
		  OPTION_PARSED(opt, parse_address) },
		OPTION_DEVICE(&opt->device),
		{ "stream", 0, "S", "the workers' streams: per-thread, private",
		  OPTION_CHOICE(&opt->stream, "per-thread|private") },
		{ "loops", 0, "N", "threads that run an event loop; 2",
		  OPTION_NUMBER(&opt->loops, 1, LOOPS_MAX) },
		{ "workers", 0, "N", "threads that run jobs, each with a stream",
		  OPTION_NUMBER(&opt->workers, 1, PROGRAM_WORKERS_MAX) },
		{ "slots", 0, "N", "concurrent requests; others are answered 503; 128",
		  OPTION_NUMBER(&opt->slots, 1, 65536) },
		{ "queue", 0, "N", "queued jobs; further requests are answered 503",
		  OPTION_NUMBER(&opt->queue, 1, 1 << 20) },
		{ "class", 0, "NAME:PRIORITY[:WEIGHT[:LIMIT[:JOBS[:PER_SECOND]]]]", "a class of "
		  "requests, which have the header X-Class: NAME, or without this header the path "
		  "NAME; other: all other requests; smaller PRIORITY, -4 to 3, is served first; a "
		  "priority's classes share the workers by WEIGHT, 1; LIMIT requests at a time, by "
		  "default an equal part of a loop's slots; further ones are answered 503; JOBS: most "
		  "jobs started at a time, PER_SECOND: in a second; 0: no limit; up to 16 times",
		  OPTION_PARSED(opt, classes_parse) },
		{ "max-batch", 0, "N", "small images in a batch on a GPU; 64; 0: no batches",
		  OPTION_NUMBER(&opt->max_batch, 0, 4096) },
		{ "max-body", 0, "SIZE", "bytes of a body; a longer one is answered 413; 1M",
		  OPTION_SIZE(&opt->max_body, 1, 1 << 30) },
		{ "max-pixels", 0, "SIZE", "pixels of an image; a larger one is answered 413; 2M",
		  OPTION_SIZE(&opt->max_pixels, 1, 1 << 28) },
		{ "connections", 0, "N", "concurrent clients; further ones replace idle clients, "
		  "or wait to be accepted; 1024",
		  OPTION_NUMBER(&opt->connections, 1, 1 << 20) },
		{ "memory", 0, "SIZE", "bytes of all bodies and answers in memory; further "
		  "requests are answered 503; 256M, or if larger the need of one request, with --class "
		  "that of the slots of a loop",
		  OPTION_SIZE(&opt->memory, 1, UINT64_C(1) << 40) },
		{ "head-time", 0, "S", "seconds from a request's first byte to the end of its "
		  "headers; or 408 is answered; 10", OPTION_NUMBER(&opt->head_s, 1, 86400) },
		{ "request-time", 0, "S", "seconds from a request's first byte to its answer's last; "
		  "a slower one is answered 408 or 504, or closed; 60",
		  OPTION_NUMBER(&opt->request_s, 1, 86400) },
		{ "idle-time", 0, "S", "seconds until a connection without a request is closed; 60",
		  OPTION_NUMBER(&opt->idle_s, 1, 86400) },
		{ "deadline", 0, "MS", "time from a complete request to its answer, which is 504 "
		  "after; 2000; 0: --request-time", OPTION_NUMBER(&opt->deadline_ms, 0, 3600000) },
		{ "grace", 0, "S", "seconds to finish in after SIGTERM and the like; clients have half "
		  "of it to send requests that have begun; in the last quarter, jobs that have not "
		  "started are cancelled; after a failure a fifth; 10",
		  OPTION_NUMBER(&opt->grace_s, 1, 3600) },
		{ "linger", 0, "MS", "idle time after which a connection may be closed, at the "
		  "end and for another client; 500",
		  OPTION_NUMBER(&opt->linger_ms, 1, 60000) },
		{ "handler", 0, "H", "async; for comparison: sync: the loop waits for the device; "
		  "thread: one per request", OPTION_CHOICE(&opt->handler, "async|sync|thread") },
		{ "exit-on-failure", 0, NULL, "when the GPU has failed, answer the open requests, "
		  "in a fifth of --grace, and exit with 75, for a parent that starts another process; "
		  "without this option the server continues, and answers 503",
		  OPTION_FLAG(&opt->exit_on_failure) },
		{ "processes", 0, "N", "be such a parent: keep the address, start N processes that "
		  "serve it, and replace one that exits with 75, dies, or hangs; SIGHUP replaces "
		  "all of them, with the current program and @FILE",
		  OPTION_NUMBER(&opt->processes, 1, PROCESSES_MAX) },
		{ "gpus", 0, "LIST", "be such a parent, with a process for each GPU: all, or 0,1",
		  OPTION_PARSED(&opt->gpus, parse_gpus) },
		{ "stuck", 0, "S", "with --processes or --gpus: replace a process after this time "
		  "if a worker does not finish a request, or a loop does not "
		  "answer; 30; 0: never",
		  OPTION_NUMBER(&opt->stuck_s, 0, 3600) },
		{ "trace", 0, "FILE", "write what the workers do to FILE, for `runnel report' and "
		  "Perfetto; a process of several ones writes to FILE.N; it takes more memory than is "
		  "printed at the start", OPTION_TEXT(&opt->trace) },
		{ "allow-crash", 0, NULL, "for tests: POST /crash fails the GPU, POST /hang hangs",
		  OPTION_FLAG(&opt->allow_crash) },
		{ .name = NULL }
	};

	*opt = (struct options){
		.device = "auto",
		.stream = RNL_STREAM_PER_THREAD,
		.loops = 2,
		.slots = 128,
		.max_batch = 64,
		.max_body = 1 << 20,
		.max_pixels = 2 << 20,
		.connections = 1024,
		.head_s = 10,
		.request_s = 60,
		.idle_s = 60,
		.deadline_ms = 2000,
		.grace_s = 10,
		.linger_ms = 500,
		.stuck_s = 30,
	};
	parse_address(opt, "127.0.0.1:8080");
	all = expand(argc, argv);
	program_options(all.nr, all.list, doc, table, NULL);
	/* Each loop has the same number of slots. */
	opt->slots = (opt->slots + opt->loops - 1) / opt->loops * opt->loops;
	classes_share(opt);
	set_memory(opt);
	if (opt->gpus && opt->processes)
		program_misuse("--gpus starts a process for each GPU: --processes is for the host");
	if (opt->gpus && strcmp(opt->device, "auto"))
		program_misuse("--gpus names the devices: leave --device out");
	/* A loop that stops waits for --linger at least once, within the grace. */
	if (opt->linger_ms > opt->grace_s * 250)
		opt->linger_ms = opt->grace_s * 250;
	opt->exit_on_failure |= opt->processes || opt->gpus;
}
