/* SPDX-License-Identifier: MIT */
/* The socket of a pool's figures: who reads it, whose name it takes, and how it ends. */
#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

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

/* A socket that has the name; or one that is connected to it. */
static int socket_at(bool binds)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	strcpy(name.sun_path, path);
	ck_assert_int_eq((binds ? bind : connect)(fd, (struct sockaddr *)&name, sizeof(name)), 0);
	return fd;
}

/* What a reader gets, up to the end. */
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

TEST(test_a_reader_gets_the_figures_and_an_end, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	static char text[1 << 20];
	struct rnl_pool *pool = pool_of(2, .name = "shown");
	struct rnl_job job;

	must(rnl_top_start(pool, path));
	for (int i = 0; i < 3; i++) {
		submit_job(pool, &job, noop_fn, NULL);
		(void)result_of(&job);
		read_all(text, sizeof(text));
		ck_assert_ptr_nonnull(strstr(text, "rnl_workers{pool=\"shown\"} 2\n"));
		ck_assert_ptr_nonnull(strstr(text, "rnl_jobs_done_total{pool=\"shown\",worker=\"0\""));
		ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	}
	must(rnl_top_stop(pool));
	rnl_pool_destroy(pool);
}

TEST(test_nobody_else_can_connect_whatever_the_umask, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	struct rnl_pool *pool = pool_of(1);
	struct stat st;
	mode_t before;

	before = umask(0);
	must(rnl_top_start(pool, path));
	umask(before);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0600);
	ck_assert(S_ISSOCK(st.st_mode));
	rnl_pool_destroy(pool);
}

TEST(test_the_name_goes_with_the_stop_and_with_the_pool, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	struct rnl_pool *pool = pool_of(1);

	for (int i = 0; i < 2; i++) {
		must(rnl_top_start(pool, path));
		ck_assert(exists());
		must(rnl_top_stop(pool));
		ck_assert(!exists());
		ck_assert_int_eq(rnl_top_stop(pool), -EALREADY);
	}
	must(rnl_top_start(pool, path));
	rnl_pool_destroy(pool);
	ck_assert(!exists());
}

TEST(test_what_another_program_put_there_stays, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	struct rnl_pool *pool = pool_of(1);
	int fd;

	must(rnl_top_start(pool, path));
	ck_assert_int_eq(unlink(path), 0);
	fd = open(path, O_CREAT | O_WRONLY | O_CLOEXEC, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	must(rnl_top_stop(pool));
	ck_assert(exists());
	ck_assert_int_eq(rnl_top_start(pool, path), -EADDRINUSE);
	ck_assert(exists());
	rnl_pool_destroy(pool);
}

TEST(test_a_dead_programs_socket_is_replaced_and_a_living_ones_is_not, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);
	static char text[1 << 20];

	close(socket_at(true));
	ck_assert(exists());
	must(rnl_top_start(pool, path));
	ck_assert_int_eq(rnl_top_start(pool, path), -EALREADY);
	ck_assert_int_eq(rnl_top_start(other, path), -EADDRINUSE);
	read_all(text, sizeof(text));
	ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	rnl_pool_destroy(other);
	ck_assert(exists());
	rnl_pool_destroy(pool);
}

TEST(test_refuses_what_is_no_name_of_a_socket, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	struct rnl_pool *pool = pool_of(1);
	char longest[109];

	memset(longest, 'x', sizeof(longest) - 1);
	longest[sizeof(longest) - 1] = '\0';
	ck_assert_int_eq(rnl_top_start(NULL, path), -EINVAL);
	ck_assert_int_eq(rnl_top_stop(NULL), -EINVAL);
	ck_assert_int_eq(rnl_top_start(pool, NULL), -EINVAL);
	ck_assert_int_eq(rnl_top_start(pool, ""), -EINVAL);
	ck_assert_int_eq(rnl_top_start(pool, longest), -EINVAL);
	ck_assert_int_eq(rnl_top_start(pool, "/no/such/directory/top"), -ENOENT);
	ck_assert_int_eq(rnl_top_start(pool, "/dev/null/top"), -ENOTDIR);
	ck_assert_int_eq(rnl_top_stop(pool), -EALREADY);
	/* After all that it works. */
	must(rnl_top_start(pool, path));
	rnl_pool_destroy(pool);
}

/* They read nothing, and hang up at once: a write gets EPIPE, and no signal. */
TEST(test_readers_that_read_nothing_do_no_harm, .setup = set_path, .teardown = remove_path,
     .not_simulated = "sockets")
{
	static char text[1 << 20];
	struct rnl_pool *pool = pool_of(2);
	int idle[4];

	must(rnl_top_start(pool, path));
	for (int i = 0; i < 50; i++)
		close(socket_at(false));
	for (int i = 0; i < 4; i++)
		idle[i] = socket_at(false);
	read_all(text, sizeof(text));
	ck_assert_str_eq(text + strlen(text) - 6, "# EOF\n");
	must(rnl_top_stop(pool));
	for (int i = 0; i < 4; i++)
		close(idle[i]);
	rnl_pool_destroy(pool);
}
