/* SPDX-License-Identifier: MIT */
/* Tests of runnel.hpp; cpp.sh compiles and runs them.  cpp WHAT: destroys WHAT on a worker. */
#include <poll.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <runnel.hpp>
#include <runnel/hold.h>

static void expect(bool right, const char *what)
{
	if (right)
		return;
	std::fprintf(stderr, "%s: not right\n", what);
	std::exit(EXIT_FAILURE);
}

/* Returns the errno that @fn throws, or 0 if it does not throw. */
template <class F> static int thrown(F fn)
{
	try {
		fn();
	} catch (const std::system_error &e) {
		return e.code().value();
	}
	return 0;
}

/* Returns the text of the E that @fn throws. */
template <class E, class F> static std::string text_of(F fn)
{
	try {
		fn();
	} catch (const E &e) {
		return e.what();
	}
	return "nothing was thrown";
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

	rnl::job negative([] { return -EIO; });
	rnl::job reference([&ran]() -> int & { return ran; });

	negative.submit(pool);
	reference.submit(pool);
	expect(negative.get() == -EIO && !negative.result(), "a negative value is no failure");
	expect(reference.get() == 2, "of a reference, a copy");
	expect(text_of<std::logic_error>([&] { negative.get(); }) == "rnl::job::get(): the value was taken before",
	       "a value is taken once");
	negative.submit(pool);
	expect(negative.get() == -EIO, "and once more after another submit");
}

/* A function that takes its job may hold it. */
static void holds(rnl_pool *pool)
{
	std::atomic<bool> held{ false };
	rnl_hold hold;
	auto job = rnl::start(pool, [&](rnl_job *self) {
		rnl::check(rnl_job_hold(self, &hold), "rnl_job_hold");
		held = true;
		return 6;
	});

	while (!held)
		std::this_thread::yield();
	expect(rnl_job_wait(*job, 0) != 0, "a held job is not done");
	expect(rnl_hold_release(&hold, 0) == 0 && job->get() == 6, "a released one is");

	std::function<void(rnl_job *)> fails = [&](rnl_job *self) {
		rnl::check(rnl_job_hold(self, &hold), "rnl_job_hold");
		rnl::check(rnl_hold_release(&hold, -EPROTO), "rnl_hold_release");
	};

	expect(thrown([&] { rnl::start(pool, fails)->get(); }) == EPROTO, "a hold's failure");
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
	expect(caught == 4 && own.result() == -ENOTRECOVERABLE, "an exception of any type");
	expect(thrown([&] { system.get(); }) == EPROTO && system.result() == -EPROTO,
	       "a system_error");
	try {
		memory.get();
	} catch (const std::bad_alloc &) {
		caught = 5;
	}
	expect(caught == 5 && memory.result() == -ENOMEM, "bad_alloc");

	rnl::job ours([] { rnl::check(-ESHUTDOWN, "call"); });
	rnl::job systems([] { throw std::system_error(ESHUTDOWN, std::system_category()); });
	rnl::job others([] { throw std::ios_base::failure("file"); });
	rnl::job none([] { throw std::system_error(0, std::generic_category()); });

	for (rnl_job *job : { static_cast<rnl_job *>(ours), static_cast<rnl_job *>(systems),
			      static_cast<rnl_job *>(others), static_cast<rnl_job *>(none) })
		rnl::check(rnl_submit(pool, job), "rnl_submit");
	expect(text_of<std::system_error>([&] { ours.get(); }) == "call: closed for new work" &&
		       ours.result() == -ESHUTDOWN,
	       "an error of the library's in a function");
	expect(thrown([&] { systems.get(); }) == ESHUTDOWN && systems.result() == -ESHUTDOWN,
	       "one of the system's");
	text_of<std::ios_base::failure>([&] { others.get(); });
	text_of<std::system_error>([&] { none.get(); });
	expect(others.result() == -ENOTRECOVERABLE && none.result() == -ENOTRECOVERABLE,
	       "system_errors without an errno");
}

/* A text names the call, and has the error once. */
static void texts()
{
	rnl::pool pool(attributes(1, 0));
	rnl::job late([] {});

	expect(text_of<std::system_error>([] { rnl::check(-ETIMEDOUT, "call"); }) == "call: timed out", "a text");
	try {
		rnl::check(-ETIMEDOUT);
	} catch (const std::system_error &e) {
		expect(e.code() == std::errc::timed_out && e.code().category() == rnl::category(), "a code");
	}
	expect(text_of<std::system_error>([&] { late.get(); }) == "rnl_job_wait: invalid argument", "never submitted");
	rnl::check(rnl_job_set_deadline(late, 0));
	late.submit(pool);
	expect(text_of<std::system_error>([&] { late.get(); }) == "the job's result: timed out", "a result");
	rnl_pool_close(pool);
	expect(text_of<std::system_error>([&] { late.submit(pool); }) == "rnl_submit: closed for new work", "a call");
}

/* A cancelled job throws ECANCELED, not the exception of an earlier run. */
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
	/* The place in the queue is free once the worker has taken that job. */
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

		expect(!rnl_job_set_cq(*job, queue), "rnl_job_set_cq");
		job->submit(pool);
		expect(thrown([&] { job->get(); }) == EBUSY, "a job that is not reaped is not waited for");
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

static bool readable(rnl_cq *queue)
{
	pollfd fd = { rnl_cq_fd(queue), POLLIN, 0 };

	return poll(&fd, 1, 0) == 1;
}

/* An exception that leaves reap()'s function loses no job. */
static void exceptions_of_reap()
{
	rnl::queue queue;
	rnl::pool pool(attributes(1, 0));
	rnl::job first([] { throw own_error{ 1 }; });
	rnl::job second([] {});
	rnl::job third([] { throw own_error{ 3 }; });
	std::vector<rnl_job *> told;
	auto reap = [&] {
		try {
			queue.reap([&](rnl::any_job &job) {
				told.push_back(job);
				job.rethrow();
			});
		} catch (const own_error &e) {
			return e.number;
		}
		return 0;
	};

	for (rnl_job *job : { static_cast<rnl_job *>(first), static_cast<rnl_job *>(second),
			      static_cast<rnl_job *>(third) }) {
		rnl::check(rnl_job_set_cq(job, queue));
		rnl::check(rnl_submit(pool, job));
	}
	rnl::check(rnl_pool_drain(pool, RNL_FOREVER));
	expect(reap() == 1 && told == std::vector<rnl_job *>{ first }, "the first throws");
	expect(readable(queue), "the descriptor tells of the others");
	expect(reap() == 3 && told == std::vector<rnl_job *>{ first, second, third }, "then come the others");
	second.submit(pool);
	rnl::check(rnl_pool_drain(pool, RNL_FOREVER));
	expect(readable(queue) && reap() == 0 && told.size() == 4, "the queue goes on");
	expect(!readable(queue), "it is empty");
}

/* A queue may also have jobs that are not rnl::job. */
static void plain_jobs()
{
	rnl::queue queue;
	rnl::pool pool(attributes(1, 0));
	rnl::job job([] {});
	auto plain = std::make_unique<rnl_job>();	/* no object of ours follows it */
	std::vector<rnl_job *> told;
	unsigned nr = 0;

	rnl::check(rnl_job_init(plain.get(), [](rnl_job *) { return 0; }));
	auto submit = [&] {
		for (rnl_job *each : { static_cast<rnl_job *>(job), plain.get() }) {
			rnl::check(rnl_job_set_cq(each, queue));
			rnl::check(rnl_submit(pool, each));
		}
		rnl::check(rnl_pool_drain(pool, RNL_FOREVER));
	};
	submit();
	expect(queue.reap([&](rnl_job *done) { told.push_back(done); }) == 2 &&
	       told == std::vector<rnl_job *>{ job, plain.get() }, "pointers of all jobs");
	submit();
	expect(text_of<std::logic_error>([&] { queue.reap([&](rnl::any_job &) { nr++; }); }) ==
	       "rnl::any_job::of(): it is no rnl::job: reap it as rnl_job *" && nr == 1, "no rnl::job");
	expect(queue.reap([&](rnl_job *done) { told.push_back(done); }) == 1 && told.back() == plain.get(),
	       "that job is not lost");
}

/* An exception leaves the scope with jobs in flight: a queue that was declared first ends last. */
static void order_of_ends()
{
	std::atomic<int> done{ 0 };
	rnl_job jobs[20];

	try {
		rnl::queue queue;
		rnl::pool pool(attributes(1, 0));

		for (rnl_job &job : jobs) {
			rnl::check(rnl_job_init(&job, [](rnl_job *self) {
				std::this_thread::sleep_for(std::chrono::milliseconds(1));
				++*static_cast<std::atomic<int> *>(self->user);
				return 0;
			}));
			job.user = &done;
			rnl::check(rnl_job_set_cq(&job, queue));
			rnl::check(rnl_submit(pool, &job));
		}
		throw own_error{ 1 };
	} catch (const own_error &) {
	}
	expect(done == 20 && !rnl_job_wait(&jobs[19], 0), "all jobs are done at the queue's end");
}

/* A callback on an rnl::job does not compile; on another job it does. */
template <class J, class = void> struct takes_callback : std::false_type {};
template <class J>
struct takes_callback<J, std::void_t<decltype(rnl_job_set_on_done(std::declval<J>(), nullptr))>> : std::true_type {};
static_assert(takes_callback<rnl_job *>::value && !takes_callback<rnl::job<int (*)()> &>::value &&
	      !takes_callback<rnl::any_job &>::value, "callbacks");

/* Never returns: an object cannot be destroyed on a worker that it would wait for. */
static int ends_on_a_worker(const std::string &what)
{
	rnl::pool pool(attributes(1, 0));
	auto outer = rnl::start(pool, [&] {
		if (what == "job") {
			rnl::start(pool, [] {})->get();
		} else {
			rnl::barrier barrier(pool);
			rnl_job job;

			rnl::check(rnl_job_init(&job, [](rnl_job *) { return 0; }));
			rnl::check(rnl_barrier_add(barrier, &job));
			rnl::check(rnl_submit(pool, &job));
		}
	});

	outer->get();
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	rnl_pool_attr wrong = attributes(1, 0);

	if (argc > 1)
		return ends_on_a_worker(argv[1]);

	expect(thrown([] { rnl::check(-EBUSY); }) == EBUSY && rnl::check(3) == 3, "check");
	wrong.device = "nothing of the kind";
	expect(thrown([&] { rnl::pool none(wrong); }) == EINVAL, "a pool that cannot be");
	{
		rnl::pool pool(attributes(2, 0));

		values(pool);
		exceptions(pool);
		holds(pool);
		ends(pool);
		barriers(pool);
		queues(pool);
	}
	cancels();
	texts();
	exceptions_of_reap();
	plain_jobs();
	order_of_ends();
	std::puts("right");
	return EXIT_SUCCESS;
}
