# SPDX-License-Identifier: BSD-3-Clause
# Our codecs against rpcgen's and libtirpc's. libtirpc is for tests, never for the library.

ORACLE     := $(patsubst tests/oracle/%.c,$(BUILD)/tests/oracle/%,$(wildcard tests/oracle/oracle_*.c))
ORACLE_GEN := $(BUILD)/gen/oracle
TIRPC_CFLAGS = $(shell $(PKG_CONFIG) --cflags libtirpc)
TIRPC_LIBS   = $(shell $(PKG_CONFIG) --libs libtirpc)

$(ORACLE_GEN)/%.h $(ORACLE_GEN)/%_xdr.c: tests/oracle/%.x
	$(mkdir)
	$(call say,RPCGEN,$<)
	$(Q)cp $< $(ORACLE_GEN)/ && cd $(ORACLE_GEN) && rm -f $*.h $*_xdr.c && \
	    rpcgen -h -o $*.h $*.x && rpcgen -c -o $*_xdr.c $*.x

# rpcgen's code does not meet our warnings
$(BUILD)/obj/oracle/%_xdr.o: $(ORACLE_GEN)/%_xdr.c
	$(mkdir)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE) $(CFLAGS) $(TIRPC_CFLAGS) -w -c -o $@ $<

$(BUILD)/obj/tests/oracle/%.o: BASE += $(TIRPC_CFLAGS)

# What each reads. The files include each other's headers.
X_v1       := rpcrdma1
X_v2       := rpcrdma2_common rpcrdma2_base rpcrdma2_done
X_dialects := rpcrdma1 rpcrdma_draft02 rpcrdma_slides
X_ccp      := rpcrdma1 rpcrdma_draft02
X_ulb      := nfs
define oracle_needs
$(BUILD)/obj/tests/oracle/oracle_$(1).o: $(X_$(1):%=$(ORACLE_GEN)/%.h)
$(BUILD)/tests/oracle/oracle_$(1): $(X_$(1):%=$(BUILD)/obj/oracle/%_xdr.o)
endef
$(foreach o,v1 v2 dialects ccp ulb,$(eval $(call oracle_needs,$(o))))
$(ORACLE_GEN)/rpcrdma2_base_xdr.c $(ORACLE_GEN)/rpcrdma2_done_xdr.c: $(ORACLE_GEN)/rpcrdma2_common.h
$(ORACLE_GEN)/rpcrdma_draft02_xdr.c $(ORACLE_GEN)/rpcrdma_slides_xdr.c: $(ORACLE_GEN)/rpcrdma1.h

$(ORACLE): $(BUILD)/tests/oracle/%: $(BUILD)/obj/tests/oracle/%.o \
		$(BUILD)/libtest.a $(BUILD)/libcore.a
	$(mkdir)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $(filter %.o,$^) $(filter %.a,$^) $(LDSAN) $(TIRPC_LIBS) -pthread

.PHONY: oracle
programs: $(ORACLE)
oracle: $(ORACLE)
	$(Q)scripts/run-tests $(ORACLE)
