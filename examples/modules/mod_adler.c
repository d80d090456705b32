/* SPDX-License-Identifier: MIT */
/*
 * Apache: "SetHandler adler" answers a POST with its body's checksum. "AdlerPool DEVICE WORKERS MAX_QUEUED"
 * makes each child process create a pool, "AdlerDeadline MILLISECONDS" bounds the time until a job starts.
 *
 *	apxs -c -I.. -Wc,"$(pkg-config --cflags runnel)" -Wl,-Wl,-znodelete mod_adler.c adler/adler.c \
 *		adler/device.c $(pkg-config --libs runnel)
 *
 * Each request has a thread, which waits: the job is on the thread's stack. Any MPM will do.
 * The linker's flag keeps it loaded: Apache unloads its modules once at its start, see docs/embedding.md.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <ap_mpm.h>
#include <httpd.h>
#include <http_config.h>
#include <http_log.h>
#include <http_protocol.h>
#include <http_request.h>

#include <runnel/device.h>

#include "adler/adler.h"

#define TEXT_MAX 65536
module AP_MODULE_DECLARE_DATA adler_module;
APLOG_USE_MODULE(adler);

static struct rnl_pool_attr attr;
static int64_t deadline_ns;
static struct rnl_pool *pool;		/* of this child process */

static void log_line(void *server, enum rnl_log_level level, const char *line)
{
	ap_log_error(APLOG_MARK, level == RNL_LOG_ERROR ? APLOG_ERR : APLOG_WARNING, 0, server, "runnel: %s", line);
}

/* All threads that serve requests have ended. Without threads, SIGTERM calls cleanups in its handler. */
static apr_status_t end(void *unused)
{
	(void)unused;
	rnl_pool_destroy(pool);
	return APR_SUCCESS;
}

/* After the last fork. If there is no pool, which the log explains, requests get 503. */
static void begin(apr_pool_t *child, server_rec *server)
{
	int threaded = 0;

	if (!attr.device)
		return;
	attr.log = log_line;
	attr.log_arg = server;
	ap_mpm_query(AP_MPMQ_IS_THREADED, &threaded);
	if (!rnl_pool_create(&pool, &attr) && threaded)
		apr_pool_cleanup_register(child, NULL, end, apr_pool_cleanup_null);
}

/* The answer has been sent. The parent process starts another child. */
static apr_status_t end_sick(void *unused)
{
	(void)unused;
	_exit(APEXIT_CHILDSICK);
}

/* Returns the length, or -1 if it is more than TEXT_MAX or the client has gone away. */
static long read_body(request_rec *r, char *text)
{
	long bytes = 0, nr;

	if (ap_setup_client_block(r, REQUEST_CHUNKED_DECHUNK) || !ap_should_client_block(r))
		return 0;
	while ((nr = ap_get_client_block(r, text + bytes, (apr_size_t)(TEXT_MAX + 1 - bytes))) > 0)
		bytes += nr;
	return nr < 0 || bytes > TEXT_MAX ? -1 : bytes;
}

static int handle(request_rec *r)
{
	char *text;
	struct adler adler;
	long bytes;
	int ret;

	if (!r->handler || strcmp(r->handler, "adler"))
		return DECLINED;
	text = apr_palloc(r->pool, TEXT_MAX + 1);
	bytes = read_body(r, text);
	if (bytes < 0)
		return HTTP_REQUEST_ENTITY_TOO_LARGE;
	adler_init(&adler, text, (size_t)bytes);
	rnl_job_set_deadline(&adler.job, deadline_ns);
	ret = pool ? rnl_submit(pool, &adler.job) : -ENODEV;
	if (ret == -EIO)		/* the device has failed, for this process */
		apr_pool_cleanup_register(r->pool, NULL, end_sick, apr_pool_cleanup_null);
	if (ret)
		return HTTP_SERVICE_UNAVAILABLE;
	rnl_job_wait(&adler.job, RNL_FOREVER);	/* the deadline does not bound a job that runs */
	if (adler.job.result < 0) {
		ap_log_rerror(APLOG_MARK, APLOG_ERR, 0, r, "adler: %s", rnl_strerror(adler.job.result));
		return adler.job.result == -ETIMEDOUT ? HTTP_SERVICE_UNAVAILABLE : HTTP_INTERNAL_SERVER_ERROR;
	}
	ap_set_content_type(r, "text/plain");
	ap_set_content_length(r, 9);
	ap_rprintf(r, "%08x\n", adler_value(&adler));
	return OK;
}

static const char *set_pool(cmd_parms *command, void *conf, const char *device, const char *workers,
			    const char *max_queued)
{
	(void)command, (void)conf;
	attr.device = device;
	attr.nr_workers = (uint32_t)atoi(workers);
	attr.max_queued = (uint32_t)atoi(max_queued);
	return NULL;
}

static const char *set_deadline(cmd_parms *command, void *conf, const char *ms)
{
	(void)command, (void)conf;
	deadline_ns = atoll(ms) * 1000000;
	return NULL;
}

static const command_rec commands[] = {
	AP_INIT_TAKE3("AdlerPool", set_pool, NULL, RSRC_CONF, "device, workers, most queued jobs"),
	AP_INIT_TAKE1("AdlerDeadline", set_deadline, NULL, RSRC_CONF, "milliseconds until a job starts"),
	{ NULL }
};

/* In the parent process, which has one thread; the children inherit the environment. */
static void add_hooks(apr_pool_t *conf)
{
	(void)conf;
	attr = (struct rnl_pool_attr)RNL_POOL_ATTR_INIT;
	deadline_ns = 10000000000;
	rnl_setup();
	ap_hook_child_init(begin, NULL, NULL, APR_HOOK_MIDDLE);
	ap_hook_handler(handle, NULL, NULL, APR_HOOK_MIDDLE);
}

module AP_MODULE_DECLARE_DATA adler_module = {
	STANDARD20_MODULE_STUFF, NULL, NULL, NULL, NULL, commands, add_hooks, 0
};
