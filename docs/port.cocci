// SPDX-License-Identifier: MIT
// Ports a program of runnel 0.2: spatch --in-place --sp-file port.cocci FILE...
// A key, a time and an order are set on the job; a refusal of the setter comes from the submit, too.

@@ expression pool, job, key; @@
- rnl_submit_keyed(pool, job, key)
+ (rnl_job_key(job, key), rnl_submit(pool, job))

@@ expression pool, job, key, timeout; @@
- rnl_submit_keyed_wait(pool, job, key, timeout)
+ (rnl_job_key(job, key), rnl_submit_wait(pool, job, timeout))

@@ expression pool, job, time; @@
- rnl_submit_at(pool, job, time)
+ (rnl_job_at(job, time), rnl_submit(pool, job))

@@ expression pool, job, key, time; @@
- rnl_submit_keyed_at(pool, job, key, time)
+ (rnl_job_key(job, key), rnl_job_at(job, time), rnl_submit(pool, job))

@@ expression order, job; @@
- rnl_submit_ordered(order, job)
+ (rnl_job_order(job, order), rnl_submit((order)->pool, job))

@@ expression order, job, timeout; @@
- rnl_submit_ordered_wait(order, job, timeout)
+ (rnl_job_order(job, order), rnl_submit_wait((order)->pool, job, timeout))

@@ @@
- RNL_LOW_WATER
+ RNL_SPACE
