/* SPDX-License-Identifier: MIT */
/* Plain memory that jobs use, from their submits to all kinds of notifications of their ends. */
#include <poll.h>

#include <runnel/hold.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/thread.h>

#include "races.h"

/* ---- submit, wait ---------------------------------------------------------- */

void waits(void)
{
	struct request *r[JOBS];

	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, work);
		must(rnl_submit_wait(pool, &r[i]->job, RNL_FOREVER), "submit");
	}
	for (unsigned i = 0; i < JOBS; i++) {
		if (i % 2)
			must(rnl_job_wait(&r[i]->job, RNL_FOREVER), "wait");
		else
			while (rnl_job_wait(&r[i]->job, 0))
				;
		check(!r[i]->job.result, "waits");
		/* Again, with the same memory. */
		r[i]->in = i + 7;
		must(rnl_submit(pool, &r[i]->job), "submit again");
		must(rnl_job_wait(&r[i]->job, RNL_FOREVER), "wait again");
		request_end(r[i], "waits");
	}
}

void many(void)
{
	struct rnl_job *jobs[JOBS];
	struct request *r[JOBS];
	int nr;

	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, work);
		jobs[i] = &r[i]->job;
	}
	nr = rnl_submit_many(pool, jobs, JOBS);
	check(nr == JOBS, "rnl_submit_many");
	for (unsigned i = 0; i < JOBS; i++) {
		must(rnl_job_wait(jobs[i], RNL_FOREVER), "wait");
		request_end(r[i], "many");
	}
}

/* ---- completion queues ------------------------------------------------------ */

static void *reaper(void *arg)
{
	struct rnl_cq *cq = arg;
	struct rnl_job *jobs[BATCH];
	unsigned nr = 0;
	int ret;

	while (nr < JOBS) {
		struct pollfd fd = { rnl_cq_fd(cq), POLLIN, 0 };

		poll(&fd, 1, -1);
		ret = rnl_cq_reap(cq, jobs, BATCH, 0);
		must(ret, "rnl_cq_reap");
		for (int i = 0; i < ret; i++)
			request_end(rnl_container_of(jobs[i], struct request, job), "queue");
		nr += (unsigned)ret;
	}
	return NULL;
}

void queues(void)
{
	struct rnl_job *jobs[BATCH];
	struct rnl_cq *cq;
	pthread_t thread;
	unsigned nr = 0;

	must(rnl_cq_create(&cq), "rnl_cq_create");
	check(!pthread_create(&thread, NULL, reaper, cq), "pthread_create");
	for (unsigned i = 0; i < JOBS; i++) {
		struct request *r = request_new(i, work);

		rnl_job_set_cq(&r->job, cq);
		must(rnl_submit_wait(pool, &r->job, RNL_FOREVER), "submit");
	}
	pthread_join(thread, NULL);
	for (unsigned i = 0; i < JOBS; i++) {
		struct request *r = request_new(i, work);

		rnl_job_set_cq(&r->job, cq);
		must(rnl_submit_wait(pool, &r->job, RNL_FOREVER), "submit");
	}
	while (nr < JOBS) {
		int ret = rnl_cq_reap(cq, jobs, BATCH, RNL_FOREVER);

		must(ret, "rnl_cq_reap");
		for (int i = 0; i < ret; i++)
			request_end(rnl_container_of(jobs[i], struct request, job), "queue");
		nr += (unsigned)ret;
	}
	rnl_cq_destroy(cq);
}

/* ---- callbacks ---------------------------------------------------------------- */

static void end_in_callback(struct rnl_job *job)
{
	request_end(rnl_container_of(job, struct request, job), "callback");
}

static void tell_in_callback(struct rnl_job *job)
{
	struct request *r = rnl_container_of(job, struct request, job);

	r->notified = r->out;
}

/* Submits its job again, three times. */
static void again(struct rnl_job *job)
{
	struct request *r = rnl_container_of(job, struct request, job);

	if (r->notified++ < 3)
		must(rnl_submit(pool, job), "submit in a callback");
}

void callbacks(void)
{
	static struct request notified[JOBS];
	struct rnl_barrier barrier;

	rnl_barrier_init(&barrier, pool);
	for (unsigned i = 0; i < JOBS; i++) {
		struct request *r = request_new(i, work);

		rnl_job_set_on_done(&r->job, end_in_callback);
		must(rnl_submit_wait(pool, &r->job, RNL_FOREVER), "submit");
		memset(&notified[i], 0, sizeof(notified[i]));
		notified[i].in = i;
		must(rnl_job_init(&notified[i].job, work), "init");
		rnl_job_set_on_done(&notified[i].job, i % 2 ? tell_in_callback : again);
		rnl_barrier_add(&barrier, &notified[i].job);
		must(rnl_submit_wait(pool, &notified[i].job, RNL_FOREVER), "submit");
	}
	/* A barrier and a drain wait for callbacks, too. */
	must(rnl_barrier_wait(&barrier, RNL_FOREVER), "barrier");
	for (unsigned i = 0; i < JOBS; i++)
		check(notified[i].notified == (i % 2 ? i + 1 : 4), "told");
	must(rnl_pool_drain(pool, RNL_FOREVER), "drain");
}

/* ---- barriers, jobs after them ------------------------------------------------ */

struct node {
	struct rnl_job job;
	const unsigned *from;		/* NUMBERS of them, written by the jobs before */
	unsigned *to, first, nr;
};

static int add_up(struct rnl_job *job)
{
	struct node *n = rnl_container_of(job, struct node, job);

	for (unsigned i = n->first; i < n->first + n->nr; i++)
		n->to[i] = n->from[i] + n->from[NUMBERS - 1 - i];
	return 0;
}

/* Stages: each stage reads the numbers that all jobs of the stage before wrote. */
void barriers(void)
{
	static struct node nodes[ROUNDS][WORKERS];
	static unsigned numbers[ROUNDS + 1][NUMBERS];
	struct rnl_barrier turns[2];

	for (int i = 0; i < 2; i++)
		rnl_barrier_init(&turns[i], pool);
	for (unsigned i = 0; i < NUMBERS; i++)
		numbers[0][i] = 1;
	for (unsigned s = 0; s < ROUNDS; s++) {
		struct rnl_barrier *in = &turns[s % 2];
		struct rnl_barrier *after = &turns[1 - s % 2];

		for (unsigned i = 0; i < WORKERS; i++) {
			struct node *n = &nodes[s][i];

			n->from = numbers[s];
			n->to = numbers[s + 1];
			n->nr = NUMBERS / WORKERS;
			n->first = i * n->nr;
			must(rnl_job_init(&n->job, add_up), "init");
			must(rnl_barrier_add(in, &n->job), "add");
			if (s)
				must(rnl_job_set_after(&n->job, after), "after");
			must(rnl_submit_wait(pool, &n->job, RNL_FOREVER), "submit");
		}
	}
	for (int i = 0; i < 2; i++)
		must(rnl_barrier_wait(&turns[i], RNL_FOREVER), "wait");
	for (unsigned i = 0; i < NUMBERS; i++)
		check(numbers[ROUNDS][i] == 1u << ROUNDS, "stages");
}

/* @late: the jobs are most likely done before the notice is submitted. */
static void notified(int late)
{
	struct request *r[JOBS];
	struct rnl_barrier all;
	struct rnl_job notified, *reaped;
	struct rnl_cq *cq;

	must(rnl_cq_create(&cq), "rnl_cq_create");
	must(rnl_barrier_init(&all, pool), "init");
	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, work);
		rnl_barrier_add(&all, &r[i]->job);
		must(rnl_submit_wait(pool, &r[i]->job, RNL_FOREVER), "submit");
	}
	for (int i = 0; i < late; i++)
		nap();
	must(rnl_job_init(&notified, NULL), "init");
	rnl_job_set_cq(&notified, cq);
	must(rnl_barrier_notify(&all, &notified), "rnl_barrier_notify");
	check(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER) == 1 && reaped == &notified, "notified");
	for (unsigned i = 0; i < JOBS; i++)
		request_end(r[i], "notify");
	rnl_cq_destroy(cq);
}

void notifies(void)
{
	notified(0);
	notified(20);
}

/* Makes this thread's stream copy numbers that jobs wrote on the host. */
void joins(void)
{
	struct request *r[JOBS];
	struct rnl_barrier all;
	unsigned *out;
	void *buf;

	must(rnl_barrier_init(&all, pool), "init");
	must(rnl_memory_get(pool, RNL_PINNED, JOBS * sizeof(*out), &buf, 0), "pinned");
	out = buf;
	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, work);
		rnl_barrier_add(&all, &r[i]->job);
		must(rnl_submit_wait(pool, &r[i]->job, RNL_FOREVER), "submit");
	}
	must(rnl_barrier_join(&all), "join");
	for (unsigned i = 0; i < JOBS; i++)
		must(rnl_copy(&out[i], &r[i]->out, sizeof(*out)), "copy");
	must(rnl_stream_wait(RNL_FOREVER), "rnl_stream_wait");
	for (unsigned i = 0; i < JOBS; i++)
		check(out[i] == i + 1, "joins");
	must(rnl_barrier_wait(&all, RNL_FOREVER), "wait");
	for (unsigned i = 0; i < JOBS; i++)
		request_end(r[i], "joins");
	rnl_thread_attach(NULL);
	rnl_memory_put(pool, buf);
}

/* A job that comes after others orders their end even if it was cancelled. */
void cancelled_after(void)
{
	struct request *r[JOBS];
	struct rnl_barrier all;
	struct request *last = request_new(0, work);
	struct rnl_job *after = &last->job, blocker;

	must(rnl_barrier_init(&all, pool), "init");
	blocked = goes_on = 0;
	rnl_job_init(&blocker, block);
	rnl_barrier_add(&all, &blocker);
	must(rnl_submit(pool, &blocker), "submit");
	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, work);
		rnl_barrier_add(&all, &r[i]->job);
		must(rnl_submit_wait(pool, &r[i]->job, RNL_FOREVER), "submit");
	}
	rnl_job_set_after(after, &all);
	must(rnl_submit(pool, after), "submit");
	must(rnl_job_cancel(after), "cancel");
	goes_on = 1;
	must(rnl_job_wait(after, RNL_FOREVER), "wait");
	free(last);
	for (unsigned i = 0; i < JOBS; i++)
		request_end(r[i], "cancelled after");
}

/* ---- orders of jobs: keys, chains, orders -------------------------------------- */

static atomic_uint resizes;

static void *resizer(void *arg)
{
	for (unsigned i = 0; i < ROUNDS; i++) {
		nap();
		must(rnl_pool_resize(arg, i % 2 ? WORKERS : 2), "resize");
		/* relaxed: must not order anything */
		atomic_fetch_add_explicit(&resizes, 1, memory_order_relaxed);
	}
	return NULL;
}

/* Jobs of one key share a counter, also while the pool is resized and keys get other workers. */
void keyed(void)
{
	static unsigned counters[8];
	unsigned nr = 0;
	pthread_t thread;

	resizes = 0;
	memset(counters, 0, sizeof(counters));
	check(!pthread_create(&thread, NULL, resizer, pool), "pthread_create");
	/* relaxed: must not order anything */
	while (atomic_load_explicit(&resizes, memory_order_relaxed) < ROUNDS && nr < 10000) {
		for (unsigned key = 0; key < 8; key++) {
			struct request *r = request_new(key, work);

			r->shared = &counters[key];
			rnl_job_set_on_done(&r->job, end_in_callback);
			must((rnl_job_set_key(&r->job, key), rnl_submit_wait(pool, &r->job, RNL_FOREVER)),
			     "submit");
		}
		if (++nr % 64 == 0)
			nap();
	}
	must(rnl_pool_drain(pool, RNL_FOREVER), "drain");
	for (unsigned key = 0; key < 8; key++)
		check(counters[key] == nr, "keyed");
	pthread_join(thread, NULL);
}

void chains(void)
{
	struct request *r[4];
	unsigned counter = 0;

	for (unsigned n = 0; n < ROUNDS; n++) {
		for (unsigned i = 0; i < 4; i++) {
			r[i] = request_new(i, work);
			r[i]->shared = &counter;
			if (i)
				rnl_job_set_then(&r[i - 1]->job, &r[i]->job);
		}
		must(rnl_submit(pool, &r[0]->job), "submit");
		must(rnl_job_wait(&r[3]->job, RNL_FOREVER), "wait");
		check(counter == 4 * (n + 1), "chain");
		for (unsigned i = 0; i < 4; i++)
			request_end(r[i], "chain");
	}
}

void orders(void)
{
	static struct bucket {
		struct rnl_barrier ready;
		struct request parts[2], send;
	} buckets[ROUNDS * 2];
	struct rnl_order order;
	unsigned sent = 0;

	must(rnl_order_init(&order, pool, RNL_KEY_WORKER(1)), "order");
	for (unsigned i = 0; i < ROUNDS * 2; i++) {
		struct bucket *b = &buckets[i];

		memset(b, 0, sizeof(*b));
		rnl_barrier_init(&b->ready, pool);
		for (unsigned p = 0; p < 2; p++) {
			rnl_job_init(&b->parts[p].job, work);
			rnl_barrier_add(&b->ready, &b->parts[p].job);
			must(rnl_submit_wait(pool, &b->parts[p].job, RNL_FOREVER), "submit");
		}
		b->send.shared = &sent;
		rnl_job_init(&b->send.job, work);
		rnl_job_set_after(&b->send.job, &b->ready);
		b->send.more = (struct rnl_job_more)RNL_JOB_MORE_INIT;
		b->send.more.order = &order;
		must(rnl_job_set_more(&b->send.job, &b->send.more), "more");
		must(rnl_submit_wait(pool, &b->send.job, RNL_FOREVER), "submit");
	}
	must(rnl_job_wait(&buckets[ROUNDS * 2 - 1].send.job, RNL_FOREVER), "wait");
	check(sent == ROUNDS * 2, "order");
	must(rnl_pool_drain(pool, RNL_FOREVER), "drain");
	rnl_order_fini(&order);
}

/* ---- holds ---------------------------------------------------------------------- */

static pthread_mutex_t asked_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t asked_more = PTHREAD_COND_INITIALIZER;
static struct request *asked[JOBS];
static unsigned nr_asked;

static int ask(struct rnl_job *job)
{
	struct request *r = rnl_container_of(job, struct request, job);
	int ret = rnl_job_hold(job, &r->hold);

	if (ret)
		return ret;
	pthread_mutex_lock(&asked_lock);
	asked[nr_asked++] = r;
	pthread_cond_signal(&asked_more);
	pthread_mutex_unlock(&asked_lock);
	if (r->in % 8 == 0)
		nap();		/* most likely released before the function returns */
	return 0;
}

static void *answer(void *arg)
{
	for (unsigned i = 0; i < JOBS; i++) {
		struct request *r;
		struct rnl_hold hold;

		pthread_mutex_lock(&asked_lock);
		while (i == nr_asked)
			pthread_cond_wait(&asked_more, &asked_lock);
		r = asked[i];
		pthread_mutex_unlock(&asked_lock);
		hold = r->hold;
		r->out = r->in + 1;
		must(rnl_hold_release(&hold, 0), "release");
	}
	return arg;
}

void holds(void)
{
	struct request *r[JOBS];
	struct rnl_barrier barrier;
	pthread_t thread;

	nr_asked = 0;
	rnl_barrier_init(&barrier, pool);
	check(!pthread_create(&thread, NULL, answer, NULL), "pthread_create");
	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, ask);
		if (i % 2)
			rnl_barrier_add(&barrier, &r[i]->job);
		must(rnl_submit_wait(pool, &r[i]->job, RNL_FOREVER), "submit");
	}
	must(rnl_barrier_wait(&barrier, RNL_FOREVER), "barrier");
	for (unsigned i = 0; i < JOBS; i++) {
		if (i % 2 == 0)
			must(rnl_job_wait(&r[i]->job, RNL_FOREVER), "wait");
		request_end(r[i], "hold");
	}
	pthread_join(thread, NULL);
}

/* ---- times, deadlines, cancels, notices ------------------------------------------ */

void delayed(void)
{
	struct request *r[JOBS];

	for (unsigned i = 0; i < JOBS; i++) {
		r[i] = request_new(i, work);
		r[i]->more.start_ns = rnl_clock() + i * 50000;
		must(rnl_job_set_more(&r[i]->job, &r[i]->more), "more");
		must(rnl_submit(pool, &r[i]->job), "rnl_submit");
	}
	for (unsigned i = 0; i < JOBS; i++) {
		must(rnl_job_wait(&r[i]->job, RNL_FOREVER), "wait");
		request_end(r[i], "delayed");
	}
}

static unsigned nr_unrun;		/* written by the timer thread */

static void free_in_callback(struct rnl_job *job)
{
	struct request *r = rnl_container_of(job, struct request, job);

	check(job->result == -ECANCELED || job->result == -ETIMEDOUT, "unrun");
	check(r->in == r->notified && rnl_worker().index == -1, "unrun");
	nr_unrun++;
	free(r);
}

/* Jobs that never run, because all workers are busy; the timer thread or a reap ends them. */
void unrun(void)
{
	struct rnl_job blockers[WORKERS], *jobs[BATCH];
	struct request *r;
	struct rnl_cq *cq;
	int nr = 0, ret;

	blocked = goes_on = 0;
	must(rnl_cq_create(&cq), "rnl_cq_create");
	for (unsigned i = 0; i < WORKERS; i++) {
		rnl_job_init(&blockers[i], block);
		must((rnl_job_set_key(&blockers[i], RNL_KEY_WORKER(i)), rnl_submit(pool, &blockers[i])),
		     "submit");
	}
	while (blocked < WORKERS)
		nap();
	for (unsigned i = 0; i < JOBS; i++) {
		r = request_new(i, work);
		if (i % 2) {
			r->notified = i;
			rnl_job_set_on_done(&r->job, free_in_callback);
		} else {
			rnl_job_set_cq(&r->job, cq);
		}
		if (i % 4 > 1)
			rnl_job_set_deadline(&r->job, 1000000);
		must(rnl_submit_wait(pool, &r->job, RNL_FOREVER), "submit");
		/* The timer thread may have completed an expired job, which is freed then. */
		if (i % 4 <= 1)
			must(rnl_job_cancel(&r->job), "cancel");
	}
	while (nr < JOBS / 2) {
		ret = rnl_cq_reap(cq, jobs, BATCH, RNL_FOREVER);
		must(ret, "rnl_cq_reap");
		for (int i = 0; i < ret; i++) {
			r = rnl_container_of(jobs[i], struct request, job);
			check(jobs[i]->result < 0 && !r->out, "unrun");
			free(r);
		}
		nr += ret;
	}
	r = request_new(1, work);
	must(rnl_submit(pool, &r->job), "submit");
	must(rnl_pool_cancel(pool), "rnl_pool_cancel");
	must(rnl_job_wait(&r->job, RNL_FOREVER), "wait");
	check(r->job.result == -ECANCELED, "cancelled");
	free(r);
	goes_on = 1;
	must(rnl_pool_drain(pool, RNL_FOREVER), "drain");
	check(nr_unrun == JOBS / 2, "unrun");
	rnl_cq_destroy(cq);
}

void notice(void)
{
	struct request *r = request_new(1, work);

	r->more.when = RNL_SPACE;
	must(rnl_job_set_more(&r->job, &r->more), "more");
	must(rnl_submit(pool, &r->job), "a notice");
	must(rnl_job_wait(&r->job, RNL_FOREVER), "wait");
	request_end(r, "notice for space");
}
