/* SPDX-License-Identifier: MIT */
/*
 * Maps paths to handlers, and answers requests.
 *
 * DESIGN
 * connection.c passes requests here when it has received them, head and body.
 *
 * --deadline limits the time to the answer.  After the deadline, a job that has not started never
 * starts, and a job that has started is notified that it is cancelled.  The answer is 504
 * immediately, and the slot becomes free when the work ends.
 *
 * Errors are JSON, too: { "error": "the reason" }.  Headers forbid a browser to cache an answer, or
 * to guess its type.
 *
 * A task takes a raw body, or a form with one field, which a browser sends without scripts.
 *
 * When the device has failed, the library completes each job with an error, and the loop answers
 * 503 without reading a buffer.  Each such answer also notifies main(), which ends the process if
 * --exit-on-failure was given.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>

#include <event2/buffer.h>
#include <jansson.h>

#include <runnel/stats.h>

#define GET_OR_HEAD (EVHTTP_REQ_GET | EVHTTP_REQ_HEAD)

/* ---- answers ------------------------------------------------------------- */

static void answer_error(const struct endpoint *endpoint, struct request *req, int code,
			 const char *text);

/* Sends an answer; its body is in req->out. */
static void answer(const struct endpoint *endpoint, struct request *req, int code,
		   const char *type)
{
	if (!request_count_answer(req)) {
		answer_error(endpoint, req, HTTP_SERVUNAVAIL, "the memory for requests is in use");
		return;
	}
	request_header(req, "X-Content-Type-Options", "nosniff");
	request_header(req, "Cache-Control", "no-store");
	metrics_count_answer(&endpoint->loop->metrics, (int)(endpoint->route - routes), code);
	request_answer(req, code, type);
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

static void answer_error(const struct endpoint *endpoint, struct request *req, int code,
			 const char *text)
{
	const char *type;
	char seconds[16];

	if (code == HTTP_SERVUNAVAIL) {
		snprintf(seconds, sizeof(seconds), "%u", class_retry_s(req->class));
		request_header(req, "Retry-After", seconds);
	}
	evbuffer_drain(req->out, evbuffer_get_length(req->out));
	type = answer_json(json_pack("{s:s}", "error", text), req->out);
	answer(endpoint, req, code, type ? type : "text/plain");
}

void request_refuse(struct request *req, int code, const char *wrong)
{
	answer_error(req->endpoint, req, code, wrong);
}

/* Returns true, and notifies main(), if the device has failed.  @health: the pool's health. */
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
		snprintf(text, bytes, "the device has failed (CUDA error %d): this process must "
			 "be replaced", (int)health->device_error);
	else
		snprintf(text, bytes, "%u workers are stuck, one of them on one job for %llu ms",
			 health->nr_stuck, (unsigned long long)health->stuck_ms);
	return text;
}

static void answer_result(const struct endpoint *endpoint, struct request *req, int result)
{
	struct rnl_health health;
	char text[128];

	switch (result) {
	case -EBADMSG:
		answer_error(endpoint, req, HTTP_BADREQUEST,
			     "this is not a PNG, PGM or PPM, or it is broken");
		break;
	case -EFBIG:
		answer_error(endpoint, req, HTTP_ENTITYTOOLARGE, "too many pixels");
		break;
	case -EAGAIN:		/* no slot is free; or from rnl_submit(): the queue is full */
		snprintf(text, sizeof(text), req->class->cls ? "the class %s is full" :
			 "too many concurrent requests", req->class->name);
		answer_error(endpoint, req, HTTP_SERVUNAVAIL, text);
		break;
	case -ETIME:
		snprintf(text, sizeof(text), "the class %s is full: the answer would not be ready in "
			 "time", req->class->name);
		answer_error(endpoint, req, HTTP_SERVUNAVAIL, text);
		break;
	case -ETIMEDOUT:	/* the job was not started by its deadline */
		answer_error(endpoint, req, 504, "the answer was not ready in time");
		break;
	case -ECANCELED:	/* main() has stopped the pool */
	case -ESHUTDOWN:
		answer_error(endpoint, req, HTTP_SERVUNAVAIL, "the server is shutting down");
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
	struct request *req = slot->req;
	const char *type = NULL;

	class_leave(slot->class);
	if (!req) {		/* answered already, or the client has left */
		slot_put(endpoint->loop, slot);
		return;
	}
	req->slot = NULL;
	if (!result) {
		type = endpoint->route->task->write(slot, req->out);
		if (!type)
			result = -ENOMEM;
	}
	metrics_count_time(&endpoint->loop->metrics, (int)(endpoint->route - routes),
			   rnl_clock() - slot->came_ns);
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

static void handle_task(const struct endpoint *endpoint, struct request *req)
{
	struct loop *loop = endpoint->loop;
	const char *wrong = form_unwrap(head_find(&req->head, "Content-Type"), req->body,
					&req->bytes);
	struct slot *slot;
	int ret;

	if (wrong) {
		answer_error(endpoint, req, HTTP_BADREQUEST, wrong);
		return;
	}
	ret = class_enter(req->class);
	slot = ret ? NULL : slot_get(loop);
	if (!slot) {
		if (!ret)
			class_leave(req->class);
		answer_result(endpoint, req, ret ? ret : -EAGAIN);
		return;
	}
	slot->endpoint = endpoint;
	slot->req = req;
	slot->class = req->class;
	slot->bytes = req->bytes;
	memcpy(slot->more.trace_id, req->trace_id, sizeof(slot->more.trace_id));
	slot->came_ns = rnl_clock();
	if (req->bytes)
		memcpy(slot->in, req->body, req->bytes);
	request_drop_body(req);
	req->slot = slot;
	starts[loop->server->opt.handler](slot);
}

static void handle_metrics(const struct endpoint *endpoint, struct request *req)
{
	const int ret = metrics_write(endpoint->loop->server, req->out);

	if (ret)
		answer_result(endpoint, req, ret);
	else
		answer(endpoint, req, HTTP_OK, "text/plain; version=0.0.4; charset=utf-8");
}

static void handle_page(const struct endpoint *endpoint, struct request *req)
{
	char policy[PAGE_POLICY_BYTES];
	const int ret = page_write(req->out, endpoint->route == &routes[ROUTE_DOCS], policy);

	if (ret) {
		answer_result(endpoint, req, ret);
		return;
	}
	request_header(req, "Content-Security-Policy", policy);
	answer(endpoint, req, HTTP_OK, "text/html; charset=utf-8");
}

static void handle_live(const struct endpoint *endpoint, struct request *req)
{
	if (answer_json(live_json(endpoint->loop->server), req->out))
		answer(endpoint, req, HTTP_OK, "application/json");
	else
		answer_result(endpoint, req, -ENOMEM);
}

const char *health_name(unsigned state)
{
	static const char *const names[] = { "ok", "overloaded", "stuck", "failed" };

	return names[state];
}

static json_t *own_health(const struct server *server, bool *well)
{
	struct rnl_health health;
	char text[128];

	(void)device_failed(server, &health);
	*well = health.state <= RNL_HEALTH_OVERLOADED;
	return json_pack("{s:s, s:I, s:I, s:I, s:i, s:s*}", "state", health_name(health.state),
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

static void handle_healthz(const struct endpoint *endpoint, struct request *req)
{
	const struct server *server = endpoint->loop->server;
	json_t *json;
	bool well;

	if (server->board)
		well = board_health(server, &json);
	else
		json = own_health(server, &well);
	if (answer_json(json, req->out))
		answer(endpoint, req, well ? HTTP_OK : HTTP_SERVUNAVAIL, "application/json");
	else
		answer_result(endpoint, req, -ENOMEM);
}

const struct route routes[NR_ROUTES] = {
	[ROUTE_WC] = { "/wc", EVHTTP_REQ_POST, "POST", handle_task, &wc_task },
	[ROUTE_SOBEL] = { "/sobel", EVHTTP_REQ_POST, "POST", handle_task, &edges_task },
	[ROUTE_METRICS] = { "/metrics", GET_OR_HEAD, "GET, HEAD", handle_metrics, NULL },
	[ROUTE_HEALTHZ] = { "/healthz", GET_OR_HEAD, "GET, HEAD", handle_healthz, NULL },
	[ROUTE_PAGE] = { "/", GET_OR_HEAD, "GET, HEAD", handle_page, NULL },
	[ROUTE_DOCS] = { "/docs", GET_OR_HEAD, "GET, HEAD", handle_page, NULL },
	[ROUTE_LIVE] = { "/live", GET_OR_HEAD, "GET, HEAD", handle_live, NULL },
	[ROUTE_CRASH] = { "/crash", EVHTTP_REQ_POST, "POST", handle_task, &crash_task },
	[ROUTE_HANG] = { "/hang", EVHTTP_REQ_POST, "POST", handle_task, &hang_task },
	[ROUTE_OTHER] = { NULL, 0, NULL, NULL, NULL },
};

/* Returns false for paths that are not enabled, too: they are answered 404. */
static bool exists(const struct loop *loop, int route)
{
	return routes[route].path && ((route != ROUTE_CRASH && route != ROUTE_HANG) ||
				      loop->server->opt.allow_crash);
}

const struct endpoint *routes_find(const struct loop *loop, const char *path)
{
	for (int i = 0; path && i < NR_ROUTES; i++)
		if (exists(loop, i) && !strcmp(path, routes[i].path))
			return &loop->endpoints[i];
	return &loop->endpoints[ROUTE_OTHER];
}

bool routes_take(const struct endpoint *endpoint, const struct head *head)
{
	return endpoint->route->path && head->method & endpoint->route->methods &&
	       !(endpoint->route->task && head_encoded(head));
}

void routes_handle(struct request *req)
{
	const struct endpoint *endpoint = req->endpoint;
	const struct route *route = endpoint->route;

	if (!route->path) {
		answer_error(endpoint, req, HTTP_NOTFOUND, "there is no such path");
	} else if (!(req->head.method & route->methods)) {
		request_header(req, "Allow", route->allow);
		answer_error(endpoint, req, HTTP_BADMETHOD, "this path does not have the method");
	} else if (!routes_take(endpoint, &req->head)) {
		request_header(req, "Accept-Encoding", "identity");
		answer_error(endpoint, req, 415, "the body must not have a Content-Encoding");
	} else {
		route->handle(endpoint, req);
	}
}

void request_left(struct request *req)
{
	if (!req->slot)
		return;
	req->slot->req = NULL;
	(void)rnl_job_cancel(&req->slot->job);
	req->slot = NULL;
}

void request_late(struct request *req)
{
	if (req->slot)
		metrics_count_time(&req->endpoint->loop->metrics,
				   (int)(req->endpoint->route - routes),
				   rnl_clock() - req->slot->came_ns);
	request_left(req);
	answer_error(req->endpoint, req, 504, "the answer was not ready in time");
}

void routes_set(struct loop *loop)
{
	for (int i = 0; i < NR_ROUTES; i++) {
		loop->endpoints[i].loop = loop;
		loop->endpoints[i].route = &routes[i];
	}
}
