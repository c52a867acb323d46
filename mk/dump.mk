# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-dump

$(BUILD)/rdmarpc-dump: $(call obj,$(wildcard tools/dump/*.c))
