/* SPDX-License-Identifier: MIT */
/*
 * runnel.h for C++17: jobs of lambdas, exceptions, and objects that destroy themselves.
 *
 * Each class converts to the pointer that the functions of runnel.h take, so all of them work on it:
 * rnl_pool_drain(pool, RNL_FOREVER), rnl_job_deadline(job, 1000000), rnl_job_after(job, barrier).
 *
 *	rnl::pool pool;
 *	rnl::job words([&] { return count(text); });
 *
 *	words.submit(pool);
 *	std::printf("%d\n", words.get());	// what the lambda returned, or the exception that left it
 */
#ifndef RUNNEL_HPP
#define RUNNEL_HPP

#include <runnel.h>

#include <cerrno>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>

namespace rnl {

/*
 * check - throw what a call returned, if it is an error
 * @ret:	what a function of runnel.h returned.
 *
 * Return: @ret, if it is 0 or more; else it throws a std::system_error whose code is the errno, in
 *	std::generic_category(), and whose text begins with that of rnl_strerror().
 * Since: 0.2
 */
inline int check(int ret)
{
	if (ret < 0)
		throw std::system_error(-ret, std::generic_category(), rnl_strerror(ret));
	return ret;
}

/*
 * pool - a pool that ends with its object
 *
 * rnl_pool_create() and rnl_pool_destroy(): the end waits for the accepted jobs.  It may be moved.
 * Errors of the creation are thrown.
 * Since: 0.2
 */
class pool {
public:
	explicit pool(const rnl_pool_attr &attributes)
	{
		rnl_pool *made = nullptr;

		check(rnl_pool_create(&made, &attributes));
		ours.reset(made);
	}
	pool() : pool(rnl_pool_attr(RNL_POOL_ATTR_INIT)) {}
	operator rnl_pool *() const noexcept { return ours.get(); }

private:
	struct end {
		void operator()(rnl_pool *p) const noexcept { rnl_pool_destroy(p); }
	};
	std::unique_ptr<rnl_pool, end> ours;
};

/*
 * barrier - a barrier whose jobs are done before its memory is gone
 *
 * It is destroyed before its pool, and on no worker of that: the end waits for its jobs.  Jobs that
 * come after it must be done, too.
 * Since: 0.2
 */
class barrier {
public:
	explicit barrier(rnl_pool *of) { check(rnl_barrier_init(&ours, of)); }
	barrier(const barrier &) = delete;
	barrier &operator=(const barrier &) = delete;
	~barrier()
	{
		(void)rnl_barrier_wait(&ours, RNL_FOREVER);
	}
	/* Waits for the jobs; throws the result of the first one that failed. */
	void wait()
	{
		check(rnl_barrier_wait(&ours, RNL_FOREVER));
		check(rnl_barrier_result(&ours));
	}
	operator rnl_barrier *() noexcept { return &ours; }

private:
	rnl_barrier ours;
};

/*
 * any_job - a job without the type of its function
 *
 * What jobs of all lambdas have, and what a reaped job leads back to.
 * Since: 0.2
 */
class any_job {
public:
	any_job(const any_job &) = delete;
	any_job &operator=(const any_job &) = delete;
	virtual ~any_job() = default;

	/* The object of a job that was reaped, or is in a callback: of an rnl::job only. */
	static any_job &of(rnl_job *job) noexcept
	{
		return *rnl_container_of(job, memory, job)->self;
	}
	/* Submits it; of a full pool it throws EAGAIN, std::errc::resource_unavailable_try_again. */
	void submit(rnl_pool *to) { check(rnl_submit(to, &ours.job)); }
	/* Waits until it is done; throws the exception that left its function, or its result. */
	void wait()
	{
		check(rnl_job_wait(&ours.job, RNL_FOREVER));
		rethrow();
	}
	/* The same of a job that is done: in a callback, after a reap. */
	void rethrow()
	{
		const int result = rnl_job_result(&ours.job);

		if (error && result == error_result)
			std::rethrow_exception(error);
		check(result);
	}
	operator rnl_job *() noexcept { return &ours.job; }

protected:
	any_job() { ours.self = this; }
	/* Before the function is gone. */
	void finish() noexcept
	{
		if (rnl_job_test(&ours.job) == 0 && rnl_job_wait(&ours.job, RNL_FOREVER))
			std::terminate();
	}
	/* Calls @fn; an exception is kept, and becomes an errno. */
	template <class Fn> int call(Fn &&callee) noexcept
	{
		error = nullptr;
		error_result = 0;
		try {
			callee();
		} catch (const std::system_error &e) {
			const auto &kind = e.code().category();

			if (kind == std::generic_category() || kind == std::system_category())
				error_result = -e.code().value();
			keep();
		} catch (const std::bad_alloc &) {
			error_result = -ENOMEM;
			keep();
		} catch (...) {
			keep();
		}
		return error_result;
	}

	/* Without virtual functions, so that rnl_container_of() is defined. */
	struct memory {
		rnl_job job;
		any_job *self;
	} ours;

private:
	void keep() noexcept
	{
		error = std::current_exception();
		if (error_result >= 0)
			error_result = -ENOTRECOVERABLE;
	}

	std::exception_ptr error;
	int error_result = 0;
};

/*
 * job - a job whose function is a lambda, or any other object that is called without arguments
 *
 * The job is in the object, so the object does not move.  Its end waits for the job, on no worker of
 * the pool; of a job that goes to a completion queue, the reap must come first.
 * An exception that leaves the function fails the job: with the errno of a std::system_error, with
 * -ENOMEM for a std::bad_alloc, else with -ENOTRECOVERABLE.  get() and wait() throw it again.
 * The function may be called again for another submit, and a pool with a guard calls it twice.
 * Since: 0.2
 */
template <class F> class job final : public any_job {
public:
	using value = std::invoke_result_t<F &>;

	explicit job(F callee) : fn(std::move(callee))
	{
		check(rnl_job_init(&ours.job, run));
	}
	~job() override { finish(); }
	/* Waits; what the function returned, once for each submit; throws as wait(). */
	value get()
	{
		wait();
		if constexpr (!std::is_void_v<value>)
			return std::move(*returned);
	}

private:
	static int run(rnl_job *raw)
	{
		job &self = static_cast<job &>(of(raw));

		return self.call([&self] {
			if constexpr (std::is_void_v<value>)
				self.fn();
			else
				self.returned.emplace(self.fn());
		});
	}

	F fn;
	std::optional<std::conditional_t<std::is_void_v<value>, char, value>> returned;
};

/*
 * start - make a job of a lambda, on the heap, and submit it
 * @to:		its pool.
 * @callee:	its function; it may own what it captures.
 *
 * Return: the job; its end waits.  Throws std::bad_alloc, or as any_job::submit().
 * Since: 0.2
 */
template <class F> [[nodiscard]] std::unique_ptr<job<std::decay_t<F>>> start(rnl_pool *to, F &&callee)
{
	auto made = std::make_unique<job<std::decay_t<F>>>(std::forward<F>(callee));

	made->submit(to);
	return made;
}

/*
 * queue - a completion queue that ends with its object
 *
 * rnl_cq_create() and rnl_cq_destroy(): no job that uses it is under way then.  rnl_cq_fd(queue) is
 * what an event loop polls.
 * Since: 0.2
 */
class queue {
public:
	queue()
	{
		rnl_cq *made = nullptr;

		check(rnl_cq_create(&made));
		ours.reset(made);
	}
	/* Calls @fn(any_job &) for each job that is done; all must be an rnl::job.  How many. */
	template <class F> unsigned reap(F &&fn)
	{
		rnl_job *jobs[64];
		unsigned nr = 0;
		int ret;

		do {
			ret = check(rnl_cq_reap(ours.get(), jobs, 64));
			for (int i = 0; i < ret; i++)
				fn(any_job::of(jobs[i]));
			nr += static_cast<unsigned>(ret);
		} while (ret == 64);
		return nr;
	}
	operator rnl_cq *() const noexcept { return ours.get(); }

private:
	struct end {
		void operator()(rnl_cq *q) const noexcept { rnl_cq_destroy(q); }
	};
	std::unique_ptr<rnl_cq, end> ours;
};

} /* namespace rnl */

#endif
