/* SPDX-License-Identifier: MIT */
/*
 * Untrusted forms: the parts that examples/http_server extracts from a multipart body.
 *
 * DESIGN
 * The first line of an input is the Content-Type, the rest is the body, in memory of its size.
 * The extracted data is a part of the body; a refused form has a reason; a body that is not a form
 * is not changed.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "examples/http_server/server.h"

#include "tests/fuzz/fuzz.h"

static void check(const char *type, const uint8_t *data, size_t bytes)
{
	unsigned char *body = bytes ? malloc(bytes) : NULL;
	size_t content = bytes;
	const char *wrong;

	must(body || !bytes);
	if (bytes)
		memcpy(body, data, bytes);
	wrong = form_unwrap(type, body, &content);
	must(!wrong || *wrong);
	must(content <= bytes);
	if (!wrong && strncasecmp(type, "multipart/form-data", 19))
		must(content == bytes && (!bytes || !memcmp(body, data, bytes)));
	if (content)
		must(memmem(data, bytes, body, content) || wrong);
	free(body);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	const uint8_t *end = bytes ? memchr(data, '\n', bytes) : NULL;
	char *type = end ? strndup((const char *)data, (size_t)(end - data)) : NULL;

	if (type)
		check(type, end + 1, bytes - (size_t)(end + 1 - data));
	free(type);
	return 0;
}
