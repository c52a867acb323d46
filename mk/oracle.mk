# SPDX-License-Identifier: BSD-3-Clause
# Our codecs against rpcgen's and libtirpc's. libtirpc is for tests, never for the library.

ORACLE     := $(patsubst tests/oracle/%.c,$(BUILD)/tests/oracle/%,$(wildcard tests/oracle/oracle_*.c))
ORACLE_GEN := $(BUILD)/gen/oracle
TIRPC_CFLAGS = $(shell pkg-config --cflags libtirpc)
TIRPC_LIBS   = $(shell pkg-config --libs libtirpc)

$(ORACLE_GEN)/%.h $(ORACLE_GEN)/%_xdr.c: tests/oracle/%.x
	@mkdir -p $(@D)
	$(call say,RPCGEN,$<)
	$(Q)cp $< $(ORACLE_GEN)/ && cd $(ORACLE_GEN) && rm -f $*.h $*_xdr.c && \
	    rpcgen -h -o $*.h $*.x && rpcgen -c -o $*_xdr.c $*.x

# rpcgen's code does not meet our warnings
$(BUILD)/obj/oracle/%_xdr.o: $(ORACLE_GEN)/%_xdr.c
	@mkdir -p $(@D)
	$(call say,CC,$<)
	$(Q)$(CC) $(BASE) $(CFLAGS) $(TIRPC_CFLAGS) -w -c -o $@ $<

$(BUILD)/obj/tests/oracle/%.o: BASE += $(TIRPC_CFLAGS)
$(ORACLE:$(BUILD)/%=$(BUILD)/obj/%.o): $(ORACLE_GEN)/rpcrdma1.h
$(BUILD)/obj/tests/oracle/oracle_ulb.o: $(ORACLE_GEN)/nfs.h
$(BUILD)/tests/oracle/oracle_ulb: $(BUILD)/obj/oracle/nfs_xdr.o

$(ORACLE): $(BUILD)/tests/oracle/%: $(BUILD)/obj/tests/oracle/%.o \
		$(BUILD)/obj/oracle/rpcrdma1_xdr.o $(BUILD)/libtest.a $(BUILD)/libcore.a
	@mkdir -p $(@D)
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) $(TIRPC_LIBS) -pthread

.PHONY: oracle
oracle: $(ORACLE)
	$(Q)scripts/run-tests $(ORACLE)
