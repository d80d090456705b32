/* SPDX-License-Identifier: MIT */
/* The streams on which a barrier's jobs are: noted by workers, and joined; barrier.h has the design. */
#include "config.h"

#include "job/barrier.h"
#include "pool/pool.h"
#include "sys/thread_state.h"

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define NR_PLACES (sizeof(((struct rnl_barrier *)NULL)->places) / sizeof(uint32_t))

/* A place: a worker's index + 1; from SEQ_SHIFT on, the low bits of a job's sequence. */
#define SEQ_SHIFT 11

_Static_assert(RNL_WORKERS_MAX < 1 << SEQ_SHIFT, "a place has room for its worker");
_Static_assert(sizeof(struct rnl_barrier) <= 240, "one barrier a request, or a task of a graph");

static _Atomic uint32_t *place_at(struct rnl_barrier *b, unsigned i)
{
	return rnl__atomic(&b->places[i % NR_PLACES]);
}

static unsigned worker_at(uint32_t place)
{
	return (place & ((1u << SEQ_SHIFT) - 1)) - 1;
}

/* The first workers of a pool find their own places immediately. */
void rnl__barrier_place(struct rnl_barrier *b, unsigned worker, uint64_t seq)
{
	const uint32_t place = (uint32_t)seq << SEQ_SHIFT | (worker + 1);

	for (unsigned i = worker; i < worker + NR_PLACES; i++) {
		uint32_t now = rnl__peek(place_at(b, i));

		/* relaxed, both: the job's drop publishes it; a place keeps its worker */
		if (!now && atomic_compare_exchange_strong_explicit(place_at(b, i), &now, place,
								    memory_order_relaxed,
								    memory_order_relaxed))
			return;
		if (now && worker_at(now) == worker) {
			/* relaxed */
			atomic_store_explicit(place_at(b, i), place, memory_order_relaxed);
			return;
		}
	}
	/* relaxed: as above */
	atomic_fetch_or_explicit(rnl__atomic(&b->others), UINT64_C(1) << worker % 64,
				 memory_order_relaxed);
}

/* A worker with jobs of a barrier, and the worker's place in the barrier, or 0. */
struct joined {
	unsigned worker;
	uint32_t place;
};

static bool has_place(struct rnl_barrier *b, unsigned worker)
{
	for (unsigned i = 0; i < NR_PLACES; i++)
		if (worker_at(rnl__peek(place_at(b, i))) == worker)
			return true;
	return false;
}

/*
 * Lists at most @max workers that have jobs of the barrier, from *@nextp on: first its places,
 * then the other workers.  Returns the number.  Relaxed reads: the caller saw all jobs issued.
 */
static unsigned list_joined(struct rnl_barrier *b, unsigned *nextp, struct joined *joined, unsigned max)
{
	const uint64_t others = rnl__peek(rnl__atomic(&b->others));
	const unsigned end = NR_PLACES + (others ? rnl__pool_nr_workers(b->pool) : 0);
	unsigned nr = 0, i;

	for (i = *nextp; i < end && nr < max; i++) {
		const unsigned worker = i - NR_PLACES;
		const uint32_t place = i < NR_PLACES ? rnl__peek(place_at(b, i)) : 0;

		if (place)
			joined[nr++] = (struct joined){ worker_at(place), place };
		else if (i >= NR_PLACES && others >> worker % 64 & 1 && !has_place(b, worker) &&
			 rnl__worker_is_made(rnl__worker_at(b->pool, worker)))
			joined[nr++] = (struct joined){ worker, 0 };
	}
	*nextp = i;
	return nr;
}

/* Makes the caller's stream wait for a worker's last job of @b.  @own: the caller, if a worker. */
static int join(struct rnl_barrier *b, const struct joined *it, struct rnl__worker *own)
{
	const unsigned worker = it->worker;
	struct rnl__inflight *f = &rnl__worker_at(b->pool, worker)->inflight;
	const uint64_t seq = it->place ? rnl__inflight_whole(f, it->place >> SEQ_SHIFT, 32 - SEQ_SHIFT) :
					 rnl__inflight_last_of(f, b);
	uint64_t *noted = own ? &own->joined[worker % RNL__JOINED] : NULL;
	uint64_t joined = noted && *noted % RNL_WORKERS_MAX == worker ? *noted / RNL_WORKERS_MAX : 0;
	int ret = rnl__inflight_join(f, seq, &joined, own ? &own->inflight : NULL);

	if (noted)
		*noted = joined * RNL_WORKERS_MAX + worker;
	return ret;
}

/* First prefetches words that other CPUs wrote. */
int rnl__barrier_join_jobs(struct rnl_barrier *b)
{
	struct rnl__worker *own = rnl__pool_worker(b->pool) ? rnl__thread.worker : NULL;
	struct joined joined[32];
	unsigned next = 0, nr;
	int ret = 0;

	do {
		nr = list_joined(b, &next, joined, COUNT(joined));
		for (unsigned i = 0; i < nr; i++)
			rnl__inflight_fetch(&rnl__worker_at(b->pool, joined[i].worker)->inflight);
		for (unsigned i = 0; i < nr; i++)
			rnl__inflight_fetch_event(&rnl__worker_at(b->pool, joined[i].worker)->inflight, !joined[i].place);
		for (unsigned i = 0; i < nr && !ret; i++)
			ret = join(b, &joined[i], own);
	} while (nr == COUNT(joined) && !ret);
	return ret;
}
