/* SPDX-License-Identifier: MIT */
/* A request kernel whose answers are known (batch.h), for the host device and the double. */
#ifndef ANSWERING_H
#define ANSWERING_H


#include <runnel/memory.h>

#include "answer.h"
#include "batch.h"
#include "request_kernel.h"
#include "sanitizers.h"

#ifdef ANSWERING_ON_GPU
extern const struct rnl_request_kernel answering;
#define skip_unless_answering() ((void)0)
#else
/* With ThreadSanitizer requests through the double take too long to follow each other closely. */
#define skip_unless_answering() \
	do { \
		skip_unless_kernels(); \
		if (test_fake() && THREAD_SANITIZED) \
			test_skip("%.*s: too slow", (int)strlen(__func__) - 3, __func__); \
	} while (0)

static _Atomic unsigned answering_executed;

unsigned answering_nr(void)
{
	return answering_executed;
}

static int answering_fn(const struct rnl_request_view *view)
{
	const struct answering *a = view->arg;
	const size_t nr = least(view->in_bytes, view->out_bytes);

	answering_executed++;
	if (a->takes_ms)
		usleep(a->takes_ms * 1000);
	if (!view->out != !view->out_bytes)
		return -EPROTO;
	if (nr)
		memcpy(view->out, view->in, nr);
	if (view->out_bytes > nr)
		memset((char *)view->out + nr, FILLER, view->out_bytes - nr);
	return __atomic_load_n(&a->result, __ATOMIC_RELAXED);
}

HOST_REQUEST_KERNEL(answering, answering_fn);
#endif

/* A pool, and the argument of its batchers. */
static inline struct rnl_pool *answering_pool(unsigned nr_workers, struct answering **ap)
{
	struct rnl_pool *pool = pool_of(nr_workers);
	void *mem = NULL;

	must(rnl_memory_get(pool, RNL_PINNED, sizeof(**ap), &mem, 0));
	*ap = mem;
	**ap = (struct answering){ 0 };
	return pool;
}

static inline struct rnl_batcher_attr answering_attr(struct answering *a, uint32_t flags,
						     size_t in_bytes, size_t out_bytes)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;

	attr.kernel = &answering;
	attr.arg = a;
	/* A busy machine looks like one whose device is shared. */
	attr.flags = flags & RNL_BATCHER_RESIDENT ? flags | RNL_BATCHER_SHARED : flags;
	attr.in_bytes = in_bytes;
	attr.out_bytes = out_bytes;
	return attr;
}

static inline struct rnl_batcher *answering_batcher(struct rnl_pool *pool, struct answering *a,
						    uint32_t flags, size_t in_bytes,
						    size_t out_bytes)
{
	const struct rnl_batcher_attr attr = answering_attr(a, flags, in_bytes, out_bytes);
	struct rnl_batcher *batcher = NULL;

	must(rnl_batcher_create(&batcher, pool, &attr));
	return batcher;
}

/* Sends a request, waits for it and checks it. */
static inline void ask(struct rnl_batcher *batcher, size_t bytes, size_t out_bytes, uint64_t seed)
{
	struct rnl_request request;

	request_of(&request, NULL);
	send(batcher, &request, bytes, seed);
	receive(&request, seed, out_bytes);
}

/* Sends requests one by one until the resident kernel has answered @nr of them. */
static inline void ask_until_resident(struct rnl_batcher *batcher, size_t bytes, size_t out_bytes,
			       uint64_t nr)
{
	const uint64_t before = counts_of(batcher).resident;
	const double until = seconds_now() + PATIENCE_S;
	uint64_t seed = 0;

	while (counts_of(batcher).resident < before + nr) {
		ck_assert_msg(seconds_now() < until, "%d of %d answers are the resident kernel's",
			      (int)(counts_of(batcher).resident - before), (int)nr);
		ask(batcher, bytes, out_bytes, seed++);
	}
}

#endif /* ANSWERING_H */
