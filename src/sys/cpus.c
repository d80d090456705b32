/* SPDX-License-Identifier: MIT */
/*
 * The CPUs of the process.
 *
 * DESIGN
 *	A machine may have more CPUs than a cpu_set_t (1,024).  The kernel refuses a set that is too
 *	short; then a longer set is tried.
 *	A control group's quota limits CPU time, not CPUs.  Too many threads use the quota up early,
 *	and all of them stop for the rest of the period.  So a quota counts as a number of CPUs.
 */
#include "config.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include "sys/cgroup.h"
#include "sys/cpus.h"
#include "sys/sizes.h"

#define CPUS_FIRST 1024u
#define CPUS_MOST (1u << 20)	/* far beyond what Linux can be built for */

/* Returns the number of CPUs in the thread's affinity, and the set's size; 0: unknown. */
static unsigned cpus_allowed(unsigned *most)
{
	*most = 0;
	for (unsigned nr = CPUS_FIRST; nr <= CPUS_MOST; nr *= 2) {
		const size_t bytes = CPU_ALLOC_SIZE(nr);
		cpu_set_t *set = CPU_ALLOC(nr);
		unsigned allowed = 0;
		bool longer = false;

		if (!set)
			return 0;
		if (!sched_getaffinity(0, bytes, set)) {
			allowed = (unsigned)CPU_COUNT_S(bytes, set);
			*most = nr;
		} else {
			longer = errno == EINVAL;
		}
		CPU_FREE(set);
		if (!longer)
			return allowed;
	}
	return 0;
}

static void cpus_look_at_quota(void *arg, const char *folder, bool unified)
{
	uint64_t *least = arg, numbers[2];	/* quota and period, in microseconds */
	unsigned nr;

	if (unified) {
		nr = rnl__cgroup_read(folder, "cpu.max", numbers, 2);
	} else {
		nr = rnl__cgroup_read(folder, "cpu.cfs_quota_us", &numbers[0], 1);
		nr += rnl__cgroup_read(folder, "cpu.cfs_period_us", &numbers[1], 1);
	}
	if (nr == 2 && numbers[0] != RNL__NO_LIMIT && numbers[1])
		*least = rnl__smaller(*least, numbers[0] / numbers[1] + !!(numbers[0] % numbers[1]));
}

unsigned rnl__cpus_below(const char *root)
{
	unsigned most;
	uint64_t nr = cpus_allowed(&most);
	long online;

	if (!nr) {
		online = sysconf(_SC_NPROCESSORS_ONLN);
		nr = online > 0 ? (uint64_t)online : 1;
	}
	rnl__cgroup_each(root, "cpu", cpus_look_at_quota, &nr);
	return nr ? (unsigned)nr : 1;
}

unsigned rnl__cpus(void)
{
	return rnl__cpus_below("");
}

unsigned rnl__cpus_most(void)
{
	unsigned most;

	return cpus_allowed(&most) ? most : UINT_MAX;
}

int rnl__cpus_keep_on(unsigned cpu)
{
	const unsigned nr = cpu < CPUS_FIRST ? CPUS_FIRST : cpu + 1;
	cpu_set_t *set = CPU_ALLOC(nr);
	int ret;

	if (!set)
		return -ENOMEM;
	CPU_ZERO_S(CPU_ALLOC_SIZE(nr), set);
	CPU_SET_S(cpu, CPU_ALLOC_SIZE(nr), set);
	ret = -pthread_setaffinity_np(pthread_self(), CPU_ALLOC_SIZE(nr), set);
	CPU_FREE(set);
	return ret;
}
