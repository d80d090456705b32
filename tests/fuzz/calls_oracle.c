/* SPDX-License-Identifier: MIT */
/*
 * The oracle: a job's allowed actions and results.
 *
 * DESIGN
 * The oracle knows the calls on each job and on the jobs before it. So it knows which results a job
 * must have, or at least which ones it may have. It only queries the library about jobs that must
 * be done by a guarantee of the library.
 */
#include "config.h"

#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>

#include "tests/fuzz/calls.h"

/* ---- kernels ----------------------------------------------------------------------- */

struct words_args {
	uint32_t *words;
};

static void change_words(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct words_args *a = args;

	(void)grid;
	(void)block;
	for (unsigned i = 0; i < WORDS; i++)
		a->words[i] = a->words[i] * 3 + 1;
}
DOUBLE_KERNEL(words_kernel, change_words, change_words, struct words_args);

bool words_are_there(const struct work *w)
{
	if (!atomic_load(&w->nr_run) || (w->act != ACT_COPY && w->act != ACT_KERNEL))
		return true;
	for (unsigned i = 0; i < WORDS; i++)
		if (w->to[i] != (w->act == ACT_KERNEL ? w->from[i] * 3 + 1 : w->from[i]))
			return false;
	return true;
}

struct wait_args {
	const struct work *work;
};

/* Checks on a job's stream that the jobs that it waits for have done their work. */
static void check_order(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct work *w = ((const struct wait_args *)args)->work;

	(void)grid;
	(void)block;
	for (unsigned i = 0; i < JOBS; i++)
		must(!w->waits[i] || s.faulty || s.lost || words_are_there(&s.works[i]));
}
DOUBLE_KERNEL(order_kernel, check_order, check_order, struct wait_args);

bool is_fault(int error)
{
	return (s.faulty && error == -ENOMEM) || (s.lost && error == -EIO);
}

/* ---- a job's function ------------------------------------------------------------- */

static int move_words(struct work *w)
{
	const size_t bytes = WORDS * sizeof(*w->from);
	const struct rnl_dim one = { 1, 1, 1 };
	const struct wait_args wait = { w };
	struct words_args words;
	void *mem = NULL;
	int ret = rnl_launch(&order_kernel, one, one, &wait);

	if (!ret)
		ret = rnl_scratch(bytes, &mem);
	if (!ret)
		ret = rnl_copy(mem, w->from, bytes);
	words.words = mem;
	if (!ret && w->act == ACT_KERNEL)
		ret = rnl_launch(&words_kernel, one, one, &words);
	return ret ? ret : rnl_copy(w->to, mem, bytes);
}

/* Checks that the job before it in its chain was issued on this worker, and has not failed. */
static void check_before(const struct work *w)
{
	const struct work *b = w->before;

	must(atomic_load(&b->nr_run) == 1 && b->act != ACT_FAIL && b->worker == w->worker);
	must(b->act != ACT_HOLD || atomic_load(&b->released_with) >= 0);
}

static void check_all_done(const struct work *w)
{
	must(s.closed);
	for (unsigned i = 0; i < JOBS; i++) {
		const struct work *o = &s.works[i];

		if (o->number && o->number < w->number && o->way != AT_EMPTY)
			must(rnl_job_cancel((struct rnl_job *)&o->job) == -EALREADY);
	}
}

int work_fn(struct rnl_job *job)
{
	struct work *w = rnl_container_of(job, struct work, job);

	must(atomic_fetch_add(&w->nr_run, 1) == 0 && w->way != TELLS_BARRIER);
	w->worker = rnl_worker().index;
	must(w->worker >= 0 && (w->place < 0 || rnl_worker().device == w->place));
	if (w->before)
		check_before(w);
	else
		must(class_may_run_on(w, w->worker));
	if (w->last)
		must(atomic_exchange(w->last, w->number) < w->number);
	if (w->way == DELAYED || w->way == KEYED_DELAYED)
		must(w->before || rnl_clock() >= w->start_ns);
	if (w->way == AT_EMPTY)
		check_all_done(w);
	if (w->map)
		map_check_output(w->after);
	/* An error of a call is the job's, even if the function does not return it. */
	if (w->act == ACT_COPY || w->act == ACT_KERNEL)
		w->error = move_words(w);
	must(!w->error || is_fault(w->error));
	if (w->act == ACT_HOLD) {
		must(!rnl_job_hold(job, &w->hold));
		atomic_store(&w->held, true);
	}
	return w->act == ACT_FAIL ? -ENXIO : w->act == ACT_POSITIVE ? 7 : 0;
}

/* Submits a job again.  If the pool accepts the job, it may be done already. */
static bool comes_again(struct work *w)
{
	int ret;

	if (w->job.result < 0 || !atomic_load(&w->again))
		return false;
	atomic_fetch_sub(&w->again, 1);
	atomic_fetch_add(&s.nr_accepted, 1);
	class_comes_again(w, 1);
	must(atomic_exchange(&w->nr_run, 0) == 1);
	ret = rnl_submit(s.pool, &w->job);
	if (!ret)
		return true;
	must(ret == -EAGAIN || (ret == -ESHUTDOWN && s.closed) ||
	     (ret == -ETIME && class_may_refuse(w)) || (ret == -EINVAL && class_ends(w)) ||
	     is_fault(ret));
	atomic_fetch_sub(&s.nr_accepted, 1);
	class_comes_again(w, -1);
	atomic_store(&w->nr_run, 1);
	return false;
}

void work_notified(struct rnl_job *job)
{
	struct work *w = rnl_container_of(job, struct work, job);

	must(!rnl_job_wait(job, 0) && atomic_load(&w->nr_notified) == 0);
	if (!comes_again(w))
		must(atomic_fetch_add(&w->nr_notified, 1) == 0);
}

/* ---- a job's result -------------------------------------------------------------- */

bool work_is_done(const struct work *w)
{
	return rnl_job_cancel((struct rnl_job *)&w->job) == -EALREADY;
}

/* Checks that the jobs that it waits for are done.  Returns true if one of them failed. */
static bool check_waits(const struct work *w)
{
	bool failed = false;

	for (unsigned i = 0; i < JOBS; i++) {
		const struct work *o = &s.works[i];

		if (!w->waits[i])
			continue;
		must(work_is_done(o));
		failed |= !o->owned && o->job.result < 0;
	}
	if (w->map)
		must(rnl_barrier_wait(barrier(w->after), 0) == 0);
	return failed;
}

/* Returns true if the library may have cancelled the job without a call. */
static bool was_in_vain(const struct work *w)
{
	if (w->after >= 0 && barrier(w->after)->result < 0)
		return true;
	return w->before && (w->before->owned || w->before->job.result < 0);
}

static void check_notice_of_barrier(const struct work *w, int result, bool failed)
{
	must(!atomic_load(&w->nr_run) && (!failed || result < 0));
	must(!result || result == barrier(w->after)->result || is_fault(result));
}

/* Checks the result of a job whose function was called. */
static void check_run(const struct work *w, int result)
{
	const int released_with = atomic_load(&w->released_with);

	must(!w->cancelled);
	if (w->error) {
		must(result == w->error || is_fault(result));
		return;
	}
	if (result == -ETIMEDOUT && w->late && w->act == ACT_HOLD)
		return;
	if (is_fault(result))
		return;
	if (w->act == ACT_FAIL)
		must(result == -ENXIO);
	else if (w->act == ACT_POSITIVE)
		must(result == 7);
	else if (w->act == ACT_HOLD)
		must(released_with != NOT_RELEASED && result == released_with);
	else
		must(result == 0);
	must(words_are_there(w));
}

static void check_not_run(const struct work *w, int result)
{
	if (result == -ECANCELED)
		must(w->cancelled || w->may_cancel || was_in_vain(w));
	else if (result == -ETIMEDOUT)
		must(w->late && !w->cancelled);
	else
		must(is_fault(result));
}

static void count(const struct work *w, int result)
{
	const bool called = atomic_load(&w->nr_run);

	class_done(w, called, result);
	s.nr_failed += result < 0;
	s.nr_timed_out += result == -ETIMEDOUT && !called && w->way != TELLS_BARRIER;
	if (result == -ECANCELED && !called) {
		if (w->way < FOR_SPACE)
			s.nr_cancelled++;
		else
			s.nr_notices_cancelled++;
	}
	if (w->in >= 0 && result < 0) {
		s.notified_failed[w->in] = true;
		s.notified_first[w->in] |= result == barrier(w->in)->result;
	}
}

void work_ended(struct work *w)
{
	const int result = w->job.result;
	bool failed;

	must(w->owned && !rnl_job_wait(&w->job, 0) && work_is_done(w));
	must(atomic_load(&w->nr_notified) == (w->notified == BY_CALLBACK));
	w->owned = false;
	failed = check_waits(w);
	if (w->way == TELLS_BARRIER)
		check_notice_of_barrier(w, result, failed);
	else if (atomic_load(&w->nr_run))
		check_run(w, result);
	else
		check_not_run(w, result);
	count(w, result);
}

void barriers_check(void)
{
	for (int i = 0; i < BARRIERS - MAPS; i++) {
		must((barrier(i)->result != 0) == s.notified_failed[i]);
		must(s.notified_first[i] == s.notified_failed[i]);
	}
}
