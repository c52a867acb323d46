# SPDX-License-Identifier: BSD-3-Clause
# make check-ends [ENDS="t_kill.py ..."] [ROUNDS=10]: what happens when an end dies, lies, stays silent,
# or knows nothing of us; between real processes. One test: tests/ends/run t_kill.py NAME

.PHONY: check-ends
check-ends: all $(APPBINS) $(BUILD)/tests/ends/liar $(BUILD)/tests/ends/greedy
	$(Q)BUILD='$(BUILD)' tests/ends/run $(ENDS)

# The peer that lies, and the one that asks for much and reads nothing.
$(BUILD)/tests/ends/liar $(BUILD)/tests/ends/greedy: $(BUILD)/tests/ends/%: \
	    $(BUILD)/obj/tests/ends/%.o $(BUILD)/libtest.a $(BUILD)/libcore.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -pthread
