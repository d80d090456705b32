/* SPDX-License-Identifier: MIT */
/* A completion queue in the event loops that servers use: libevent's and libuv's. */
#include "cq.h"

#ifndef HAVE_LIBEVENT
#define HAVE_LIBEVENT 0
#endif
#ifndef HAVE_LIBUV
#define HAVE_LIBUV 0
#endif

#if HAVE_LIBEVENT || HAVE_LIBUV

enum { WINDOW = 32 };

/* Jobs that the loop submits again until @nr are submitted. */
struct served {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct rnl_job jobs[WINDOW];
	unsigned max;		/* jobs per reap, at most */
	unsigned nr, submitted, reaped;
	int error;
	bool late;
};

static void served_start(struct served *s, unsigned nr_workers, unsigned max)
{
	*s = (struct served){ .pool = pool_of(nr_workers), .cq = cq_of(), .max = max,
			      .nr = (unsigned)(20000 / test_scale()) };
	for (; s->submitted < WINDOW; s->submitted++) {
		cq_job(&s->jobs[s->submitted], noop_fn, NULL, s->cq);
		must(rnl_submit(s->pool, &s->jobs[s->submitted]));
	}
}

static void served_end(struct served *s)
{
	ck_assert_msg(!s->late, "%u of %u jobs came", s->reaped, s->nr);
	ck_assert_int_eq(s->error, 0);
	ck_assert_uint_eq(s->reaped, s->nr);
	ck_assert_uint_eq(figures_of(s->pool).accepted, s->nr);
	rnl_pool_destroy(s->pool);
	rnl_cq_destroy(s->cq);
}

/* Called when the descriptor is readable; with edges, until it returns 0: no more jobs. */
static int served_reap(struct served *s)
{
	struct rnl_job *list[WINDOW];
	int ret = rnl_cq_reap(s->cq, list, s->max, 0);

	if (ret < 0) {
		s->error = ret;
		return 0;
	}
	s->reaped += (unsigned)ret;
	for (int i = 0; i < ret && s->submitted < s->nr && !s->error; i++, s->submitted++)
		s->error = rnl_submit(s->pool, list[i]);
	return ret == (int)s->max;
}

static bool served_all(const struct served *s)
{
	return s->error || s->reaped >= s->nr;
}

#endif

/* ---- libevent ------------------------------------------------------------ */

#if HAVE_LIBEVENT
#include <event2/event.h>

struct evented {
	struct served served;
	struct event_base *base;
	bool edges;
};

static void on_event(evutil_socket_t fd, short what, void *arg)
{
	struct evented *e = arg;

	(void)fd;
	(void)what;
	while (served_reap(&e->served) && e->edges)
		;
	if (served_all(&e->served))
		event_base_loopbreak(e->base);
}

static void on_event_late(evutil_socket_t fd, short what, void *arg)
{
	struct evented *e = arg;

	(void)fd;
	(void)what;
	e->served.late = true;
	event_base_loopbreak(e->base);
}

static void serve_by_libevent(unsigned nr_workers, unsigned max, bool edges)
{
	struct timeval patience = { (time_t)PATIENCE_S, 0 };
	struct evented e = { .edges = edges };
	struct event *jobs, *late;

	served_start(&e.served, nr_workers, max);
	e.base = event_base_new();
	ck_assert_ptr_nonnull(e.base);
	if (edges)
		ck_assert(event_base_get_features(e.base) & EV_FEATURE_ET);
	jobs = event_new(e.base, rnl_cq_fd(e.served.cq),
			 (short)(EV_READ | EV_PERSIST | (edges ? EV_ET : 0)), on_event, &e);
	late = evtimer_new(e.base, on_event_late, &e);
	ck_assert_int_eq(event_add(jobs, NULL), 0);
	ck_assert_int_eq(event_add(late, &patience), 0);
	ck_assert_int_eq(event_base_dispatch(e.base), 0);
	event_free(jobs);
	event_free(late);
	event_base_free(e.base);
	served_end(&e.served);
}

TEST(a_libevent_loop_gets_every_job, .timeout_s = 120, .not_simulated = "libevent waits by itself")
{
	for (int edges = 0; edges < 2; edges++) {
		serve_by_libevent(1, WINDOW, edges);
		serve_by_libevent(2, WINDOW, edges);
		serve_by_libevent(2, 3, edges);
	}
}

#else

TEST(a_libevent_loop_gets_every_job, .timeout_s = 120, .not_simulated = "libevent waits by itself")
{
	test_skip("a_libevent_loop_gets_every_job: configure found no libevent");
}

#endif

/* ---- libuv --------------------------------------------------------------- */

#if HAVE_LIBUV
#include <uv.h>

struct uved {
	struct served served;
	uv_loop_t loop;
	uv_poll_t jobs;
	uv_timer_t late;
};

static void close_both(struct uved *u)
{
	uv_close((uv_handle_t *)&u->jobs, NULL);
	uv_close((uv_handle_t *)&u->late, NULL);
}

static void on_poll(uv_poll_t *handle, int status, int events)
{
	struct uved *u = handle->data;

	(void)events;
	if (status)
		u->served.error = status;
	else
		served_reap(&u->served);
	if (served_all(&u->served))
		close_both(u);
}

static void on_timer(uv_timer_t *handle)
{
	struct uved *u = handle->data;

	u->served.late = true;
	close_both(u);
}

static void serve_by_libuv(unsigned nr_workers, unsigned max)
{
	struct uved u;

	served_start(&u.served, nr_workers, max);
	ck_assert_int_eq(uv_loop_init(&u.loop), 0);
	ck_assert_int_eq(uv_poll_init(&u.loop, &u.jobs, rnl_cq_fd(u.served.cq)), 0);
	ck_assert_int_eq(uv_timer_init(&u.loop, &u.late), 0);
	u.jobs.data = u.late.data = &u;
	ck_assert_int_eq(uv_poll_start(&u.jobs, UV_READABLE, on_poll), 0);
	ck_assert_int_eq(uv_timer_start(&u.late, on_timer, (uint64_t)(PATIENCE_S * 1e3), 0),
			 0);
	ck_assert_int_eq(uv_run(&u.loop, UV_RUN_DEFAULT), 0);
	ck_assert_int_eq(uv_loop_close(&u.loop), 0);
	served_end(&u.served);
}

TEST(a_libuv_loop_gets_every_job, .timeout_s = 120, .not_simulated = "libuv waits by itself")
{
	serve_by_libuv(1, WINDOW);
	serve_by_libuv(2, WINDOW);
	serve_by_libuv(2, 3);
}

#else

TEST(a_libuv_loop_gets_every_job, .timeout_s = 120, .not_simulated = "libuv waits by itself")
{
	test_skip("a_libuv_loop_gets_every_job: configure found no libuv");
}

#endif
