/* SPDX-License-Identifier: MIT */
/* The socket of a pool's figures. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "countdown.h"

static struct sockaddr_un name = { .sun_family = AF_UNIX };

/* One that a dead program left: the start looks whether it is that. */
static void leave_socket(struct rnl_pool *pool)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)pool;
	snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/unit_countdown.%d.top", (int)getpid());
	expect(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof(name)));
	own_call(close(fd));
}

static int start(struct rnl_pool **pool)
{
	return rnl_top_start(*pool, name.sun_path);
}

static void after_start(struct rnl_pool *pool, int ret)
{
	struct stat st;

	expect(rnl_top_stop(pool) == (ret ? -EALREADY : 0));
	/* After an error another one starts. */
	expect(!rnl_top_start(pool, name.sun_path) && !rnl_top_stop(pool));
	expect(lstat(name.sun_path, &st));
}

static void begin(struct rnl_pool *pool)
{
	leave_socket(pool);
	expect(!start(&pool));
}

static int stop(struct rnl_pool **pool)
{
	return rnl_top_stop(*pool);
}

const struct operation top_operations[] = {
	{ .name = "rnl_top_start", .functions = "rnl_top_start", .before = leave_socket,
	  .run = start, .after = after_start,
	  .errnos = { -ENOMEM, -EAGAIN, -EMFILE, -ENOSPC } },
	{ .name = "rnl_top_stop", .functions = "rnl_top_stop", .before = begin, .run = stop },
	{ 0 }
};
