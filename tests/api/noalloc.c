/* SPDX-License-Identifier: MIT */
/* Submits allocate nothing and take no lock: counted for 100,000 submits of each kind. */
#define _GNU_SOURCE		/* RTLD_NEXT */
#include <dlfcn.h>
#include <stdint.h>

#include <runnel/batch.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

#include "classed.h"
#include "sanitizers.h"

/* ---- the counters -------------------------------------------------------- */

static _Thread_local unsigned long own_memory, own_locks;
static _Atomic unsigned long all_memory;

static void count_memory(void)
{
	own_memory++;
	atomic_fetch_add_explicit(&all_memory, 1, memory_order_relaxed);
}

#define ITS_OWN "malloc() and the locks are its own"
#define INTERPOSED __attribute__((visibility("default")))

#if SANITIZED

/* malloc() is the sanitizer's, and calls these hooks. */
int __sanitizer_install_malloc_and_free_hooks(void (*on_malloc)(const volatile void *, size_t),
					      void (*on_free)(const volatile void *));

static void on_malloc(const volatile void *mem, size_t bytes)
{
	(void)mem;
	(void)bytes;
	count_memory();
}

static void on_free(const volatile void *mem)
{
	(void)mem;
	count_memory();
}

__attribute__((constructor)) static void start_counting(void)
{
	__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
}

#else

/* Memory for dlsym(), which allocates while it looks up the next malloc(). Never freed. */
static _Alignas(64) char early[65536];
static _Atomic size_t early_used;

static void *early_alloc(size_t bytes)
{
	size_t at = atomic_fetch_add(&early_used, (bytes + 63) & ~(size_t)63);

	return at + bytes <= sizeof(early) ? early + at : NULL;
}

static bool is_early(const void *mem)
{
	return (uintptr_t)mem - (uintptr_t)early < sizeof(early);
}

static void *(*next_malloc)(size_t bytes);
static void *(*next_calloc)(size_t nr, size_t bytes);
static void *(*next_realloc)(void *mem, size_t bytes);
static void *(*next_aligned_alloc)(size_t alignment, size_t bytes);
static int (*next_posix_memalign)(void **memp, size_t alignment, size_t bytes);
static void (*next_free)(void *mem);

static void find(void *fn, const char *name)
{
	void *next = dlsym(RTLD_NEXT, name);

	memcpy(fn, &next, sizeof(next));
}

__attribute__((constructor)) static void find_all(void)
{
	find(&next_free, "free");
	find(&next_aligned_alloc, "aligned_alloc");
	find(&next_posix_memalign, "posix_memalign");
	find(&next_realloc, "realloc");
	find(&next_calloc, "calloc");
	find(&next_malloc, "malloc");
}

INTERPOSED void *malloc(size_t bytes)
{
	count_memory();
	return next_malloc ? next_malloc(bytes) : early_alloc(bytes);
}

INTERPOSED void *calloc(size_t nr, size_t bytes)
{
	count_memory();
	return next_calloc ? next_calloc(nr, bytes) : early_alloc(nr * bytes);
}

INTERPOSED void *realloc(void *mem, size_t bytes)
{
	count_memory();
	if (next_realloc && !is_early(mem))
		return next_realloc(mem, bytes);
	return mem ? NULL : malloc(bytes);
}

INTERPOSED void *aligned_alloc(size_t alignment, size_t bytes)
{
	count_memory();
	return next_aligned_alloc(alignment, bytes);
}

INTERPOSED int posix_memalign(void **memp, size_t alignment, size_t bytes)
{
	count_memory();
	return next_posix_memalign(memp, alignment, bytes);
}

INTERPOSED void free(void *mem)
{
	count_memory();
	if (mem && !is_early(mem))
		next_free(mem);
}

static int (*next_lock)(pthread_mutex_t *mutex);
static int (*next_trylock)(pthread_mutex_t *mutex);

INTERPOSED int pthread_mutex_lock(pthread_mutex_t *mutex)
{
	own_locks++;
	if (!next_lock)
		find(&next_lock, "pthread_mutex_lock");
	return next_lock(mutex);
}

INTERPOSED int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
	own_locks++;
	if (!next_trylock)
		find(&next_trylock, "pthread_mutex_trylock");
	return next_trylock(mutex);
}

#endif

/* The calls made by a piece of code. The code must not assert, because Check allocates. */
struct count {
	unsigned long memory, locks;
};

static void count_from(struct count *count)
{
	count->memory = own_memory;
	count->locks = own_locks;
}

static void count_to(struct count *sum, const struct count *from)
{
	sum->memory += own_memory - from->memory;
	sum->locks += own_locks - from->locks;
}

#define ck_none(sum) \
	do { \
		ck_assert_uint_eq((sum).memory, 0); \
		ck_assert_uint_eq((sum).locks, 0); \
	} while (0)

/* Without this test the other tests could count nothing and pass. */
TEST(the_counters_count, .not_simulated = ITS_OWN)
{
	pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
	struct count from, sum = { 0, 0 };
	unsigned long all = all_memory;
	struct rnl_pool *pool;
	void *volatile mem;
	char word[8];

	count_from(&from);
	mem = malloc(10);
	free(mem);
	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	count_to(&sum, &from);
	ck_assert_uint_eq(sum.memory, 2);
	ck_assert_uint_eq(sum.locks, !SANITIZED);

	/* The wrappers count calls of the library, too. */
	sum = (struct count){ 0, 0 };
	count_from(&from);
	pool = pool_of(2);
	count_to(&sum, &from);
	ck_assert_uint_ge(sum.memory, 1);
	ck_assert_uint_ge(all_memory - all, sum.memory);
	if (on_host() && !SANITIZED) {
		must(rnl_thread_attach(pool));
		sum = (struct count){ 0, 0 };
		count_from(&from);
		(void)rnl_fill(word, 0, sizeof(word));	/* a stream of the host device has a lock */
		count_to(&sum, &from);
		ck_assert_uint_ge(sum.locks, 1);
		must(rnl_stream_wait(RNL_FOREVER));
		rnl_thread_attach(NULL);
	}
	rnl_pool_destroy(pool);
}

/* ---- submits ------------------------------------------------------------- */

enum { BATCH = 500 };

enum kind {
	PLAIN, KEYED, MANY, CALLED, QUEUED, CLASSED, LATE, WAITING, KEYED_WAITING, IN_BARRIER, AFTER,
	KINDS
};
static const char *const names[KINDS] = {
	"plain", "keyed", "many", "with a callback", "to a completion queue", "of a class",
	"with a deadline", "that may wait", "keyed, that may wait", "in a barrier", "after one",
};

static struct rnl_job jobs[BATCH], *list[BATCH], first;
static struct rnl_barrier barrier, before;
static struct rnl_cq *cq;
static struct rnl_class *cls;

static void callback(struct rnl_job *job)
{
	(void)job;
}

/* Sets the job up for a submit of @kind. */
static int set_kind(struct rnl_job *job, enum kind kind)
{
	switch (kind) {
	case CALLED:
		return rnl_job_set_on_done(job, callback);
	case QUEUED:
		return rnl_job_set_cq(job, cq);
	case CLASSED:
		return rnl_job_set_class(job, cls);
	case LATE:
		return rnl_job_set_deadline(job, 3600000 * MS);
	case AFTER:
		return rnl_barrier_add(&barrier, job) || rnl_job_set_after(job, &before);
	case IN_BARRIER:
		return rnl_barrier_add(&barrier, job);
	default:
		return 0;
	}
}

static int submit_one(struct rnl_pool *pool, enum kind kind, unsigned i)
{
	switch (kind) {
	case KEYED:
		return submit_by_key(pool, &jobs[i], i);
	case WAITING:
		return rnl_submit_wait(pool, &jobs[i], RNL_FOREVER);
	case KEYED_WAITING:
		return submit_by_key_wait(pool, &jobs[i], i, RNL_FOREVER);
	default:
		return rnl_submit(pool, &jobs[i]);
	}
}

/* Reaps a batch of done jobs.  Returns false on an error, or if other jobs came. */
static bool reap_batch(void)
{
	struct rnl_job *reaped[BATCH];
	int nr = 0, ret;

	while (nr < BATCH) {
		ret = rnl_cq_reap(cq, reaped, BATCH, 0);
		if (ret < 0)
			return false;
		nr += ret;
	}
	return nr == BATCH;
}

/* Submits a batch, for which the pool has space.  Returns the number of accepted jobs. */
static int submit_batch(struct rnl_pool *pool, enum kind kind)
{
	int nr = 0;

	if (kind == MANY)
		return rnl_submit_many(pool, list, BATCH);
	/* The batch comes after the barrier that counts `first`, a job that may still run. */
	if (kind == AFTER && rnl_submit(pool, &first))
		return -1;
	for (unsigned i = 0; i < BATCH; i++)
		nr += !submit_one(pool, kind, i);
	if (kind == QUEUED && !reap_batch())
		return -1;
	return nr;
}

TEST(submits_allocate_nothing_and_take_no_lock, .not_simulated = ITS_OWN)
{
	int rounds = (int)(100000 / BATCH / test_scale());
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier all;

	must(rnl_cq_create(&cq));
	cls = first_class(pool);
	must(rnl_barrier_init(&all, pool));
	for (enum kind kind = 0; kind < KINDS; kind++) {
		struct count from, sum = { 0, 0 };

		must(rnl_barrier_init(&barrier, pool));
		must(rnl_barrier_init(&before, pool));
		job_in(&before, &first, noop_fn, NULL);
		for (int i = 0; i < BATCH; i++) {
			list[i] = &jobs[i];
			job_of(&jobs[i], noop_fn, NULL);
			must(set_kind(&jobs[i], kind));
		}
		for (int round = 0; round < rounds; round++) {
			int nr;

			count_from(&from);
			nr = submit_batch(pool, kind);
			count_to(&sum, &from);
			ck_assert_int_eq(nr, BATCH);
			must(rnl_pool_drain(pool, RNL_FOREVER));
		}
		printf("%d submits, %s: %lu calls of the allocator, %lu locks\n", rounds * BATCH,
		       names[kind], sum.memory, sum.locks);
		ck_none(sum);
	}
	rnl_cq_destroy(cq);
	rnl_pool_destroy(pool);
}

TEST(refused_submits_allocate_nothing_and_take_no_lock, .not_simulated = ITS_OWN)
{
	int nr = (int)(100000 / test_scale());
	struct rnl_pool *pool = pool_of(1, .max_queued = 1);
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued, *one[1] = { &first };
	struct count from, sum = { 0, 0 };
	unsigned long wrong = 0;

	hold_workers(pool, &gate, &held, 1);
	submit_job(pool, &queued, noop_fn, NULL);
	must(rnl_barrier_init(&barrier, pool));
	job_in(&barrier, &first, noop_fn, NULL);

	count_from(&from);
	for (int i = 0; i < nr; i++) {
		wrong += rnl_submit(pool, &first) != -EAGAIN;
		wrong += submit_by_key(pool, &first, (uint64_t)i) != -EAGAIN;
		wrong += rnl_submit_many(pool, one, 1) != -EAGAIN;
		wrong += rnl_submit_wait(pool, &first, 0) != -ETIMEDOUT;
		wrong += rnl_submit(pool, &queued) != -EBUSY;
		wrong += rnl_submit(pool, NULL) != -EINVAL;
	}
	rnl_pool_close(pool);
	for (int i = 0; i < nr; i++)
		wrong += rnl_submit(pool, &first) != -ESHUTDOWN;
	count_to(&sum, &from);
	ck_assert_uint_eq(wrong, 0);
	ck_none(sum);
	gate_open(&gate);
	rnl_pool_destroy(pool);
}

/* Returns after each thread of the pool has run: a sanitizer allocates when a thread starts. */
static void await_threads(struct rnl_pool *pool, void *mem)
{
	struct gate gate = GATE_INIT;
	struct rnl_job job, held[2];

	/* Each worker's fill runs on its stream's thread. */
	for (int worker = 0; worker < 2; worker++) {
		uint64_t key = key_on(pool, worker);

		job_of(&job, fill_own_fn, mem);
		must(submit_by_key(pool, &job, key));
		ck_assert_int_eq(result_of(&job), 0);
	}
	/* No worker is free, so the timer thread completes the cancelled job. */
	hold_workers(pool, &gate, held, 2);
	submit_job(pool, &job, noop_fn, NULL);
	must(rnl_job_cancel(&job));
	ck_assert_int_eq(result_of(&job), -ECANCELED);
	gate_open(&gate);
	ck_assert_int_eq(result_of(&held[0]), 0);
	ck_assert_int_eq(result_of(&held[1]), 0);
}

TEST(a_pool_that_runs_jobs_allocates_nothing, .not_simulated = ITS_OWN)
{
	static const struct {
		const char *name;
		int (*fn)(struct rnl_job *job);
		enum kind kind;
	} ways[] = {
		{ "empty", noop_fn, PLAIN }, { "filling", fill_own_fn, PLAIN },
		{ "calling back", fill_own_fn, CALLED }, { "reaped", fill_own_fn, QUEUED },
	};
	int rounds = (int)(100000 / BATCH / test_scale());
	struct rnl_pool *pool;
	unsigned long before_it, used;
	void *mem;
	int ret = 0;

	if (!on_host())
		test_skip("a_pool_that_runs_jobs_allocates_nothing: CUDA's driver is not ours");
	pool = pool_of(2);
	must(rnl_cq_create(&cq));
	must(rnl_memory_get(pool, 0, 2 * 64, &mem, 0));
	await_threads(pool, mem);
	for (unsigned way = 0; way < COUNT(ways); way++) {
		must(rnl_barrier_init(&barrier, pool));
		for (int i = 0; i < BATCH; i++) {
			job_in(&barrier, &jobs[i], ways[way].fn, mem);
			must(set_kind(&jobs[i], ways[way].kind));
		}
		before_it = 0;
		for (int round = -10; round < rounds && !ret; round++) {
			if (!round)
				before_it = all_memory;
			ret = submit_batch(pool, ways[way].kind) == BATCH ? 0 : -EPROTO;
			ret = ret ? ret : rnl_barrier_wait(&barrier, RNL_FOREVER);
		}
		used = all_memory - before_it;
		ck_assert_int_eq(ret, 0);
		printf("%d jobs, %s: %lu calls of the allocator in the process\n", rounds * BATCH,
		       ways[way].name, used);
		ck_assert_uint_eq(used, 0);
	}
	rnl_memory_put(pool, mem);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
}

/* ---- requests ------------------------------------------------------------ */

#define REQUESTS 200

/* Reserves requests, then commits or cancels them.  Returns the number of commits. */
static int send_some(struct rnl_batcher *batcher, struct rnl_request *requests)
{
	int nr = 0;

	for (int i = 0; i < REQUESTS; i++) {
		if (rnl_batcher_reserve(batcher, &requests[i], 64, 0))
			break;
		if (i % 8)
			nr += !rnl_request_commit(&requests[i]);
		else
			(void)rnl_request_release(&requests[i]);
	}
	return nr;
}

TEST(requests_allocate_nothing_and_take_no_lock, .not_simulated = ITS_OWN)
{
	static struct rnl_request requests[REQUESTS];
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	int rounds = (int)(500 / test_scale()), nr_sent = 0;
	struct rnl_pool *pool = pool_of(2);
	struct count from, sum = { 0, 0 };
	struct rnl_batcher *batcher;
	int wrong = 0;

	attr.fn = noop_batch;
	attr.in_bytes = 64;
	attr.slab_bytes = 64 * 50;
	must(rnl_batcher_create(&batcher, pool, &attr));
	for (int i = 0; i < REQUESTS; i++)
		must(rnl_job_init(&requests[i].job, NULL));
	for (int round = 0; round < rounds; round++) {
		count_from(&from);
		nr_sent += send_some(batcher, requests);
		count_to(&sum, &from);
		must(rnl_pool_drain(pool, RNL_FOREVER));
		count_from(&from);
		for (int i = 0; i < REQUESTS; i++) {
			int ret = rnl_request_release(&requests[i]);

			wrong += ret && ret != -EINVAL;
		}
		count_to(&sum, &from);
	}
	printf("%d requests: %lu calls of the allocator, %lu locks\n", nr_sent, sum.memory,
	       sum.locks);
	ck_assert_int_ge(nr_sent, rounds * 50);
	ck_assert_int_eq(wrong, 0);
	ck_none(sum);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}
