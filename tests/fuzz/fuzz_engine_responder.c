/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/fuzz/engine.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	return fuzz_engine(data, len, false);
}
