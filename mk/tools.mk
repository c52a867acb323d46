# SPDX-License-Identifier: BSD-3-Clause
# The diagnostics plugin, where libunwind is installed.

DIAG := $(BUILD)/librpcrdma_diag.so
HAVE_UNWIND := $(shell pkg-config --exists libunwind 2>/dev/null && echo yes)

.PHONY: plugins
ifeq ($(HAVE_UNWIND),yes)
plugins: $(DIAG)
else
plugins:
	@echo "  SKIP    $(DIAG): libunwind is not installed (pkg-config libunwind)"
endif
all: plugins

$(DIAG): $(BUILD)/obj/plugin/diag.o
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $< $(LDSAN) -Wl,-soname,librpcrdma_diag.so -Wl,-z,defs $(LDFLAGS) \
	    $$(pkg-config --libs libunwind)
