# SPDX-License-Identifier: BSD-3-Clause
# Programs for the cases with the kernel's NFS: they know nothing of us.

vm-programs: $(BUILD)/tests/vm/nfs_files

$(BUILD)/tests/vm/nfs_files: tests/vm/nfs_files.c
	$(mkdir)
	$(call say,CC,$@)
	$(Q)$(CC) -std=gnu11 -O2 -g $(WARN) -D_GNU_SOURCE -o $@ $< -pthread
