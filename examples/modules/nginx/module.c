/* SPDX-License-Identifier: MIT */
/*
 * nginx: "adler;" in a location answers a POST with the checksum of its body. "adler_pool DEVICE
 * WORKERS MAX_QUEUED;" in http {} makes each worker process create a pool.
 */
#include "module.h"

#include <runnel/device.h>

struct rnl_pool *adler_pool;
struct rnl_cq *adler_cq;
static ngx_connection_t *descriptor;	/* of the queue */

static void log_line(void *arg, enum rnl_log_level level, const char *line)
{
	const ngx_uint_t severity = level == RNL_LOG_ERROR ? NGX_LOG_ERR : NGX_LOG_WARN;

	(void)arg;
	ngx_log_error(severity, ngx_cycle->log, 0, "runnel: %s", line);
}

/* After the last fork, and after nginx has replaced the environment, which rnl_setup() changes. */
static ngx_int_t begin(ngx_cycle_t *cycle)
{
	struct rnl_pool_attr *attr = ngx_http_cycle_get_module_main_conf(cycle, ngx_http_adler_module);

	if (!attr || !attr->device || ngx_process == NGX_PROCESS_HELPER)
		return NGX_OK;
	attr->log = log_line;
	rnl_setup();
	if (rnl_pool_create(&adler_pool, attr))
		return NGX_OK;		/* requests get 503 */
	if (rnl_cq_create(&adler_cq) || !(descriptor = ngx_get_connection(rnl_cq_fd(adler_cq), cycle->log)))
		return NGX_ERROR;
	descriptor->read->handler = adler_reap;
	descriptor->read->log = cycle->log;
	return ngx_add_event(descriptor->read, NGX_READ_EVENT, NGX_LEVEL_EVENT);
}

/* A process that quits has no requests any more. If it terminates, its jobs are cancelled. */
static void end(ngx_cycle_t *cycle)
{
	(void)cycle;
	if (descriptor) {
		ngx_free_connection(descriptor);
		descriptor->fd = (ngx_socket_t)-1;	/* the library closes it */
	}
	if (adler_pool && !rnl_pool_stop(adler_pool, 1000000000)) {
		rnl_pool_destroy(adler_pool);
		rnl_cq_destroy(adler_cq);
	}				/* else the process ends while a job runs */
}

static void *new_conf(ngx_conf_t *cf)
{
	struct rnl_pool_attr *attr = ngx_palloc(cf->pool, sizeof(*attr));

	if (attr)
		*attr = (struct rnl_pool_attr)RNL_POOL_ATTR_INIT;
	return attr;
}

static char *set_pool(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
	const ngx_str_t *word = cf->args->elts;
	struct rnl_pool_attr *attr = conf;

	(void)command;
	attr->device = (char *)word[1].data;
	attr->nr_workers = (uint32_t)ngx_atoi(word[2].data, word[2].len);
	attr->max_queued = (uint32_t)ngx_atoi(word[3].data, word[3].len);
	return NGX_CONF_OK;
}

static char *set_location(ngx_conf_t *cf, ngx_command_t *command, void *conf)
{
	ngx_http_core_loc_conf_t *location = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

	(void)command, (void)conf;
	location->handler = adler_handle;
	return NGX_CONF_OK;
}

static ngx_command_t commands[] = {
	{ ngx_string("adler_pool"), NGX_HTTP_MAIN_CONF | NGX_CONF_TAKE3, set_pool, NGX_HTTP_MAIN_CONF_OFFSET,
	  0, NULL },
	{ ngx_string("adler"), NGX_HTTP_LOC_CONF | NGX_CONF_NOARGS, set_location, 0, 0, NULL },
	ngx_null_command
};
static ngx_http_module_t context = { .create_main_conf = new_conf };
ngx_module_t ngx_http_adler_module = {
	NGX_MODULE_V1, &context, commands, NGX_HTTP_MODULE, .init_process = begin, .exit_process = end,
	NGX_MODULE_V1_PADDING
};
