/* SPDX-License-Identifier: MIT */
/*
 * Serves the figures of a running pool on a socket, for `runnel top`.
 *
 * DESIGN
 *	A thread accepts one connection after the other, writes the text of rnl_pool_stats_text(),
 *	but with the histograms' own buckets, and a last line, "# EOF", and closes the connection.  So workers are not involved, and a
 *	reader detects a truncated text.  The thread reads nothing, and waits a second at most for a
 *	slow reader.  The socket gets its mode before its name, so other users can never connect.  A
 *	dead program's socket refuses connections, and its name is reused.
 *	The end shuts the socket down, which ends the accept.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include <runnel/stats.h>

#include "pool/pool.h"
#include "stats/stats.h"
#include "stats/top.h"
#include "sys/thread.h"

#define CREATE "rnl_pool_create()"
#define BACKLOG 8
#define SEND_S 1
#define NAP_NS 100000000	/* pause without descriptors or memory for a connection */

struct rnl__top {
	struct rnl_pool *pool;
	pthread_t thread;
	int fd;
	dev_t dev;			/* the socket's file; another program's file is kept */
	ino_t ino;
	struct sockaddr_un name;
};

/* ---- the thread ---------------------------------------------------------- */

static void answer(const struct rnl__top *t, int fd)
{
	static const char end[] = "# EOF\n";
	const struct timeval patience = { .tv_sec = SEND_S };
	size_t length;
	char *text = rnl__metrics_text(t->pool, NULL, true, &length);

	(void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (text && send(fd, text, length, MSG_NOSIGNAL) == (ssize_t)length)
		(void)send(fd, end, sizeof(end) - 1, MSG_NOSIGNAL);
	free(text);
}

static void *top_main(void *arg)
{
	struct rnl__top *t = arg;

	rnl__thread_name(t->pool->name, "top");
	for (;;) {
		const int fd = accept4(t->fd, NULL, NULL, SOCK_CLOEXEC);

		if (fd < 0 && errno == EINVAL)
			return NULL;		/* the socket was shut down */
		if (fd < 0) {
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
			continue;
		}
		answer(t, fd);
		close(fd);
	}
}

/* ---- the socket ---------------------------------------------------------- */

/* Removes a socket without a listener.  Returns 0, or -EADDRINUSE if the name is in use. */
static int remove_stale(const struct sockaddr_un *name)
{
	struct stat st;
	bool stale;
	int fd;

	if (lstat(name->sun_path, &st) || !S_ISSOCK(st.st_mode))
		return -EADDRINUSE;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -errno;
	stale = connect(fd, (const struct sockaddr *)name, sizeof(*name)) && errno == ECONNREFUSED;
	close(fd);
	if (!stale)
		return -EADDRINUSE;
	return unlink(name->sun_path) ? -errno : 0;
}

static int bind_once(const struct rnl__top *t)
{
	return bind(t->fd, (const struct sockaddr *)&t->name, sizeof(t->name)) ? -errno : 0;
}

static int bind_name(const struct rnl__top *t)
{
	int ret = bind_once(t);

	if (ret != -EADDRINUSE)
		return ret;
	ret = remove_stale(&t->name);
	return ret ? ret : bind_once(t);
}

static void take_name_away(const struct rnl__top *t)
{
	struct stat st;

	if (!lstat(t->name.sun_path, &st) && st.st_dev == t->dev && st.st_ino == t->ino)
		(void)unlink(t->name.sun_path);
}

static int open_socket(struct rnl__top *t)
{
	struct stat st;
	int ret;

	t->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (t->fd < 0)
		return -errno;
	ret = fchmod(t->fd, S_IRUSR | S_IWUSR) ? -errno : bind_name(t);
	if (!ret && !lstat(t->name.sun_path, &st)) {
		t->dev = st.st_dev;
		t->ino = st.st_ino;
	}
	if (!ret && listen(t->fd, BACKLOG)) {
		ret = -errno;
		take_name_away(t);
	}
	if (ret)
		close(t->fd);
	return ret;
}

/* ---- start and end ------------------------------------------------------- */

static int top_refused(struct rnl_pool *pool, const char *path, int ret)
{
	rnl__pool_log(pool, RNL_LOG_ERROR, CREATE ": top is \"%s\": %s", path,
		      ret == -ENAMETOOLONG ? "at most 107 bytes name a socket" : rnl_strerror(ret));
	return ret == -ENAMETOOLONG ? -EINVAL : ret;
}

int rnl__top_start(struct rnl_pool *pool, const char *path)
{
	struct rnl__top *t;
	int ret;

	if (strlen(path) >= sizeof(t->name.sun_path))
		return top_refused(pool, path, -ENAMETOOLONG);
	t = calloc(1, sizeof(*t));
	if (!t)
		return -ENOMEM;
	t->pool = pool;
	t->name.sun_family = AF_UNIX;
	strcpy(t->name.sun_path, path);
	ret = *path ? open_socket(t) : -EINVAL;
	if (ret) {
		free(t);
		return top_refused(pool, path, ret);
	}
	ret = rnl__thread_create(&t->thread, top_main, t);
	if (ret) {
		take_name_away(t);
		close(t->fd);
		free(t);
		return rnl__pool_no_thread(pool, CREATE, ret);
	}
	pool->top = t;
	return 0;
}

void rnl__top_end(struct rnl_pool *pool)
{
	struct rnl__top *t = pool->top;

	if (!t)
		return;
	take_name_away(t);
	shutdown(t->fd, SHUT_RDWR);
	pthread_join(t->thread, NULL);
	close(t->fd);
	free(t);
}
