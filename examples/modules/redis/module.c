/* SPDX-License-Identifier: MIT */
/*
 * A Redis module: RUNNEL.ADLER32 text answers with the text's Adler-32 checksum, computed by a pool.
 *
 *	cc -shared -fPIC -fvisibility=hidden -I.. -o adler32.so module.c ../adler/adler.c \
 *		../adler/device.c $(pkg-config --cflags --libs runnel)
 *	redis-server --loadmodule ./adler32.so [DEVICE [MAX_QUEUED]]
 *
 * DESIGN
 * Redis's thread submits a job, blocks the client and goes on. Its event loop polls the descriptor of
 * the completion queue, too, and unblocks the client when the job is done. So no other thread calls
 * Redis, and this one never waits. Jobs see only the request, a copy of what Redis may change or free.
 * If a client disconnects, its job is cancelled; the request is freed when the job has been reaped.
 * Children, such as BGSAVE's, run no command, so they do not call runnel.
 * MODULE UNLOAD is refused by Redis while clients are blocked, and by the module after a failure of the
 * device: threads may remain then, and only a restart of Redis gets the device back.
 * SHUTDOWN needs no code: exit() may be called while jobs are under way.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "adler/adler.h"
#include "redis_api.h"

struct request {
	struct adler adler;
	RedisModuleBlockedClient *client;
	LIST_ENTRY(request) under_way;
	char text[];
};

static struct rnl_pool *pool;
static struct rnl_cq *cq;
static LIST_HEAD(, request) requests;		/* under way */
static int failed;				/* the device */

/* On any thread, as RedisModule_Log(). */
static void write_log(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	RedisModule_Log(NULL, level == RNL_LOG_INFO ? "notice" : "warning", "runnel: %s", msg);
}

static int reply_error(RedisModuleCtx *ctx, int err)
{
	return RedisModule_ReplyWithError(ctx, err == -EAGAIN ? "BUSY too many requests are queued" :
					       err == -EIO ? "ERR the device has failed: restart Redis" :
					       err == -EINVAL ? "ERR the text is empty or too long" :
								"ERR out of memory");
}

static int reply(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	const struct request *request = RedisModule_GetBlockedClientPrivateData(ctx);
	const int result = request->adler.job.result;

	(void)argv, (void)argc;
	return result ? reply_error(ctx, result) :
			RedisModule_ReplyWithLongLong(ctx, adler_value(&request->adler));
}

static void free_request(RedisModuleCtx *ctx, void *request)
{
	(void)ctx;
	RedisModule_Free(request);
}

static void disconnected(RedisModuleCtx *ctx, RedisModuleBlockedClient *client)
{
	struct request *request;

	(void)ctx;
	LIST_FOREACH(request, &requests, under_way)
		if (request->client == client)
			rnl_job_cancel(&request->adler.job);
}

static void reap(int fd, void *user_data, int mask)
{
	struct rnl_job *jobs[64];
	int nr = rnl_cq_reap(cq, jobs, 64, 0);		/* if there are more, Redis calls again */

	(void)fd, (void)user_data, (void)mask;
	for (int i = 0; i < nr; i++) {
		struct request *request = rnl_container_of(jobs[i], struct request, adler.job);

		failed |= jobs[i]->result == -EIO;
		LIST_REMOVE(request, under_way);
		RedisModule_UnblockClient(request->client, request);
	}
}

static int adler32(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct request *request;
	const char *text;
	size_t bytes;
	int ret;

	if (argc != 2)
		return RedisModule_WrongArity(ctx);
	if (RedisModule_GetContextFlags(ctx) & REDISMODULE_CTX_FLAGS_DENY_BLOCKING)
		return RedisModule_ReplyWithError(ctx, "ERR not allowed in MULTI and in scripts");
	text = RedisModule_StringPtrLen(argv[1], &bytes);
	request = RedisModule_Alloc(sizeof(*request) + bytes);
	memcpy(request->text, text, bytes);
	adler_init(&request->adler, request->text, bytes);
	rnl_job_set_cq(&request->adler.job, cq);
	ret = rnl_submit(pool, &request->adler.job);
	if (ret) {
		RedisModule_Free(request);
		return reply_error(ctx, ret);
	}
	LIST_INSERT_HEAD(&requests, request, under_way);
	request->client = RedisModule_BlockClient(ctx, reply, NULL, free_request, 0);
	RedisModule_SetDisconnectCallback(request->client, disconnected);
	return REDISMODULE_OK;
}

RNL_API int RedisModule_OnUnload(RedisModuleCtx *ctx)
{
	(void)ctx;
	if (failed || !LIST_EMPTY(&requests))
		return REDISMODULE_ERR;
	RedisModule_EventLoopDel(rnl_cq_fd(cq), REDISMODULE_EVENTLOOP_READABLE);
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
	return REDISMODULE_OK;
}

RNL_API int RedisModule_OnLoad(RedisModuleCtx *ctx, RedisModuleString **argv, int argc)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	if (RedisModule_Init(ctx, "runnel", 1, REDISMODULE_APIVER_1))
		return REDISMODULE_ERR;
	attr.device = argc > 0 ? RedisModule_StringPtrLen(argv[0], NULL) : "host";
	attr.max_queued = argc > 1 ? (uint32_t)atoi(RedisModule_StringPtrLen(argv[1], NULL)) : 0;
	attr.log = write_log;
	if (!rnl_pool_create(&pool, &attr) && !rnl_cq_create(&cq) &&
	    !RedisModule_CreateCommand(ctx, "runnel.adler32", adler32, "readonly", 0, 0, 0) &&
	    !RedisModule_EventLoopAdd(rnl_cq_fd(cq), REDISMODULE_EVENTLOOP_READABLE, reap, NULL))
		return REDISMODULE_OK;
	rnl_pool_destroy(pool);
	rnl_cq_destroy(cq);
	return REDISMODULE_ERR;			/* Redis unloads the module */
}
