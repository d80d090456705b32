/* SPDX-License-Identifier: MIT */
/*
 * The command line of http_server.
 *
 * DESIGN
 * Long options alone, read by getopt_long().  Numbers are looked at here, in
 * full; whether an address or a device is there is seen when it is used.  What is
 * wrong is named on standard error, and the exit status is 2.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXIT_USAGE 2

enum {
	OPT_HELP = 256,
	OPT_LISTEN,
	OPT_DEVICE,
	OPT_STREAM,
	OPT_LOOPS,
	OPT_WORKERS,
	OPT_SLOTS,
	OPT_QUEUE,
	OPT_MAX_BODY,
	OPT_MAX_PIXELS,
	OPT_DEADLINE,
	OPT_GRACE,
	OPT_LINGER,
	OPT_HANDLER,
	OPT_EXIT_ON_FAILURE,
	OPT_SUPERVISE,
	OPT_ALLOW_CRASH,
};

static const struct option long_options[] = {
	{ "help", no_argument, NULL, OPT_HELP },
	{ "listen", required_argument, NULL, OPT_LISTEN },
	{ "device", required_argument, NULL, OPT_DEVICE },
	{ "stream", required_argument, NULL, OPT_STREAM },
	{ "loops", required_argument, NULL, OPT_LOOPS },
	{ "workers", required_argument, NULL, OPT_WORKERS },
	{ "slots", required_argument, NULL, OPT_SLOTS },
	{ "queue", required_argument, NULL, OPT_QUEUE },
	{ "max-body", required_argument, NULL, OPT_MAX_BODY },
	{ "max-pixels", required_argument, NULL, OPT_MAX_PIXELS },
	{ "deadline", required_argument, NULL, OPT_DEADLINE },
	{ "grace", required_argument, NULL, OPT_GRACE },
	{ "linger", required_argument, NULL, OPT_LINGER },
	{ "handler", required_argument, NULL, OPT_HANDLER },
	{ "exit-on-failure", no_argument, NULL, OPT_EXIT_ON_FAILURE },
	{ "supervise", no_argument, NULL, OPT_SUPERVISE },
	{ "allow-crash", no_argument, NULL, OPT_ALLOW_CRASH },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: http_server [OPTION]...\n"
"Counts words and finds edges for HTTP clients, on the workers of a runnel pool.\n"
"\n"
"  POST /wc       answers the body's lines, words and bytes, as JSON\n"
"  POST /sobel    answers the edges of an image (PNG, PGM, PPM), as PNG\n"
"  GET /metrics   figures for Prometheus\n"
"  GET /healthz   200 while the pool is well; 503, and why, when it is not\n"
"\n"
"      --listen=ADDR:PORT   127.0.0.1:8080; port 0 is any, and is printed\n"
"      --device=D           auto (a GPU if there is one), cuda, cuda:N, host\n"
"      --stream=S           the workers' streams: per-thread, private\n"
"      --loops=N            threads that run an event loop; 2\n"
"      --workers=N          threads that run jobs, each with its own stream\n"
"      --slots=N            requests at a time, more are answered 503; 128\n"
"      --queue=N            jobs queued at most, more are answered 503\n"
"      --max-body=N[K|M]    bytes of a body, more are answered 413; 1M\n"
"      --max-pixels=N[K|M]  pixels of an image, more are answered 413; 2M\n"
"      --deadline=MS        what no worker has begun by then is answered 504; 2000;\n"
"                           0: never\n"
"      --grace=S            seconds to finish in after SIGTERM or SIGINT; 10\n"
"      --linger=MS          silence after which it then closes idle connections; 500\n"
"      --handler=H          async, or sync: what async replaces, for comparing\n"
"      --exit-on-failure    when the GPU has failed, answer what is under way, in 2 s\n"
"                           at most, and exit with 75: for who starts another process;\n"
"                           without it the server stays, and answers 503\n"
"      --supervise          a parent does that, and keeps the address: it starts a fresh\n"
"                           server when one exits so, or dies\n"
"      --allow-crash        for tests: POST /crash has the GPU fail\n"
"      --help               print this and exit\n"
"\n"
"Exit status: 0 all that was accepted is answered; 1 it is not, or the server could\n"
"not start; 2 wrong arguments; 75 as 0, but the GPU has failed.\n";

static _Noreturn __attribute__((format(printf, 1, 2))) void usage(const char *format, ...)
{
	va_list args;

	fputs("http_server: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputs("\nTry 'http_server --help' for more information.\n", stderr);
	exit(EXIT_USAGE);
}

/* @units: K or M may follow. */
static size_t parse_number(const char *name, const char *arg, size_t min, size_t max, bool units)
{
	unsigned long long number = 0;
	char *end = NULL;

	if (*arg >= '0' && *arg <= '9') {
		errno = 0;
		number = strtoull(arg, &end, 10);
		if (units && !errno && *end && strchr("KkMm", *end)) {
			/* Too large stays too large, and does not wrap. */
			number = number > max ? number :
				number << (*end == 'M' || *end == 'm' ? 20 : 10);
			end++;
		}
		if (!errno && !*end && number >= min && number <= max)
			return (size_t)number;
	}
	usage("'%s' is not good for --%s: give a number from %zu to %zu%s", arg, name, min, max,
	      units ? ", or one with K or M behind it" : "");
}

/* @values: two, and NULL; return: the index of the one that it is. */
static int parse_choice(const char *name, const char *arg, const char *const *values)
{
	for (int i = 0; values[i]; i++)
		if (strcmp(arg, values[i]) == 0)
			return i;
	usage("'%s' is not good for --%s: give %s or %s", arg, name, values[0], values[1]);
}

/* @arg: HOST:PORT, or [HOST]:PORT, as an IPv6 address has colons of its own. */
static void parse_address(struct options *opt, const char *arg)
{
	const struct addrinfo hints = {
		.ai_flags = AI_NUMERICSERV,
		.ai_socktype = SOCK_STREAM,
	};
	const bool brackets = *arg == '[';
	const char *host = arg + brackets;
	const char *host_end = brackets ? strchr(arg, ']') : strchr(arg, ':');
	const char *colon = host_end && brackets ? host_end + 1 : host_end;
	const char *port = colon && *colon == ':' ? colon + 1 : NULL;
	struct addrinfo *found = NULL;
	char name[256];
	int ret;

	if (!port || !*port || port[strspn(port, "0123456789")] ||
	    strtoul(port, NULL, 10) > 65535 || host_end == host || (size_t)(host_end - host) >= sizeof(name))
		usage("'%s' is not good for --listen: give an address and a port, such as "
		      "127.0.0.1:8080 or [::1]:8080", arg);
	memcpy(name, host, (size_t)(host_end - host));
	name[host_end - host] = '\0';
	ret = getaddrinfo(name, port, &hints, &found);
	if (ret)
		usage("'%s' is not good for --listen: %s", arg, gai_strerror(ret));
	memcpy(&opt->addr, found->ai_addr, found->ai_addrlen);
	opt->addr_len = found->ai_addrlen;
	freeaddrinfo(found);
}

static const char *parse_device(const char *arg)
{
	if (strcmp(arg, "auto") && strcmp(arg, "host") && strcmp(arg, "cuda") &&
	    (strncmp(arg, "cuda:", 5) || !arg[5] || arg[5 + strspn(arg + 5, "0123456789")]))
		usage("'%s' is not good for --device: give auto, cuda, cuda:N or host", arg);
	return arg;
}

static _Noreturn void print_help(void)
{
	fputs(help, stdout);
	if (!fflush(stdout))
		exit(EXIT_SUCCESS);
	fputs("http_server: not all of this could be written to standard output\n", stderr);
	exit(EXIT_FAILURE);
}

static void parse(struct options *opt, int option, const char *arg)
{
	static const char *const streams[] = { "per-thread", "private", NULL };
	static const char *const handlers[] = { "async", "sync", NULL };

	switch (option) {
	case OPT_HELP:
		print_help();
	case OPT_LISTEN:
		parse_address(opt, arg);
		break;
	case OPT_DEVICE:
		opt->device = parse_device(arg);
		break;
	case OPT_STREAM:
		opt->stream = parse_choice("stream", arg, streams) ? RNL_STREAM_PRIVATE :
								     RNL_STREAM_PER_THREAD;
		break;
	case OPT_LOOPS:
		opt->loops = (unsigned)parse_number("loops", arg, 1, 64, false);
		break;
	case OPT_WORKERS:
		opt->workers = (unsigned)parse_number("workers", arg, 1, RNL_WORKERS_MAX, false);
		break;
	case OPT_SLOTS:
		opt->slots = (unsigned)parse_number("slots", arg, 1, 65536, false);
		break;
	case OPT_QUEUE:
		opt->queue = (unsigned)parse_number("queue", arg, 1, 1 << 20, false);
		break;
	case OPT_MAX_BODY:
		opt->max_body = parse_number("max-body", arg, 1, 1 << 30, true);
		break;
	case OPT_MAX_PIXELS:
		opt->max_pixels = parse_number("max-pixels", arg, 1, 1 << 28, true);
		break;
	case OPT_DEADLINE:
		opt->deadline_ms = (unsigned)parse_number("deadline", arg, 0, 3600000, false);
		break;
	case OPT_GRACE:
		opt->grace_s = (unsigned)parse_number("grace", arg, 0, 3600, false);
		break;
	case OPT_LINGER:
		opt->linger_ms = (unsigned)parse_number("linger", arg, 1, 60000, false);
		break;
	case OPT_HANDLER:
		opt->sync = parse_choice("handler", arg, handlers) == 1;
		break;
	case OPT_EXIT_ON_FAILURE:
		opt->exit_on_failure = true;
		break;
	case OPT_SUPERVISE:
		opt->exit_on_failure = true;
		opt->supervise = true;
		break;
	case OPT_ALLOW_CRASH:
		opt->allow_crash = true;
		break;
	default:		/* getopt_long() has said what is wrong */
		fputs("Try 'http_server --help' for more information.\n", stderr);
		exit(EXIT_USAGE);
	}
}

void options_parse(struct options *opt, int argc, char **argv)
{
	static char name[] = "http_server";
	int option;

	*opt = (struct options){
		.device = "auto",
		.stream = RNL_STREAM_PER_THREAD,
		.loops = 2,
		.slots = 128,
		.max_body = 1 << 20,
		.max_pixels = 2 << 20,
		.deadline_ms = 2000,
		.grace_s = 10,
		.linger_ms = 500,
	};
	parse_address(opt, "127.0.0.1:8080");
	if (argc)
		argv[0] = name;	/* for what getopt_long() has to say */
	while ((option = getopt_long(argc, argv, "", long_options, NULL)) != -1)
		parse(opt, option, optarg);
	if (optind < argc)
		usage("'%s' is too much: all arguments are options", argv[optind]);
	/* Every loop has as many as the others. */
	opt->slots = (opt->slots + opt->loops - 1) / opt->loops * opt->loops;
}
