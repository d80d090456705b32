/* SPDX-License-Identifier: MIT */
/*
 * Many threads get and put pinned buffers, of which there are too few, and are halted anywhere. No
 * two threads have the same buffer, and no buffer is lost.
 *
 * The buffers' content is plain memory, so ThreadSanitizer checks the order between a buffer's
 * owners.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "halts.h"
#include "pool.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

enum { NR_THREADS = 16, NR_HELD = 6, NR_STACKS = 16 /* per size, see src/memory/pinned.h */ };

/* ---- a buffer and its owner ------------------------------------------------ */

struct held {
	uint64_t *buf;
	size_t nr;		/* words written at each end of a buffer */
	size_t bytes;
	uint64_t mark;
};

static size_t word_at(const struct held *h, size_t i)
{
	return i < h->nr ? i : h->bytes / 8 - 1 - (i - h->nr);
}

static void mark(struct held *h, void *buf, size_t bytes, uint64_t value)
{
	*h = (struct held){ buf, bytes / 8 < 64 ? bytes / 8 : 32, bytes, value };
	for (size_t i = 0; i < 2 * h->nr; i++)
		h->buf[word_at(h, i)] = value;
}

static bool is_marked(const struct held *h)
{
	for (size_t i = 0; i < 2 * h->nr; i++) {
		if (h->buf[word_at(h, i)] != h->mark)
			return false;
	}
	return true;
}

/* ---- many threads ---------------------------------------------------------- */

static struct load {
	struct rnl_pool *pool;
	_Atomic unsigned nr_logged;	/* refused puts */
	uint64_t seed, max, used;	/* limit in bytes; bytes in use before the test */
	unsigned nr;			/* rounds of each thread */
	size_t least, most;		/* approximate bytes of a buffer; powers of two */
	unsigned nr_held;		/* limit of a thread's buffers */
	_Atomic uint64_t nr_got, nr_refused, nr_waited;
	_Atomic unsigned nr_come, nr_running;
	_Atomic bool go;
} load;

static void log_refused(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	if (level == RNL_LOG_ERROR && strstr(msg, "rnl_memory_put"))
		load.nr_logged++;
}

static size_t bytes_of(uint64_t *random)
{
	unsigned octaves = 0;
	size_t bytes;

	while (load.least << octaves < load.most)
		octaves++;
	bytes = load.least << draw(random, octaves + 1);
	return octaves ? bytes - draw(random, (unsigned)bytes / 2) : bytes;
}

/* A thread that has a buffer does not wait for another one, so each wait ends. */
static int turn(struct held held[NR_HELD], uint64_t *random, uint64_t value)
{
	struct held *h = &held[draw(random, load.nr_held)];
	size_t bytes = bytes_of(random);
	bool waits = true;
	void *buf;
	int ret;

	if (h->buf) {
		if (!is_marked(h))
			return -EPROTO;
		rnl_memory_put(load.pool, h->buf);
		h->buf = NULL;
		return 0;
	}
	for (int i = 0; i < NR_HELD; i++)
		waits = waits && !held[i].buf;
	waits = waits && draw(random, 4);
	ret = rnl_memory_get(load.pool, RNL_PINNED, bytes, &buf, waits ? patience_ns() : 0);
	load.nr_waited += waits;
	load.nr_refused += !!ret;
	load.nr_got += !ret;
	if (!ret)
		mark(h, buf, bytes, value);
	return ret == -ENOMEM && !waits ? 0 : ret;
}

static int get_and_put(void *arg)
{
	void *buf;
	int ret = rnl_memory_get(load.pool, RNL_PINNED, load.least, &buf, patience_ns());

	(void)arg;
	if (!ret)
		rnl_memory_put(load.pool, buf);
	return ret;
}

static int take_turns(void *arg)
{
	uintptr_t number = (uintptr_t)arg;
	uint64_t random = draws_of(load.seed, number);
	struct held held[NR_HELD] = { { 0 } };
	int ret = get_and_put(NULL);

	if (number < HALTS_THREADS)
		halts_come();
	load.nr_come++;
	while (!load.go)
		sched_yield();
	for (unsigned i = 0; i < load.nr && !ret; i++)
		ret = turn(held, &random, number << 32 | i);
	for (int i = 0; i < NR_HELD; i++) {
		if (held[i].buf && !is_marked(&held[i]))
			ret = -EPROTO;
		rnl_memory_put(load.pool, held[i].buf);
	}
	/* Threads are halted until all of them have ended. */
	load.nr_running--;
	return ret;
}

static void begin(uint64_t max, unsigned nr, size_t least, size_t most)
{

	memset(&load, 0, sizeof(load));
	load.pool = pool_of(1, .pinned_max = max, .log = log_refused);
	load.seed = test_seed();
	load.used = figures_of(load.pool).pinned_used;
	load.max = max;
	load.nr = (unsigned)(nr / test_scale() / (on_host() ? 1 : 4));
	load.least = least;
	load.most = most;
	load.nr_held = NR_HELD;
}

static void end(void)
{
	struct rnl_pool_stats stats = figures_of(load.pool);

	ck_assert_uint_eq(load.nr_logged, 0);
	ck_assert_uint_eq(stats.pinned_used, load.used);
	ck_assert_uint_le(stats.pinned_locked, load.max);
	rnl_pool_destroy(load.pool);
}

/* Threads reuse stacks, so a new thread has the addresses of an ended one. */
static void pass_stacks(void)
{
	for (int i = 1; i < NR_STACKS; i++) {
		struct call call;

		call_start(&call, get_and_put, NULL);
		ck_assert_int_eq(call_end(&call), 0);
	}
}

static void run(bool one_stack)
{
	struct call calls[NR_THREADS];

	load.nr_running = NR_THREADS;
	for (uintptr_t i = 0; i < NR_THREADS; i++) {
		call_start(&calls[i], take_turns, (void *)i);
		ck_eventually(load.nr_come == i + 1);
		if (one_stack)
			pass_stacks();
	}
	halts_begin(HALTS_THREADS, load.seed);
	load.go = true;
	while (load.nr_running) {
		/* The used memory never exceeds the limit. */
		ck_assert_uint_le(figures_of(load.pool).pinned_used, load.max);
		usleep(1000);
	}
	halts_end();
	for (int i = 0; i < NR_THREADS; i++)
		ck_assert_int_eq(call_end(&calls[i]), 0);
	printf("%llu buffers, %llu waits, %llu refused, %llu calls of the device\n",
	       (unsigned long long)load.nr_got, (unsigned long long)load.nr_waited,
	       (unsigned long long)load.nr_refused,
	       (unsigned long long)figures_of(load.pool).device_calls);
	ck_assert_uint_gt(load.nr_got, 0);
}

TEST(no_two_threads_get_one_buffer_with_many_sizes, .timeout_s = 60)
{
	/* Many sizes: threads take memory that other threads have put. */
	begin(2 * MIB, 60000, 256, 256 * KIB);
	run(false);
	end();
}

TEST(no_two_threads_get_one_buffer_with_few_buffers_on_one_stack, .timeout_s = 60)
{
	void *bufs[64];
	unsigned nr = 0, again = 0;

	/* Few buffers are used again and again, so a halted pop meets its node again. */
	begin(2 * MIB, 400000, 128 * KIB, 128 * KIB);
	load.nr_held = 2;
	while (nr < COUNT(bufs) && !rnl_memory_get(load.pool, RNL_PINNED, load.least, &bufs[nr], 0))
		nr++;
	for (unsigned i = 0; i < nr; i++)
		rnl_memory_put(load.pool, bufs[i]);
	run(true);
	/* No buffer was lost. */
	while (again < COUNT(bufs) &&
	       !rnl_memory_get(load.pool, RNL_PINNED, load.least, &bufs[again], 0))
		again++;
	ck_assert_uint_eq(again, nr);
	for (unsigned i = 0; i < again; i++)
		rnl_memory_put(load.pool, bufs[i]);
	end();
}

TEST(large_buffers_come_and_go_with_their_regions, .timeout_s = 60)
{
	begin(48 * MIB, 20000, 128 * KIB, 16 * MIB);
	run(false);
	end();
}

/* ---- some get, others put -------------------------------------------------- */

enum { NR_PAIRS = 4, NR_RING = 32 };

struct ring {
	struct held held[NR_RING];
	_Atomic unsigned put, taken;
	unsigned number;
};

static int produce(void *arg)
{
	struct ring *ring = arg;
	uint64_t random = draws_of(load.seed, ring->number);
	int ret = 0;

	halts_come();
	for (unsigned i = 0; i < load.nr && !ret; i++) {
		size_t bytes = bytes_of(&random);
		void *buf;

		while (ring->put - ring->taken == NR_RING)
			sched_yield();
		ret = rnl_memory_get(load.pool, RNL_PINNED, bytes, &buf, patience_ns());
		if (!ret) {
			mark(&ring->held[i % NR_RING], buf, bytes,
			     (uint64_t)ring->number << 32 | i);
			ring->put++;
		}
	}
	load.nr_running--;
	return ret;
}

static int consume(void *arg)
{
	struct ring *ring = arg;
	int ret = 0;

	halts_come();
	while (load.nr_running > NR_PAIRS || ring->put != ring->taken) {
		struct held *h = &ring->held[ring->taken % NR_RING];

		if (ring->put == ring->taken) {
			sched_yield();
			continue;
		}
		if (!is_marked(h))
			ret = -EPROTO;
		rnl_memory_put(load.pool, h->buf);
		ring->taken++;
	}
	load.nr_running--;
	return ret;
}

TEST(buffers_that_one_thread_gets_are_put_by_another, .timeout_s = 60)
{
	static struct ring rings[NR_PAIRS];
	struct call producers[NR_PAIRS], consumers[NR_PAIRS];

	begin(3 * MIB, 100000, 256, 64 * KIB);
	load.nr_running = 2 * NR_PAIRS;
	for (unsigned i = 0; i < NR_PAIRS; i++) {
		memset(&rings[i], 0, sizeof(rings[i]));
		rings[i].number = i;
		call_start(&consumers[i], consume, &rings[i]);
		call_start(&producers[i], produce, &rings[i]);
	}
	halts_begin(2 * NR_PAIRS, load.seed);
	while (load.nr_running)
		usleep(1000);
	halts_end();
	for (unsigned i = 0; i < NR_PAIRS; i++) {
		ck_assert_int_eq(call_end(&producers[i]), 0);
		ck_assert_int_eq(call_end(&consumers[i]), 0);
	}
	end();
}
