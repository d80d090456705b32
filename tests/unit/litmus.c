/* SPDX-License-Identifier: MIT */
/*
 * Litmus tests of what mailboxes rely on between the CPU and a device, over page-locked memory: an
 * aligned access of 16 bytes carries payload and tag together, and words and pieces are seen in order.
 *
 * DESIGN
 *	Host and device repeat their steps at the same time, by the library's own accesses, and neither
 *	waits for the other. Tags and numbers only grow, so each observation can be judged by itself.
 *	Each test also runs a broken variant, and is skipped if that is not seen to fail: then this
 *	run could not have found an error. On the host device and the double the device's side is a
 *	host function, which tests the tests.
 *	RNL_LITMUS_ROUNDS is the number of observations of each test.
 *
 * devices: host fake
 */
#include <runnel/memory.h>

#include "batch/mail_piece.h"
#include "sys/clock.h"
#include "sys/fence.h"

#include "asks.h"
#include "host_kernel.h"
#include "litmus.h"
#include "pool.h"
#include "await.h"

#define NR_BOXES 16u
#define NR_PIECES 128u		/* of a box */
#define STEPS 2048u		/* of the device in a run */
#define HOST_FACTOR 8u		/* DEKKER: the host has at most so many times the steps */
#define WINDOWS 16u		/* runs use the pieces of one of these after another */
#define ROUNDS "1000000"
#define BROKEN_S 3		/* a broken variant runs for this long, until it is seen to fail */
#define PROGRESS_S 10

struct litmus {
	struct rnl_pool *pool;
	struct rnl_job job;
	struct litmus_args args;
	struct rnl__mail_piece *all;	/* pieces of all windows */
	void *memory[5];
	unsigned nr_memory, nr_runs;
	uint64_t *statuses;		/* DEKKER: what step j of box i has read, like `gates` of the device */
	struct litmus_found found;	/* by the host, in the run */
};

static void put(struct rnl__mail_piece *at, uint32_t tag, uint32_t index)
{
	uint32_t payload[3];

	for (uint32_t i = 0; i < 3; i++)
		payload[i] = litmus_word(tag, index, i);
	rnl__mail_piece_put(at, payload, sizeof(payload), tag);
}

static void put_by_words(struct rnl__mail_piece *at, uint32_t tag, uint32_t index)
{
	for (uint32_t i = 0; i < 3; i++)
		atomic_store_explicit(rnl__atomic(&at->payload[i]), litmus_word(tag, index, i),
				      memory_order_relaxed);
	atomic_store_explicit(rnl__atomic(&at->tag), tag, memory_order_release);
}

static uint32_t tag_of(struct rnl__mail_piece *at)
{
	return atomic_load_explicit(rnl__atomic(&at->tag), memory_order_relaxed);
}

static void word_store(uint64_t *word, uint64_t value, memory_order order)
{
	atomic_store_explicit(rnl__atomic(word), value, order);
}

static uint64_t word_load(uint64_t *word)
{
	return atomic_load_explicit(rnl__atomic(word), memory_order_acquire);
}

/* ---- the device's side, as a host function --------------------------------- */

#ifdef LITMUS_ON_GPU
#define ON_GPU true
extern const struct rnl_kernel litmus_kernel;	/* litmus.cu */
#else
#define ON_GPU false

static struct rnl__mail_piece load(const struct rnl__mail_piece *at)
{
	struct rnl__mail_piece piece = *at;

#if RNL__PIECE_WIDE
	__m128i all;

	/* In one access. */
	__asm__ volatile("movaps %1, %0" : "=x"(all) : "m"(*at));
	_mm_storeu_si128((__m128i *)(void *)&piece, all);
#endif
	return piece;
}

/* Step @k of a box, of DEKKER. */
static void store_status_load_gate(const struct litmus_args *a, uint32_t box, uint32_t k)
{
	word_store(&a->words[box].status, k << 1 | 1, memory_order_relaxed);
	if (!a->broken)
		rnl__full_barrier();
	a->gates[box * a->steps + k - 1] = word_load(&a->words[box].gate) >> 1;
}

/* Step @k of a piece; @gate, as its box has just read it. */
static void step_piece(const struct litmus_args *a, uint32_t i, uint32_t k, uint64_t gate, uint32_t *last)
{
	struct rnl__mail_piece piece;

	if (a->shape == LITMUS_UP && a->broken) {
		put_by_words(&a->pieces[i], a->first + k, i);
	} else if (a->shape == LITMUS_UP || a->shape == LITMUS_ANSWERS || a->shape == LITMUS_PASSED) {
		put(&a->pieces[i], a->first + k, i);
	} else {
		piece = load(&a->pieces[i]);
		a->found->observed++;
		a->found->changed += piece.tag != *last;
		a->found->wrong += a->shape == LITMUS_GATE ? piece.tag - a->first < gate :
				   !litmus_whole(&piece, i);
		*last = piece.tag;
	}
}

static void step_box(const struct litmus_args *a, uint32_t box, uint32_t k, uint32_t *last)
{
	const bool answers = a->shape == LITMUS_ANSWERS || a->shape == LITMUS_PASSED;
	const uint64_t status = (uint64_t)(a->shape == LITMUS_PASSED ? 2 * k : k) << 1;
	const uint64_t gate = word_load(&a->words[box].gate) >> 1;

	if (answers && a->broken)
		word_store(&a->words[box].status, status, memory_order_release);
	for (uint32_t i = box * a->nr_pieces; i < (box + 1) * a->nr_pieces; i++)
		step_piece(a, i, k, gate, &last[i]);
	if (answers)
		word_store(&a->words[box].status, status, memory_order_release);
}

static void litmus_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct litmus_args *a = args;
	uint32_t last[NR_BOXES * NR_PIECES];

	(void)block;
	for (uint32_t i = 0; i < NR_BOXES * NR_PIECES; i++)
		last[i] = a->first;
	for (uint32_t k = 1; k <= a->steps; k++)
		for (uint32_t box = 0; box < grid.x; box++)
			if (a->shape == LITMUS_DEKKER)
				store_status_load_gate(a, box, k);
			else
				step_box(a, box, k, last);
}
RNL_HOST_KERNEL(litmus_kernel, litmus_host, struct litmus_args);
#endif

/* ---- the host's side: one step of all boxes --------------------------------- */

static void write_pieces(struct litmus *l, uint32_t k)
{
	const struct litmus_args *a = &l->args;

	for (uint32_t i = 0; i < NR_BOXES * NR_PIECES; i++)
		(a->broken ? put_by_words : put)(&a->pieces[i], a->first + k, i);
}

/* An observation: the tag is the same before and after the read of the payload. */
static void read_piece(struct litmus *l, uint32_t i, uint32_t *last)
{
	struct rnl__mail_piece *at = &l->args.pieces[i], piece = { .tag = tag_of(at) };

	if (!rnl__mail_piece_has(at, piece.tag))
		return;
	rnl__mail_piece_get(at, piece.payload, sizeof(piece.payload));
	atomic_thread_fence(memory_order_acquire);
	if (tag_of(at) != piece.tag)
		return;
	l->found.observed++;
	l->found.changed += piece.tag != *last;
	l->found.wrong += !litmus_whole(&piece, i);
	*last = piece.tag;
}

static void read_pieces(struct litmus *l, uint32_t *last)
{
	for (uint32_t i = 0; i < NR_BOXES * NR_PIECES; i++)
		read_piece(l, i, &last[i]);
}

static uint32_t host_steps_max(const struct litmus *l)
{
	return HOST_FACTOR * l->args.steps;
}

static void store_gates_load_statuses(struct litmus *l, uint32_t k)
{
	for (uint32_t box = 0; k <= host_steps_max(l) && box < l->args.nr_boxes; box++) {
		struct rnl__mailbox_words *words = &l->args.words[box];

		word_store(&words->gate, (uint64_t)k << 1, memory_order_relaxed);
		if (!l->args.broken)
			rnl__full_barrier();
		l->statuses[box * host_steps_max(l) + k - 1] = word_load(&words->status) >> 1;
	}
}

static void read_answers(struct litmus *l, uint32_t *last)
{
	const struct litmus_args *a = &l->args;

	for (uint32_t box = 0; box < NR_BOXES; box++) {
		const uint64_t status = word_load(&a->words[box].status);
		/* Leases that have ended; with PASSED, a step takes two. */
		const uint32_t ended = (uint32_t)((status >> 1) - (status & 1));
		const uint32_t k = a->shape == LITMUS_PASSED ? ended / 2 : ended;

		l->found.observed += NR_PIECES;
		l->found.changed += k != last[box];
		last[box] = k;
		for (uint32_t i = 0; i < NR_PIECES; i++)
			l->found.wrong += tag_of(&a->pieces[box * NR_PIECES + i]) - a->first < k;
	}
}

static void write_gates(struct litmus *l, uint32_t k)
{
	const struct litmus_args *a = &l->args;

	for (uint32_t box = 0; box < NR_BOXES; box++) {
		if (a->broken)
			word_store(&a->words[box].gate, (uint64_t)k << 1, memory_order_release);
		for (uint32_t i = box * NR_PIECES; i < (box + 1) * NR_PIECES; i++)
			put(&a->pieces[i], a->first + k, i);
		word_store(&a->words[box].gate, (uint64_t)k << 1, memory_order_release);
	}
}

/* Goes on until the device has made its steps.  Returns the number of the host's. */
static uint32_t host_steps(struct litmus *l)
{
	static uint32_t last[NR_BOXES * NR_PIECES];
	uint32_t k = 0;

	for (uint32_t i = 0; i < COUNT(last); i++)
		last[i] = l->args.shape == LITMUS_UP ? l->args.first : 0;
	/* The host's steps are limited, so they begin with the device's. */
	while (l->args.shape == LITMUS_DEKKER && !word_load(&l->args.words->status) && !is_done(&l->job))
		rnl__pause();
	do {
		k++;
		if (l->args.shape == LITMUS_DOWN)
			write_pieces(l, k);
		else if (l->args.shape == LITMUS_UP)
			read_pieces(l, last);
		else if (l->args.shape == LITMUS_DEKKER)
			store_gates_load_statuses(l, k);
		else if (l->args.shape == LITMUS_ANSWERS || l->args.shape == LITMUS_PASSED)
			read_answers(l, last);
		else
			write_gates(l, k);
	} while (!is_done(&l->job));
	return k;
}

/*
 * The device's step k has read the gate of the host's step j - 1, so k's store precedes what j has
 * read.  A change: host and device were within a step of each other.
 */
static void judge_dekker(struct litmus *l, uint32_t nr_steps)
{
	const uint32_t steps = l->args.steps;

	for (uint32_t i = 0; i < l->args.nr_boxes * steps; i++) {
		const uint64_t k = i % steps + 1, j = l->args.gates[i] + 1;
		uint64_t status;

		if (j > nr_steps || j > host_steps_max(l))
			continue;
		status = l->statuses[i / steps * host_steps_max(l) + j - 1];
		l->found.observed++;
		l->found.changed += status <= k + 1;
		l->found.wrong += status < k;
	}
}

/* ---- a run ----------------------------------------------------------------- */

static void *pinned(struct litmus *l, size_t bytes)
{
	void **mem = &l->memory[l->nr_memory++];

	must(rnl_memory_get(l->pool, RNL_PINNED, bytes, mem, 0));
	memset(*mem, 0, bytes);
	return *mem;
}

static int launch_fn(struct rnl_job *job)
{
	struct litmus *l = rnl_container_of(job, struct litmus, job);
	const struct rnl_dim grid = { l->args.nr_boxes, l->args.shape == LITMUS_PASSED ? 2 : 1, 1 };
	const struct rnl_dim block = { l->args.shape == LITMUS_DEKKER ? 1 : NR_PIECES, 1, 1 };

	return rnl_launch(&litmus_kernel, grid, block, &l->args);
}

static void litmus_init(struct litmus *l, enum litmus_shape shape)
{
	const uint32_t nr = NR_BOXES * NR_PIECES;
	/* A host function is at one box at a time: with DEKKER host and device are at the same one. */
	const uint32_t nr_boxes = shape == LITMUS_DEKKER && !ON_GPU ? 1 : NR_BOXES;

	*l = (struct litmus){ .args = {
		.shape = shape, .nr_boxes = nr_boxes, .nr_pieces = NR_PIECES,
		.steps = NR_BOXES * STEPS / nr_boxes,
	} };
	l->pool = pool_of(1);
	l->all = pinned(l, WINDOWS * nr * sizeof(*l->all));
	l->args.words = pinned(l, NR_BOXES * sizeof(*l->args.words));
	l->args.gates = pinned(l, NR_BOXES * STEPS * sizeof(*l->args.gates));
	l->args.found = pinned(l, sizeof(*l->args.found));
	l->statuses = calloc(NR_BOXES * STEPS * HOST_FACTOR, sizeof(*l->statuses));
	ck_assert_ptr_nonnull(l->statuses);
}

static void litmus_fini(struct litmus *l)
{
	while (l->nr_memory)
		rnl_memory_put(l->pool, l->memory[--l->nr_memory]);
	free(l->statuses);
	rnl_pool_destroy(l->pool);
}

/* Adds what a run has found. */
static void litmus_run(struct litmus *l, bool broken, struct litmus_found *sum)
{
	struct litmus_args *a = &l->args;
	const uint32_t nr = NR_BOXES * NR_PIECES;
	uint32_t nr_steps;

	a->broken = broken;
	a->first = 1 + l->nr_runs * 7919;
	a->pieces = l->all + l->nr_runs++ % WINDOWS * nr;
	for (uint32_t i = 0; i < nr; i++)
		put(&a->pieces[i], a->first, i);
	memset(a->words, 0, NR_BOXES * sizeof(*a->words));
	*a->found = l->found = (struct litmus_found){ 0 };
	submit_job(l->pool, &l->job, launch_fn, NULL);
	nr_steps = host_steps(l);
	must(result_of(&l->job));
	if (a->shape == LITMUS_DEKKER)
		judge_dekker(l, nr_steps);
	sum->observed += a->found->observed + l->found.observed;
	sum->changed += a->found->changed + l->found.changed;
	sum->wrong += a->found->wrong + l->found.wrong;
}

static void report(const char *what, const char *when, const struct litmus_found *found)
{
	printf("# %s%s: %llu observations, %llu changes, %llu wrong\n", what, when,
	       (unsigned long long)found->observed, (unsigned long long)found->changed,
	       (unsigned long long)found->wrong);
	fflush(stdout);
}

/* Runs until there are enough observations, or a run has none. */
static void run_right(struct litmus *l, const char *what, uint64_t rounds, struct litmus_found *sum)
{
	double reported = seconds_now();
	uint64_t before;

	do {
		before = sum->observed;
		litmus_run(l, false, sum);
		if (seconds_now() > reported + PROGRESS_S) {
			report(what, ", so far", sum);
			reported = seconds_now();
		}
	} while (!sum->wrong && sum->observed > before && sum->observed < rounds);
}

static void litmus(enum litmus_shape shape, const char *what)
{
	struct litmus_found right = { 0 }, broken = { 0 };
	const char *rounds = getenv("RNL_LITMUS_ROUNDS");
	struct litmus l;

	if (!RNL__PIECE_WIDE)
		test_skip("%s: this build has no accesses of 16 bytes", what);
	litmus_init(&l, shape);
	run_right(&l, what, strtoull(rounds ? rounds : ROUNDS, NULL, 10), &right);
	report(what, "", &right);
	for (const double until = seconds_now() + BROKEN_S; !broken.wrong && seconds_now() < until;)
		litmus_run(&l, true, &broken);
	report(what, ", broken", &broken);
	litmus_fini(&l);
	ck_assert_uint_eq(right.wrong, 0);
	if (!right.changed || !broken.wrong)
		test_skip("%s: this run cannot tell: %s", what, right.changed ?
			  "a broken variant was not seen to fail" : "nothing has changed meanwhile");
}

TEST(a_piece_that_the_device_reads_is_whole, .timeout_s = 60)
{
	litmus(LITMUS_DOWN, "pieces, host to device");
}

TEST(a_piece_that_the_host_reads_is_whole, .timeout_s = 60)
{
	litmus(LITMUS_UP, "pieces, device to host");
}

TEST(the_device_and_the_host_do_not_both_miss_the_other, .timeout_s = 60)
{
	litmus(LITMUS_DEKKER, "status and gate");
}

TEST(who_sees_the_status_sees_the_answers, .timeout_s = 60)
{
	litmus(LITMUS_ANSWERS, "answers, then the status");
}

TEST(who_sees_the_status_sees_the_answers_of_a_block_that_passed_the_mailbox_on, .timeout_s = 60)
{
	litmus(LITMUS_PASSED, "answers, then the next block's status");
}

TEST(who_sees_the_gate_sees_the_pieces, .timeout_s = 60)
{
	litmus(LITMUS_GATE, "pieces, then the gate");
}
