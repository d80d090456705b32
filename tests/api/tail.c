/* SPDX-License-Identifier: MIT */
/*
 * The tail of a server's answers: under the flood of one tenant, another tenant's requests wait for a
 * bounded time, because each tenant has a class.
 *
 * DESIGN
 *	The model of examples/http_server: a thread reads requests, submits a job for each, and reaps
 *	it from a completion queue; then it submits a second job, and answers when that is done.  A
 *	class lets in LIMIT requests at a time, and refuses others at once.  The jobs of a class start
 *	by the deadline of their request.
 *	The first job has a kernel, the second one works on the CPU; both sleep.  The flood sends
 *	twice what two workers can do.  A steady request's job comes next when a worker starts one:
 *	that worker has two jobs of the flood under way, and its thread is in a third.
 *	On the simulated machine time is virtual, and the bound is checked.  A real machine may have
 *	other work, so there only the counts are checked.
 */
#include "classed.h"
#include "cq.h"
#include "host_kernel.h"

enum { FLOOD, STEADY, TENANTS };
enum { WORKERS = 2, SLOTS = 48, STEADY_CLIENTS = 4, NR_STEADY = 200, NR_FLOOD = 5000 };

static const struct tenant_work {
	unsigned nr, clients;		/* requests; a client waits for its answer */
	int64_t every_ns, kernel_ns, finish_ns;
	unsigned limit;			/* of the class */
} works[TENANTS] = {
	[FLOOD] = { NR_FLOOD, NR_FLOOD, MS, 4 * MS, MS, SLOTS - STEADY_CLIENTS },
	[STEADY] = { NR_STEADY, STEADY_CLIENTS, 5 * MS, MS, MS / 5, STEADY_CLIENTS },
};

struct tenant {
	const struct tenant_work *work;
	struct rnl_class *cls;		/* NULL: no classes */
	unsigned sent, inside, refused, answered;
	int64_t sent_at;		/* of the last request */
};

struct tail_request {
	struct rnl_job job;
	struct tenant *tenant;
	int64_t came, took;
	unsigned steps, answers;
};

struct model {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct tenant tenants[TENANTS];
};

static struct tail_request requests[NR_STEADY + NR_FLOOD];

static void sleep_ns(int64_t ns)
{
	const struct timespec ts = { .tv_nsec = (long)ns };

	nanosleep(&ts, NULL);
}

struct sleep_args {
	int64_t ns;
};

static void sleep_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	sleep_ns(((const struct sleep_args *)args)->ns);
}
RNL_HOST_KERNEL(sleep_kernel, sleep_host, struct sleep_args);

static int tail_issue(struct rnl_job *job)
{
	const struct tail_request *r = rnl_container_of(job, struct tail_request, job);
	const struct sleep_args args = { r->tenant->work->kernel_ns };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&sleep_kernel, one, one, &args);
}

static int tail_finish(struct rnl_job *job)
{
	sleep_ns(rnl_container_of(job, struct tail_request, job)->tenant->work->finish_ns);
	return 0;
}

static void submit_step(struct model *m, struct tail_request *r)
{
	const int64_t deadline_ns = 60000 * MS - (rnl_clock() - r->came);

	cq_job(&r->job, r->steps++ ? tail_finish : tail_issue, NULL, m->cq);
	must(rnl_job_set_class(&r->job, r->tenant->cls));
	must(rnl_job_set_deadline(&r->job, deadline_ns));
	must(rnl_submit(m->pool, &r->job));
}

/* Returns true if a request is let in: without classes all have the same slots. */
static bool is_let_in(const struct model *m, const struct tenant *t)
{
	return t->cls ? t->inside < t->work->limit :
			m->tenants[FLOOD].inside + m->tenants[STEADY].inside < SLOTS;
}

static void send_request(struct model *m, struct tenant *t)
{
	struct tail_request *r = &requests[t == &m->tenants[STEADY] ? t->sent : NR_STEADY + t->sent];

	*r = (struct tail_request){ .tenant = t, .came = rnl_clock() };
	t->sent++;
	t->sent_at = r->came;
	if (is_let_in(m, t)) {
		t->inside++;
		submit_step(m, r);
		return;
	}
	t->refused++;
	r->answers++;
}

static void reaped(struct model *m, struct rnl_job *job)
{
	struct tail_request *r = rnl_container_of(job, struct tail_request, job);

	ck_assert_int_eq(job->result, 0);
	if (r->steps == 1) {
		submit_step(m, r);
		return;
	}
	r->took = rnl_clock() - r->came;
	r->answers++;
	r->tenant->inside--;
	r->tenant->answered++;
}

/* Sends what is due.  Returns the time until the next request, unless an answer comes before. */
static int64_t send_due(struct model *m)
{
	int64_t next = patience_ns();

	if (m->tenants[STEADY].sent == NR_STEADY)	/* the flood ends with the last one */
		return next;
	for (int i = 0; i < TENANTS; i++) {
		struct tenant *t = &m->tenants[i];
		int64_t left = t->sent_at + t->work->every_ns - rnl_clock();

		if (t->inside >= t->work->clients || t->sent == t->work->nr)
			continue;
		if (left <= 0) {
			send_request(m, t);
			left = t->work->every_ns;
		}
		next = left < next ? left : next;
	}
	return next;
}

static void serve(struct model *m)
{
	struct rnl_job *jobs[16];

	while (m->tenants[STEADY].sent < NR_STEADY || m->tenants[STEADY].inside ||
	       m->tenants[FLOOD].inside) {
		const int nr = rnl_cq_reap(m->cq, jobs, 16, send_due(m));

		ck_assert_int_ge(nr, 0);
		for (int i = 0; i < nr; i++)
			reaped(m, jobs[i]);
	}
}

static struct rnl_class *tail_class(struct rnl_pool *pool, unsigned limit)
{
	return class_of(pool, .order = RNL_CLASS_DEADLINE, .flags = RNL_CLASS_LATE, .max_queued = limit);
}

static int by_time(const void *a, const void *b)
{
	const int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return x < y ? -1 : x > y;
}

/* Returns the time that 99 of 100 steady requests took at most; a refused one took a day. */
static int64_t steady_p99(void)
{
	static int64_t took[NR_STEADY];

	for (int i = 0; i < NR_STEADY; i++)
		took[i] = requests[i].took ? requests[i].took : 86400000 * MS;
	qsort(took, NR_STEADY, sizeof(took[0]), by_time);
	return took[NR_STEADY * 99 / 100 - 1];
}

/* Both jobs of a request wait for two jobs of a worker, and for the one that its thread is in. */
static int64_t tail_bound(void)
{
	const struct tenant_work *flood = &works[FLOOD], *own = &works[STEADY];

	return 2 * (2 * flood->kernel_ns + flood->finish_ns) + own->kernel_ns + own->finish_ns + MS;
}

TEST(under_a_flood_the_tail_of_another_class_is_bounded_and_each_request_has_one_answer, .loops = 2,
     .timeout_s = 60)
{
	const bool classes = _i == 0;
	/* in_flight_ns: a worker has at most two jobs on the device. */
	struct model m = { .pool = pool_of(WORKERS, .in_flight_ns = 1), .cq = cq_of() };
	struct tenant *flood = &m.tenants[FLOOD], *steady = &m.tenants[STEADY];

	if (!on_host() && !test_fake())
		test_skip("its kernels are host functions");
	for (int i = 0; i < TENANTS; i++) {
		m.tenants[i].work = &works[i];
		m.tenants[i].cls = classes ? tail_class(m.pool, works[i].limit) : NULL;
	}
	serve(&m);
	for (unsigned i = 0; i < NR_STEADY; i++)
		ck_assert_uint_eq(requests[i].answers, 1);
	for (unsigned i = 0; i < flood->sent; i++)
		ck_assert_uint_eq(requests[NR_STEADY + i].answers, 1);
	ck_assert_uint_eq(steady->answered + steady->refused, NR_STEADY);
	ck_assert_uint_eq(flood->answered + flood->refused, flood->sent);
	printf("steady p99 %.1f ms, bound %.1f ms, %u refused; flood %u of %u refused\n",
	       (double)steady_p99() / MS, (double)tail_bound() / MS, steady->refused, flood->refused,
	       flood->sent);
	if (classes) {
		ck_assert_uint_eq(steady->refused, 0);
		ck_assert_uint_gt(flood->refused, 0);
	}
	if (sim_begin)
		ck_assert_int_eq(steady_p99() <= tail_bound(), classes);
	rnl_pool_destroy(m.pool);
	rnl_cq_destroy(m.cq);
}
