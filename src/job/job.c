/* SPDX-License-Identifier: MIT */
/* Jobs: initialisation, settings, and waits for completion; job.h has the design. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <runnel/batch.h>
#include <runnel/replay.h>

#include "job/job.h"
#include "pool/classes.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/log.h"
#include "sys/thread_state.h"
#include "job/waits.h"

int rnl__job_check(const struct rnl_job *job)
{
	if (!job || !rnl__job_pool(job))
		return -EINVAL;
	/* relaxed: like rnl__job_pool() */
	return rnl__generation_check(atomic_load_explicit(
		rnl__atomic((uint32_t *)&job->generation), memory_order_relaxed));
}

int rnl__job_submitted(const struct rnl_job *job, const char *call)
{
	const int ret = rnl__job_check(job);

	if (ret != -EINVAL)
		return ret;
	return job ? rnl__invalid(NULL, "%s: job %p was never submitted", call, (const void *)job) :
		     rnl__invalid(NULL, "%s: the job is NULL", call);
}

int rnl__job_no_function(struct rnl_job *job)
{
	(void)job;
	return 0;
}

int rnl_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	if (!job)
		return rnl__invalid(NULL, "rnl_job_init(): the job is NULL");
	memset(job, 0, sizeof(*job));
	job->fn = fn ? fn : rnl__job_no_function;
	return 0;
}

int rnl__job_settable(const struct rnl_job *job, const char *call)
{
	int ret;

	if (!job)
		return rnl__invalid(NULL, "%s: the job is NULL", call);
	ret = !job->fn ? -EINVAL : rnl__job_pool(job) ? rnl__job_check(job) : 0;
	if (ret == -EINVAL)
		return rnl__invalid(NULL, "%s: the job was not initialised: rnl_job_init()", call);
	if (ret || rnl__latch_open(rnl__job_latch(job)))
		return ret;
	return rnl__refused(NULL, -EBUSY, "%s: job %p was submitted, and is not done: change it "
			    "when it is done", call, (const void *)job);
}

bool rnl__job_enqueued(struct rnl_job *job, uint8_t phase)
{
	/* relaxed: it only decides between this and a cancel; the caller orders the job's data */
	return atomic_compare_exchange_strong_explicit(rnl__job_phase(job), &phase, RNL__JOB_QUEUED,
						       memory_order_relaxed, memory_order_relaxed);
}

static bool in_phase(const struct rnl_job *job, uint8_t phase)
{
	/* relaxed: the caller orders the phase */
	return atomic_load_explicit(rnl__job_phase(job), memory_order_relaxed) == phase;
}

bool rnl__job_cancelled(const struct rnl_job *job)
{
	return in_phase(job, RNL__JOB_CANCELLED) || rnl__job_cancelled_with_all(job);
}

uint8_t rnl__job_cancel(struct rnl_job *job)
{
	uint8_t phase = rnl__peek(rnl__job_phase(job));

	/* [job.P2] acq_rel: either this or the start changes the word first; pairs with [job.P1] */
	while (phase <= RNL__JOB_STARTED && phase &&
	       !atomic_compare_exchange_weak_explicit(rnl__job_phase(job), &phase,
						      phase == RNL__JOB_STARTED ?
						      RNL__JOB_ASKED : RNL__JOB_CANCELLED,
						      memory_order_acq_rel,
						      memory_order_acquire))
		;
	return phase;
}

/* ---- public: settings ---------------------------------------------------- */

static int set_flag(struct rnl_job *job, const char *call, unsigned flag, bool on)
{
	int ret = rnl__job_settable(job, call);

	if (!ret)
		job->flags = on ? job->flags | flag : job->flags & ~flag;
	return ret;
}

int rnl_job_set_on_done(struct rnl_job *job, void (*fn)(struct rnl_job *job))
{
	int ret = rnl__job_settable(job, "rnl_job_set_on_done()");

	if (ret)
		return ret;
	if (rnl__job_cq_of(job))
		return fn ? rnl__invalid(NULL, "rnl_job_set_on_done(): job %p has a completion queue, and so no "
					 "callback", (void *)job) : 0;
	job->on_done = fn;
	return set_flag(job, "rnl_job_set_on_done()", RNL__JOB_CALLS, fn != NULL);
}

int rnl_job_set_deadline(struct rnl_job *job, int64_t timeout_ns)
{
	int ret = set_flag(job, "rnl_job_set_deadline()", RNL__JOB_DEADLINE, timeout_ns >= 0);

	if (ret)
		return ret;
	job->deadline_ns = (uint64_t)timeout_ns;
	job->flags &= ~RNL__JOB_CLASS_DEADLINE;
	return 0;
}

int rnl_job_set_class(struct rnl_job *job, struct rnl_class *cls)
{
	int ret = set_flag(job, "rnl_job_set_class()", RNL__JOB_CLASS, cls != NULL);

	if (ret)
		return ret;
	job->class_id = cls ? rnl__class_id(cls) : 0;
	return 0;
}

int rnl_job_set_key(struct rnl_job *job, uint64_t key)
{
	int ret = set_flag(job, "rnl_job_set_key()", RNL__JOB_KEY, key != RNL_KEY_NONE);

	if (!ret)
		job->key = key;
	return ret;
}

int64_t rnl_clock(void)
{
	return (int64_t)rnl__now();
}

int rnl_job_set_flags(struct rnl_job *job, unsigned flags)
{
	const unsigned all = RNL_GATHER | RNL_REPLAY | RNL_REPLAY_CAPTURE;
	int ret = rnl__job_settable(job, "rnl_job_set_flags()");

	if (ret)
		return ret;
	if (flags & ~all)
		return rnl__invalid(NULL, "rnl_job_set_flags(): flags are %#x, and %#x is none of "
				    "RNL_GATHER, RNL_REPLAY and RNL_REPLAY_CAPTURE", flags, flags & ~all);
	if (flags & RNL_REPLAY && flags & RNL_REPLAY_CAPTURE)
		return rnl__invalid(NULL, "rnl_job_set_flags(): RNL_REPLAY and RNL_REPLAY_CAPTURE "
				    "exclude each other: set one of them");
	job->flags &= ~(RNL__JOB_GATHERS | RNL__JOB_REPLAYS | RNL__JOB_CAPTURED);
	if (flags & RNL_GATHER)
		job->flags |= RNL__JOB_GATHERS;
	if (flags & RNL_REPLAY)
		job->flags |= RNL__JOB_REPLAYS;
	if (flags & RNL_REPLAY_CAPTURE)
		job->flags |= RNL__JOB_REPLAYS | RNL__JOB_CAPTURED;
	return 0;
}

int rnl_job_set_device(struct rnl_job *job, int device)
{
	int ret;

	if (device < -1 || device >= RNL_DEVICES_MAX)
		return rnl__invalid(NULL, "rnl_job_set_device(): device is %d; it must be -1 to %d",
				    device, RNL_DEVICES_MAX - 1);
	ret = set_flag(job, "rnl_job_set_device()", RNL__JOB_PLACED, device >= 0);
	if (!ret && device >= 0)
		rnl__job_set_device(job, (unsigned)device);
	return ret;
}

int rnl_job_set_then(struct rnl_job *job, struct rnl_job *next)
{
	int ret = rnl__job_settable(job, "rnl_job_set_then()");

	if (!ret && next)
		ret = rnl__job_settable(next, "rnl_job_set_then()");
	if (ret)
		return ret;
	if (next && next->flags & RNL__JOB_REQUEST)
		return rnl__invalid(NULL, "rnl_job_set_then(): job %p belongs to a batcher's request, "
				    "which cannot follow a job: commit it in the job's callback", (void *)next);
	if (next == job)
		return rnl__invalid(NULL, "rnl_job_set_then(): job %p would come after itself",
				    (void *)job);
	job->then = next;
	return set_flag(job, "rnl_job_set_then()", RNL__JOB_LEADS, next != NULL);
}

/* ---- public: waiting until a job is done --------------------------------- */

/* Refuses a wait without a timeout: it would never end unless another thread reaps. */
static int job_refuse_wait(const struct rnl_job *job)
{
	return rnl__refused(NULL, -EBUSY, "rnl_job_wait(): job %p goes to a completion queue, and is "
			    "done when it is reaped: reap it by rnl_cq_reap(), or, if another thread "
			    "reaps, wait with a timeout", (const void *)job);
}

/* If the job is a request that a resident kernel has, looks for its answer for a while. */
static void await_answer(struct rnl_job *job, uint64_t deadline)
{
	struct rnl__answers *answers;

	/* relaxed: the commit precedes this call; a call for the job's last run looks in vain */
	if (rnl__peek(rnl__atomic(&job->request)) != RNL__REQUEST_COMMITTED)
		return;
	answers = rnl__peek(rnl__atomic(&rnl_container_of(job, struct rnl_request, job)->answers));
	if (answers)
		answers->await(answers, job, deadline);
}

int rnl_job_wait(struct rnl_job *job, int64_t timeout_ns)
{
	int ret = rnl__job_submitted(job, "rnl_job_wait()");
	uint64_t deadline, begin;
	struct rnl_pool *pool;

	if (ret || rnl__latch_open(rnl__job_latch(job)))
		return ret;
	if (rnl__pool_worker(rnl__job_pool(job)))
		return timeout_ns ? rnl__pool_waits_for_itself(rnl__job_pool(job), "rnl_job_wait()") :
				    -EBUSY;
	deadline = rnl__deadline(timeout_ns);
	if (deadline == RNL__NEVER && job->device & RNL__JOB_TO_REAP)
		return job_refuse_wait(job);
	/* A job in its completion queue may outlive its pool. */
	if (in_phase(job, RNL__JOB_DONE))
		return rnl__latch_wait(rnl__job_latch(job), 0, deadline);
	pool = rnl__job_pool(job);
	begin = rnl__waits_begin(pool);
	await_answer(job, deadline);
	ret = rnl__latch_wait(rnl__job_latch(job), pool->spin_ns, deadline);
	rnl__waits_end(pool, begin, job);
	return ret;
}
