# SPDX-License-Identifier: BSD-3-Clause
# make check-vm [VM="rxe shm ..."]: what needs a verbs device, in a guest that has a software one.

.PHONY: check-vm
check-vm:
	@scripts/deps vm
	@$(MAKE) -s -j2 all apps
	$(Q)BUILD='$(BUILD)' tests/vm/run $(VM)
