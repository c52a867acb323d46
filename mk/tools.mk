# SPDX-License-Identifier: BSD-3-Clause
# The diagnostics plugin, where libunwind is installed.

DIAG := $(BUILD)/librpcrdma_diag.so
HAVE_UNWIND := $(shell $(PKG_CONFIG) --exists libunwind 2>/dev/null && echo yes)

.PHONY: plugins
ifeq ($(HAVE_UNWIND),yes)
plugins: $(DIAG)
else
plugins:
	@echo "  SKIP    $(DIAG): libunwind is not installed (Debian: libunwind-dev; Fedora: libunwind-devel)"
endif
all: plugins

$(DIAG): $(BUILD)/obj/preload/diag/callers.o
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $< $(LDSAN) -Wl,-soname,librpcrdma_diag.so -Wl,-z,defs $(LDFLAGS) \
	    $(shell $(PKG_CONFIG) --libs libunwind)

# rdmarpc-run --register and --resolve, where libtirpc is; not for another machine than this.
HAVE_TIRPC := $(shell $(PKG_CONFIG) --exists libtirpc 2>/dev/null && echo yes)
ifeq ($(HAVE_TIRPC),yes)
RUN_SRC := $(wildcard tools/run/*.c)
RUN_FLAGS := -DRR_HAVE_TIRPC $(shell $(PKG_CONFIG) --cflags libtirpc)
rdmarpc-run_LIBS := $(shell $(PKG_CONFIG) --libs libtirpc)
$(call obj,tools/rdmarpc-run.c $(RUN_SRC)): BASE += $(RUN_FLAGS)
$(BUILD)/rdmarpc-run: $(call obj,$(RUN_SRC))
vm-programs: $(BUILD)/tests/tools/rpcreg
endif

# rdmarpc-stat.
$(BUILD)/rdmarpc-stat: $(call obj,$(wildcard tools/stat/*.c))

# rdmarpc-check.
CHECK_OBJ := $(call obj,$(wildcard tools/check/*.c) tools/run/procfs.c)
$(BUILD)/rdmarpc-check: $(CHECK_OBJ)

# A process with a segment, for the tests of rdmarpc-stat.
$(BUILD)/tests/tools/mkseg: $(BUILD)/obj/tests/tools/mkseg.o $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -pthread

# An ordinary program, for tests of what the library logs and shows.
$(BUILD)/tests/tools/rpcpair: tests/tools/rpcpair.c tests/lib/rpc.h
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE -I. -pthread -o $@ $<

# A sandbox, for tests of what is forbidden.
$(BUILD)/tests/tools/deny: tests/tools/deny.c
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE -o $@ $<

# A server that registers with rpcbind.
$(BUILD)/tests/tools/rpcreg: tests/tools/rpcreg.c
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE -o $@ $< $(RUN_FLAGS) $(rdmarpc-run_LIBS)

TOOLS_RUN := $(addprefix $(BUILD)/tests/tools/,mkseg rpcpair rpcreg deny)
programs: $(TOOLS_RUN)

.PHONY: check-tools
check-tools: all $(TOOLS_RUN) $(addprefix $(APPS)/,labsvc labcli) $(LOOP_SHIM)
	$(Q)scripts/run-tests $(wildcard tests/tools/*.sh)
