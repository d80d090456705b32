/* SPDX-License-Identifier: MIT */
/* Jobs that are finished from outside. */
#ifndef RUNNEL_HOLD_H
#define RUNNEL_HOLD_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * A hold keeps a job from being done until any thread releases it: a reply that comes from a
 * network, the end of an MPI request, of a read, of a person's work. It names the job and no memory
 * of the job, so it may be copied, and may lie in memory that outlives the job. All fields belong
 * to the library.
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
 * Takes a hold on the job whose function calls this; any number of times. The job is done when its
 * function has returned, the device has passed what it issued, and all its holds are released. No
 * worker waits for that. Until then barriers, drains, queues and callbacks wait for the job, as do
 * jobs that come after its barrier, and rnl_barrier_join(): to them it is not issued before. The next
 * jobs of its key do not wait.
 * A deadline of the job bounds its holds, too: some ms after it the pool ends those that are not
 * released, with -ETIMEDOUT as a result. A cancel does not: the thread that has the hold asks
 * rnl_job_is_cancelled(). With a guard, a function that is called a second time starts with no hold:
 * those of the first call have ended.
 * @job: the job whose function runs on this thread.
 * @hold: receives the hold; unchanged on failure. rnl_hold_release() is due for it, once.
 * Context: in the job's function. When its worker has no free hold, it allocates memory for 64 of
 *	them, and each time for twice as many, which goes with the pool. If a worker takes holds of jobs
 *	with a deadline faster than the pool can clear them away, the call may wait for up to 10 ms.
 * Return: 0; -EINVAL hold is NULL, or job is not the one whose function runs on this thread, which
 *	is logged; -ENOMEM, also with four million holds of one worker in use; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_job_hold(struct rnl_job *job, struct rnl_hold *hold);

/*
 * Releases a hold. With the last one the job may become done: do not touch it afterwards.
 * @hold: the hold, or a copy of it; not used after the call.
 * @result: a negative errno fails the job, unless it has failed already. 0, or a positive number,
 *	changes nothing: then the function's return value is the job's result.
 * Context: any thread, also while the function runs, or while rnl_pool_destroy() waits for the job. It
 *	takes no lock, and wakes the job's worker.
 * Ordering: what the caller wrote before is visible to each thread that learns that the job is
 *	done, and to jobs that come after its barrier.
 * Return: 0; -EALREADY the hold was released before; -ESTALE the hold was released before, and
 *	another one has its place in the library now, or the job's deadline has ended it, or a
 *	second call of the job's function. With both codes nothing happens, and the job may be
 *	gone; -EINVAL hold is NULL, or is no hold, which is logged; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_hold_release(const struct rnl_hold *hold, int result);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_HOLD_H */
