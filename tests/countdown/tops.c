/* SPDX-License-Identifier: MIT */
/* The socket of a pool's figures. */
#include <stdio.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <runnel/stats.h>

#include "await.h"
#include "countdown.h"

static struct sockaddr_un name = { .sun_family = AF_UNIX };

/* Leaves a socket like a dead program does; the start checks that its program is dead. */
static void leave_socket(struct rnl_pool *pool)
{
	const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	(void)pool;
	snprintf(name.sun_path, sizeof(name.sun_path), "/tmp/unit_countdown.%d.top", (int)getpid());
	unlink(name.sun_path);	/* of an earlier try that was killed: process ids come again */
	expect(fd >= 0 && !bind(fd, (struct sockaddr *)&name, sizeof(name)));
	own_call(close(fd));
}

static int create(struct rnl_pool **pool)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = test_device();
	attr.nr_workers = 1;
	attr.top = name.sun_path;
	return rnl_pool_create(pool, &attr);
}

/* A failure leaves the name free, or the dead program's; the next pool gets the name. */
static void after_create(struct rnl_pool *pool, int ret)
{
	struct stat st;

	if (!ret)
		return;
	if (fault_lasts()) {
		unlink(name.sun_path);
		return;
	}
	expect(!create(&pool));
	rnl_pool_destroy(pool);
	expect(lstat(name.sun_path, &st));
}

const struct operation top_operations[] = {
	{ .name = "rnl_pool_create, top", .bare = true,
	  .before = leave_socket, .run = create, .after = after_create,
	  .errnos = { -ENOMEM, -EAGAIN, -EIO, -ENODEV, -EMFILE, -ENOSPC },
	  .instead = { -ENODEV } },
	{ 0 }
};
