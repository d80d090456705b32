/* SPDX-License-Identifier: MIT */
/*
 * Which path does what, and how a request is answered.
 *
 * DESIGN
 * evhttp reads a request in full, head and body, before it calls on_request().  evhttp itself
 * refuses a body longer than --max-body, without holding it.  From on_request() on the request
 * is open until evhttp has sent the last byte of its answer, or the client is gone.  A loop
 * that stops waits for its open requests.
 *
 * Errors are JSON, too: { "error": "what is wrong" }.
 *
 * When the device has failed, the library ends each job with an error, and the loop answers
 * 503 without looking at a buffer.  Each such answer also tells main(), which ends the process
 * if --exit-on-failure was given.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <sys/eventfd.h>

#include <event2/buffer.h>
#include <jansson.h>

#define GET_OR_HEAD (EVHTTP_REQ_GET | EVHTTP_REQ_HEAD)

/* ---- answers ------------------------------------------------------------- */

static void open_ended(struct loop *loop)
{
	atomic_fetch_sub(&loop->metrics.nr_open, 1);
}

static void on_sent(struct evhttp_request *req, void *loop)
{
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), NULL, NULL);
	open_ended(loop);
}

static void on_closed(struct evhttp_connection *connection, void *loop)
{
	(void)connection;
	open_ended(loop);
}

/* evhttp calls on_sent() or on_closed(), once. */
static void open_begins(struct loop *loop, struct evhttp_request *req)
{
	atomic_fetch_add(&loop->metrics.nr_open, 1);
	evhttp_request_set_on_complete_cb(req, on_sent, loop);
	evhttp_connection_set_closecb(evhttp_request_get_connection(req), on_closed, loop);
}

/* The body is in the request's output buffer; the answer to a HEAD has none. */
static void answer(const struct endpoint *endpoint, struct evhttp_request *req, int code,
		   const char *type)
{
	struct evkeyvalq *headers = evhttp_request_get_output_headers(req);
	struct evbuffer *out = evhttp_request_get_output_buffer(req);

	if (evhttp_request_get_command(req) == EVHTTP_REQ_HEAD)
		evbuffer_drain(out, evbuffer_get_length(out));
	evhttp_add_header(headers, "Content-Type", type);
	if (endpoint->loop->stopping)
		evhttp_add_header(headers, "Connection", "close");
	metrics_count_answer(&endpoint->loop->metrics, (int)(endpoint->route - routes), code);
	evhttp_send_reply(req, code, NULL, NULL);
}

static int append(const char *text, size_t bytes, void *out)
{
	return evbuffer_add(out, text, bytes);
}

const char *answer_json(struct json_t *json, struct evbuffer *out)
{
	const int ret = json ? json_dump_callback(json, append, out, JSON_COMPACT) : -1;

	json_decref(json);
	return ret || evbuffer_add(out, "\n", 1) ? NULL : "application/json";
}

static void answer_error(const struct endpoint *endpoint, struct evhttp_request *req, int code,
			 const char *text)
{
	struct evbuffer *out = evhttp_request_get_output_buffer(req);
	const char *type;

	if (code == HTTP_SERVUNAVAIL)
		evhttp_add_header(evhttp_request_get_output_headers(req), "Retry-After", "1");
	evbuffer_drain(out, evbuffer_get_length(out));
	type = answer_json(json_pack("{s:s}", "error", text), out);
	answer(endpoint, req, code, type ? type : "text/plain");
}

/* Return: whether the device has failed; main() is told.  @health: receives the pool's. */
static bool device_failed(const struct server *server, struct rnl_health *health)
{
	*health = (struct rnl_health)RNL_HEALTH_INIT;
	if (rnl_pool_health(server->pool, health) || health->state != RNL_HEALTH_FAILED)
		return false;
	eventfd_write(server->failed_fd, 1);
	return true;
}

static const char *reason(const struct rnl_health *health, char *text, size_t bytes)
{
	if (health->state == RNL_HEALTH_FAILED)
		snprintf(text, bytes, "the device has failed (CUDA error %d): this process has to "
			 "be replaced", (int)health->device_error);
	else
		snprintf(text, bytes, "%u workers are stuck, one at the same job for %llu ms",
			 health->nr_stuck, (unsigned long long)health->stuck_ms);
	return text;
}

static void answer_result(const struct endpoint *endpoint, struct evhttp_request *req, int result)
{
	struct rnl_health health;
	char text[128];

	switch (result) {
	case -EBADMSG:
		answer_error(endpoint, req, HTTP_BADREQUEST,
			     "this is no PNG, PGM or PPM, or a broken one");
		break;
	case -EFBIG:
		answer_error(endpoint, req, HTTP_ENTITYTOOLARGE, "too many pixels");
		break;
	case -EAGAIN:		/* from rnl_submit(): as many jobs are queued as may be */
		answer_error(endpoint, req, HTTP_SERVUNAVAIL, "too many requests at a time");
		break;
	case -ETIMEDOUT:	/* the job's: it was not started by its deadline */
		answer_error(endpoint, req, 504, "no worker was free in time");
		break;
	case -ECANCELED:	/* main() has stopped the pool */
	case -ESHUTDOWN:
		answer_error(endpoint, req, HTTP_SERVUNAVAIL, "the server ends");
		break;
	default:
		if (device_failed(endpoint->loop->server, &health))
			answer_error(endpoint, req, HTTP_SERVUNAVAIL,
				     reason(&health, text, sizeof(text)));
		else
			answer_error(endpoint, req, HTTP_INTERNAL, rnl_strerror(result));
	}
}

void slot_answer(struct slot *slot, int result)
{
	const struct endpoint *endpoint = slot->endpoint;
	struct evhttp_request *req = slot->req;
	const char *type = NULL;

	if (!result) {
		type = endpoint->route->task->write(slot, evhttp_request_get_output_buffer(req));
		if (!type)
			result = -ENOMEM;
	}
	slot_put(endpoint->loop, slot);
	if (result)
		answer_result(endpoint, req, result);
	else
		answer(endpoint, req, HTTP_OK, type);
}

/* ---- requests ------------------------------------------------------------ */

static void (*const starts[])(struct slot *slot) = {
	[ASYNC] = async_start, [SYNC] = sync_start, [THREAD] = thread_start,
};

static void handle_task(const struct endpoint *endpoint, struct evhttp_request *req)
{
	struct evbuffer *body = evhttp_request_get_input_buffer(req);
	const size_t bytes = evbuffer_get_length(body);
	struct loop *loop = endpoint->loop;
	struct slot *slot;

	if (bytes > loop->server->opt.max_body) {	/* evhttp has refused it already */
		answer_error(endpoint, req, HTTP_ENTITYTOOLARGE, "too many bytes");
		return;
	}
	slot = slot_get(loop);
	if (!slot) {
		answer_result(endpoint, req, -EAGAIN);
		return;
	}
	slot->endpoint = endpoint;
	slot->req = req;
	slot->bytes = bytes;
	evbuffer_remove(body, slot->in, bytes);
	starts[loop->server->opt.handler](slot);
}

static void handle_metrics(const struct endpoint *endpoint, struct evhttp_request *req)
{
	const int ret = metrics_write(endpoint->loop->server,
				      evhttp_request_get_output_buffer(req));

	if (ret)
		answer_result(endpoint, req, ret);
	else
		answer(endpoint, req, HTTP_OK, "text/plain; version=0.0.4; charset=utf-8");
}

static json_t *own_health(const struct server *server, bool *well)
{
	static const char *const states[] = { "ok", "overloaded", "stuck", "failed" };
	struct rnl_health health;
	char text[128];

	(void)device_failed(server, &health);
	*well = health.state <= RNL_HEALTH_OVERLOADED;
	return json_pack("{s:s, s:I, s:I, s:I, s:i, s:s*}", "state", states[health.state],
			 "queued", (json_int_t)health.queued,
			 "stuck_workers", (json_int_t)health.nr_stuck,
			 "stuck_ms", (json_int_t)health.stuck_ms,
			 "device_error", (int)health.device_error,
			 "reason", *well ? NULL : reason(&health, text, sizeof(text)));
}

int health_write_own(const struct server *server, struct evbuffer *out)
{
	bool well;

	return answer_json(own_health(server, &well), out) ? well : -1;
}

static void handle_healthz(const struct endpoint *endpoint, struct evhttp_request *req)
{
	const struct server *server = endpoint->loop->server;
	json_t *json;
	bool well;

	if (server->board)
		well = board_health(server, &json);
	else
		json = own_health(server, &well);
	if (answer_json(json, evhttp_request_get_output_buffer(req)))
		answer(endpoint, req, well ? HTTP_OK : HTTP_SERVUNAVAIL, "application/json");
	else
		answer_result(endpoint, req, -ENOMEM);
}

const struct route routes[NR_ROUTES] = {
	[ROUTE_WC] = { "/wc", EVHTTP_REQ_POST, "POST", handle_task, &wc_task },
	[ROUTE_SOBEL] = { "/sobel", EVHTTP_REQ_POST, "POST", handle_task, &edges_task },
	[ROUTE_METRICS] = { "/metrics", GET_OR_HEAD, "GET, HEAD", handle_metrics, NULL },
	[ROUTE_HEALTHZ] = { "/healthz", GET_OR_HEAD, "GET, HEAD", handle_healthz, NULL },
	[ROUTE_CRASH] = { "/crash", EVHTTP_REQ_POST, "POST", handle_task, &crash_task },
	[ROUTE_HANG] = { "/hang", EVHTTP_REQ_POST, "POST", handle_task, &hang_task },
	[ROUTE_OTHER] = { NULL, 0, NULL, NULL, NULL },
};

static void on_request(struct evhttp_request *req, void *arg)
{
	const struct endpoint *endpoint = arg;
	const struct route *route = endpoint->route;

	open_begins(endpoint->loop, req);
	if (!route->path) {
		answer_error(endpoint, req, HTTP_NOTFOUND, "there is no such path");
	} else if (evhttp_request_get_command(req) & route->methods) {
		route->handle(endpoint, req);
	} else {
		evhttp_add_header(evhttp_request_get_output_headers(req), "Allow", route->allow);
		answer_error(endpoint, req, HTTP_BADMETHOD, "this path has another method");
	}
}

int routes_set(struct loop *loop)
{
	/* All that evhttp knows; on_request() decides which one a path takes. */
	evhttp_set_allowed_methods(loop->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST |
				   EVHTTP_REQ_HEAD | EVHTTP_REQ_PUT | EVHTTP_REQ_DELETE |
				   EVHTTP_REQ_OPTIONS | EVHTTP_REQ_PATCH);
	for (int i = 0; i < NR_ROUTES; i++) {
		struct endpoint *endpoint = &loop->endpoints[i];

		endpoint->loop = loop;
		endpoint->route = &routes[i];
		if ((i == ROUTE_CRASH || i == ROUTE_HANG) &&
		    !loop->server->opt.allow_crash)
			continue;	/* no such path */
		if (!routes[i].path)
			evhttp_set_gencb(loop->http, on_request, endpoint);
		else if (evhttp_set_cb(loop->http, routes[i].path, on_request, endpoint))
			return -ENOMEM;
	}
	return 0;
}
