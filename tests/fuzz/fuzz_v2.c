/* SPDX-License-Identifier: BSD-3-Clause */
/* req: version-two-08 5.2 #1 */
/* What decodes comes back from its encoding; what does not still says what to answer. */
#include "core/wire/v2.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/msgs.h"

/* Its own encoding, with the word that follows a MSG, means the same. The bytes need not be
 * the same: of properties and of ERR_VERS there are several forms. */
static void check_encoding(const struct rr_codec *v2, const struct rr_msg *m)
{
	static struct rr_msg again;
	uint32_t len = v2->size(m), more = m->type == RR_MSG ? 4 : 0;
	uint8_t *p = calloc(1, len + more);

	fuzz_check(p && len >= RR_PREFIX_LEN);
	fuzz_check(v2->encode(m, p, len - 1) == 0);
	fuzz_check(v2->encode(m, p, len) == len);
	fuzz_check(v2->decode(p, len + more, &again) == RR_WIRE_OK && msg_equal(m, &again));
	free(p);
}

static void check_same_bytes(const struct rr_codec *v2, const struct rr_msg *m, const uint8_t *data)
{
	uint8_t *p = malloc(m->hdr_len);

	fuzz_check(p && v2->encode(m, p, m->hdr_len) == m->hdr_len);
	fuzz_check(memcmp(p, data, m->hdr_len) == 0);
	free(p);
}

static void check_answer(const struct rr_codec *v2, const struct rr_msg *m)
{
	static struct rr_msg e;
	uint8_t buf[64];

	fuzz_check(m->proc != 4);
	rr_msg_init(&e, RR_ERROR, m->xid, m->vers, 1);
	e.err = m->err;
	memcpy(e.arm, m->arm, sizeof(e.arm));
	fuzz_check(e.err >= RR_ERR_VERS && e.err <= RR_ERR_SEGMENTS);
	fuzz_check(v2->encode(&e, buf, sizeof(buf)) == v2->size(&e));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	const struct rr_codec *v2 = rr_codec_find(2, RR_DIALECT_V2);
	static struct rr_msg m;
	enum rr_wire_rc rc = v2->decode(data, (uint32_t)len, &m);

	if (rc == RR_WIRE_DISCARD)
		return 0;
	fuzz_check(len >= RR_PREFIX_LEN);
	fuzz_check(m.xid == rr_be32(data) && m.vers == rr_be32(data + 4));
	fuzz_check(m.credit == rr_be32(data + 8) && m.proc == rr_be32(data + 12));
	if (rc != RR_WIRE_OK) {
		check_answer(v2, &m);
		return 0;
	}
	fuzz_check(m.type != RR_HTYPE_OTHER && m.hdr_len <= len && m.dir != RR_DIR_UNKNOWN);
	fuzz_check(m.ch.nreads <= RR_MAX_SEGS && m.ch.nsegs <= RR_MAX_SEGS);
	fuzz_check(m.ch.nwrites <= RR_MAX_WRITE_CHUNKS);
	check_encoding(v2, &m);
	if (m.type != RR_ERROR && m.type != RR_CONNPROP)
		check_same_bytes(v2, &m, data);
	return 0;
}
