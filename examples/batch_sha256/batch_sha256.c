/* SPDX-License-Identifier: MIT */
/*
 * batch_sha256: the SHA-256 of many files, on a GPU if there is one.
 *
 * DESIGN
 * One thread runs the loop.  Messages (files or lines) are in a ring, in input order.  Only one
 * part of a message is in flight: it is read into a slot and sent; when its answer arrives, the
 * next part is sent with the hash state so far.  So a message of any size needs little memory, and
 * thousands of messages can be in flight.  Only the output is in order: a finished message is
 * printed when it is the first of the ring.
 *
 * If no slot is free, the message is appended to a list, which is served before new messages.
 * This cannot deadlock: only parts in flight have slots, so a slot always becomes free.
 */
#include "config.h"

#include "batch_sha256.h"
#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <runnel/batch.h>
#include <runnel/device.h>

#define RING (1u << 14)		/* messages */
#define BURST 256u		/* new messages per turn of the loop */

struct loop {
	struct sha256_input in;
	struct sha256_slots slots;
	struct sha256_message *ring;
	uint64_t nr_begun, nr_printed;	/* message i is in ring[i % RING] */
	uint64_t bytes;
	struct sha256_message *waiting, **waiting_end;	/* messages that wait for a slot */
	bool failed;
};

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Print the SHA-256 of each FILE, as sha256sum(1) does.  With no FILE, or when FILE is -, "
	"read standard input.";

static void parse_options(struct sha256_options *opt, struct program_operands *files, int argc,
			  char **argv)
{
	static char dash[] = "-", *standard_input[] = { dash };
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	const struct program_option table[] = {
		{ "lines", 0, NULL, "hash each line of each FILE, without its newline; a colon and "
		  "the line's number, from 1 on, follow the name",
		  OPTION_FLAG(&opt->lines) },
		{ "one-by-one", 0, NULL, "do not batch: use a job, copies and a launch for each "
		  "part, for comparison", OPTION_FLAG(&opt->one_by_one) },
		{ "part", 0, "SIZE", "bytes of a message in one request, a multiple of 64 up to 1M; "
		  "64K", OPTION_SIZE(&opt->part, SHA256_BLOCK, 1 << 20) },
		OPTION_DEVICE(&opt->device),
		{ "workers", 0, "N", "threads that run batches, each with a stream",
		  OPTION_NUMBER(&opt->workers, 1, PROGRAM_WORKERS_MAX) },
		{ "stats", 0, NULL, "at the end, print statistics on standard error",
		  OPTION_FLAG(&opt->stats) },
		{ .name = NULL }
	};

	*opt = (struct sha256_options){ .device = "auto", .part = 64 << 10 };
	*files = (struct program_operands){ standard_input, 1 };
	program_options(argc, argv, doc, table, files);
	program_device(opt->device, &info);
}

/* ---- output -------------------------------------------------------------- */

static void print_message(const struct sha256_message *m)
{
	static const char digits[] = "0123456789abcdef";
	char hex[64];

	if (m->err) {
		program_warn("%s: %s", m->name, strerror(m->err));
		return;
	}
	progress_clear();
	for (int i = 0; i < 64; i++)
		hex[i] = digits[m->state.word[i / 8] >> (28 - i % 8 * 4) & 15];
	printf("%.64s  %s", hex, m->name);
	if (m->line)
		printf(":%" PRIu64, m->line);
	putchar('\n');
}

static void print_stats(const struct loop *loop, uint64_t ns)
{
	const struct sha256_slots *slots = &loop->slots;
	const double messages = (double)loop->nr_printed, bytes = (double)loop->bytes;
	struct rnl_batcher_stats batches = RNL_BATCHER_STATS_INIT;

	program_print_pool(slots->pool);
	fprintf(stderr, "messages: %.0f, %.1f MB, in %.3f s: %.0f MB/s, %.0f messages/s\n", messages,
		bytes / 1e6, (double)ns / 1e9, bytes * 1e3 / (double)ns, messages * 1e9 / (double)ns);
	if (!slots->batcher || rnl_batcher_read_stats(slots->batcher, &batches))
		fprintf(stderr, "parts:    %" PRIu64 ", a job for each\n", slots->nr_parts);
	else
		fprintf(stderr, "parts:    %" PRIu64 " in %" PRIu64 " batches, %u in the largest\n",
			slots->nr_parts, batches.batches, batches.largest);
}

/* ---- one message --------------------------------------------------------- */

/* Reads and sends the next part.  Returns false if no slot is free. */
static bool go_on(struct loop *loop, struct sha256_message *m)
{
	struct sha256_part *part;

	if (!sha256_slot_get(&loop->slots, &m->slot, sha256_input_wants(&loop->in, m)))
		return false;
	part = m->slot.part;
	m->err = sha256_input_fill(&loop->in, m, part + 1, m->slot.bytes - sizeof(*part));
	part->state = m->state;
	part->before = m->before;
	part->bytes = m->bytes;
	part->last = m->last;
	sha256_slot_send(&loop->slots, &m->slot);
	return true;
}

static void wait_for_slot(struct loop *loop, struct sha256_message *m)
{
	m->next = NULL;
	*loop->waiting_end = m;
	loop->waiting_end = &m->next;
}

/* Handles the answer to a part. */
static void come_back(struct loop *loop, struct sha256_message *m)
{
	m->state = sha256_slot_take(&loop->slots, &m->slot);
	m->before += m->bytes;
	loop->bytes += m->bytes;
	m->over = m->last;
	if (!m->over)
		wait_for_slot(loop, m);
}

/* Returns like sha256_input_next(). */
static int begin_next(struct loop *loop)
{
	static const struct sha256_state begin = SHA256_BEGIN;
	struct sha256_message *m = &loop->ring[loop->nr_begun % RING];
	const int ret = sha256_input_next(&loop->in, m, loop->nr_begun == loop->nr_printed);

	if (ret <= 0)
		return ret;
	if (loop->nr_begun < RING)
		sha256_slot_init(&loop->slots, &m->slot);
	loop->nr_begun++;
	m->state = begin;
	m->before = 0;
	m->over = m->err;
	if (!m->over && !go_on(loop, m))
		wait_for_slot(loop, m);
	return 1;
}

/* ---- all messages --------------------------------------------------------- */

/* Returns true if it sent a part of a waiting message. */
static bool go_on_waiting(struct loop *loop)
{
	bool some = false;

	while (loop->waiting && go_on(loop, loop->waiting)) {
		loop->waiting = loop->waiting->next;
		if (!loop->waiting)
			loop->waiting_end = &loop->waiting;
		some = true;
	}
	return some;
}

/* Returns true if it began a message.  @more: set to true if there may be more input. */
static bool begin_some(struct loop *loop, bool *more)
{
	unsigned nr = 0;

	while (nr < BURST && !loop->waiting && loop->nr_begun - loop->nr_printed < RING) {
		const int ret = begin_next(loop);

		*more = ret != 0;
		if (ret <= 0)
			break;
		nr++;
	}
	return nr;
}

static void print_some(struct loop *loop)
{
	while (loop->nr_printed < loop->nr_begun) {
		struct sha256_message *m = &loop->ring[loop->nr_printed % RING];

		if (!m->over)
			break;
		print_message(m);
		loop->failed |= m->err;
		loop->nr_printed++;
	}
}

/* Returns the bytes of all files, or 0 if one is not a regular file. */
static uint64_t bytes_of(const struct program_operands *files)
{
	uint64_t bytes = 0;
	struct stat st;

	for (unsigned i = 0; i < files->nr; i++) {
		if (!strcmp(files->names[i], "-") || stat(files->names[i], &st) ||
		    !S_ISREG(st.st_mode))
			return 0;
		bytes += (uint64_t)st.st_size;
	}
	return bytes;
}

static void run(struct loop *loop)
{
	struct sha256_slot *done[SHA256_REAP_MAX];
	bool more = true;

	while (more || loop->nr_printed < loop->nr_begun) {
		bool some = go_on_waiting(loop);
		unsigned nr;

		if (more)
			some |= begin_some(loop, &more);
		nr = sha256_slots_reap(&loop->slots, done, !some && loop->slots.under_way);
		for (unsigned i = 0; i < nr; i++)
			come_back(loop, rnl_container_of(done[i], struct sha256_message, slot));
		print_some(loop);
		progress_show(loop->bytes);
	}
	progress_clear();
}

int main(int argc, char **argv)
{
	struct loop loop = { .ring = calloc(RING, sizeof(*loop.ring)) };
	struct program_operands files;
	struct sha256_options opt;
	uint64_t since_ns;

	program_begin();
	parse_options(&opt, &files, argc, argv);
	program_raise_file_limit();
	program_must(loop.ring ? 0 : -ENOMEM, "the ring");
	loop.waiting_end = &loop.waiting;
	loop.in = (struct sha256_input){ .names = files.names, .nr_names = files.nr,
					 .lines = opt.lines, .part = opt.part };
	sha256_slots_open(&loop.slots, &opt);

	since_ns = program_now_ns();
	progress_begin("hashing", bytes_of(&files), 1e6, "MB");
	run(&loop);
	if (opt.stats)
		print_stats(&loop, program_now_ns() - since_ns);
	sha256_slots_close(&loop.slots);
	sha256_input_close(&loop.in);
	free(loop.ring);
	return loop.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
