# SPDX-License-Identifier: BSD-3-Clause
# make check-ends [ENDS="t_kill.py ..."] [ROUNDS=10]: what happens when an end dies, lies, stays silent,
# or knows nothing of us; between real processes. One test: tests/ends/run t_kill.py NAME

programs: $(addprefix $(BUILD)/tests/ends/,liar greedy abuser)
sanitized: $(BUILD)/tests/ends/hostile

.PHONY: check-ends
check-ends: all $(APPBINS) $(addprefix $(APPS)/,idlesvc idlecli benchsvc benchcli) $(addprefix $(BUILD)/tests/ends/,liar greedy abuser)
	$(Q)BUILD='$(BUILD)' tests/ends/run $(ENDS)

# make check-hostile [HOSTILE_SECONDS=20] [SEED=1]: a peer that overwrites what is shared. With SAN=, or it
# sees crashes only.
.PHONY: check-hostile
check-hostile: all $(BUILD)/tests/ends/hostile
	$(Q)BUILD='$(BUILD)' tests/ends/run m_hostile.py

# Peers that lie, ask for much and read nothing, overwrite what is shared, and take what they can get.
$(addprefix $(BUILD)/tests/ends/,liar greedy hostile abuser): $(BUILD)/tests/ends/%: $(BUILD)/obj/tests/ends/%.o \
		$(BUILD)/libtest.a $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDSAN) -pthread
