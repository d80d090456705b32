/* SPDX-License-Identifier: MIT */
/* What runnel.hpp promises; cpp.sh compiles and runs it. */
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <runnel.hpp>

static void expect(bool right, const char *what)
{
	if (right)
		return;
	std::fprintf(stderr, "%s: not right\n", what);
	std::exit(EXIT_FAILURE);
}

/* The errno that @fn throws; 0: nothing is thrown. */
template <class F> static int thrown(F fn)
{
	try {
		fn();
	} catch (const std::system_error &e) {
		return e.code().value();
	}
	return 0;
}

static rnl_pool_attr attributes(unsigned nr_workers, unsigned max_queued)
{
	rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = "host";
	attr.nr_workers = nr_workers;
	attr.max_queued = max_queued;
	return attr;
}

static void values(rnl_pool *pool)
{
	rnl::job number([] { return 7; });
	rnl::job text([given = std::string("given")] { return given + " back"; });
	rnl::job owner([owned = std::make_unique<int>(3)] { return std::make_unique<int>(*owned + 1); });
	int ran = 0;
	rnl::job nothing([&ran] { ran++; });

	for (rnl::any_job *job : { static_cast<rnl::any_job *>(&number), static_cast<rnl::any_job *>(&text),
				   static_cast<rnl::any_job *>(&owner), static_cast<rnl::any_job *>(&nothing) })
		job->submit(pool);
	expect(number.get() == 7 && text.get() == "given back" && *owner.get() == 4, "values");
	nothing.get();
	number.submit(pool);		/* again */
	nothing.submit(pool);
	nothing.wait();
	expect(number.get() == 7 && ran == 2, "submitted again");
	expect(rnl::start(pool, [] { return 5; })->get() == 5, "start");
}

struct own_error {
	int number;
};

static void exceptions(rnl_pool *pool)
{
	rnl::job own([]() -> int { throw own_error{ 4 }; });
	rnl::job system([] { throw std::system_error(EPROTO, std::generic_category()); });
	rnl::job memory([] { throw std::bad_alloc(); });
	int caught = 0;

	own.submit(pool);
	system.submit(pool);
	memory.submit(pool);
	try {
		own.get();
	} catch (const own_error &e) {
		caught = e.number;
	}
	expect(caught == 4 && rnl_job_result(own) == -ENOTRECOVERABLE, "an exception of any type");
	expect(thrown([&] { system.get(); }) == EPROTO && rnl_job_result(system) == -EPROTO, "a system_error");
	try {
		memory.get();
	} catch (const std::bad_alloc &) {
		caught = 5;
	}
	expect(caught == 5 && rnl_job_result(memory) == -ENOMEM, "bad_alloc");
}

/* A job that is cancelled throws that, and not what an earlier run threw. */
static void cancels()
{
	std::atomic<bool> throws{ true }, goes_on{ false };
	rnl::pool pool(attributes(1, 1));
	rnl::job fails([&] {
		if (throws)
			throw own_error{ 1 };
	});
	rnl::job blocks([&] {
		while (!goes_on)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
	});
	rnl::job refused([] {});

	fails.submit(pool);
	try {
		fails.wait();
		expect(false, "it threw nothing");
	} catch (const own_error &) {
	}
	blocks.submit(pool);
	/* The place in the queue is free when the worker has taken that job. */
	expect(!rnl_submit_wait(pool, fails, RNL_FOREVER), "submit");
	expect(thrown([&] { refused.submit(pool); }) == EAGAIN, "a full pool");
	expect(!rnl_job_cancel(fails), "cancel");
	expect(thrown([&] { fails.wait(); }) == ECANCELED, "cancelled");
	goes_on = true;
	blocks.wait();
	throws = false;
	fails.submit(pool);
	fails.wait();
}

static void ends(rnl_pool *pool)
{
	std::atomic<int> done{ 0 };
	auto slow = [&done] {
		std::this_thread::sleep_for(std::chrono::milliseconds(20));
		done++;
	};

	{
		rnl::job job(slow), never_submitted(slow);

		job.submit(pool);
	}
	expect(done == 1, "the end of a job waits");
	{
		auto first = rnl::start(pool, slow), second = rnl::start(pool, slow);
	}
	expect(done == 3, "and on the heap");
	{
		rnl::pool own(attributes(1, 0)), moved(std::move(own));
		rnl::job job(slow);

		job.submit(moved);
	}
	expect(done == 4, "a pool may be moved");
}

static void barriers(rnl_pool *pool)
{
	rnl::barrier all(pool);
	rnl::job good([] {});
	rnl::job bad([] { throw std::system_error(EDOM, std::generic_category()); });

	for (rnl_job *job : { static_cast<rnl_job *>(good), static_cast<rnl_job *>(bad) }) {
		expect(!rnl_barrier_add(all, job), "add");
		expect(!rnl_submit(pool, job), "submit");
	}
	expect(thrown([&] { all.wait(); }) == EDOM, "a barrier throws what failed");
}

static void queues(rnl_pool *pool)
{
	rnl::queue queue;
	std::vector<std::unique_ptr<rnl::any_job>> jobs;
	std::atomic<int> sum{ 0 };
	unsigned nr = 0, failed = 0;

	for (int i = 0; i < 200; i++) {
		auto fn = [&sum, i] {
			if (i % 10 == 0)
				throw std::runtime_error("the tenth");
			sum += i;
		};
		auto job = std::make_unique<rnl::job<decltype(fn)>>(fn);

		expect(!rnl_job_cq(*job, queue), "rnl_job_cq");
		job->submit(pool);
		jobs.push_back(std::move(job));
	}
	while (nr < 200)
		nr += queue.reap([&](rnl::any_job &job) {
			try {
				job.rethrow();
			} catch (const std::runtime_error &) {
				failed++;
			}
		});
	expect(failed == 20 && sum == 199 * 200 / 2 - 190 * 20 / 2, "a queue");
}

int main()
{
	rnl_pool_attr wrong = attributes(1, 0);

	expect(thrown([] { rnl::check(-EBUSY); }) == EBUSY && rnl::check(3) == 3, "check");
	wrong.device = "nothing of the kind";
	expect(thrown([&] { rnl::pool none(wrong); }) == EINVAL, "a pool that cannot be");
	{
		rnl::pool pool(attributes(2, 0));

		values(pool);
		exceptions(pool);
		ends(pool);
		barriers(pool);
		queues(pool);
	}
	cancels();
	std::puts("right");
	return EXIT_SUCCESS;
}
