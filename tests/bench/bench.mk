# SPDX-License-Identifier: MIT
# tests/bench: make bench, and make bench-gpu. On the double of the CUDA runtime the latter's
# program runs wherever a toolkit is installed; its figures say nothing about a GPU.
bench_in    = $(patsubst $(srcdir)/%.c,%.o,$(sort $(wildcard $(srcdir)/tests/bench/$1*.c)))
bench_dirs := $(addprefix tests/bench/,rows/device rows/gpu rows/host rows gpu peers) tests/bench
# Peers that need a library; jansson, for --json.
PEER_GLIB := glib
PEER_LIBUV := uv
PEER_OPENMP := openmp
PEER_TBB := tbb
bench_uses := $(foreach p,GLIB LIBUV OPENMP TBB,$(if $(filter yes,$(have_$p)),$p))
bench_json := $(if $(filter yes,$(have_JANSSON)),JANSSON)
BENCH_BOTH   := $(call bench_in,rows/device/) \
	$(filter-out $(if $(bench_json),,tests/bench/json.o),$(call bench_in))
BENCH_HOST   := $(call bench_in,rows/host/) \
	$(patsubst %,tests/bench/peers/%.o,mutex runnel wfcq $(foreach p,$(bench_uses),$(PEER_$p)))
BENCH_DOUBLE := tests/bench/gpu/double.o
BENCH_GPU    := $(call bench_in,rows/gpu/) $(filter-out $(BENCH_DOUBLE),$(call bench_in,gpu/))
BENCHES      := $(addprefix tests/bench/,bench bench_gpu bench_gpu_double)
gpu_benches  := $(if $(nvcc),tests/bench/bench_gpu) $(if $(filter yes,$(have_CUDA)),tests/bench/bench_gpu_double)
bench_libs    = $(foreach u,$(bench_json),$($u_LIBS)) -lm

tests/bench/%.o: TEST_CFLAGS = -I$(srcdir)/tests/bench
tests/bench/json.o: TEST_CFLAGS += $(JANSSON_CFLAGS)
$(foreach p,$(bench_uses),$(eval tests/bench/peers/$(PEER_$p).o: TEST_CFLAGS += $($p_CFLAGS)))
$(BENCH_GPU) $(BENCH_DOUBLE): TEST_CFLAGS += $(CUDA_CFLAGS)
tests/bench/bench: $(BENCH_BOTH) $(BENCH_HOST) $(SO)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(WITH_SO)/.. $(foreach u,$(bench_uses),$($u_LIBS)) $(URCU_LIBS) $(bench_libs)
tests/bench/bench_gpu: $(BENCH_BOTH) $(BENCH_GPU) tests/bench/gpu/kernels.cu.o $(SO)
	$(call Q,LD)$(NVLINK) -o $@ $(filter %.o,$^) $(NVWITH_SO)/.. $(call to_host,$(bench_libs))
tests/bench/bench_gpu_double: $(BENCH_BOTH) $(BENCH_GPU) $(BENCH_DOUBLE) $(SO) $(fake_cudart)
	$(call Q,LD)$(LINK) -o $@ $(filter %.o,$^) $(with_fake) $(WITH_SO)/.. $(bench_libs)

benches: tests/bench/bench $(gpu_benches)
bench: tests/bench/bench
	@tests/bench/bench $(BENCH)
ifeq ($(nvcc),)
bench-gpu:
	@echo 'make bench-gpu is skipped: configured without CUDA, or configure found no working nvcc'
else
bench-gpu: tests/bench/bench_gpu
	@tests/bench/bench_gpu $(BENCH) || { rc=$$?; [ $$rc = 77 ] && echo 'make bench-gpu is skipped'; }
endif
.PHONY: bench bench-gpu benches
ifeq ($(have_CHECK),yes)
tests: $(call if_wanted,cli/bench_quick,tests/bench/bench) $(call if_wanted,cli/bench_gpu_quick,$(gpu_benches))
endif
