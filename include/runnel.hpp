/* SPDX-License-Identifier: MIT */
/*
 * runnel.h for C++17: jobs of lambdas, exceptions, and classes with destructors. Since 0.2.
 *
 * Each class converts to the pointer that the functions of runnel.h take, so all of them work on
 * it: rnl_pool_drain(pool, RNL_FOREVER), rnl_job_set_after(job, barrier).
 *
 * Objects are destroyed in the reverse order of their declarations. So declare a queue first, then
 * its pools, then their barriers and jobs. rnl_cpp(3) has the details and an example.
 */
#ifndef RUNNEL_HPP
#define RUNNEL_HPP

#include <runnel.h>

#include <sys/eventfd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <exception>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>

namespace rnl {

/* The error category of runnel.h's errno codes, with the texts of rnl_strerror(). */
RNL_API inline const std::error_category &category() noexcept
{
	static const struct final : std::error_category {
		const char *name() const noexcept override { return "runnel"; }
		std::string message(int e) const override { return rnl_strerror(e); }
		std::error_condition default_error_condition(int e) const noexcept override
		{
			return { e, std::generic_category() };
		}
	} errors;
	return errors;
}

/* Returns @ret if it is not negative; else throws a std::system_error with a text from @what. */
inline int check(int ret, const char *what = "runnel")
{
	if (ret < 0)
		throw std::system_error(-ret, category(), what);
	return ret;
}

/* Deleters, and waited(), which ends the process if a destructor cannot wait for its jobs. */
struct end {
	void operator()(rnl_pool *pool) const noexcept { rnl_pool_destroy(pool); }
	void operator()(rnl_cq *cq) const noexcept { rnl_cq_destroy(cq); }
	static void waited(int ret, const char *what) noexcept
	{
		if (ret != -EBUSY)
			return;
		std::fprintf(stderr, "runnel: error: %s: its end would wait for ever: a job is not done, and "
			     "this is a worker of its pool, or it is not reaped\n", what);
		std::terminate();
	}
};

/* A pool. Its destructor, rnl_pool_destroy(), waits for the accepted jobs. It may be moved. */
class pool {
	std::unique_ptr<rnl_pool, end> ours;

public:
	explicit pool(const rnl_pool_attr &attributes)
	{
		rnl_pool *made = nullptr;

		check(rnl_pool_create(&made, &attributes), "rnl_pool_create");
		ours.reset(made);
	}
	pool() : pool(rnl_pool_attr(RNL_POOL_ATTR_INIT)) {}
	operator rnl_pool *() const noexcept { return ours.get(); }
};

/* A barrier. Its destructor waits: no worker of its pool may run it. Jobs after it must be done. */
class barrier {
	rnl_barrier ours;

public:
	explicit barrier(rnl_pool *of) { check(rnl_barrier_init(&ours, of), "rnl_barrier_init"); }
	barrier(barrier &&) = delete;
	~barrier() { end::waited(rnl_barrier_wait(&ours, RNL_FOREVER), "rnl::barrier"); }
	/* Waits for the jobs; throws the result of the first job that failed. */
	void wait()
	{
		check(rnl_barrier_wait(&ours, RNL_FOREVER), "rnl_barrier_wait");
		check(ours.result, "a job of the barrier");
	}
	operator rnl_barrier *() noexcept { return &ours; }
};

/* The base class of all jobs, without the type of their function. */
class any_job {
	std::exception_ptr error;
	int error_result = 0;
	virtual void invoke() = 0;

public:
	any_job(any_job &&) = delete;
	virtual ~any_job() = default;

	/* Returns the object of a reaped job; throws std::logic_error if the job has no object. */
	static any_job &of(rnl_job *job)
	{
		for (const function *f = functions.load(std::memory_order_acquire); f; f = f->next)
			if (f->fn == job->fn)
				return *rnl_container_of(job, memory, job)->self;
		throw std::logic_error("rnl::any_job::of(): it is no rnl::job: reap it as rnl_job *");
	}
	/* Submits the job; if the pool is full, throws EAGAIN (resource_unavailable_try_again). */
	void submit(rnl_pool *to) { check(rnl_submit(to, &ours.job), "rnl_submit"); }
	/* Waits for the job; throws the exception that left its function, or else its result. */
	void wait()
	{
		check(rnl_job_wait(&ours.job, RNL_FOREVER), "rnl_job_wait");
		rethrow();
	}
	void rethrow() /* throws like wait(), for a job that is done, after a reap */
	{
		if (error && ours.job.result == error_result)
			std::rethrow_exception(error);
		check(ours.job.result, "the job's result");
	}
	int result() const noexcept { return ours.job.result; } /* of a job that is done */
	operator rnl_job *() noexcept { return &ours.job; }

protected:
	/* The functions of all rnl::jobs; never freed: of() may run after a module's unload. */
	struct function {
		explicit function(int (*of)(rnl_job *)) : fn(of), next(functions)
		{
			while (!functions.compare_exchange_weak(next, this)) {}
		}
		int (*fn)(rnl_job *);
		function *next;
	};
	RNL_API inline static std::atomic<function *> functions{ nullptr };

	explicit any_job(int (*fn)(rnl_job *))
	{
		ours.self = this;
		check(rnl_job_init(&ours.job, fn), "rnl_job_init");
	}
	/* Calls the function; stores an exception and returns an errno for it. */
	static int call(rnl_job *job) noexcept
	{
		any_job &self = *rnl_container_of(job, memory, job)->self;

		self.error = nullptr;
		self.error_result = -ENOTRECOVERABLE;
		try {
			self.invoke();
			return 0;
		} catch (const std::system_error &e) {
			const auto &code = e.code();

			self.error = std::current_exception();
			if (code.value() > 0 && (code == std::errc(code.value()) ||
						 code.category() == std::system_category()))
				self.error_result = -code.value();
		} catch (const std::bad_alloc &) {
			self.error = std::current_exception();
			self.error_result = -ENOMEM;
		} catch (...) {
			self.error = std::current_exception();
		}
		return self.error_result;
	}

	/* Has no virtual functions, because rnl_container_of() needs a standard layout. */
	struct memory {
		rnl_job job;
		any_job *self;
	} ours;
};

/* Deleted: neither get() nor the destructor would wait for the callback. Use a queue. */
int rnl_job_set_on_done(any_job &, void (*)(rnl_job *)) = delete;

/*
 * A job whose function is a lambda or another object, called without arguments or with the job's
 * rnl_job pointer. The object cannot be moved. Its destructor waits for the job; on a worker of the
 * pool, it ends the process if the job is not done. A job with a completion queue is done when it
 * is reaped: before that, get() throws EBUSY and the destructor ends the process. So declare the
 * queue before the job, and reap the job first. An exception fails the job with the errno of a
 * std::system_error, with -ENOMEM for a std::bad_alloc, else with -ENOTRECOVERABLE. A return value
 * never fails the job. Each submit calls the function once, or twice in a pool with a guard.
 */
template <class F> class job final : public any_job {
	static decltype(auto) called(F &fn, [[maybe_unused]] rnl_job *job)
	{
		if constexpr (std::is_invocable_v<F &>)
			return fn();
		else
			return fn(job);
	}

public:
	using value = std::decay_t<decltype(called(std::declval<F &>(), nullptr))>;

	explicit job(F callee) : any_job(run), fn(std::move(callee))
	{
		[[maybe_unused]] static const function *known = new function(run);
	}
	~job() override
	{
		if (ours.job.pool && rnl_job_wait(&ours.job, 0) != 0)
			end::waited(rnl_job_wait(&ours.job, RNL_FOREVER), "rnl::job");
	}
	/* Waits; moves the function's value out, once for each submit; throws like wait(). */
	value get()
	{
		wait();
		if constexpr (!std::is_void_v<value>) {
			if (!returned)
				throw std::logic_error("rnl::job::get(): the value was taken before");
			return *std::exchange(returned, std::nullopt);
		}
	}

private:
	/* A function for each F, because figures, guards and records name functions. */
	static int run(rnl_job *job) { return call(job); }
	void invoke() override
	{
		if constexpr (std::is_void_v<value>)
			called(fn, &ours.job);
		else
			returned.emplace(called(fn, &ours.job));
	}

	F fn;
	std::optional<std::conditional_t<std::is_void_v<value>, char, value>> returned;
};

/* Makes a job on the heap and submits it; throws std::bad_alloc, or like submit(). */
template <class F> [[nodiscard]] std::unique_ptr<job<std::decay_t<F>>> start(rnl_pool *to, F &&callee)
{
	auto made = std::make_unique<job<std::decay_t<F>>>(std::forward<F>(callee));

	made->submit(to);
	return made;
}

/* A completion queue. Declare it before its pools: at its end, no job may be using it. */
class queue {
	std::unique_ptr<rnl_cq, end> ours;
	rnl_job *jobs[64] = {};		/* reaped; from `notified` on, not yet given to @fn */
	int notified = 0, there = 0;

public:
	queue()
	{
		rnl_cq *made = nullptr;

		check(rnl_cq_create(&made), "rnl_cq_create");
		ours.reset(made);
	}
	/*
	 * Calls @fn(rnl_job *), or @fn(any_job &) if all jobs are rnl::jobs, for each done job. If
	 * @fn throws, the next call begins after that job; the descriptor is readable until then.
	 */
	template <class F> unsigned reap(F &&fn)
	try {
		for (int nr = 0, got = 64;; there = got) {
			for (; notified < there; nr++) {
				if constexpr (std::is_invocable_v<F &, rnl_job *>) {
					fn(jobs[notified++]);
				} else {
					any_job &job = any_job::of(jobs[notified]);

					notified++;
					fn(job);
				}
			}
			if (got < 64)
				return static_cast<unsigned>(nr);
			notified = there = 0;
			got = check(rnl_cq_reap(*this, jobs, 64, 0), "rnl_cq_reap");
		}
	} catch (...) {
		if (notified < there)
			eventfd_write(rnl_cq_fd(*this), 1);
		throw;
	}
	operator rnl_cq *() const noexcept { return ours.get(); }
};

} /* namespace rnl */

#endif
