# SPDX-License-Identifier: BSD-3-Clause
# make check-vm [VM="CASE[:ARGUMENT,...]..."]: what needs a verbs device, in a guest that has a software one.
# VM=all: all cases; by default those that "make check" runs.

programs: vm-programs

.PHONY: check-vm
check-vm:
	@scripts/deps vm || true	# what cannot run is skipped, and says why
	@$(MAKE) -s -j2 all apps vm-programs $(BUILD)/tests/conform/rawcall
	$(Q)BUILD='$(BUILD)' tests/vm/run $(VM)

# make bench-vm [BENCH="--quick --rows null"]: the shim over that device, beside TCP and rsockets.
.PHONY: bench-vm
bench-vm:
	@scripts/deps vm
	@$(MAKE) -s -j2 all apps
	$(Q)BUILD='$(BUILD)' bench/guest/run $(BENCH)
	$(Q)BUILD='$(BUILD)' bench/guest/run nfs

# --- the verbs provider: a plugin, where rdma-core's headers are ---

VERBS     := $(BUILD)/librpcrdma_verbs.so
VERBS_OBJ := $(call obj,$(wildcard core/prov/verbs/*.c) core/wire/cmdata.c core/base/os.c)
HAVE_RDMA := $(shell $(PKG_CONFIG) --exists libibverbs librdmacm 2>/dev/null && echo yes)

.PHONY: verbs vm-programs
ifeq ($(HAVE_RDMA),yes)
verbs: $(VERBS)
vm-programs: $(addprefix $(BUILD)/tests/vm/verbs_,pair native) $(addprefix $(BUILD)/tests/vm/,greedy mask.so)
else
vm-programs:
verbs:
	@echo "  SKIP    $(VERBS): left out, rdma-core has no headers here (Debian: libibverbs-dev librdmacm-dev; Fedora: rdma-core-devel)"
endif
all: verbs

$(VERBS): $(VERBS_OBJ)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $^ $(LDSAN) -Wl,-soname,librpcrdma_verbs.so -Wl,-z,defs -Wl,-z,relro -Wl,-z,now \
	    $(LDFLAGS) -lrdmacm -libverbs -pthread

$(BUILD)/tests/vm/verbs_%: $(BUILD)/obj/tests/vm/verbs_%.o $(BUILD)/obj/tests/vm/verbs_lib.o $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -lrdmacm -libverbs -pthread -ldl

# A peer of ill will, of librdmacm alone.
$(BUILD)/tests/vm/greedy: $(BUILD)/obj/tests/vm/greedy.o
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -lrdmacm -libverbs

# Preloaded, it makes the device behave like another.
$(BUILD)/tests/vm/mask.so: tests/vm/mask.c
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE -fPIC -shared -o $@ $< -ldl
