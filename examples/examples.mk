# SPDX-License-Identifier: MIT
# The part of the Makefile for examples/.  Each folder except common/ is a program of the same name.
# device.cu needs nvcc; without nvcc, device.c replaces it.
ex := examples
http := $(ex)/http_server
# gwc_mpi has these files in place of gwc.c, and needs MPI.
GWC_MPI := $(ex)/gwc/gwc_mpi.c $(ex)/gwc/shards.c
# buckets has files that need MPI or NCCL, and replacements for builds without them.
buckets := $(ex)/buckets
BUCKETS_WITHOUT := $(addprefix $(buckets)/,$(if $(filter yes,$(have_MPI)),alone.c,mpi.c) \
	$(if $(filter yes,$(have_NCCL)),no_nccl.c,nccl.c by_hand.c))
example_srcs = $(filter-out %/device.c $(GWC_MPI) $(BUCKETS_WITHOUT),$(patsubst $(srcdir)/%,%,$(wildcard $(srcdir)/$(ex)/$1/*.c)))
example_objs = $(patsubst %.c,%.o,$(foreach d,common $1,$(call example_srcs,$d)))
DEVICE_EXAMPLES := allocator batch_sha256 buckets gwc loader overlap $(if $(filter yes,$(have_LIBPNG)),pipeline) \
	small_jobs specialised stream_kinds
# http_server uses gwc's word count and pipeline's PNG reader.
HTTP_CPU  := $(call example_objs,http_server) $(ex)/gwc/count.o $(ex)/pipeline/png_read.o
HTTP_LIBS += -lm
HTTP_OBJS := $(HTTP_CPU) $(http)/device$(kernel_o) $(ex)/gwc/device$(kernel_o)
PROGRAMS := $(ex)/fan_out $(ex)/producer_consumer $(foreach e,$(DEVICE_EXAMPLES),$(ex)/$e/$e) \
	$(if $(filter yes,$(have_HTTP)),$(http)/http_server) $(if $(filter yes,$(have_MPI)),$(ex)/gwc/gwc_mpi)
EXAMPLE_DIRS := $(DEVICE_EXAMPLES:%=$(ex)/%) $(http) $(ex)/common $(ex)

examples: $(PROGRAMS)
$(ex)/%.o: INC += -I$(srcdir)/$(ex)
ifeq ($(simulation),)
$(ex)/fan_out $(ex)/producer_consumer: %: %.o $(SO)
	$(call Q,LD)$(LINK) -o $@ $< $(WITH_SO)
# Arguments: PROGRAM, OBJECTS, the name of the variable with the libraries.
define link_example
$1: $2 $(SO)
	$$(call Q,LD)$$(if $$(nvcc),$$(NVLINK) -o $$@ $$(filter %.o,$$^) $$(NVWITH_SO)/.. $$(call to_host,$$($3)),\
	  $$(LINK) -o $$@ $$(filter %.o,$$^) $$(WITH_SO)/.. $$($3))
endef
$(foreach e,$(DEVICE_EXAMPLES),$(eval $(call link_example,$(ex)/$e/$e,$(call example_objs,$e) $(ex)/$e/device$(kernel_o),libs_$e)))
$(eval $(call link_example,$(ex)/gwc/gwc_mpi,$(filter-out %/gwc.o,$(call example_objs,gwc)) $(GWC_MPI:.c=.o) \
  $(ex)/gwc/device$(kernel_o),MPI_LIBS))
$(eval $(call link_example,$(http)/http_server,$(HTTP_OBJS),HTTP_LIBS))
endif
$(ex)/pipeline/%.o: INC += $(LIBPNG_CFLAGS)
$(buckets)/mpi.o: INC += $(MPI_CFLAGS)
$(buckets)/nccl.o $(buckets)/by_hand.o: INC += $(NCCL_CFLAGS) $(CUDA_CFLAGS)
libs_buckets := $(MPI_LIBS) $(NCCL_LIBS)
libs_pipeline := $(LIBPNG_LIBS) -lm
$(ex)/gwc/gwc_mpi.o: INC += $(MPI_CFLAGS)
$(http)/%.o: INC += $(HTTP_CFLAGS)
# Converts the pages to the initialisers of C arrays.
to_initialisers = od -An -v -tu1 | sed 's/  */,/g; s/^,//; s/$$/,/'
$(http)/page.o: INC += -I$(http)
$(http)/page.o: $(http)/page.inc $(http)/docs.inc
$(http)/page.inc: $(srcdir)/$(http)/page.html ; @mkdir -p $(@D)
	$(call Q,OD)<$< $(to_initialisers) >$@
$(http)/docs.inc: $(srcdir)/$(http)/docs.awk $(srcdir)/$(http)/README.md ; @mkdir -p $(@D)
	$(call Q,AWK)awk -f $^ | $(to_initialisers) >$@

DEMO_FILES ?= $(srcdir) /usr/share/common-licenses
demo: $(ex)/gwc/gwc
	@GWC=$(ex)/gwc/gwc DEMO_FILES='$(DEMO_FILES)' sh $(srcdir)/$(ex)/demo.sh

ifeq ($(have_HTTP),yes)
serve: examples
	$(http)/http_server $(SERVE)
else
serve:
	@echo 'examples/http_server is not built: run `make deps serve`.' >&2; exit 1
endif
.PHONY: demo examples serve
