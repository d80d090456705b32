/* SPDX-License-Identifier: MIT */
/*
 * batch_sha256: the SHA-256 of many files, on a GPU where there is one.
 *
 * DESIGN
 * One thread runs it all.  Messages, which are files or lines, are in a ring in the
 * order of the input.  Each has one part under way at a time: it is read into a slot
 * and sent, and when it is back, the next one is, with the state that the one before
 * has left.  So a message is of any size in little memory, there are thousands of them
 * under way, and nobody waits for one of them but who is to print it: the first one of
 * the ring is printed when it is over.
 *
 * A message for which there is no slot waits in a list, which goes before new messages.
 * Slots are only held by parts that are under way, so some come back; when none are
 * under way, there is room.
 *
 * Output, diagnostics and exit status are those of coreutils' sha256sum, with
 * "batch_sha256" for its name; but 2 if the command line is wrong.
 */
#include "config.h"

#include "batch_sha256.h"
#include "std_fd.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#define RING (1u << 14)		/* messages */
#define BURST 256u		/* are begun before a look at those that are done */

struct loop {
	struct sha256_input in;
	struct sha256_slots slots;
	struct sha256_message *ring;
	uint64_t nr_begun, nr_printed;	/* message i is in ring[i % RING] */
	uint64_t bytes;
	struct sha256_message *waiting, **waiting_end;	/* for slots */
	struct sha256_message *reader;	/* waits until the others are done; NULL: none */
	bool failed;
};

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- one message --------------------------------------------------------- */

static void end_message(struct sha256_message *m, int err)
{
	m->err = err;
	m->over = true;
}

/*
 * Fills a slot with the message's next part.
 * Return: 0; -EAGAIN there is none now; -EBUSY not before the other messages are over;
 *	a positive errno: it cannot be read.
 */
static int fill(struct loop *loop, struct sha256_message *m)
{
	const bool alone = loop->nr_begun - loop->nr_printed == 1;
	struct sha256_part *part;
	size_t bytes;
	int ret = sha256_input_look(&loop->in, m, alone, &bytes);

	if (ret)
		return ret == -EAGAIN ? -EBUSY : ret;
	if (!sha256_slot_get(&loop->slots, &m->slot, bytes))
		return -EAGAIN;
	part = m->slot.part;
	ret = sha256_input_fill(&loop->in, m, part + 1, m->slot.bytes - sizeof(*part));
	if (ret) {
		sha256_slot_drop(&loop->slots, &m->slot);
		return ret;
	}
	part->state = m->state;
	part->before = m->before;
	part->bytes = m->bytes;
	part->last = m->last;
	m->filled = true;
	return 0;
}

/* Return: false if it must wait for room, and is to be tried again. */
static bool go_on(struct loop *loop, struct sha256_message *m)
{
	const int ret = m->filled ? 0 : fill(loop, m);

	if (ret == -EAGAIN)
		return false;
	if (ret == -EBUSY)
		loop->reader = m;
	else if (ret)
		end_message(m, ret);
	if (ret)
		return true;
	if (!sha256_slot_send(&loop->slots, &m->slot))
		return false;
	m->filled = false;
	return true;
}

static void wait_for_room(struct loop *loop, struct sha256_message *m)
{
	m->next = NULL;
	*loop->waiting_end = m;
	loop->waiting_end = &m->next;
}

/* A part is back. */
static void come_back(struct loop *loop, struct sha256_message *m)
{
	m->state = sha256_slot_take(&loop->slots, &m->slot);
	m->before += m->bytes;
	loop->bytes += m->bytes;
	if (m->last)
		end_message(m, 0);
	else
		wait_for_room(loop, m);
}

/* Return: as sha256_input_next(). */
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
	m->filled = false;
	m->over = m->err;
	if (!m->over && !go_on(loop, m))
		wait_for_room(loop, m);
	return 1;
}

/* ---- all of them --------------------------------------------------------- */

/* Return: whether any of those that waited need not wait any more. */
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

/* Return: whether there is something new; *@more: there may be more input. */
static bool begin_some(struct loop *loop, bool *more)
{
	unsigned nr = 0;
	int ret = 1;

	if (loop->reader) {
		struct sha256_message *m = loop->reader;

		loop->reader = NULL;
		if (!go_on(loop, m))
			wait_for_room(loop, m);
		return !loop->reader;
	}
	while (nr < BURST && !loop->waiting && !loop->reader &&
	       loop->nr_begun - loop->nr_printed < RING) {
		ret = begin_next(loop);
		if (ret <= 0)
			break;
		nr++;
	}
	*more = ret != 0;
	return nr;
}

static void print_some(struct loop *loop)
{
	while (loop->nr_printed < loop->nr_begun) {
		struct sha256_message *m = &loop->ring[loop->nr_printed % RING];

		if (!m->over)
			break;
		sha256_report_message(m);
		loop->failed |= m->err;
		loop->nr_printed++;
	}
}

static void run(struct loop *loop)
{
	struct sha256_slot *done[SHA256_REAP_MAX];
	bool more = true;

	while (more || loop->nr_printed < loop->nr_begun) {
		bool some = go_on_waiting(loop);
		unsigned nr;

		if (more && !loop->waiting)
			some |= begin_some(loop, &more);
		nr = sha256_slots_reap(&loop->slots, done, !some && loop->slots.under_way);
		for (unsigned i = 0; i < nr; i++)
			come_back(loop, rnl_container_of(done[i], struct sha256_message, slot));
		print_some(loop);
	}
}

static void begin(struct loop *loop, struct sha256_options *opt, bool no_stdin)
{
	*loop = (struct loop){ .ring = calloc(RING, sizeof(*loop->ring)) };
	loop->waiting_end = &loop->waiting;
	if (!loop->ring)
		sha256_report_die(-ENOMEM, "making the ring");
	sha256_slots_open(&loop->slots, opt);
	sha256_input_open(&loop->in, opt, no_stdin);
}

int main(int argc, char **argv)
{
	const bool no_stdin = !std_fd_keep(STDIN_FILENO);
	const bool no_stdout = !std_fd_keep(STDOUT_FILENO);
	struct sha256_options opt;
	struct loop loop;
	uint64_t since_ns;

	std_fd_keep(STDERR_FILENO);
	rnl_setup();	/* without it there may be fewer streams at once, no more */
	sha256_report_begin(no_stdout);
	sha256_options_parse(&opt, argc, argv);
	begin(&loop, &opt, no_stdin);

	since_ns = now_ns();
	run(&loop);
	if (loop.in.read_stdin && no_stdin) {	/* which sha256sum finds when it closes it */
		sha256_report_error(EBADF, "standard input");
		loop.failed = true;
	}
	if (opt.stats)
		sha256_report_stats(&loop.slots, loop.nr_printed, loop.bytes,
				    now_ns() - since_ns);
	sha256_slots_close(&loop.slots);
	sha256_input_close(&loop.in);
	free(loop.ring);
	return sha256_report_end(loop.failed);
}
