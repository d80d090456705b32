/* SPDX-License-Identifier: MIT */
/*
 * The head of a request: its first line and its headers.
 *
 * DESIGN
 * The parser follows RFC 9112, and refuses ambiguous input: a NUL or other control character, a
 * bare line feed, a folded line, a space before a colon, Content-Length twice or together with
 * Transfer-Encoding, two Hosts or an invalid one, an invalid target.  A proxy might read such input
 * differently, and mistake a part of one request for the next request (request smuggling).
 *
 * Names and values are ended with a NUL in place, so they live as long as the text.
 */
#include "config.h"

#include "server.h"

#include <arpa/inet.h>
#include <string.h>
#include <strings.h>

/* ---- characters ---------------------------------------------------------- */

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_letter(char c)
{
	return (c | 0x20) >= 'a' && (c | 0x20) <= 'z';
}

bool head_is_token(char c)
{
	return is_digit(c) || is_letter(c) || (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(const char *text)
{
	const char *at = text;

	while (head_is_token(*at))
		at++;
	return at != text && !*at;
}

/* Removes blanks at both ends of a value.  Returns its first character. */
static char *trim(char *at, char *end)
{
	while (*at == ' ' || *at == '\t')
		at++;
	while (end > at && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	*end = '\0';
	return at;
}

/* Returns the next line, ended with a NUL; NULL if it has an invalid character. */
static char *next_line(char **at, char **line_end)
{
	char *line = *at, *c = line;

	while ((unsigned char)*c >= ' ' ? *c != 0x7f : *c == '\t')
		c++;
	if (c[0] != '\r' || c[1] != '\n')
		return NULL;
	*c = '\0';
	*line_end = c;
	*at = c + 2;
	return line;
}

/* ---- hosts --------------------------------------------------------------- */

static bool is_hex(char c)
{
	return is_digit(c) || ((c | 0x20) >= 'a' && (c | 0x20) <= 'f');
}

static bool is_name(char c)
{
	return is_digit(c) || is_letter(c) || (c && strchr("-._~!$&'()*+;=", c));
}

/* Returns true if the text up to @end is an IPv6 address. */
static bool is_address(const char *at, const char *end)
{
	char text[INET6_ADDRSTRLEN];
	struct in6_addr address;

	if (end - at >= (ptrdiff_t)sizeof(text))
		return false;
	memcpy(text, at, (size_t)(end - at));
	text[end - at] = '\0';
	return inet_pton(AF_INET6, text, &address) == 1;
}

static bool is_port(const char *at, const char *end)
{
	unsigned port = 0;

	for (; at < end && is_digit(*at) && port <= UINT16_MAX; at++)
		port = port * 10 + (unsigned)(*at - '0');
	return at == end && port <= UINT16_MAX;
}

/* Returns true if the text up to @end is a host of RFC 9110, with or without a port. */
static bool is_host(const char *text, const char *end)
{
	const char *at = text;

	if (*at == '[') {
		at = memchr(at, ']', (size_t)(end - at));
		if (!at || !is_address(text + 1, at++))
			return false;
	}
	while (at < end && *text != '[' && *at != ':')
		if (is_name(*at))
			at++;
		else if (*at == '%' && end - at > 2 && is_hex(at[1]) && is_hex(at[2]))
			at += 3;
		else
			return false;
	return at > text && (at == end || (*at == ':' && is_port(at + 1, end)));
}

/* ---- the first line ------------------------------------------------------ */

unsigned head_method(const char *text)
{
	static const struct {
		const char *name;
		unsigned method;
	} methods[] = {
		{ "GET ", EVHTTP_REQ_GET }, { "HEAD ", EVHTTP_REQ_HEAD },
		{ "POST ", EVHTTP_REQ_POST },
	};

	for (size_t i = 0; i < sizeof(methods) / sizeof(*methods); i++)
		if (!strncmp(text, methods[i].name, strlen(methods[i].name)))
			return methods[i].method;
	return 0;
}

static int refuse(struct head *head, int code, const char *wrong)
{
	head->wrong = wrong;
	return code;
}

/* Refuses fragments, which a proxy might read as a part of the path. */
static bool is_target(const char *text)
{
	while (*text > ' ' && (unsigned char)*text < 0x7f && *text != '#')
		text++;
	return !*text;
}

static int read_first_line(char *line, struct head *head)
{
	char *target = strchr(line, ' ');
	char *version = target ? strchr(target + 1, ' ') : NULL;
	char *host;

	if (!version)
		return refuse(head, HTTP_BADREQUEST, "the first line is not a request");
	*target++ = '\0';
	*version++ = '\0';
	if (!is_token(line) || strncmp(version, "HTTP/", 5) || strchr(version, ' '))
		return refuse(head, HTTP_BADREQUEST, "the first line is not a request");
	if (strncmp(version, "HTTP/1.", 7) || !strchr("0123456789", version[7]) || !version[7] ||
	    version[8])
		return refuse(head, 505, "this server supports only HTTP/1.1");
	head->old = version[7] == '0';
	if (!is_target(target))
		return refuse(head, HTTP_BADREQUEST, "the first line has an invalid character");
	/* The target of a request to a proxy contains the host. */
	host = !strncasecmp(target, "http://", 7) ? target + 7 :
	       !strncasecmp(target, "https://", 8) ? target + 8 : NULL;
	if (host)
		target = host + strcspn(host, "/?");
	if (host && !is_host(host, target))
		return refuse(head, HTTP_BADREQUEST, "the first line has an invalid host");
	target[strcspn(target, "?")] = '\0';
	head->path = host && !*target ? "/" : target;
	if (*head->path != '/' && strcmp(head->path, "*"))
		return refuse(head, HTTP_BADREQUEST, "the first line has no path");
	return 0;
}

/* ---- headers ------------------------------------------------------------- */

const char *head_find(const struct head *head, const char *name)
{
	for (unsigned i = 0; i < head->nr_fields; i++)
		if (!strcasecmp(head->fields[i].name, name))
			return head->fields[i].value;
	return NULL;
}

static unsigned count(const struct head *head, const char *name)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < head->nr_fields; i++)
		nr += !strcasecmp(head->fields[i].name, name);
	return nr;
}

/* Returns true if a header's list contains @word; or, with @others, any other word. */
static bool lists(const struct head *head, const char *name, const char *word, bool others)
{
	const size_t bytes = strlen(word);

	for (unsigned i = 0; i < head->nr_fields; i++) {
		const char *at = head->fields[i].value;

		if (strcasecmp(head->fields[i].name, name))
			continue;
		for (at += strspn(at, ", \t"); *at; at += strspn(at, ", \t")) {
			const size_t length = strcspn(at, ", \t");

			if ((length == bytes && !strncasecmp(at, word, bytes)) != others)
				return true;
			at += length;
		}
	}
	return false;
}

const char *head_find_only(const struct head *head, const char *name)
{
	return count(head, name) == 1 ? head_find(head, name) : NULL;
}

bool head_encoded(const struct head *head)
{
	return lists(head, "Content-Encoding", "identity", true);
}

static int read_field(char *line, char *end, struct head *head)
{
	char *colon = strchr(line, ':');

	if (head->nr_fields == HEAD_FIELDS_MAX)
		return refuse(head, 431, "too many headers");
	if (!colon)
		return refuse(head, HTTP_BADREQUEST, "a header has no colon");
	*colon = '\0';
	if (!is_token(line))
		return refuse(head, HTTP_BADREQUEST, "a header's name is invalid");
	head->fields[head->nr_fields].name = line;
	head->fields[head->nr_fields++].value = trim(colon + 1, end);
	return 0;
}

/* Finds out whether and how a body follows the head. */
static int read_framing(struct head *head)
{
	const char *coding = head_find(head, "Transfer-Encoding");
	const char *length = head_find(head, "Content-Length");

	if (count(head, "Content-Length") > 1)
		return refuse(head, HTTP_BADREQUEST, "Content-Length is given twice");
	if (coding && (length || head->old || count(head, "Transfer-Encoding") > 1))
		return refuse(head, HTTP_BADREQUEST, "the body's length is given twice");
	if (coding && strcasecmp(coding, "chunked"))
		return refuse(head, HTTP_NOTIMPLEMENTED, "Transfer-Encoding must be chunked");
	head->chunked = coding;
	if (!length)
		return 0;
	if (!*length || length[strspn(length, "0123456789")])
		return refuse(head, HTTP_BADREQUEST, "Content-Length is not a number");
	for (; *length; length++)	/* stop at a huge value, before it overflows */
		if (head->body_bytes < UINT64_MAX / 100)
			head->body_bytes = head->body_bytes * 10 + (uint64_t)(*length - '0');
	return 0;
}

int head_parse(char *text, struct head *head)
{
	const unsigned method = head_method(text);
	char *end = NULL, *line = next_line(&text, &end);
	const char *expect, *host;
	int ret;

	*head = (struct head){ .method = method };
	ret = line ? read_first_line(line, head) : 0;
	while (line && !ret && (line = next_line(&text, &end)) && *line)
		ret = read_field(line, end, head);
	if (!line)
		return refuse(head, HTTP_BADREQUEST, "the head has a control character");
	if (!ret)
		ret = read_framing(head);
	if (ret)
		return ret;
	host = head_find(head, "Host");
	if (count(head, "Host") > 1 || (!host && !head->old))
		return refuse(head, HTTP_BADREQUEST, "exactly one Host is required");
	/* A client whose URL has no host sends an empty Host. */
	if (host && *host && !is_host(host, host + strlen(host)))
		return refuse(head, HTTP_BADREQUEST, "Host is invalid");
	expect = head->old ? NULL : head_find(head, "Expect");
	if (expect && (strcasecmp(expect, "100-continue") || count(head, "Expect") > 1))
		return refuse(head, HTTP_EXPECTATIONFAILED, "Expect must be 100-continue");
	head->expects = expect;
	head->keeps = head->old ? lists(head, "Connection", "keep-alive", false) :
				 !lists(head, "Connection", "close", false);
	return 0;
}
