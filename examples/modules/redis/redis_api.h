/* SPDX-License-Identifier: MIT */
/*
 * The calls of Redis's module API that redis.c makes, by the names of Redis's own header: replace this
 * file by that one, src/redismodule.h of the sources of Redis 7.0 or later, which Debian has in no
 * package. A module finds each call by its name, through the first word of the context.
 */
#ifndef REDIS_API_H
#define REDIS_API_H

#include <stddef.h>

#define REDISMODULE_OK 0
#define REDISMODULE_ERR 1
#define REDISMODULE_APIVER_1 1
#define REDISMODULE_CTX_FLAGS_DENY_BLOCKING (1 << 21)
#define REDISMODULE_EVENTLOOP_READABLE 1

typedef struct RedisModuleCtx RedisModuleCtx;
typedef struct RedisModuleString RedisModuleString;
typedef struct RedisModuleBlockedClient RedisModuleBlockedClient;
typedef int (*RedisModuleCmdFunc)(RedisModuleCtx *ctx, RedisModuleString **argv, int argc);
typedef void (*RedisModuleDisconnectFunc)(RedisModuleCtx *ctx, RedisModuleBlockedClient *bc);
typedef void (*RedisModuleEventLoopFunc)(int fd, void *user_data, int mask);

#define REDIS_CALLS(X) \
	X(void *, Alloc, (size_t bytes)) \
	X(RedisModuleBlockedClient *, BlockClient, (RedisModuleCtx *ctx, RedisModuleCmdFunc reply, \
		RedisModuleCmdFunc timeout, void (*free_privdata)(RedisModuleCtx *, void *), long long timeout_ms)) \
	X(int, CreateCommand, (RedisModuleCtx *ctx, const char *name, RedisModuleCmdFunc command, \
		const char *flags, int first_key, int last_key, int key_step)) \
	X(int, EventLoopAdd, (int fd, int mask, RedisModuleEventLoopFunc function, void *user_data)) \
	X(int, EventLoopDel, (int fd, int mask)) \
	X(void, Free, (void *memory)) \
	X(void *, GetBlockedClientPrivateData, (RedisModuleCtx *ctx)) \
	X(int, GetContextFlags, (RedisModuleCtx *ctx)) \
	X(int, IsModuleNameBusy, (const char *name)) \
	X(void, Log, (RedisModuleCtx *ctx, const char *level, const char *format, ...)) \
	X(int, ReplyWithError, (RedisModuleCtx *ctx, const char *error)) \
	X(int, ReplyWithLongLong, (RedisModuleCtx *ctx, long long number)) \
	X(void, SetDisconnectCallback, (RedisModuleBlockedClient *bc, RedisModuleDisconnectFunc callback)) \
	X(void, SetModuleAttribs, (RedisModuleCtx *ctx, const char *name, int version, int api_version)) \
	X(const char *, StringPtrLen, (const RedisModuleString *string, size_t *bytes)) \
	X(int, UnblockClient, (RedisModuleBlockedClient *bc, void *privdata)) \
	X(int, WrongArity, (RedisModuleCtx *ctx))

#define REDIS_POINTER(type, name, parameters) static type (*RedisModule_##name) parameters;
REDIS_CALLS(REDIS_POINTER)

/* Returns REDISMODULE_ERR if the name is in use, or if this Redis lacks a call. */
static inline int RedisModule_Init(RedisModuleCtx *ctx, const char *name, int version, int api_version)
{
	int (*get)(const char *name, void *function) = *(int (**)(const char *, void *))(void *)ctx;

#define REDIS_GET(type, name, parameters) \
	if (get("RedisModule_" #name, (void *)&RedisModule_##name)) \
		return REDISMODULE_ERR;
	REDIS_CALLS(REDIS_GET)
	if (RedisModule_IsModuleNameBusy(name))
		return REDISMODULE_ERR;
	RedisModule_SetModuleAttribs(ctx, name, version, api_version);
	return REDISMODULE_OK;
}

#endif /* REDIS_API_H */
