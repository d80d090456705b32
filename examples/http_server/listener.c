/* SPDX-License-Identifier: MIT */
/*
 * Listening sockets: one for each event loop, opened at one address, or passed by a parent.
 *
 * DESIGN
 * With SO_REUSEPORT the kernel distributes connections, so a connection wakes one loop, and no
 * loop passes connections to others.  But with that option a second server of the same user could
 * bind the port, too, and would get some of the connections.  So the first socket is bound without
 * the option: that fails if the port is in use.
 *
 * A parent that starts this program for a socket, such as systemd, passes the socket by the
 * protocol of sd_listen_fds(3).  If there are more loops than sockets, loops share a socket: a
 * connection wakes all of them, and one accepts it.
 *
 * Closing a listening socket resets its waiting connections, and a new one may arrive between the
 * last accept and the close.  So before the close, a server that stops calls listener_deafen(): a
 * filter drops only the packets that begin a connection.  Connections that have begun are completed
 * and accepted; when no more can arrive, the socket is closed.  A client whose packet was dropped
 * tries again after a second, and is refused.  If a parent keeps the socket open, the server only
 * stops accepting, and the next process accepts the waiting connections.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PASSED_FIRST 3		/* the first descriptor that a parent passes */

static int set_option(int fd, int name)
{
	const int on = 1;

	return setsockopt(fd, SOL_SOCKET, name, &on, sizeof(on));
}

/* Returns a bound socket, or a negative errno. */
static int bind_one(const struct sockaddr *addr, socklen_t addr_len, bool first)
{
	const int fd = socket(addr->sa_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	if (fd < 0 || set_option(fd, SO_REUSEADDR) || (!first && set_option(fd, SO_REUSEPORT)) ||
	    bind(fd, addr, addr_len) || (first && set_option(fd, SO_REUSEPORT)))
		return -errno;		/* the socket stays open: the program ends */
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

static int get_option(int fd, int name)
{
	int value = -1;
	socklen_t bytes = sizeof(value);

	return getsockopt(fd, SOL_SOCKET, name, &value, &bytes) ? -1 : value;
}

/* Returns the number of sockets that a parent passes to this process. */
static unsigned nr_passed(unsigned nr_max)
{
	const char *pid = getenv("LISTEN_PID"), *text = getenv("LISTEN_FDS");
	char own[16], *end = NULL;
	unsigned long nr;

	snprintf(own, sizeof(own), "%d", (int)getpid());
	if (!pid || strcmp(pid, own))
		return 0;
	nr = text ? strtoul(text, &end, 10) : 0;
	if (!nr || *end || nr > nr_max)
		program_die("LISTEN_FDS is '%s': pass 1 to %u sockets, at most one for each of --loops",
			    text ? text : "", nr_max);
	return (unsigned)nr;
}

bool listener_take(int *fds, unsigned nr)
{
	const unsigned passed = nr_passed(nr);

	for (unsigned i = 0; i < passed; i++) {
		const int fd = PASSED_FIRST + (int)i, family = get_option(fd, SO_DOMAIN);

		if ((family != AF_INET && family != AF_INET6) || get_option(fd, SO_ACCEPTCONN) != 1)
			program_die("descriptor %d of LISTEN_FDS is not a TCP listener", fd);
		/* Nonblocking: another loop may accept the connection first. */
		if (fcntl(fd, F_SETFD, FD_CLOEXEC) || fcntl(fd, F_SETFL, O_RDWR | O_NONBLOCK))
			program_die("descriptor %d of LISTEN_FDS: %s", fd, strerror(errno));
		fds[i] = fd;
	}
	for (unsigned i = passed; passed && i < nr; i++) {
		fds[i] = fcntl(fds[i - passed], F_DUPFD_CLOEXEC, 0);
		if (fds[i] < 0)
			program_die("sharing a socket of LISTEN_FDS: %s", strerror(errno));
	}
	return passed;
}

void listener_deafen(int fd)
{
	/* A packet with SYN and without ACK begins a connection. */
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_B | BPF_ABS, 13),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, TH_SYN | TH_ACK),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, TH_SYN, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, 0),
		BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
	};
	const struct sock_fprog program = { sizeof(code) / sizeof(*code), code };

	/* If filters are not available, the last connections may be reset. */
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
