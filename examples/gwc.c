/* SPDX-License-Identifier: MIT */
/*
 * gwc: counts lines, words and bytes as wc(1) does, on a GPU where there is one.
 *
 * DESIGN
 * A producer/consumer program.  Producers read the files into pinned memory and
 * submit jobs, the workers of a runnel pool copy the text to the device and
 * count it there, and this thread, the consumer, takes the results in the order
 * of the files, adds them up and prints.  gwc.h says which file does what.
 *
 * Output, diagnostics and exit status are those of coreutils' wc in the C
 * locale, with "gwc" for its name; there is no -L.
 */
#include "config.h"

#include "guard.h"
#include "gwc.h"
#include "quote.h"
#include "std_fd.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* How long the consumer waits at most before it updates the line of progress. */
#define PROGRESS_NS 100000000

struct tally {
	const struct gwc_options *opt;
	int width;
	uint64_t files;
	struct gwc_counts total;
	bool read_stdin;
	bool failed;
};

/*
 * Ends the process at once, with its producers, which may be waiting for a pipe
 * that nobody writes to.  What is printed so far is whole lines.
 */
static _Noreturn void die(int err, const char *what)
{
	gwc_report_error(0, "%s: %s", what, rnl_strerror(err));
	_exit(gwc_report_end(true));
}

/* What the library has to say; any thread. */
static void log_message(void *arg, enum rnl_log_level level, const char *msg)
{
	const struct gwc_options *opt = arg;

	if (opt->stats || guard_shows(level))
		fprintf(stderr, "gwc: %s\n", msg);
}

static struct rnl_pool *create_pool(struct gwc_options *opt)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	int ret;

	attr.nr_workers = opt->workers;
	attr.device = opt->device;
	attr.guard = guard_wanted();
	attr.log = log_message;
	attr.log_arg = opt;
	ret = rnl_pool_create(&pool, &attr);
	if (ret)
		die(ret, ret == -EAGAIN ? "starting a thread for each worker (try --workers=1)" :
					  "creating the workers");
	return pool;
}

static void complain(struct tally *tally, const struct gwc_input *in, int err)
{
	const char *list = tally->opt->files0_from;

	tally->failed = true;
	if (in->kind == GWC_INPUT_EMPTY_NAME && list)
		gwc_report_error(0, "%s:%lu: invalid zero-length file name",
				 quote_name(list, false), in->number);
	else if (in->kind == GWC_INPUT_EMPTY_NAME)
		gwc_report_error(0, "invalid zero-length file name");
	else if (in->kind == GWC_INPUT_DASH)
		gwc_report_error(0, "when reading file names from stdin, no file name of '-' "
				 "allowed");
	else if (in->kind == GWC_INPUT_BAD_LIST)
		gwc_report_error(err, "%s: read error", quote_name(list, false));
	else
		gwc_report_error(err, "%s", quote_name(in->name ? in->name : "standard input",
						       false));
}

/* Adds a part to its input; prints the input's line when it is the last. */
static void consume(struct tally *tally, const struct gwc_part *part)
{
	struct gwc_input *in = part->in;

	if (!in->over) {
		in->sum = gwc_join(in->sum, part->sum);
		in->bytes += part->bytes;
		in->over = part->flags & GWC_PART_OVER;
		if (part->err || part->flags & GWC_PART_NOT_OPENED)
			complain(tally, in, part->err);
	}
	if (!(part->flags & GWC_PART_LAST))
		return;
	if (in->kind != GWC_INPUT_BAD_LIST)
		tally->files++;
	if (in->kind == GWC_INPUT_STREAM && gwc_input_is_stdin(in))
		tally->read_stdin = true;
	if (!(part->flags & GWC_PART_NOT_OPENED)) {
		const struct gwc_counts counts = { in->sum.lines, in->sum.words, in->bytes };

		if (tally->opt->total != GWC_TOTAL_ONLY)
			gwc_report_counts(tally->opt, tally->width, &counts, in->name);
		tally->total.lines += counts.lines;
		tally->total.words += counts.words;
		tally->total.bytes += counts.bytes;
	}
	gwc_input_free(in);
}

static void consume_all(struct tally *tally, struct gwc_pipe *pipe, uint64_t since_ns)
{
	const int64_t wait_ns = gwc_report_progress_wanted() ? PROGRESS_NS : RNL_FOREVER;
	uint64_t bytes = 0;
	int ret;

	do {
		struct gwc_part part;
		const char *what;

		ret = gwc_pipe_next(pipe, &part, 0, &what);
		if (ret == -ETIMEDOUT) {	/* so there is time to write */
			fflush(stdout);
			ret = gwc_pipe_next(pipe, &part, wait_ns, &what);
		}
		if (ret > 0) {
			bytes += part.bytes;
			consume(tally, &part);
		} else if (ret && ret != -ETIMEDOUT) {
			die(ret, what);
		}
		if (wait_ns != RNL_FOREVER)
			gwc_report_progress(bytes, since_ns);
	} while (ret);
}

static void print_total(const struct tally *tally)
{
	const enum gwc_total when = tally->opt->total;

	if (when == GWC_TOTAL_NEVER || (when == GWC_TOTAL_AUTO && tally->files <= 1))
		return;
	gwc_report_counts(tally->opt, tally->width, &tally->total,
			  when == GWC_TOTAL_ONLY ? NULL : "total");
}

int main(int argc, char **argv)
{
	const bool no_stdin = !std_fd_keep(STDIN_FILENO);
	const bool no_stdout = !std_fd_keep(STDOUT_FILENO);
	struct gwc_pipe_stats stats;
	struct gwc_options opt;
	struct gwc_source src;
	struct rnl_pool *pool;
	struct gwc_pipe *pipe;
	struct tally tally;
	uint64_t since_ns;
	const char *what;
	int ret;

	std_fd_keep(STDERR_FILENO);
	rnl_setup();	/* without it there may be fewer streams at once, no more */
	gwc_report_begin(no_stdout);
	gwc_options_parse(&opt, argc, argv);
	gwc_source_open(&src, &opt, gwc_pipe_work_bytes(&opt), no_stdin);
	tally = (struct tally){ .opt = &opt, .width = src.width };
	pool = create_pool(&opt);

	since_ns = gwc_now_ns();
	ret = gwc_pipe_start(&pipe, pool, &src, &opt, &what);
	if (ret)
		die(ret, what);
	consume_all(&tally, pipe, since_ns);
	print_total(&tally);
	gwc_pipe_stop(pipe, &stats);
	if (tally.read_stdin && no_stdin) {	/* which wc finds when it closes it */
		gwc_report_error(EBADF, "-");
		tally.failed = true;
	}

	if (opt.stats)
		gwc_report_stats(pool, &stats, &opt, tally.files, tally.total.bytes,
				 gwc_now_ns() - since_ns);
	rnl_pool_destroy(pool);
	free(src.list);
	free(opt.names);
	return gwc_report_end(tally.failed);
}
