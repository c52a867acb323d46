/* SPDX-License-Identifier: BSD-3-Clause */
/* Over the growing prefixes of a stream the verdict on an offer goes from PART to one
 * final verdict and stays; an offer that was taken means the same when written again. The
 * input is judged as it is, and as the fields of an otherwise perfect offer. */
#include "tests/fuzz/fuzz.h"
#include "tests/lib/hello.h"

#define PROGRAM	0x20000777u
#define FIELDS	56u
#define LONGEST	(RR_OFFER_MAX + 8)

static void check_again(const struct rr_hello *h, uint32_t xid)
{
	uint8_t buf[RR_OFFER_MAX];
	uint32_t len, need, got;
	struct rr_hello again;

	len = rr_nego_put_offer(h, PROGRAM, xid, buf, sizeof(buf));
	/* an offer without some fields may have room for more addresses than ours */
	fuzz_check(len || h->nprov == RR_NEGO_PROVS);
	if (!len)
		return;
	fuzz_check(rr_nego_get_offer(buf, len, PROGRAM, &got, &again, &need) == RR_NEGO_OURS);
	fuzz_check(need == len && got == xid && hello_equal(h, &again));
}

static void check_stream(const uint8_t *p, size_t len)
{
	enum rr_nego verdict = RR_NEGO_PART, rc;
	uint32_t need = 0, last = 0, xid = 0;
	uint8_t *block = malloc(LONGEST);
	struct rr_hello h;

	fuzz_check(block);
	for (size_t n = 0; n <= len && n <= LONGEST; n++) {
		rc = rr_nego_get_offer(fuzz_prefix(block, LONGEST, p, n), n, PROGRAM, &xid, &h, &need);
		fuzz_check(rc == RR_NEGO_OTHER || rc == RR_NEGO_PART || rc == RR_NEGO_OURS);
		fuzz_check(verdict == RR_NEGO_PART || rc == verdict);
		verdict = rc;
		if (rc == RR_NEGO_OTHER)
			continue;
		fuzz_check(need >= last && need <= RR_OFFER_MAX);
		fuzz_check((rc == RR_NEGO_PART) == (need > n));
		last = need;
	}
	free(block);
	if (verdict == RR_NEGO_OURS) {
		fuzz_check(xid == rr_be32(p + 4));
		check_again(&h, xid);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	uint8_t buf[RR_OFFER_MAX];
	struct rr_hello none = { .version = RR_NEGO_VERSION };

	check_stream(data, len);
	rr_nego_put_offer(&none, PROGRAM, 7, buf, sizeof(buf));
	len = rr_min(len, sizeof(buf) - FIELDS) & ~(size_t)3;
	memcpy(buf + FIELDS, data, len);
	rr_put_be32(buf, 0x80000000u | (uint32_t)(FIELDS + len - 4));
	check_stream(buf, FIELDS + len);
	return 0;
}
