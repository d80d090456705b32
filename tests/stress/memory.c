/* SPDX-License-Identifier: MIT */
/*
 * Jobs use all kinds of memory and end at any point, while threads get and put pinned buffers and
 * device memory, which are scarce. Each job completes once with a result that its history allows,
 * its copies are right, and no memory leaks.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#include <runnel/device.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "heap.h"
#include "pool.h"
#include "seed.h"

SANITIZER_OPTIONS("allocator_may_return_null=1");

enum {
	NR_JOBS = 100000, SUBMITTERS = 3, SLOTS = 24, WORKERS = 4,
	SMALL = 16 << 10, LARGE = 1300 << 10,	/* most bytes of a slot's copies */
	HELD = 6, HELD_BYTES = 200000,
};
#define PINNED_MAX (UINT64_C(4) << 20)

static struct rnl_pool *pool;
static uint64_t seed, device_bytes;
static unsigned nr_jobs;		/* jobs of one submitter */
static _Atomic bool over;
static _Atomic uint64_t nr_failed, nr_cancelled, nr_timed_out, nr_pageable, nr_no_pinned;

/* ---- a job and its expected results ---------------------------------------- */

struct slot {
	struct rnl_job job;
	uint64_t random;
	size_t bytes;			/* size of each memory */
	unsigned char *in, *out, *out_should; /* pageable */
	unsigned char *scratch, *scratch_should;
	unsigned char *pinned, *pinned_should; /* allocated by the job */
	size_t pinned_bytes;
	bool under_way, late, cancelled;
	unsigned runs;
	int expected;			/* the function's expected result, if it ran */
};

static void *must_alloc(size_t bytes)
{
	void *mem = malloc(bytes);

	if (!mem)
		abort();
	return mem;
}

static void slot_init(struct slot *s, uint64_t number)
{
	s->random = draws_of(seed, number);
	s->bytes = number % SLOTS < SLOTS - 3 ? SMALL : LARGE;
	s->in = must_alloc(s->bytes);
	s->out = must_alloc(s->bytes);
	s->out_should = must_alloc(s->bytes);
	s->scratch_should = must_alloc(s->bytes);
	s->pinned_should = must_alloc(s->bytes);
	for (size_t i = 0; i < s->bytes; i++)
		s->in[i] = (unsigned char)((uint32_t)(i + 7 * number) * 2654435761u >> 24);
}

static void slot_fini(struct slot *s)
{
	free(s->in);
	free(s->out);
	free(s->out_should);
	free(s->scratch_should);
	free(s->pinned_should);
}

/* Draws a range of 1 byte or more in a slot's memories.  Returns its offset. */
static size_t any_place(struct slot *s, size_t *bytes)
{
	size_t most = draw(&s->random, 4) ? 300 : s->bytes;

	*bytes = 1 + draw(&s->random, (unsigned)most);
	return draw(&s->random, (unsigned)(s->bytes - *bytes + 1));
}

/* Copies some bytes between two memories; @to_should, @from_should: their expected content. */
static int copy(struct slot *s, unsigned char *to, unsigned char *to_should,
		const unsigned char *from, const unsigned char *from_should)
{
	size_t bytes, at = any_place(s, &bytes);
	size_t from_at = draw(&s->random, (unsigned)(s->bytes - bytes + 1));

	memcpy(to_should + at, from_should + from_at, bytes);
	nr_pageable += bytes;
	return rnl_copy(to + at, from + from_at, bytes);
}

static int copy_in(struct slot *s)
{
	return copy(s, s->scratch, s->scratch_should, s->in, s->in);
}

static int copy_out(struct slot *s)
{
	return copy(s, s->out, s->out_should, s->scratch, s->scratch_should);
}

/* Copies from the output, which an earlier copy may have just written. */
static int copy_back_in(struct slot *s)
{
	return copy(s, s->scratch, s->scratch_should, s->out, s->out_should);
}

static int copy_from_stack(struct slot *s)
{
	unsigned char here[333];
	size_t to = draw(&s->random, (unsigned)(s->bytes - sizeof(here)));

	memset(here, (int)draw(&s->random, 256), sizeof(here));
	memcpy(s->scratch_should + to, here, sizeof(here));
	nr_pageable += sizeof(here);
	return rnl_copy(s->scratch + to, here, sizeof(here));
}

static int copy_rectangle(struct slot *s)
{
	size_t rows = 1 + draw(&s->random, 20), width = 1 + draw(&s->random, 300);
	size_t dst_pitch = width + draw(&s->random, 300), src_pitch = width + draw(&s->random, 300);
	bool in = draw(&s->random, 2);
	unsigned char *dst = in ? s->scratch_should : s->out_should;
	const unsigned char *src = in ? s->in : s->scratch_should;

	for (size_t i = 0; i < rows; i++)
		memcpy(dst + i * dst_pitch, src + i * src_pitch, width);
	nr_pageable += rows * width;
	return in ? rnl_copy_2d(s->scratch, dst_pitch, s->in, src_pitch, width, rows) :
		    rnl_copy_2d(s->out, dst_pitch, s->scratch, src_pitch, width, rows);
}

/* Copies from the scratch to a pinned buffer, if there is one. */
static int copy_to_pinned(struct slot *s)
{
	size_t bytes, from = any_place(s, &bytes);
	void *buf;
	int ret;

	if (s->pinned)
		return 0;
	ret = rnl_memory_get(pool, RNL_PINNED, bytes, &buf, 0);
	if (ret == -ENOMEM) {
		nr_no_pinned++;
		return draw(&s->random, 4) ? 0 : -ENOMEM;
	}
	if (ret)
		return ret;
	s->pinned = buf;
	s->pinned_bytes = bytes;
	memcpy(s->pinned_should, s->scratch_should + from, bytes);
	return rnl_copy(buf, s->scratch + from, bytes);
}

static int take_more_scratch(struct slot *s)
{
	void *mem;
	size_t bytes = 1 + draw(&s->random, 100000);
	int ret = rnl_scratch(bytes, &mem);

	return ret ? ret : rnl_fill(mem, 0xdd, bytes);
}

/*
 * Makes a wrong call. Returns its error or, like a function that ignores the error, a positive
 * number. The job fails in both cases.
 */
static int do_wrong(struct slot *s)
{
	void *mem;
	int ret = draw(&s->random, 2) ? rnl_scratch(2 * device_bytes, &mem) :
					rnl_copy(NULL, s->in, 1);

	return draw(&s->random, 2) ? ret : -ret;
}

static int slot_fn(struct rnl_job *job)
{
	static int (*const steps[])(struct slot *s) = {
		copy_in, copy_in, copy_out, copy_out, copy_back_in, copy_from_stack, copy_rectangle,
		copy_to_pinned, take_more_scratch,
	};
	struct slot *s = rnl_container_of(job, struct slot, job);
	unsigned nr = draw(&s->random, 12), fails_at = draw(&s->random, 40);
	uint8_t value = (uint8_t)draw(&s->random, 256);
	void *mem;
	int ret;

	s->runs++;
	ret = rnl_scratch(s->bytes, &mem);
	s->scratch = mem;
	memset(s->scratch_should, value, s->bytes);
	ret = ret ? ret : rnl_fill(mem, value, s->bytes);
	for (unsigned i = 0; !ret && i < nr; i++) {
		ret = steps[draw(&s->random, COUNT(steps))](s);
		if (ret || i != fails_at)
			continue;
		ret = draw(&s->random, 2) ? -EPROTO : do_wrong(s);
	}
	/* do_wrong() returns a positive number if it ignored the error. */
	s->expected = ret > 0 ? -ret : ret;
	return ret;
}

/* ---- submitters ------------------------------------------------------------------- */

static void begin(struct slot *s)
{
	const int64_t late = (int64_t)draw(&s->random, 3) * 50000;
	const bool cancel = !draw(&s->random, 8), keyed = !draw(&s->random, 3);
	const uint64_t key = draw(&s->random, 9);
	int ret;

	s->late = !draw(&s->random, 8);
	s->cancelled = false;
	s->runs = 0;
	s->expected = 0;
	s->pinned = NULL;
	memset(s->out, 0x11, s->bytes);
	memset(s->out_should, 0x11, s->bytes);
	job_of(&s->job, slot_fn, NULL);
	if (s->late)
		must(rnl_job_set_deadline(&s->job, late));
	ret = keyed ? submit_by_key_wait(pool, &s->job, key, RNL_FOREVER) :
		      rnl_submit_wait(pool, &s->job, RNL_FOREVER);
	ck_assert_int_eq(ret, 0);
	/* From here on the job uses the slot's random numbers. */
	s->under_way = true;
	if (cancel)
		s->cancelled = !rnl_job_cancel(&s->job);
}

static void check_result(struct slot *s)
{
	int result = s->job.result;

	s->under_way = false;
	nr_failed += result < 0;
	if (s->cancelled) {
		nr_cancelled++;
		ck_assert_int_eq(result, -ECANCELED);
		ck_assert_uint_eq(s->runs, 0);
		return;
	}
	if (!s->runs) {
		nr_timed_out++;
		ck_assert(s->late);
		ck_assert_int_eq(result, -ETIMEDOUT);
		return;
	}
	ck_assert_uint_eq(s->runs, 1);
	ck_assert_int_eq(result, s->expected);
	/* This holds after a failed job, too: work issued before the error is done. */
	ck_assert_msg(!memcmp(s->out, s->out_should, s->bytes), "what came out is wrong");
	if (!s->pinned)
		return;
	ck_assert_msg(!memcmp(s->pinned, s->pinned_should, s->pinned_bytes),
		      "what came to a pinned buffer is wrong");
	rnl_memory_put(pool, s->pinned);
}

static void end(struct slot *s)
{
	must(rnl_job_wait(&s->job, patience_ns()));
	check_result(s);
}

static int submit_all(void *arg)
{
	uint64_t number = (uint64_t)(uintptr_t)arg, random = draws_of(seed, number);
	struct slot *slots = calloc(SLOTS, sizeof(*slots));

	for (unsigned i = 0; i < SLOTS; i++)
		slot_init(&slots[i], number * SLOTS + i);
	for (unsigned i = 0; i < nr_jobs; i++) {
		/* Large sizes are rare. */
		struct slot *s = &slots[draw(&random, draw(&random, 16) ? SLOTS - 3 : SLOTS)];

		if (s->under_way)
			end(s);
		begin(s);
	}
	for (unsigned i = 0; i < SLOTS; i++) {
		if (slots[i].under_way)
			end(&slots[i]);
		slot_fini(&slots[i]);
	}
	free(slots);
	return 0;
}

/* ---- others ------------------------------------------------------------------------ */

/* Gets and puts pinned buffers. Each buffer keeps its content while it is held. */
static int hold_pinned(void *arg)
{
	uint64_t random = draws_of(seed, (uintptr_t)arg);
	struct {
		unsigned char *buf;
		size_t bytes;
		unsigned char value;
	} held[HELD] = { { NULL, 0, 0 } };

	for (bool ending = false; !ending;) {
		unsigned i = draw(&random, HELD);
		void *buf;
		int ret;

		ending = over;
		if (!held[i].buf) {
			held[i].bytes = 1 + draw(&random, draw(&random, 4) ? 3000 : HELD_BYTES);
			ret = rnl_memory_get(pool, RNL_PINNED, held[i].bytes, &buf,
					     draw(&random, 2) ? 0 : MS);
			if (ret) {
				ck_assert(ret == -ENOMEM || ret == -ETIMEDOUT);
				continue;
			}
			held[i].buf = buf;
			held[i].value = (unsigned char)random;
			memset(buf, held[i].value, held[i].bytes);
			usleep(draw(&random, 200));
		}
		for (unsigned k = 0; k < HELD; k++) {
			if (!held[k].buf || !(ending || k == i || !draw(&random, 3)))
				continue;
			ck_assert_bytes(held[k].buf, held[k].bytes, held[k].value);
			rnl_memory_put(pool, held[k].buf);
			held[k].buf = NULL;
		}
	}
	for (unsigned k = 0; k < HELD; k++)
		rnl_memory_put(pool, held[k].buf);
	return 0;
}

static int hold_device(void *arg)
{
	uint64_t random = draws_of(seed, (uintptr_t)arg);
	void *mem[HELD] = { NULL };

	while (!over) {
		unsigned i = draw(&random, HELD);

		rnl_memory_put(pool, mem[i]);
		must(rnl_memory_get(pool, 0, 1 + draw(&random, 1 << 20), &mem[i], 0));
		usleep(draw(&random, 300));
	}
	for (unsigned i = 0; i < HELD; i++)
		rnl_memory_put(pool, mem[i]);
	return 0;
}

static int resize(void *arg)
{
	uint64_t random = draws_of(seed, (uintptr_t)arg);

	while (!over) {
		must(rnl_pool_resize(pool, 1 + draw(&random, WORKERS)));
		usleep(draw(&random, 20000));
	}
	return 0;
}

/* ---- the tests -------------------------------------------------------------------- */

static void check_all(void)
{
	struct rnl_pool_stats stats;

	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = figures_of(pool);
	printf("%llu jobs: %llu failed, %llu cancelled, %llu timed out; %llu of %llu pageable bytes "
	       "staged; %llu times no pinned buffer\n", (unsigned long long)stats.done,
	       (unsigned long long)nr_failed, (unsigned long long)nr_cancelled,
	       (unsigned long long)nr_timed_out, (unsigned long long)stats.staged_bytes,
	       (unsigned long long)nr_pageable, (unsigned long long)nr_no_pinned);
	ck_assert_uint_eq(stats.accepted, (uint64_t)nr_jobs * SUBMITTERS);
	ck_assert_uint_eq(stats.done, stats.accepted);
	ck_assert_uint_eq(stats.failed, nr_failed);
	ck_assert_uint_eq(stats.cancelled, nr_cancelled);
	ck_assert_uint_eq(stats.timed_out, nr_timed_out);
	ck_assert_uint_le(stats.staged_bytes, nr_pageable);
	ck_assert_uint_gt(stats.staged_bytes, 0);
	ck_assert_uint_le(stats.pinned_locked, PINNED_MAX);
	ck_assert_uint_eq(stats.pinned_used, 0);
}

static void stress(unsigned jobs, bool resizes)
{
	int (*const others[])(void *) = { hold_pinned, hold_pinned, hold_device, resize };
	const unsigned nr_others = COUNT(others) - !resizes;
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	uint64_t random = draws_of(seed, 2000);
	struct call submitters[SUBMITTERS], calls[COUNT(others)];

	pool = pool_of(WORKERS, .pinned_max = PINNED_MAX,
		       .staging_max = draw(&random, 2) ? 1 + draw(&random, 2 << 20) : 0,
		       .scratch_keep = draw(&random, 2) ? 1 + draw(&random, 200000) : 0,
		       .max_queued = 64, .max_in_flight = 1 + draw(&random, 32));
	must(rnl_device_describe(pool, NULL, 0, &info));
	device_bytes = info.memory_bytes;
	nr_jobs = jobs / SUBMITTERS;
	nr_failed = nr_cancelled = nr_timed_out = nr_pageable = nr_no_pinned = 0;
	over = false;
	for (unsigned i = 0; i < SUBMITTERS; i++)
		call_start(&submitters[i], submit_all, (void *)(uintptr_t)i);
	for (unsigned i = 0; i < nr_others; i++)
		call_start(&calls[i], others[i], (void *)(uintptr_t)(1000 + i));
	for (unsigned i = 0; i < SUBMITTERS; i++)
		(void)call_end(&submitters[i]);
	over = true;
	for (unsigned i = 0; i < nr_others; i++)
		(void)call_end(&calls[i]);
	check_all();
	rnl_pool_destroy(pool);
}

TEST(jobs_end_as_their_history_allows_and_leak_no_memory,
     .timeout_s = 120, .loops = 2)
{
	enum { FIRST = 300 };
	size_t before;

	seed = draws_of(test_seed(), (uint64_t)_i);
	/* A warm-up: some memory is allocated once per process. */
	stress(FIRST, _i);
	before = live_bytes();
	stress((unsigned)(NR_JOBS / 2 / test_scale()), _i);
	if (on_host())
		ck_assert_uint_lt(live_bytes(), before + (256 << 10));
}
