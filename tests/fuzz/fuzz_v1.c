/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 4 #1 */
/* What decodes has one encoding, its own bytes; what does not still says whom to answer. */
#include "core/wire/codec.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/msgs.h"

static void check_encoding(const struct rr_codec *v1, const struct rr_msg *m, const uint8_t *data)
{
	static struct rr_msg again;
	uint32_t len = v1->size(m);
	uint8_t *p = malloc(len);

	fuzz_check(p && len == m->hdr_len);
	fuzz_check(v1->encode(m, p, len - 1) == 0);
	fuzz_check(v1->encode(m, p, len) == len);
	fuzz_check(memcmp(p, data, len) == 0);
	fuzz_check(v1->decode(p, len, &again) == RR_WIRE_OK && msg_equal(m, &again));
	free(p);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct rr_codec *v1 = rr_codec_find(1, RR_DIALECT_V1);
	static struct rr_msg m;
	enum rr_wire_rc rc = v1->decode(data, (uint32_t)len, &m);

	if (rc == RR_WIRE_DISCARD)
		return 0;
	fuzz_check(len >= RR_PREFIX_LEN);
	fuzz_check(m.xid == rr_be32(data) && m.vers == rr_be32(data + 4));
	fuzz_check(m.credit == rr_be32(data + 8) && m.proc == rr_be32(data + 12));
	fuzz_check((rc == RR_WIRE_BAD_VERS) == (m.vers != 1));
	if (rc != RR_WIRE_OK)
		return 0;
	fuzz_check(m.type != RR_HTYPE_OTHER && m.hdr_len <= len);
	fuzz_check(m.ch.nreads <= RR_MAX_SEGS && m.ch.nsegs <= RR_MAX_SEGS);
	fuzz_check(m.ch.nwrites <= RR_MAX_WRITE_CHUNKS);
	check_encoding(v1, &m, data);
	return 0;
}
