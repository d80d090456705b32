/* SPDX-License-Identifier: MIT */
/* The socket of a pool's figures: its readers, the names that it may take, and its end. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <runnel/stats.h>

#include "heard.h"
#include "pool.h"

static char path[64];

static void set_path(void)
{
	snprintf(path, sizeof(path), "/tmp/api_top.%d", (int)getpid());
	(void)unlink(path);
}

static void remove_path(void)
{
	(void)unlink(path);
}

/* Returns a socket that is bound to the path, or connected to it. */
static int socket_at(bool binds)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	strcpy(name.sun_path, path);
	ck_assert_int_eq((binds ? bind : connect)(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

/* Reads all that a reader of the socket gets. */
static void read_all(char *text, size_t bytes)
{
	const int fd = socket_at(false);
	size_t length = 0;
	ssize_t got;

	while ((got = read(fd, text + length, bytes - 1 - length)) > 0)
		length += (size_t)got;
	ck_assert_int_eq(got, 0);
	text[length] = '\0';
	close(fd);
}

static bool exists(void)
{
	struct stat st;

	return !lstat(path, &st);
}

#define SOCKETS .setup = set_path, .teardown = remove_path, .not_simulated = "sockets"

TEST(test_a_reader_gets_the_figures_and_an_end, SOCKETS)
{
	static char text[1 << 20];
	struct rnl_pool *pool = pool_of(2, .name = "shown", .top = path);
	struct rnl_job job;

	for (int i = 0; i < 3; i++) {
		submit_job(pool, &job, noop_fn, NULL);
		(void)result_of(&job);
		read_all(text, sizeof(text));
		ck_assert_ptr_nonnull(strstr(text, "rnl_workers{pool=\"shown\"} 2\n"));
		ck_assert_ptr_nonnull(strstr(text, "rnl_jobs_done_total{pool=\"shown\",worker=\"0\""));
		ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	}
	rnl_pool_destroy(pool);
}

/* Returns the least limit of a histogram's buckets that @part thousandths of the times do not exceed. */
static double limit_of(const char *text, const char *name, unsigned part)
{
	char bucket[100], count[100];
	double le = 0, nr = 0;
	unsigned long long all;
	const char *at;

	snprintf(count, sizeof(count), "\n%s_count{pool=\"shown\"} ", name);
	snprintf(bucket, sizeof(bucket), "\n%s_bucket{pool=\"shown\",le=\"", name);
	at = strstr(text, count);
	ck_assert_ptr_nonnull(at);
	all = strtoull(at + strlen(count), NULL, 10);
	for (at = text; nr * 1000 < (double)all * part; at++) {
		char *end;

		at = strstr(at, bucket);
		ck_assert_ptr_nonnull(at);
		at += strlen(bucket);
		le = strtod(at, &end);
		ck_assert_int_eq(strncmp(end, "\"} ", 3), 0);
		nr = strtod(end + 3, NULL);
	}
	return le;
}

TEST(test_a_reader_gets_quantiles_as_exact_as_those_of_the_statistics, SOCKETS)
{
	static char text[1 << 20];
	struct rnl_pool *pool = pool_of(2, .name = "shown", .top = path, .time_every = 1);
	struct rnl_latency l;
	struct rnl_job job;

	for (int i = 0; i < 100; i++) {
		submit_job(pool, &job, noop_fn, NULL);
		(void)result_of(&job);
	}
	must(rnl_pool_drain(pool, RNL_FOREVER));
	read_all(text, sizeof(text));
	l = figures_of(pool).queue_wait;
	ck_assert_uint_eq(l.nr, 100);
	/* The statistics have a bucket's last nanosecond, or the longest time. */
	ck_assert_double_ge(limit_of(text, "rnl_queue_wait_seconds", 500) * 1e9, (double)l.p50_ns);
	ck_assert_double_le(limit_of(text, "rnl_queue_wait_seconds", 500) * 1e9, (double)l.p50_ns * 17 / 16 + 1);
	ck_assert_double_ge(limit_of(text, "rnl_queue_wait_seconds", 990) * 1e9, (double)l.p99_ns);
	ck_assert_double_le(limit_of(text, "rnl_queue_wait_seconds", 990) * 1e9, (double)l.p99_ns * 17 / 16 + 1);
	rnl_pool_destroy(pool);
}

TEST(test_nobody_else_can_connect_whatever_the_umask, SOCKETS)
{
	const mode_t before = umask(0);
	struct rnl_pool *pool = pool_of(1, .top = path);
	struct stat st;

	umask(before);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert(S_ISSOCK(st.st_mode));
	rnl_pool_destroy(pool);
}

TEST(test_the_name_goes_with_the_pool, SOCKETS)
{
	for (int i = 0; i < 2; i++) {
		struct rnl_pool *pool = pool_of(1, .top = path);

		ck_assert(exists());
		rnl_pool_destroy(pool);
		ck_assert(!exists());
	}
}

/* Checks that a create fails, and that the log has the path and the cause. */
static void check_refused(const char *top, int expected, const char *cause)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;
	struct heard heard;

	attr.device = test_device();
	attr.nr_workers = 1;
	attr.top = top;
	hear(&heard, &attr);
	ck_assert_int_eq(rnl_pool_create(&pool, &attr), expected);
	ck_assert_ptr_null(pool);
	ck_assert(has_heard(&heard, "rnl_pool_create(): top is "));
	ck_assert(has_heard(&heard, top));
	ck_assert(has_heard(&heard, cause));
}

TEST(test_what_another_program_put_there_stays, SOCKETS)
{
	struct rnl_pool *pool = pool_of(1, .top = path);
	int fd;

	ck_assert_int_eq(unlink(path), 0);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	rnl_pool_destroy(pool);
	ck_assert(exists());
	check_refused(path, -EADDRINUSE, rnl_strerror(-EADDRINUSE));
	ck_assert(exists());
}

TEST(test_a_dead_programs_socket_is_replaced_and_a_living_ones_is_not, SOCKETS)
{
	static char text[1 << 20];
	struct rnl_pool *pool;

	close(socket_at(true));
	ck_assert(exists());
	pool = pool_of(1, .top = path);
	check_refused(path, -EADDRINUSE, rnl_strerror(-EADDRINUSE));
	read_all(text, sizeof(text));
	ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	rnl_pool_destroy(pool);
	ck_assert(!exists());
}

TEST(test_refuses_what_is_no_name_of_a_socket, SOCKETS)
{
	char longest[109];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	check_refused("", -EINVAL, "");
	check_refused(longest, -EINVAL, "at most 107 bytes");
	check_refused("/no/such/directory/top", -ENOENT, rnl_strerror(-ENOENT));
	check_refused("/dev/null/top", -ENOTDIR, rnl_strerror(-ENOTDIR));
	/* After all these refusals a pool works. */
	rnl_pool_destroy(pool_of(1, .top = path));
}

/* Some hang up immediately: the pool's write gets EPIPE, and no signal. */
TEST(test_readers_that_read_nothing_do_no_harm, SOCKETS)
{
	static char text[1 << 20];
	struct rnl_pool *pool = pool_of(2, .top = path);
	int idle[4];

	for (int i = 0; i < 50; i++)
		close(socket_at(false));
	for (int i = 0; i < 4; i++)
		idle[i] = socket_at(false);
	read_all(text, sizeof(text));
	ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	rnl_pool_destroy(pool);
	for (int i = 0; i < 4; i++)
		close(idle[i]);
}
