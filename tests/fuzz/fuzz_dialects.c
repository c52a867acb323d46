/* SPDX-License-Identifier: BSD-3-Clause */
/* req: draft-02 4.2 #1 */
/* Dialects draft02 and slides: where they do not differ from version 1 they say what it
 * says, and what decodes, unless it is never sent, has one encoding. */
#include "core/wire/v1.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/msgs.h"

static void check_encoding(const struct rr_codec *k, const struct rr_msg *m, const uint8_t *data)
{
	uint32_t len = k->size(m);
	uint8_t *p = malloc(len);

	fuzz_check(p && len == m->hdr_len);
	fuzz_check(k->encode(m, p, len - 1) == 0);
	fuzz_check(k->encode(m, p, len) == len);
	fuzz_check(memcmp(p, data, len) == 0);
	free(p);
}

static void check(const struct rr_codec *k, const uint8_t *data, uint32_t len)
{
	static struct rr_msg m, v1;
	enum rr_wire_rc rc = k->decode(data, len, &m);

	if (rr_v1_codec.decode(data, len, &v1) == RR_WIRE_OK) {
		fuzz_check(rc == RR_WIRE_OK && msg_equal(&m, &v1) && m.hdr_len == v1.hdr_len);
	} else if (rc == RR_WIRE_OK) {
		fuzz_check(m.reverse || m.type == RR_ERROR);
		fuzz_check(m.reverse == (m.proc == 5 || m.proc == 6));
	}
	if (rc == RR_WIRE_DISCARD)
		return;
	fuzz_check(len >= RR_PREFIX_LEN && m.xid == rr_be32(data) && m.proc == rr_be32(data + 12));
	if (rc != RR_WIRE_OK)
		return;
	fuzz_check(m.hdr_len <= len);
	if (m.type != RR_ERROR || m.err == RR_ERR_VERS || m.err == RR_ERR_CHUNK)
		check_encoding(k, &m, data);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check(&rr_draft02_codec, data, (uint32_t)len);
	check(&rr_slides_codec, data, (uint32_t)len);
	return 0;
}
