# SPDX-License-Identifier: MIT
"""Jobs: values, exceptions, cancels, keys, deadlines, times, holds; and how long objects live."""
import concurrent.futures
import gc
import sys
import threading
import time
import traceback
import unittest
import unittest.mock
import weakref

import numpy as np

import runnel
from runnel.job import _live
from shared import LONG, Gate, comes_true, ended, error_of, pool, program


class Jobs(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def test_a_value_comes_back(self):
        jobs = [self.pool.submit(pow, 2, i) for i in range(50)]
        self.assertEqual([job.result(LONG) for job in jobs], [2**i for i in range(50)])

    def test_an_exception_is_the_jobs_with_the_traceback_of_its_function(self):
        def deep(value):
            raise KeyError(value)

        job = self.pool.submit(lambda: deep("x"))
        try:
            job.result(LONG)
        except KeyError as error:
            names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
            self.assertEqual((error.args, names[-2:]), (("x",), ["<lambda>", "deep"]))
            self.assertNotIn("py_run", names)
            self.assertIs(job.exception(), error)
        else:
            self.fail("it raised nothing")

    def test_an_exit_in_a_job_ends_neither_worker_nor_process(self):
        for what in (SystemExit(3), KeyboardInterrupt(), GeneratorExit()):
            def leave(error=what):
                raise error
            self.assertIs(self.pool.submit(leave).exception(LONG), what)
        self.assertEqual(self.pool.submit(int).result(LONG), 0)

    def test_a_wait_on_its_own_worker_is_refused(self):
        with Gate() as gate:
            held = self.pool.submit(gate.wait)
            gate.await_entered()
            error = self.pool.submit(held.result).exception(LONG)
        self.assertIsInstance(error, runnel.Error)
        self.assertIn("worker", str(error))

    def test_a_wait_ends_in_time(self):
        with Gate() as gate:
            job = self.pool.submit(gate.wait, 7)
            with self.assertRaises(TimeoutError) as caught:
                job.result(0.01)
            self.assertNotIsInstance(caught.exception, runnel.Error)
            self.assertFalse(job.done())
            gate.open()
            self.assertEqual(job.result(LONG), 7)
            self.assertTrue(job.done())

    def test_a_queued_job_is_cancelled_and_a_started_one_is_asked(self):
        with Gate() as gate:
            started = [self.pool.submit(gate.wait) for _ in range(2)]
            gate.await_entered(2)
            queued = self.pool.submit(self.fail)
            self.assertTrue(queued.cancel())
            self.assertTrue(queued.cancelled() and queued.done())
            for call in (queued.result, queued.exception):
                with self.assertRaises(runnel.Cancelled) as caught:
                    call(LONG)
                self.assertIsInstance(caught.exception, concurrent.futures.CancelledError)
            self.assertFalse(started[0].cancel())
        self.assertFalse(started[0].cancelled())

    def test_a_function_learns_that_it_was_cancelled(self):
        inside = threading.Event()

        def long():
            inside.set()
            return comes_true(runnel.is_cancelled)

        job = self.pool.submit(long)
        self.assertTrue(inside.wait(LONG))
        job.cancel()
        self.assertIs(job.result(LONG), True)

    def test_jobs_of_one_key_run_in_order_on_one_worker(self):
        seen = []
        jobs = [self.pool.options(key="stream").submit(lambda i=i: seen.append((i, runnel.worker())))
                for i in range(200)]
        for job in jobs:
            job.result(LONG)
        self.assertEqual([i for i, _ in seen], list(range(200)))
        self.assertEqual(len({worker for _, worker in seen}), 1)

    def test_worker_keys_are_different_workers(self):
        workers = {self.pool.options(key=runnel.worker_key(i)).submit(runnel.worker).result(LONG)
                   for i in (0, 1)}
        self.assertEqual(len(workers), 2)

    def test_a_job_that_did_not_start_in_time_is_late(self):
        with Gate() as gate:
            for _ in range(2):
                self.pool.submit(gate.wait)
            gate.await_entered(2)
            late = self.pool.options(deadline=0.01).submit(self.fail)
            self.assertIsInstance(late.exception(LONG), runnel.Late)

    def test_a_job_starts_at_its_time(self):
        at = time.monotonic() + 0.1
        self.assertGreaterEqual(self.pool.options(at=at).submit(time.monotonic).result(LONG), at)

    def test_a_time_of_another_clock_is_refused(self):
        for at in (time.time() + 1, time.monotonic_ns(), float("inf")):
            with self.assertRaisesRegex(ValueError, r"at is .* time.monotonic\(\)"):
                self.pool.options(at=at).submit(self.fail)

    def test_a_job_shows_how_far_it_is(self):
        with Gate() as gate:
            jobs = [self.pool.submit(gate.wait) for _ in range(2)]
            gate.await_entered(2)
            jobs.append(self.pool.submit(int))
            self.assertEqual([repr(job).split(", ")[1] for job in jobs],
                             ["running>", "running>", "not started>"])
        self.pool.drain(LONG)
        self.assertTrue(comes_true(lambda: {repr(job) for job in jobs} == {"<runnel.Job, done>"}))

    def test_a_notice_comes_when_the_pool_has_room(self):
        small = pool(1, max_queued=4)
        self.addCleanup(small.close, LONG, True)
        with Gate() as gate:
            small.submit(gate.wait)
            gate.await_entered()
            while True:
                try:
                    small.options(timeout=0).submit(int)
                except runnel.Full:
                    break
            notice = small.options(when=runnel.SPACE).submit(lambda: "room")
            self.assertFalse(notice.done())
            gate.open()
            self.assertEqual(notice.result(LONG), "room")

    def test_a_submit_waits_for_space_but_not_for_ever(self):
        small = pool(1, max_queued=2)
        self.addCleanup(small.close, LONG, True)
        with Gate() as gate:
            small.submit(gate.wait)
            gate.await_entered()
            with self.assertRaises(runnel.Full):
                for _ in range(20):
                    small.options(timeout=0.01).submit(int)
            threading.Timer(0.05, gate.open).start()
            self.assertEqual(small.options(timeout=LONG).submit(int).result(LONG), 0)

    def test_callbacks_are_called_once_whenever_they_were_added(self):
        told = []
        with Gate() as gate:
            job = self.pool.submit(gate.wait)
            job.add_done_callback(lambda j: told.append(j))
            job.add_done_callback(lambda j: 1 / 0)	# is logged, and harms nothing
            job.add_done_callback(lambda j: told.append(j))
            with self.assertLogs("concurrent.futures", "ERROR"):
                gate.open()
                self.assertTrue(comes_true(lambda: len(told) == 2))
        job.add_done_callback(lambda j: told.append(j))
        self.assertEqual(told, [job] * 3)

    def test_a_callback_that_exits_is_shown_and_ends_no_worker(self):
        shown = []
        with unittest.mock.patch.object(sys, "unraisablehook", shown.append), Gate() as gate:
            job = self.pool.submit(gate.wait)
            job.add_done_callback(lambda j: sys.exit())
            gate.open()
            self.assertTrue(comes_true(lambda: shown))
        self.assertIs(shown.pop().exc_type, SystemExit)
        self.assertEqual([self.pool.submit(lambda: 5).result(LONG) for _ in range(9)], [5] * 9)

    def test_an_exception_in_a_callback_is_shown_without_a_setup_of_logging(self):
        _, _, err = ended(program("""
with pool(1) as p, Gate() as gate:
    job = p.submit(gate.wait)
    job.add_done_callback(lambda j: 1 / 0)
"""))
        self.assertIn("ZeroDivisionError", err)

    def test_an_argument_lives_until_its_job_is_done_and_no_longer(self):
        class Thing:
            pass

        thing = Thing()
        seen = weakref.ref(thing)
        with Gate() as gate:
            job = self.pool.submit(lambda t: gate.wait(), thing)
            del thing
            gate.await_entered()
            self.assertIsNotNone(seen())
        job.result(LONG)
        self.assertTrue(comes_true(lambda: gc.collect() is not None and seen() is None))

    def test_a_value_goes_with_its_job(self):
        """A value is freed with its Job, not by the collector: a value may be a large array."""
        class Thing:
            pass

        gc.disable()
        try:
            job = self.pool.submit(Thing)
            seen = weakref.ref(job.result(LONG))
            self.assertIsNotNone(seen())
            job = None
            self.assertTrue(comes_true(lambda: seen() is None))
        finally:
            gc.enable()

    def test_jobs_leave_nothing_behind(self):
        def fails():
            raise ValueError

        jobs = [self.pool.submit(fails if i % 2 else int) for i in range(500)]
        for job in jobs:
            job.exception(LONG)
        gone = [weakref.ref(job) for job in jobs]
        jobs = job = None
        self.pool.drain(LONG)
        gc.collect()
        self.assertEqual([job() for job in gone if job()], [])
        self.assertFalse([job for job in _live if job._pool is self.pool])

    def test_a_class_has_its_own_workers_and_limits(self):
        with runnel.Pool(1, "host", nr_class_workers=1) as pool:
            urgent = pool.job_class("urgent", nr_workers=1)
            few = pool.job_class("few", max_queued=1, priority=-4)
            gate, started = threading.Event(), threading.Semaphore(0)
            def hold():
                started.release()
                return gate.wait()
            try:
                held = [pool.submit(hold), pool.options(cls=urgent).submit(hold)]
                self.assertTrue(started.acquire(timeout=LONG) and started.acquire(timeout=LONG))
                pool.options(cls=few).submit(gate.wait)
                with self.assertRaises(runnel.Full):
                    pool.options(cls=few, timeout=0).submit(int)
                self.assertEqual(few.stats()["refused"], 1)
                self.assertGreaterEqual(few.wait_s(), 0)
            finally:
                gate.set()
            self.assertEqual([job.result(LONG) for job in held], [True, True])
            self.assertEqual(pool.options(cls=urgent).submit(runnel.worker).result(LONG), 0)
            self.assertGreater(pool.submit(runnel.worker).result(LONG), 0)
            urgent.close()
            self.assertRaises(TypeError, pool.options(cls=urgent).submit, int)
            for wrong in ({"weight": 10001}, {"nr_workers": 2}, {"spin_us": 1}):
                self.assertRaises(runnel.Error, pool.job_class, "wrong", **wrong)
            self.assertRaises(TypeError, pool.job_class, "wrong", size=1)

    def test_a_refused_job_leaves_nothing_behind(self):
        before = len(_live)
        for bad in ({"cls": 1}, {"device": 5}, {"after": 3}, {"deadline": -1},
                    {"deadline": "x"}, {"when": 9}, {"queue": 1}, {"at": float("nan")}):
            with self.assertRaises((runnel.Error, ValueError, TypeError), msg=bad) as caught:
                self.pool.options(**bad).submit(int)
            self.assertIn("Pool.options()", str(caught.exception))
        array = np.zeros((4, 4))
        for call in (lambda: self.pool.submit(3), lambda: self.pool.options(timeout="x").submit(int),
                     lambda: self.pool.map_array(int, 5),
                     lambda: self.pool.map_array(int, array.T[1:])):
            self.assertRaises(TypeError, call)
        for call in (lambda: self.pool.options(timeout=-1).submit(int),
                     lambda: self.pool.map_array(int, array, chunk=2**70)):
            self.assertRaises(ValueError, call)
        array.flags.writeable = False
        self.assertRaises(ValueError, lambda: self.pool.map_array(int, array.copy(), array))
        self.assertEqual(len(_live), before)


class Holds(unittest.TestCase):
    def setUp(self):
        self.pool = pool()
        self.addCleanup(self.pool.close, LONG, True)

    def held(self, **options):
        box = []
        job = self.pool.options(**options).submit(lambda: box.append(runnel.hold()))
        self.assertTrue(comes_true(lambda: box))
        return job, box.pop()

    def test_a_held_job_is_done_when_another_thread_says_so(self):
        job, hold = self.held()
        self.assertFalse(job.done())
        self.assertIsNone(self.pool.submit(lambda: None).result(LONG))	# no worker waits for it
        hold.release()
        job.result(LONG)

    def test_a_release_may_be_an_error(self):
        job, hold = self.held()
        error = OSError("the network")
        hold.release(error)
        self.assertIs(job.exception(LONG), error)

    def test_a_release_with_an_error_that_is_no_code_ends_the_job(self):
        for number in 2**40, "x", -5, 0:
            job, hold = self.held()
            error = runnel.Error(number, "odd")
            hold.release(error)
            self.assertIs(job.exception(LONG), error)

            def fails(error=error):
                raise error

            self.assertIs(self.pool.submit(fails).exception(LONG), error)

    def test_a_second_release_is_refused(self):
        job, hold = self.held()
        hold.release()
        with self.assertRaises(runnel.Error) as caught:
            hold.release(OSError("late"))
        self.assertIn("Hold.release()", str(caught.exception))
        self.assertIsNone(job.exception(LONG))

    def test_a_deadline_ends_a_hold(self):
        for deadline in (0.2, 2, 20):		# until a deadline is long enough for a start
            box = []
            job = self.pool.options(deadline=deadline).submit(lambda: box.append(runnel.hold()))
            self.assertTrue(comes_true(lambda: box or job.done()))
            if box:
                break
        hold = box.pop()
        self.assertIsInstance(job.exception(LONG), runnel.Late)
        with self.assertRaises(runnel.Error):
            hold.release(OSError("late"))
        self.assertIsInstance(job.exception(LONG), runnel.Late)

    def test_a_hold_that_is_dropped_ends_its_job(self):
        job, hold = self.held()
        with self.assertLogs("runnel", "ERROR"):
            del hold
            gc.collect()
            error = job.exception(LONG)
        self.assertIsInstance(error, runnel.Cancelled)
        self.assertIn("a hold was dropped without a release", str(error))

    def test_a_release_with_an_error_is_the_barriers(self):
        barrier = self.pool.barrier()
        _, hold = self.held(barrier=barrier)
        hold.release(ValueError("the network"))
        with self.assertRaisesRegex(runnel.Error, "ValueError..the network") as caught:
            barrier.wait(LONG)
        self.assertIsInstance(caught.exception.__cause__, ValueError)

    def test_a_hold_is_for_jobs(self):
        with self.assertRaisesRegex(RuntimeError, r"hold\(\) is for a job's function"):
            runnel.hold()


class Stress(unittest.TestCase):
    def test_many_threads_submit_and_each_job_runs_once(self):
        seed, threads, each = time.time_ns() & 0xffff, 8, 400
        print(f"# seed {seed}")
        counts, wrong = [[0] * each for _ in range(threads)], []
        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        self.addCleanup(sys.setswitchinterval, interval)
        with pool(4, max_queued=64) as p:
            barrier = p.barrier()

            def run(t, i):
                counts[t][i] += 1
                if i % 7 == 0:
                    raise ValueError((t, i))
                return t, i

            def submit(t):
                try:
                    jobs = []
                    for i in range(each):
                        options = {"key": t} if (i ^ seed) & 1 else {}
                        if i % 7 and (i ^ seed) & 2:
                            options["barrier"] = barrier
                        jobs.append(p.options(**options).submit(run, t, i))
                        if (i ^ seed) & 4 and i % 3 == 0:
                            jobs[-1].cancel()
                    for i, job in enumerate(jobs):
                        error = error_of(job)
                        cancelled = isinstance(error, runnel.Cancelled)
                        expected = cancelled or \
                            (error.args == ((t, i),) if i % 7 == 0 else job.result() == (t, i))
                        if not expected or counts[t][i] != (0 if cancelled else 1):
                            wrong.append((t, i, error, counts[t][i]))
                except BaseException as error:
                    wrong.append((t, error))

            everyone = [threading.Thread(target=submit, args=(t,)) for t in range(threads)]
            for thread in everyone:
                thread.start()
            for thread in everyone:
                thread.join(LONG)
            self.assertFalse(any(thread.is_alive() for thread in everyone))
        self.assertEqual(wrong, [])
