# SPDX-License-Identifier: BSD-3-Clause
# make check-preload [PRELOAD="p_data_rw ..."]: ordinary programs, each on the kernel, with the idle
# library, and carried.
# make check-differ [DIFFER=1000] [CALLS=2000]: calls that a seed picks, on the kernel and carried, compared.

PRELOAD_ALL := $(patsubst tests/preload/%.c,%,$(wildcard tests/preload/p_*.c))
PRELOAD     ?= $(PRELOAD_ALL)

# Sanitizers have names of their own for what this makes of read() & co.
p_chk_names_CFLAGS := $(if $(SAN),-D_FORTIFY_SOURCE=0,-O2 -D_FORTIFY_SOURCE=2)

$(addprefix $(BUILD)/tests/preload/,$(PRELOAD_ALL) d_calls): $(BUILD)/tests/preload/%: tests/preload/%.c
	$(call mkdir,$(@D) $(BUILD)/obj/tests/preload)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE -I. -pthread $(SANFLAGS) -MMD -MP -MT $@ \
	    -MF $(BUILD)/obj/tests/preload/$*.d $($*_CFLAGS) -o $@ $<

programs sanitized: $(addprefix $(BUILD)/tests/preload/,$(PRELOAD_ALL) d_calls)

.PHONY: check-preload check-differ
check-preload: all $(addprefix $(BUILD)/tests/preload/,$(PRELOAD)) $(ONEMAP)
	$(Q)BUILD='$(BUILD)' TEST_PRELOAD='$(abspath $(ONEMAP))' tests/preload/run $(PRELOAD)

check-differ: all $(BUILD)/tests/preload/d_calls $(ONEMAP)
	$(Q)BUILD='$(BUILD)' TEST_PRELOAD='$(abspath $(ONEMAP))' DIFFER='$(DIFFER)' CALLS='$(CALLS)' tests/preload/differ
