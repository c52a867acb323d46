# SPDX-License-Identifier: BSD-3-Clause
# make mutate [N=200] [SEED=...] [FILES="core/conn/carried/pull.c ..."] [LEVELS=unit,preload]: do the tests notice when the
# code is wrong? Not part of "make check". See scripts/mutate.

.PHONY: mutate
mutate:
	@scripts/deps mutate
	@$(MAKE) -s $(BUILD)/gen/symbols.map
	$(Q)BUILD='$(BUILD)' scripts/mutate $(if $(N),-n $(N)) $(if $(SEED),-s $(SEED)) $(if $(LEVELS),-l $(LEVELS)) $(FILES)
