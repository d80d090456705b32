/* SPDX-License-Identifier: MIT */
/*
 * Tests of runnel20.hpp; cpp20.sh compiles and runs them.  cpp20 DEVICE; cpp20 DEVICE WHAT makes a
 * mistake that ends the process.
 */
#include <poll.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <semaphore>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <runnel20.hpp>
#include <runnel/memory.h>

static const char *device;
static std::atomic<int> logged{ 0 };

static void expect(bool right, const char *what)
{
	if (right)
		return;
	std::fprintf(stderr, "%s: not right\n", what);
	std::_Exit(EXIT_FAILURE);
}

/* ---- what is allocated ----------------------------------------------------------- */

static std::atomic<long> allocations{ 0 };

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) && !defined(SANITIZED)
/* Of the whole process: of the library, and of operator new. */
extern "C" void *__libc_malloc(size_t bytes);
extern "C" void *__libc_calloc(size_t nr, size_t bytes);
extern "C" void *__libc_realloc(void *old, size_t bytes);

extern "C" void *malloc(size_t bytes)
{
	allocations++;
	return __libc_malloc(bytes);
}

extern "C" void *calloc(size_t nr, size_t bytes)
{
	allocations++;
	return __libc_calloc(nr, bytes);
}

extern "C" void *realloc(void *old, size_t bytes)
{
	allocations++;
	return __libc_realloc(old, bytes);
}
#endif

/* ---- coroutines, and threads that they go on in ------------------------------------ */

/* Not std::this_thread::get_id(): a compiler may keep what it returns while a coroutine waits. */
[[gnu::noinline]] static std::thread::id this_thread()
{
	__asm__ volatile("" ::: "memory");
	return std::this_thread::get_id();
}

/* Starts at its call, and frees its frame at its end.  Each gives an `end` as its last act. */
struct coroutine {
	struct promise_type {
		coroutine get_return_object()
		{
			return { std::coroutine_handle<promise_type>::from_promise(*this) };
		}
		std::suspend_never initial_suspend() noexcept { return {}; }
		std::suspend_never final_suspend() noexcept { return {}; }
		void return_void() {}
		void unhandled_exception() { expect(false, "an exception leaves no coroutine"); }
	};
	std::coroutine_handle<> handle;
};

using ending = std::counting_semaphore<>;

static rnl_pool_attr attributes(unsigned nr_workers, unsigned max_queued)
{
	rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = device;
	attr.nr_workers = nr_workers;
	attr.max_queued = max_queued;
	return attr;
}

/* Reaps on this thread until @end is given; resumes coroutines here. */
static void loop(rnl::queue &queue, ending &end)
{
	while (!end.try_acquire()) {
		pollfd fd = { rnl_cq_fd(queue), POLLIN, 0 };

		poll(&fd, 1, 10);
		queue.reap([](rnl_job *job) { rnl::resume(job); });
	}
}

/* An executor of the user's: one thread. */
class executor {
	std::mutex lock;
	std::condition_variable more;
	std::vector<rnl_job *> jobs;
	bool ends = false;
	std::thread thread{ [this] { serve(); } };

	void serve()
	{
		std::unique_lock<std::mutex> locked(lock);

		for (;;) {
			more.wait(locked, [this] { return ends || !jobs.empty(); });
			if (jobs.empty())
				return;
			rnl_job *job = jobs.back();

			jobs.pop_back();
			locked.unlock();
			rnl::resume(job);
			locked.lock();
		}
	}

public:
	static executor *the;

	executor() { the = this; }
	~executor()
	{
		{
			std::lock_guard<std::mutex> locked(lock);

			ends = true;
		}
		more.notify_all();
		thread.join();
	}
	static void post(rnl_job *job)
	{
		std::lock_guard<std::mutex> locked(the->lock);

		the->jobs.push_back(job);
		the->more.notify_one();
	}
	std::thread::id id() const { return thread.get_id(); }
};
executor *executor::the;

/* Counts what is alive, to find what is destroyed twice or never. */
struct counted {
	static std::atomic<int> alive;
	int number;

	explicit counted(int n) : number(n) { alive++; }
	counted(const counted &from) : number(from.number) { alive++; }
	counted(counted &&from) noexcept : number(from.number) { alive++; }
	~counted() { alive--; }
};
std::atomic<int> counted::alive{ 0 };

/* ---- jobs -------------------------------------------------------------------------- */

static coroutine values(rnl_pool *pool, ending &end)
{
	int ran = 0;

	expect(co_await rnl::run(pool, [] { return 7; }) == 7, "a number");
	expect(rnl_worker().index >= 0, "it goes on on a worker");
	rnl::run text(pool, [given = std::string(100, 'x')] { return given + "y"; });
	expect(co_await text == std::string(100, 'x') + "y", "an owned string");
	rnl::run owner(pool, [] { return std::make_unique<int>(3); });
	expect(*co_await owner == 3, "a value that moves");
	co_await rnl::run(pool, [&ran] { ran++; });
	expect(ran == 1, "nothing");
	{
		auto fn = [owned = counted(4)] { return counted(owned.number + 1); };

		expect((co_await rnl::run(pool, fn)).number == 5, "what the function owns");
		expect((co_await rnl::run(pool, std::move(fn))).number == 5, "and if it moves");
	}
#ifdef __clang__	/* g++ 12 destroys twice what a lambda inside a co_await expression owns */
	const auto number_of = [](const counted &value) { return value.number; };
	const int inside = number_of(co_await rnl::run(pool, [owned = counted(4)] { return owned; }));
	expect(inside == 4, "and inside the expression");
#endif
	expect(counted::alive == 0, "is destroyed once");

	rnl::run again(pool, [&ran] { return ++ran; }, { .key = 3 });
	for (int i = 2; i < 10; i++)
		expect(co_await again == i, "again");
	end.release();
}

struct own_error {
	int number;
};

/* Awaits @work; returns the errno that it throws, or 0. A macro, because a coroutine has no helpers. */
#define THROWN(ret, work) \
	ret = 0; \
	try { \
		(void)co_await work; \
	} catch (const std::system_error &e) { \
		ret = e.code().value(); \
	}

static coroutine errors(rnl_pool *pool, ending &end)
{
	int ret, number = 0;

	try {
		co_await rnl::run(pool, [] { throw own_error{ 4 }; });
	} catch (const own_error &e) {
		number = e.number;
	}
	expect(number == 4, "an exception of any type");
	THROWN(ret, rnl::run(pool, [] { rnl::check(-EPROTO, "the peer"); }));
	expect(ret == EPROTO, "an errno");
	THROWN(ret, rnl::run(pool, [] { return 1; }, { .deadline_ns = 0 }));
	expect(ret == ETIMEDOUT, "a deadline");
	THROWN(ret, rnl::run(pool, [] { return 1; }, { .device = 3 }));
	expect(ret == EINVAL, "a device that is not there");
	THROWN(ret, rnl::run(pool, [] { return 1; }, { .flags = 1u << 31 }));
	expect(ret == EINVAL, "an unknown flag");
	THROWN(ret, rnl::run(nullptr, [] { return 1; }));
	expect(ret == EINVAL, "no pool");
	THROWN(ret, rnl::run(pool, [] { return -EIO; }));
	expect(ret == 0, "a negative value is no failure");
	end.release();
}

/* A queue and a `post`. */
static coroutine both(rnl_pool *pool, rnl::queue &queue, ending &end)
{
	bool thrown = false;

	try {
		co_await rnl::run(pool, [] {}, { .cq = queue, .post = executor::post });
	} catch (const std::logic_error &) {
		thrown = true;
	}
	expect(thrown, "a queue and a `post`");
	end.release();
}

/* Pools that refuse, cancel and stop. */
static coroutine refused(rnl_pool *pool, std::atomic<bool> &blocked, std::atomic<bool> &goes_on,
			 ending &end)
{
	int ret;

	THROWN(ret, rnl::run(pool, [&] {
		blocked = true;
		while (!goes_on)
			std::this_thread::sleep_for(std::chrono::milliseconds(1));
	}));
	expect(ret == 0, "the job that blocks");
	THROWN(ret, rnl::run(pool, [] {}));
	expect(ret == ESHUTDOWN, "a closed pool");
	end.release();
}

static coroutine waits(rnl_pool *pool, int want, ending &end)
{
	int ret;

	THROWN(ret, rnl::run(pool, [] {}));
	expect(ret == want, "how it ended");
	end.release();
}

static void refusals()
{
	std::atomic<bool> blocked{ false }, goes_on{ false };
	ending end{ 0 };
	rnl::pool pool(attributes(1, 1));

	refused(pool, blocked, goes_on, end);
	while (!blocked)
		std::this_thread::yield();
	waits(pool, ECANCELED, end);		/* is queued */
	waits(pool, EAGAIN, end);		/* is refused: the pool is full */
	end.acquire();
	try {
		(void)rnl::start(pool, [] {}, { .wait_ns = 1 });
		expect(false, "a pool that stays full");
	} catch (const std::system_error &e) {
		expect(e.code() == std::errc::timed_out, "a pool that stays full");
	}
	expect(rnl_pool_stop(pool, 0) == -ETIMEDOUT, "stop");
	end.acquire();
	goes_on = true;
	end.acquire();
}

static coroutine devices(rnl_pool *pool, ending &end)
{
	char text[8] = "";
	void *mem;

	rnl::check(rnl_memory_get(pool, 0, 8, &mem, 0), "rnl_memory_get");
	co_await rnl::run(pool, [&] { rnl::check(rnl_copy(mem, "device", 7)); });
	co_await rnl::run(pool, [&] { rnl::check(rnl_copy(text, mem, 7)); });
	expect(!std::strcmp(text, "device"), "two jobs, one after the other, on the device");
	rnl_memory_put(pool, mem);
	end.release();
}

/* ---- where it goes on ----------------------------------------------------------------- */

/* No && after a co_await: g++ 12 evaluates its right side before. */
static coroutine places(rnl_pool *pool, rnl::queue &queue, executor &others, ending &end)
{
	const auto here = this_thread();
	rnl::barrier none(pool);
	int got;

	for (int i = 0; i < 20; i++) {
		got = co_await rnl::run(pool, [i] { return i; }, { .cq = queue });
		expect(got == i && this_thread() == here, "the thread that reaps");
		got = co_await rnl::run(pool, [i] { return i; }, { .post = executor::post });
		expect(got == i && this_thread() == others.id(), "a thread of the user's");
		co_await rnl::run(pool, [] {});
		expect(rnl_worker().index >= 0, "a worker");
		co_await rnl::ended(none, executor::post);
		expect(this_thread() == others.id(), "an empty barrier: the thread of the user's");
		co_await rnl::ended(none, queue);
		expect(this_thread() == here, "an empty barrier: the thread that reaps");
	}
	end.release();
}

static coroutine fan_in(rnl_pool *pool, rnl::queue &queue, ending &end)
{
	std::atomic<int> sum{ 0 };
	int ret;

	for (int turn = 0; turn < 50; turn++) {
		rnl::barrier all(pool);
		rnl::movable_job three([&sum] { return sum += 3; }, { .in = all });
		rnl::movable_job four([&sum, turn] {
			if (turn % 2)
				throw std::system_error(EDOM, std::generic_category());
			sum += 4;
		}, { .in = all });

		sum = 0;
		three.submit(pool);
		four.submit(pool);
		if (turn % 4 < 2) {
			THROWN(ret, all);
		} else {
			THROWN(ret, rnl::ended(all, queue));
		}
		expect(ret == (turn % 2 ? EDOM : 0), "the barrier throws what failed");
		expect(sum == (turn % 2 ? 3 : 7) && three.get() > 0, "all its jobs are done");
	}
	end.release();
}

static coroutine arrivals(rnl_pool *pool, rnl::awaited_queue &queue, int &nr)
{
	std::vector<std::unique_ptr<rnl::any_job>> jobs;
	int sum = 0;

	for (int i = 0; i < 100; i++)
		jobs.push_back(rnl::start(pool, [&sum, i] { sum += i; }, { .key = 1, .cq = queue }));
	for (nr = 0; nr < 100; nr++)
		rnl::any_job::of(co_await queue).rethrow();
	expect(sum == 99 * 100 / 2, "each job once");
}

static void queues(rnl_pool *pool)
{
	rnl::awaited_queue queue;
	int nr = 0;

	expect(!queue.go_on(), "nobody waits");
	arrivals(pool, queue, nr);
	while (nr < 100) {
		pollfd fd = { rnl_cq_fd(queue), POLLIN, 0 };

		poll(&fd, 1, -1);
		queue.go_on();
	}
	expect(!queue.go_on(), "nobody waits any more");
}

/* ---- settings, holds, jobs that move ----------------------------------------------------- */

static coroutine held(rnl_pool *pool, rnl::hold &out, std::atomic<int> &step, ending &end)
{
	int ret;

	expect(co_await rnl::run(pool, [&](rnl_job *self) {
		out = rnl::hold(self);
		step = 1;
		return 5;
	}) == 5, "a held job");
	expect(step == 2, "is done when it is released");
	THROWN(ret, rnl::run(pool, [](rnl_job *self) { rnl::hold lost(self); }));
	expect(ret == ECANCELED, "a lost hold fails its job");
	THROWN(ret, rnl::run(pool, [](rnl_job *self) {
		rnl::hold lost(self);

		lost = rnl::hold();
	}));
	expect(ret == ECANCELED, "so does one that another replaces");
	THROWN(ret, rnl::run(pool, [](rnl_job *self) { rnl::hold(self).release(-EPROTO); }));
	expect(ret == EPROTO, "a hold's failure");
	THROWN(ret, rnl::run(pool, [&](rnl_job *self) { out = rnl::hold(self); },
			     { .deadline_ns = 20 * 1000 * 1000 }));
	expect(ret == ETIMEDOUT && out && !out.release() && !out, "a hold that the deadline has ended");
	end.release();
}

static void holds(rnl_pool *pool)
{
	std::atomic<int> step{ 0 };
	ending end{ 0 };
	rnl::hold out;

	expect(!out && !out.release(), "no hold");
	held(pool, out, step, end);
	while (step != 1)
		std::this_thread::yield();
	step = 2;
	rnl::hold moved(std::move(out));
	expect(moved.release() && !moved.release(), "released once");
	end.acquire();
}

static void started()
{
	rnl::queue queue;
	rnl::pool pool(attributes(2, 0));
	rnl::barrier first(pool);
	rnl_class *cls = nullptr;
	std::vector<int> order;
	unsigned nr = 0;

	rnl::check(rnl_class_create(&cls, pool, nullptr));
	{
		auto make = [&](int i, const rnl::settings &how) {
			return rnl::start(pool, [&order, i] { order.push_back(i); }, how);
		};
		std::vector<decltype(make(0, {}))> jobs;

		for (int i = 0; i < 50; i++)
			jobs.push_back(make(i, { .key = 9, .in = first }));
		make(50, { .cls = cls, .after = first, .wait_ns = RNL_FOREVER })->get();
		expect(order.size() == 51 && order[7] == 7 && order[50] == 50,
		       "a key, barriers, a class");
	}
	auto job = rnl::start(pool, [] { return 3; }, { .device = 0, .cq = queue });
	while (!nr)
		nr = queue.reap([&](rnl::any_job &done) { expect(&done == job.get(), "which"); });
	expect(job->get() == 3, "a queue");
	try {
		(void)rnl::start(pool, [] {}, { .deadline_ns = 0 })->get();
		expect(false, "a deadline");
	} catch (const std::system_error &e) {
		expect(e.code() == std::errc::timed_out, "a deadline");
	}
	rnl_class_stats stats = RNL_CLASS_STATS_INIT;
	expect(!rnl_class_read_stats(cls, &stats) && stats.accepted == 1, "the class has its job");
}

static rnl::movable_job<int (*)()> of_function() { return rnl::movable_job(+[] { return 8; }); }

static void moves(rnl_pool *pool)
{
	auto make = [](int i) {
		return rnl::movable_job([i, owned = std::make_unique<int>(1)] { return i + *owned; });
	};
	std::vector<decltype(make(0))> jobs;
	auto function = of_function(), moved(std::move(function));

	for (int i = 0; i < 100; i++)
		jobs.push_back(make(i));		/* moves those before */
	for (auto &job : jobs)
		job.submit(pool);
	for (int i = 0; i < 100; i++)
		expect(jobs[static_cast<size_t>(i)].get() == i + 1, "jobs in a vector that grew");
	try {
		moved.get();
		expect(false, "not submitted");
	} catch (const std::logic_error &e) {
		expect(!std::strcmp(e.what(), "rnl::movable_job: it was not submitted"),
		       "not submitted");
	}
	try {
		rnl::pool closed(attributes(1, 0));

		rnl_pool_close(closed);
		moved.submit(closed);
		expect(false, "refused");
	} catch (const std::system_error &e) {
		expect(e.code().value() == ESHUTDOWN, "refused");
	}
	auto later(std::move(moved));			/* as it was refused */
	later.submit(pool);
	expect(later.get() == 8, "refused, moved, submitted");
	later.submit(pool);
	expect(later.get() == 8 && static_cast<rnl::any_job &>(later).result() == 0, "submitted again");
}

/* ---- many, and without an allocation ------------------------------------------------------ */

/* A request: two jobs, one after the other. If the pool is full, it waits for space. */
static coroutine request(rnl_pool *pool, rnl_cq *cq, int i, std::atomic<long> &sum, ending &end)
{
	rnl_job_more more = RNL_JOB_MORE_INIT;
	int half = 0, ret;

	more.when = RNL_SPACE;
	rnl::run first(pool, [&] { half = i; }, { .cq = cq });
	rnl::run second(pool, [&] { sum += half * 2; }, { .cq = cq });
	rnl::run space(pool, [] {}, { .more = &more, .cq = cq });

	do {
		THROWN(ret, first);
		if (ret == EAGAIN)
			co_await space;
	} while (ret == EAGAIN);
	expect(!ret, "the first job of a request");
	do {
		THROWN(ret, second);
		if (ret == EAGAIN)
			co_await space;
	} while (ret == EAGAIN);
	expect(!ret, "the second");
	end.release();
}

static void many(bool reaps)
{
	const int nr = 2000;
	std::atomic<long> sum{ 0 };
	ending ends{ 0 }, all{ 0 };
	rnl::queue queue;
	rnl::pool pool(attributes(3, 64));

	for (int i = 0; i < nr; i++) {
		request(pool, reaps ? static_cast<rnl_cq *>(queue) : nullptr, i, sum, ends);
		if (reaps)
			queue.reap([](rnl_job *job) { rnl::resume(job); });
	}
	for (int i = 0; i < nr;) {
		if (ends.try_acquire_for(std::chrono::milliseconds(reaps ? 0 : 100)))
			i++;
		else if (reaps)
			queue.reap([](rnl_job *job) { rnl::resume(job); });
	}
	expect(sum == static_cast<long>(nr) * (nr - 1), "each request once");
}

static coroutine without_allocation(rnl_pool *pool, rnl::queue &queue, ending &end)
{
	long before = 0, frame = 0;
	rnl::barrier all(pool);

	for (int turn = 0; turn < 600; turn++) {
		int value = 0;

		if (turn == 100)
			before = allocations;
		expect(co_await rnl::run(pool, [turn] { return turn; }) == turn, "on a worker");
		co_await rnl::run(pool, [&value] { value = 2; }, { .key = 5, .in = all, .cq = queue });
		co_await rnl::ended(all, queue);
		expect(value == 2, "by a queue");
	}
	frame = allocations - before;
	if (frame && std::strcmp(device, "cuda"))	/* the double of CUDA allocates */
		std::fprintf(stderr, "%ld allocations in 500 turns\n", frame);
	expect(!frame || !std::strcmp(device, "cuda"), "nothing is allocated");
	end.release();
}

/* ---- mistakes ------------------------------------------------------------------------------ */

static coroutine lives(rnl_pool *pool, ending &goes_on)
{
	co_await rnl::run(pool, [&] { goes_on.acquire(); });
}

static coroutine lives_by_barrier(rnl::barrier &all)
{
	co_await all;
}

/* Never returns. */
static int mistake(const std::string &what)
{
	ending goes_on{ 0 };
	rnl::pool pool(attributes(1, 0));

	if (what == "destroyed") {
		lives(pool, goes_on).handle.destroy();
	} else if (what == "barrier") {
		rnl::barrier all(pool);
		rnl::movable_job job([&] { goes_on.acquire(); }, { .in = all });

		job.submit(pool);
		lives_by_barrier(all).handle.destroy();
	} else if (what == "moved") {
		rnl::movable_job job([] {});

		job.submit(pool);
		auto other(std::move(job));
	}
	return EXIT_FAILURE;
}

int main(int argc, char **argv)
{
	ending end{ 0 };

	device = argc > 1 ? argv[1] : "host";
	if (argc > 2)
		return mistake(argv[2]);
	rnl_set_log([](void *, rnl_log_level, const char *msg) {
		logged++;
		std::printf("log: %s\n", msg);
	}, nullptr);
	{
		rnl::queue queue;
		rnl::pool pool(attributes(2, 0));
		executor others;

		values(pool, end);
		end.acquire();
		errors(pool, end);
		end.acquire();
		devices(pool, end);
		end.acquire();
		both(pool, queue, end);
		end.acquire();
		places(pool, queue, others, end);
		loop(queue, end);
		fan_in(pool, queue, end);
		loop(queue, end);
		without_allocation(pool, queue, end);
		loop(queue, end);
		queues(pool);
		holds(pool);
		moves(pool);
	}
	started();
	refusals();
	many(false);
	many(true);
	expect(logged == 3, "only the three mistakes of errors() are logged");
	std::puts("right");
	return EXIT_SUCCESS;
}
