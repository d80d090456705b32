/* SPDX-License-Identifier: MIT */
/* rnl_setup() and pools while the control daemon of MPS listens. */
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <runnel/device.h>

#include "gate.h"
#include "heard.h"
#include "sanitizers.h"
#include "skip.h"

#define CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"
#define DIRECTORY "CUDA_MPS_PIPE_DIRECTORY"

/* Tests change the environment, which CUDA and the library read once. */
SUITE_FORKS

static char directory[] = "/tmp/rnl-mps-XXXXXX";
static struct sockaddr_un control = { .sun_family = AF_UNIX };
static struct heard heard;

static void make_directory(void)
{
	ck_assert_ptr_nonnull(mkdtemp(directory));
	snprintf(control.sun_path, sizeof(control.sun_path), "%s/control", directory);
	setenv(DIRECTORY, directory, 1);
	unsetenv(CONNECTIONS);
	heard = (struct heard){ .lock = PTHREAD_MUTEX_INITIALIZER };
	rnl_set_log(hear_line, &heard);
}

static void remove_directory(void)
{
	(void)unlink(control.sun_path);
	(void)rmdir(directory);
	rnl_set_log(NULL, NULL);
}

#define MPS_TEST(name) TEST(name, .setup = make_directory, .teardown = remove_directory)

/* Listens like the control daemon.  Returns the socket. */
static int listen_there(int type)
{
	const int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	ck_assert_int_ge(fd, 0);
	ck_assert(!bind(fd, (const struct sockaddr *)&control, sizeof(control)));
	ck_assert(type == SOCK_DGRAM || !listen(fd, 1));
	return fd;
}

static void sets_connections(void)
{
	const int ret = rnl_setup();

	ck_assert_msg(!has_heard(&heard, "MPS"), "%s", heard.text);
	if (ret == -EBUSY && SANITIZED)
		return;		/* the sanitizer runs a thread of its own */
	must(ret);
	ck_assert_ptr_nonnull(getenv(CONNECTIONS));
	ck_assert_str_eq(getenv(CONNECTIONS), "32");
	unsetenv(CONNECTIONS);
}

static void forget(void)
{
	heard.bytes = 0;
	heard.text[0] = '\0';
}

static void leaves_connections(void)
{
	forget();
	must(rnl_setup());
	ck_assert_ptr_null(getenv(CONNECTIONS));
	ck_assert_msg(has_heard(&heard, "rnl_setup(): MPS listens in /tmp/rnl-mps-"), "%s", heard.text);
}

MPS_TEST(setup_leaves_connections_alone_while_mps_listens)
{
	static const int types[] = { SOCK_STREAM, SOCK_SEQPACKET, SOCK_DGRAM };

	for (unsigned i = 0; i < COUNT(types); i++) {
		const int fd = listen_there(types[i]);

		leaves_connections();
		if (types[i] == SOCK_STREAM)	/* nobody has connected */
			ck_assert_int_eq(poll(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, 0), 0);
		close(fd);
		unlink(control.sun_path);
	}
}

MPS_TEST(setup_keeps_a_setting_under_mps)
{
	const int fd = listen_there(SOCK_STREAM);

	setenv(CONNECTIONS, "5", 1);
	must(rnl_setup());
	ck_assert_str_eq(getenv(CONNECTIONS), "5");
	close(fd);
}

MPS_TEST(setup_takes_what_a_daemon_has_left_for_no_daemon)
{
	char path[sizeof(control.sun_path)];

	sets_connections();
	close(listen_there(SOCK_STREAM));
	sets_connections();
	unlink(control.sun_path);
	ck_assert(!mkfifo(control.sun_path, 0600));	/* it does not wait for the other end */
	sets_connections();
	memset(path, 'x', sizeof(path));
	path[sizeof(path) - 1] = '\0';
	setenv(DIRECTORY, path, 1);
	sets_connections();
	setenv(DIRECTORY, "/dev/null", 1);
	sets_connections();
}

/* There is nothing to set, so other threads do not matter. */
MPS_TEST(setup_under_mps_may_come_late)
{
	struct gate gate = GATE_INIT;
	struct call call;
	int fd;

	call_start(&call, call_gate, &gate);
	gate_await(&gate, 1);
	ck_assert_int_eq(rnl_setup(), -EBUSY);
	fd = listen_there(SOCK_STREAM);
	leaves_connections();
	close(fd);
	gate_open(&gate);
	must(call_end(&call));
}

MPS_TEST(a_pool_under_mps_does_not_recommend_more_connections)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int fd;

	if (on_host())
		test_skip("the host device has no hardware queues");
	setenv(CONNECTIONS, "2", 1);
	hear(&heard, &attr);
	rnl_pool_destroy(pool_with(&attr, 3));
	ck_assert(has_heard(&heard, "3 workers share 2 hardware queues: call rnl_setup()"));
	fd = listen_there(SOCK_STREAM);
	forget();
	rnl_pool_destroy(pool_with(&attr, 3));
	ck_assert(!has_heard(&heard, "call rnl_setup()"));
	ck_assert(has_heard(&heard, "3 workers share 2 hardware queues: under MPS"));
	close(fd);
}
