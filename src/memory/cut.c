/* SPDX-License-Identifier: MIT */
/* Copies that are cut in pieces; cut.h has the design. */
#include "config.h"

#include "memory/cut.h"
#include "sys/sizes.h"

void rnl__cut_init(struct rnl__cut *cut)
{
	*cut = (struct rnl__cut){ 0 };
	pthread_mutex_init(&cut->in.lock, NULL);
	pthread_mutex_init(&cut->out.lock, NULL);
}

void rnl__cut_fini(struct rnl__cut *cut, struct rnl__device *device)
{
	device->ops->event_destroy(cut->in.last);
	device->ops->event_destroy(cut->out.last);
	pthread_mutex_destroy(&cut->in.lock);
	pthread_mutex_destroy(&cut->out.lock);
}

/* Returns the part of a copy that begins at that row and column. */
static struct rnl__copy cut_part(const struct rnl__copy *c, size_t row, size_t column, size_t rows,
				 size_t width)
{
	struct rnl__copy p = *c;

	p.dst = (char *)c->dst + row * c->dst_pitch + column;
	p.src = (const char *)c->src + row * c->src_pitch + column;
	p.rows = rows;
	p.width = width;
	return p;
}

int rnl__cut_each(const struct rnl__copy *c, size_t max, rnl__cut_fn *issue, void *arg)
{
	const size_t width = rnl__smaller(c->width, max);
	const size_t rows = max / width;
	int ret = 0;

	for (size_t row = 0; !ret && row < c->rows; row += rows) {
		for (size_t column = 0; !ret && column < c->width; column += width) {
			const struct rnl__copy p =
				cut_part(c, row, column, rnl__smaller(c->rows - row, rows),
					 rnl__smaller(c->width - column, width));

			ret = issue(&p, arg);
		}
	}
	return ret;
}

static int issue_piece(const struct rnl__copy *piece, void *arg)
{
	const struct rnl__device_ops *ops = arg;

	return ops->copy(piece);
}

/* Waits for the last copy of another stream, issues this one, and records its end. */
static int take_turn(struct rnl__turns *t, const struct rnl__copy *c)
{
	const struct rnl__stream *own = rnl__thread.stream;
	const struct rnl__device_ops *ops = own->device->ops;
	int ret = t->last ? 0 : rnl__device_event(own->device, false, &t->last), recorded;

	if (!ret && t->stream != own)
		ret = ops->event_wait(t->last);
	if (ret)
		return ret;
	t->stream = own;
	ret = rnl__cut_each(c, RNL__CUT_BYTES, issue_piece, (void *)(uintptr_t)ops);
	/* Also after a failure: pieces may be under way. */
	recorded = ops->event_record(t->last);
	return ret ? ret : recorded;
}

int rnl__cut_copy(struct rnl__turns *t, const struct rnl__copy *c)
{
	int ret;

	pthread_mutex_lock(&t->lock);
	ret = take_turn(t, c);
	pthread_mutex_unlock(&t->lock);
	return ret;
}
