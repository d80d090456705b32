/* SPDX-License-Identifier: MIT */
/*
 * oneTBB's task_group, one for each producer, in one arena.
 *
 * DESIGN
 *	The arena has a slot for each worker and each producer. A producer enters it once and stays,
 *	like a thread of a program that uses oneTBB; task_group::wait() runs the producer's tasks.
 *	oneTBB allocates each task, from a pool of the thread.
 */
#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/task_arena.h>
#include <oneapi/tbb/task_group.h>

#include <memory>
#include <vector>

#include "peers/peer.h"

namespace {

struct PEER_ALIGN job {
	peer_job common;
};

struct pool {
	explicit pool(const peer_setup &setup)
		: limit(tbb::global_control::max_allowed_parallelism, setup.workers + 1),
		  arena(static_cast<int>(setup.workers + setup.producers), setup.producers)
	{
		arena.initialize();
		for (unsigned i = 0; i < setup.producers; i++)
			groups.push_back(std::make_unique<tbb::task_group>());
	}

	tbb::global_control limit;	/* the process's workers, plus one */
	tbb::task_arena arena;
	std::vector<std::unique_ptr<tbb::task_group>> groups;
};

struct inside {
	tbb::task_arena *arena;
	peer_body *body;
	void *arg;
};

void enter(void *arg, unsigned producer)
{
	const auto *in = static_cast<inside *>(arg);

	in->arena->execute([in, producer] { in->body(in->arg, producer); });
}

void *tbb_open(const peer_setup *setup)
{
	return new pool(*setup);
}

void tbb_produce(void *arg, unsigned nr, peer_body *body, void *body_arg)
{
	inside in = { &static_cast<pool *>(arg)->arena, body, body_arg };

	peer_produce(nr, enter, &in);
}

void tbb_submit(void *arg, unsigned producer, void *jobs, size_t nr)
{
	tbb::task_group &group = *static_cast<pool *>(arg)->groups[producer];
	job *first = static_cast<job *>(jobs);

	for (size_t i = 0; i < nr; i++) {
		job *one = &first[i];

		group.run([one] { peer_run(&one->common); });
	}
}

void tbb_wait(void *arg, unsigned producer, void *, size_t)
{
	bench_must(static_cast<pool *>(arg)->groups[producer]->wait() == tbb::complete,
		   "task_group::wait");
}

void tbb_close(void *arg)
{
	delete static_cast<pool *>(arg);
}

} // namespace

extern "C" const bench_peer peer_tbb = {
	sizeof(job),
	tbb_open,
	nullptr,
	tbb_produce,
	tbb_submit,
	tbb_wait,
	tbb_close,
};
