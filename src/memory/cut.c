/* SPDX-License-Identifier: MIT */
/* Large copies that are cut in pieces; cut.h has the design. */
#include "config.h"

#include "device/gather.h"
#include "memory/cut.h"
#include "sys/clock.h"
#include "sys/sizes.h"

#define NAP_NS 50000		/* shorter sleeps may last longer than a piece */
#define NAP_MAX_NS 1000000

/* A thread that waits for its turn. */
struct rnl__cut_waiter {
	pthread_cond_t come;
	bool has_come;
	unsigned rank;
	struct rnl__cut_waiter *next;
};

void rnl__cut_init(struct rnl__cut *cut)
{
	*cut = (struct rnl__cut){ 0 };
	pthread_mutex_init(&cut->in.lock, NULL);
	pthread_mutex_init(&cut->out.lock, NULL);
}

void rnl__cut_fini(struct rnl__cut *cut)
{
	pthread_mutex_destroy(&cut->in.lock);
	pthread_mutex_destroy(&cut->out.lock);
}

/* ---- pieces ---------------------------------------------------------------- */

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

/* ---- turns ----------------------------------------------------------------- */

/* Waits for the turn, behind those of the same rank, or as their @first; the lock is held. */
static void await_turn(struct rnl__cut_turn *t, unsigned rank, bool first)
{
	struct rnl__cut_waiter own = { .rank = rank }, **at = &t->first;

	pthread_cond_init(&own.come, NULL);
	while (*at && (*at)->rank + first <= rank)
		at = &(*at)->next;
	own.next = *at;
	*at = &own;
	while (!own.has_come)
		pthread_cond_wait(&own.come, &t->lock);
	pthread_cond_destroy(&own.come);
}

/* Gives the turn to the first thread that waits; the lock is held. */
static void pass_turn(struct rnl__cut_turn *t)
{
	struct rnl__cut_waiter *next = t->first;

	t->taken = next != NULL;
	if (!next)
		return;
	t->first = next->next;
	next->has_come = true;
	pthread_cond_signal(&next->come);
}

static void take_turn(struct rnl__cut_turn *t, unsigned rank)
{
	pthread_mutex_lock(&t->lock);
	if (t->taken)
		await_turn(t, rank, false);
	t->taken = true;
	pthread_mutex_unlock(&t->lock);
}

static void give_turn(struct rnl__cut_turn *t)
{
	pthread_mutex_lock(&t->lock);
	pass_turn(t);
	pthread_mutex_unlock(&t->lock);
}

/* Lets a thread of a smaller rank go first; @long_enough: also one of the same rank. */
static void let_pass(struct rnl__cut_turn *t, unsigned rank, bool long_enough)
{
	pthread_mutex_lock(&t->lock);
	if (t->first && t->first->rank < rank + long_enough) {
		pass_turn(t);
		await_turn(t, rank, !long_enough);
	}
	pthread_mutex_unlock(&t->lock);
}

/* ---- copies ---------------------------------------------------------------- */

struct cutting {
	struct rnl__cut_turn *turn;
	unsigned rank, nr;		/* nr: pieces so far */
};

/* Waits until the device has copied a piece, which is the only work on the stream. */
static int await_piece(struct rnl__cut_turn *t, size_t bytes)
{
	const uint64_t begin = rnl__now(), nap = t->piece_ns * bytes / RNL__CUT_BYTES / 2;
	int ret;

	/* One slow piece, of a stopped process for example, must not make the next ones sleep. */
	if (nap > NAP_NS)
		rnl__nap(rnl__smaller(nap, NAP_MAX_NS));
	ret = rnl__thread.stream->device->ops->wait(RNL__NEVER);
	if (bytes >= RNL__CUT_BYTES / 2)
		t->piece_ns = (rnl__now() - begin) * RNL__CUT_BYTES / bytes;
	return ret;
}

static int make_piece(const struct rnl__copy *piece, void *arg)
{
	struct cutting *c = arg;
	int ret;

	if (c->nr)
		let_pass(c->turn, c->rank, c->nr % RNL__CUT_PIECES == 0);
	c->nr++;
	ret = rnl__thread.stream->device->ops->copy(piece);
	return ret ? ret : await_piece(c->turn, piece->width * piece->rows);
}

int rnl__cut_copy(struct rnl__cut_turn *t, unsigned rank, const struct rnl__copy *c)
{
	struct cutting cutting = { t, rank, 0 };
	int ret;

	rnl__gather_flush();
	/* With a deadline, CUDA's wait does not spin. */
	ret = rnl__thread.stream->device->ops->wait(RNL__NEVER - 1);
	if (ret)
		return ret;
	take_turn(t, rank);
	ret = rnl__cut_each(c, RNL__CUT_BYTES, make_piece, &cutting);
	give_turn(t);
	return ret;
}
