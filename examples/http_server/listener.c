/* SPDX-License-Identifier: MIT */
/*
 * Listening sockets: one for each event loop, all at one address.
 *
 * DESIGN
 * With SO_REUSEPORT the kernel shares connections out, so that no loop wakes for
 * another's, and none has to hand connections over.  A second server at the same
 * port would get its share, too, if it were of the same user: so the first socket
 * is bound without that option, which fails if the port is in use.
 *
 * To close a listening socket resets the connections that wait in it, and to stop
 * accepting a moment before does not help: one more may just be coming.  So when the
 * server stops, it first deafens the socket: a filter drops the packets that ask for
 * a connection, and no others.  What was begun is completed, and accepted; after a
 * while nothing more can come, and the socket is closed.  A client whose packet was
 * dropped tries again after a second, and is refused.  Where another process goes on
 * with the socket, because its parent keeps it, none of that is needed: what waits
 * there is the next one's.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <unistd.h>

static int set_option(int fd, int name)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, name, &on, sizeof(on));
}

/* Return: a bound socket, or a negative errno. */
static int bind_one(const struct sockaddr *addr, socklen_t addr_len, bool first)
{
	const int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	int ret = 0;

	if (fd < 0)
		return -errno;
	if (set_option(fd, SO_REUSEADDR) || (!first && set_option(fd, SO_REUSEPORT)) ||
	    bind(fd, addr, addr_len) || (first && set_option(fd, SO_REUSEPORT)))
		ret = -errno;
	if (ret) {
		close(fd);
		return ret;
	}
	return fd;
}

int listener_open(struct sockaddr *addr, socklen_t addr_len, int *fds, unsigned nr)
{
	unsigned opened = 0;
	int ret = 0;

	while (!ret && opened < nr) {
		const int fd = bind_one(addr, addr_len, opened == 0);
		socklen_t len = addr_len;

		if (fd < 0) {
			ret = fd;
			break;
		}
		fds[opened++] = fd;
		if (listen(fd, SOMAXCONN) || getsockname(fd, addr, &len))
			ret = -errno;
	}
	while (ret && opened)
		close(fds[--opened]);
	return ret;
}

void listener_deafen(int fd)
{
	/* Of TCP's flags, SYN without ACK is the first packet of a connection. */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TH_SYN | TH_ACK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TH_SYN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	/* Where there are no filters, connections made in the last moments are lost. */
	(void)setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof(program));
}

void listener_hear(int fd)
{
	const int unused = 0;

	(void)setsockopt(fd, SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused));
}

bool listener_pending(int fd)
{
	struct pollfd pending = { .fd = fd, .events = POLLIN };

	return poll(&pending, 1, 0) > 0;
}
