/* SPDX-License-Identifier: MIT */
/* The driver's reasons for failed calls; cuda_log.h has the design. */
#include "config.h"

#include <ctype.h>
#include <cuda.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "device/cuda_driver.h"
#include "device/cuda_log.h"
#include "sys/sizes.h"
#include "sys/thread_state.h"

#define LOGS_VERSION 12090	/* earliest driver with cuLogsRegisterCallback() */
#define LEVEL_ERROR 0		/* CU_LOG_LEVEL_ERROR */
#define REASONS 16u
#define RETURNING "Returning "

/* cuda.h has these types since 12.9. */
typedef void log_fn(void *data, int level, char *message, size_t length);
typedef CUresult log_register_fn(log_fn *fn, void *data, void **handlep);
typedef CUresult log_unregister_fn(void *handle);

static struct {
	log_register_fn *add;		/* NULL: the driver gives no reasons */
	log_unregister_fn *remove;
	pthread_mutex_t lock;
	unsigned users;
	void *handle;			/* NULL: not registered */
} logs = { .lock = PTHREAD_MUTEX_INITIALIZER };

/* A thread's last failed call. */
struct reason {
	uint32_t tid;
	int code;			/* 0: the call has not returned yet */
	char text[200];
};
static struct reason reasons[REASONS];
static pthread_mutex_t reasons_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- the driver's messages ------------------------------------------------ */

/* Copies the first name of a CUDA function in the message, or "": for the guard. */
static void read_call(char *call, size_t bytes, const char *message, size_t length)
{
	const char *end = message + length;
	size_t n = 0;

	for (const char *at = message; at + 3 < end && !n; at++) {
		if (at[0] != 'c' || at[1] != 'u' ||
		    (at > message && isalnum((unsigned char)at[-1])))
			continue;
		if (!isupper((unsigned char)at[2]) && strncmp(at, "cuda", 4))
			continue;
		for (; at + n < end && n < bytes - 1 &&
		       (isalnum((unsigned char)at[n]) || at[n] == '_'); n++)
			call[n] = at[n];
	}
	call[n] = '\0';
}

/* Appends a message, as one line. */
static void add_text(struct reason *r, const char *message, size_t length)
{
	size_t nr = strlen(r->text);

	if (nr)
		nr += (size_t)snprintf(r->text + nr, sizeof(r->text) - nr, ". ");
	for (size_t i = 0; i < length && nr + 1 < sizeof(r->text); i++)
		r->text[nr++] = iscntrl((unsigned char)message[i]) ? ' ' : message[i];
	r->text[rnl__smaller(nr, sizeof(r->text) - 1)] = '\0';
}

/* Several messages may come before the call returns: the first is the most exact. */
static void note_message(struct reason *r, const char *message, size_t length)
{
	const bool returns = length > strlen(RETURNING) &&
			     !memcmp(message, RETURNING, strlen(RETURNING));

	if (r->tid != rnl__thread_tid() || r->code)
		*r = (struct reason){ .tid = rnl__thread_tid() };
	if (returns)
		r->code = (int)strtol(message + strlen(RETURNING), NULL, 10);
	if (returns || !r->text[0])
		add_text(r, message, length);
}

static void read_message(void *unused, int level, char *message, size_t length)
{
	struct rnl__guarded *guarded = rnl__thread.guard;

	(void)unused;
	if (guarded && !guarded->call[0])
		read_call(guarded->call, sizeof(guarded->call), message, length);
	if (level != LEVEL_ERROR || pthread_mutex_trylock(&reasons_lock))
		return;
	note_message(&reasons[rnl__thread_tid() % REASONS], message, length);
	pthread_mutex_unlock(&reasons_lock);
}

void rnl__cuda_log_reason(int code, char text[RNL__WHY_BYTES])
{
	struct reason *r = &reasons[rnl__thread_tid() % REASONS];

	if (pthread_mutex_trylock(&reasons_lock))
		return;
	if (r->tid == rnl__thread_tid() && r->code && (!code || r->code == code)) {
		snprintf(text, RNL__WHY_BYTES, "; the driver: %s", r->text);
		r->tid = 0;
	}
	pthread_mutex_unlock(&reasons_lock);
}

/* ---- registration ---------------------------------------------------------- */

void rnl__cuda_log_init(void)
{
	logs.add = (log_register_fn *)rnl__cuda_driver_function("cuLogsRegisterCallback",
								LOGS_VERSION, cudaEnableDefault);
	logs.remove = (log_unregister_fn *)rnl__cuda_driver_function(
		"cuLogsUnregisterCallback", LOGS_VERSION, cudaEnableDefault);
	if (!logs.remove)
		logs.add = NULL;
}

void rnl__cuda_log_begin(void)
{
	pthread_mutex_lock(&logs.lock);
	if (!logs.users++ && logs.add && logs.add(read_message, NULL, &logs.handle) != CUDA_SUCCESS)
		logs.handle = NULL;
	pthread_mutex_unlock(&logs.lock);
}

void rnl__cuda_log_end(void)
{
	pthread_mutex_lock(&logs.lock);
	if (!--logs.users && logs.handle) {
		(void)logs.remove(logs.handle);
		logs.handle = NULL;
	}
	pthread_mutex_unlock(&logs.lock);
}
