/* SPDX-License-Identifier: MIT */
/*
 * Listening sockets: one for each event loop, all at one address.
 *
 * DESIGN
 * With SO_REUSEPORT the kernel shares connections out, so a connection wakes one loop, and no
 * loop hands connections over.  With that option a second server of this user could bind the
 * port and would get some of the connections.  So the first socket is bound without the option:
 * that fails if the port is in use.
 *
 * Closing a listening socket resets the connections that wait in it, and another one may come
 * between the last accept and the close.  So a server that stops first deafens the socket: a
 * filter drops the packets that ask for a connection, and no others.  Connections that were
 * begun are completed and accepted; after a while none can come, and the socket is closed.  A
 * client whose packet was dropped tries again after a second, and is refused.  Nothing of that
 * is needed where a parent keeps the socket: waiting connections are the next process's.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <poll.h>

static int set_option(int fd, int name)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, name, &on, sizeof(on));
}

/* Return: a bound socket, or a negative errno. */
static int bind_one(const struct sockaddr *addr, socklen_t addr_len, bool first)
{
	const int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || set_option(fd, SO_REUSEADDR) || (!first && set_option(fd, SO_REUSEPORT)) ||
	    bind(fd, addr, addr_len) || (first && set_option(fd, SO_REUSEPORT)))
		return -errno;		/* the program ends */
	return fd;
}

int listener_open(struct sockaddr *addr, socklen_t addr_len, int *fds, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		socklen_t len = addr_len;

		fds[i] = bind_one(addr, addr_len, i == 0);
		if (fds[i] < 0)
			return fds[i];
		if (listen(fds[i], SOMAXCONN) || getsockname(fds[i], addr, &len))
			return -errno;
	}
	return 0;
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

	/* Without filters, connections of the last moments are lost. */
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
