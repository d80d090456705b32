# SPDX-License-Identifier: MIT
# The tests.  What stands in a folder of tests/ is a test: nothing is listed.
#
#	unit	links the archive, and so sees internals
#	api	links the shared library alone, and runs on each device
#	stress	the same, for longer, by a seed
#	cuda	an application in CUDA C, as nvcc links it when not told otherwise
#	cli	scripts: the programs from outside
#	package	scripts: what is built and installed
#	modules	scripts: examples/modules in their servers
#	tree	scripts: what does not depend on how the library is built
#
# A unit test or a script that runs on several devices says so in a comment of its own:
# "devices: host fake cuda"; fake is the CUDA device on the double of CUDA's runtime.
tests_in = $(patsubst $(srcdir)/tests/%.$2,%,$(sort $(wildcard $(srcdir)/tests/$1/*.$2)))

# Linked against the double: tests of it, and of what only it can make fail.
FAKES := $(filter unit/fake%,$(call tests_in,unit,c))
# On the simulated machine's memory, tests/sim/weak.c; with these of src/.
WEAKS := unit/orders unit/weak
WEAK_SRCS := pool/park.c pool/queue.c stream/inflight.c stream/pace.c sys/latch.c
# Not on the simulated machine: they wrap calls themselves, or load the shared library.
UNSIMULATED := unit/countdown unit/cpus unit/symbol
UNITS := $(filter-out $(FAKES) $(WEAKS) $(if $(simulation),$(UNSIMULATED)),$(call tests_in,unit,c))
APIS  := $(call tests_in,api,c) $(call tests_in,stress,c)
CUDAS := $(call tests_in,cuda,cu)
# Linked in every way, {static, shared} runtime x {librunnel.so, librunnel.a}; others in the first.
CUDAS_4WAYS := cuda/copies

ways := static_so static_a shared_so shared_a
weaks := $(if $(sanitizer)$(simulation),,$(WEAKS))
# The double is a library of its own; on a simulated machine it is a part of each program.
double := $(filter yes,$(have_CUDA))
FAKE_OBJS := $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/tests/fake_cudart/*.c)))
fakes := $(if $(simulation),,$(if $(double),$(FAKES)))
TESTS_SO := $(APIS:%=tests/%)
TESTS_A  := $(UNITS:%=tests/%) $(if $(simulation),$(if $(double),$(FAKES:%=tests/%)))
TESTS_FAKE := $(fakes:%=tests/%)
TESTS_CU := $(patsubst %,tests/%_static_so,$(filter-out $(CUDAS_4WAYS),$(CUDAS))) \
	$(foreach t,$(CUDAS_4WAYS),$(ways:%=tests/$t_%))
# Programs of the tree on the double.
tool_double := $(if $(fakes),tests/doubles/tool)
small_double := $(if $(fakes),tests/doubles/small_jobs)
kinds_double := $(if $(fakes),tests/doubles/stream_kinds)
loader_double := $(if $(fakes),tests/doubles/loader)
pipeline_double := $(if $(fakes),$(if $(filter yes,$(have_LIBPNG)),tests/doubles/pipeline))
# With a double of NCCL, which needs NCCL's header.
buckets_double := $(if $(fakes),$(if $(filter yes,$(have_NCCL)),tests/doubles/buckets))
http_double := $(if $(fakes),$(if $(filter yes,$(have_HTTP)),tests/doubles/http))

# ---- make sim: on a simulated machine, docs/simulation.md ----------------------
SEED ?= 1
SEEDS ?= 1
SIM_SHARED := tests/sim/atomics.o tests/sim/memory.o
ifneq ($(simulation),)
INC := -I$(srcdir)/tests/sim -I$(srcdir)/tests -I$(srcdir)/src $(INC)
SIM_OBJS := $(filter-out tests/sim/main.o tests/sim/weak.o,$(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/tests/sim/*.c))))
src/%.o: INC += -include sim/faults.h
$(SIM_OBJS): RNL_CFLAGS := $(filter-out -fsanitize=thread,$(RNL_CFLAGS))
# The last ones are not simulated, and no program calls them yet: one that does is not linked.
sim_wraps := $(patsubst %,-Wl$(comma)--wrap=%,_ck_assert_failed _mark_point abort \
	$(shell sed -n 's/^WRAP.[^,]*, \([a-z_0-9]*\).*/\1/p' $(srcdir)/tests/sim/wraps.c) \
	clock_nanosleep pthread_mutex_timedlock $(addprefix pthread_rwlock_,rdlock wrlock) pthread_timedjoin_np sleep)
ifneq ($(double),)
# The double is in libcudart's place, and tests find its calls by name.
SIM_OBJS += $(FAKE_OBJS)
CUDA_LIBS :=
sim_wraps += '-Wl,--export-dynamic-symbol=cuda*' '-Wl,--export-dynamic-symbol=fake_*'
endif
# Programs without Check: the storm, the calls of make fuzz, examples that need no files.
SIM_EXAMPLES := allocator overlap specialised stream_kinds
sim_programs := tests/torture/torture tests/fuzz/calls $(ex)/fan_out $(ex)/producer_consumer $(foreach e,$(SIM_EXAMPLES),$(ex)/$e/$e)
$(foreach e,$(SIM_EXAMPLES),$(eval $(ex)/$e/$e: $(call example_objs,$e) $(ex)/$e/device.o))
$(ex)/fan_out $(ex)/producer_consumer: %: %.o
$(sim_programs): tests/sim/main.o $(SIM_OBJS) librunnel.a
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_A) $(CHECK_LIBS) $(sim_wraps) -Wl,--wrap=main
# examples/overlap of examples/overlap/overlap.
sim_name = $(if $(filter $(notdir $1),$(notdir $(patsubst %/,%,$(dir $1)))),$(patsubst %/,%,$(dir $1)),$1)
SIMULATED = $(foreach t,$(TESTS_SO) $(TESTS_A) $(sim_programs),$(if $(filter $T,$(call sim_name,$(call name_of,$t))),$t))
sim: tests
	@SIM_FAULTS='$(FAULTS)' SIM_MEMORY='$(MEMORY)' FIRST='$(FIRST)' \
	  python3 -B $(srcdir)/tests/sim/run.py $(SEED) $(SEEDS) '$(HOW)' '$(CASE)' \
	  '$(filter host $(if $(double),fake),$(DEVICE))' $(SIMULATED)
else
sim:
	@mkdir -p build-sim && cd build-sim && { test -f config.mk || '$(top)/configure' -q --enable-simulation $(CONFIGURE); }
	@$(MAKE) --no-print-directory -C build-sim sim T='$T' SEED='$(SEED)' SEEDS='$(SEEDS)' HOW='$(HOW)' CASE='$(CASE)' \
	  DEVICE='$(DEVICE)' FAULTS='$(FAULTS)' MEMORY='$(MEMORY)' FIRST='$(FIRST)'
endif
.PHONY: sim

# ---- how they are built --------------------------------------------------------
tests/%.o: TEST_CFLAGS = $(CHECK_CFLAGS)
tests/%.o: INC += -I$(srcdir)/tests -I$(srcdir)/tests/lib -I$(srcdir)
suite := tests/lib/suite.o
tests/api/loops.o: TEST_CFLAGS += $(foreach l,LIBEVENT LIBUV,\
	$(if $(filter yes,$(have_$l)),-DHAVE_$l=1 $($l_CFLAGS)))
tests/api/loops: WRAP = $(LIBEVENT_LIBS) $(LIBUV_LIBS)
tests/api/guard: WRAP = -rdynamic
# Their tests are C, and the .cu file has the kernels.
$(foreach t,gather litmus replay replay_calls resident units,$(eval $(ways:%=tests/cuda/$t_%): tests/cuda/$t.o))
$(ways:%=tests/cuda/guard_%): NVWRAP = -Xlinker --export-dynamic
tests/api/noalloc: WRAP = -ldl
tests/unit/overlap: src/tool/overlap.o
tests/unit/trace_faults: WRAP = -Wl,--wrap=pwrite
tests/unit/cpus: WRAP = -Wl,--wrap=sched_getaffinity -Wl,--wrap=pthread_setaffinity_np
tests/unit/countdown: $(patsubst $(srcdir)/%.c,%.o,$(wildcard $(srcdir)/tests/countdown/*.c))
tests/unit/countdown: WRAP = $(foreach f,aligned_alloc bind calloc eventfd fopen free fstat ftruncate listen malloc mmap munmap \
	open open_memstream opendir pthread_create pthread_detach pthread_join pwrite realloc setenv socket tsearch,-Wl,--wrap=$f)
tests/unit/%.o tests/cuda/litmus.o: INC += -I$(srcdir)/src
$(TESTS_SO): %: %.o $(suite) $(if $(simulation),$(SIM_OBJS) librunnel.a,$(SO))
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(if $(simulation),$(WITH_A),$(WITH_SO)/..) $(CHECK_LIBS) $(WRAP) $(sim_wraps)
$(TESTS_A): %: %.o $(suite) $(SIM_OBJS) librunnel.a
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_A) $(CHECK_LIBS) $(WRAP) $(sim_wraps)
WEAK_OBJS := $(WEAK_SRCS:%.c=tests/sim/src/%.o)
$(WEAK_OBJS) $(WEAKS:%=tests/%.o): INC += -I$(srcdir)/tests/sim -I$(srcdir)/src
$(WEAK_OBJS) $(WEAKS:%=tests/%.o): TEST_CFLAGS = $(CHECK_CFLAGS) -fsanitize=thread -U__SANITIZE_THREAD__ -D_LGPL_SOURCE \
	$(if $(findstring clang,$(CC)),-Wno-builtin-macro-redefined,-Wno-tsan)
$(WEAK_OBJS): tests/sim/%.o: %.c Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CC)$(COMPILE) -c -o $@ $<
$(WEAKS:%=tests/%): %: %.o tests/sim/weak.o $(SIM_SHARED) $(suite) $(WEAK_OBJS) librunnel.a
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_A) $(CHECK_LIBS)
# Of the soname and the version that CUDA's own has, to be found in its place.
fake_cudart := tests/fake_cudart/libcudart.so
tests/fake_cudart/%.o: INC += -I$(srcdir)/src
tests/fake_cudart/%.o: TEST_CFLAGS = -fvisibility=default $(CUDA_CFLAGS)
$(FAKES:%=tests/%.o): INC += $(CUDA_CFLAGS)
$(fake_cudart): $(FAKE_OBJS)
	$(call Q,LD)v=$$(echo CUDART_VERSION | $(CC) $(CUDA_CFLAGS) -E -P -include cuda_runtime_api.h -x c - | \
	  tail -n 1) && so=libcudart.so.$$((v / 1000)) && \
	  echo "$$so { global: cuda*; fake_*; local: *; };" >$@.map && \
	  $(LINK) -shared -Wl,-soname,$$so -Wl,--version-script=$@.map -o $@ $^ && ln -sf $(@F) $(@D)/$$so
with_fake := $(fake_cudart) -Wl,-rpath,'$$ORIGIN/../fake_cudart'
$(TESTS_FAKE): %: %.o $(suite) $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(with_fake) $(WITH_SO)/.. $(CHECK_LIBS)
tests/doubles/%.o: TEST_CFLAGS = $(CUDA_CFLAGS)
tests/doubles/http: $(HTTP_CPU) tests/doubles/http.o $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(with_fake) $(WITH_SO)/.. $(HTTP_LIBS)
define link_double
tests/doubles/$1: $(call example_objs,$1) tests/doubles/$1.o $(SO) $(fake_cudart)
	$$(call Q,LD)$$(LINK) -o $$@ $$(filter %.o,$$^) $$(with_fake) $$(WITH_SO)/.. $$(libs_$1)
endef
$(foreach e,loader pipeline small_jobs stream_kinds,$(eval $(call link_double,$e)))
tests/doubles/buckets.o: TEST_CFLAGS = $(CUDA_CFLAGS) $(NCCL_CFLAGS)
tests/doubles/buckets: $(call example_objs,buckets) tests/doubles/buckets.o $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(with_fake) $(WITH_SO)/.. $(MPI_LIBS)
tests/doubles/tool: $(TOOL_OBJS) tests/doubles/tool.o librunnel.a $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) librunnel.a $(with_fake) $(URCU_LIBS) $(tool_libs)
static_so = --cudart static $(NVWITH_SO)/..
static_a  = --cudart static $(NVWITH_A)
shared_so = --cudart shared $(NVWITH_SO)/.. -Xlinker -rpath,$(cuda_libdir)
shared_a  = --cudart shared $(NVWITH_A) -Xlinker -rpath,$(cuda_libdir)
$(TESTS_CU): librunnel.a $(SO)
define link_cuda_tests
$(filter %_$1,$(TESTS_CU)): %_$1: %.cu.o $(suite)
	$$(call Q,LD)$$(NVLINK) -o $$@ $$(filter %.o,$$^) $$($1) $$(call to_host,$$(CHECK_LIBS)) $$(NVWRAP)
endef
$(foreach w,$(ways),$(eval $(call link_cuda_tests,$w)))

# ---- make torture: links the shared library, has kernels of its own where nvcc is ----
TORTURE_OBJS := $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/tests/torture/*.c)))
$(TORTURE_OBJS): TEST_CFLAGS =
ifneq ($(simulation),)
tests/torture/torture: $(TORTURE_OBJS)
else
tests/torture/torture: $(TORTURE_OBJS) $(if $(nvcc),tests/torture/kernel.cu.o) $(SO)
	$(call Q,LD)$(if $(nvcc),$(NVLINK) -o $@ $(filter %.o,$^) $(NVWITH_SO)/..,$(LINK) -o $@ $(filter %.o,$^) $(WITH_SO)/..)
endif
# nvcc's runtime would ask a driver, which the double is not.
tests/doubles/torture: $(TORTURE_OBJS) $(SO)
	@mkdir -p $(@D)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_SO)/..
torture_double := $(if $(fakes),tests/doubles/torture)
SECONDS ?= 60
DEVICE ?= host $(if $(double),fake) cuda
torture: tests/torture/torture $(if $(fakes),$(fake_cudart) $(torture_double))
	@rc=0; for d in $(DEVICE); do \
	  name=$$d path=$$LD_LIBRARY_PATH program=tests/torture/torture; \
	  [ $$d != fake ] || { name=cuda path=$$PWD/tests/fake_cudart program=tests/doubles/torture; }; \
	  LD_LIBRARY_PATH=$$path RNL_TEST_SCALE='$(RNL_TEST_SCALE)' $(TESTWRAP) $$program \
	    --device=$$name --seconds=$(SECONDS) $(if $(SEED),--seed=$(SEED)) \
	    $(if $(MAKERS),--makers=$(MAKERS)); \
	  case $$? in 0) ;; 77) echo "make torture is skipped on $$d" ;; *) rc=1 ;; esac; \
	done; exit $$rc

# ---- make fuzz: what reads input of strangers, and sequences of calls, by libFuzzer ----
# Instrumented objects of their own; a build with sanitizers would only repeat that.
FUZZ_SECONDS ?= 60
FUZZES := calls $(if $(filter yes,$(have_HTTP)),form image) $(if $(filter yes,$(have_LIBELF)),lint) options \
	$(if $(filter yes,$(have_JANSSON)),report) $(if $(filter yes,$(have_HTTP)),request) top trace
fuzzes := $(if $(sanitizer),,$(if $(FUZZ_CC),$(FUZZES:%=tests/fuzz/%)))
FUZZ_SANITIZERS := -fsanitize=fuzzer,address,undefined -fno-sanitize-recover=undefined
FUZZ_COMPILE = $(FUZZ_CC) -MMD -MP -std=gnu11 -D_GNU_SOURCE -pthread $(INC) -I$(srcdir) -I$(srcdir)/src -I$(srcdir)/tests -I$(srcdir)/examples \
	$(HTTP_CFLAGS) $(CUDA_CFLAGS) $(foreach l,$(tool_uses),-DHAVE_$l=1 $($l_CFLAGS)) -DFUZZ_DOUBLE=$(if $(fakes),1,0) \
	-g -O1 $(FUZZ_SANITIZERS)
fuzz_calls := $(patsubst $(srcdir)/%.c,%,$(wildcard $(srcdir)/tests/fuzz/calls_*.c))
fuzz_form := examples/http_server/form
fuzz_image := examples/http_server/image examples/http_server/sift examples/pipeline/png_read
fuzz_request := examples/http_server/head examples/http_server/chunks examples/http_server/traceparent
fuzz_lint := src/tool/lint_calls src/tool/lint_elf
fuzz_options := src/tool/options
fuzz_report := $(patsubst $(srcdir)/%.c,%,$(wildcard $(srcdir)/src/tool/report*.c)) src/tool/json src/tool/overlap src/tool/text
fuzz_top := src/tool/top_read src/tool/text
fuzz_trace := src/tool/overlap
fuzz_objs = $(patsubst %,tests/fuzz/objects/%.o,tests/fuzz/$1 $(fuzz_$1))
fuzz_lib := tests/fuzz/objects/librunnel.a
fuzz_dirs := $(sort $(dir $(foreach f,$(FUZZES),$(call fuzz_objs,$f)) $(SRCS:%=tests/fuzz/objects/src/%)))
tests/fuzz/objects/%.o: %.c config.mk
	@mkdir -p $(@D)
	$(call Q,CC)$(FUZZ_COMPILE) -c -o $@ $<
$(fuzz_lib): $(SRCS:%.c=tests/fuzz/objects/src/%.o)
	$(call Q,AR)rm -f $@ && $(AR) rcs $@ $^
define link_fuzz
tests/fuzz/$1: $(call fuzz_objs,$1) $(fuzz_lib) $(if $(fakes),$(fake_cudart))
	$$(call Q,LD)$$(FUZZ_CC) $$(FUZZ_SANITIZERS) -pthread -o $$@ $$(filter %.o,$$^) $(fuzz_lib) \
	  $$(if $$(fakes),$$(with_fake)) $$(URCU_LIBS) $$(LIBPNG_LIBS) $$(ZLIB_LIBS) $$(tool_libs) -ldl -lm
endef
ifneq ($(simulation),)
tests/fuzz/%.o: TEST_CFLAGS = -D_GNU_SOURCE -DFUZZ_DOUBLE=$(if $(double),1,0) $(CUDA_CFLAGS)
tests/fuzz/calls: tests/fuzz/calls.o $(fuzz_calls:%=%.o)
else
$(foreach f,$(FUZZES),$(eval $(call link_fuzz,$f)))
endif
ifneq ($(fuzzes),)
fuzz: $(fuzzes)
	@sh $(srcdir)/tests/fuzz/run $(FUZZ_SECONDS) $(FUZZES)
else
fuzz: ; @echo 'make fuzz is skipped: it needs a build without sanitizers, and clang with libFuzzer (make deps fuzz installs it); then ./configure again'
endif

# ---- make check: T='unit/% api/queue' runs only these, NOT='fake:api/% package/symbols' all
# but these; TREE=no nothing of tests/tree ----
T ?= %
TIMEOUT ?=
RNL_TEST_SCALE ?= $(if $(sanitizer),10,1)
# FILE:DEVICE,DEVICE of those that say their devices.
declared := $(shell cd $(srcdir)/tests && awk '/^(.| .) devices: / { \
	sub(/^.*devices: /, ""); gsub(/ /, ","); print FILENAME ":" $$0 }' unit/*.c cli/*.sh modules/*.sh)
says = $(firstword $(subst :, ,$1))
devices = $(filter-out $(if $(fakes),,fake),$(subst $(comma), ,$(lastword $(subst :, ,$1))))
on_devices = $(foreach d,$(declared),$(if $(filter $1,$(suffix $(call says,$d))),\
	$(foreach v,$(call devices,$d),$v:$2tests/$(if $(filter .c,$1),$(basename $(call says,$d)),$(call says,$d)))))
scripts_in = $(filter-out $(foreach d,$(declared),$(srcdir)/tests/$(call says,$d)),$(sort $(wildcard $(srcdir)/tests/$1/*.sh)))
RUNS := $(filter-out $(foreach d,$(declared),tests/$(basename $(call says,$d))),$(TESTS_A)) \
	$(if $(weaks),$(weaks:%=tests/%),$(WEAKS:%=sanitized:%)) \
	$(call on_devices,.c) \
	$(if $(fakes),$(TESTS_FAKE:%=fake:%),no-cuda:fake_cudart) \
	$(foreach t,$(TESTS_SO),host:$t $(if $(fakes),fake:$t) cuda:$t) \
	$(call on_devices,.sh,$(srcdir)/) \
	$(TESTS_CU:%=$(if $(nvcc),cuda,unbuilt):%) \
	$(call scripts_in,cli) $(filter-out %/lib.sh,$(call scripts_in,modules)) $(call scripts_in,package) $(if $(filter no,$(TREE)),,$(call scripts_in,tree))
# unit/park of tests/unit/park, cli/tool of host:SRCDIR/tests/cli/tool.sh.
name_of = $(basename $(patsubst tests/%,%,$(patsubst $(srcdir)/tests/%,%,$(lastword $(subst :, ,$1)))))
wanted = $(foreach r,$1,$(if $(filter $T,$(call name_of,$r)),$r))
# With and without its device.
names = $(call name_of,$1) $(firstword $(subst :, ,$1)):$(call name_of,$1)
chosen = $(foreach r,$(call wanted,$(RUNS)),$(if $(filter $(NOT),$(call names,$r)),,$r))
# What takes long begins first, so that no lane is left alone with it at the end.
LONG := tree/model unit/countdown cli/% modules/% stress/% unit/%
each_once = $(if $1,$(firstword $1) $(call each_once,$(filter-out $(firstword $1),$1)))
runs = $(call each_once,$(foreach l,$(LONG),$(foreach r,$(chosen),$(if $(filter $l,$(call name_of,$r)),$r))) $(chosen))
check_env = srcdir='$(srcdir)' CC='$(CC)' CXX='$(CXX)' NM='$(NM)' MAKE='$(MAKE)' MAKEFLAGS= \
	PKG_CONFIG='$(PKG_CONFIG)' CPPFLAGS='$(CPPFLAGS)' CFLAGS='$(CFLAGS)' LDFLAGS='$(LDFLAGS)' \
	VERSION='$(VERSION)' CUDA_CFLAGS='$(CUDA_CFLAGS)' sanitizer='$(sanitizer)' \
	NVCC='$(nvcc)' have_CUDA='$(have_CUDA)' have_HTTP='$(have_HTTP)' have_LIBPNG='$(have_LIBPNG)' have_MPI='$(have_MPI)' MPIRUN='$(MPIRUN)' UNBUILT='configure found no working nvcc' \
	have_NCCL='$(have_NCCL)' have_PYTHON='$(have_PYTHON)' PYTHON='$(PYTHON)' FUZZ_CC='$(FUZZ_CC)' FUZZES='$(FUZZES)' TIMEOUT='$(TIMEOUT)' TESTWRAP='$(TESTWRAP)' RNL_TEST_SCALE='$(RNL_TEST_SCALE)'
# What a script runs; none of them runs on a simulated machine.
if_wanted = $(if $(simulation),,$(if $(call wanted,tests/$1),$2))
ifeq ($(have_CHECK),yes)
check: all tests runnel.pc
	@$(check_env) exec sh $(srcdir)/tests/lib/run $(runs)
tests: $(if $(fakes),$(fake_cudart)) $(call if_wanted,cli/tool,$(tool_double)) \
	$(call if_wanted,cli/buckets,$(buckets_double)) $(call if_wanted,cli/http,$(http_double)) $(call if_wanted,cli/stream_kinds,$(kinds_double)) \
	$(call if_wanted,cli/fuzz,$(fuzzes)) $(call if_wanted,cli/python,$(if $(filter yes,$(have_PYTHON)),python/_runnel.abi3.so)) \
	$(call if_wanted,cli/loader,$(loader_double)) $(call if_wanted,cli/pipeline,$(pipeline_double)) \
	$(call if_wanted,cli/small_jobs,$(small_double)) \
	$(call wanted,$(TESTS_FAKE) $(weaks:%=tests/%) $(TESTS_SO) $(TESTS_A) $(if $(nvcc),$(TESTS_CU))) $(call if_wanted,cli/torture,tests/torture/torture $(torture_double)) $(SIMULATED)
else
check tests:
	@echo 'The tests need Check >= 0.15: run `make deps check`.' >&2; exit 1
endif

# For a release: what later ones must not break.
abi: ; @$(check_env) sh $(srcdir)/tests/tree/abi.sh --keep

# By hand: an hour, or more.
check-mutants:
	PART='$(or $(PART),1/1)' KEEP='$(KEEP)' $(srcdir)/tests/tree/mutants $(MUTANTS)

# Everything, for some hours; it goes on where it was stopped.
check-all:
	@python3 -B $(srcdir)/tests/gate/check_all.py $(or $(MINUTES),600) $(BUILDS)

# ---- make coverage: docs/coverage.md -------------------------------------------
# Its directory is configured without these flags, which would count configure's own programs.
# A child of a test that ends by _exit() would take its counts with it.
coverage_flags := CFLAGS='-O0 -g --coverage -fprofile-update=atomic' CPPFLAGS=-D_exit=exit LDFLAGS=--coverage \
	file_maps=
# What runs the examples reaches no line of src/ that these do not, and takes a third of the time.
counted := unit/% api/% stress/% $(addprefix cli/,causes lint report tool top torture trace) package/cuda-units package/nvtx
coverage coverage-report: T = $(counted)
coverage_dir := build-coverage
REACHED = $(coverage_dir)/reached
coverage:
	@command -v gcovr >/dev/null || { echo 'make coverage needs gcovr: sh deps.sh gcovr' >&2; exit 1; }
	mkdir -p build-coverage && cd build-coverage && { test -f config.mk || '$(top)/configure' -q CC=gcc $(CONFIGURE); }
	rm -rf $(REACHED)
	GCOV_DIR='$(CURDIR)/$(REACHED)' $(MAKE) -C build-coverage $(coverage_flags) T='$T' NOT='$(NOT) unit/orders' check
	$(MAKE) coverage-report T='$T'
# Of what tests left in REACHED.
coverage-report:
	python3 -B $(srcdir)/tests/gate/reach.py $(REACHED) $(coverage_dir) $(REACH)
	gcovr -r '$(top)' --object-directory $(coverage_dir) --exclude-unreachable-branches \
	  -f '$(top)/src/' --json $(coverage_dir)/coverage.json $(coverage_dir)/src
	@srcdir='$(srcdir)' python3 -B $(srcdir)/tests/tree/coverage.py $(coverage_dir)/coverage.json $(srcdir)/docs/coverage.md \
	  $(if $(filter-out $(counted),$T),'$T')

HTTP_SECONDS ?= 20
ifeq ($(have_HTTP),yes)
check-http: examples
	@$(check_env) HTTP_SECONDS='$(HTTP_SECONDS)' HTTP_SERVER=$(http)/http_server \
	  python3 -B $(srcdir)/tests/http/check_http.py
http-page: examples
	HTTP_SERVER=$(http)/http_server python3 -B $(srcdir)/tests/http/http_picture.py \
	  $(srcdir)/docs/http_page.png
else
check-http http-page: serve
endif
.PHONY: abi check check-all check-http http-page check-mutants coverage coverage-report fuzz tests torture

tests_dirs := $(foreach d,api cli countdown cuda doubles fake_cudart fuzz lib modules package sim sim/src/pool sim/src/sys stress torture tree unit,tests/$d)
clean_tests = rm -rf tests/fuzz/found tests/fuzz/objects $(FUZZES:%=tests/fuzz/%) tests/fuzz/failed-* tests/fuzz/*.log; rm -f $(foreach d,$(tests_dirs),$d/*.log $d/*.tap) tests/fake_cudart/lib* \
	$(TESTS_SO) $(TESTS_A) $(WEAKS:%=tests/%) $(FAKES:%=tests/%) $(TESTS_CU) \
	tests/doubles/tool tests/doubles/http $(foreach e,buckets loader pipeline small_jobs stream_kinds torture,tests/doubles/$e) tests/torture/torture && rm -rf build-coverage build-sim
