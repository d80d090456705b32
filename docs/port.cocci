// SPDX-License-Identifier: MIT
// Ports a program of runnel 0.2: spatch --in-place --sp-file port.cocci FILE...
// A key is set on the job; a refusal of the setter comes from the submit, too.

@@ expression pool, job, key; @@
- rnl_submit_keyed(pool, job, key)
+ (rnl_job_key(job, key), rnl_submit(pool, job))

@@ expression pool, job, key, timeout; @@
- rnl_submit_keyed_wait(pool, job, key, timeout)
+ (rnl_job_key(job, key), rnl_submit_wait(pool, job, timeout))

// A time, an order and a notice are fields of a struct rnl_job_more, which the program has to give the
// job: rnl_submit_at(), rnl_submit_keyed_at(), rnl_submit_ordered() and rnl_submit_when() stay, and do
// not compile. CHANGELOG has their ends.

@@ expression barrier, pool; @@
- rnl_small_barrier_init(barrier, pool)
+ rnl_barrier_init(barrier, pool)

@@ expression barrier; @@
- rnl_small(barrier)
+ barrier

@@ @@
- struct rnl_small_barrier
+ struct rnl_barrier

@@ @@
- RNL_LOW_WATER
+ RNL_SPACE

// A wait for memory is a timeout of the same function; 0 refuses at once, as the function without it did.

@@ expression batcher, request, bytes; @@
- rnl_batcher_reserve(batcher, request, bytes)
+ rnl_batcher_reserve(batcher, request, bytes, 0)

@@ @@
- rnl_batcher_reserve_wait
+ rnl_batcher_reserve

@@ expression pool, bytes, bufp; @@
- rnl_pinned_get(pool, bytes, bufp)
+ rnl_pinned_get(pool, bytes, bufp, 0)

@@ @@
- rnl_pinned_get_wait
+ rnl_pinned_get

@@ @@
- rnl_request_cancel
+ rnl_request_release
