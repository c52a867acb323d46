# SPDX-License-Identifier: BSD-3-Clause
# make check-native [NATIVE=NAME]: native mode without RDMA, by a library for tests whose one provider is shm
# with a rendezvous like RDMA CM's.

LOOP_SHIM := $(BUILD)/tests/native/librpcrdma_shim.so

$(LOOP_SHIM): $(BUILD)/obj/tests/native/loop.o $(SHIM_OBJ) \
		$(BUILD)/gen/symbols.map
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(filter %.o,$^) $(LDSAN) -Wl,--version-script=$(BUILD)/gen/symbols.map \
	    -Wl,-soname,librpcrdma_shim.so -Wl,-z,defs -Wl,-z,now -Wl,--as-needed

check-ends check-conform apps: $(LOOP_SHIM)

.PHONY: check-native
check-native: all $(LOOP_SHIM)
	$(Q)BUILD='$(BUILD)' tests/ends/run t_native.py $(NATIVE)
