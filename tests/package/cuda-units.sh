#!/bin/sh
# SPDX-License-Identifier: MIT
# Units that call CUDA, compiled like users do: the results of their jobs without a driver, with a
# driver (the double of CUDA's runtime), and when modules are loaded and unloaded.
. "$(dirname "$0")/../lib/harness.sh"
[ "$have_CUDA" = yes ] || skip_all 'configured without CUDA'
ln -s "$PWD" "$dir/build"	# whose name may have blanks
double=$PWD/tests/fake_cudart
flags="$CFLAGS -I$srcdir/include -I$dir $CUDA_CFLAGS ${sanitizer:+-fsanitize=$sanitizer}"
library="./librunnel.so.$VERSION -Wl,-rpath,$dir/build -pthread -ldl"

# ---- shared code of the programs: one job, made by main.c or by the unit ------------------------
cat >"$dir/shared.h" <<'END'
#include <stdio.h>
#include <runnel/kernel.h>

/* Runs a job in a pool, of private streams if there is a second argument; prints how it ended. */
static inline int run_as(char **argv, int (*fn)(struct rnl_job *job))
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;
	int ret;

	attr.device = argv[1];
	attr.stream = argv[2] ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	attr.nr_workers = 1;
	ret = rnl_pool_create(&pool, &attr);
	if (ret) {
		printf("create %d\n", ret);
		return 0;
	}
	(void)rnl_job_init(&job, fn);
	ret = rnl_submit(pool, &job);
	if (ret) {
		printf("submit %d\n", ret);
	} else {
		(void)rnl_job_wait(&job, RNL_FOREVER);
		printf("result %d error %d\n", job.result, job.device_error);
	}
	rnl_pool_destroy(pool);
	return 0;
}

#define RUNS(fn) int main(int argc, char **argv) { return argc > 1 ? run_as(argv, fn) : 2; }
int raw_fn(struct rnl_job *job);
END
cat >"$dir/main.c" <<'END'
#include "shared.h"

RUNS(raw_fn)
END
# A function that calls CUDA, ignores its errors, and returns 0.
cat >"$dir/raw.c" <<'END'
#include <runnel/cuda.h>

int raw_fn(struct rnl_job *job);

int raw_fn(struct rnl_job *job)
{
	(void)job;
	(void)cudaMemsetAsync((void *)64, 1, 64, (cudaStream_t)rnl_stream());
	return 0;
}
END
cat >"$dir/single.c" <<'END'
#include "shared.h"
#include "raw.c"

RUNS(raw_fn)
END
# The unit's job does not use CUDA; another unit has CUDA calls.
cat >"$dir/portable.c" <<'END'
#include "shared.h"

int (*other)(struct rnl_job *job) = raw_fn;

static int portable_fn(struct rnl_job *job)
{
	(void)job;
	return 7;
}
RUNS(portable_fn)
END
# The unit's job also works without a GPU; another unit has CUDA calls that must succeed.
cat >"$dir/mixed.c" <<'END'
#define RNL_NEEDS_CUDA 0
#include "shared.h"
#include <runnel/cuda.h>

int (*other)(struct rnl_job *job) = raw_fn;

static int mixed_fn(struct rnl_job *job)
{
	(void)job;
	(void)cudaMemsetAsync((void *)64, 1, 64, (cudaStream_t)rnl_stream());
	return 0;
}
RUNS(mixed_fn)
END
cat >"$dir/left.c" <<'END'
#include <runnel/cuda.h>

int raw_fn(struct rnl_job *job);

int raw_fn(struct rnl_job *job)
{
	void *mem;

	(void)job;
	if (cudaHostAlloc(&mem, 1 << 20, cudaHostAllocPortable))
		return 1;
	for (int i = 0; i < 200; i++)
		(void)cudaMemsetAsync(mem, i, 1 << 20, 0);
	return 0;
}
END
# build OUT "FLAGS" UNIT...: builds a program of C units, compiled for per-thread streams
build() {
	out=$1 more=$2 objects=
	shift 2
	for unit; do
		$CC $flags -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 $more -c -o "$dir/$unit.$out.o" \
			"$dir/$unit.c" || exit
		objects="$objects $dir/$unit.$out.o"
	done
	$CC $flags -o "$dir/$out" $objects "$double/libcudart.so" $library || exit
}
build single '' single
build two '' main raw
build reversed '' raw main
build sections -ffunction-sections main raw
build portable '' portable raw
build needs -DRNL_NEEDS_CUDA=1 main raw
build spared -DRNL_NEEDS_CUDA=0 main raw
build mixed '' mixed raw
build left '' main left

# runs PLAN LINE PROGRAM ARG...: runs it on the double; the program prints the line
runs() {
	plan=$1 line=$2 run=$3
	shift 3
	FAKE_CUDART=$plan LD_LIBRARY_PATH=$double "$dir/$run" "$@" >"$dir/out" 2>"$dir/err" ||
		complain "status $?"
	[ "$(cat "$dir/out")" = "$line" ] || complain "it does not print: $line"
}
hushed() { ! grep -qF -- "$1" "$dir/err" || complain "it says: $1"; }

# ---- without a driver -------------------------------------------------------------
for built in single two reversed; do
	runs absent=35 'result -19 error 35' $built auto
	says 'device is "auto": there is no cuda:0: cudaGetDeviceCount() fails with CUDA error 35'
	says 'So the pool is on the host device'
	says 'raw_fn() calls CUDA, which fails on this pool'
	says 'Create the pool with device "cuda"'
	ends "a job that calls CUDA fails, and the log says what to do: $built"
done
runs absent=35 'create -19' single cuda
says 'device is "cuda": there is no cuda:0: cudaGetDeviceCount() fails with CUDA error 35'
ends '"cuda" says why there is none'
for code in 3 304 802 803 805 999; do
	runs absent=$code "result -5 error $code" single auto
	says "cudaGetDeviceCount() fails with CUDA error $code"
done
ends 'so does each other reason'
runs absent=35 'result 7 error 0' portable auto
hushed 'its job fails'
says 'this process has units that call it: such calls do nothing'
ends 'a function of a unit without CUDA runs on'
runs absent=35 'submit -19' needs host
says 'says that it needs CUDA (RNL_NEEDS_CUDA is 1)'
ends 'RNL_NEEDS_CUDA 1: the submit is refused'
runs absent=35 'result 0 error 0' spared host
[ ! -s "$dir/err" ] || complain 'a message'
runs absent=35 'result 0 error 0' mixed host
[ ! -s "$dir/err" ] || complain 'a message'
ends 'RNL_NEEDS_CUDA 0: the function runs'

# ---- with a driver --------------------------------------------------------------
for built in single two reversed sections; do
	runs '' 'result -22 error 1' $built cuda
	ends "a call that fails on a GPU fails its job: $built"
	runs '' 'result -22 error 1' $built host
	says 'its job fails'
	ends "in a pool on the host device, too: $built"
done
runs '' 'submit -22' two cuda private
says 'write #define RNL_NAMES_STREAM 1'
ends 'a private pool refuses a unit that does not name the stream, though main.c made the job'
runs '' 'result 7 error 0' portable cuda private
ends 'it takes the functions of other units'
runs delay_ops=200,seed=5 'result 0 error 0' left host
says 'leaves work on a GPU'
ends 'a pool on the host device waits for what is left on the stream, and says so'

# ---- C++: either order of includes ---------------------------------------------------
cat >"$dir/lambda.cpp" <<'END'
#ifdef FIRST
#include <runnel/cuda.h>
#endif
#include <runnel.hpp>
#include <runnel/cuda.h>
#include <cstdio>

int main()
{
	rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.device = "cuda";
	rnl::pool pool(attr);
	rnl::job job([] { (void)cudaStreamQuery(reinterpret_cast<cudaStream_t>(64)); });

	job.submit(pool);
	(void)rnl_job_wait(job, RNL_FOREVER);
	std::printf("result %d\n", job.result());
	attr.stream = RNL_STREAM_PRIVATE;
	rnl::pool other(attr);
	std::printf("submit %d\n", rnl_submit(other, job));
}
END
for cxx in $(cxx_compilers); do
	for first in '' -DFIRST; do
		# shellcheck disable=SC2086  # words
		$cxx -std=c++17 -Wall -Wextra -Wold-style-cast -Werror ${sanitizer:+-fsanitize=$sanitizer} \
			-I"$srcdir/include" $CUDA_CFLAGS -DCUDA_API_PER_THREAD_DEFAULT_STREAM=1 $first \
			-o "$dir/lambda" "$dir/lambda.cpp" "$double/libcudart.so" $library || exit
		runs '' 'result -22
submit -22' lambda
		ends "a lambda's failed call is an error, a private pool refuses it: $cxx $first"
	done
done

# ---- modules, each with its own runtime ----------------------------------------- The runtime of a
# module is a function of the module here, which counts its calls, and may be slow.
cat >"$dir/module.c" <<'END'
#include <runnel/unit.h>

static __thread int last;

static int last_error(void)
{
	int code = last;

	last = 0;
	return code;
}

static struct rnl__cuda_unit unit = { sizeof(unit), 0, last_error, &unit, NULL, NULL };

__attribute__((constructor)) static void load(void)
{
	(void)rnl__cuda_unit_add(&unit);
}

__attribute__((destructor)) static void unload(void)
{
	rnl__cuda_unit_remove(&unit);
}

void fail_here(int code);

void fail_here(int code)
{
	last = code;
}
END
cat >"$dir/host.c" <<'END'
#include <dlfcn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <runnel.h>

#define JOBS 64

static void (*fail_there)(int code);
static atomic_long done;

static int calling_fn(struct rnl_job *job)
{
	(void)job;
	fail_there(1);
	return 0;
}

static int count_fn(struct rnl_job *job)
{
	(void)job;
	atomic_fetch_add(&done, 1);
	return 0;
}

static void *load(const char *path)
{
	void *module = dlopen(path, RTLD_NOW);

	if (module)
		*(void **)&fail_there = dlsym(module, "fail_here");
	else
		puts(dlerror());
	return module;
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_job jobs[JOBS], job;
	struct rnl_pool *pool;
	void *module;

	attr.device = "cuda";
	attr.nr_workers = 3;
	if (argc < 3 || rnl_pool_create(&pool, &attr) || !(module = load(argv[1])))
		return 10;
	(void)rnl_job_init(&job, calling_fn);
	if (rnl_submit(pool, &job) || rnl_job_wait(&job, RNL_FOREVER))
		return 11;
	printf("result %d\n", job.result);
	dlclose(module);
	for (int i = 0; i < JOBS; i++) {
		(void)rnl_job_init(&jobs[i], count_fn);
		if (rnl_submit(pool, &jobs[i]))
			return 12;
	}
	/* Workers ask without end, while modules come and go. */
	for (int turn = 0; turn < 300; turn++) {
		module = load(argv[1 + turn % 2]);
		for (int i = 0; i < JOBS; i++) {
			if (rnl_job_wait(&jobs[i], 0))
				continue;
			if (jobs[i].result)
				return 13;
			if (rnl_submit(pool, &jobs[i]))
				return 14;
		}
		dlclose(module);
	}
	rnl_pool_destroy(pool);
	puts("unloaded");
	return 0;
}
END
for name in one other; do
	$CC $flags -fPIC -shared -o "$dir/$name.so" "$dir/module.c" $library || exit
done
$CC $flags -o "$dir/host" "$dir/host.c" $library || exit
runs '' 'result -22
unloaded' host "$dir/one.so" "$dir/other.so"
ends 'the error of a module that is loaded later fails the job, and it goes while workers run'

# ---- by nvcc, which links its own runtime: without a driver --------------------------
[ "$NVCC" ] || { echo "SKIP: $UNBUILT"; done_testing; }
if $NVCC -o "$dir/devices" -x cu - <<'END' && "$dir/devices"; then
int main() { int nr; return cudaGetDeviceCount(&nr) != cudaSuccess; }
END
	echo 'SKIP: a GPU answers: programs without a driver'
	done_testing
fi
[ -z "$sanitizer" ] || { echo 'SKIP: programs of nvcc, in a build with a sanitizer'; done_testing; }
cat >"$dir/kernel.cu" <<'END'
#include <runnel/cuda.h>

static __global__ void set_cuda(int *word)
{
	*word = 1;
}

extern "C" int raw_fn(struct rnl_job *job)
{
	set_cuda<<<1, 1>>>(static_cast<int *>(job->user));
	return 0;
}
END
# A unit that only has an RNL_KERNEL(), with its host function.
cat >"$dir/pair.cu" <<'END'
#include <runnel/cuda.h>

struct args { int *word; };

static void set_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	*static_cast<const struct args *>(args)->word = 7;
}

static __global__ void set_cuda(struct args args)
{
	*args.word = 7;
}

RNL_KERNEL(set_word, set_host, set_cuda, struct args);
extern "C" const struct rnl_kernel *const set_word_of_pair;
const struct rnl_kernel *const set_word_of_pair = &set_word;
END
cat >"$dir/pair.c" <<'END'
#include "shared.h"

extern const struct rnl_kernel *const set_word_of_pair;
static int word;

static int pair_fn(struct rnl_job *job)
{
	struct { int *word; } args = { &word };
	const struct rnl_dim one = { 1, 1, 1 };

	(void)job;
	return rnl_launch(set_word_of_pair, one, one, &args);
}

int main(int argc, char **argv)
{
	return argc > 1 && !run_as(argv, pair_fn) && word == 7 ? 0 : 3;
}
END
# Without CFLAGS: nvcc links them, and does not link the libraries of a coverage build.
for part in main pair; do
	$CC -I"$srcdir/include" -I"$dir" $CUDA_CFLAGS -c -o "$dir/$part.o" "$dir/$part.c" || exit
done
nvcc="$NVCC -std=c++17 --default-stream per-thread -I$srcdir/include"
nvlink="-L. -lrunnel -Xlinker -rpath,$dir/build"
{ $nvcc -o "$dir/nv_raw" "$dir/main.o" "$dir/kernel.cu" $nvlink &&
	$nvcc -o "$dir/nv_pair" "$dir/pair.o" "$dir/pair.cu" $nvlink; } || exit
for gone in auto host; do
	"$dir/nv_raw" $gone >"$dir/out" 2>"$dir/err"
	prints '^result -19 error 35$'
	says 'raw_fn() calls CUDA, which fails on this pool'
	ends "a <<<>>> of nvcc fails its job without a driver: $gone"
done
"$dir/nv_pair" host >"$dir/out" 2>"$dir/err" || complain "status $?"
prints '^result 0 error 0$'
[ ! -s "$dir/err" ] || complain 'a message'
ends 'a unit that only has an RNL_KERNEL() runs on'
done_testing
