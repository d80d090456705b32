/* SPDX-License-Identifier: MIT */
/* Shared by the parts of the module: the process and the requests. */
#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_http.h>

#include "adler/adler.h"

extern ngx_module_t ngx_http_adler_module;
extern struct rnl_pool *adler_pool;	/* of this worker process; NULL if it has none */
extern struct rnl_cq *adler_cq;

/* Handler of a location. */
ngx_int_t adler_handle(ngx_http_request_t *r);

/* Handler of the completion queue's descriptor. */
void adler_reap(ngx_event_t *event);
