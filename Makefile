# SPDX-License-Identifier: BSD-3-Clause
# make [V=1] [CC=clang] [SAN=address,undefined|thread] [BUILD=dir] [LTO=] [WERROR=] [PKG_CONFIG=]

BUILD   ?= build
PREFIX  ?= /usr/local
LIBDIR  ?= $(PREFIX)/lib
CC      ?= cc
PKG_CONFIG ?= pkg-config
VERSION := 0.2.0

WERROR  ?= -Werror
WARN    := -Wall -Wextra $(WERROR) -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Wpointer-arith
DEBUGINFO ?= -g
# With sanitizers, whose reports name lines, -O2 takes twice as long to compile.
CFLAGS  ?= $(if $(SAN),-O1 -g1,-O2 $(DEBUGINFO))
BASE    := -std=gnu11 $(WARN) -I. -I$(BUILD)/gen -D_GNU_SOURCE -DRR_VERSION='"$(VERSION)"' \
           -fno-strict-aliasing -fvisibility=hidden -fPIC -fno-plt -pthread -MMD -MP
# Where a long has 32 bits: offsets and inode numbers of 64, but for the names that we export, which are libc's as programs
# without that find them.
ifeq ($(findstring __LP64__,$(shell $(CC) $(CFLAGS) -dM -E -x c /dev/null)),)
BASE    += -D_FILE_OFFSET_BITS=64 -Wno-psabi
symbols_CFLAGS := -U_FILE_OFFSET_BITS
TIME32  := $(findstring RR_TIME32,$(shell printf '\043include <time.h>\n\043if __TIMESIZE == 32\nRR_TIME32\n\043endif\n' | $(CC) $(CFLAGS) -E -x c -))
endif
ifneq ($(SAN),)
SANFLAGS := -fsanitize=$(SAN) -fno-sanitize-recover=all -fno-omit-frame-pointer
LDSAN   := -fsanitize=$(SAN)
BASE    += $(SANFLAGS)
ifneq ($(filter thread%,$(SAN)),)
ONEMAP  := $(BUILD)/tests/san/onemap.so
endif
endif
# The library is optimized as a whole: calls from file to file are a good part of a short message's
# way. Its objects hold ordinary code, too, since tests and scripts/check-layers read them one by one.
# -fconserve-stack and its parameter keep what inlining adds to the stack of a signal handler within what p_sig_stack
# allows. Only with gcc: clang's link-time optimizer would need another linker.
ifeq ($(SAN)$(findstring clang,$(shell $(CC) --version 2>/dev/null)),)
LTO     ?= auto
endif
LTOFLAGS := $(if $(LTO),-flto=$(LTO) -fconserve-stack --param=large-stack-frame-growth=100)
LDSAN   += $(if $(LTO),-fno-lto)	# programs are linked from the ordinary code
# The seed names sections of the link-time optimizer; by default it is another in each build.
ALLCFLAGS = $(BASE) $(CFLAGS) $(if $(WHOLE),$(LTOFLAGS) -ffat-lto-objects -frandom-seed=$<)

comma := ,
Q := $(if $(V),,@)
say = $(if $(V),,$(info   $(1)	$(2)))
# The directory of what a recipe makes, or those that it names: each once in a make, not by a process for each file.
made  :=
mkdir = $(foreach d,$(or $(1),$(@D)),$(if $(filter $d,$(made)),,$(eval made += $d)$(shell mkdir -p $d)))

CORE_SRC    := $(wildcard core/base/*.c core/wire/*.c core/ulb/*.c core/nego/*.c core/engine/*.c \
                 core/prov/*.c core/prov/shm/*.c core/conn/*.c core/conn/*/*.c)
CONFIG_SRC  := $(wildcard config/*.c)
PRELOAD_SRC := $(filter-out preload/symbols.c,$(wildcard preload/*.c))
FAKE_SRC    := $(wildcard core/prov/fake/*.c)
# A connection that tests drive; only for those that name it, or it would stand in for the real one.
FAKECONN    := tests/lib/fakeconn.c
TESTLIB_SRC := $(filter-out $(FAKECONN),$(wildcard tests/lib/*.c))
TOOLS       := $(patsubst tools/%.c,%,$(wildcard tools/rdmarpc-*.c))
TOOLLIB_SRC := $(filter-out $(wildcard tools/rdmarpc-*.c),$(wildcard tools/*.c))

obj = $(patsubst %,$(BUILD)/obj/%.o,$(basename $(1)))

SHIM := $(BUILD)/librpcrdma_shim.so

.PHONY: all
all: $(SHIM) $(addprefix $(BUILD)/,$(TOOLS))

$(BUILD)/obj/%.o: %.c
	$(mkdir)
	$(call say,CC,$<)
	$(Q)$(CC) $(ALLCFLAGS) $($(*F)_CFLAGS) -c -o $@ $<

$(BUILD)/obj/%.o: %.S
	$(mkdir)
	$(call say,AS,$<)
	$(Q)$(CC) $(ALLCFLAGS) -fno-lto -c -o $@ $<

# --- the library ---------------------------------------------------------------------

$(BUILD)/gen/symbols.map: preload/calls.def
	$(mkdir)
	$(call say,GEN,$@)
	$(Q)scripts/gen-map $(if $(TIME32),-t) $< >$@

# Functions that a short message and the waits around it pass lie together, by their names in mk/way.list: a process that
# has slept finds its way in a third of the pages. What runs in every program, at exec and at exit, lies in front of them: our
# constructor and destructor, the C runtime's, and pthread_atfork(), which is linked into each library; then what a
# process passes that makes one call (mk/first.list). So these are in the pages that the dynamic linker has read. Small
# variables lie together, too, sorted by alignment, in the page of the initialized data: the tables of mk/large.list come
# behind them, since each page that a process touches is a fault. The first of these is in a section of its own, since the
# others' begins with a page.
ifneq ($(LTOFLAGS),)
ifneq ($(findstring GNU ld,$(shell $(CC) $(LDFLAGS) -Wl,--version 2>/dev/null)),)
WAY := $(BUILD)/gen/way.ld
endif
endif

$(BUILD)/gen/way.ld: mk/first.list mk/way.list mk/large.list Makefile
	$(mkdir)
	$(call say,GEN,$@)
	$(Q)awk 'function sections(kind) { print "*(." kind "." $$1 " ." kind "." $$1 ".*)" } \
	    BEGIN { print "SECTIONS { .text.way : {"; \
	      print "*(.text.startup .text.startup.* .text.exit .text.exit.*) *crtbegin*.o(.text) *libc_nonshared.a:*(.text .text.*)"; \
	      print "KEEP(*(SORT_NONE(.fini)))" } \
	    /^#/ { next } FILENAME !~ /large/ { sections("text"); next } \
	    !n++ { print "} } INSERT BEFORE .text; SECTIONS { .bss.first (NOLOAD) : {" } \
	    n == 2 { print "} .bss.large (NOLOAD) : {" } \
	    { sections("bss") } \
	    END { print "} } INSERT AFTER .bss;" }' mk/first.list mk/way.list mk/large.list >$@

# Every program under LD_PRELOAD pays for each segment: code and constants share one (noseparate-code), which saves two
# mmap() calls and three page faults, 8 us of the 60 that the library adds to an exec.
SHIM_SRC := $(CORE_SRC) $(CONFIG_SRC) $(PRELOAD_SRC) preload/symbols.c preload/twice.S
SHIM_OBJ := $(call obj,$(SHIM_SRC))
$(SHIM_OBJ): WHOLE := $(LTOFLAGS)

$(SHIM): $(SHIM_OBJ) $(BUILD)/gen/symbols.map $(WAY)
	$(call say,LINK,$@)
	$(Q)$(CC) -shared -o $@ $(filter %.o,$^) $(filter-out -fno-lto,$(LDSAN)) $(if $(LTOFLAGS),$(CFLAGS) $(LTOFLAGS)) -Wl,--version-script=$(BUILD)/gen/symbols.map \
	    $(if $(WAY),-ffunction-sections -fdata-sections -Wl$(comma)-T$(comma)$(WAY) -Wl$(comma)--sort-section=alignment) \
	    -Wl,-soname,librpcrdma_shim.so -Wl,-z,defs -Wl,-z,relro -Wl,-z,now -Wl,-z,noseparate-code -Wl,--as-needed $(LDFLAGS)

# Everything but the exported names, for tools and tests: a test that linked the exports
# would be intercepted itself.
$(BUILD)/libcore.a: $(call obj,$(CORE_SRC) $(CONFIG_SRC) $(PRELOAD_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsP $@ $^

$(BUILD)/libtest.a: $(call obj,$(FAKE_SRC) $(TESTLIB_SRC))
	$(call say,AR,$@)
	$(Q)rm -f $@ && ar rcsP $@ $^

# --- tools ---------------------------------------------------------------------------

$(addprefix $(BUILD)/,$(TOOLS)): $(BUILD)/%: $(BUILD)/obj/tools/%.o $(call obj,$(TOOLLIB_SRC)) $(BUILD)/libcore.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(BUILD)/libcore.a $(LDSAN) $(LDFLAGS) $($(*F)_LIBS) -pthread

# --- unit, oracle, stress, simulation ---------------------------------------------------

# HARNESS=mini: tests/mini in the place of Criterion, which does not run under TSan, and which other machines have no package of.
HARNESS ?= $(if $(filter thread%,$(SAN)),mini,criterion)
ifeq ($(HARNESS),mini)
UNITDIR := $(BUILD)/mini
else
UNITDIR := $(BUILD)
endif
UNIT   := $(patsubst tests/unit/%.c,$(UNITDIR)/tests/unit/%,$(wildcard tests/unit/test_*.c))
STRESS := $(patsubst tests/stress/%.c,$(BUILD)/tests/stress/%,$(wildcard tests/stress/stress_*.c))
SIM    := $(patsubst tests/sim/%.c,$(BUILD)/tests/sim/%,$(wildcard tests/sim/sim_*.c))

# A unit test runs for a moment: to optimize it would take four times as long as to compile it does, and what a debugger
# wants (UNITDEBUG=1) a quarter more. gold links it in a third of ld's time; a sanitizer's own objects are left to ld.
$(BUILD)/obj/tests/unit/%.o $(BUILD)/obj/mini/tests/unit/%.o: CFLAGS += -O0 $(if $(SAN)$(UNITDEBUG),,-g0)
UNITLD := $(if $(SAN),,$(if $(shell command -v ld.gold 2>/dev/null),-fuse-ld=gold))

$(filter $(addprefix $(UNITDIR)/tests/unit/,test_ready% test_call% test_accept test_unmet%),$(UNIT)): $(call obj,$(FAKECONN))
$(addprefix $(UNITDIR)/tests/unit/test_conn_,handback native): $(BUILD)/obj/tests/native/loop.o
$(UNITDIR)/tests/unit/test_procfs: $(BUILD)/obj/tools/run/procfs.o
$(UNITDIR)/tests/unit/test_figures: $(BUILD)/obj/tools/stat/figures.o
$(UNITDIR)/tests/unit/test_conform_suite: $(BUILD)/obj/tools/conform/suite.o
test_conform_suite_LD := -Wl,--wrap=calloc,--wrap=reallocarray
test_conn_steps_LD := $(foreach f,carrier_withdraw carrier_free carrier_establish carrier_choose carrier_join upgrade_carry \
    evidence_look upgrade_consume ride_seen_all prov_nth share_unmap carrier_answer \
    carrier_offer os_random upgrade_spoken pace_establish queue_has_room,-Wl$(comma)--wrap=rr_$f)
test_conn_steps_client_LD := $(test_conn_steps_LD)
test_conn_steps_along_LD := $(test_conn_steps_LD)
test_conn_steps_server_LD := $(test_conn_steps_LD)
test_rundir_LD := -Wl,--wrap=mkdir
test_statseg_LD := -Wl,--wrap=mmap
test_accept_LD := -Wl,--wrap=rr_os_nap
test_statseg_rare_LD := $(foreach f,rr_segment_hold rr_os_fallocate rr_rundir_sweep_in rr_os_open rr_rundir_stopped \
    memfd_create sched_yield geteuid madvise mmap munmap,-Wl$(comma)--wrap=$f)
test_call_setup_LD := -Wl,--wrap=sched_yield
test_ready_wait_LD := -Wl,--wrap=rr_os_nap,--wrap=rr_spin_end
test_ready_poll_LD := -Wl,--wrap=rr_spin_end
test_ready_epoll_calls_LD := -Wl,--wrap=rr_spin_end
test_real_direct_LD := -Wl,--wrap=syscall
test_rawos_LD := -Wl,--wrap=syscall
test_report_LD := -Wl,--wrap=rr_eng_info
test_shm_pipe_LD := -Wl,--wrap=rr_os_open
test_appmem_LD := -Wl,--wrap=syscall
test_scratch_LD := -Wl,--wrap=mmap,--wrap=munmap
native_doors_LD := $(foreach f,prov_native own_params own_spare carrier_listen carrier_unlisten carrier_tend carrier_new carrier_take \
    carrier_free carrier_establish carrier_call upgrade_carry anchor_poll guests_each guests_full loopback_connect loopback_end \
    drv_fail drv_progress slab_each,-Wl$(comma)--wrap=rr_$f)
test_conn_doors_LD := $(native_doors_LD)
test_conn_dials_LD := $(native_doors_LD)
test_conn_guests_LD := $(native_doors_LD)
test_conn_cross_LD := $(foreach f,queue_send queue_recv queue_bytes queue_peek_at queue_info queue_unread eng_writable, \
    -Wl$(comma)--wrap=rr_$f)
test_conn_ready_LD := $(foreach f,eng_writable eng_deadline anchor_check conn_procs cpu_is_only,-Wl$(comma)--wrap=rr_$f)
test_conn_inherit_LD := $(foreach f,handback_ask pid_is_dead conn_leave conn_procs anchor_poll anchor_break anchor_reset os_nap thread \
    eng_shown eng_calls_unread,-Wl$(comma)--wrap=rr_$f)
test_conn_stream_LD := $(foreach f,eng_send_plain eng_send eng_is_short eng_would_take anchor_check,-Wl$(comma)--wrap=rr_$f)
test_conn_pull_LD := $(foreach f,head front pulled exposed done,-Wl$(comma)--wrap=rr_eng_$f)
test_conn_driver_LD := $(foreach f,next_op done window recv recv_plain hatched arriving writable deadline tick consumed,-Wl$(comma)--wrap=rr_eng_$f)
test_conn_wait_LD := $(foreach f,spin_time spin_yields spin_learn spin_look_around tell_look tell_wakes tell_doing,-Wl$(comma)--wrap=rr_$f)
test_conn_exit_LD := $(foreach f,conn_each_carried os_nap lock_try_held conn_free conn_procs handback_exit conn_settle_until,-Wl$(comma)--wrap=rr_$f)
test_settle_LD := $(foreach f,eng_shown eng_calls_unread drv_progress drv_reclaim drv_drain thread conn_free,-Wl$(comma)--wrap=rr_$f)
test_conn_tapped_LD := $(foreach f,sent delivered posted received,-Wl$(comma)--wrap=rr_tap_$f)
test_pull_early_LD := $(foreach f,delivered received posted,-Wl$(comma)--wrap=rr_tap_$f)
test_tap_LD := $(foreach f,cap_wants_rdma cap_begin cap_put cap_room cap_end pool_at,-Wl$(comma)--wrap=rr_$f)
test_relay_LD := $(foreach f,rr_conn_recv rr_conn_send rr_conn_arm rr_conn_disarm rr_conn_fds rr_conn_hold rr_conn_free rr_carrier_free \
    rr_loopback_reset rr_anchor_poll rr_thread mmap munmap,-Wl$(comma)--wrap=$f)
test_own_asks_LD := $(foreach f,getrlimit rr_ownfd_above rr_eng_recvs rr_eng_native_caps rr_budget_recvs,-Wl$(comma)--wrap=$f)
test_late_LD := $(foreach f,anchor_poll anchor_break queue_bytes conn_become conn_lowat queue_info queue_unread queue_send upgrade_fails passed_out \
    half_due half_pick answer_withdraw carrier_free conn_free idle_look prov_spare,-Wl$(comma)--wrap=rr_$f)
test_expire_LD := $(test_late_LD)
test_hear_LD := $(foreach f,upgrade_look upgrade_peek nego_get_offer nego_put_answer nego_put_refusal offer_sniff upgrade_waits upgrade_stopped \
    upgrade_spoken upgrade_consume upgrade_withholds upgrade_unseen upgrade_fails answer_accept answer_why_not answer_tell answer_refusal \
    anchor_break conn_become report_adopt pace_expire half_add ride_begin ride_heard,-Wl$(comma)--wrap=rr_$f)
test_evidence_calls_LD := $(foreach f,rr_ownfd_floor rr_ownfd_raise rr_ownfd_close rr_ownfd_dup rr_ownfd_set rr_os_open rr_pid unlink unlinkat chmod \
    fstatat getdents64 geteuid,-Wl$(comma)--wrap=$f)
test_evidence_sweep_LD := $(test_evidence_calls_LD)
test_ride_LD := $(foreach f,learned_end learned_ours ride_may_pay offer_by_loopback offer_required ride_must_ask ride_offer ride_answer \
    ride_seen_all upgrade_withholds conn_lowat nego_get_offer nego_get_answer ride_leave ride_take_answer ride_take_offer upgrade_stopped \
    upgrade_skip ride_count conn_become prov_nth,-Wl$(comma)--wrap=rr_$f)
test_ride_reads_LD := $(test_ride_LD)

ifeq ($(HARNESS),mini)
$(BUILD)/obj/mini/%.o: %.c
	$(mkdir)
	$(call say,CC,$<)
	$(Q)$(CC) -isystem tests/mini $(ALLCFLAGS) $($(*F)_CFLAGS) -c -o $@ $<

$(UNIT): $(UNITDIR)/tests/unit/%: $(BUILD)/obj/mini/tests/unit/%.o $(BUILD)/obj/mini/tests/mini/main.o $(BUILD)/libtest.a \
		$(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDSAN) $(UNITLD) $($(*F)_LD) -pthread
else
$(UNIT): $(BUILD)/tests/unit/%: $(BUILD)/obj/tests/unit/%.o $(BUILD)/libtest.a $(BUILD)/libcore.a $(BUILD)/tests/unit/git2/made
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDSAN) $(UNITLD) $($(*F)_LD) -lcriterion -pthread \
	    -Wl,--disable-new-dtags,-rpath,'$$ORIGIN/git2'

# Criterion runs each test in a process of its own, and that loads 22 libraries, 15 of them for libgit2, which compares the
# strings of an assertion eq(str, ...) that does not hold. No test has one; a library by the same name without anything in
# it halves the CPU time of all tests.
$(BUILD)/tests/unit/git2/made:
	$(mkdir)
	$(Q)criterion=$$($(CC) -print-file-name=libcriterion.so); \
	    name=$$(readelf -d $$criterion | sed -n 's/.*(NEEDED).*\[\(libgit2\.[^]]*\)\]/\1/p'); [ -z "$$name" ] || \
	    nm -D --undefined-only $$criterion | awk '$$NF ~ /^git_/ { sub(/@.*/, "", $$NF); print "int " $$NF "(void) { return -1; }" }' | \
	    $(CC) -x c - -shared -fPIC -o $(@D)/$$name -Wl,-soname,$$name && touch $@
endif

$(STRESS) $(SIM): $(BUILD)/tests/%: $(BUILD)/obj/tests/%.o $(BUILD)/libtest.a $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -pthread

.PHONY: unit stress sim
unit: $(UNIT) $(ONEMAP)
	$(Q)MINI_SLOW=$(if $(SAN),10,1) TEST_PRELOAD='$(abspath $(ONEMAP))' SAN_SUPP='$(abspath tests/san/tsan.supp)' scripts/run-tests $(UNIT)
stress: $(STRESS) $(ONEMAP)
	$(Q)TEST_PRELOAD='$(abspath $(ONEMAP))' SAN_SUPP='$(abspath tests/san/tsan.supp)' scripts/run-tests $(STRESS)
sim: $(SIM)
	$(Q)$(if $(SIM_RPCS),SIM_RPCS=$(SIM_RPCS) TEST_TIMEOUT=7200 )scripts/run-tests $(SIM)

# Both ends of a connection at the same addresses, for TSan.
$(BUILD)/tests/san/onemap.so: tests/san/onemap.c
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O1 -g $(WARN) -D_GNU_SOURCE -fPIC -shared -o $@ $<

# What "make check" runs of this directory and, of the one with sanitizers, of that. The files in mk/ have more of them.
.PHONY: programs sanitized
programs: all $(UNIT) $(STRESS) $(SIM) $(ONEMAP)
sanitized: all $(ONEMAP)

# One module's tests: make unit-wire_chunks
unit-%: $(UNITDIR)/tests/unit/test_%
	$(Q)scripts/run-tests $<

-include $(wildcard mk/*.mk)

.PHONY: clean
clean:
	rm -rf build build-*

-include $(shell find $(BUILD)/obj -name '*.d' 2>/dev/null)
