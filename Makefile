# Hand-written.  Works in the source tree, and in a build directory in which
# configure was run: it leaves a link to this file there.
.DELETE_ON_ERROR:
.SUFFIXES:
all:
goals := $(or $(MAKECMDGOALS),all)
top   := $(dir $(realpath $(firstword $(MAKEFILE_LIST))))

ifneq ($(filter deps,$(goals))$(if $(wildcard config.mk),,fresh),)
# ---- not configured yet, or deps wanted: these first, then make again --------
.NOTPARALLEL:
rest := $(filter-out clean deps distclean help,$(goals))
$(rest): first
	+@$(MAKE) --no-print-directory $@
first: $(filter deps,$(goals))
	@test -f config.mk || $(top)configure $(CONFIGURE)
deps:
	@sh $(top)deps.sh
	@! grep -Eqs '^have_(CHECK|HTTP) *:= no' config.mk || ./config.status --recheck
clean distclean: ; @:
.PHONY: $(goals) first

else
include config.mk
# ---- what is built: alphabetical, one per line -------------------------------
SRCS := \
	abi.c \
	barrier.c \
	batch_job.c \
	batch_request.c \
	batch_slab.c \
	batch_take.c \
	batch_turns.c \
	batcher.c \
	cancel.c \
	cq.c \
	device.c \
	device_host.c \
	extents.c \
	guard.c \
	guard_report.c \
	hist.c \
	host_memory.c \
	host_stream.c \
	inflight.c \
	job.c \
	latch.c \
	loop.c \
	map.c \
	map_end.c \
	map_job.c \
	memory.c \
	metrics.c \
	nontemporal.c \
	overlap.c \
	park.c \
	pinned.c \
	place.c \
	pool.c \
	pool_life.c \
	queue.c \
	ranges.c \
	resize.c \
	run.c \
	scratch.c \
	self.c \
	setup.c \
	spans.c \
	staging.c \
	stats.c \
	stream.c \
	submit.c \
	symbol.c \
	timers.c \
	trace.c \
	trace_arrows.c \
	trace_file.c \
	trace_json.c \
	trace_overlap.c \
	trace_wait.c \
	track.c \
	water.c \
	# EOL
SRCS_CUDA := \
	device_cuda.c \
	device_cuda_guard.c \
	# EOL
# In src/tool: the program runnel, which links the archive; with its kernels.
TOOL_SRCS := \
	bench.c \
	bench_runs.c \
	check.c \
	check_beside.c \
	check_both.c \
	check_meet.c \
	check_tools.c \
	check_urgent.c \
	facts.c \
	info.c \
	json.c \
	kernels_host.c \
	lint.c \
	lint_calls.c \
	lint_elf.c \
	options.c \
	report.c \
	report_causes.c \
	report_json.c \
	report_picture.c \
	report_read.c \
	report_shapes.c \
	tool.c \
	# EOL
HEADERS := \
	runnel.h \
	runnel/cuda.h \
	# EOL
# In docs/man: pages of the manual, made of what the headers say.
MANUALS := \
	rnl_barrier_init.3 \
	rnl_batcher_create.3 \
	rnl_copy.3 \
	rnl_cq_create.3 \
	rnl_device_info.3 \
	rnl_guard.3 \
	rnl_job_init.3 \
	rnl_job_wait.3 \
	rnl_launch.3 \
	rnl_map.3 \
	rnl_pinned_get.3 \
	rnl_pool_create.3 \
	rnl_pool_stats.3 \
	rnl_stream.3 \
	rnl_submit.3 \
	rnl_trace_start.3 \
	rnl_version.3 \
	runnel.7 \
	# EOL

# Link the archive: internals are visible.
UNITS := \
	unit_bell \
	unit_gwc \
	unit_hist \
	unit_latch \
	unit_nontemporal \
	unit_overlap \
	unit_park \
	unit_pinned \
	unit_pinned_faults \
	unit_pinned_wait \
	unit_queue \
	unit_sha256 \
	unit_spans \
	unit_symbol \
	unit_trace_faults \
	# EOL
# The same, on the host device and on the double of CUDA's runtime alone; and what, in tests, they are made of.
COUNTDOWNS := \
	unit_countdown \
	# EOL
COUNTDOWN_SRCS := \
	countdown/batches.c \
	countdown/calls.c \
	countdown/driver.c \
	countdown/jobs.c \
	countdown/joins.c \
	countdown/maps.c \
	countdown/memories.c \
	countdown/pools.c \
	countdown/traces.c \
	countdown/watched.c \
	countdown/work.c \
	# EOL
# Not under a sanitizer: tests/weak takes ThreadSanitizer's place, for these of src/.
WEAKS := \
	unit_orders \
	unit_weak \
	# EOL
WEAK_SRCS := \
	inflight.c \
	latch.c \
	park.c \
	queue.c \
	# EOL
# The same, once per device.
DEVICES := \
	unit_device \
	unit_inflight \
	unit_track \
	# EOL
# In tests: the double of the CUDA runtime, with which those of DEVICES, APIS and STRESS
# run on a third "device", the CUDA one without a GPU; and tests of it.
FAKE_SRCS := \
	fake_cudart/call.c \
	fake_cudart/capture.c \
	fake_cudart/device.c \
	fake_cudart/event.c \
	fake_cudart/memory.c \
	fake_cudart/op.c \
	fake_cudart/plan.c \
	fake_cudart/pool.c \
	fake_cudart/queue.c \
	fake_cudart/registry.c \
	fake_cudart/stream.c \
	# EOL
FAKES := \
	unit_fake \
	unit_fake_capture \
	unit_fake_faults \
	unit_fake_memory \
	# EOL
# Link the shared library: the public ABI only.  Run once per device.
APIS := \
	api_after \
	api_barrier \
	api_batch \
	api_batch_close \
	api_batch_ends \
	api_batch_errors \
	api_callback \
	api_cancel \
	api_close \
	api_copy \
	api_copy_2d \
	api_copy_order \
	api_cq \
	api_cq_fd \
	api_cq_wait \
	api_deadline \
	api_exit \
	api_failed \
	api_fork \
	api_guard \
	api_guard_held \
	api_guard_quiet \
	api_health \
	api_hooks \
	api_job \
	api_join \
	api_keyed \
	api_latency \
	api_log \
	api_loops \
	api_many \
	api_map \
	api_map_order \
	api_metrics \
	api_misuse \
	api_noalloc \
	api_pinned \
	api_placing \
	api_pool \
	api_pressure \
	api_races \
	api_resize \
	api_resize_keys \
	api_room \
	api_scratch \
	api_stats \
	api_stream \
	api_submit \
	api_trace \
	api_trace_says \
	api_urgent \
	api_water \
	api_work \
	# EOL
STRESS := \
	stress_batch \
	stress_cancel \
	stress_cq \
	stress_dag \
	stress_jobs \
	stress_map \
	stress_meet \
	stress_memory \
	stress_notice \
	stress_pinned \
	stress_resize \
	stress_storm \
	stress_submit \
	stress_trace \
	stress_wake \
	# EOL
# tests/torture, of make torture: links the shared library; and its kernels for a GPU.
TORTURE_SRCS := \
	torture.c \
	torture_batch.c \
	torture_faults.c \
	torture_groups.c \
	torture_jobs.c \
	torture_kernel.c \
	torture_map.c \
	torture_meddle.c \
	torture_memory.c \
	torture_options.c \
	torture_round.c \
	torture_seats.c \
	torture_slots.c \
	torture_tally.c \
	torture_watch.c \
	torture_work.c \
	# EOL
TORTURE_KERNELS := \
	torture_kernel.cu \
	# EOL
# CUDA code of an application; linked with the static runtime and librunnel.so,
# as nvcc does it when not told otherwise.
CUDAS := \
	cuda_dag \
	cuda_failure \
	cuda_guard \
	cuda_overlap \
	cuda_urgent \
	# EOL
# Linked in every way: {static, shared} runtime x {librunnel.so, librunnel.a}.
CUDAS_4WAYS := \
	cuda_copies \
	# EOL
# tests/bench: link the shared library; run by hand, see docs/measurements.md.
BENCHES := \
	feed \
	memory \
	# EOL
# tests/bench/batch, which has a kernel, too.
BATCH_SRCS := \
	batch.c \
	# EOL
# What tests/bench/rates and tests/bench/gpu have in common.
BENCH_SRCS := \
	bench_child.c \
	bench_json.c \
	bench_options.c \
	bench_values.c \
	# EOL
# tests/bench/rates, of make bench; and those of its peers that need a library.
RATES_SRCS := \
	peer_mutex.c \
	peer_runnel.c \
	peer_wfcq.c \
	rates.c \
	rates_child.c \
	rates_json.c \
	rates_measure.c \
	rates_options.c \
	rates_plan.c \
	rates_samples.c \
	rates_table.c \
	rates_throughput.c \
	# EOL
PEER_SRCS_GLIB := peer_glib.c
PEER_SRCS_LIBUV := peer_uv.c
PEER_SRCS_OPENMP := peer_openmp.c
PEER_SRCS_TBB := peer_tbb.cpp
# tests/bench/gpu, of make bench-gpu; the kernels, and what stands in for them on the double.
GPU_SRCS := \
	gpu.c \
	gpu_batch.c \
	gpu_chunks.c \
	gpu_cpu.c \
	gpu_cuda.c \
	gpu_feed.c \
	gpu_hand.c \
	gpu_inflight.c \
	gpu_jobs.c \
	gpu_join.c \
	gpu_json.c \
	gpu_latency.c \
	gpu_mutex.c \
	gpu_options.c \
	gpu_pool.c \
	gpu_rows.c \
	gpu_submit.c \
	gpu_trace.c \
	gpu_urgent.c \
	# EOL
GPU_KERNELS := gpu_kernels.cu
GPU_DOUBLE  := gpu_double.c
SCRIPTS := \
	bench_gpu_quick.sh \
	bench_quick.sh \
	cli_causes.sh \
	cli_lint.sh \
	cli_report.sh \
	install.sh \
	legacy-stream.sh \
	manual.sh \
	nvtx.sh \
	symbols.sh \
	unload.sh \
	# EOL
# What they say does not depend on how the library is built.
TREE_SCRIPTS := \
	abi.sh \
	configure-current.sh \
	layering.sh \
	lint-calls.sh \
	lists.sh \
	mo-pairs-src.sh \
	model.sh \
	systemd-unit.sh \
	# EOL

# Once per device.
DEVICE_SCRIPTS := \
	cli_allocator.sh \
	cli_batch_sha256.sh \
	cli_gwc.sh \
	cli_http.sh \
	cli_overlap.sh \
	cli_stream_kinds.sh \
	cli_tool.sh \
	cli_torture.sh \
	cli_trace.sh \
	# EOL

# Of these, on the double of the CUDA runtime, too.
FAKE_SCRIPTS := \
	cli_http.sh \
	cli_stream_kinds.sh \
	cli_tool.sh \
	cli_torture.sh \
	# EOL

# Each is one file of its name; those below have more.
EXAMPLES := \
	producer_consumer \
	# EOL
ALLOCATOR_SRCS := \
	allocator.c \
	allocator_options.c \
	# EOL
BATCH_SHA256_SRCS := \
	batch_sha256.c \
	batch_sha256_hash.c \
	batch_sha256_input.c \
	batch_sha256_lines.c \
	batch_sha256_options.c \
	batch_sha256_report.c \
	batch_sha256_slots.c \
	quote.c \
	std_fd.c \
	# EOL
GWC_SRCS := \
	gwc.c \
	gwc_count.c \
	gwc_options.c \
	gwc_pipe.c \
	gwc_produce.c \
	gwc_report.c \
	gwc_source.c \
	quote.c \
	std_fd.c \
	# EOL
OVERLAP_SRCS := \
	overlap.c \
	overlap_array.c \
	overlap_options.c \
	overlap_ways.c \
	# EOL
STREAM_KINDS_SRCS := \
	stream_kinds.c \
	stream_kinds_options.c \
	stream_kinds_picture.c \
	stream_kinds_ways.c \
	# EOL
# In examples/http_server; the counting kernel is gwc's.
HTTP_SRCS := \
	async.c \
	crash.c \
	edges.c \
	image.c \
	listener.c \
	loop.c \
	main.c \
	metrics.c \
	options.c \
	routes.c \
	slot.c \
	sobel.c \
	supervise.c \
	sync.c \
	wc.c \
	# EOL

# ---- derived from the lists --------------------------------------------------
ifeq ($(have_CUDA),yes)
SRCS += $(SRCS_CUDA)
endif
nvcc   := $(if $(filter yes,$(have_NVCC)),$(NVCC))
MAJOR  := $(firstword $(subst ., ,$(VERSION)))
SONAME := librunnel.so.$(MAJOR)
SO     := librunnel.so.$(VERSION)
OBJS   := $(SRCS:%.c=src/%.o)

ways := static_so static_a shared_so shared_a
TESTS_SO := $(APIS:%=tests/%) $(STRESS:%=tests/%)
TESTS_A  := $(UNITS:%=tests/%) $(DEVICES:%=tests/%) $(COUNTDOWNS:%=tests/%)
weaks := $(if $(sanitizer),,$(WEAKS))
fakes := $(if $(filter yes,$(have_CUDA)),$(FAKES))
gpu_benches := $(if $(nvcc),tests/bench/gpu) $(if $(fakes),tests/bench/gpu_double)
TESTS_FAKE := $(fakes:%=tests/%)
TESTS_CU := $(CUDAS:%=tests/%_static_so) $(foreach t,$(CUDAS_4WAYS),$(ways:%=tests/$t_%))
kernel_o := $(if $(nvcc),.cu).o
ALLOCATOR_OBJS := $(ALLOCATOR_SRCS:%.c=examples/%.o) examples/allocator_cuda$(kernel_o)
BATCH_SHA256_OBJS := $(BATCH_SHA256_SRCS:%.c=examples/%.o) examples/batch_sha256_kernel$(kernel_o)
GWC_OBJS := $(GWC_SRCS:%.c=examples/%.o) examples/gwc_kernel$(kernel_o)
OVERLAP_OBJS := $(OVERLAP_SRCS:%.c=examples/%.o) examples/overlap_kernel$(kernel_o)
STREAM_KINDS_OBJS := $(STREAM_KINDS_SRCS:%.c=examples/%.o) examples/stream_kinds_kernel$(kernel_o)
http      := examples/http_server
HTTP_CPU  := $(HTTP_SRCS:%.c=$(http)/%.o) examples/gwc_count.o
HTTP_OBJS := $(HTTP_CPU) $(http)/crash_kernel$(kernel_o) $(http)/sobel_kernel$(kernel_o) examples/gwc_kernel$(kernel_o)
KERNEL_EXAMPLES := examples/allocator examples/batch_sha256 examples/gwc examples/overlap examples/stream_kinds
TOOL_OBJS := $(TOOL_SRCS:%.c=src/tool/%.o)
tool_double := $(if $(fakes),tests/tool_double)
kinds_double := $(if $(fakes),tests/stream_kinds_double)
http_double := $(if $(fakes),$(if $(filter yes,$(have_HTTP)),tests/http_double))
PROGRAMS := $(EXAMPLES:%=examples/%) $(KERNEL_EXAMPLES) $(if $(filter yes,$(have_HTTP)),$(http)/http_server)

# ---- how ---------------------------------------------------------------------
V ?= 0
Q = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' '$(1)' '$@';)
INC     = -I. -I$(srcdir)/include
COMPILE = $(CC) -MMD -MP $(INC) $(CPPFLAGS) $(RNL_CFLAGS) $(TEST_CFLAGS) $(CFLAGS)
LINK    = $(CC) $(CFLAGS) $(RNL_LDFLAGS) $(LDFLAGS)
WITH_SO = -L. -lrunnel -Wl,-rpath,'$$ORIGIN/..'
WITH_A  = librunnel.a $(URCU_LIBS) $(CUDA_LIBS)
# nvcc: the host compiler's flags are handed on one by one, and a comma ends one;
# the runtime is the program's own, which the archive then shares.
comma    := ,
to_host   = $(foreach f,$1,$(if $(filter -I% -l% -L%,$f),$f,-Xcompiler '$(subst $(comma),\$(comma),$f)'))
NVCOMPILE = $(NVCC) -MMD -MP -MF $(@:.o=.d) $(INC) $(call to_host,$(CPPFLAGS) $(TEST_CFLAGS)) \
	    $(RNL_NVCCFLAGS) $(NVCCFLAGS)
NVLINK    = $(NVCC) $(NVCCFLAGS) $(call to_host,$(RNL_LDFLAGS) $(LDFLAGS))
NVWITH_SO = -L. -lrunnel -Xlinker -rpath,'$$ORIGIN/..'
NVWITH_A  = librunnel.a $(call to_host,$(URCU_LIBS))

vpath %.c $(srcdir)
vpath %.cpp $(srcdir)
vpath %.cu $(srcdir)
vpath %.in $(srcdir)
vpath %.map $(srcdir)

all: lib tool man examples
%.o: %.c Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CC)$(COMPILE) -c -o $@ $<
%.o: %.cpp Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CXX)$(CXX) -MMD -MP $(INC) $(CPPFLAGS) $(RNL_CXXFLAGS) $(TEST_CFLAGS) $(CXXFLAGS) -c -o $@ $<
%.cu.o: %.cu Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,NVCC)$(NVCOMPILE) -c -o $@ $<

lib: librunnel.a $(SO)
src/%.o: INC += -I$(srcdir)/src
$(SRCS_CUDA:%.c=src/%.o) src/ranges.o: INC += $(CUDA_CFLAGS)
librunnel.a: $(OBJS)
	$(call Q,AR)rm -f $@ && $(AR) rcs $@ $^
# Not unloaded: threads that ever were attached come back to it when they end, and those of
# workers whose device has failed stay in it.
$(SO): $(OBJS) src/runnel.map
	$(call Q,LD)$(LINK) -shared -Wl,-soname,$(SONAME) -Wl,-z,nodelete \
	  -Wl,--version-script=$(filter %.map,$^) $(if $(sanitizer),,-Wl,-z,defs) \
	  -o $@ $(OBJS) $(URCU_LIBS) $(CUDA_LIBS)
	@ln -sf $(SO) $(SONAME) && ln -sf $(SO) librunnel.so

tool: runnel
tool_uses := $(foreach l,JANSSON LIBELF,$(if $(filter yes,$(have_$l)),$l))
src/tool/%.o: INC += $(foreach l,$(tool_uses),-DHAVE_$l=1 $($l_CFLAGS))
src/tool/facts.o: INC += $(CUDA_CFLAGS)
tool_libs := $(foreach l,$(tool_uses),$($l_LIBS))
runnel: $(TOOL_OBJS) src/tool/kernels$(kernel_o) librunnel.a
	$(call Q,LD)$(if $(nvcc),$(NVLINK) -o $@ $(filter %.o,$^) $(NVWITH_A) $(call to_host,$(tool_libs)),\
	  $(LINK) -o $@ $(filter %.o,$^) $(WITH_A) $(tool_libs))

man: $(MANUALS:%=docs/man/%)
man_awk   := $(foreach f,header mdoc page,$(srcdir)/docs/man/$f.awk)
man_facts := $(srcdir)/src/abi.c $(HEADERS:%=$(srcdir)/include/%)
$(MANUALS:%=docs/man/%): docs/man/%: $(srcdir)/docs/man/%.in $(man_awk) $(man_facts)
	@mkdir -p $(@D)
	$(call Q,MAN)awk $(man_awk:%=-f %) $(man_facts) $< >$@

examples: $(PROGRAMS)
$(EXAMPLES:%=examples/%): %: %.o $(SO)
	$(call Q,LD)$(LINK) -o $@ $< $(WITH_SO)
examples/allocator: $(ALLOCATOR_OBJS)
examples/batch_sha256: $(BATCH_SHA256_OBJS)
examples/gwc: $(GWC_OBJS)
examples/overlap: $(OVERLAP_OBJS)
examples/stream_kinds: $(STREAM_KINDS_OBJS)
$(KERNEL_EXAMPLES): $(SO)
	$(call Q,LD)$(if $(nvcc),$(NVLINK) -o $@ $(filter %.o,$^) $(NVWITH_SO),$(LINK) -o $@ $(filter %.o,$^) $(WITH_SO))
$(http)/%.o: INC += -I$(srcdir)/examples $(HTTP_CFLAGS)
$(http)/http_server: $(HTTP_OBJS) $(SO)
	$(call Q,LD)$(if $(nvcc),$(NVLINK) -o $@ $(HTTP_OBJS) $(NVWITH_SO)/.. $(call to_host,$(HTTP_LIBS)),\
	  $(LINK) -o $@ $(HTTP_OBJS) $(WITH_SO)/.. $(HTTP_LIBS))

tests/%.o: TEST_CFLAGS = $(CHECK_CFLAGS)
tests/api_loops.o: TEST_CFLAGS += $(foreach l,LIBEVENT LIBUV,\
	$(if $(filter yes,$(have_$l)),-DHAVE_$l=1 $($l_CFLAGS)))
tests/api_loops: WRAP = $(LIBEVENT_LIBS) $(LIBUV_LIBS)
tests/api_guard: WRAP = -rdynamic
$(ways:%=tests/cuda_guard_%): NVWRAP = -Xlinker --export-dynamic
tests/api_noalloc: WRAP = -ldl
tests/unit_trace_faults: WRAP = -Wl,--wrap=pwrite
tests/unit_countdown: $(COUNTDOWN_SRCS:%.c=tests/%.o)
tests/unit_countdown: WRAP = $(foreach f,aligned_alloc calloc eventfd fopen free fstat ftruncate malloc mmap munmap \
	open open_memstream opendir pthread_create pthread_detach pthread_join pwrite realloc setenv tsearch,-Wl,--wrap=$f)
$(TESTS_A:%=%.o): INC += -I$(srcdir)/src
$(TESTS_SO): %: %.o $(SO)
	$(call Q,LD)$(LINK) -o $@ $< $(WITH_SO) $(CHECK_LIBS) $(WRAP)
$(TESTS_A): %: %.o librunnel.a
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_A) $(CHECK_LIBS) $(WRAP)
WEAK_OBJS := $(WEAK_SRCS:%.c=tests/weak/src/%.o)
$(WEAK_OBJS) $(WEAKS:%=tests/%.o): INC += -I$(srcdir)/tests/weak -I$(srcdir)/src
$(WEAK_OBJS) $(WEAKS:%=tests/%.o): TEST_CFLAGS = $(CHECK_CFLAGS) -fsanitize=thread -U__SANITIZE_THREAD__ -D_LGPL_SOURCE \
	$(if $(findstring clang,$(CC)),-Wno-builtin-macro-redefined,-Wno-tsan)
$(WEAK_OBJS): tests/weak/%.o: %.c Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CC)$(COMPILE) -c -o $@ $<
$(WEAKS:%=tests/%): %: %.o tests/weak/weak.o $(WEAK_OBJS) librunnel.a
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_A) $(CHECK_LIBS)
# Of the soname and the version that CUDA's own has, to be found in its place.
fake_cudart := tests/fake_cudart/libcudart.so
FAKE_OBJS   := $(FAKE_SRCS:%.c=tests/%.o)
tests/fake_cudart/%.o: TEST_CFLAGS = -fvisibility=default $(CUDA_CFLAGS)
$(TESTS_FAKE:%=%.o): INC += $(CUDA_CFLAGS)
$(fake_cudart): $(FAKE_OBJS)
	$(call Q,LD)v=$$(echo CUDART_VERSION | $(CC) $(CUDA_CFLAGS) -E -P -include cuda_runtime_api.h -x c - | \
	  tail -n 1) && so=libcudart.so.$$((v / 1000)) && \
	  echo "$$so { global: cuda*; fake_*; local: *; };" >$@.map && \
	  $(LINK) -shared -Wl,-soname,$$so -Wl,--version-script=$@.map -o $@ $^ && ln -sf $(@F) $(@D)/$$so
# The tool, and two examples, on the double.
tests/http_double.o tests/stream_kinds_double.o tests/tool_double.o: TEST_CFLAGS = $(CUDA_CFLAGS)
tests/http_double: $(HTTP_CPU) tests/http_double.o $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(fake_cudart) -Wl,-rpath,'$$ORIGIN/fake_cudart' $(WITH_SO) $(HTTP_LIBS)
tests/stream_kinds_double: $(STREAM_KINDS_SRCS:%.c=examples/%.o) tests/stream_kinds_double.o $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(fake_cudart) -Wl,-rpath,'$$ORIGIN/fake_cudart' $(WITH_SO)
tests/tool_double: $(TOOL_OBJS) tests/tool_double.o librunnel.a $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) librunnel.a $(fake_cudart) -Wl,-rpath,'$$ORIGIN/fake_cudart' \
	  $(URCU_LIBS) $(tool_libs)
$(TESTS_FAKE): %: %.o $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $< $(fake_cudart) -Wl,-rpath,'$$ORIGIN/fake_cudart' $(WITH_SO) $(CHECK_LIBS)
static_so = --cudart static $(NVWITH_SO)
static_a  = --cudart static $(NVWITH_A)
shared_so = --cudart shared $(NVWITH_SO) -Xlinker -rpath,$(cuda_libdir)
shared_a  = --cudart shared $(NVWITH_A) -Xlinker -rpath,$(cuda_libdir)
$(TESTS_CU): librunnel.a $(SO)
define link_cuda_tests
$(filter %_$1,$(TESTS_CU)): %_$1: %.cu.o
	$$(call Q,LD)$$(NVLINK) -o $$@ $$< $$($1) $$(call to_host,$$(CHECK_LIBS)) $$(NVWRAP)
endef
$(foreach w,$(ways),$(eval $(call link_cuda_tests,$w)))

# Kernels of its own where nvcc is; the double calls host functions, the runtime being
# the program's or not.
TORTURE_OBJS := $(TORTURE_SRCS:%.c=tests/%.o) $(if $(nvcc),$(TORTURE_KERNELS:%=tests/%.o))
$(TORTURE_SRCS:%.c=tests/%.o): TEST_CFLAGS =
tests/torture: $(TORTURE_OBJS) $(SO)
	$(call Q,LD)$(if $(nvcc),$(NVLINK) -o $@ $(TORTURE_OBJS) $(NVWITH_SO),$(LINK) -o $@ $(TORTURE_OBJS) $(WITH_SO))
SECONDS ?= 60
DEVICE ?= host $(if $(fakes),fake) cuda
torture: tests/torture $(if $(fakes),$(fake_cudart))
	@rc=0; for d in $(DEVICE); do \
	  name=$$d path=$$LD_LIBRARY_PATH; \
	  [ $$d != fake ] || { name=cuda path=$$PWD/tests/fake_cudart; }; \
	  LD_LIBRARY_PATH=$$path RNL_TEST_SCALE='$(RNL_TEST_SCALE)' $(TESTWRAP) tests/torture \
	    --device=$$name --seconds=$(SECONDS) $(if $(SEED),--seed=$(SEED)); \
	  case $$? in 0) ;; 77) echo "make torture is skipped on $$d" ;; *) rc=1 ;; esac; \
	done; exit $$rc

benches: $(BENCHES:%=tests/bench/%) tests/bench/batch tests/bench/rates $(gpu_benches)
$(BENCHES:%=tests/bench/%): %: %.o $(SO)
	$(call Q,LD)$(LINK) -o $@ $< $(WITH_SO)/..
tests/bench/%.o: TEST_CFLAGS =
BATCH_OBJS := $(BATCH_SRCS:%.c=tests/bench/%.o) tests/bench/batch_kernel$(kernel_o)
tests/bench/batch: $(BATCH_OBJS) $(SO)
	$(call Q,LD)$(if $(nvcc),$(NVLINK) -o $@ $(BATCH_OBJS) $(NVWITH_SO)/..,$(LINK) -o $@ $(BATCH_OBJS) $(WITH_SO)/..)
peers := $(foreach p,GLIB LIBUV OPENMP TBB,$(if $(filter yes,$(have_$p)),$p))
rates_uses := $(peers) $(if $(filter yes,$(have_JANSSON)),JANSSON)
RATES_OBJS := $(patsubst %,tests/bench/%.o,$(basename $(BENCH_SRCS) $(RATES_SRCS) $(foreach p,$(peers),$(PEER_SRCS_$p))))
tests/bench/peer_glib.o: TEST_CFLAGS = $(GLIB_CFLAGS)
tests/bench/peer_openmp.o: TEST_CFLAGS = $(OPENMP_CFLAGS)
tests/bench/peer_tbb.o: TEST_CFLAGS = $(TBB_CFLAGS)
tests/bench/peer_uv.o: TEST_CFLAGS = $(LIBUV_CFLAGS)
tests/bench/bench_json.o tests/bench/rates_json.o tests/bench/rates_plan.o: TEST_CFLAGS = $(rates_uses:%=-DHAVE_%=1) $(JANSSON_CFLAGS)
tests/bench/rates: $(RATES_OBJS) $(SO)
	$(call Q,LD)$(LINK) -o $@ $(RATES_OBJS) $(WITH_SO)/.. $(foreach u,$(rates_uses),$($u_LIBS)) $(URCU_LIBS) -lm
bench: tests/bench/rates
	tests/bench/rates $(BENCH)

# The double's runs on any machine with a toolkit, and tells nothing of a GPU.
GPU_OBJS := $(patsubst %.c,tests/bench/%.o,$(BENCH_SRCS) $(GPU_SRCS))
gpu_libs := $(if $(filter yes,$(have_JANSSON)),$(JANSSON_LIBS)) -lm
$(GPU_SRCS:%.c=tests/bench/%.o) $(GPU_DOUBLE:%.c=tests/bench/%.o): TEST_CFLAGS = $(CUDA_CFLAGS)
tests/bench/gpu_json.o: TEST_CFLAGS = $(rates_uses:%=-DHAVE_%=1) $(JANSSON_CFLAGS)
tests/bench/gpu: $(GPU_OBJS) $(GPU_KERNELS:%=tests/bench/%.o) $(SO)
	$(call Q,LD)$(NVLINK) -o $@ $(filter %.o,$^) $(NVWITH_SO)/.. $(call to_host,$(gpu_libs))
tests/bench/gpu_double: $(GPU_OBJS) $(GPU_DOUBLE:%.c=tests/bench/%.o) $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(fake_cudart) -Wl,-rpath,'$$ORIGIN/../fake_cudart' \
	  $(WITH_SO)/.. $(gpu_libs)
ifeq ($(nvcc),)
bench-gpu:
	@echo 'make bench-gpu is skipped: configured without CUDA, or configure found no working nvcc'
else
bench-gpu: tests/bench/gpu
	@tests/bench/gpu $(BENCH) || { rc=$$?; [ $$rc = 77 ] && echo 'make bench-gpu is skipped'; }
endif

# ---- make check: T='unit_% api_queue' runs only these, NOT='fake:api_% symbols' not these;
# TREE=no not TREE_SCRIPTS ----
T ?= %
TIMEOUT ?= $(if $(sanitizer),900,300)
RNL_TEST_SCALE ?= $(if $(sanitizer),10,1)
RUNS := $(UNITS:%=tests/%) $(if $(weaks),$(weaks:%=tests/%),$(WEAKS:%=sanitized:%)) \
	$(foreach t,$(COUNTDOWNS:%=tests/%),host:$t $(if $(fakes),fake:$t)) \
	$(if $(fakes),$(TESTS_FAKE:%=fake:%),no-cuda:fake_cudart) \
	$(foreach t,$(DEVICES:%=tests/%) $(TESTS_SO),host:$t $(if $(fakes),fake:$t) cuda:$t) \
	$(foreach t,$(DEVICE_SCRIPTS:%=$(srcdir)/tests/%),host:$t cuda:$t) \
	$(if $(fakes),$(FAKE_SCRIPTS:%=fake:$(srcdir)/tests/%)) \
	$(TESTS_CU:%=$(if $(nvcc),cuda,unbuilt):%) $(SCRIPTS:%=$(srcdir)/tests/%) \
	$(if $(filter no,$(TREE)),,$(TREE_SCRIPTS:%=$(srcdir)/tests/%))
wanted = $(foreach r,$1,$(if $(filter $T,$(basename $(notdir $r))),$r))
# With and without its device.
names = $(basename $(notdir $1)) $(firstword $(subst :, ,$1)):$(basename $(notdir $1))
runs = $(foreach r,$(call wanted,$(RUNS)),$(if $(filter $(NOT),$(call names,$r)),,$r))
check_env = srcdir='$(srcdir)' CC='$(CC)' CXX='$(CXX)' NM='$(NM)' MAKE='$(MAKE)' MAKEFLAGS= \
	PKG_CONFIG='$(PKG_CONFIG)' CPPFLAGS='$(CPPFLAGS)' CFLAGS='$(CFLAGS)' LDFLAGS='$(LDFLAGS)' \
	VERSION='$(VERSION)' CUDA_CFLAGS='$(CUDA_CFLAGS)' sanitizer='$(sanitizer)' \
	NVCC='$(nvcc)' have_CUDA='$(have_CUDA)' have_HTTP='$(have_HTTP)' UNBUILT='configure found no working nvcc' \
	TIMEOUT='$(TIMEOUT)' TESTWRAP='$(TESTWRAP)' RNL_TEST_SCALE='$(RNL_TEST_SCALE)'
ifeq ($(have_CHECK),yes)
check: all tests runnel.pc
	@$(check_env) sh $(srcdir)/tests/run $(runs)
tests: $(if $(fakes),$(fake_cudart)) $(if $(call wanted,tests/cli_tool),$(tool_double)) \
	$(if $(call wanted,tests/cli_http),$(http_double)) \
	$(if $(call wanted,tests/cli_stream_kinds),$(kinds_double)) $(call wanted,$(TESTS_FAKE)) $(call wanted,$(weaks:%=tests/%) $(TESTS_SO) $(TESTS_A) $(if $(nvcc),$(TESTS_CU))) \
	$(if $(call wanted,tests/bench_quick),tests/bench/rates) \
	$(if $(call wanted,tests/cli_torture),tests/torture) \
	$(if $(call wanted,tests/bench_gpu_quick),$(gpu_benches))
else
check tests:
	@echo 'The tests need Check >= 0.15: run `make deps`, then `./configure` again.' >&2; exit 1
endif

# By hand: a quarter of an hour, or more.
check-orders:
	$(srcdir)/tests/remove-orders $(ORDERS)

# ---- make coverage: docs/coverage.md -------------------------------------------
# Its directory is configured without these flags, which would count configure's own programs.
# A child of a test that ends by _exit() would take its counts with it.
coverage_flags := CFLAGS='-O0 -g --coverage -fprofile-update=atomic' CPPFLAGS=-D_exit=exit LDFLAGS=--coverage
coverage: T = unit_% api_% stress_% cli_% nvtx
coverage:
	@command -v gcovr >/dev/null || { echo 'make coverage needs gcovr: sh deps.sh gcovr' >&2; exit 1; }
	mkdir -p build-coverage && cd build-coverage && { test -f config.mk || $(top)configure -q CC=gcc $(CONFIGURE); }
	find build-coverage -name '*.gcda' -delete
	$(MAKE) -C build-coverage $(coverage_flags) T='$T' check
	gcovr -r $(top) --object-directory build-coverage --exclude-unreachable-branches \
	  -f '$(top)src/' --json build-coverage/coverage.json build-coverage/src
	@srcdir='$(srcdir)' python3 -B $(srcdir)/tests/coverage.py build-coverage/coverage.json $(srcdir)/docs/coverage.md

DEMO_FILES ?= $(srcdir) /usr/share/common-licenses
demo: examples
	@srcdir='$(srcdir)' GWC=examples/gwc DEMO_FILES='$(DEMO_FILES)' sh $(srcdir)/examples/demo.sh

HTTP_SECONDS ?= 20
ifeq ($(have_HTTP),yes)
serve: examples
	$(http)/http_server $(SERVE)
check-http: examples
	@$(check_env) HTTP_SECONDS='$(HTTP_SECONDS)' HTTP_SERVER=$(http)/http_server \
	  python3 -B $(srcdir)/tests/check_http.py
else
serve check-http:
	@echo 'examples/http_server is not built: run `make deps`, then `./configure` again.' >&2; exit 1
endif

# ---- install, configure, clean -----------------------------------------------
completions := $(datadir)/bash-completion/completions
# For each function, "its-page.3 function.3": what `man function` is to find.
man3_links = awk '/^@(function|macro|type) / { p = FILENAME; gsub(/.*\/|\.in$$/, "", p); \
	for (i = 2; i <= NF; i++) if ($$i ".3" != p) print p, $$i ".3" }' $(srcdir)/docs/man/*.3.in
install: lib tool man runnel.pc
	install -d $(DESTDIR)$(bindir) $(foreach n,1 3 7,$(DESTDIR)$(mandir)/man$n) $(DESTDIR)$(completions) $(DESTDIR)$(libdir)/pkgconfig $(DESTDIR)$(includedir)/runnel
	for h in $(HEADERS); do install -m 644 $(srcdir)/include/$$h $(DESTDIR)$(includedir)/$$h || exit; done
	install -m 755 runnel $(DESTDIR)$(bindir)
	install -m 644 $(srcdir)/docs/man/runnel.1 $(DESTDIR)$(mandir)/man1
	$(foreach n,3 7,install -m 644 $(patsubst %,docs/man/%,$(filter %.$n,$(MANUALS))) $(DESTDIR)$(mandir)/man$n &&) :
	$(man3_links) | while read -r page name; do ln -sf $$page $(DESTDIR)$(mandir)/man3/$$name || exit; done
	install -m 644 $(srcdir)/src/tool/completion.bash $(DESTDIR)$(completions)/runnel
	install -m 644 librunnel.a $(DESTDIR)$(libdir)
	install -m 755 $(SO) $(DESTDIR)$(libdir)
	ln -sf $(SO) $(DESTDIR)$(libdir)/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(libdir)/librunnel.so
	install -m 644 runnel.pc $(DESTDIR)$(libdir)/pkgconfig
uninstall:
	rm -f $(foreach f,$(bindir)/runnel $(mandir)/man1/runnel.1 $(completions)/runnel,$(DESTDIR)$f)
	rm -f $(foreach p,$(MANUALS),$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $p))/$p)
	$(man3_links) | while read -r page name; do rm -f $(DESTDIR)$(mandir)/man3/$$name || exit; done
	rm -f $(foreach f,librunnel.a $(SO) $(SONAME) librunnel.so pkgconfig/runnel.pc,$(DESTDIR)$(libdir)/$f)
	rm -f $(HEADERS:%=$(DESTDIR)$(includedir)/%)
	! test -d $(DESTDIR)$(includedir)/runnel || rmdir $(DESTDIR)$(includedir)/runnel

config.mk config.h runnel.pc: %: %.in config.status ; ./config.status $@ && touch $@
config.status: $(srcdir)/configure ; ./config.status --recheck
autoconf: ; cd $(srcdir) && autoconf && rm -rf autom4te.cache configure~

objdirs := src/tool src tests/bench tests/countdown tests/fake_cudart tests/weak/src tests/weak tests $(http) examples
clean:
	rm -f runnel librunnel.a librunnel.so* $(foreach d,$(objdirs),$d/*.o $d/*.d) \
	  tests/*.log tests/*.tap tests/fake_cudart/lib* $(TESTS_SO) $(TESTS_A) $(WEAKS:%=tests/%) $(TESTS_FAKE) $(TESTS_CU) $(PROGRAMS) $(BENCHES:%=tests/bench/%) \
	  $(MANUALS:%=docs/man/%) tests/http_double tests/stream_kinds_double tests/tool_double tests/torture tests/bench/batch tests/bench/gpu tests/bench/gpu_double tests/bench/rates
	rm -rf build-coverage
distclean: clean
	rm -f config.mk config.h config.log config.status runnel.pc
	! test -L Makefile || { rm -f Makefile && rmdir $(objdirs) docs/man docs 2>/dev/null || :; }
.PHONY: all lib tool man bench bench-gpu benches examples tests check check-http check-orders coverage demo serve torture install uninstall autoconf clean distclean
-include $(wildcard $(foreach d,$(objdirs),$d/*.d))
endif

define help
make deps         installs what is missing to build and test (apt; elsewhere names it)
make              the library, the tool, the manual and the examples; V=1 shows the commands
make demo         counts words with examples/gwc, compares with wc; DEMO_FILES='DIR ...'
make check        all tests; T='unit_% layering' only these, NOT='fake:api_%' not these;
                  TIMEOUT=seconds each; TESTWRAP='command' goes before each program
make torture      everything at once for SECONDS=60, by a SEED= that it prints, on
                  DEVICE='host fake cuda'; counts what was wrong
make coverage     which lines and branches of src/ the tests reach (docs/coverage.md); T=, as above
make benches      programs of tests/bench that measure; docs/measurements.md runs them
make bench        what an empty job costs, beside other systems' pools; BENCH='--help'
make bench-gpu    runnel beside hand-written code on a GPU; BENCH='--help'
make serve        starts examples/http_server; SERVE='--device=host ...'
make check-http   examples/http_server, and under wrk's load for HTTP_SECONDS=20
make check-orders orderings, wakes and looks are taken out one by one; ORDERS='park queue.T'
make install      DESTDIR=, and ./configure --prefix=, as usual; make uninstall
make clean        removes what was built; distclean also what configure made
make autoconf     makes configure of configure.ac

Without a config.mk, make first runs ./configure $$(CONFIGURE); see ./configure --help.
endef
help: ; @: $(info $(help))
.PHONY: help
