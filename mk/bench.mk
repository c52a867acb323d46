# SPDX-License-Identifier: BSD-3-Clause
# make bench-shm: what a short message costs in the provider shm alone. Numbers, with nothing to judge them by.

.PHONY: bench-shm
bench-shm: $(BUILD)/bench/shm_cost
	$(Q)$<

$(BUILD)/bench/shm_%: $(BUILD)/obj/bench/shm/%.o $(BUILD)/libtest.a $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -pthread
