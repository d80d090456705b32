# SPDX-License-Identifier: MIT
"""Ends with jobs under way: an exit, Ctrl-C, a fork. Each is a program of its own."""
import os
import signal
import time
import unittest

from shared import LONG, ended, program


class Ends(unittest.TestCase):
    def good(self, text, want):
        status, out, err = ended(program(text))
        self.assertEqual((status, out.strip(), err), (0, want, ""))

    def test_an_exit_cancels_what_is_queued_and_waits_for_what_runs(self):
        self.good("""
p, gate, jobs = pool(1), Gate(), []
def long():			# runs until the exit has cancelled the others
    gate.entered.release()
    if comes_true(lambda: len(jobs) == 1000 and all(job.done() for job in jobs)):
        print("ran to its end", {job.cancelled() for job in jobs})
p.submit(long)
gate.await_entered()
jobs += [p.submit(print, "never") for _ in range(1000)]
""", "ran to its end {True}")

    def test_an_exit_while_many_jobs_run_is_clean(self):
        self.good("""
p = pool(4)
for _ in range(2000):
    p.submit(sum, range(1000))
""", "")

    def test_an_exit_releases_holds(self):
        self.good("""
p, box = pool(), []
p.submit(lambda: box.append(runnel.hold()))
assert comes_true(lambda: box)
""", "")

    def test_an_exit_releases_holds_that_come_late(self):
        self.good("""
p, box, others, gate = pool(1), [], [], Gate()
def late():
    gate.entered.release()
    if comes_true(lambda: others and others[0].done()):	# the exit has cancelled it
        box.append(runnel.hold())
        print("held")
p.submit(late)
gate.await_entered()
others.append(p.submit(print, "never"))
""", "held")

    def test_an_exit_with_jobs_that_wait_for_those_of_other_pools(self):
        self.good("""
box = []
def held(other):
    other.submit(lambda: box.append(runnel.hold())).exception()
def delayed(other):
    job = other.options(at=time.monotonic() + 1000).submit(print)
    box.append(job)
    job.exception()
for _ in range(3):
    for fn in held, delayed:
        one, other = pool(1), pool(1)
        one.submit(fn, other)
        other, one = pool(1), pool(1)	# either may be closed first
        one.submit(fn, other)
assert comes_true(lambda: len(box) == 12)
""", "")

    def test_an_exit_beside_a_daemon_thread_that_submits_is_clean(self):
        self.good("""
p = pool()
def submit():
    try:
        while True:
            p.submit(int)
    except runnel.Closed:
        pass
threading.Thread(target=submit, daemon=True).start()
time.sleep(0.1)
""", "")

    def test_an_exit_with_arrays_and_launched_functions_is_clean(self):
        self.good("""
import numpy as np
p = pool()
a, d = p.pinned(1000), p.device_array(1000)
def job():
    runnel.copy(d, a)
    runnel.launch(lambda: None)
for _ in range(200):
    p.submit(job)
""", "")

    def test_an_exception_in_main_ends_the_program(self):
        status, _, err = ended(program("""
p = pool(1)
for _ in range(1000):
    p.submit(time.sleep, 0.05)
raise ValueError("main")
"""))
        self.assertEqual(status, 1)
        self.assertIn("ValueError: main", err)

    def interrupted(self, text):
        process = program(text)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGINT)
        return ended(process)

    def test_ctrl_c_ends_a_wait_for_a_job(self):
        for wait in ("job.result()", "p.drain()", "barrier.wait()", "runnel.Queue().wait()",
                     "p.close()"):
            status, out, err = self.interrupted(f"""
p, gate = pool(1), Gate()
barrier = p.barrier()
job = p.options(barrier=barrier).submit(gate.wait)
gate.await_entered()
try:
    print("ready", flush=True)
    {wait}
except KeyboardInterrupt:
    print("interrupted", job.done())
    gate.open()
""")
            self.assertEqual((status, out, err), (0, "interrupted False\n", ""), wait)

    def test_ctrl_c_in_with_cancels_and_ends(self):
        status, out, err = self.interrupted("""
import os
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
with pool(1) as p:
    jobs = [p.submit(time.sleep, 0.05) for _ in range(100000 // 50)]
    print("ready", flush=True)
    jobs[-1].result()
""")
        self.assertIn("KeyboardInterrupt", err)
        self.assertEqual((status, out), (-signal.SIGINT, ""))

    def test_ctrl_c_ends_a_submit_that_waits(self):
        status, out, err = self.interrupted("""
p, gate = pool(1, max_queued=1), Gate()
p.submit(gate.wait)
gate.await_entered()
try:
    print("ready", flush=True)
    while True:
        p.submit(int)
except KeyboardInterrupt:
    print("interrupted")
    gate.open()
""")
        self.assertEqual((status, out, err), (0, "interrupted\n", ""))

    def test_an_interrupt_anywhere_in_a_call_harms_nothing(self):
        status, out, err = ended(program("""
import _thread, random
p, seed = pool(2, max_queued=64), random.randrange(1 << 16)
draw, ready, stop, sent, turn = random.Random(seed), threading.Event(), False, 0, 0
def interrupt():		# once for each turn, while main is in its try
    global sent
    while True:
        ready.wait()
        ready.clear()
        if stop:
            return
        time.sleep(draw.random() * 0.004)
        _thread.interrupt_main()
        sent += 1
thread = threading.Thread(target=interrupt)
thread.start()
end = time.monotonic() + 2
while time.monotonic() < end:
    turn += 1
    try:
        ready.set()
        barrier = p.barrier()
        while sent < turn:
            jobs = [p.options(barrier=barrier).submit(int) for _ in range(20)]
            p.pinned(100)
            jobs[-1].result()
        time.sleep(0.001)		# it was swallowed, by a finalizer, or comes now
    except KeyboardInterrupt:
        pass
    while sent < turn:
        time.sleep(0.001)
stop = True
ready.set()
thread.join()
p.close(60)
print("closed")
"""))
        # Python says so of an interrupt that comes in a finalizer, and goes on.
        self.assertEqual((status, out), (0, "closed\n"), err)

    def test_a_second_ctrl_c_leaves_a_function_that_does_not_end(self):
        process = program("""
p, gate = pool(1), Gate()
p.submit(lambda: (gate.entered.release(), time.sleep(1000)))
gate.await_entered()
print("ready", flush=True)
""")
        self.assertEqual(process.stdout.readline(), "ready\n")
        end = time.monotonic() + LONG
        while process.poll() is None and time.monotonic() < end:
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
        self.assertIsNotNone(process.poll())
        process.communicate()

    def test_a_forked_child_is_told_and_may_have_a_pool_of_its_own(self):
        self.good("""
import asyncio
async def main(a_pool):
    return await a_pool.submit(lambda: 6)
p, gate = pool(), Gate()
asyncio.run(main(p))
job = p.submit(gate.wait)
barrier, queue, array = p.barrier(), runnel.Queue(), p.pinned(1000)
gate.await_entered()
child = os.fork()
if not child:
    for call in (lambda: p.submit(int), job.result, job.done, barrier.wait, queue.reap, p.stats,
                 p.drain):
        try:
            call()
            print("not refused", call)
        except runnel.Error as error:
            if "create a pool in this process" not in str(error):
                print(error)
    p.close()
    del barrier, queue, array
    if os.environ.get("RNL_TEST_DEVICE", "host") == "host":
        with pool() as own:
            assert own.submit(lambda: 6).result(30) == asyncio.run(main(own)) == 6
        sys.exit(7)
    sys.stdout.flush()
    os._exit(7)		# CUDA's own exit handlers do not survive a fork
status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
gate.open()
job.result(30)
print(status)
""", "7")

    # A thread of the parent's may have a lock of its allocator at a fork.
    @unittest.skipIf(os.environ.get("sanitizer"), "a sanitizer's allocator does not survive a fork")
    def test_children_are_forked_while_jobs_run(self):
        self.good("""
p, stop = pool(4), False
def submit():
    while not stop:
        for job in [p.submit(sum, range(100)) for _ in range(100)]:
            job.result(30)
threads = [threading.Thread(target=submit) for _ in range(3)]
for t in threads:
    t.start()
for _ in range(20):
    child = os.fork()
    if not child:
        if os.environ.get("RNL_TEST_DEVICE", "host") == "host":
            own = pool(1)
            own.submit(int).result(30)		# also if a worker waited for the interpreter
            own.submit(int).result(30)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
stop = True
for t in threads:
    t.join()
""", "")

    def test_processes_of_multiprocessing_have_their_own_pools(self):
        self.good("""
import multiprocessing
def work(i):
    with runnel.Pool(1, "host") as p:
        return p.submit(pow, i, 2).result(30)
if __name__ == "__main__":
    with runnel.Pool(1, "host") as p:
        p.submit(int).result(30)
        with multiprocessing.get_context("fork").Pool(2) as processes:
            print(processes.map(work, range(4)))
""", "[0, 1, 4, 9]")
