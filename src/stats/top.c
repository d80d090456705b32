/* SPDX-License-Identifier: MIT */
/*
 * The figures of a running pool on a socket, for `runnel top`.
 *
 * DESIGN
 *	A thread accepts connections, one after the other, writes the text of rnl_pool_stats_text()
 *	and a last line, "# EOF", and hangs up.  So the workers take no notice, and a reader that
 *	is cut off sees that.  The thread reads nothing, and waits for a slow reader for a second.
 *	The socket gets its mode before it has a name, so nobody else can ever connect.  A socket
 *	that a dead program left behind refuses connections: then its name is taken over.
 *	A stop shuts the socket down, which ends the accept.
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

#include "pool/pool.h"
#include "stats/stats.h"
#include "sys/thread.h"

#define START "rnl_top_start()"
#define BACKLOG 8
#define SEND_S 1
#define NAP_NS 100000000	/* without descriptors or memory for a connection */

struct rnl__top {
	struct rnl_pool *pool;
	pthread_t thread;
	int fd;
	dev_t dev;			/* the name's file: what another program puts there stays */
	ino_t ino;
	struct sockaddr_un name;
};

/* ---- the thread ---------------------------------------------------------- */

static void answer(const struct rnl__top *t, int fd)
{
	static const char end[] = "# EOF\n";
	const struct timeval patience = { .tv_sec = SEND_S };
	size_t length;
	char *text = rnl__metrics_text(t->pool, NULL, &length);

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
			return NULL;		/* it was shut down */
		if (fd < 0) {
			nanosleep(&(struct timespec){ .tv_nsec = NAP_NS }, NULL);
			continue;
		}
		answer(t, fd);
		close(fd);
	}
}

/* ---- the socket ---------------------------------------------------------- */

/* Removes a socket that nothing listens to.  Return: 0; -EADDRINUSE: the name has another owner. */
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

/* ---- start and stop ------------------------------------------------------ */

static int top_end_running(struct rnl_pool *pool)
{
	struct rnl__top *t;

	pthread_mutex_lock(&pool->topping);
	t = pool->top;
	pool->top = NULL;
	if (t) {
		take_name_away(t);
		shutdown(t->fd, SHUT_RDWR);
		pthread_join(t->thread, NULL);
		close(t->fd);
		free(t);
	}
	pthread_mutex_unlock(&pool->topping);
	return t ? 0 : -EALREADY;
}

/* For a pool that is destroyed. */
static void top_end_if_any(struct rnl_pool *pool)
{
	(void)top_end_running(pool);
}

static int top_start(struct rnl_pool *pool, const char *path)
{
	struct rnl__top *t = pool->top ? NULL : calloc(1, sizeof(*t));
	int ret;

	if (!t)
		return pool->top ? -EALREADY : -ENOMEM;
	t->pool = pool;
	t->name.sun_family = AF_UNIX;
	strcpy(t->name.sun_path, path);
	ret = open_socket(t);
	if (!ret) {
		ret = rnl__pool_no_thread(pool, START, rnl__thread_create(&t->thread, top_main, t));
		if (ret) {
			take_name_away(t);
			close(t->fd);
		}
	}
	if (ret) {
		free(t);
		return ret;
	}
	pool->top = t;
	pool->end_top = top_end_if_any;
	return 0;
}

int rnl_top_start(struct rnl_pool *pool, const char *path)
{
	RNL__UNCANCELLED();
	const size_t most = sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1;
	int ret = rnl__pool_given(pool, START);

	if (ret)
		return ret;
	if (!path || !*path)
		return rnl__invalid(&pool->log, START ": path is %s", path ? "empty" : "NULL");
	if (strlen(path) > most)
		return rnl__invalid(&pool->log, START ": path has %zu bytes, and %zu at most name a "
				    "socket", strlen(path), most);
	pthread_mutex_lock(&pool->topping);
	ret = top_start(pool, path);
	pthread_mutex_unlock(&pool->topping);
	return ret;
}

int rnl_top_stop(struct rnl_pool *pool)
{
	RNL__UNCANCELLED();
	const int ret = rnl__pool_given(pool, "rnl_top_stop()");

	return ret ? ret : top_end_running(pool);
}
