# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-conform and its cases. make check-conform [CONFORM="ARGUMENT..."]: our library judged by them.

CONFORM_OBJ := $(call obj,$(wildcard tools/conform/*.c))
$(BUILD)/obj/tools/conform/link_native.o: BASE += -DRR_LIBDIR='"$(LIBDIR)"'
$(BUILD)/rdmarpc-conform: $(CONFORM_OBJ)
rdmarpc-conform_LIBS := -ldl

# The same with tests/native/loop.c for RDMA.
CONFORM_LOOP := $(BUILD)/tests/conform/rdmarpc-conform
$(CONFORM_LOOP): $(BUILD)/obj/tools/rdmarpc-conform.o $(CONFORM_OBJ) $(BUILD)/obj/tests/native/loop.o $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -ldl -pthread

# The parser under a fuzzer.
$(BUILD)/fuzz/fuzz_conform $(BUILD)/tests/fuzz/fuzz_conform: \
		$(call obj,$(addprefix tools/conform/,case.c items.c text.c arena.c expr.c case_env.c make.c match.c seen.c))

# What the requester's calls are made by.
$(BUILD)/tests/conform/rawcall: tests/conform/rawcall.c tests/lib/rpc.h
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) $(APPFLAGS) -o $@ $<

programs: $(CONFORM_LOOP) $(BUILD)/tests/conform/rawcall

.PHONY: check-conform
check-conform: all $(CONFORM_LOOP) $(BUILD)/tests/conform/rawcall $(addprefix $(APPS)/,labsvc labcli)
	$(Q)BUILD='$(BUILD)' tests/conform/run $(CONFORM)
