/* SPDX-License-Identifier: MIT */
/*
 * Probes: places in a job's life that bpftrace, perf, gdb and SystemTap can watch (USDT).
 *
 * DESIGN
 *	A probe is one nop, and a note in the file that has its address and says where its arguments
 *	are.  A tracer puts a breakpoint there.  An argument is a field of the job or of its
 *	worker, which the tracer reads from memory, or a value that is in a register anyway: the
 *	library loads and computes nothing for it.  So an unused probe costs the nop.
 *	The arguments are the same for each probe, but the last:
 *
 *			job, function, class id, device, and	device
 *	submit		the pool				rnl_job_set_device()'s (*)
 *	refuse		the error				the same
 *	start, reach	the worker				the worker's
 *	issue, complete	the result				the worker's
 *	expire		1 if it would have ended too late	the worker's
 *
 *	(*) and 128 if the job has a completion queue; 0 if none was set.
 *	docs/probes.md is for users.  Without <sys/sdt.h> there are no probes.
 */
#ifndef RNL_PROBE_H
#define RNL_PROBE_H

#include <runnel.h>

#ifdef HAVE_SDT
#include <sys/sdt.h>
/* A note has "8@%rbx": 8 bytes, in this place.  "m": the tracer, and not the library, reads it. */
#define RNL__PROBE(name, its_job, device_bytes, its_device, last_bytes, its_last) do { \
	const struct rnl_job *const probed = (its_job); \
	__asm__ __inline__ __volatile__(STAP_PROBE_ASM(runnel, name, \
		8@%[job] 8@%[fn] 4@%[class] device_bytes@%[device] last_bytes@%[last]) : : \
		[job] "r" (probed), [fn] "m" (probed->fn), [class] "m" (probed->class_id), \
		[device] "m" (its_device), [last] its_last); \
} while (0)
#else
#define RNL__PROBE(name, its_job, device_bytes, its_device, last_bytes, its_last) ((void)(its_job))
#endif

#define RNL__PROBE_SUBMIT(job, pool) RNL__PROBE(submit, job, 1, (job)->device, 8, "r" (pool))
#define RNL__PROBE_REFUSE(job, error) RNL__PROBE(refuse, job, 1, (job)->device, -4, "r" (error))
#define RNL__PROBE_START(w, job) RNL__PROBE(start, job, 4, (w)->device_index, 4, "m" ((w)->index))
#define RNL__PROBE_ISSUE(w, job, ret) RNL__PROBE(issue, job, 4, (w)->device_index, -4, "r" (ret))
#define RNL__PROBE_REACH(w, job) RNL__PROBE(reach, job, 4, (w)->device_index, 4, "m" ((w)->index))
#define RNL__PROBE_COMPLETE(w, job) RNL__PROBE(complete, job, 4, (w)->device_index, -4, "m" ((job)->result))
#define RNL__PROBE_EXPIRE(w, job, late) RNL__PROBE(expire, job, 4, (w)->device_index, -4, "r" ((int)(late)))

#endif
