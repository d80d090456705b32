/* SPDX-License-Identifier: MIT */
/* The number of CPUs that a pool counts: affinity, on a machine of any size, and group quotas. */
#include "config.h"

#include <errno.h>
#include <sched.h>
#include <sys/stat.h>

#include "pool.h"
#include "sys/cpus.h"

/* A kernel with more CPUs than a cpu_set_t holds; 0: the real kernel. */
static unsigned kernel_cpus, given;	/* the least size of a set; the CPUs in the affinity */
static unsigned kept_on;

int __real_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set);
int __real_pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set);
int __wrap_pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set);

int __wrap_sched_getaffinity(pid_t pid, size_t bytes, cpu_set_t *set)
{
	if (!kernel_cpus)
		return __real_sched_getaffinity(pid, bytes, set);
	if (bytes * 8 < kernel_cpus) {
		errno = EINVAL;
		return -1;
	}
	CPU_ZERO_S(bytes, set);
	for (unsigned i = 0; i < given; i++)
		CPU_SET_S(kernel_cpus - 1 - i, bytes, set);
	return 0;
}

int __wrap_pthread_setaffinity_np(pthread_t thread, size_t bytes, const cpu_set_t *set)
{
	if (!kernel_cpus)
		return __real_pthread_setaffinity_np(thread, bytes, set);
	for (unsigned i = 0; i < kernel_cpus; i++) {
		if (CPU_ISSET_S(i, bytes, set))
			kept_on = i;
	}
	return 0;
}

/* ---- affinity --------------------------------------------------------------- */

TEST(the_affinity_counts_on_a_machine_of_many_cpus, .loops = 4)
{
	const unsigned sizes[] = { 512, 2048, 4096, 8192 };

	kernel_cpus = sizes[_i];
	given = 3;
	ck_assert_uint_eq(rnl__cpus_below("/nonexistent"), 3);
	given = 300;
	ck_assert_uint_eq(rnl__cpus_below("/nonexistent"), 300);
}

TEST(a_pool_has_as_many_workers_by_default)
{
	struct rnl_pool *pool;

	kernel_cpus = 2048;
	given = 3;
	pool = pool_of(0);
	ck_assert_uint_eq(figures_of(pool).nr_workers, 3);
	rnl_pool_destroy(pool);
}

TEST(a_worker_is_kept_on_a_cpu_of_any_number)
{
	static const uint16_t cpus[] = { 1500 };
	struct rnl_pool *pool;

	kernel_cpus = 2048;
	given = 2;
	pool = pool_of(1, .cpus = cpus, .nr_cpus = 1);
	ck_assert_uint_eq(kept_on, 1500);
	rnl_pool_destroy(pool);
}

TEST(a_cpu_that_the_machine_has_not_is_refused)
{
	static const uint16_t cpus[] = { UINT16_MAX };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;

	attr.device = "host";
	attr.cpus = cpus;
	attr.nr_cpus = 1;
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), -EINVAL);
}

/* ---- quotas ----------------------------------------------------------------- */

static char root[] = "/tmp/rnl-cpus-XXXXXX";

/* Writes a file below the root, and creates its folders. */
static void put(const char *name, const char *text)
{
	char path[1000];
	FILE *file;

	snprintf(path, sizeof(path), "%s%s", root, name);
	for (char *slash = path + strlen(root); (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
		*slash = '\0';
		ck_assert(!mkdir(path, 0700) || errno == EEXIST);
	}
	file = fopen(path, "w");
	ck_assert_ptr_nonnull(file);
	ck_assert_int_ge(fputs(text, file), 0);
	ck_assert_int_eq(fclose(file), 0);
}

static void make_root(void)
{
	ck_assert_ptr_nonnull(mkdtemp(root));
	kernel_cpus = 512;
	given = 64;
}

static void remove_root(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -r '%s'", root);
	ck_assert_int_eq(system(command), 0);
}

#define QUOTA_TEST(name) TEST(name, .setup = make_root, .teardown = remove_root)
#define MOUNT_2 "23 1 0:21 / /proc rw - proc proc rw\n" \
	"30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"

QUOTA_TEST(without_files_no_quota_holds)
{
	ck_assert_uint_eq(rnl__cpus_below(root), 64);
	put("/proc/self/cgroup", "0::/a/b\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 64);
	put("/proc/self/mountinfo", MOUNT_2);
	ck_assert_uint_eq(rnl__cpus_below(root), 64);
}

QUOTA_TEST(the_quota_of_a_group_and_of_those_around_it_holds)
{
	put("/proc/self/cgroup", "0::/a/b\n");
	put("/proc/self/mountinfo", MOUNT_2);
	put("/sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 64);
	put("/sys/fs/cgroup/a/b/cpu.max", "300000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 3);
	put("/sys/fs/cgroup/a/cpu.max", "100000 50000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 2);
	/* The quota of another process's group. */
	put("/sys/fs/cgroup/c/cpu.max", "100000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 2);
	/* A quota above the affinity. */
	put("/sys/fs/cgroup/a/cpu.max", "max 100000\n");
	put("/sys/fs/cgroup/a/b/cpu.max", "30000000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 64);
}

QUOTA_TEST(a_part_of_a_cpu_counts_as_one)
{
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", MOUNT_2);
	put("/sys/fs/cgroup/cpu.max", "1000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 1);
	put("/sys/fs/cgroup/cpu.max", "150000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 2);
}

QUOTA_TEST(files_that_say_nothing_are_no_quota)
{
	static const char *const texts[] = { "", "\n", "x", "-1", "100000", "100000 0", "-1 100000" };

	put("/proc/self/cgroup", "x\n0\n1:\n0::/\n");
	put("/proc/self/mountinfo", "x\n - \n - cgroup2\n" MOUNT_2);
	for (unsigned i = 0; i < COUNT(texts); i++) {
		put("/sys/fs/cgroup/cpu.max", texts[i]);
		ck_assert_uint_eq(rnl__cpus_below(root), 64);
	}
}

/* The mount's root is the container's group, which is also in the process's path. */
QUOTA_TEST(the_quota_of_a_container_holds_in_version_1)
{
	put("/proc/self/cgroup", "12:cpuset:/docker/abc\n4:cpu,cpuacct:/docker/abc\n0::/docker/abc\n");
	put("/proc/self/mountinfo",
	    "31 23 0:27 /docker/abc /sys/fs/cgroup/cpuset ro - cgroup cgroup rw,cpuset\n"
	    "32 23 0:28 /docker/abc /sys/fs/cgroup/cpu,cpuacct ro - cgroup cgroup rw,cpu,cpuacct\n");
	put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n");
	put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 64);
	put("/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "250000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 3);
	/* cpuset is another controller; its group's files do not count. */
	put("/sys/fs/cgroup/cpuset/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpuset/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 3);
	/* A group that the container made. */
	put("/proc/self/cgroup", "4:cpu,cpuacct:/docker/abc/inner\n");
	put("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_quota_us", "100000\n");
	put("/sys/fs/cgroup/cpu,cpuacct/inner/cpu.cfs_period_us", "100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 1);
}

/* A mount of many layers has a line longer than any buffer, with text like a mount's in it. */
QUOTA_TEST(a_long_line_is_one_line)
{
	char *text = malloc(20000);
	size_t at = (size_t)sprintf(text, "40 23 0:30 / /long rw - overlay overlay rw,lowerdir=");

	while (at < 19000)
		at += (size_t)sprintf(text + at, "1 1 0:0 / /wrong rw - cgroup2 cgroup2 rw ");
	sprintf(text + at, "\n" MOUNT_2);
	put("/proc/self/cgroup", "0::/\n");
	put("/proc/self/mountinfo", text);
	put("/wrong/cpu.max", "100000 100000\n");
	put("/sys/fs/cgroup/cpu.max", "500000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 5);
	free(text);
}

/* The group of a process that entered a namespace from outside. */
QUOTA_TEST(a_group_that_is_not_mounted_leaves_the_mount)
{
	put("/proc/self/cgroup", "0::/../other\n");
	put("/proc/self/mountinfo", MOUNT_2);
	put("/sys/fs/cgroup/cpu.max", "400000 100000\n");
	put("/sys/fs/other/cpu.max", "100000 100000\n");
	ck_assert_uint_eq(rnl__cpus_below(root), 4);
}
