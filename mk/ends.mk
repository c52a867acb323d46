# SPDX-License-Identifier: BSD-3-Clause
# make check-ends [ENDS="t_kill.py ..."] [ROUNDS=10]: what happens when an end dies, lies, stays silent,
# or knows nothing of us; between real processes. One test: tests/ends/run t_kill.py NAME

.PHONY: check-ends
check-ends: all $(APPBINS) $(BUILD)/tests/ends/liar
	$(Q)BUILD='$(BUILD)' tests/ends/run $(ENDS)

# The peer that lies.
$(BUILD)/tests/ends/liar: $(BUILD)/obj/tests/ends/liar.o $(BUILD)/libtest.a $(BUILD)/libcore.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -pthread
