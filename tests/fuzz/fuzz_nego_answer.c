/* SPDX-License-Identifier: BSD-3-Clause */
/* Over the growing prefixes of a stream the verdict on an answer goes from PART to one
 * final verdict and stays, and what is taken is exactly the first record. The input's first
 * word is the xid; the rest is judged as it is, and as the fields of a perfect answer. */
#include "core/wire/recmark.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/hello.h"

#define FIELDS		44u
#define LONGEST		(RR_ANSWER_MAX + 64)

/* Length of the first record, marks included; 0 if it does not end within len. */
static size_t first_record(const uint8_t *p, size_t len)
{
	size_t at = 0;

	while (at + 4 <= len) {
		uint32_t mark = rr_be32(p + at);

		at += 4 + (size_t)(mark & ~RR_RM_LAST);
		if (mark & RR_RM_LAST)
			return at <= len ? at : 0;
	}
	return 0;
}

static void check_again(const struct rr_hello *h, uint32_t xid)
{
	uint8_t buf[RR_ANSWER_MAX];
	uint32_t len = rr_nego_put_answer(h, xid, buf, sizeof(buf)), need;
	struct rr_hello again;

	fuzz_check(len && h->nprov == 1 && h->version);
	fuzz_check(rr_nego_get_answer(buf, len, xid, &again, &need) == RR_NEGO_OURS);
	fuzz_check(need == len && hello_equal(h, &again));
}

static void check_stream(const uint8_t *p, size_t len, uint32_t xid)
{
	enum rr_nego verdict = RR_NEGO_PART, rc;
	uint32_t need = 0, last = 0;
	uint8_t *block = malloc(LONGEST);
	struct rr_hello h;

	fuzz_check(block);
	len = rr_min(len, (size_t)LONGEST);
	for (size_t n = 0; n <= len; n++) {
		rc = rr_nego_get_answer(fuzz_prefix(block, LONGEST, p, n), n, xid, &h, &need);
		fuzz_check(verdict == RR_NEGO_PART || rc == verdict);
		verdict = rc;
		if (rc == RR_NEGO_OTHER)
			continue;
		fuzz_check(need >= last);
		fuzz_check((rc == RR_NEGO_PART) == (need > n));
		last = need;
	}
	free(block);
	if (verdict != RR_NEGO_PART && verdict != RR_NEGO_OTHER)
		fuzz_check(need == first_record(p, len));
	if (verdict == RR_NEGO_OURS)
		check_again(&h, xid);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t buf[RR_ANSWER_MAX];
	struct rr_hello none = { .version = RR_NEGO_VERSION, .nprov = 1 };
	uint32_t xid;

	if (len < 4)
		return 0;
	xid = rr_be32(data);
	check_stream(data + 4, len - 4, xid);
	rr_nego_put_answer(&none, xid, buf, sizeof(buf));
	len = rr_min(len - 4, sizeof(buf) - FIELDS);
	memcpy(buf + FIELDS, data + 4, len);
	rr_put_be32(buf, 0x80000000u | (uint32_t)(FIELDS + len - 4));
	check_stream(buf, FIELDS + len, xid);
	return 0;
}
