/* SPDX-License-Identifier: MIT */
/* Records on the host device. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "device/host_record.h"

struct rnl__record {
	size_t nr;
	struct rnl__host_op ops[];
};

static void write_args(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct rnl__args *a = args;

	(void)grid;
	(void)block;
	memcpy((void *)(uintptr_t)a->dst, a->data, a->bytes);
}

const struct rnl_kernel rnl__host_args = {
	"rnl_args", sizeof(struct rnl__args), write_args, NULL, NULL,
};

static void free_args(struct rnl__host_op *ops, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		if (ops[i].kind == RNL__HOST_LAUNCH)
			free(ops[i].launch.args);
	}
}

/* Each launch gets its own copy of its arguments. */
static bool copy_ops(struct rnl__host_op *to, const struct rnl__host_op *from, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const size_t bytes = from[i].kind == RNL__HOST_LAUNCH ?
					     from[i].launch.kernel->args_bytes : 0;

		to[i] = from[i];
		if (from[i].kind != RNL__HOST_LAUNCH)
			continue;
		to[i].launch.args = malloc(bytes ? bytes : 1);
		if (!to[i].launch.args) {
			free_args(to, i);
			return false;
		}
		if (bytes)
			memcpy(to[i].launch.args, from[i].launch.args, bytes);
	}
	return true;
}

struct rnl__record *rnl__host_record_create(const struct rnl__host_op *ops, size_t nr)
{
	struct rnl__record *r = nr ? calloc(1, sizeof(*r) + nr * sizeof(*ops)) : NULL;

	if (!r || copy_ops(r->ops, ops, nr)) {
		if (r)
			r->nr = nr;
		return r;
	}
	free(r);
	return NULL;
}

void rnl__host_record_drop(struct rnl__record *r)
{
	free_args(r->ops, r->nr);
	free(r);
}

static bool same_launch(const struct rnl__host_op *a, const struct rnl__host_op *b)
{
	const struct rnl__args *to = a->launch.args, *also = b->launch.args;

	if (a->launch.kernel != b->launch.kernel ||
	    memcmp(&a->launch.grid, &b->launch.grid, sizeof(a->launch.grid)) != 0 ||
	    memcmp(&a->launch.block, &b->launch.block, sizeof(a->launch.block)) != 0)
		return false;
	if (a->launch.kernel == &rnl__host_args)
		return to->dst == also->dst && to->bytes == also->bytes;
	return !a->launch.kernel->args_bytes ||
	       !memcmp(a->launch.args, b->launch.args, a->launch.kernel->args_bytes);
}

static bool same_op(const struct rnl__host_op *a, const struct rnl__host_op *b)
{
	if (a->kind != b->kind)
		return false;
	if (a->kind == RNL__HOST_LAUNCH)
		return same_launch(a, b);
	if (a->kind == RNL__HOST_FILL)
		return a->fill.dst == b->fill.dst && a->fill.bytes == b->fill.bytes &&
		       a->fill.value == b->fill.value;
	return a->kind == RNL__HOST_COPY && a->copy.dst == b->copy.dst &&
	       a->copy.src == b->copy.src && a->copy.width == b->copy.width &&
	       a->copy.rows == b->copy.rows &&
	       (a->copy.rows == 1 || (a->copy.dst_pitch == b->copy.dst_pitch &&
				      a->copy.src_pitch == b->copy.src_pitch));
}

bool rnl__host_record_same(const struct rnl__record *a, const struct rnl__record *b)
{
	bool same = a->nr == b->nr;

	for (size_t i = 0; same && i < a->nr; i++)
		same = same_op(&a->ops[i], &b->ops[i]);
	return same;
}

int rnl__host_record_issue(const struct rnl__record *record, const void *user,
			   int (*issue)(const struct rnl__host_op *op))
{
	struct rnl__record *r = rnl__host_record_create(record->ops, record->nr);

	if (!r)
		return -ENOMEM;
	for (size_t i = 0; i < r->nr; i++) {
		struct rnl__args *args = r->ops[i].launch.args;

		if (r->ops[i].kind != RNL__HOST_LAUNCH ||
		    r->ops[i].launch.kernel != &rnl__host_args)
			continue;
		if (!user) {
			rnl__host_record_drop(r);
			return -EINVAL;
		}
		memcpy(args->data, user, args->bytes);
	}
	/* From here on the executor has the arguments. */
	for (size_t i = 0; i < r->nr; i++)
		(void)issue(&r->ops[i]);
	free(r);
	return 0;
}
