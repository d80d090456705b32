/* SPDX-License-Identifier: MIT */
/*
 * The background worker has the pool, submits the requests of all backends, and wakes each backend when
 * its job is done.
 *
 * DESIGN
 * It sleeps on its latch, which backends set, and on the descriptor of the completion queue, so it never
 * waits in runnel, except at its end. Jobs are static, and their texts are in the shared memory: an
 * ERROR in this process, which becomes its end, may come while jobs are under way. Jobs and callbacks
 * run on other threads: they must not call PostgreSQL, not even palloc() and elog(). runnel's messages
 * go to the standard error output, which is the server's log.
 * The process always exits with 1: the postmaster starts it again after a second, unless the server is
 * being shut down. After 0 it would not. So a failed device costs the requests that were on it, and
 * SIGTERM restarts the pool. The next process answers what this one has left, with an error.
 */
#include "slots.h"

#include <errno.h>

#include "miscadmin.h"
#include "postmaster/bgworker.h"
#include "postmaster/interrupt.h"
#include "storage/ipc.h"
#include "utils/wait_event.h"

#include <runnel/device.h>

#include "adler/adler.h"

static struct rnl_pool *pool;
static struct rnl_cq *cq;
static struct adler jobs[NR_SLOTS];
static bool failed;			/* the device */

/* Of a slot that is RUNNING or ABANDONED. */
static void answer(int i, int result)
{
	struct slot *slot = &shared->slots[i];
	Latch *backend = slot->backend;

	slot->result = result;
	slot->sum = result ? 0 : adler_value(&jobs[i]);
	if (turn(slot, RUNNING, DONE))
		SetLatch(backend);
	else
		turn(slot, ABANDONED, FREE);
}

/* Returns false if the device has failed: the next process takes the other requests. */
static bool submit_requests(void)
{
	for (int i = 0; i < NR_SLOTS && !failed; i++) {
		struct slot *slot = &shared->slots[i];
		int ret = 0;

		if (turn(slot, FULL, RUNNING)) {
			adler_init(&jobs[i], shared->texts[i], slot->bytes);
			rnl_job_set_cq(&jobs[i].job, cq);
			ret = rnl_submit(pool, &jobs[i].job);
		} else if (pg_atomic_read_u32(&slot->state) == ABANDONED) {
			rnl_job_cancel(&jobs[i].job);
		}
		failed = ret == -EIO;
		if (ret && !(failed && turn(slot, RUNNING, FULL)))
			answer(i, ret);
	}
	return !failed;
}

static void reap(void)
{
	struct rnl_job *done[NR_SLOTS];
	const int nr = rnl_cq_reap(cq, done, NR_SLOTS, 0);

	for (int k = 0; k < nr; k++) {
		failed |= done[k]->result == -EIO;
		answer(rnl_container_of(done[k], struct adler, job) - jobs, done[k]->result);
	}
}

PGDLLEXPORT void runnel_worker(Datum arg)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int ret;

	pqsignal(SIGTERM, SignalHandlerForShutdownRequest);
	BackgroundWorkerUnblockSignals();
	shared->worker = MyLatch;
	rnl_setup();
	attr.device = runnel_device;
	ret = rnl_pool_create(&pool, &attr);
	ret = ret ? ret : rnl_cq_create(&cq);
	for (int i = 0; i < NR_SLOTS; i++) {
		const uint32 state = pg_atomic_read_u32(&shared->slots[i].state);

		if (state == RUNNING || state == ABANDONED)
			answer(i, -EIO);		/* of the process before */
		else if (ret && turn(&shared->slots[i], FULL, RUNNING))
			answer(i, ret);
	}
	if (ret)
		proc_exit(1);
	while (!ShutdownRequestPending && submit_requests()) {
		WaitLatchOrSocket(MyLatch, WL_LATCH_SET | WL_SOCKET_READABLE | WL_EXIT_ON_PM_DEATH,
				  rnl_cq_fd(cq), -1, PG_WAIT_EXTENSION);
		ResetLatch(MyLatch);
		reap();
	}
	rnl_pool_stop(pool, 1000000000);
	reap();
	proc_exit(1);
}
