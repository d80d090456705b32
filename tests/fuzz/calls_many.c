/* SPDX-License-Identifier: MIT */
/* Maps and batchers in sequences of calls: each chunk runs once, each request has its result. */
#include "tests/lib/asks.h"
#include "tests/lib/request_kernel.h"
#include "config.h"

#include <runnel/batch.h>
#include <runnel/kernel.h>
#include <runnel/map.h>

#include "tests/fuzz/calls.h"

/* ---- maps --------------------------------------------------------------------------- */

#define ELEMENTS 100

static struct map_state {
	uint64_t number;		/* 0: no map is running */
	struct rnl_map map;
	struct rnl_map_report report;
	uint32_t from[ELEMENTS], to[ELEMENTS];
	uint64_t fails_at;		/* number of a chunk */
	_Atomic unsigned seen[ELEMENTS], read[ELEMENTS], written[ELEMENTS];
	_Atomic uint64_t next_read, next_write;
} maps[MAPS];
static uint64_t nr_maps;

struct chunk_args {
	struct rnl_chunk chunk;
	bool neighbours;
};

/* With a halo, an element's input includes the one before it; the first element uses itself. */
static uint32_t element_after(const uint32_t *at, uint64_t i, bool neighbours)
{
	return *at * 3 + (neighbours ? at[-(int)(i > 0)] : 0);
}

static void change_chunk(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct chunk_args *a = args;
	const uint32_t *in = a->chunk.in;
	uint32_t *out = a->chunk.out;

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < a->chunk.nr; i++)
		out[i] = element_after(in + i, a->chunk.first + i, a->neighbours);
}
DOUBLE_KERNEL(chunk_kernel, change_chunk, change_chunk, struct chunk_args);

static int map_fn(const struct rnl_chunk *c)
{
	struct map_state *m = c->arg;
	const struct chunk_args args = { *c, m->map.halo_before };
	const struct rnl_dim one = { 1, 1, 1 };
	int ret;

	must(c->first == c->index * m->map.chunk && c->first < m->map.nr);
	must(c->nr == (m->map.nr - c->first < m->map.chunk ? m->map.nr - c->first : m->map.chunk));
	must(c->before == (c->first ? m->map.halo_before : 0));
	must(atomic_fetch_add(&m->seen[c->index], 1) == 0);
	if (c->index == m->fails_at)
		return -ENXIO;
	ret = rnl_launch(&chunk_kernel, one, one, &args);
	must(!ret || is_fault(ret));
	return ret;
}

static int map_read(void *arg, void *buf, uint64_t first, uint64_t nr)
{
	struct map_state *m = arg;

	/* A halo is read again. */
	for (uint64_t i = first; i < first + nr; i++)
		must(atomic_fetch_add(&m->read[i], 1) <= m->map.halo_before);
	if (m->map.flags & RNL_MAP_IN_ORDER)
		must(atomic_exchange(&m->next_read, first + nr) ==
		     first + (first + nr > m->map.chunk ? m->map.halo_before : 0));
	memcpy(buf, m->from + first, nr * sizeof(*m->from));
	return 0;
}

static int map_write(void *arg, const void *buf, uint64_t first, uint64_t nr)
{
	struct map_state *m = arg;

	for (uint64_t i = first; i < first + nr; i++)
		must(atomic_fetch_add(&m->written[i], 1) == 0);
	if (m->map.flags & RNL_MAP_IN_ORDER)
		must(atomic_exchange(&m->next_write, first + nr) == first);
	memcpy(m->to + first, buf, nr * sizeof(*m->to));
	return 0;
}

static struct rnl_barrier *barrier_of(unsigned which)
{
	return barrier((int)which + BARRIERS - MAPS);
}

/* Returns true if the map is running, or a job that comes after it is not done. */
static bool is_needed(unsigned which)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (s.works[i].owned && s.works[i].after == (int)which + BARRIERS - MAPS)
			return true;
	return maps[which].number;
}

static void set_map(struct map_state *m, unsigned how)
{
	static const uint64_t lengths[] = { 0, 1, 37, ELEMENTS };
	const struct rnl_map none = RNL_MAP_INIT;
	const struct rnl_map_report no_report = RNL_MAP_REPORT_INIT;
	struct rnl_map *map = &m->map;

	*m = (struct map_state){ .map = none, .report = no_report, .fails_at = UINT64_MAX };
	for (uint32_t i = 0; i < ELEMENTS; i++)
		m->from[i] = how * 2654435761u + i * i;
	map->fn = map_fn;
	map->arg = m;
	map->nr = lengths[how & 3];
	map->chunk = 1 + (how >> 2 & 15);
	map->in_bytes = map->out_bytes = sizeof(uint32_t);
	map->halo_before = how >> 6 & 1;
	map->report = &m->report;
	map->flags = how >> 7 & 7;	/* all of enum rnl_map_flags */
	if (how >> 10 & 1)
		map->read = map_read;
	else
		map->in = m->from;
	if (how >> 11 & 1)
		map->write = map_write;
	else
		map->out = how >> 12 & 1 && map->in ? m->from : m->to;
	if (how >> 13 & 1)
		m->fails_at = how >> 14;
	if (map->out == m->from)
		memcpy(m->to, m->from, sizeof(m->from));	/* the earlier content */
}

void map_start(unsigned which, unsigned how)
{
	struct map_state *m = &maps[which];
	int ret;

	if (is_needed(which))
		return;
	set_map(m, how);
	must(!rnl_barrier_init(barrier_of(which), s.pool));
	m->number = ++nr_maps;
	ret = rnl_map_start(s.pool, &m->map, barrier_of(which));
	if (s.closed)
		must(ret == -ESHUTDOWN || is_fault(ret));
	else
		must(ret == 0 || ret == -EAGAIN || is_fault(ret));
	must(ret != -EAGAIN || jobs_any(NULL) || s.others);
	s.others = true;
	if (ret)
		m->number = 0;
}

static void check_output(const struct map_state *m)
{
	const bool in_place = m->map.out == m->from;
	const uint32_t *from = in_place ? m->to : m->from, *to = in_place ? m->from : m->to;

	for (uint64_t i = 0; i < m->map.nr; i++)
		must(to[i] == element_after(from + i, i, m->map.halo_before));
	must(m->report.chunks == (m->map.nr + m->map.chunk - 1) / m->map.chunk);
	for (uint64_t i = 0; i < m->report.chunks; i++)
		must(atomic_load(&m->seen[i]) == 1);
}

/* Checks a map from a job that comes after it: the map is done, and has not failed. */
void map_check_output(int barrier)
{
	check_output(&maps[barrier - (BARRIERS - MAPS)]);
}

void map_look(unsigned which)
{
	struct map_state *m = &maps[which];
	int ret = m->number ? rnl_barrier_wait(barrier_of(which), 0) : -ETIMEDOUT;

	must(ret == 0 || ret == -ETIMEDOUT);
	if (ret)
		return;
	m->number = 0;
	ret = barrier_of(which)->result;
	if (!ret) {
		must(m->fails_at >= m->report.chunks);
		check_output(m);
	} else {
		must((ret == -ENXIO && m->fails_at < ELEMENTS) || is_fault(ret) ||
		     (ret == -ECANCELED && s.stopped));
	}
}

bool maps_busy(void)
{
	for (unsigned i = 0; i < MAPS; i++)
		if (maps[i].number)
			return true;
	return false;
}

uint64_t map_now(int barrier)
{
	return barrier < BARRIERS - MAPS ? 0 : maps[barrier - (BARRIERS - MAPS)].number;
}

/* ---- batchers ------------------------------------------------------------------------ */

#define REQUESTS 12

static struct batch_state {
	struct rnl_batcher *batcher;
	struct rnl_cq *cq;		/* for every second request */
	bool varies;
	struct request {
		struct rnl_request request;
		enum { FREE, RESERVED, COMMITTED, DONE } state;
		uint32_t word;		/* the input; its last 4 bits are the request's index */
		_Atomic unsigned nr_run;
	} requests[REQUESTS];
	uint64_t nr_done, nr_failed, nr_cancelled, nr_refused;
} b;

static int32_t status_of(uint32_t word)
{
	return word % 5 ? (int32_t)(word % 7) : -EPROTO;
}

struct batch_args {
	struct rnl_batch batch;
};

/* Answers a request, on the device. */
static int32_t answer_one(const void *in, size_t bytes, uint32_t *out)
{
	uint32_t word;

	memcpy(&word, in, sizeof(word));
	must(bytes == (b.varies ? 4 + word % 13 : 16));
	b.requests[word % 16].nr_run++;
	*out = ~word;
	return status_of(word);
}

static int answer_request(const struct rnl_request_view *view)
{
	return answer_one(view->in, view->in_bytes, view->out);
}
HOST_REQUEST_KERNEL(request_kernel, answer_request);

static void answer(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct rnl_batch *batch = &((const struct batch_args *)args)->batch;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < batch->nr; i++) {
		const uint32_t at = batch->spans ? batch->spans[i].offset : i * 16;

		batch->status[i] = answer_one((const char *)batch->in + at,
					      batch->spans ? batch->spans[i].bytes : 16,
					      (uint32_t *)batch->out + i);
	}
}
DOUBLE_KERNEL(batch_kernel, answer, answer, struct batch_args);

static int batch_fn(const struct rnl_batch *batch)
{
	const struct batch_args args = { *batch };
	const struct rnl_dim one = { 1, 1, 1 };
	int ret = rnl_launch(&batch_kernel, one, one, &args);

	must(batch->nr >= 1 && batch->nr <= 4 && (!ret || is_fault(ret)));
	return ret;
}

static bool batch_begin(unsigned how)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	int ret;

	if (b.batcher)
		return true;
	attr.flags = RNL_BATCHER_STATUS | (how & 1 ? RNL_BATCHER_VARIABLE : 0) |
		     (how & 2 ? RNL_BATCHER_ALWAYS_COPY : 0);
	if (how & 32) {
		attr.flags |= RNL_BATCHER_RESIDENT | (how & 64 ? 0 : RNL_BATCHER_SHARED);
		attr.kernel = &request_kernel;
		attr.nr_mailboxes = how >> 8 & 7;
	}
	if (!attr.kernel || how & 128)
		attr.fn = batch_fn;
	attr.in_bytes = 16;
	attr.out_bytes = 4;
	attr.max_batch = 4;
	attr.slab_bytes = 64;
	attr.devices = how >> 2 & ((1u << s.nr_devices) - 1);
	memset(&b, 0, sizeof(b));
	b.varies = how & 1;
	must(!rnl_cq_create(&b.cq));
	ret = rnl_batcher_create(&b.batcher, s.pool, &attr);
	must(ret == 0 || (ret == -ESHUTDOWN && s.closed) || is_fault(ret));
	if (ret) {
		rnl_cq_destroy(b.cq);
		return false;
	}
	for (unsigned i = 0; i < REQUESTS; i++) {
		must(!rnl_job_init(&b.requests[i].request.job, NULL));
		if (i & 1)
			must(!rnl_job_set_cq(&b.requests[i].request.job, b.cq));
	}
	s.others = true;
	return true;
}

static void reserve(struct request *r, unsigned how)
{
	const uint32_t word = (how * 2654435761u & ~15u) | (uint32_t)(r - b.requests);
	int ret = rnl_batcher_reserve(b.batcher, &r->request, b.varies ? 4 + word % 13 : 16, 0);

	if (r->state != FREE) {
		must(ret == -EBUSY || ret == -ESHUTDOWN || ret == -EIO);
		return;
	}
	must(ret == 0 || ret == -EAGAIN || (ret == -ESHUTDOWN && s.closed) || is_fault(ret));
	b.nr_refused += ret == -EAGAIN;
	if (ret)
		return;
	r->state = RESERVED;
	r->word = word;
	r->nr_run = 0;
	memcpy(r->request.in, &word, sizeof(word));
}

static void commit(struct request *r)
{
	int ret = rnl_request_commit(&r->request);

	if (r->state == RESERVED)
		must(ret == 0 || (ret == -ESHUTDOWN && s.closed) || is_fault(ret));
	else
		must(ret == (r->state == FREE ? -EINVAL : -EBUSY));
	if (!ret)
		r->state = COMMITTED;
}

static void request_ended(struct request *r)
{
	const int result = r->request.job.result;

	must(r->state == COMMITTED && !rnl_job_wait(&r->request.job, 0));
	r->state = DONE;
	b.nr_done++;
	b.nr_failed += result < 0;
	/* A request of a failed device may have run twice. */
	if (is_fault(result) || s.lost)
		return;
	must(result == status_of(r->word) && r->nr_run == 1);
	/* The memory of outputs ends with the batcher. */
	must(!b.batcher || *(const uint32_t *)r->request.out == ~r->word);
}

static void look(void)
{
	struct rnl_job *jobs[REQUESTS];
	int nr = rnl_cq_reap(b.cq, jobs, REQUESTS, 0);

	must(nr >= 0);
	for (int i = 0; i < nr; i++)
		request_ended(rnl_container_of(jobs[i], struct request, request.job));
	for (unsigned i = 0; i < REQUESTS; i += 2)
		if (b.requests[i].state == COMMITTED && is_done(&b.requests[i].request.job))
			request_ended(&b.requests[i]);
}

static void release(struct request *r)
{
	if (r->state == COMMITTED)
		return;		/* it may have completed meanwhile */
	must(rnl_request_release(&r->request) == (r->state == FREE ? -EINVAL : 0));
	b.nr_cancelled += r->state == RESERVED;
	r->state = FREE;
}

/* Returns true if the request is not under way any more. */
static bool await(struct request *r, int64_t ns)
{
	int ret;

	/* A request with a queue would have to be reaped. */
	if (r->state != COMMITTED || (r - b.requests) & 1)
		return r->state != COMMITTED;
	ret = rnl_job_wait(&r->request.job, ns);
	must(ret == 0 || (ret == -ETIMEDOUT && ns < END_NS));
	if (!ret)
		request_ended(r);
	return !ret;
}

/* Requests that follow each other: a resident kernel begins, and answers some of them. */
static void request_often(struct request *r, unsigned how)
{
	for (unsigned left = how % 32; left && r->state != COMMITTED; left--) {
		release(r);
		reserve(r, how + left);
		commit(r);
		(void)await(r, how & 32 ? END_NS : how);
	}
}

/* Destroys the batcher while requests are under way. */
static void destroy_now(void)
{
	rnl_batcher_destroy(b.batcher);
	b.batcher = NULL;
	look();
	for (unsigned i = 0; i < REQUESTS; i++)
		must(b.requests[i].state != COMMITTED);
	rnl_cq_destroy(b.cq);
}

/* Calls that a batcher with a resident kernel needs more than others. */
static void resident_call(struct request *r, unsigned how)
{
	const int ret = r->state == COMMITTED ? rnl_job_cancel(&r->request.job) : -EBUSY;

	must(ret == -EBUSY || ret == -EALREADY);
	if (how & 0x8000 && how & 0x4000)
		destroy_now();
	else
		request_often(r, how);
}

void batch_call(unsigned which, unsigned how)
{
	struct request *r = &b.requests[which / 4 % REQUESTS];

	if (!batch_begin(how))
		return;
	if (which / 4 >= 4 * REQUESTS) {
		resident_call(r, how);
		return;
	}
	switch (which % 4) {
	case 0:
		reserve(r, how);
		break;
	case 1:
		commit(r);
		break;
	default:
		if (which % 4 == 3)
			look();
		else
			(void)await(r, how);
		release(r);
	}
}

void batch_end(void)
{
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;

	if (!b.batcher)
		return;
	look();
	for (unsigned i = 0; i < REQUESTS; i++)
		must(b.requests[i].state != COMMITTED);
	must(!rnl_batcher_read_stats(b.batcher, &stats));
	must(stats.requests == b.nr_done && stats.failed == b.nr_failed);
	must(stats.cancelled == b.nr_cancelled && stats.refused == b.nr_refused);
	must(stats.batches <= b.nr_done && stats.largest <= 4 && stats.resident <= b.nr_done);
	rnl_batcher_destroy(b.batcher);
	rnl_cq_destroy(b.cq);
	b.batcher = NULL;
}
