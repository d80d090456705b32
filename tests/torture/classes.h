/* SPDX-License-Identifier: MIT */
/*
 * Classes: a job draws one of its round's classes, or none, before its submit. Some classes end in
 * the middle of a round, with jobs queued, and others take their places.
 *
 * DESIGN
 *	Each class has a record until the round's end, which counts its jobs. The figures of the
 *	library must agree with it when all jobs are done. A thread pins the record while it names
 *	the class, so the class exists in that call. The class may end before the submit, which is
 *	refused then.
 *	A full class refuses a job because other jobs have its slots: they were drawn before, or
 *	during the submit, and had not ended before it.
 *	Counts are relaxed: they must not order jobs, because ThreadSanitizer checks their order.
 */
#ifndef TORTURE_CLASSES_H
#define TORTURE_CLASSES_H

#include "torture.h"

/* What a job's record has of its class. A submit that was accepted is over with it. */
struct classed {
	struct class *class;	/* NULL: none */
	bool queued;		/* in the class's queue, because it has no key */
	bool timed;		/* it has a deadline of its own */
	bool follows;		/* in a chain, but not its first job */
	uint64_t gone;		/* the class's jobs that had ended before it was drawn */
};

enum classing { ANY_CLASS, NO_DEADLINE, NO_CLASS };

/* Draws the class of a job's next submit, and sets it. */
void class_draw(struct round *r, struct classed *of, struct rnl_job *job, enum classing which,
		uint64_t *random);
/* Gives a job of a chain the class of the chain's first job, whatever its own is. */
void class_follow(struct classed *of, const struct classed *first);
/*
 * Handles a refused submit. Returns true if the class explains the error. @only: no other limit can
 * refuse the job.
 */
bool class_refused(const struct classed *of, int ret, bool only);
/* Called by the function of a job without a class: it runs on no worker of a class. */
void class_has_none(const struct round *r);
/* Called by the job's function, at its begin and its end. */
void class_runs(const struct classed *of);
void class_ran(const struct classed *of);
/* Handles the end of a job. */
void class_ended(const struct classed *of, bool ran, int result);

/* Returns a job's deadline, which may be its class's; negative: none. @own: the job's own. */
int64_t class_deadline(const struct classed *of, int64_t own);
/* Returns true if the class may expire a job before its deadline. */
bool class_is_hasty(const struct classed *of);
int class_number(const struct classed *of);	/* for messages; -1: none */

#endif /* TORTURE_CLASSES_H */
