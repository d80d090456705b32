# SPDX-License-Identifier: MIT
# Hand-written.  Works in the source tree, and in a build directory in which
# configure was run: it leaves a link to this file there.
.DELETE_ON_ERROR:
.SUFFIXES:
all:
goals := $(or $(MAKECMDGOALS),all)
# May have blanks, as no other name here may.
top   := $(shell dirname "$$(readlink -f '$(firstword $(MAKEFILE_LIST))')")

ifneq ($(filter deps,$(goals))$(if $(wildcard config.mk),,fresh),)
# ---- not configured yet, or deps wanted: these first, then make again --------
.NOTPARALLEL:
rest := $(filter-out clean deps distclean help,$(goals))
$(rest): first
	+@test -f config.mk || { echo 'make: ./configure comes before make -n' >&2; exit 1; }; \
	  $(MAKE) --no-print-directory $@
first: $(filter deps,$(goals))
	@test -f config.mk || '$(top)/configure' $(CONFIGURE)
# What the other goals need; without any, core and tool.
needs = $(strip $(if $(filter-out deps,$(goals)),core tool) \
	$(if $(filter check check-all coverage sim torture check-mutants,$(goals)),check probes http bench many python) \
	$(if $(filter serve check-http http-page,$(goals)),http) \
	$(if $(filter bench bench-gpu benches,$(goals)),bench) $(if $(filter fuzz,$(goals)),http fuzz) \
	$(if $(filter python wheel bench-python,$(goals)),python))
deps:
	@sh '$(top)/deps.sh' $(needs)
	@! grep -Eqs '^have_(CHECK|HTTP|JANSSON|LIBELF|MPI|PYTHON) *:= no' config.mk || ./config.status --recheck
clean distclean: ; @:
.PHONY: $(goals) first

else
include config.mk
# ---- what is built: alphabetical, one per line -------------------------------
# Rooms of src/; what stands in a room is built.  The CUDA device needs CUDA's headers.
SRCS := $(patsubst $(srcdir)/src/%,%,$(filter-out $(srcdir)/src/tool/%,$(sort $(wildcard $(srcdir)/src/*/*.c))))
SRCS_CUDA := $(filter device/cuda%,$(SRCS))
SRCS_NO_CUDA := device/no_cuda.c
# The program runnel, which links the archive; kernels.c stands in for kernels.cu without nvcc.
TOOL_SRCS := $(filter-out kernels.c,$(patsubst $(srcdir)/src/tool/%,%,$(sort $(wildcard $(srcdir)/src/tool/*.c))))
HEADERS := $(patsubst $(srcdir)/include/%,%,$(wildcard $(srcdir)/include/*.h $(srcdir)/include/*.hpp $(srcdir)/include/*/*.h $(srcdir)/include/*/*.cuh))
# Pages of the manual that are made from the headers.
MANUALS := $(patsubst $(srcdir)/docs/man/%.in,%,$(wildcard $(srcdir)/docs/man/*.in))
# ---- derived from the lists --------------------------------------------------
SRCS := $(filter-out $(if $(filter yes,$(have_CUDA)),$(SRCS_NO_CUDA),$(SRCS_CUDA)),$(SRCS))
# Not on a simulated machine, which has no runtime of CUDA's but the double.
nvcc   := $(if $(simulation),,$(if $(filter yes,$(have_NVCC)),$(NVCC)))
MAJOR  := $(firstword $(subst ., ,$(VERSION)))
SONAME := librunnel.so.$(MAJOR)
SO     := librunnel.so.$(VERSION)
OBJS   := $(SRCS:%.c=src/%.o)
kernel_o := $(if $(nvcc),.cu).o
TOOL_OBJS := $(TOOL_SRCS:%.c=src/tool/%.o)

# ---- how ---------------------------------------------------------------------
V ?= 0
Q = $(if $(filter 1,$(V)),,@printf '  %-6s %s\n' '$(1)' '$@';)
INC     = -I. -I$(srcdir)/include
# The same bytes from any directory; `make file_maps=` leaves the paths in, for a debugger.
file_maps = $(if $(filter yes,$(file_prefix_map)),'-ffile-prefix-map=$(CURDIR)=.' -ffile-prefix-map=$(srcdir)/=)
COMPILE = $(CC) -MMD -MP $(INC) $(CPPFLAGS) $(RNL_CFLAGS) $(file_maps) $(TEST_CFLAGS) $(CFLAGS)
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

# A simulated machine is linked into programs: it has no shared library, nor what needs that.
all: $(if $(simulation),librunnel.a,lib tool man examples)
%.o: %.c Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CC)$(COMPILE) -c -o $@ $<
%.o: %.cpp Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CXX)$(CXX) -MMD -MP $(INC) $(CPPFLAGS) $(RNL_CXXFLAGS) $(TEST_CFLAGS) $(CXXFLAGS) -c -o $@ $<
%.cu.o: %.cu Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,NVCC)$(NVCOMPILE) -c -o $@ $<

lib: librunnel.a $(SO)
src/%.o: INC += -I$(srcdir)/src
$(SRCS_CUDA:%.c=src/%.o) src/watch/nvtx.o: INC += $(CUDA_CFLAGS)
librunnel.a: $(OBJS)
	$(call Q,AR)rm -f $@ && $(AR) rcsD $@ $^
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
man_facts := $(srcdir)/src/sys/abi.c $(patsubst %,$(srcdir)/include/%,$(filter %.h,$(HEADERS)))
$(MANUALS:%=docs/man/%): docs/man/%: $(srcdir)/docs/man/%.in $(man_awk) $(man_facts)
	@mkdir -p $(@D)
	$(call Q,MAN)awk $(man_awk:%=-f %) $(man_facts) $< >$@

include $(srcdir)/examples/examples.mk
include $(srcdir)/python/python.mk
include $(srcdir)/tests/tests.mk
include $(srcdir)/tests/bench/bench.mk

# ---- install, configure, clean -----------------------------------------------
completions := $(datadir)/bash-completion/completions
# For each function, "its-page.3 function.3": what `man function` is to find.
man3_links = awk '/^@(function|macro|type) / { p = FILENAME; gsub(/.*\/|\.in$$/, "", p); \
	for (i = 2; i <= NF; i++) if ($$i ".3" != p) print p, $$i ".3" }' $(srcdir)/docs/man/*.3.in
PAGES := README.md docs/embedding.md docs/guide.md docs/patterns.md docs/probes.md docs/sharing.md docs/tutorial.md
SCRIPTS := $(patsubst $(srcdir)/%,%,$(wildcard $(srcdir)/docs/probes/*.bt))
cmake_files := runnel-config.cmake runnel-config-version.cmake
# All of them into one folder; links to what is not installed become text, but code stays as it is.
installed_links = sed -E -e '/^```/,/^```/b' -e 's,\]\((docs|\.\.)/,](,g; s/\]\((https?:|\#|(README|embedding|guide|patterns|probes|sharing|tutorial)\.md|probes\/)/]\n\1/g; \
	s/\[([^]]*)\]\([^)]*\)/\1/g; s/\]\n/](/g'
install: lib tool man runnel.pc $(cmake_files)
	install -d $(foreach d,$(bindir) $(foreach n,1 3 7,$(mandir)/man$n) $(completions) $(docdir) $(libdir)/pkgconfig $(docdir)/probes $(libdir)/cmake/runnel $(includedir)/runnel,"$(DESTDIR)$d")
	for h in $(HEADERS); do install -m 644 $(srcdir)/include/$$h "$(DESTDIR)$(includedir)/$$h" || exit; done
	install -m 755 runnel "$(DESTDIR)$(bindir)"
	install -m 644 $(srcdir)/docs/man/runnel.1 "$(DESTDIR)$(mandir)/man1"
	$(foreach n,3 7,install -m 644 $(patsubst %,docs/man/%,$(filter %.$n,$(MANUALS))) "$(DESTDIR)$(mandir)/man$n" &&) :
	$(man3_links) | while read -r page name; do ln -sf $$page "$(DESTDIR)$(mandir)/man3/$$name" || exit; done
	install -m 644 $(srcdir)/src/tool/completion.bash "$(DESTDIR)$(completions)/runnel"
	install -m 644 $(srcdir)/CHANGELOG $(srcdir)/LICENSE "$(DESTDIR)$(docdir)"
	for p in $(PAGES); do $(installed_links) $(srcdir)/$$p >"$(DESTDIR)$(docdir)/$${p##*/}" && \
	  chmod 644 "$(DESTDIR)$(docdir)/$${p##*/}" || exit; done
	install -m 644 $(addprefix $(srcdir)/,$(SCRIPTS)) "$(DESTDIR)$(docdir)/probes"
	install -m 644 librunnel.a "$(DESTDIR)$(libdir)"
	install -m 755 $(SO) "$(DESTDIR)$(libdir)"
	ln -sf $(SO) "$(DESTDIR)$(libdir)/$(SONAME)"
	ln -sf $(SONAME) "$(DESTDIR)$(libdir)/librunnel.so"
	install -m 644 runnel.pc "$(DESTDIR)$(libdir)/pkgconfig"
	install -m 644 $(cmake_files) "$(DESTDIR)$(libdir)/cmake/runnel"
uninstall:
	rm -f $(foreach f,$(bindir)/runnel $(mandir)/man1/runnel.1 $(completions)/runnel $(addprefix $(docdir)/,CHANGELOG LICENSE $(notdir $(PAGES)) $(SCRIPTS:docs/%=%)),"$(DESTDIR)$f")
	rm -f $(foreach p,$(MANUALS),"$(DESTDIR)$(mandir)/man$(subst .,,$(suffix $p))/$p")
	$(man3_links) | while read -r page name; do rm -f "$(DESTDIR)$(mandir)/man3/$$name" || exit; done
	rm -f $(foreach f,librunnel.a $(SO) $(SONAME) librunnel.so pkgconfig/runnel.pc $(addprefix cmake/runnel/,$(cmake_files)),"$(DESTDIR)$(libdir)/$f")
	rm -f $(foreach h,$(HEADERS),"$(DESTDIR)$(includedir)/$h")
	for d in "$(DESTDIR)$(includedir)/runnel" "$(DESTDIR)$(docdir)/probes" "$(DESTDIR)$(docdir)" "$(DESTDIR)$(libdir)/cmake/runnel"; do ! test -d "$$d" || rmdir "$$d" || exit; done

config.mk config.h runnel.pc: %: %.in config.status ; ./config.status $@ && touch $@
$(cmake_files): %: m4/%.in config.status ; ./config.status $@ && touch $@
config.status: $(srcdir)/configure ; ./config.status --recheck
autoconf: ; cd $(srcdir) && autoconf --force && rm -rf autom4te.cache configure~

figures: ; python3 -B $(srcdir)/docs/figures.py $(GPU) $(HOST)
dist: ; sh $(srcdir)/dist.sh runnel-$(VERSION)

rooms := $(patsubst $(srcdir)/%/,%,$(wildcard $(srcdir)/src/*/))
objdirs := $(rooms) $(bench_dirs) $(tests_dirs) $(EXAMPLE_DIRS) python
clean:
	rm -f runnel librunnel.a librunnel.so* $(http)/page.inc $(http)/docs.inc $(foreach d,$(objdirs),$d/*.o $d/*.d) $(PROGRAMS) $(MANUALS:%=docs/man/%) \
	  $(BENCHES)
	$(clean_tests)
	$(clean_python)
distclean: clean
	rm -f config.mk config.h config.log config.status runnel.pc $(cmake_files) runnel-*.tar.gz
	! test -L sources || rm sources
	! test -L Makefile || { rm -f Makefile && rmdir -p $(objdirs) docs/man 2>/dev/null || :; }
.PHONY: all lib tool man dist figures install uninstall autoconf clean distclean
-include $(wildcard $(foreach d,$(objdirs) $(fuzz_dirs) $(wheel_dirs),$d/*.d))
endif

define help
make deps         installs what building needs, and lists the groups of packages (apt; elsewhere
                  names them); `make deps check`, `make deps serve`: what these goals need, too
make              the library, the tool, the manual and the examples; V=1 shows the commands
make demo         counts words with examples/gwc and compares with wc; DEMO_FILES='DIR ...'
make check        all tests; T='unit/% tree/rooms' only these, NOT='fake:api/%' not these;
                  TIMEOUT=seconds each; TESTWRAP='command' goes before each program
make check-all    all that a release needs, for some hours; what has passed (tests/passed.tab) is not
                  run again, so it may be stopped; MINUTES=9 of it, BUILDS='asan tsan' alone
make sim          tests of T= on a simulated machine: schedule and time are a function of SEED=1 (docs/simulation.md)
make torture      everything at once for SECONDS=60, by a SEED= that it prints, on
                  DEVICE='host fake cuda'; counts what was wrong
make coverage     which lines and branches of src/ the tests reach (docs/coverage.md); T=, as above
make bench        what an empty job costs, beside other systems' pools; BENCH='--list'
make bench-gpu    runnel beside hand-written code on a GPU; BENCH='--rows=jobs,chunks --runs=3'
make benches      builds both programs
make figures      the tables of README.md and docs/measurements.md; GPU=FILE HOST=FILE: of what
                  BENCH=--json=FILE of the two wrote
make bench-python what jobs of Python cost, and its examples beside others' ways; BENCH='--device=cuda --runs=5'
make serve        starts examples/http_server; SERVE='--device=host ...'
make check-http   examples/http_server, and under wrk's load for HTTP_SECONDS=20
make http-page    the picture of its page in docs, by Chromium
make fuzz         what reads input of strangers, and sequences of calls, by libFuzzer for
                  FUZZ_SECONDS=60 (needs clang)
make check-mutants the library is broken in one place at a time, and tests must fail; MUTANTS='park queue.T'
make dist         runnel-VERSION.tar.gz, of the sources: the same bytes anywhere
make abi          keeps this version's ABI in tests/tree/abi, for a release
make wheel        the Python package, in python/dist (python/README.md)
make install      DESTDIR=, and ./configure --prefix=, as usual; make uninstall
make clean        removes what was built; distclean also what configure made
make autoconf     makes configure of configure.ac

Without a config.mk, make first runs ./configure $$(CONFIGURE); see ./configure --help.
endef
help: ; @: $(info $(help))
.PHONY: help
