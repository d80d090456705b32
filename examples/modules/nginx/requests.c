/* SPDX-License-Identifier: MIT */
/*
 * Requests as jobs. The loop's thread never waits: jobs go to a completion queue, whose descriptor is
 * one of the loop's.
 *
 * A request under way is blocked, like those of nginx's own threads: even if the client goes away,
 * nginx keeps the request's memory until the job is reaped. Its timer also keeps a worker process that
 * shuts down, after a reload too, until then.
 */
#include "module.h"

#ifndef PATIENCE_MS
#define PATIENCE_MS 30000	/* then the job is cancelled, unless it has started */
#endif

struct request {
	struct adler adler;
	ngx_http_request_t *r;
	ngx_event_t timer;
	int done;
};

/* Called when the job was reaped, and before that by events of the client's connection. */
static void answer(ngx_http_request_t *r)
{
	struct request *q = ngx_http_get_module_ctx(r, ngx_http_adler_module);
	ngx_http_complex_value_t text = { .value.len = 9 };
	ngx_str_t type = ngx_string("text/plain");
	int result;

	if (!q->done)
		return;
	result = q->adler.job.result;
	if (result < 0)
		ngx_log_error(NGX_LOG_ERR, r->connection->log, 0, "adler: %s", rnl_strerror(result));
	text.value.data = ngx_pnalloc(r->pool, text.value.len);
	if (result < 0 || !text.value.data) {
		ngx_http_finalize_request(r, result == -ECANCELED ? NGX_HTTP_SERVICE_UNAVAILABLE :
								    NGX_HTTP_INTERNAL_SERVER_ERROR);
		return;
	}
	ngx_sprintf(text.value.data, "%08xD\n", adler_value(&q->adler));
	ngx_http_finalize_request(r, ngx_http_send_response(r, NGX_HTTP_OK, &type, &text));
}

void adler_reap(ngx_event_t *event)
{
	struct rnl_job *jobs[64];
	int nr;

	(void)event;
	do {
		nr = rnl_cq_reap(adler_cq, jobs, 64, 0);
		for (int i = 0; i < nr; i++) {
			struct request *q = jobs[i]->user;
			ngx_connection_t *c = q->r->connection;

			ngx_del_timer(&q->timer);
			q->done = 1;
			q->r->main->blocked--;
			q->r->write_event_handler(q->r);	/* answer(), or nginx's if the client is gone */
			ngx_http_run_posted_requests(c);
		}
	} while (nr == 64);
}

static void cancel(void *data)		/* the client is gone, or the timer has expired */
{
	rnl_job_cancel(&((struct request *)data)->adler.job);
}

static void expire(ngx_event_t *timer)
{
	cancel(timer->data);
	ngx_add_timer(timer, PATIENCE_MS);
}

/* Joins the parts of the body. Returns an error code of HTTP if it is in a file. */
static int body_of(ngx_http_request_t *r, u_char **text, size_t *bytes)
{
	ngx_chain_t *parts = r->request_body ? r->request_body->bufs : NULL;
	u_char *end;

	*bytes = 0;
	for (ngx_chain_t *in = parts; in; in = in->next) {
		if (in->buf->in_file)
			return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;	/* for client_body_buffer_size */
		*bytes += (size_t)ngx_buf_size(in->buf);
	}
	end = *text = ngx_pnalloc(r->pool, *bytes + 1);
	if (!end)
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	for (ngx_chain_t *in = parts; in; in = in->next)
		end = ngx_cpymem(end, in->buf->pos, (size_t)ngx_buf_size(in->buf));
	return 0;
}

static void submit(ngx_http_request_t *r)	/* the body has been read */
{
	struct request *q = ngx_http_get_module_ctx(r, ngx_http_adler_module);
	ngx_http_cleanup_t *cleanup = ngx_http_cleanup_add(r, 0);
	u_char *text;
	size_t bytes;
	int ret = cleanup ? body_of(r, &text, &bytes) : NGX_HTTP_INTERNAL_SERVER_ERROR;

	if (ret) {
		ngx_http_finalize_request(r, ret);
		return;
	}
	adler_init(&q->adler, text, bytes);
	q->adler.job.user = q;
	rnl_job_set_cq(&q->adler.job, adler_cq);
	ret = adler_pool ? rnl_submit(adler_pool, &q->adler.job) : -ENODEV;
	if (ret) {			/* the pool is full, or the device has failed */
		if (ret == -EIO)
			ngx_quit = 1;	/* the master process starts another worker process */
		ngx_http_finalize_request(r, NGX_HTTP_SERVICE_UNAVAILABLE);
		return;
	}
	cleanup->handler = cancel;
	cleanup->data = q;
	r->main->blocked++;
	r->read_event_handler = ngx_http_test_reading;	/* notices that the client goes away */
	r->write_event_handler = answer;
	q->timer = (ngx_event_t){ .handler = expire, .data = q, .log = r->connection->log };
	ngx_add_timer(&q->timer, PATIENCE_MS);
}

ngx_int_t adler_handle(ngx_http_request_t *r)
{
	struct request *q = ngx_pcalloc(r->pool, sizeof(*q));
	ngx_int_t ret;

	if (!q)
		return NGX_HTTP_INTERNAL_SERVER_ERROR;
	q->r = r;
	ngx_http_set_ctx(r, q, ngx_http_adler_module);
	ret = ngx_http_read_client_request_body(r, submit);
	return ret >= NGX_HTTP_SPECIAL_RESPONSE ? ret : NGX_DONE;
}
