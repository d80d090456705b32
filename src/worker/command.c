/* SPDX-License-Identifier: MIT */
/* A worker executes its commands; command.h has the design. */
#include "config.h"

#include "pool/pool.h"
#include "sys/latch.h"
#include "sys/tsan.h"
#include "worker/command.h"
#include "worker/share.h"

bool rnl__command_may_leave(struct rnl__worker *w)
{
	return rnl__commands(w) & (RNL__LEAVE | RNL__END) && !w->inflight.first &&
	       !w->nr_held_back && !w->next && !rnl__worker_has_returned(w) &&
	       !rnl__queue_length(&w->queue);
}

bool rnl__command_may_obey(struct rnl__worker *w)
{
	uint32_t given = rnl__commands(w);

	return given & RNL__TRACE ||
	       (given & RNL__HAND_OVER &&
		rnl__queue_lane_done(&w->queue, rnl__pool_serving(w->pool)));
}

void rnl__command_done(struct rnl__worker *w, uint32_t command, int error)
{
	struct rnl_pool *pool = w->pool;
	int none = 0;

	if (error)
		/* relaxed: the latch publishes it */
		atomic_compare_exchange_strong_explicit(&pool->start_error, &none, error,
							memory_order_relaxed, memory_order_relaxed);
	/* relaxed: the latch publishes it */
	atomic_fetch_and_explicit(&w->commands, ~command, memory_order_relaxed);
	(void)rnl__latch_drop(&pool->moving, 1);
}

void rnl__command_track(struct rnl__worker *w)
{
	/* relaxed: the command, or the start of this thread, has published it */
	struct rnl__tracks *tracks = atomic_load_explicit(&w->pool->tracks, memory_order_relaxed);

	if (tracks && !w->track) {
		w->track = rnl__tracks_begin(tracks, &(struct rnl__track){
			.device = w->device, .index = w->index, .of_class = !w->in_staff,
			.dropped_ever = &w->untraced,
		});
	} else if (!tracks && w->track) {
		rnl__track_stop(w->track, w->inflight.first);
		w->track = NULL;
	}
}

void rnl__command_obey(struct rnl__worker *w)
{
	rnl__tsan_acquire(&w->commands);
	if (rnl__commands(w) & RNL__TRACE) {
		(void)rnl__share_occupy(w);	/* this creates events */
		rnl__command_track(w);
		rnl__share_attend(w, false);
		rnl__command_done(w, RNL__TRACE, 0);
	} else {
		rnl__command_done(w, RNL__HAND_OVER, 0);
	}
}
