/* SPDX-License-Identifier: MIT */
/*
 * The threads of a round: their names, activities, and halts.
 *
 * DESIGN
 *	A halt is a signal with a handler that sleeps. So a thread stops between any two
 *	instructions, even if there are only two CPUs. Workers do not block SIGPROF. A worker is
 *	listed from its on_start to its on_stop, and the list's lock keeps its thread alive while a
 *	signal is sent.
 */
#include "torture.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

static struct {
	pthread_t thread;
	_Atomic bool over;
	uint64_t random;
	struct round *round;	/* NULL: no halts */
} halts;

static void *sit(void *arg)
{
	struct seat *seat = arg;

	seat->fn(seat);
	at(seat, NULL);
	return NULL;
}

void seat_take(struct round *r, const char *name, enum role role, void (*fn)(struct seat *seat),
	       void *arg)
{
	struct seat *seat = &r->seats[r->nr_seats];

	if (r->nr_seats == SEATS_MAX)
		give_up(r, "there are too few seats");
	*seat = (struct seat){ .name = name, .fn = fn, .round = r, .arg = arg, .role = role,
			       .random = draws_of(r->random, r->nr_seats), .doing = "beginning" };
	if (pthread_create(&seat->thread, NULL, sit, seat))
		give_up(r, "a thread could not be started");
	r->nr_seats++;
}

void seats_join(struct round *r, enum role role)
{
	for (unsigned i = 0; i < r->nr_seats; i++) {
		if (r->seats[i].role == role)
			pthread_join(r->seats[i].thread, NULL);
	}
}

unsigned seats_nr(const struct round *r, enum role role)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < r->nr_seats; i++)
		nr += r->seats[i].role == role;
	return nr;
}

void seats_print(const struct round *r)
{
	for (unsigned i = 0; i < r->nr_seats; i++) {
		const char *doing = r->seats[i].doing;

		fprintf(stderr, "torture: %s %u: %s\n", r->seats[i].name, i,
			doing ? doing : "has gone");
	}
}

/* ---- halts ----------------------------------------------------------------- */

static void halt(int signo)
{
	static _Atomic unsigned nr;
	struct timespec ts = { .tv_nsec = 1000l << nr++ % 12 };	/* 1 us to 2 ms */
	int saved = errno;

	(void)signo;
	nanosleep(&ts, NULL);
	errno = saved;
}

void worker_comes(struct round *r, unsigned worker)
{
	pthread_mutex_lock(&r->workers.lock);
	r->workers.threads[worker] = pthread_self();
	r->workers.serve |= UINT64_C(1) << worker;
	pthread_mutex_unlock(&r->workers.lock);
}

void worker_goes(struct round *r, unsigned worker)
{
	pthread_mutex_lock(&r->workers.lock);
	r->workers.serve &= ~(UINT64_C(1) << worker);
	pthread_mutex_unlock(&r->workers.lock);
}

static void halt_worker(struct round *r, unsigned worker)
{
	pthread_mutex_lock(&r->workers.lock);
	if (r->workers.serve >> worker & 1)
		(void)pthread_kill(r->workers.threads[worker], SIGPROF);
	pthread_mutex_unlock(&r->workers.lock);
}

static void *halt_all(void *arg)
{
	struct round *r = halts.round;

	(void)arg;
	while (!halts.over) {
		struct seat *seat = &r->seats[draw(&halts.random, r->nr_seats)];

		if (draw(&halts.random, 2))
			(void)pthread_kill(seat->thread, SIGUSR1);
		else
			halt_worker(r, draw(&halts.random, OWN_MAX + WORKERS_MAX));
		nap_us(draw(&halts.random, 400));
	}
	return NULL;
}

void halts_begin(struct round *r)
{
	struct sigaction action = { .sa_handler = halt, .sa_flags = SA_RESTART };

	sigemptyset(&action.sa_mask);
	(void)sigaction(SIGUSR1, &action, NULL);
	(void)sigaction(SIGPROF, &action, NULL);
	halts.over = false;
	halts.round = r;
	halts.random = draws_of(r->random, 2000);
	if (pthread_create(&halts.thread, NULL, halt_all, NULL))
		give_up(r, "a thread could not be started");
}

void halts_end(void)
{
	if (!halts.round)
		return;
	halts.over = true;
	pthread_join(halts.thread, NULL);
	halts.round = NULL;
}
