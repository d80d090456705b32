/* SPDX-License-Identifier: MIT */
/*
 * Varnish: adler.sum(text) in VCL.
 *
 *	touch config.h; python3 /usr/share/varnish/vmodtool.py vmod_adler.vcc		# writes vcc_if.c, vcc_if.h
 *	cc -shared -fPIC -o libvmod_adler.so vmod_adler.c vcc_if.c ../adler/adler.c ../adler/device.c \
 *		-Wl,-z,nodelete -I. -I.. $(pkg-config --cflags --libs varnishapi runnel)
 *
 * Each request has a thread, which waits: the job is on the thread's stack. All VCLs of the child
 * process share one pool, which exists while a VCL is warm: a cold VCL has no requests. The manager
 * process, which compiles VCL, has no warm VCL and no pool.
 */
#include <stdio.h>
#include <string.h>

#include <cache/cache.h>
#include <vsb.h>

#include "adler/adler.h"

#include "vcc_if.h"

/* Only the thread that executes the manager's commands writes these, before requests read them. */
static struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
static struct rnl_pool *pool;
static unsigned nr_warm;		/* VCLs */

static void log_line(void *arg, enum rnl_log_level level, const char *line)
{
	(void)arg;
	VSL(level == RNL_LOG_INFO ? SLT_Debug : SLT_Error, 0, "runnel: %s", line);
}

static int warm(VRT_CTX)
{
	int ret = 0;

	attr.log = log_line;
	if (!nr_warm)
		ret = rnl_pool_create(&pool, &attr);
	if (ret)
		VSB_printf(ctx->msg, "adler: no pool on the device: %s\n", rnl_strerror(ret));
	else
		nr_warm++;
	return ret;			/* an error: the VCL stays cold */
}

static void cool(void)
{
	if (--nr_warm)
		return;
	rnl_pool_destroy(pool);
	pool = NULL;
}

int v_matchproto_(vmod_event_f) vmod_event(VRT_CTX, struct vmod_priv *priv, enum vcl_event_e event)
{
	(void)priv;
	if (event == VCL_EVENT_WARM)
		return warm(ctx);
	if (event == VCL_EVENT_COLD)
		cool();
	return 0;
}

VCL_VOID vmod_pool(VRT_CTX, VCL_STRING device, VCL_INT workers, VCL_INT max_queued)
{
	static char name[64];

	(void)ctx;
	if (nr_warm)
		return;			/* the pool exists */
	snprintf(name, sizeof(name), "%s", device ? device : "auto");
	attr.device = name;
	attr.nr_workers = (uint32_t)workers;
	attr.max_queued = (uint32_t)max_queued;
}

VCL_STRING vmod_sum(VRT_CTX, VCL_STRING text, VCL_DURATION start_within)
{
	struct adler adler;
	int ret;

	adler_init(&adler, text, text ? strlen(text) : 0);
	rnl_job_set_deadline(&adler.job, (int64_t)(start_within * 1e9));
	ret = rnl_submit(pool, &adler.job);
	if (!ret) {
		rnl_job_wait(&adler.job, RNL_FOREVER);	/* the deadline does not bound a job that runs */
		ret = adler.job.result;
	}
	if (ret < 0) {
		if (ctx->vsl)
			VSLb(ctx->vsl, SLT_Error, "adler: %s", rnl_strerror(ret));
		return NULL;
	}
	return WS_Printf(ctx->ws, "%08x", adler_value(&adler));
}
