# SPDX-License-Identifier: BSD-3-Clause
# Programs that know nothing of us: the laboratory client and server (libtirpc, rpcgen), an
# asynchronous NFS client (libnfs), and what the benchmark measures with.

APPS     := $(BUILD)/apps
APPFLAGS := -std=gnu11 -O2 -g $(WARN) -Wno-cast-function-type -D_GNU_SOURCE -I. -I$(BUILD)/gen \
            -I/usr/include/tirpc -pthread
APPBINS  := $(addprefix $(APPS)/,labsvc labcli nfsaio gssnfs)
BENCHBINS := $(addprefix $(APPS)/,$(patsubst bench/programs/%.c,%,$(wildcard bench/programs/*.c)))

.PHONY: apps
apps: $(APPBINS) $(BENCHBINS)
programs sanitized: apps

# XDR and dispatcher by rpcgen; its code is not held to our warnings.
vpath %.x tests/apps bench/programs
$(BUILD)/gen/%.h: %.x
	$(mkdir)
	$(call say,GEN,$@)
	$(Q)rm -f $@; rpcgen -C -h -o $@ $<
$(BUILD)/gen/%_xdr.c: %.x $(BUILD)/gen/%.h
	$(Q)cd $(dir $<) && rm -f $(abspath $@) && rpcgen -C -c -o $(abspath $@) $(notdir $<)
$(BUILD)/gen/%_svc.c: %.x $(BUILD)/gen/%.h
	$(Q)cd $(dir $<) && rm -f $(abspath $@) && rpcgen -C -m -o $(abspath $@) $(notdir $<)
$(APPS)/gen_%.o: $(BUILD)/gen/%.c
	$(mkdir)
	$(Q)$(CC) -O2 -g -w -D_GNU_SOURCE -I/usr/include/tirpc -c -o $@ $<
.SECONDARY:

$(APPS)/labsvc: $(APPS)/gen_lab_svc.o $(APPS)/gen_lab_xdr.o
$(APPS)/labcli: $(APPS)/gen_lab_xdr.o
$(APPS)/labsvc $(APPS)/labcli $(APPS)/gssnfs: $(APPS)/%: tests/apps/%.c
	$(call say,CC,$@)
	$(Q)$(CC) $(APPFLAGS) -o $@ $^ -ltirpc

$(APPS)/nfsaio: tests/apps/nfsaio.c
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) $(APPFLAGS) -o $@ $< -lnfs

# --- the benchmark's ---

$(APPS)/benchsvc: $(APPS)/gen_bench_svc.o $(APPS)/gen_bench_xdr.o
$(APPS)/benchcli: $(APPS)/gen_bench_xdr.o
$(BENCHBINS): $(APPS)/%: bench/programs/%.c bench/programs/common.h tests/lib/rpc.h
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) $(APPFLAGS) -o $@ $(filter-out %.h,$^) $(if $(filter bench% getport,$(*F)),-ltirpc) $(if $(filter nfsload,$(*F)),-lnfs)
