/* SPDX-License-Identifier: MIT */
/* Jobs that run right after another one; chain.h has the design. */
#include "config.h"

#include "job/barrier.h"
#include "job/job.h"
#include "pool/classes.h"
#include "pool/outside.h"
#include "worker/chain.h"

bool rnl__chain_leads(struct rnl__worker *w, struct rnl_job *job)
{
	if (job->flags & RNL__JOB_HELD || job->result < 0 ||
	    (rnl__job_follows(job) && !rnl__barrier_over(job)) ||
	    rnl__staging_owes(&w->staging, job->seq))
		return false;
	job->flags |= RNL__JOB_LED;
	return true;
}

void rnl__chain_push(struct rnl__worker *w, struct rnl_job *job, unsigned class, bool cancelled)
{
	if (class)
		rnl__classes_follow(w->pool, job, class);
	if (cancelled)
		(void)rnl__job_cancel(job);
	job->link = NULL;
	if (w->next)
		w->next_last->link = job;
	else
		w->next = job;
	w->next_last = job;
}

struct rnl_job *rnl__chain_take(struct rnl__worker *w)
{
	struct rnl_job *job = w->next;

	if (!job)
		return NULL;
	w->next = job->link;
	rnl__outside_leave(w->pool, RNL__CHAINED);
	return job;
}
