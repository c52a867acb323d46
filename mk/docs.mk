# SPDX-License-Identifier: BSD-3-Clause
# make docs: what is made from the tables and checked in. make docs-check: is it up to date?

DOCS_MADE := rdmarpc.conf.example $(patsubst %.in,%,$(wildcard man/*.in))

$(BUILD)/gen-docs: $(BUILD)/obj/scripts/gen-docs.o $(BUILD)/libcore.a
	$(call say,LINK,$@)
	$(Q)$(CC) -o $@ $^ $(LDSAN) -pthread

gen_docs = $(BUILD)/gen-docs $(if $(filter man/%,$(1)),man $(1).in,example)

programs: $(BUILD)/gen-docs

.PHONY: docs docs-check check-example
docs: $(BUILD)/gen-docs
	$(Q)$(foreach f,$(DOCS_MADE),$(call gen_docs,$(f)) >$(f) &&) scripts/conformance

# Prints only what is stale.
docs-check check-example:
	@$(MAKE) --no-print-directory $(BUILD)/gen-docs >/dev/null; \
	    rc=0; $(foreach f,$(DOCS_MADE),$(call gen_docs,$(f)) | cmp -s - $(f) || \
	    { echo "$(f) is stale: make docs"; rc=1; };) exit $$rc
