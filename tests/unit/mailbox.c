/* SPDX-License-Identifier: MIT */
/* The mailboxes of a resident kernel: each request is executed once, by a lease or by its sender. */
#include <pthread.h>
#include <string.h>

#include "batch/mailbox.h"
#include "batch/resident.h"
#include "sys/clock.h"

#include "await.h"
#include "suite.h"

#define BYTES_MAX 100u
#define PIECES 16u		/* of BYTES_MAX, at least */

struct box {
	struct rnl__mailbox m;
	_Alignas(64) struct rnl__mail_piece request[2 * PIECES], answer[2 * PIECES];
	_Alignas(128) struct rnl__mailbox_words words[2];
	_Alignas(64) struct rnl__lease_turn turn[2];
	struct rnl__lease_args args;
	_Atomic unsigned nr_executed;
	_Atomic uint64_t last;		/* the request that was executed last: its first bytes */
};

static int execute(const struct rnl_request_view *view)
{
	struct box *b = view->arg;

	b->nr_executed++;
	if (view->out_bytes) {
		memset(view->out, 0, view->out_bytes);
		memcpy(view->out, view->in,
		       view->in_bytes < view->out_bytes ? view->in_bytes : view->out_bytes);
	}
	return (int)view->in_bytes;
}

static void box_init(struct box *b, uint32_t out_bytes)
{
	*b = (struct box){ .m = { .request = b->request, .answer = b->answer, .words = b->words } };
	b->m.nr_request = rnl__pieces_of(BYTES_MAX);
	b->m.nr_answer = rnl__pieces_of(out_bytes);
	b->args = (struct rnl__lease_args){
		.fn = execute, .arg = b, .requests = b->request, .answers = b->answer,
		.words = b->words, .turns = b->turn, .request_pieces = PIECES,
		.answer_pieces = PIECES, .out_bytes = out_bytes,
	};
	rnl__mailbox_init(&b->m);
}

/* Runs a lease that looks once. */
static void run_lease(struct box *b)
{
	const struct rnl_dim one = { 1, 1, 1 };

	b->args.lease++;
	rnl__lease_host(one, one, &b->args);
}

static struct rnl__mail send(struct box *b, const void *in, uint32_t bytes)
{
	struct rnl__mail mail;

	rnl__mailbox_send(&b->m, in, bytes, 0);
	ck_assert(rnl__mailbox_look(&b->m, &mail));
	return mail;
}

/* Takes the answer. */
static void take(struct box *b, struct rnl__mail *mail, const unsigned char *in, uint32_t bytes)
{
	unsigned char out[BYTES_MAX];

	ck_assert(rnl__mailbox_answered(mail));
	ck_assert(rnl__mailbox_take(mail));
	ck_assert_int_eq(rnl__mailbox_read(mail, out, b->args.out_bytes), (int)bytes);
	for (uint32_t i = 0; i < b->args.out_bytes; i++)
		ck_assert_uint_eq(out[i], i < bytes ? in[i] : 0);
	rnl__mailbox_end(mail);
	ck_assert(!rnl__mailbox_look(&b->m, mail));
}

TEST(requests_and_answers_of_every_size_come_through)
{
	unsigned char in[BYTES_MAX];
	struct box b;

	for (uint32_t i = 0; i < BYTES_MAX; i++)
		in[i] = (unsigned char)(i * 7 + 1);
	for (uint32_t out = 0; out <= BYTES_MAX; out++) {
		box_init(&b, out);
		for (uint32_t bytes = 1; bytes <= BYTES_MAX; bytes++) {
			struct rnl__mail mail = send(&b, in, bytes);

			ck_assert(!rnl__mailbox_answered(&mail));
			run_lease(&b);
			take(&b, &mail, in, bytes);
			if (rnl__mailbox_is_worn(&b.m))
				ck_assert(rnl__mailbox_clear(&b.m));
		}
		ck_assert_uint_eq(b.nr_executed, BYTES_MAX);
	}
}

TEST(what_is_taken_back_is_not_executed)
{
	const unsigned char in[8] = { 1, 2, 3 };
	struct rnl__mail mail;
	struct box b;

	box_init(&b, 8);
	for (unsigned i = 0; i < 5; i++) {
		mail = send(&b, in, 8);
		ck_assert_int_eq(rnl__mailbox_take_back(&mail, false), RNL__BACK_TAKEN);
		ck_assert_int_eq(rnl__mailbox_take_back(&mail, false), RNL__BACK_NOT);
		rnl__mailbox_end(&mail);
		run_lease(&b);
		ck_assert_uint_eq(b.nr_executed, i);
		mail = send(&b, in, 8);
		run_lease(&b);
		take(&b, &mail, in, 8);
		ck_assert_uint_eq(b.nr_executed, i + 1);
		if (rnl__mailbox_is_worn(&b.m))
			ck_assert(rnl__mailbox_clear(&b.m));
	}
}

TEST(an_answer_is_found_when_a_request_is_taken_back)
{
	const unsigned char in[8] = { 9 };
	struct rnl__mail mail;
	struct box b;

	box_init(&b, 8);
	mail = send(&b, in, 8);
	run_lease(&b);
	ck_assert_int_eq(rnl__mailbox_take_back(&mail, false), RNL__BACK_ANSWERED);
	rnl__mailbox_end(&mail);
	/* The gate is open for the next one. */
	mail = send(&b, in, 8);
	run_lease(&b);
	take(&b, &mail, in, 8);
	ck_assert_uint_eq(b.nr_executed, 2);
}

TEST(a_request_stays_while_a_block_serves)
{
	const unsigned char in[8] = { 9 };
	struct rnl__mail mail;
	struct box b;

	box_init(&b, 8);
	mail = send(&b, in, 8);
	b.words->status = 1;
	ck_assert_int_eq(rnl__mailbox_take_back(&mail, false), RNL__BACK_NOT);
	ck_assert(rnl__mailbox_has(&mail));
	ck_assert_uint_eq(b.words->gate & 1, 0);
	/* The device has failed: no block reads it any more. */
	ck_assert_int_eq(rnl__mailbox_take_back(&mail, true), RNL__BACK_TAKEN);
	rnl__mailbox_end(&mail);
}

TEST(a_block_that_finds_the_gate_closed_leaves)
{
	const unsigned char in[8] = { 9 };
	struct rnl__mail mail;
	struct box b;

	box_init(&b, 8);
	mail = send(&b, in, 8);
	b.words->gate |= 1;
	run_lease(&b);
	ck_assert_uint_eq(b.nr_executed, 0);
	ck_assert_uint_eq(b.turn->ended[b.args.lease & 1].payload[0], 0);
	ck_assert_uint_eq(b.words->status, b.args.lease << 1);
	b.words->gate &= ~UINT64_C(1);
	run_lease(&b);
	take(&b, &mail, in, 8);
}

TEST(only_one_thread_ends_a_request)
{
	const unsigned char in[8] = { 9 };
	struct rnl__mail mail, late;
	struct box b;

	box_init(&b, 8);
	late = mail = send(&b, in, 8);
	run_lease(&b);
	ck_assert(rnl__mailbox_answered(&late));
	take(&b, &mail, in, 8);
	ck_assert(!rnl__mailbox_take(&late));
	/* The same look does not end the next request. */
	mail = send(&b, in, 8);
	ck_assert(!rnl__mailbox_take(&late));
	ck_assert_int_eq(rnl__mailbox_take_back(&late, false), RNL__BACK_NOT);
	run_lease(&b);
	take(&b, &mail, in, 8);
}

TEST(old_pieces_are_cleared_before_their_tags_return)
{
	const uint64_t last = (UINT64_C(5) << 32) - 1;
	unsigned char in[BYTES_MAX] = { 1 };
	struct rnl__mail mail;
	struct box b;

	box_init(&b, BYTES_MAX);
	atomic_store(&b.m.word, (last - 1) << 2);
	b.words->gate = last << 1;
	ck_assert(!rnl__mailbox_is_worn(&b.m));
	mail = send(&b, in, BYTES_MAX);
	ck_assert_uint_eq((uint32_t)mail.number, UINT32_MAX);
	run_lease(&b);
	take(&b, &mail, in, BYTES_MAX);
	ck_assert(rnl__mailbox_is_worn(&b.m));
	/* Not while a block serves; and no other block does meanwhile. */
	b.words->status |= 1;
	ck_assert(!rnl__mailbox_clear(&b.m));
	ck_assert_uint_eq(b.words->gate & 1, 1);
	ck_assert_uint_eq(b.request[2].tag, UINT32_MAX);
	b.words->status &= ~UINT64_C(1);
	ck_assert(rnl__mailbox_clear(&b.m));
	for (unsigned i = 0; i < rnl__pieces_of(BYTES_MAX); i++) {
		ck_assert_uint_eq(b.request[i].tag, 0);
		ck_assert_uint_eq(b.answer[i].tag, 0);
	}
	ck_assert(!rnl__mailbox_is_worn(&b.m));
	mail = send(&b, in, BYTES_MAX);
	ck_assert_uint_eq((uint32_t)mail.number, 1);
	run_lease(&b);
	take(&b, &mail, in, BYTES_MAX);
	ck_assert_uint_eq(b.nr_executed, 2);
}

/* ---- threads --------------------------------------------------------------- */

static int run_second_lease(void *arg)
{
	const struct rnl_dim two = { 2, 1, 1 }, one = { 1, 1, 1 };
	const struct box *b = arg;
	struct rnl__lease_args args = b->args;

	args.lease = 2;
	rnl__lease_host(two, one, &args);
	return 0;
}

/* The second lease looks at both mailboxes in turn; of the other one the first lease has ended. */
TEST(a_lease_serves_when_the_last_one_has_ended)
{
	const unsigned char in[8] = { 9 };
	const struct rnl_dim one = { 1, 1, 1 };
	struct rnl__lease_args first;
	struct rnl__mailbox other;
	struct rnl__mail mail, mail_of_other;
	struct call second;
	struct box b;

	box_init(&b, 8);
	other = (struct rnl__mailbox){ .request = b.request + PIECES, .answer = b.answer + PIECES,
				       .words = b.words + 1, .nr_request = b.m.nr_request,
				       .nr_answer = b.m.nr_answer };
	rnl__mailbox_init(&other);
	first = b.args;
	first.lease = 1;
	first.requests = other.request;
	first.answers = other.answer;
	first.words = other.words;
	first.turns = b.turn + 1;
	rnl__lease_host(one, one, &first);
	mail = send(&b, in, 8);
	rnl__mailbox_send(&other, in, 8, 0);
	ck_assert(rnl__mailbox_look(&other, &mail_of_other));
	call_start(&second, run_second_lease, &b);
	ck_eventually(rnl__mailbox_answered(&mail_of_other));
	ck_assert(!rnl__mailbox_answered(&mail));
	ck_assert_uint_eq(b.nr_executed, 1);
	run_lease(&b);
	ck_assert_int_eq(call_end(&second), 0);
	take(&b, &mail, in, 8);
	ck_assert_uint_eq(b.nr_executed, 2);
}

#define ROUNDS 20000u

struct three {
	struct box b;
	_Atomic bool over;
	_Atomic bool gone;		/* a thread has run its last lease */
	_Atomic uint64_t launched;	/* leases */
	_Atomic unsigned nr_passed, nr_back;
	unsigned nr_ended;		/* by the sender and the keeper */
	pthread_mutex_t lock;
};

/* Ends the request of @mail by its answer, or takes it back and executes it. */
static void try_to_end(struct three *t, struct rnl__mail *mail, bool back)
{
	enum rnl__mailbox_back what = RNL__BACK_NOT;
	uint64_t out = 0;

	if (rnl__mailbox_answered(mail) && rnl__mailbox_take(mail))
		what = RNL__BACK_ANSWERED;
	else if (back)
		what = rnl__mailbox_take_back(mail, false);
	if (what == RNL__BACK_NOT)
		return;
	if (what == RNL__BACK_TAKEN)
		t->nr_back++;
	else
		(void)rnl__mailbox_read(mail, &out, sizeof(out));
	if (what == RNL__BACK_ANSWERED)
		ck_assert_uint_eq(out, mail->number);
	rnl__mailbox_end(mail);
}

/* Returns true once the lease has begun, which the next one needs for its launch. */
static bool has_begun(struct box *b, uint64_t lease)
{
	return atomic_load((_Atomic uint64_t *)&b->words->status) >> 1 >= lease;
}

/* Runs every other lease.  Most of them come before the last one ends. */
static void *serve(void *arg)
{
	const struct rnl_dim one = { 1, 1, 1 };
	struct three *t = arg;
	struct rnl__lease_args args = t->b.args;

	for (args.lease = ++t->launched; !t->over; args.lease += 2) {
		while (!has_begun(&t->b, args.lease - 1))
			sched_yield();
		for (unsigned i = 0; i < args.lease % 16; i++)
			sched_yield();
		args.lease_ns = args.lease % 3 * 3000;
		rnl__lease_host(one, one, &args);
		t->nr_passed += t->b.turn->ended[args.lease & 1].payload[2];
	}
	/* The other thread may wait for one more lease of this one. */
	while (!has_begun(&t->b, args.lease - 1))
		if (t->gone)
			return NULL;
	args.lease_ns = 0;
	rnl__lease_host(one, one, &args);
	t->gone = true;
	return NULL;
}

static void *keep(void *arg)
{
	struct three *t = arg;
	struct rnl__mail mail;

	while (!t->over) {
		if (rnl__mailbox_look(&t->b.m, &mail))
			try_to_end(t, &mail, mail.number % 5 == 0);
		sched_yield();
	}
	return NULL;
}

TEST(each_request_is_executed_once_by_whoever_ends_it, .timeout_s = 40)
{
	static struct three t;
	pthread_t threads[3];

	box_init(&t.b, 8);
	/* The numbers of leases wrap at 32 bits in some places. */
	t.launched = UINT32_MAX - 20;
	t.b.turn->ended[t.launched & 1].tag = (uint32_t)t.launched;
	t.b.words->status = t.launched << 1;
	must(pthread_create(&threads[0], NULL, serve, &t));
	must(pthread_create(&threads[1], NULL, serve, &t));
	must(pthread_create(&threads[2], NULL, keep, &t));
	for (unsigned i = 0; i < ROUNDS; i++) {
		uint64_t number = rnl__request_after(atomic_load(&t.b.m.word) >> 2);
		struct rnl__mail mail;

		if (rnl__mailbox_is_worn(&t.b.m)) {
			while (!rnl__mailbox_clear(&t.b.m))
				sched_yield();
			number = rnl__request_after(atomic_load(&t.b.m.word) >> 2);
		}
		rnl__mailbox_send(&t.b.m, &number, sizeof(number), 0);
		for (unsigned n = 0; rnl__mailbox_look(&t.b.m, &mail) || rnl__mailbox_has(&mail); n++) {
			if (mail.number == number && atomic_load(&t.b.m.word) % 4 == RNL__MAIL_SENT)
				try_to_end(&t, &mail, n > i % 64);
			if (n % 16 == 15)
				sched_yield();
		}
	}
	t.over = true;
	for (unsigned i = 0; i < 3; i++)
		must(pthread_join(threads[i], NULL));
	ck_assert_uint_eq(t.b.nr_executed + t.nr_back, ROUNDS);
	ck_assert_uint_gt(t.b.nr_executed, 0);
	ck_assert_uint_gt(t.nr_back, 0);
	ck_assert_uint_gt(t.nr_passed, 0);
}
