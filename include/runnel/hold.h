/* SPDX-License-Identifier: MIT */
/* Jobs that are finished from outside. */
#ifndef RUNNEL_HOLD_H
#define RUNNEL_HOLD_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A hold keeps a job from being done until some thread releases the hold: when a reply arrives from
 * the network, when an MPI request or a read ends, when a person has finished. A hold does not
 * point to the job's memory, so it may be copied, and may outlive the job. All fields belong to the
 * library.
 *
 *		hold	release	(of one job)
 *	hold	X	-	X: in the job's function, which runs on one thread
 *	release	-	-	-: no outside synchronisation needed
 */
struct rnl_hold {
	uint64_t use;
	uint32_t slot;
	uint32_t generation;
	uint32_t pool, epoch;
};

/*
 * Takes a hold on the job whose function calls this. A job may have any number of holds. It is done
 * when its function has returned, the device has completed the issued work, and all holds are
 * released. No worker waits for holds. Barriers, drains, queues and callbacks wait for the job, as
 * do rnl_barrier_join() and jobs that come after the job's barrier: for both, the job counts as
 * issued only then. The next jobs with its key do not wait.
 * A deadline of the job also ends its holds: some ms after the deadline, the pool ends the holds
 * that are not released, with the result -ETIMEDOUT. A cancel does not end them: the thread that
 * has the hold asks rnl_job_is_cancelled(). With a guard, the second call of a function starts
 * without holds: those of the first call have ended.
 * @job: the job whose function runs on this thread.
 * @hold: receives the hold; unchanged on failure. It must be released once, by rnl_hold_release().
 * Context: in the job's function. If its worker has no free hold, the call allocates memory: first
 *	for 64 holds, later for twice as many each time; the pool's end frees it. If a worker takes
 *	holds of jobs with a deadline faster than the pool clears them, a call may wait up to 10 ms.
 * Return: 0; -EINVAL hold is NULL, or job is not the one whose function runs on this thread, which
 *	is logged; -ENOMEM, also if four million holds of one worker are in use; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_hold(struct rnl_job *job, struct rnl_hold *hold);

/*
 * Releases a hold. The last release may make the job done: do not touch the job afterwards.
 * @hold: the hold, or a copy of it; not used after the call.
 * @result: a negative errno fails the job, unless it has failed already. With 0 or a positive
 *	number, the function's return value remains the job's result.
 * Context: any thread, also while the function runs, or while rnl_pool_destroy() waits for the job.
 *	Takes no lock, and wakes the job's worker.
 * Ordering: the caller's earlier writes are visible to each thread that learns that the job is
 *	done, and to jobs that come after its barrier.
 * Return: 0; -EALREADY the hold was released before; -ESTALE the hold was released before and its
 *	place in the library is in use again, or it was ended by the job's deadline or by a second
 *	call of the job's function. With both codes nothing happens, and the job's memory may be
 *	gone; -EINVAL hold is NULL, or is no hold, which is logged; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_hold_release(const struct rnl_hold *hold, int result);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_HOLD_H */
