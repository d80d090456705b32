/* SPDX-License-Identifier: MIT */
/*
 * runnel.hpp for C++20: settings of jobs, holds, jobs that can be moved, and co_await of jobs,
 * barriers and completion queues. Since 0.3.
 *
 * What a coroutine awaits is an object in the coroutine's frame, with its job: nothing is allocated.
 * The library has no type of coroutine; these objects work in every one. rnl_cpp20(3) has an
 * example.
 *
 * Functions throw the errors of the C functions that they call, as in runnel.hpp.
 */
#ifndef RUNNEL20_HPP
#define RUNNEL20_HPP

#ifndef __cpp_impl_coroutine
#error "runnel20.hpp needs C++20 with coroutines: compile this unit with -std=c++20"
#endif

#include <runnel.hpp>
#include <runnel/class.h>
#include <runnel/hold.h>
#include <runnel/more.h>

#include <coroutine>
#include <functional>

namespace rnl {

/* Prints the mistake and ends the process. */
[[noreturn]] inline void wrong(const char *what) noexcept
{
	std::fprintf(stderr, "runnel: error: %s\n", what);
	std::terminate();
}

/*
 * The settings of a job, with designated initialisers: { .key = 7, .cq = queue }. Objects that it
 * points to are valid until the job is done.
 */
struct settings {
	uint64_t key = RNL_KEY_NONE;
	int64_t deadline_ns = -1;
	int device = -1;
	unsigned flags = 0;		/* enum rnl_replay_flags */
	rnl_class *cls = nullptr;
	rnl_barrier *in = nullptr;	/* rnl_barrier_add() */
	rnl_barrier *after = nullptr;
	rnl_job_more *more = nullptr;
	rnl_cq *cq = nullptr;
	/* co_await only, without a queue: the worker calls it in place of resume(), see there */
	void (*post)(rnl_job *) = nullptr;
	/* The longest wait for space, by rnl_submit_wait(), which may block the thread; 0: none */
	int64_t wait_ns = 0;

	/* Makes the settings that are not at their defaults. */
	void apply(rnl_job *job) const
	{
		if (key != RNL_KEY_NONE)
			check(rnl_job_set_key(job, key), "rnl_job_set_key");
		if (deadline_ns >= 0)
			check(rnl_job_set_deadline(job, deadline_ns), "rnl_job_set_deadline");
		if (device != -1)
			check(rnl_job_set_device(job, device), "rnl_job_set_device");
		if (flags)
			check(rnl_job_set_flags(job, flags), "rnl_job_set_flags");
		if (cls)
			check(rnl_job_set_class(job, cls), "rnl_job_set_class");
		if (in)
			check(rnl_barrier_add(in, job), "rnl_barrier_add");
		if (after)
			check(rnl_job_set_after(job, after), "rnl_job_set_after");
		if (more)
			check(rnl_job_set_more(job, more), "rnl_job_set_more");
		if (cq)
			check(rnl_job_set_cq(job, cq), "rnl_job_set_cq");
	}
	int submit(rnl_pool *to, rnl_job *job) const noexcept	/* returns a negative errno, or 0 */
	{
		return wait_ns ? rnl_submit_wait(to, job, wait_ns) : rnl_submit(to, job);
	}
};

/* Like start() without settings. */
template <class F>
[[nodiscard]] std::unique_ptr<job<std::decay_t<F>>> start(rnl_pool *to, F &&callee, const settings &how)
{
	auto made = std::make_unique<job<std::decay_t<F>>>(std::forward<F>(callee));

	how.apply(*made);
	check(how.submit(to, *made), "rnl_submit");
	return made;
}

/*
 * A hold of a job: rnl_job_hold(). It may be moved, to any thread. Its destructor releases it with
 * -ECANCELED, unless it was released, so a job whose hold is lost fails.
 */
class hold {
	rnl_hold ours{};
	bool held = false;

public:
	hold() = default;
	/* @self: the job whose function runs on this thread. */
	explicit hold(rnl_job *self) { held = check(rnl_job_hold(self, &ours), "rnl_job_hold") == 0; }
	hold(hold &&from) noexcept : ours(from.ours), held(std::exchange(from.held, false)) {}
	hold &operator=(hold &&from) noexcept
	{
		hold old(std::move(*this));

		ours = from.ours;
		held = std::exchange(from.held, false);
		return *this;
	}
	~hold()
	{
		if (held)
			(void)rnl_hold_release(&ours, -ECANCELED);
	}
	/*
	 * Releases the hold; a negative errno as @result fails the job. Any thread. Returns false if
	 * there is no hold, or if the job's deadline or a guard's second call has ended it.
	 */
	bool release(int result = 0)
	{
		const int ret = std::exchange(held, false) ? rnl_hold_release(&ours, result) : -EALREADY;

		if (ret != -EALREADY && ret != -ESTALE)
			check(ret, "rnl_hold_release");
		return !ret;
	}
	explicit operator bool() const noexcept { return held; }
};

/*
 * A job that may be moved until its submit: returned, or kept in a std::vector that grows. Its
 * settings move along. To move it after an accepted submit ends the process.
 */
template <class F> class movable_job {
	F fn;
	settings how;
	std::optional<job<std::reference_wrapper<F>>> ours;	/* from the submit on */

	job<std::reference_wrapper<F>> &submitted()
	{
		if (!ours)
			throw std::logic_error("rnl::movable_job: it was not submitted");
		return *ours;
	}

public:
	explicit movable_job(F callee, const settings &with = {}) : fn(std::move(callee)), how(with) {}
	movable_job(movable_job &&from) noexcept : fn(std::move(from.fn)), how(from.how)
	{
		if (from.ours)
			wrong("an rnl::movable_job is moved after its submit");
	}
	/* Submits the job like rnl::job. If it is refused, it may be moved or submitted later. */
	void submit(rnl_pool *to)
	{
		const bool first = !ours;

		try {
			if (first)
				how.apply(ours.emplace(std::ref(fn)));
			check(how.submit(to, *ours), "rnl_submit");
		} catch (...) {
			if (first)
				ours.reset();
			throw;
		}
	}
	void wait() { submitted().wait(); }		/* like rnl::job; std::logic_error before */
	auto get() { return submitted().get(); }	/* the submit */
	operator any_job &() { return submitted(); }
	operator rnl_job *() { return submitted(); }
};

/* The base of what a coroutine awaits by a job of its own, whose `user` points here. */
class awaiting {
	std::coroutine_handle<> waits;	/* while the job is under way */

	friend void resume(rnl_job *);

protected:
	awaiting() = default;
	awaiting(awaiting &&) = delete;
	~awaiting() = default;
	/* Called first by destructors: the job's own would wait for a job that resumes what is gone. */
	void must_have_gone_on() const noexcept
	{
		if (waits)
			wrong("a coroutine is destroyed while it awaits a job: cancel the job, and let the "
			      "coroutine go on");
	}
	void listen(rnl_job *, rnl_cq *, void (*post)(rnl_job *));
	/* Calls @submit. If it accepts the job, the coroutine may go on at once, and end this object. */
	template <class S> void suspend(std::coroutine_handle<> by, const char *what, S submit)
	{
		waits = by;
		if (const int ret = submit(); ret < 0) {
			waits = nullptr;
			check(ret, what);	/* the coroutine goes on with the exception */
		}
	}

public:
	bool await_ready() const noexcept { return false; }
};

/*
 * Resumes the coroutine that awaits @job, which is done. Whoever calls it chooses the thread:
 *   - without a queue and a `post`, the worker that ended the job (the timer thread, if the function
 *     was not called). It does nothing else until the coroutine waits again, so that should be soon,
 *     and never by a blocking call. Work that the coroutine issues there belongs to no job. An
 *     exception that leaves the coroutine ends the process;
 *   - with a queue, the thread that reaps: queue.reap([](rnl_job *job) { rnl::resume(job); }), in a
 *     queue of awaited jobs only. An exception that leaves the coroutine leaves resume();
 *   - with a `post`, which that worker calls with the job, another thread that `post` gives the job
 *     to: of an executor, say. `post` returns soon, and throws nothing.
 * Ordering: everything that the job did, on host and device, happens before the coroutine goes on.
 */
inline void resume(rnl_job *job)
{
	if (!job->user)
		wrong("rnl::resume() got a job that no coroutine awaits: give other jobs a queue of their own");
	std::exchange(static_cast<awaiting *>(job->user)->waits, nullptr).resume();
}

inline void awaiting::listen(rnl_job *job, rnl_cq *cq, void (*post)(rnl_job *))
{
	job->user = this;
	if (cq)
		check(rnl_job_set_cq(job, cq), "rnl_job_set_cq");
	if (!post)
		post = [](rnl_job *done) noexcept { resume(done); };
	else if (cq)
		throw std::logic_error("rnl::settings: a job has a queue or a `post`, not both");
	if (!cq)
		check(rnl_job_set_on_done(job, post), "rnl_job_set_on_done");
}

/*
 * A job of a coroutine: co_await rnl::run(pool, lambda, { .key = 7 }) submits it, suspends the
 * coroutine until the job is done, and returns the value of the function, or throws like
 * rnl::job::get(). If the submit is refused, the coroutine is not suspended, and the co_await throws
 * the error: EAGAIN if the pool is full, ESHUTDOWN if it is closed. As a local variable the object
 * may be awaited repeatedly, cancelled by rnl_job_cancel() from another thread, and be given further
 * settings by the C functions, between two co_awaits. The job's `user` belongs to the object.
 *
 * If the coroutine is destroyed while the job is under way, the process ends with a message. End
 * coroutines by their jobs: rnl_pool_stop() makes the co_awaits throw ECANCELED.
 */
template <class F> class [[nodiscard("co_await it")]] run final : public awaiting {
	rnl_pool *pool;
	settings how;
	job<F> ours;

public:
	run(rnl_pool *on, F callee, const settings &with = {})
		: pool(on), how(with), ours(std::move(callee))
	{
		how.apply(ours);
		listen(ours, how.cq, how.post);
	}
	~run() { must_have_gone_on(); }
	/* Not inline, because clang before 18 may keep variables of an inlined one in the frame. */
	[[gnu::noinline]] void await_suspend(std::coroutine_handle<> by)
	{
		suspend(by, "rnl_submit", [this] { return how.submit(pool, ours); });
	}
	typename job<F>::value await_resume() { return ours.get(); }
	operator rnl_job *() noexcept { return ours; }
};

/*
 * The end of the jobs that a barrier counts: co_await rnl::ended(barrier, queue), or co_await barrier
 * for an rnl::barrier. Goes on where a job without settings does, or with its queue or `post`. Throws
 * the result of the barrier's first failed job, or the errors of rnl_barrier_notify(): EAGAIN if
 * seven ended rounds are under way. The barrier may be destroyed afterwards.
 */
class [[nodiscard("co_await it")]] ended final : public awaiting {
	rnl_barrier *of;
	rnl_job ours;

	ended(rnl_barrier *barrier, rnl_cq *cq, void (*post)(rnl_job *)) : of(barrier)
	{
		check(rnl_job_init(&ours, nullptr), "rnl_job_init");
		listen(&ours, cq, post);
	}

public:
	explicit ended(rnl_barrier *barrier, rnl_cq *cq = nullptr) : ended(barrier, cq, nullptr) {}
	ended(rnl_barrier *barrier, void (*post)(rnl_job *)) : ended(barrier, nullptr, post) {}
	~ended() { must_have_gone_on(); }
	[[gnu::noinline]] void await_suspend(std::coroutine_handle<> by)
	{
		suspend(by, "rnl_barrier_notify", [this] { return rnl_barrier_notify(of, &ours); });
	}
	void await_resume() const { check(ours.result, "a job of the barrier"); }
};

inline ended operator co_await(barrier &of) { return ended(of); }

/*
 * A queue whose done jobs a coroutine awaits, in the order of their arrival: rnl_job *job = co_await
 * queue. The loop that polls rnl_cq_fd(queue) calls go_on() when the descriptor is readable. One
 * coroutine waits at a time. The co_await and go_on() run on one thread; not on a worker whose jobs
 * go to this queue.
 */
class awaited_queue : public queue {
	std::coroutine_handle<> waits;
	rnl_job *done = nullptr;

public:
	/* Resumes the coroutine, if it waits and a job has arrived; returns whether it did. */
	bool go_on()
	{
		if (!waits || !await_ready())
			return false;
		std::exchange(waits, nullptr).resume();
		return true;
	}
	bool await_ready() { return check(rnl_cq_reap(*this, &done, 1, 0), "rnl_cq_reap") == 1; }
	void await_suspend(std::coroutine_handle<> by) noexcept { waits = by; }
	rnl_job *await_resume() noexcept { return done; }
};

} /* namespace rnl */

#endif
