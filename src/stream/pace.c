/* SPDX-License-Identifier: MIT */
/* Estimates of how long jobs take the device; pace.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include <runnel.h>

#include "stream/job_flags.h"
#include "stream/pace.h"

#define PARTS 1024u			/* of a ratio */
#define LONGEST_NS (UINT64_C(1) << 40)	/* a ratio's numerator fits into 64 bits */
#define FALLS 4u			/* each job lowers an estimate by 1/4 of the difference */

int rnl__pace_init(struct rnl__pace *p, unsigned limit, uint64_t enough_ns)
{
	uint32_t unknown = enough_ns < RNL__PACE_UNKNOWN_NS ? (uint32_t)enough_ns :
							      RNL__PACE_UNKNOWN_NS;

	p->jobs = calloc(limit, sizeof(*p->jobs));
	p->limit = limit;
	p->enough_ns = enough_ns;
	for (unsigned i = 0; i < RNL__PACE_ENTRIES; i++)
		p->known[i] = unknown;
	return p->jobs ? 0 : -ENOMEM;
}

void rnl__pace_fini(struct rnl__pace *p)
{
	free(p->jobs);
}

static uint32_t pace_entry(const struct rnl_job *job)
{
	/* Functions are aligned to 16 bytes, and lie close together. */
	uint64_t address = (uint64_t)(uintptr_t)job->fn >> 4;

	return (uint32_t)(address * UINT64_C(0x9e3779b97f4a7c15) >> 32) % RNL__PACE_ENTRIES;
}

uint32_t rnl__pace_guess(const struct rnl__pace *p, const struct rnl_job *job)
{
	return job->flags & RNL__JOB_INTERNAL ? 0 : p->known[pace_entry(job)];
}

static struct rnl__pace_job *job_at(struct rnl__pace *p, uint64_t seq)
{
	return &p->jobs[seq % p->limit];
}

void rnl__pace_add(struct rnl__pace *p, const struct rnl_job *job, uint64_t seq)
{
	struct rnl__pace_job *j = job_at(p, seq);

	j->ns = rnl__pace_guess(p, job);
	j->entry = pace_entry(job);
	p->ahead_ns += j->ns;
}

void rnl__pace_drop(struct rnl__pace *p, uint64_t seq)
{
	p->ahead_ns -= job_at(p, seq)->ns;
}

/* Returns the sum of the jobs' estimates; 0: one of the jobs does not count. */
static uint64_t expected(struct rnl__pace *p, uint64_t first, uint64_t last)
{
	uint64_t sum = 0;

	for (uint64_t seq = first; seq <= last; seq++) {
		if (!job_at(p, seq)->ns)
			return 0;
		sum += job_at(p, seq)->ns;
	}
	return sum;
}

void rnl__pace_took_at_most(struct rnl__pace *p, uint64_t first, uint64_t last, uint64_t ns)
{
	uint64_t sum = expected(p, first, last);

	if (ns >= sum)
		return;
	for (uint64_t seq = first; seq <= last; seq++) {
		const struct rnl__pace_job *j = job_at(p, seq);
		uint32_t *known = &p->known[j->entry];
		uint32_t part = (uint32_t)(j->ns * (ns * PARTS / sum) / PARTS);

		/* The estimate never gets to 0. */
		if (part < *known)
			*known -= (*known - part) / FALLS;
	}
}

void rnl__pace_took_at_least(struct rnl__pace *p, uint64_t first, uint64_t last, uint64_t ns)
{
	uint64_t sum = expected(p, first, last);

	if (!sum || ns <= sum)
		return;
	ns = ns < LONGEST_NS ? ns : LONGEST_NS;
	for (uint64_t seq = first; seq <= last; seq++) {
		struct rnl__pace_job *j = job_at(p, seq);
		uint32_t *known = &p->known[j->entry];
		uint64_t part = j->ns * (ns * PARTS / sum) / PARTS;

		part = part < UINT32_MAX ? part : UINT32_MAX;
		if (part > *known)
			*known = (uint32_t)part;
		/* Jobs that were issued as short now count as long. */
		if (part > j->ns) {
			p->ahead_ns += part - j->ns;
			j->ns = (uint32_t)part;
		}
	}
}
