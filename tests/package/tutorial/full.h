/* SPDX-License-Identifier: MIT */
/* For the server on epoll: a pool that refuses each job's first submit, then causes a reap. A notice needs no room. */
#define _GNU_SOURCE			/* like the server */
#include <errno.h>
#include <sys/eventfd.h>
#include <runnel.h>

static struct rnl_cq *cq;
static struct rnl_job end;

static int submit_to_full(struct rnl_pool *pool, struct rnl_job *job)
{
	if (job->user || job == &end)
		return rnl_submit(pool, job);
	job->user = job;
	/* The loop reaps when the descriptor is readable. */
	return eventfd_write(rnl_cq_fd(cq), 1) ? -errno : -EAGAIN;
}
#define rnl_submit submit_to_full
