/* SPDX-License-Identifier: MIT */
/* uv PORT: a server on libuv; its core, uv_core.h, is a block of docs/tutorial.md. */
#include <err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>
#include <runnel.h>
#include "words.h"

enum { BATCH = 64 };

struct client {
	struct rnl_job job;		/* lives in its request */
	uv_tcp_t tcp;
	uv_write_t write;
	size_t nr;
	char line[4096], reply[64];
	unsigned words;
};

static struct rnl_pool *pool;
static struct rnl_cq *cq;

static int count(struct rnl_job *job)		/* on a worker */
{
	struct client *c = rnl_container_of(job, struct client, job);

	c->words = count_words(c->line);
	return 0;
}

static void closed(uv_handle_t *tcp)
{
	free(tcp->data);
}

static void written(uv_write_t *write, int status)
{
	(void)status;
	uv_close((uv_handle_t *)write->handle, closed);
}

static void answer(struct client *c, int result)
{
	uv_buf_t buf = uv_buf_init(c->reply, 0);

	buf.len = (size_t)(result ? snprintf(c->reply, sizeof(c->reply), "%s\n", rnl_strerror(result)) :
				    snprintf(c->reply, sizeof(c->reply), "%u\n", c->words));
	uv_write(&c->write, (uv_stream_t *)&c->tcp, &buf, 1, written);
}

static void space(uv_handle_t *tcp, size_t wanted, uv_buf_t *buf)
{
	struct client *c = tcp->data;

	(void)wanted;
	*buf = uv_buf_init(c->line + c->nr, (unsigned)(sizeof(c->line) - 1 - c->nr));
}

#include "uv_core.h"

static void connected(uv_stream_t *listener, int status)
{
	struct client *c = status ? NULL : calloc(1, sizeof(*c));

	if (!c)
		return;
	rnl_job_init(&c->job, count);
	rnl_job_cq(&c->job, cq);
	uv_tcp_init(listener->loop, &c->tcp);
	c->tcp.data = c;
	if (uv_accept(listener, (uv_stream_t *)&c->tcp))
		uv_close((uv_handle_t *)&c->tcp, closed);
	else
		uv_read_start((uv_stream_t *)&c->tcp, space, was_read);
}

int main(int argc, char **argv)
{
	uv_loop_t *loop = uv_default_loop();
	struct sockaddr_in at;
	uv_tcp_t listener;
	uv_poll_t poll;
	int bytes = sizeof(at), ret;

	signal(SIGPIPE, SIG_IGN);		/* a client may be gone */
	if ((ret = rnl_pool_create(&pool, NULL)) || (ret = rnl_cq_create(&cq)))
		errx(1, "runnel: %s", rnl_strerror(ret));
	uv_poll_init(loop, &poll, rnl_cq_fd(cq));
	uv_poll_start(&poll, UV_READABLE, reap);
	uv_ip4_addr("127.0.0.1", argc > 1 ? atoi(argv[1]) : 7000, &at);
	uv_tcp_init(loop, &listener);
	if ((ret = uv_tcp_bind(&listener, (struct sockaddr *)&at, 0)) ||
	    (ret = uv_listen((uv_stream_t *)&listener, 64, connected)) ||
	    (ret = uv_tcp_getsockname(&listener, (struct sockaddr *)&at, &bytes)))
		errx(1, "listen: %s", uv_strerror(ret));
	printf("port %d\n", ntohs(at.sin_port));
	fflush(stdout);
	return uv_run(loop, UV_RUN_DEFAULT);
}
