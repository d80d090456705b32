/* SPDX-License-Identifier: MIT */
/*
 * A client's connection: reads one request after another, and sends the answers.
 *
 * DESIGN
 * libevent's evhttp has no limit on a request's time, on the number of clients, or on the memory of
 * all bodies together.  So this file implements HTTP/1.1 on libevent's bufferevents.
 *
 *	IDLE -> HEAD -> BODY -> WORK -> SEND -> IDLE ..., or, from SEND, -> DRAIN -> closed
 *
 * A request that is refused goes to SEND immediately.
 *
 * Each state has a time limit, which one timer per connection enforces.  A client that is too slow
 * gets 408, work that takes too long gets 504, and a client that does not read its answer loses
 * its connection.  A loop that stops shortens the limits that depend on clients, to end in --grace.
 *
 * A head is at most HEAD_MAX bytes.  A body is copied from libevent's buffers as it arrives, into
 * memory that grows with the body.  --memory bounds this memory and that of all answers together.
 * While a request is in work or its answer is sent, nothing is read.
 *
 * When a connection ends, the client may still be sending.  close() would reset the connection,
 * and the client could lose its last answer.  So the server shuts down its sending side, and
 * discards the client's data for a while.
 */
#include "config.h"

#include "common/program.h"
#include "server.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <event2/buffer.h>
#include <event2/bufferevent.h>

#define SECOND UINT64_C(1000000000)
#define MS (SECOND / 1000)
#define BODY_BEGINS 16384u	/* first allocation for a body */
#define SMALL_ANSWER 4096u	/* bytes: included in CONNECTION_BYTES */
#define SEND_S 5		/* a late answer has at least this time to be sent */
#define DRAIN_S 2
#define METHOD_BYTES 8		/* enough to recognise a method */

enum state { IDLE, HEAD, BODY, WORK, SEND, DRAIN };

struct connection {
	struct request req;		/* must be first: see of() */
	LIST_ENTRY(connection) next;
	struct loop *loop;
	struct bufferevent *io;
	struct event *timer;
	enum state state;
	uint64_t since_ns;		/* start of this state */
	uint64_t began_ns;		/* time of the request's first byte */
	uint64_t end_ns;		/* time that the timer is set to */
	char *head;			/* the text of the head */
	size_t searched;		/* bytes searched without finding the head's end */
	struct chunks chunks;
	bool whole;			/* the request was received completely */
	bool closes;			/* close after the answer */
};

const struct answer_code answer_codes[ANSWER_CODES] = {
	{ 200, "OK" }, { 400, "Bad Request" }, { 404, "Not Found" },
	{ 405, "Method Not Allowed" }, { 408, "Request Timeout" }, { 413, "Content Too Large" },
	{ 415, "Unsupported Media Type" }, { 417, "Expectation Failed" },
	{ 431, "Request Header Fields Too Large" },
	{ 500, "Internal Server Error" }, { 501, "Not Implemented" },
	{ 503, "Service Unavailable" }, { 504, "Gateway Timeout" },
	{ 505, "HTTP Version Not Supported" },
};

static struct connection *of(struct request *req)
{
	return rnl_container_of(req, struct connection, req);
}

/* ---- bytes in memory ----------------------------------------------------- */

static bool count_bytes(struct connection *c, size_t bytes, size_t most)
{
	atomic_size_t *all = &c->req.class->bytes;
	size_t before = atomic_load(all);

	do {
		if (before + bytes > most)
			return false;
	} while (!atomic_compare_exchange_weak(all, &before, before + bytes));
	c->req.counted += bytes;
	return true;
}

void request_drop_body(struct request *req)
{
	atomic_fetch_sub(&req->class->bytes, req->counted);
	req->counted = 0;
	free(req->body);
	req->body = NULL;
	req->space = 0;
}

bool request_count_answer(struct request *req)
{
	const size_t bytes = evbuffer_get_length(req->out);
	size_t most = req->class->memory;

	/* GET /metrics must work when memory is full: answers without a task have extra space. */
	if (!req->endpoint->route->task)
		most += FIGURES_BYTES;
	/* libevent's buffers use up to twice the bytes that they hold. */
	return bytes <= SMALL_ANSWER || count_bytes(of(req), 2 * bytes, most);
}

static void end_request(struct connection *c)
{
	request_drop_body(&c->req);
	evbuffer_drain(c->req.headers, evbuffer_get_length(c->req.headers));
	evbuffer_drain(c->req.out, evbuffer_get_length(c->req.out));
	free(c->head);
	c->head = NULL;
	c->req.endpoint = NULL;
	c->searched = 0;
}

/* ---- states and their time limits ---------------------------------------- */

static uint64_t earlier(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Returns the time limit of the connection's state. */
static uint64_t end_of_state(const struct connection *c)
{
	const struct options *opt = &c->loop->server->opt;
	const uint64_t whole_ns = c->began_ns + opt->request_s * SECOND;
	const uint64_t stop_ns = c->loop->stop_ns;
	const uint64_t grace_ns = atomic_load(&c->loop->server->grace_ns);
	uint64_t ns = whole_ns;

	if (c->state == IDLE)
		return c->since_ns + opt->idle_s * SECOND;
	if (c->state == HEAD)
		ns = earlier(ns, c->began_ns + opt->head_s * SECOND);
	if (c->state == WORK)
		return opt->deadline_ms ?
			earlier(ns, c->since_ns + opt->deadline_ms * MS) : ns;
	if (c->state == SEND && ns < c->since_ns + SEND_S * SECOND)
		ns = c->since_ns + SEND_S * SECOND;
	if (c->state == DRAIN)
		return c->since_ns + (stop_ns ? opt->linger_ms * MS : DRAIN_S * SECOND);
	if (!stop_ns)
		return ns;
	/* Reading must end in the first half of the grace, and sending in the first 7/8. */
	return earlier(ns, stop_ns + (c->state <= BODY ? grace_ns / 2 : grace_ns / 8 * 7));
}

static void set_timer(struct connection *c)
{
	const uint64_t end_ns = end_of_state(c), now_ns = program_now_ns();
	const uint64_t left_us = end_ns > now_ns ? (end_ns - now_ns) / 1000 + 1 : 0;
	const struct timeval time = { (time_t)(left_us / 1000000), (long)(left_us % 1000000) };

	if (end_ns == c->end_ns)
		return;
	c->end_ns = end_ns;
	event_add(c->timer, &time);
}

static void enter(struct connection *c, enum state state)
{
	if (state == WORK)
		atomic_fetch_add(&c->loop->metrics.nr_open, 1);
	c->state = state;
	c->since_ns = program_now_ns();
}

static void leave_open(struct connection *c)
{
	if (c->req.endpoint)
		atomic_fetch_sub(&c->loop->metrics.nr_open, 1);
}

static void free_parts(struct connection *c)
{
	if (c->timer)
		event_free(c->timer);
	if (c->req.headers)
		evbuffer_free(c->req.headers);
	if (c->req.out)
		evbuffer_free(c->req.out);
	if (c->io)
		bufferevent_free(c->io);
	free(c);
}

static void connection_free(struct connection *c)
{
	struct loop *loop = c->loop;
	const int fd = bufferevent_getfd(c->io);

	if (c->state == WORK)
		request_left(&c->req);
	leave_open(c);
	end_request(c);
	LIST_REMOVE(c, next);
	free_parts(c);
	close(fd);
	loop_left(loop);
}

/* ---- answers ------------------------------------------------------------- */

void request_header(struct request *req, const char *name, const char *value)
{
	evbuffer_add_printf(req->headers, "%s: %s\r\n", name, value);
}

static const char *phrase_of(int code)
{
	for (int i = 0; i < ANSWER_CODES; i++)
		if (answer_codes[i].code == code)
			return answer_codes[i].phrase;
	return "Unknown";
}

void request_answer(struct request *req, int code, const char *type)
{
	struct connection *c = of(req);
	struct evbuffer *out = bufferevent_get_output(c->io);
	const time_t now = time(NULL);
	char date[64];
	struct tm tm;

	c->closes = !c->whole || !req->head.keeps || c->loop->stop_ns;
	evutil_date_rfc1123(date, sizeof(date), gmtime_r(&now, &tm));
	evbuffer_add_printf(out, "HTTP/1.1 %d %s\r\nDate: %s\r\nContent-Type: %s\r\n"
			    "Content-Length: %zu\r\n%s", code, phrase_of(code), date, type,
			    evbuffer_get_length(req->out), c->closes ? "Connection: close\r\n" :
			    req->head.old ? "Connection: keep-alive\r\n" : "");
	evbuffer_add_buffer(out, req->headers);
	evbuffer_add(out, "\r\n", 2);
	if (req->head.method != EVHTTP_REQ_HEAD)
		evbuffer_add_buffer(out, req->out);
	if (c->state != WORK)
		bufferevent_disable(c->io, EV_READ);
	enter(c, SEND);
	set_timer(c);
}

/* Answers a request with an error, without reading the rest of it. */
static void refuse(struct connection *c, int code, const char *wrong)
{
	char begin[METHOD_BYTES + 1] = "";

	/* The answer to HEAD has no body, even if the head is broken. */
	if (!c->head && evbuffer_copyout(bufferevent_get_input(c->io), begin, METHOD_BYTES) > 0)
		c->req.head.method = head_method(begin);
	c->req.endpoint = routes_find(c->loop, NULL);
	atomic_fetch_add(&c->loop->metrics.nr_open, 1);
	request_drop_body(&c->req);
	request_refuse(&c->req, code, wrong);
}

/* ---- reading ------------------------------------------------------------- */

/* Like read_head() and read_body(), returns true if reading may continue in the next state. */
static bool read_idle(struct connection *c, struct evbuffer *in)
{
	ev_ssize_t there;
	char first[2];

	/* Empty lines between requests are allowed.  An empty line may arrive in two reads. */
	while ((there = evbuffer_copyout(in, first, 2)) == 2 && !memcmp(first, "\r\n", 2))
		evbuffer_drain(in, 2);
	if (there <= 0 || (there == 1 && *first == '\r'))
		return false;
	c->req.head = (struct head){ .nr_fields = 0 };
	c->req.class = &c->loop->server->classes[0];
	c->req.bytes = 0;
	c->chunks = (struct chunks){ .room = c->loop->server->opt.max_body };
	c->whole = false;
	enter(c, HEAD);
	c->began_ns = c->since_ns;
	return true;
}

/* Returns the length of the head, or 0 if its end has not arrived. */
static size_t head_bytes(struct connection *c, struct evbuffer *in)
{
	struct evbuffer_ptr from, end;

	evbuffer_ptr_set(in, &from, c->searched, EVBUFFER_PTR_SET);
	end = evbuffer_search(in, "\r\n\r\n", 4, &from);
	if (end.pos >= 0)
		return (size_t)end.pos + 4;
	c->searched = evbuffer_get_length(in);
	c->searched -= c->searched < 3 ? c->searched : 3;
	return 0;
}

static void handle(struct connection *c)
{
	bufferevent_disable(c->io, EV_READ);
	c->req.endpoint = routes_find(c->loop, c->req.head.path);
	enter(c, WORK);
	set_timer(c);
	routes_handle(&c->req);
}

static bool read_head(struct connection *c, struct evbuffer *in)
{
	struct server *server = c->loop->server;
	const size_t max_body = server->opt.max_body, bytes = head_bytes(c, in);
	struct head *head = &c->req.head;
	const struct endpoint *endpoint;
	char trace[TRACEPARENT_BYTES];
	int code;

	if (bytes > HEAD_MAX || (!bytes && evbuffer_get_length(in) > HEAD_MAX)) {
		refuse(c, 431, "the headers are too long");
		return true;
	}
	if (!bytes)
		return false;
	c->head = malloc(bytes + 1);
	if (!c->head) {
		refuse(c, HTTP_SERVUNAVAIL, "out of memory");
		return true;
	}
	evbuffer_remove(in, c->head, bytes);
	c->head[bytes] = '\0';
	code = head_parse(c->head, head);
	if (!code && traceparent_follow(head, c->req.trace_id, trace))
		request_header(&c->req, "traceparent", trace);
	if (!code && head->body_bytes > max_body) {
		head->wrong = "too many bytes";
		code = HTTP_ENTITYTOOLARGE;
	}
	endpoint = routes_find(c->loop, code ? NULL : head->path);
	if (!code)
		code = class_choose(server, endpoint->route, &c->req);
	if (code) {
		refuse(c, code, head->wrong);
		return true;
	}
	if ((head->body_bytes || head->chunked) && !routes_take(endpoint, head)) {
		handle(c);
		return true;
	}
	if (head->expects && (head->body_bytes || head->chunked) && !evbuffer_get_length(in))
		bufferevent_write(c->io, "HTTP/1.1 100 Continue\r\n\r\n", 25);
	enter(c, BODY);
	return true;
}

/* Makes space for the next @bytes of the body.  Returns false if there is no memory. */
static bool make_space(struct connection *c, size_t bytes)
{
	const size_t most = c->req.head.chunked ? c->loop->server->opt.max_body :
						  (size_t)c->req.head.body_bytes;
	size_t space = c->req.space ? c->req.space : BODY_BEGINS;
	unsigned char *body;

	while (space < c->req.bytes + bytes)
		space *= 2;
	space = space < most ? space : most;
	if (space <= c->req.space)
		return true;
	if (!count_bytes(c, space - c->req.space, c->req.class->memory))
		return false;
	body = realloc(c->req.body, space);
	if (!body)
		return false;
	c->req.body = body;
	c->req.space = space;
	return true;
}

/* Drops @framing bytes, and appends the next @data bytes to the body. */
static bool take(struct connection *c, struct evbuffer *in, size_t framing, size_t data)
{
	evbuffer_drain(in, framing);
	if (data && !make_space(c, data)) {
		refuse(c, HTTP_SERVUNAVAIL, "the memory for requests is in use");
		return false;
	}
	if (data)
		evbuffer_remove(in, c->req.body + c->req.bytes, data);
	c->req.bytes += data;
	return true;
}

static bool read_chunks(struct connection *c, struct evbuffer *in)
{
	while (!c->chunks.end && evbuffer_get_length(in)) {
		const size_t bytes = evbuffer_get_contiguous_space(in);
		size_t framing, data;
		const int ret = chunks_read(&c->chunks,
					    (const char *)evbuffer_pullup(in, (ev_ssize_t)bytes),
					    bytes, &framing, &data);

		if (ret) {
			refuse(c, ret == -EFBIG ? HTTP_ENTITYTOOLARGE : HTTP_BADREQUEST,
			       ret == -EFBIG ? "too many bytes" : "the chunks are broken");
			return false;
		}
		if (!take(c, in, framing, data))
			return false;
	}
	return c->chunks.end;
}

static bool read_body(struct connection *c, struct evbuffer *in)
{
	const uint64_t left = c->req.head.body_bytes - c->req.bytes;
	const size_t there = evbuffer_get_length(in);

	if (c->req.head.chunked) {
		if (!read_chunks(c, in))
			return c->state != BODY;
	} else if (!take(c, in, 0, there < left ? there : (size_t)left)) {
		return true;
	} else if (there < left) {
		return false;
	}
	c->whole = true;
	handle(c);
	return true;
}

/* Continues with the received bytes. */
static void read_on(struct connection *c)
{
	struct evbuffer *in = bufferevent_get_input(c->io);
	bool more = true;

	while (more && c->state <= BODY)
		more = c->state == IDLE ? read_idle(c, in) : c->state == HEAD ? read_head(c, in) :
			read_body(c, in);
	if (c->state == DRAIN)
		evbuffer_drain(in, evbuffer_get_length(in));
	else if (c->state <= BODY)
		bufferevent_enable(c->io, EV_READ);
	set_timer(c);
}

/* ---- events -------------------------------------------------------------- */

static void on_read(struct bufferevent *io, void *arg)
{
	struct connection *c = arg;

	(void)io;
	read_on(c);
	/* Empty lines must not delay the end of a loop. */
	if (c->state != DRAIN && c->state != IDLE)
		c->loop->received++;
}

/* Called when all output was written. */
static void on_written(struct bufferevent *io, void *arg)
{
	struct connection *c = arg;

	if (c->state != SEND)		/* the output was 100 Continue */
		return;
	leave_open(c);
	end_request(c);
	enter(c, c->closes ? DRAIN : IDLE);
	if (c->closes) {
		shutdown(bufferevent_getfd(io), SHUT_WR);
		bufferevent_enable(io, EV_READ);
	}
	read_on(c);
}

/* Called when the client has left. */
static void on_gone(struct bufferevent *io, short what, void *arg)
{
	(void)io;
	(void)what;
	connection_free(arg);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
	struct connection *c = arg;

	(void)fd;
	(void)what;
	c->end_ns = 0;
	if (program_now_ns() < end_of_state(c))
		set_timer(c);
	else if (c->state == WORK)
		request_late(&c->req);
	else if (c->state == HEAD || c->state == BODY)
		refuse(c, 408, "the request did not arrive in time");
	else
		connection_free(c);
}

/* ---- for the loop -------------------------------------------------------- */

static bool make_parts(struct connection *c, int fd)
{
	c->io = bufferevent_socket_new(c->loop->base, fd, 0);
	c->timer = evtimer_new(c->loop->base, on_timer, c);
	c->req.headers = evbuffer_new();
	c->req.out = evbuffer_new();
	return c->io && c->timer && c->req.headers && c->req.out;
}

bool connection_begin(struct loop *loop, int fd)
{
	struct connection *c = calloc(1, sizeof(*c));

	if (!c)
		return false;
	c->loop = loop;
	c->req.class = &loop->server->classes[0];
	if (!make_parts(c, fd)) {
		free_parts(c);
		return false;
	}
	LIST_INSERT_HEAD(&loop->connections, c, next);
	bufferevent_setcb(c->io, on_read, on_written, on_gone, c);
	bufferevent_setwatermark(c->io, EV_READ, 0, HEAD_MAX + 1);
	enter(c, IDLE);
	set_timer(c);
	bufferevent_enable(c->io, EV_READ | EV_WRITE);
	return true;
}

bool connections_wait(const struct loop *loop)
{
	const struct connection *c;

	LIST_FOREACH(c, &loop->connections, next)
		if (c->state >= WORK)
			return true;
	return false;
}

/* Returns true if the client has sent bytes that the loop has not read yet. */
static bool is_asking(const struct connection *c)
{
	char byte;

	return recv(bufferevent_getfd(c->io), &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0;
}

bool connections_make_space(struct loop *loop)
{
	const uint64_t silent_ns = loop->server->opt.linger_ms * MS;
	struct connection *c, *longest = NULL;

	LIST_FOREACH(c, &loop->connections, next)
		if (c->state == IDLE && (!longest || c->since_ns < longest->since_ns))
			longest = c;
	if (!longest || program_now_ns() - longest->since_ns < silent_ns || is_asking(longest))
		return false;
	connection_free(longest);
	return true;
}

void connections_stop(struct loop *loop)
{
	struct connection *c;

	LIST_FOREACH(c, &loop->connections, next)
		set_timer(c);
}

void connections_close(struct loop *loop)
{
	while (!LIST_EMPTY(&loop->connections))
		connection_free(LIST_FIRST(&loop->connections));
}
