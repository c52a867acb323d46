# SPDX-License-Identifier: BSD-3-Clause
# make fuzz [FUZZ="fuzz_v1 ..."] [FUZZ_SECONDS=20]: libFuzzer on every tests/fuzz/fuzz_*.c, with
#   clang and sanitizers, in build-fuzz. New inputs stay there, in fuzz/corpus/TARGET; so do
#   crashers, in fuzz/TARGET-crash-*.
# make fuzz-replay: the checked-in corpus through the same targets, with any compiler.

FUZZ_SECONDS ?= 20
FUZZ_ALL     := $(patsubst tests/fuzz/%.c,%,$(wildcard tests/fuzz/fuzz_*.c))
ifneq ($(shell $(PKG_CONFIG) --exists libtirpc 2>/dev/null && echo yes),yes)
FUZZ_ALL     := $(filter-out fuzz_rpcb,$(FUZZ_ALL))
endif
FUZZ         ?= $(FUZZ_ALL)
FUZZ_CC      ?= clang
FUZZ_MAKE     = $(MAKE) --no-print-directory CC=$(FUZZ_CC) BUILD=build-fuzz CFLAGS='-O1 -g' \
                SAN=fuzzer-no-link,address,undefined FUZZ='$(FUZZ)'

# What a target puts in the place of the host's: the clock, chance, memory that it counts.
fuzz_conn_LD := -Wl,--wrap=clock_gettime,--wrap=rr_os_random,--wrap=rr_os_nap,--wrap=mmap,--wrap=munmap
fuzz_anchor_LD := $(fuzz_conn_LD)
fuzz_advance_LD := $(fuzz_conn_LD)
fuzz_stat_LD := -Wl,--wrap=pread

# What is in no library.
fuzz_rpcb_LD = $(rdmarpc-run_LIBS)
$(call obj,tests/fuzz/fuzz_rpcb.c): BASE += $(shell $(PKG_CONFIG) --cflags libtirpc 2>/dev/null)
$(addprefix $(BUILD)/,fuzz/fuzz_stat tests/fuzz/fuzz_stat): $(call obj,tools/segment.c)
$(addprefix $(BUILD)/,fuzz/fuzz_names tests/fuzz/fuzz_names): $(call obj,tools/run/procfs.c)

.PHONY: fuzz fuzz-run fuzz-replay
fuzz:
	+$(Q)$(FUZZ_MAKE) fuzz-run

# --- inside build-fuzz ---

$(addprefix $(BUILD)/fuzz/,$(FUZZ_ALL)): $(BUILD)/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o \
		$(BUILD)/libtest.a $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) -fsanitize=fuzzer,address,undefined $($(*F)_LD) -pthread

fuzz-run: $(addprefix $(BUILD)/fuzz/,$(FUZZ))
	$(Q)rc=0; for t in $(FUZZ); do \
		d=$(BUILD)/fuzz; mkdir -p $$d/corpus/$$t; c=tests/fuzz/corpus/$$t; \
		if $$d/$$t -max_total_time=$(FUZZ_SECONDS) -timeout=10 -max_len=8192 \
		    -artifact_prefix=$$d/$$t- -print_final_stats=1 \
		    $$d/corpus/$$t $$(test -d $$c && echo $$c) >$$d/$$t.log 2>&1; \
		then printf 'PASS %s: %s runs\n' $$t \
		    "$$(sed -n 's/.*number_of_executed_units: *//p' $$d/$$t.log)"; \
		else printf 'FAIL %s: see %s\n' $$t $$d/$$t.log; tail -n 30 $$d/$$t.log; rc=1; fi; \
	done; exit $$rc

# --- replay: named like the target, it finds its corpus by its own name ---

REPLAY := $(addprefix $(BUILD)/tests/fuzz/,$(FUZZ_ALL))

$(REPLAY): $(BUILD)/tests/fuzz/%: $(BUILD)/obj/tests/fuzz/%.o $(BUILD)/obj/tests/fuzz/replay.o \
		$(BUILD)/libtest.a $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDSAN) $($(*F)_LD) -pthread

programs: $(REPLAY)
fuzz-replay: $(REPLAY)
	$(Q)scripts/run-tests $(REPLAY)
