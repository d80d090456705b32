/* SPDX-License-Identifier: MIT */
/*
 * The table: quantities, their comparisons, and their goals.
 *
 * DESIGN
 *	A row is in a program if its work is linked: rows/host is in make bench, rows/gpu in make
 *	bench-gpu, rows/device in both. A peer is available if its library is. The many ways of jobs
 *	and of gather are in rows/gpu; the ways of empty jobs are in the table of peers below.
 */
#include "peers/peer.h"

#define MORE true
#define LESS false
#define HAND BENCH_HAND
#define PEER BENCH_PEER
#define CEILING BENCH_CEILING
#define OTHER BENCH_OTHER
#define RUNNEL BENCH_RUNNEL

const struct bench_row bench_rows[] = {
	/* ---- make bench: jobs that do nothing, on the host device ---- */
	{
		.name = "throughput", .work = &bench_throughput, .by = BENCH_BY_CONFIG,
		.about = "an empty job from producers to workers, beside other pools",
		.patience_s = 1800, .shift = 1, .apart = true,
		.lines = {
			/* rows/host/empty.c: 50 ns for 1 x 1 and 2 x 2, 60 for 4 x 4. */
			{ "an empty job", "ns", BENCH_OF_PEER, 1, LESS },
			{ "voluntary switches for 1000 jobs", "", BENCH_ABSOLUTE, 20, LESS },
		},
	},
	{
		.name = "handoff", .work = &bench_handoff, .by = BENCH_BY_PAUSE,
		.about = "from the submit to the function's start, one job at a time",
		.patience_s = 1800, .shift = 1, .apart = true,
		.lines = {
			{ "submit to start, p50", "us", BENCH_ABSOLUTE, 0.3, LESS },
			{ "submit to start, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "submit to start, 1 ms later, p50", "us", BENCH_NO_GOAL, 0, LESS },
			{ "submit to start, 1 ms later, p99", "us", BENCH_NO_GOAL, 0, LESS },
		},
	},
	{
		.name = "return", .work = &bench_return, .by = BENCH_BY_PAUSE,
		.about = "from the submit to the wait's return, one job at a time",
		.patience_s = 1800, .shift = 1, .apart = true,
		.lines = {
			{ "submit to return, p50", "us", BENCH_ABSOLUTE, 0.5, LESS },
			{ "submit to return, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "submit to return, 1 ms later, p50", "us", BENCH_ABSOLUTE, 20, LESS },
			{ "submit to return, 1 ms later, p99", "us", BENCH_NO_GOAL, 0, LESS },
		},
	},
	{
		.name = "burst", .work = &bench_burst,
		.about = "64 jobs of 2 us, 1 ms after the last burst",
		.patience_s = 1800, .shift = 1, .apart = true,
		.lines = {
			{ "burst of 64 jobs of 2 us, p50", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same by the ideal", "x", BENCH_ABSOLUTE, 1.15, LESS },
		},
	},
	{
		.name = "forkjoin", .work = &bench_forkjoin,
		.about = "fork and join of 16 empty jobs, the mean",
		.patience_s = 1800, .shift = 1, .apart = true,
		.lines = {
			{ "fork and join of 16 jobs", "us", BENCH_ABSOLUTE, 5, LESS },
			{ "the same, for each job", "ns", BENCH_NO_GOAL, 0, LESS },
		},
	},
	{
		.name = "workers", .work = &bench_workers,
		.about = "the memory of a pool, beside as many threads that do nothing",
		.patience_s = 300, .shift = 1, .apart = true,
		.lines = {
			{ "a pool of 4 workers, resident", "KB", BENCH_NO_GOAL, 0, LESS },
			{ "a pool of 64 workers, resident", "KB", BENCH_NO_GOAL, 0, LESS },
			{ "a pool of 1024 workers, resident", "KB", BENCH_NO_GOAL, 0, LESS },
			{ "a pool of 4 workers, addresses", "MB", BENCH_NO_GOAL, 0, LESS },
			{ "a pool of 64 workers, addresses", "MB", BENCH_NO_GOAL, 0, LESS },
			{ "a pool of 1024 workers, addresses", "MB", BENCH_NO_GOAL, 0, LESS },
		},
		.ways = {
			{ HAND, "4 threads", "03" },
			{ HAND, "64 threads", "14" },
			{ HAND, "1024 threads", "25" },
			{ RUNNEL, "4 workers", "03" },
			{ RUNNEL, "64 workers", "14" },
			{ RUNNEL, "1024 workers", "25" },
		},
	},
	{
		.name = "classes", .work = &bench_classes_submit,
		.about = "a submit to a class, beside one in a pool without classes",
		.patience_s = 300, .shift = 1,
		.lines = {
			{ "a submit, all workers busy", "ns", BENCH_HAND_PLUS, 10, LESS },
			{ "a submit while the workers take jobs", "ns", BENCH_NO_GOAL, 0, LESS },
		},
		.ways = {
			{ HAND, "no classes", "01" },
			{ RUNNEL, "two classes", "01" },
		},
	},
	{
		.name = "classes", .work = &bench_classes_takers,
		.about = "how long a taker that is preempted keeps the others from taking",
		.patience_s = 300, .shift = 1,
		.lines = {
			{ "a taker is preempted, the others wait at most", "us", BENCH_ABSOLUTE, 1000, LESS },
			{ "jobs that the preempted taker takes", "k", BENCH_NO_GOAL, 0, MORE },
		},
		.ways = {
			{ HAND, "a list with a lock", "01" },
			{ RUNNEL, "a class", "01" },
		},
	},
	{
		.name = "classes", .work = &bench_classes_memory,
		.about = "the memory of 32 classes, by the number of workers",
		.patience_s = 300, .shift = 1, .apart = true,
		.lines = {
			{ "32 classes, 4 workers", "KB", BENCH_NO_GOAL, 0, LESS },
			{ "32 classes, 64 workers", "KB", BENCH_NO_GOAL, 0, LESS },
			{ "32 classes, 1024 workers", "KB", BENCH_NO_GOAL, 0, LESS },
		},
		.ways = {
			{ RUNNEL, "4 workers", "0" },
			{ RUNNEL, "64 workers", "1" },
			{ RUNNEL, "1024 workers", "2" },
		},
	},
	/* ---- make bench-gpu ---- */
	{
		.name = "jobs", .work = &bench_jobs, .by = BENCH_BY_THREADS | BENCH_BY_KIND,
		.about = "J: 4 KB in, a kernel, 4 KB out; each J is completed one by one",
		.patience_s = 90, .shift = 7, .gpu = true,
		.lines = {
			{ "J per second", "kJ/s", BENCH_OF_HAND, 0.97, MORE },
			{ "J per second", "kJ/s", BENCH_OF_PEER, 1, MORE },
		},
	},
	{
		.name = "gather", .work = &bench_gather, .by = BENCH_BY_THREADS | BENCH_BY_KIND,
		.about = "J of 1 to 256 KB by jobs that gather; each J is completed one by one",
		.patience_s = 120, .shift = 2, .gpu = true,
		.lines = {
			{ "J of 1 KB, gathered", "kJ/s", BENCH_OF_HAND, 0.85, MORE },
			{ "J of 4 KB, gathered", "kJ/s", BENCH_OF_HAND, 0.85, MORE },
			{ "J of 16 KB, gathered", "kJ/s", BENCH_OF_HAND, 0.85, MORE },
			{ "J of 64 KB, gathered", "kJ/s", BENCH_OF_HAND, 0.85, MORE },
			{ "J of 256 KB, gathered", "kJ/s", BENCH_OF_HAND, 0.9, MORE },
			{ "J of 5 kernels and 4 sizes, gathered", "kJ/s", BENCH_OF_HAND, 0.85, MORE },
		},
	},
	{
		.name = "replay", .work = &bench_replay, .by = BENCH_BY_THREADS | BENCH_BY_KIND,
		.about = "jobs of many kernels, and J of 4 KB, that are replayed",
		.patience_s = 120, .shift = 2, .gpu = true,
		.lines = {
			{ "jobs of 10 kernels, replayed", "kJ/s", BENCH_OF_HAND, 0.95, MORE },
			{ "jobs of 30 kernels, replayed", "kJ/s", BENCH_OF_HAND, 0.95, MORE },
			{ "jobs of 100 kernels, replayed", "kJ/s", BENCH_OF_HAND, 0.95, MORE },
			{ "J of 4 KB, replayed", "kJ/s", BENCH_OF_HAND, 0.85, MORE },
		},
	},
	{
		.name = "batch", .work = &bench_batch,
		.about = "requests of 4 KB through a batcher, 128 of each producer in flight",
		.patience_s = 60, .shift = 2, .gpu = true,
		.lines = {
			{ "requests of 4 KB, 4 producers", "k/s", BENCH_ABSOLUTE, 3000, MORE },
			{ "the same, each way", "GB/s", BENCH_NO_GOAL, 0, MORE },
			{ "requests of 4 KB, 8 producers", "k/s", BENCH_ABSOLUTE, 3000, MORE },
			{ "the same, each way", "GB/s", BENCH_NO_GOAL, 0, MORE },
		},
		.ways = {
			{ RUNNEL, "rnl_batcher", "01" },
			{ RUNNEL, "rnl_batcher", "23" },
			{ HAND, "slabs of 64", "0123" },
			{ HAND, "slabs of 256", "0123" },
			{ HAND, "slabs of 1024", "0123" },
			{ HAND, "kernel on pinned memory", "0123" },
			{ CEILING, "copies both ways", "0123" },
		},
	},
	{
		.name = "batch", .work = &bench_batch_512,
		.about = "requests of 4 KB through a batcher, 512 of each producer in flight",
		.patience_s = 60, .shift = 2, .gpu = true,
		.lines = {
			{ "requests of 4 KB, 4 producers of 512", "k/s", BENCH_ABSOLUTE, 8000, MORE },
			{ "the same, each way", "GB/s", BENCH_NO_GOAL, 0, MORE },
			{ "requests of 4 KB, 8 producers of 512", "k/s", BENCH_ABSOLUTE, 9500, MORE },
			{ "the same, each way", "GB/s", BENCH_NO_GOAL, 0, MORE },
		},
		.ways = {
			{ RUNNEL, "rnl_batcher", "01" },
			{ RUNNEL, "rnl_batcher", "23" },
			{ HAND, "slabs of 64", "0123" },
			{ HAND, "slabs of 256", "0123" },
			{ HAND, "slabs of 1024", "0123" },
			{ HAND, "kernel on pinned memory", "0123" },
			{ CEILING, "copies both ways", "0123" },
		},
	},
	{
		.name = "lone", .work = &bench_lone,
		.about = "one request at a time, from before its input is written until its output is known",
		.patience_s = 240, .shift = 1, .gpu = true,
		/* rows/gpu/lone.c: for each of three sizes, with its goals, and three gaps. */
		.lines = {
			{ "a lone request, p50", "us", BENCH_ABSOLUTE, 3, LESS },
			{ "a lone request, p99", "us", BENCH_ABSOLUTE, 7, LESS },
			{ "a lone request, p99.9", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the first of a burst, p50", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the first of a burst, p99", "us", BENCH_NO_GOAL, 0, LESS },
		},
	},
	{
		.name = "beside", .work = &bench_beside,
		.about = "lone requests 5 us apart while kernels with blocks of 0.5 or 5 ms fill the GPU",
		.patience_s = 600, .shift = 1, .gpu = true,
		/* rows/gpu/beside.c: for each of two sizes and two lengths, without and with kept SMs. */
		.lines = {
			{ "a lone request under a flood, p50", "us", BENCH_NO_GOAL, 0, LESS },
			{ "a lone request under a flood, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the flood, of its rate alone", "%", BENCH_NO_GOAL, 0, MORE },
			{ "requests that were answered resident", "%", BENCH_NO_GOAL, 0, MORE },
		},
	},
	{
		.name = "beside", .work = &bench_beside_jobs,
		.about = "J per second while a thread asks lone requests of 4 KB through a resident kernel",
		.patience_s = 120, .shift = 1, .gpu = true,
		.lines = {
			{ "J per second and lone requests", "kJ/s", BENCH_OF_CEILING, 0.97, MORE },
		},
	},
	{
		.name = "beside", .work = &bench_beside_copies,
		.about = "copies of 64 MiB to the device while a thread asks such requests",
		.patience_s = 120, .shift = 1, .gpu = true,
		.lines = {
			{ "copies in and lone requests", "GB/s", BENCH_OF_CEILING, 0.95, MORE },
		},
	},
	{
		.name = "latency", .work = &bench_latency, .by = BENCH_BY_PAUSE | BENCH_BY_KIND,
		.about = "one J in an idle pool of 8 workers, from its submit to the wait's return",
		.patience_s = 60, .shift = 1, .gpu = true,
		.lines = {
			{ "J, one by one, p50", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "J, one by one, p99", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "J, one by one, p50; a mutex pool", "us", BENCH_OF_PEER, 1, LESS },
			{ "J, 1 ms later, p50", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "J, 1 ms later, p99", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "J, 1 ms later, p50; a mutex pool", "us", BENCH_OF_PEER, 1, LESS },
		},
		.ways = {
			{ HAND, "one thread, flag", "01" },
			{ HAND, "one thread, event", "01" },
			{ HAND, "one thread, stream sync", "01" },
			{ HAND, "one thread, a graph, flag", "01" },
			{ HAND, "kernel on pinned memory, its flag", "01" },
			{ PEER, "spinning thread, flag", "01" },
			{ PEER, "mutex pool, sync", "012" },
			{ RUNNEL, "rnl_job_wait()", "012" },
			{ RUNNEL, "rnl_job_wait(), on pinned memory", "01" },
		},
	},
	{
		.name = "inflight", .work = &bench_inflight,
		.about = "kernels of 5 ms, one on each of 32 threads or workers",
		.patience_s = 60, .apart = true,
		.lines = {
			{ "kernels of 5 ms in flight, 32 workers, mean", "kernels", BENCH_ABSOLUTE, 27,
			  MORE },
			{ "the same as CUDA is by default, mean", "kernels", BENCH_NO_GOAL, 0, MORE },
			{ "the same, at the most", "kernels", BENCH_ABSOLUTE, 27, MORE },
		},
		.ways = {
			{ HAND, "8 connections", "12" },
			{ HAND, "32 connections", "02" },
			{ RUNNEL, "rnl_setup()", "02" },
			{ CEILING, "one each", "02" },
		},
	},
	{
		.name = "urgent", .work = &bench_urgent, .by = BENCH_BY_KIND,
		.about = "a kernel of 10 us while background kernels fill the GPU",
		.patience_s = 90, .gpu = true,
		.lines = {
			{ "urgent 10 us under a flood, p50", "us", BENCH_ABSOLUTE, 200, LESS },
			{ "the same, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same without priority, p50", "us", BENCH_NO_GOAL, 0, LESS },
		},
		.ways = {
			{ HAND, "without priority", "21" },
			{ HAND, "priority", "01" },
			{ HAND, "kept SMs, green contexts", "01" },
			{ RUNNEL, "a class's own worker", "01" },
			{ RUNNEL, "kept SMs, a worker spins", "01" },
		},
	},
	{
		.name = "classes", .work = &bench_classes,
		.about = "the GPU's time for classes that always have work, by the GPU's clock",
		.patience_s = 600, .shift = 1, .gpu = true,
		/* rows/gpu/classes.c: the first four lines are for each of three pairs of lengths. */
		.lines = {
			{ "weights 3:1, A's part", "%", BENCH_NO_GOAL, 0, LESS },
			{ "weights 3:1, the worst second's", "%", BENCH_NO_GOAL, 0, LESS },
			{ "weights 3:1, its distance from 75", "%", BENCH_ABSOLUTE, 1, LESS },
			{ "weights 3:1, the GPU is busy", "%", BENCH_ABSOLUTE, 99, MORE },
			{ "weights 4:2:1 of 0.5 ms, the worst is off by", "%", BENCH_ABSOLUTE, 3, LESS },
			{ "16 equal classes of 0.2 ms, Jain's index", "", BENCH_ABSOLUTE, 0.99, MORE },
		},
		.ways = {
			{ HAND, "streams by weight", "" },
			{ RUNNEL, "classes", "" },
		},
	},
	{
		.name = "classes", .work = &bench_classes_tail,
		.about = "a kernel of 10 us of a class of priority -4, while another class fills the GPU",
		.patience_s = 600, .shift = 1, .gpu = true,
		/* rows/gpu/classes.c: for each of four lengths of the flood's blocks. */
		.lines = {
			{ "priority -4 under a flood, p50", "us", BENCH_HAND_PLUS, 10, LESS },
			{ "priority -4 under a flood, p99", "us", BENCH_HAND_PLUS, 30, LESS },
			{ "the flood's part of the GPU", "%", BENCH_NO_GOAL, 0, MORE },
		},
		.ways = {
			{ HAND, "equal streams", "" },
			{ HAND, "stream priority", "" },
			{ HAND, "kept SMs, green contexts", "" },
			{ RUNNEL, "a worker of its own", "" },
			{ RUNNEL, "kept SMs, a worker spins", "" },
			{ RUNNEL, "flood of 1 at a time", "" },
		},
	},
	{
		.name = "copies", .work = &bench_copies,
		.about = "copies of 64 KB of a class with a worker of its own, beside 256 MB of a lower class",
		.patience_s = 600, .shift = 1, .gpu = true,
		.lines = {
			{ "64 KB in beside large copies in, p50", "us", BENCH_HAND_PLUS, 10, LESS },
			{ "64 KB in beside large copies in, p99", "us", BENCH_HAND_PLUS, 30, LESS },
			{ "the large copies in", "GB/s", BENCH_OF_HAND, 0.95, MORE },
			{ "64 KB out beside large copies out, p50", "us", BENCH_HAND_PLUS, 10, LESS },
			{ "64 KB out beside large copies out, p99", "us", BENCH_HAND_PLUS, 30, LESS },
			{ "the large copies out", "GB/s", BENCH_OF_HAND, 0.95, MORE },
		},
		.ways = {
			{ HAND, "whole", "012" },
			{ HAND, "8 MB at a time", "012" },
			{ RUNNEL, "classes", "012" },
			{ HAND, "whole", "345" },
			{ HAND, "8 MB at a time", "345" },
			{ RUNNEL, "classes", "345" },
		},
	},
	{
		.name = "classes", .work = &bench_foreground,
		.about = "50 us at a fifth of the rate that it reaches alone, while blocks of 0.05 ms fill the GPU",
		.patience_s = 600, .shift = 1, .gpu = true,
		.lines = {
			{ "a foreground of 50 us, alone, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same beside blocks of 0.05 ms, p50", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same beside blocks of 0.05 ms, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same, p99 by that alone", "x", BENCH_ABSOLUTE, 1.3, LESS },
		},
		.ways = {
			{ HAND, "stream priority", "0123" },
			{ RUNNEL, "no classes", "0123" },
			{ RUNNEL, "classes", "0123" },
			{ RUNNEL, "a worker of its own", "0123" },
		},
	},
	{
		.name = "classes", .work = &bench_foreground_kept,
		.about = "the same, on kept SMs, while blocks of 0.5 ms fill the others",
		.patience_s = 600, .shift = 1, .gpu = true,
		.lines = {
			{ "a foreground of 50 us on kept SMs, alone, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same beside blocks of 0.5 ms, p50", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same beside blocks of 0.5 ms, p99", "us", BENCH_NO_GOAL, 0, LESS },
			{ "the same on kept SMs, p99 by that alone", "x", BENCH_ABSOLUTE, 1.3, LESS },
		},
		.ways = {
			{ HAND, "kept SMs, green contexts", "0123" },
			{ RUNNEL, "kept SMs, a worker spins", "0123" },
		},
	},
	{
		.name = "classes", .work = &bench_overload,
		.about = "admission, with deadlines and twice as much work as the GPU can do",
		.patience_s = 600, .shift = 1, .gpu = true,
		.lines = {
			{ "overload, kernels that fill the GPU, accepted", "%", BENCH_NO_GOAL, 0, MORE },
			{ "of these, in time", "%", BENCH_ABSOLUTE, 99.9, MORE },
			{ "goodput by a scheduler that knows all times", "%", BENCH_ABSOLUTE, 90, MORE },
			{ "overload, small kernels, accepted", "%", BENCH_NO_GOAL, 0, MORE },
			{ "of these small ones, in time", "%", BENCH_ABSOLUTE, 99.9, MORE },
			{ "their goodput by such a scheduler", "%", BENCH_ABSOLUTE, 90, MORE },
		},
		.ways = {
			{ RUNNEL, "1 worker, 1 in flight", "012" },
			{ RUNNEL, "1 worker, 2 in flight", "012" },
			{ RUNNEL, "4 workers, 1 in flight", "345" },
			{ RUNNEL, "4 workers, 2 in flight", "345" },
		},
	},
	{
		.name = "join", .work = &bench_join,
		.about = "a stream waits for 16 streams' work, on the device",
		.patience_s = 60, .gpu = true,
		.lines = {
			{ "join of 16 workers: what it costs its caller", "us", BENCH_ABSOLUTE, 10,
			  LESS },
			{ "the same: last end to next start", "us", BENCH_ABSOLUTE, 10, LESS },
		},
		.ways = {
			{ HAND, "16 event waits", "01" },
			{ RUNNEL, "rnl_barrier_join()", "01" },
		},
	},
	{
		.name = "stages", .work = &bench_stages,
		.about = "16 stages of 0.2 ms on each of two streams, each after the first stream's",
		.patience_s = 60, .gpu = true,
		.lines = {
			{ "16 stages of 0.2 ms on two streams", "ms", BENCH_OF_HAND, 0.97, LESS },
		},
		.ways = {
			{ HAND, "an event for each stage", "0" },
			{ RUNNEL, "rnl_job_set_after()", "0" },
		},
	},
	{
		.name = "pipeline", .work = &bench_pipeline,
		.about = "32 items through three stages on three streams",
		.patience_s = 90, .gpu = true,
		.lines = {
			{ "three stages of 50 us, 32 items", "ms", BENCH_OF_HAND, 0.97, LESS },
			{ "three stages of 0.2 ms, 32 items", "ms", BENCH_OF_HAND, 0.97, LESS },
			{ "three stages of 1 ms, 32 items", "ms", BENCH_OF_HAND, 0.97, LESS },
		},
		.ways = {
			{ HAND, "events, 1 thread", "012" },
			{ HAND, "events, 3 threads", "012" },
			{ RUNNEL, "small barriers", "012" },
		},
	},
	{
		.name = "hold", .work = &bench_hold,
		.about = "a job that another thread finishes, beside a thread that waits for a signal",
		.patience_s = 60, .gpu = true,
		.lines = {
			{ "a held job, release to return, p50", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "a held job, release to return, p99", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "the same without device work, p50", "us", BENCH_HAND_PLUS, 3, LESS },
			{ "the same without device work, p99", "us", BENCH_HAND_PLUS, 3, LESS },
		},
		.ways = {
			{ HAND, "a condition variable", "01" },
			{ OTHER, "plain jobs, one by one", "01" },
			{ OTHER, "a plain job", "01" },
			{ RUNNEL, "rnl_hold_release()", "01" },
			{ HAND, "a condition variable", "23" },
			{ OTHER, "plain jobs, one by one", "23" },
			{ OTHER, "a plain job", "23" },
			{ RUNNEL, "rnl_hold_release()", "23" },
		},
	},
	{
		.name = "fan", .work = &bench_fan,
		.about = "items of 4 + 3 + 1 small kernels, 64 at a time: fanned out, or in a row",
		.patience_s = 90, .gpu = true,
		.lines = {
			{ "items of 4 + 3 + 1 jobs, fanned out", "k/s", BENCH_OF_HAND, 1, MORE },
			{ "the same, one behind the other", "k/s", BENCH_OF_HAND, 0.97, MORE },
		},
		.ways = {
			{ HAND, "events, 1 thread", "0" },
			{ HAND, "events, 4 threads", "0" },
			{ HAND, "events, 8 threads", "0" },
			{ HAND, "a graph each, 4 threads", "0" },
			{ HAND, "a graph each, 8 threads", "0" },
			{ RUNNEL, "small barriers, cq", "0" },
			{ RUNNEL, "small barriers, callbacks", "0" },
			{ HAND, "streams, 4 threads", "1" },
			{ HAND, "streams, 8 threads", "1" },
			{ HAND, "a graph each, 4 threads", "1" },
			{ HAND, "a graph each, 8 threads", "1" },
			{ RUNNEL, "rnl_job_set_then(), cq", "1" },
			{ RUNNEL, "rnl_job_set_then(), callbacks", "1" },
		},
	},
	{
		.name = "patterns", .work = &bench_patterns,
		.about = "chains, fans and a stencil of kernels of 3 us, by one thread, or one worker",
		.patience_s = 90, .gpu = true,
		/* By hand and a quarter. */
		.lines = {
			{ "chains of 8, each kernel", "us", BENCH_OF_HAND, 0.8, LESS },
			{ "fans of 1 + 6 + 1, each kernel", "us", BENCH_OF_HAND, 0.8, LESS },
			{ "a stencil of 8 x 8, each kernel", "us", BENCH_OF_HAND, 0.8, LESS },
		},
		.ways = {
			{ HAND, "8 streams, 1 thread", "0" },
			{ HAND, "a graph, 1 thread", "0" },
			{ RUNNEL, "rnl_job_set_then(), 1 worker", "0" },
			{ HAND, "8 streams, 1 thread", "1" },
			{ HAND, "a graph, 1 thread", "1" },
			{ RUNNEL, "small barriers, 1 worker", "1" },
			{ HAND, "8 streams, 1 thread", "2" },
			{ HAND, "a graph, 1 thread", "2" },
			{ RUNNEL, "small barriers, 1 worker", "2" },
		},
	},
	{
		.name = "submit", .work = &bench_submit,
		.about = "whether more workers make submits, and J, slower",
		.patience_s = 60, .gpu = true,
		.lines = {
			/* More workers should reach 97 % of the rate of fewer workers. */
			{ "submits, 8 workers", "M/s", BENCH_NO_GOAL, 0, MORE },
			{ "submits, 16 workers", "M/s", BENCH_ABSOLUTE, 0.97, MORE },
			{ "submits, 32 workers", "M/s", BENCH_ABSOLUTE, 0.97, MORE },
			{ "J per second, 8 workers, 4 producers", "kJ/s", BENCH_NO_GOAL, 0, MORE },
			{ "J per second, 16 workers, 4 producers", "kJ/s", BENCH_ABSOLUTE, 0.97, MORE },
			{ "J per second, 32 workers, 4 producers", "kJ/s", BENCH_ABSOLUTE, 0.97, MORE },
		},
		.ways = {
			{ RUNNEL, "rnl_submit()", "0" },
			{ RUNNEL, "cq P4", "3" },
			{ HAND, "event/8 d64", "3" },
			{ RUNNEL, "rnl_submit()", "1" },
			{ RUNNEL, "cq P4", "4" },
			{ HAND, "event/8 d64", "4" },
			{ RUNNEL, "rnl_submit()", "2" },
			{ RUNNEL, "cq P4", "5" },
			{ HAND, "event/8 d64", "5" },
		},
	},
	{
		.name = "cpu", .work = &bench_cpu,
		.about = "CPU time of an idle pool, and of workers that wait for the device",
		.patience_s = 60, .gpu = true,
		.lines = {
			{ "CPU of an idle pool of 8 workers", "% core", BENCH_HAND_PLUS, 0.1, LESS },
			{ "CPU for each of 8 workers that wait", "% core", BENCH_ABSOLUTE, 10, LESS },
		},
		.ways = {
			{ HAND, "CUDA alone", "0" },
			{ RUNNEL, "idle", "0" },
			{ HAND, "stream sync", "1" },
			{ HAND, "blocking event", "1" },
			{ RUNNEL, "rnl_barrier_wait()", "1" },
		},
	},
	{
		.name = "chunks", .work = &bench_chunks,
		.about = "96 chunks of 8 MB to the device, through a kernel, and back",
		.patience_s = 60, .gpu = true,
		.lines = {
			{ "chunks in, kernel, out; 4 workers", "ms", BENCH_OF_CEILING, 0.97, LESS },
			{ "the same, times as fast as one stream", "x", BENCH_ABSOLUTE, 2.6, MORE },
		},
		.ways = {
			{ HAND, "one stream", "0" },
			{ HAND, "4 streams in turn", "0" },
			{ HAND, "4 threads", "01" },
			{ HAND, "a stream for each stage, events", "01" },
			{ HAND, "kernels on pinned memory", "01" },
			{ RUNNEL, "rnl_map_start()", "01" },
			{ CEILING, "copies, or kernels", "0" },
		},
	},
	{
		.name = "trace", .work = &bench_trace, .by = BENCH_BY_THREADS,
		.about = "J per second while a trace runs",
		.patience_s = 90, .shift = 1, .gpu = true,
		.lines = {
			{ "J per second, traced, timing off", "kJ/s", BENCH_OF_CEILING, 0.97, MORE },
			{ "J per second, traced, timing on", "kJ/s", BENCH_OF_CEILING, 0.9, MORE },
			{ "J per second, traced, every job timed", "kJ/s", BENCH_NO_GOAL, 0, MORE },
		},
		.ways = {
			{ CEILING, "no trace", "012" },
			{ RUNNEL, "host alone", "0" },
			{ RUNNEL, "some timed", "1" },
			{ RUNNEL, "every job timed", "2" },
		},
	},
	{
		.name = "preload", .work = &bench_preload,
		.about = "much page-locked memory, until it may be used",
		.patience_s = 120, .gpu = true,
		.lines = {
			/* rows/gpu/preload.c: a fifth of the time of cudaHostAlloc(). */
			{ "4 GiB page-locked in advance", "ms", BENCH_ABSOLUTE, 0.2, LESS },
		},
		.ways = {
			{ OTHER, "cudaHostAlloc()", "0" },
			{ HAND, "MAP_POPULATE, registered", "0" },
			{ HAND, "touched by threads, registered", "0" },
			{ CEILING, "touched by threads", "0" },
			{ RUNNEL, "rnl_pool_create()", "0" },
		},
	},
	{
		.name = "processes", .work = &bench_processes,
		.about = "J by one process, by four on one GPU, and by four under MPS; 2 threads each",
		.patience_s = 300, .shift = 1, .apart = true,
		.lines = {
			{ "J per second, 1 process", "kJ/s", BENCH_OF_HAND, 0.95, MORE },
			/* They take turns, which is the GPU's matter. */
			{ "J per second, 4 processes", "kJ/s", BENCH_NO_GOAL, 0, MORE },
			{ "J per second, 4 processes under MPS", "kJ/s", BENCH_OF_HAND, 0.95, MORE },
		},
	},
	/* ---- make bench-gpu, with several GPUs; all rows share a name ---- */
	{
		.name = "devices", .work = &bench_devices, .by = BENCH_BY_GPUS | BENCH_BY_KIND,
		.about = "J by one pool over several GPUs, beside one GPU; and what scales by hand",
		.patience_s = 90, .gpu = true,
		.lines = {
			/* By hand: as many threads on each GPU, J one by one, or graphs. */
			{ "J per second", "kJ/s", BENCH_OF_SCALING, 0.95, MORE },
			{ "J of 4 KB, gathered", "kJ/s", BENCH_OF_SCALING, 0.97, MORE },
		},
	},
	{
		.name = "devices", .work = &bench_devices_map, .by = BENCH_BY_GPUS,
		.about = "96 chunks of 8 MB a GPU through a map, beside one GPU; both ways together",
		.patience_s = 90, .gpu = true,
		.lines = {
			{ "chunks in, kernel, out; 4 workers each", "GB/s", BENCH_OF_CEILING, 0.95, MORE },
		},
		.ways = {
			{ OTHER, "one GPU", "0" },
			{ RUNNEL, "rnl_map_start()", "0" },
			{ OTHER, "copies alone, one GPU", "0" },
			{ CEILING, "copies alone", "0" },
		},
	},
	{
		.name = "devices", .work = &bench_devices_batch, .by = BENCH_BY_GPUS,
		.about = "requests of 4 KB through a batcher over several GPUs, beside one GPU",
		.patience_s = 60, .gpu = true,
		.lines = {
			/* rows/gpu/batch.c: or 92.5 % of linear, if that is less. */
			{ "requests of 4 KB, 8 producers each", "k/s", BENCH_OF_CEILING, 0.95, MORE },
		},
		.ways = {
			{ HAND, "slabs of 256", "0" },
			{ HAND, "slabs of 1024", "0" },
			{ CEILING, "copies both ways", "0" },
			{ RUNNEL, "rnl_batcher, 128 in flight", "0" },
			{ RUNNEL, "rnl_batcher, 512 in flight", "0" },
			{ OTHER, "a pool for each GPU", "0" },
			{ OTHER, "one GPU", "0" },
			{ OTHER, "slabs of 1024, one GPU", "0" },
		},
	},
	{
		.name = "devices", .work = &bench_peers,
		.about = "copies of 64 MB from one GPU to another, each way alone",
		.patience_s = 60, .gpu = true, .gpus = 2,
		.lines = {
			{ "copies from the first GPU to the second", "GB/s", BENCH_OF_HAND, 0.97, MORE },
			{ "copies from the second GPU to the first", "GB/s", BENCH_OF_HAND, 0.97, MORE },
		},
		.ways = {
			{ HAND, "cudaMemcpyPeerAsync()", "01" },
			{ RUNNEL, "rnl_copy()", "01" },
		},
	},
	{
		.name = "devices", .work = &bench_join,
		.about = "a stream waits for 16 streams' work, half of it on another GPU",
		.patience_s = 60, .gpu = true, .gpus = 2,
		.lines = {
			{ "join of 2 x 8 workers: what it costs its caller", "us", BENCH_HAND_PLUS, 3,
			  LESS },
			{ "the same: last end to next end, as the host sees", "us", BENCH_HAND_PLUS, 3,
			  LESS },
		},
		.ways = {
			{ HAND, "16 event waits", "01" },
			{ RUNNEL, "rnl_barrier_join()", "01" },
		},
	},
	/* ---- both ---- */
	{
		.name = "pinned", .work = &bench_pinned, .by = BENCH_BY_DOUBLING,
		.about = "rnl_memory_get() and rnl_memory_put(), by 1 to 16 threads",
		.patience_s = 300,
		.lines = {
			/* A single thread should take 100 ns. */
			{ "pinned get and put of 4 KB by threads", "ns", BENCH_ABSOLUTE, 1000, LESS },
			{ "pinned get and put of 1 MB by threads", "ns", BENCH_ABSOLUTE, 1000, LESS },
		},
		.ways = {
			{ RUNNEL, "rnl_memory_get()", "0" },
			{ RUNNEL, "rnl_memory_get()", "1" },
		},
	},
	{
		.name = "scratch", .work = &bench_scratch,
		.about = "rnl_scratch() in jobs that follow each other",
		.patience_s = 300,
		.lines = {
			{ "empty jobs, one after the other", "ns", BENCH_NO_GOAL, 0, LESS },
			{ "rnl_scratch() of 1 MB that the worker keeps", "ns", BENCH_ABSOLUTE, 2000, LESS },
			{ "the same, the whole job", "ns", BENCH_NO_GOAL, 0, LESS },
			{ "rnl_scratch() of 1 MB anew, in stream order", "ns", BENCH_ABSOLUTE, 2000, LESS },
			{ "the same, the whole job", "ns", BENCH_NO_GOAL, 0, LESS },
			{ "two looks at the clock", "ns", BENCH_NO_GOAL, 0, LESS },
		},
		.ways = {
			{ RUNNEL, "no scratch", "50" },
			{ RUNNEL, "kept", "12" },
			{ RUNNEL, "anew", "34" },
		},
	},
	{
		.name = "promises", .work = &bench_promises,
		.about = "what comes in time, however busy the workers are; the most of ten",
		.patience_s = 300,
		.lines = {
			{ "told behind functions of 5 ms, late by", "ms", BENCH_ABSOLUTE, 6, LESS },
			{ "a cancelled job, all workers busy, late by", "ms", BENCH_ABSOLUTE, 10, LESS },
			{ "the same, with a key", "ms", BENCH_ABSOLUTE, 10, LESS },
			{ "a deadline, all workers busy, late by", "ms", BENCH_ABSOLUTE, 10, LESS },
			{ "the same, with a key", "ms", BENCH_ABSOLUTE, 10, LESS },
			{ "a delayed job, late by, p99", "us", BENCH_ABSOLUTE, 1000, LESS },
		},
		.ways = {
			{ RUNNEL, "told", "0" },
			{ RUNNEL, "cancelled", "12" },
			{ RUNNEL, "late", "34" },
			{ RUNNEL, "delayed", "5" },
			{ HAND, "a thread that sleeps", "5" },
		},
	},
	{
		.name = "feed", .work = &bench_feed,
		.about = "FILEs into pinned memory, and that to the device; left out without FILEs",
		.patience_s = 600,
		.lines = {
			{ "read into pinned memory", "GB/s", BENCH_NO_GOAL, 0, MORE },
			{ "copy to the device", "GB/s", BENCH_NO_GOAL, 0, MORE },
		},
		.ways = {
			{ CEILING, "read()", "0" },
			{ CEILING, "one stream, rnl_copy()", "1" },
		},
	},
	{ .name = NULL },
};

/* ---- peers --------------------------------------------------------------- */

#ifdef BENCH_TSAN
#define WITHOUT_TSAN(why) "ThreadSanitizer cannot follow its runtime"
#else
#define WITHOUT_TSAN(why) why
#endif

const struct bench_pool bench_pools[BENCH_PEERS_MAX + 1] = {
	{ RUNNEL, "runnel", "rnl_submit", NULL, &peer_runnel, NULL },
	{ RUNNEL, "runnel_many", "rnl_submit_many", NULL, &peer_runnel_many, "in rows of 64" },
	{ PEER, "mutex", "mutex + condvar", NULL, &peer_mutex, NULL },
	{ PEER, "glib", "GLib GThreadPool", "install libglib2.0-dev", &peer_glib, NULL },
	{ PEER, "libuv", "libuv uv_queue_work", "install libuv1-dev", &peer_uv,
	  "a job is done when its after-work callback has run on the producer's own loop" },
	{ PEER, "tbb", "oneTBB task_group",
	  WITHOUT_TSAN("install libtbb-dev and g++ (or see config.log)"), &peer_tbb,
	  "a thread that waits runs jobs, too" },
	{ PEER, "openmp", "OpenMP task",
	  WITHOUT_TSAN("install what -fopenmp needs (clang: libomp-dev)"), &peer_openmp,
	  "a thread that waits runs jobs, too; a producer runs them at once when very many wait; "
	  "after 1 ms its threads may still spin" },
	{ CEILING, "wfcq", "bare cds_wfcq + futex", NULL, &peer_wfcq,
	  "the ceiling, no pool: no bound, no stealing, and nobody learns that a job is done" },
	{ CEILING, NULL, NULL, NULL, NULL, NULL },
};
