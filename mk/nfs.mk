# SPDX-License-Identifier: BSD-3-Clause
# What makes ganesha give delegations, for tests of its callbacks.

apps: $(APPS)/lease.so

$(APPS)/lease.so: tests/apps/lease.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared -o $@ $<
