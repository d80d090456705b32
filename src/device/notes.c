/* SPDX-License-Identifier: MIT */
/* The operations of a job's function, noted call by call; notes.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/notes.h"
#include "sys/array.h"
#include "sys/sizes.h"

#define NOTES_MAX 65536u	/* operations; few enough for 32-bit offsets of arguments */
#define ARGS_ALIGNMENT 16u

static const struct rnl__device_ops *notes_ops(void)
{
	return rnl__thread.stream->device->ops;
}

void rnl__notes_begin(struct rnl__notes *n)
{
	n->nr = n->args_bytes = 0;
	n->spoilt = NULL;
	rnl__thread.stream->notes = n;
}

void rnl__notes_end(void)
{
	rnl__thread.stream->notes = NULL;
}

void rnl__notes_fini(struct rnl__notes *n)
{
	free(n->list);
	free(n->args);
	*n = (struct rnl__notes){ 0 };
}

/* Copies a launch's arguments.  Returns false if there is no memory. */
static bool notes_keep_args(struct rnl__notes *n, const void *args, size_t bytes)
{
	const size_t whole = rnl__round_up(bytes, ARGS_ALIGNMENT);

	if (n->args_bytes + whole > n->args_room) {
		const size_t room = 2 * n->args_room + whole;
		unsigned char *more = realloc(n->args, room);

		if (!more)
			return false;
		n->args = more;
		n->args_room = room;
	}
	if (bytes)
		memcpy(n->args + n->args_bytes, args, bytes);
	n->args_bytes += whole;
	return true;
}

void rnl__notes_add(const struct rnl__noted *noted, const void *args)
{
	struct rnl__notes *n = rnl__thread.stream->notes;
	struct rnl__noted *list;
	uint32_t at = (uint32_t)n->args_bytes;

	if (n->spoilt)
		return;
	if (n->nr == NOTES_MAX) {
		rnl__notes_spoil("issues more than 65536 operations");
		return;
	}
	list = rnl__array_extend(n->list, n->nr, &n->room, sizeof(*list));
	if (list)
		n->list = list;
	if (!list || (noted->kind == RNL__NOTED_LAUNCH &&
		      !notes_keep_args(n, args, noted->launch.kernel->args_bytes))) {
		rnl__notes_spoil("issues more operations than there is memory to note");
		return;
	}
	list[n->nr] = *noted;
	if (noted->kind == RNL__NOTED_LAUNCH)
		list[n->nr].launch.args = at;
	n->nr++;
}

/* ---- comparison ---------------------------------------------------------- */

bool rnl__notes_writes_args(const struct rnl__noted *noted)
{
	return noted->kind == RNL__NOTED_LAUNCH && noted->launch.kernel == notes_ops()->args();
}

static bool notes_same_launch(const struct rnl__noted *a, const void *a_args,
			      const struct rnl__noted *b, const void *b_args)
{
	const struct rnl__args *to = a_args, *also = b_args;

	if (a->launch.kernel != b->launch.kernel ||
	    memcmp(&a->launch.grid, &b->launch.grid, sizeof(a->launch.grid)) != 0 ||
	    memcmp(&a->launch.block, &b->launch.block, sizeof(a->launch.block)) != 0)
		return false;
	if (rnl__notes_writes_args(a))
		return to->dst == also->dst && to->bytes == also->bytes;
	return !a->launch.kernel->args_bytes ||
	       !memcmp(a_args, b_args, a->launch.kernel->args_bytes);
}

static bool notes_same_copy(const struct rnl__copy *a, const struct rnl__copy *b)
{
	return a->dst == b->dst && a->src == b->src && a->width == b->width && a->rows == b->rows &&
	       (a->rows == 1 ||
		(a->dst_pitch == b->dst_pitch && a->src_pitch == b->src_pitch));
}

bool rnl__notes_same(const struct rnl__notes *a, const struct rnl__notes *b)
{
	bool same = a->nr == b->nr;

	for (size_t i = 0; same && i < a->nr; i++) {
		const struct rnl__noted *x = &a->list[i], *y = &b->list[i];

		same = x->kind == y->kind;
		if (same && x->kind == RNL__NOTED_LAUNCH)
			same = notes_same_launch(x, a->args + x->launch.args, y,
						 b->args + y->launch.args);
		else if (same && x->kind == RNL__NOTED_COPY)
			same = notes_same_copy(&x->copy, &y->copy);
		else if (same)
			same = x->fill.dst == y->fill.dst && x->fill.bytes == y->fill.bytes &&
			       x->fill.value == y->fill.value;
	}
	return same;
}

/* ---- replay -------------------------------------------------------------- */

static int issue_noted(const struct rnl__notes *n, const struct rnl__noted *noted, const void *user)
{
	const struct rnl__device_ops *ops = notes_ops();
	struct rnl__args args;

	if (noted->kind == RNL__NOTED_COPY)
		return ops->copy(&noted->copy);
	if (noted->kind == RNL__NOTED_FILL)
		return ops->fill(noted->fill.dst, noted->fill.value, noted->fill.bytes);
	if (!rnl__notes_writes_args(noted))
		return ops->launch(noted->launch.kernel, noted->launch.grid, noted->launch.block,
				   n->args + noted->launch.args);
	if (!user)
		return -EINVAL;
	memcpy(&args, n->args + noted->launch.args, sizeof(args));
	memcpy(args.data, user, args.bytes);
	return ops->launch(noted->launch.kernel, noted->launch.grid, noted->launch.block, &args);
}

int rnl__notes_issue(const struct rnl__notes *n, const void *user)
{
	int ret = 0;

	for (size_t i = 0; !ret && i < n->nr; i++)
		ret = issue_noted(n, &n->list[i], user);
	return ret;
}
