/* SPDX-License-Identifier: BSD-3-Clause */
/* Private data that was understood is written back as it stood, but for reserved flags. */
#include "core/wire/cmdata.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct rr_cmdata d;
	uint32_t behind = rr_cmdata_get(data, (uint32_t)len, &d);
	uint8_t out[RR_CMDATA_LEN];

	fuzz_check(d.send_size >= 1024 && d.send_size <= 262144 && d.send_size % 1024 == 0);
	fuzz_check(d.recv_size >= 1024 && d.recv_size <= 262144 && d.recv_size % 1024 == 0);
	fuzz_check(d.present == (behind != 0));
	if (!d.present) {
		fuzz_check(!d.remote_inv && d.send_size == RR_CMDATA_DEFAULT &&
			   d.recv_size == RR_CMDATA_DEFAULT);
		return 0;
	}
	fuzz_check(behind >= RR_CMDATA_LEN && behind <= len);
	data += behind - RR_CMDATA_LEN;
	rr_cmdata_put(&d, out);
	fuzz_check(out[5] == (data[5] & 1));
	out[5] = data[5];
	fuzz_check(memcmp(out, data, RR_CMDATA_LEN) == 0);
	return 0;
}
