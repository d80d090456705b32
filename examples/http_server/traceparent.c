/* SPDX-License-Identifier: MIT */
/*
 * The header traceparent: W3C Trace Context, level 1.
 *
 *	00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01
 *	version, trace-id, parent-id, flags
 *
 * DESIGN
 * A request continues its client's trace.  If it has no valid header, or several, it begins a trace,
 * as the specification demands: such a header is no error.  The answer's header has the trace's id and
 * the id of the request's own span.  Later versions only append fields, so their first four are read.
 */
#include "config.h"

#include "server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define SPAN_BYTES 8
#define SAMPLED 1u	/* the only flag of version 00 */

static const char digits[] = "0123456789abcdef";

/* Reads bytes in lower case, as the specification demands. */
static bool read_hex(const char **at, unsigned char *to, size_t nr)
{
	for (size_t i = 0; i < 2 * nr; i++) {
		const char *digit = **at ? strchr(digits, *(*at)++) : NULL;

		if (!digit)
			return false;
		to[i / 2] = (unsigned char)(i % 2 ? to[i / 2] + (digit - digits) : (digit - digits) * 16);
	}
	return true;
}

static bool is_any(const unsigned char *bytes, size_t nr)
{
	while (nr && !bytes[nr - 1])
		nr--;
	return nr;
}

static bool read_header(const char *at, unsigned char *trace_id, unsigned char *flags)
{
	unsigned char version, span[SPAN_BYTES];

	return read_hex(&at, &version, 1) && version != 0xff && *at++ == '-' &&
	       read_hex(&at, trace_id, TRACE_BYTES) && *at++ == '-' &&
	       read_hex(&at, span, sizeof(span)) && *at++ == '-' &&
	       read_hex(&at, flags, 1) && (!*at || (version && *at == '-')) &&
	       is_any(trace_id, TRACE_BYTES) && is_any(span, sizeof(span));
}

static const char *write_hex(char *to, const unsigned char *bytes, size_t nr)
{
	for (size_t i = 0; i < 2 * nr; i++)
		to[i] = digits[i % 2 ? bytes[i / 2] % 16 : bytes[i / 2] / 16];
	to[2 * nr] = '\0';
	return to;
}

bool traceparent_follow(const struct head *head, unsigned char trace_id[TRACE_BYTES],
			char text[TRACEPARENT_BYTES])
{
	const char *header = head_find_only(head, "traceparent");
	char trace_text[2 * TRACE_BYTES + 1], span_text[2 * SPAN_BYTES + 1];
	unsigned char span[SPAN_BYTES], flags = 0;
	const bool begins = !header || !read_header(header, trace_id, &flags);

	if (getentropy(span, sizeof(span)) || (begins && getentropy(trace_id, TRACE_BYTES))) {
		memset(trace_id, 0, TRACE_BYTES);
		return false;
	}
	snprintf(text, TRACEPARENT_BYTES, "00-%s-%s-%02x",
		 write_hex(trace_text, trace_id, TRACE_BYTES),
		 write_hex(span_text, span, sizeof(span)), begins ? 0 : flags & SAMPLED);
	return true;
}
