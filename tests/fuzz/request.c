/* SPDX-License-Identifier: MIT */
/*
 * Untrusted requests: how examples/http_server reads a head, and a body in chunks.
 *
 * DESIGN
 * The text's buffer has exactly its size, so the address sanitizer reports each access past the
 * end. A refused head has a code and a reason; an accepted head has a path, and its answer a valid
 * traceparent, whatever the head's is. A body in chunks has
 * the same content, or the same error, wherever its text is cut.
 */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "examples/http_server/server.h"

#include "tests/fuzz/fuzz.h"

#define PIECE 7		/* bytes at a time */
#define BODY_MAX 100	/* bytes of a body in chunks */

/* Checks a head.  Returns true if a body in chunks follows. */
static bool check_head(const char *text, size_t bytes)
{
	char *copy = malloc(bytes + 1), trace[TRACEPARENT_BYTES];
	unsigned char trace_id[TRACE_BYTES];
	struct head head;
	bool chunked;
	int code;

	must(copy);
	memcpy(copy, text, bytes);
	copy[bytes] = '\0';
	code = head_parse(copy, &head);
	must(code == 0 || (code >= 400 && code < 600));
	must(!code == !head.wrong);
	must(code || *head.path == '/' || !strcmp(head.path, "*"));
	must(code || head_find(&head, "Host") || head.old);
	for (unsigned i = 0; i < head.nr_fields; i++)
		must(head.fields[i].value + strlen(head.fields[i].value) < copy + bytes);
	must(code || (traceparent_follow(&head, trace_id, trace) &&
		      strspn(trace, "0123456789abcdef-") == TRACEPARENT_BYTES - 1));
	chunked = !code && head.chunked;
	free(copy);
	return chunked;
}

/* Copies the body to @body.  Returns its bytes, or a negative errno if it is refused. */
static long read_chunks(const char *text, size_t bytes, size_t piece, char *body)
{
	struct chunks chunks = { .room = BODY_MAX };
	size_t at = 0, nr = 0;

	while (at < bytes && !chunks.end) {
		const size_t there = bytes - at < piece ? bytes - at : piece;
		size_t framing, data;
		const int ret = chunks_read(&chunks, text + at, there, &framing, &data);

		must(ret == 0 || ret == -EBADMSG || ret == -EFBIG);
		if (ret)
			return ret;
		must(framing + data > 0 && framing + data <= there);
		memcpy(body + nr, text + at + framing, data);
		nr += data;
		at += framing + data;
	}
	must(nr <= BODY_MAX);
	return (long)nr;
}

static void check_chunks(const char *text, size_t bytes)
{
	char *whole = malloc(bytes + 1), *cut = malloc(bytes + 1);
	long nr;

	must(whole && cut);
	nr = read_chunks(text, bytes, bytes, whole);
	must(nr == read_chunks(text, bytes, PIECE, cut) && nr == read_chunks(text, bytes, 1, cut));
	must(nr < 0 || !memcmp(whole, cut, (size_t)nr));
	free(whole);
	free(cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const char *text = (const char *)data;
	const char *end = bytes ? memmem(text, bytes, "\r\n\r\n", 4) : NULL;
	const size_t head_bytes = end ? (size_t)(end - text) + 4 : bytes;

	if (head_bytes <= HEAD_MAX && check_head(text, head_bytes))
		check_chunks(text + head_bytes, bytes - head_bytes);
	return 0;
}
