/* SPDX-License-Identifier: MIT */
/*
 * A resident kernel, by hand: it polls page-locked memory for requests, one at a time, and answers
 * there.
 *
 * DESIGN
 *	Each 16 bytes of a request and of its answer have the request's number. So the kernel needs no
 *	flag, and the host sees by the numbers that an answer is complete. The CPU stores a piece
 *	in one access.
 *	A resident kernel delays cudaFree() and the like of other threads until it ends. So there is
 *	the same with leases: a kernel ends after its time, and the next one, queued behind it, goes
 *	on with the same number. A thread of its own launches them.
 */
#include "gpu/work.h"

#include <sched.h>
#include <string.h>

#define LOOKS 1024		/* then yields: there may be more threads than CPUs */
#define LEASES_AHEAD 2		/* the lease that runs, and the one behind it */

void gpu_resident_open(struct gpu_resident *r, int ordinal, size_t bytes)
{
	const size_t words = bytes / sizeof(uint32_t);

	r->ordinal = ordinal;
	r->stream = gpu_stream(RNL_STREAM_PRIVATE, false);
	r->box.nr = (uint32_t)((words + GPU_PIECE_WORDS - 1) / GPU_PIECE_WORDS);
	bench_must(r->box.nr <= GPU_PIECES_MAX, "a request of one block");
	r->box.in = gpu_pinned(r->box.nr * sizeof(*r->box.in));
	r->box.out = gpu_pinned(r->box.nr * sizeof(*r->box.out));
	r->box.begun = gpu_pinned(128);
	r->first = gpu_pinned(sizeof(*r->first));
	r->box.next = gpu_memory(sizeof(*r->box.next));
}

/* ---- requests ------------------------------------------------------------- */

static void put_piece(struct gpu_piece *to, const uint32_t *words, uint32_t seq)
{
#ifdef BENCH_TSAN
	memcpy(to->words, words, sizeof(to->words));
	/* release: the words, on the double */
	__atomic_store_n(&to->seq, seq, __ATOMIC_RELEASE);
#else
	typedef uint32_t piece __attribute__((vector_size(16), may_alias));

	*(volatile piece *)to = (piece){ words[0], words[1], words[2], seq };
#endif
}

void gpu_resident_ask(struct gpu_resident *r, const uint32_t *words, uint32_t *answer)
{
	const uint32_t seq = ++r->seq;

	for (uint32_t i = 0; i < r->box.nr; i++)
		put_piece(&r->box.in[i], words + i * GPU_PIECE_WORDS, seq);
	for (uint32_t i = 0; i < r->box.nr; i++) {
		gpu_await_word(&r->box.out[i].seq, seq);
		memcpy(answer + i * GPU_PIECE_WORDS, r->box.out[i].words,
		       sizeof(r->box.out[i].words));
	}
}

/* ---- kernels -------------------------------------------------------------- */

static void launch_lease(struct gpu_resident *r)
{
	gpu_ok(gpu_issue_lease(&r->box, ++r->launched, r->stream), "a lease");
}

static void *keep_leases(void *arg)
{
	struct gpu_resident *r = arg;
	unsigned looks = 0;

	gpu_enter(r->ordinal);
	/* relaxed: publishes no data */
	while (!atomic_load_explicit(&r->over, memory_order_relaxed)) {
		if (r->launched == __atomic_load_n(r->box.begun, __ATOMIC_RELAXED))
			launch_lease(r);
		bench_relax();
		if (++looks % LOOKS == 0)
			sched_yield();
	}
	return NULL;
}

void gpu_resident_begin(struct gpu_resident *r, uint64_t lease_ns)
{
	memset(r->box.in, 0, r->box.nr * sizeof(*r->box.in));	/* the last end */
	r->box.lease_ns = lease_ns;
	if (!lease_ns) {
		gpu_ok(gpu_issue_resident(&r->box, r->seq + 1, r->stream), "a resident kernel");
		return;
	}
	*r->first = r->seq + 1;
	gpu_ok(cudaMemcpyAsync(r->box.next, r->first, sizeof(*r->first), cudaMemcpyHostToDevice,
			       r->stream), "a copy");
	for (unsigned i = 0; i < LEASES_AHEAD; i++)
		launch_lease(r);
	atomic_store(&r->over, false);
	bench_must(!pthread_create(&r->keeper, NULL, keep_leases, r), "pthread_create");
}

void gpu_resident_end(struct gpu_resident *r)
{
	static const uint32_t none[GPU_PIECE_WORDS];

	if (r->box.lease_ns) {
		atomic_store(&r->over, true);
		pthread_join(r->keeper, NULL);
	} else {
		for (uint32_t i = 0; i < r->box.nr; i++)
			put_piece(&r->box.in[i], none, GPU_RESIDENT_ENDS);
	}
	gpu_ok(cudaStreamSynchronize(r->stream), "a resident kernel");
}
