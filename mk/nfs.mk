# SPDX-License-Identifier: BSD-3-Clause
# Programs for the cases with the kernel's NFS: they know nothing of us.

vm-programs: $(BUILD)/tests/vm/nfs_files
apps: $(APPS)/lease.so

$(BUILD)/tests/vm/nfs_files: tests/vm/nfs_files.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g $(WARN) -D_GNU_SOURCE -o $@ $< -pthread

$(APPS)/lease.so: tests/apps/lease.c
	@mkdir -p $(@D)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g $(WARN) -fPIC -shared -o $@ $<
