/* SPDX-License-Identifier: MIT */
/*
 * The pages of GET / and GET /docs.
 *
 * DESIGN
 * page.html and README.md, as HTML, are compiled in, so that the program is one file.  A Content-Security-Policy makes a
 * browser use only the page's own script and style, and load nothing from elsewhere.  The policy
 * has a random number for each answer, and this number replaces each "@nonce@" in the page.
 */
#include "config.h"

#include "server.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>

#include <event2/buffer.h>

#define NONCE_BYTES 16

static const unsigned char page[] = {
#include "page.inc"
}, docs[] = {
#include "docs.inc"
};

static const char place[] = "@nonce@";

int page_write(struct evbuffer *out, bool is_docs, char policy[PAGE_POLICY_BYTES])
{
	const unsigned char *at = is_docs ? docs : page, *next;
	const unsigned char *const end = at + (is_docs ? sizeof(docs) : sizeof(page));
	unsigned char random[NONCE_BYTES];
	char nonce[2 * NONCE_BYTES + 1];
	int ret = 0;

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -errno;
	for (int i = 0; i < NONCE_BYTES; i++)
		snprintf(nonce + 2 * i, 3, "%02x", random[i]);
	snprintf(policy, PAGE_POLICY_BYTES, "default-src 'none'; script-src 'nonce-%s'; "
		 "style-src 'nonce-%s'; img-src blob: data:; connect-src 'self'; "
		 "form-action 'self'; base-uri 'none'; frame-ancestors 'none'", nonce, nonce);
	while ((next = memmem(at, (size_t)(end - at), place, strlen(place)))) {
		ret |= evbuffer_add(out, at, (size_t)(next - at));
		ret |= evbuffer_add(out, nonce, strlen(nonce));
		at = next + strlen(place);
	}
	return ret | evbuffer_add(out, at, (size_t)(end - at)) ? -ENOMEM : 0;
}
