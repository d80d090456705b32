/* SPDX-License-Identifier: MIT */
/* Spinners: idle workers that look for something while they spin; spinner.h has the design. */
#include "config.h"

#include "pool/pool.h"
#include "pool/spinner.h"
#include "sys/clock.h"
#include "sys/latch.h"

/* Puts the owner in a free place.  Returns false if there is none. */
static bool spinner_put(struct rnl_pool *pool, struct rnl__spinner *s)
{
	for (unsigned i = 0; i < RNL__SPINNERS_MAX; i++) {
		struct rnl__spinner *was = NULL;

		/* [spinner.P1] release: the owner, to a worker; pairs with [spinner.P2] */
		if (atomic_compare_exchange_strong_explicit(&pool->spinners[i], &was, s,
							    memory_order_release, memory_order_relaxed))
			return true;
	}
	return false;
}

void rnl__spinner_ask(struct rnl_pool *pool, struct rnl__spinner *s, uint64_t until)
{
	uint32_t none = 0;

	rnl__figure_write(&s->until, until);
	/* relaxed: the exchange decides which thread asks; the place passes the owner on */
	if (rnl__peek(&s->users) ||
	    !atomic_compare_exchange_strong_explicit(&s->users, &none, RNL__LATCH_ONE,
						     memory_order_relaxed, memory_order_relaxed))
		return;
	if (!spinner_put(pool, s))
		(void)rnl__latch_drop(&s->users, 1);
}

struct rnl__spinner *rnl__spinner_take(struct rnl_pool *pool)
{
	struct rnl__spinner *s;

	for (unsigned i = 0; i < RNL__SPINNERS_MAX; i++) {
		if (!rnl__peek(&pool->spinners[i]))
			continue;
		/* [spinner.P2] acquire: the owner; pairs with [spinner.P1] */
		s = atomic_exchange_explicit(&pool->spinners[i], NULL, memory_order_acquire);
		if (!s)
			continue;
		rnl__spinner_set(s, true);
		return s;
	}
	return NULL;
}

void rnl__spinner_leave(struct rnl__spinner *s)
{
	rnl__spinner_set(s, false);
	(void)rnl__latch_drop(&s->users, 1);
}

void rnl__spinner_end(struct rnl_pool *pool, struct rnl__spinner *s)
{
	rnl__figure_write(&s->until, 0);
	for (unsigned i = 0; i < RNL__SPINNERS_MAX; i++) {
		struct rnl__spinner *was = s;

		/* relaxed: a worker has taken it, or none will */
		if (atomic_compare_exchange_strong_explicit(&pool->spinners[i], &was, NULL,
							    memory_order_relaxed, memory_order_relaxed))
			(void)rnl__latch_drop(&s->users, 1);
	}
	(void)rnl__latch_wait(&s->users, pool->spin_ns, RNL__NEVER);
}
