/* SPDX-License-Identifier: MIT */
/* A pool's log: lines for the caller's function. */
#include "config.h"

#include <stdarg.h>
#include <stdio.h>

#include "pool/pool.h"

void rnl__pool_log(struct rnl_pool *pool, enum rnl_log_level level, const char *format, ...)
{
	char line[640];
	va_list ap;

	if (!pool->log)
		return;
	va_start(ap, format);
	vsnprintf(line, sizeof(line), format, ap);
	va_end(ap);
	pool->log(pool->log_arg, level, line);
}
