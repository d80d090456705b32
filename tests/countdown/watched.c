/* SPDX-License-Identifier: MIT */
/* Jobs that use every feature of a job, and checks of their ends. */
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#include "countdown.h"
#include "host_kernel.h"

/* Of the CUDA runtime or its double; NULL without CUDA. */
int cudaGetLastError(void);
#pragma weak cudaGetLastError

#define FILLED 7

static struct watched all[NR_WATCHED];
static unsigned nr_all;
static bool twice;

/* ---- their functions ----------------------------------------------------------- */

struct word_args {
	int *word;
	int value;
};

static void set_word_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct word_args *a = args;

	(void)grid;
	(void)block;
	*a->word = a->value;
}
RNL_HOST_KERNEL(set_word, set_word_host, struct word_args);

int launch_word(int *word, int value)
{
	const struct word_args args = { word, value };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&set_word, one, one, &args);
}

static int watched_fn(struct rnl_job *job)
{
	struct watched *t = rnl_container_of(job, struct watched, job);
	void *mem = NULL;
	int ret;

	t->ran++;
	ret = rnl_scratch(WATCHED_BYTES, &mem);
	if (!ret)
		ret = rnl_copy(mem, t->from, WATCHED_BYTES);
	if (!ret)
		ret = rnl_fill(mem, FILLED, WATCHED_BYTES / 2);
	if (!ret)
		ret = launch_word(&t->word, 31);
	if (!ret)
		ret = rnl_copy_2d(t->to, WATCHED_BYTES / 4, mem, WATCHED_BYTES / 4, WATCHED_BYTES / 4, 4);
	/* A failed call is the job's error.  It must not remain CUDA's last error. */
	if (test_fake() && !fault_lasts())
		t->left |= cudaGetLastError();
	return ret;
}

static void watched_done(struct rnl_job *job)
{
	rnl_container_of(job, struct watched, job)->ended++;
}

void watched_twice(void)
{
	twice = true;
}

/* ---- creation -------------------------------------------------------------------- */

static void prepare(struct watched *t, enum watched_end end, int (*fn)(struct rnl_job *job))
{
	*t = (struct watched){ .end = end, .twice = twice };
	memset(t->from, 3, sizeof(t->from));
	expect(!rnl_job_init(&t->job, fn));
	if (end == BY_CALLBACK)
		expect(!rnl_job_set_on_done(&t->job, watched_done));
}

struct watched *watched_with(enum watched_end end, int (*fn)(struct rnl_job *job))
{
	expect(nr_all < NR_WATCHED);
	prepare(&all[nr_all], end, fn);
	return &all[nr_all++];
}

struct watched *watched_next(enum watched_end end)
{
	return watched_with(end, watched_fn);
}

int watched_submitted(struct watched *w, int ret)
{
	w->accepted = !ret;
	return ret;
}

void expect_accepted(int ret)
{
	expect_msg(!ret || (ret == -EIO && fault_lasts()), "a submit was refused: %d, %s", ret,
		   rnl_strerror(ret));
}

void watched_reaped(struct rnl_job *job)
{
	watched_done(job);
}

void watched_all_reaped(void)
{
	for (unsigned i = 0; i < nr_all; i++)
		all[i].ended += all[i].end == BY_QUEUE && all[i].accepted;
}

/* ---- the results -------------------------------------------------------------------- */

static bool is_all(const char *mem, size_t bytes, char value)
{
	size_t i = 0;

	while (i < bytes && mem[i] == value)
		i++;
	return i == bytes;
}

static void verify(const struct watched *t)
{
	int result;

	if (!t->accepted) {
		expect_msg(!t->ran && !t->ended, "a job that was refused ran %u times, ended %u",
			   t->ran, t->ended);
		return;
	}
	expect_msg(t->end == BY_WAIT || t->ended == 1, "a job ended %u times", t->ended);
	expect_msg(!rnl_job_wait((struct rnl_job *)&t->job, 0), "an accepted job is not done");
	result = t->job.result;
	expect_msg(!result || (fault() && result == fault()) || (t->late && result == -ECANCELED),
		   "a job has %d, %s", result, rnl_strerror(result));
	/* A job may be accepted before the device's failure is known. */
	if (t->ran || result != -EIO || !fault_lasts())
		expect_msg(!t->ran == (result == -ECANCELED) && t->ran <= 1u + t->twice,
			   "a job with %s ran %u times", rnl_strerror(result), t->ran);
	expect_msg(!t->left, "CUDA's last error was left: %d", t->left);
	if (result || t->job.fn != watched_fn)
		return;
	expect(t->word == 31);
	expect(is_all(t->to, WATCHED_BYTES / 2, FILLED));
	expect(is_all(t->to + WATCHED_BYTES / 2, WATCHED_BYTES / 2, 3));
}

void watched_verify(void)
{
	for (unsigned i = 0; i < nr_all; i++)
		verify(&all[i]);
}

void expect_works(struct rnl_pool *pool)
{
	static struct watched t;
	int ret;

	prepare(&t, BY_CALLBACK, watched_fn);
	ret = watched_submitted(&t, rnl_submit(pool, &t.job));
	expect_msg(!ret, "a submit afterwards: %s", rnl_strerror(ret));
	expect(!rnl_job_wait(&t.job, RNL_FOREVER) && !rnl_pool_drain(pool, RNL_FOREVER));
	ret = t.job.result;
	expect_msg(!ret, "a job afterwards: %s", rnl_strerror(ret));
	verify(&t);
}

void expect_fails(struct rnl_pool *pool)
{
	static struct watched t;
	int ret;

	/* The first call may detect the failure. */
	for (unsigned i = 0; i < 2; i++) {
		prepare(&t, BY_CALLBACK, watched_fn);
		ret = watched_submitted(&t, rnl_submit(pool, &t.job));
		expect_msg(ret == -EIO || (!ret && !i), "a submit to a failed device: %d, %s", ret,
			   rnl_strerror(ret));
		if (ret)
			return;
		expect(!rnl_job_wait(&t.job, RNL_FOREVER) && !rnl_pool_drain(pool, RNL_FOREVER));
		expect_msg(t.job.result == -EIO, "a job on a failed device has %d, %s",
			   t.job.result, rnl_strerror(t.job.result));
	}
}
