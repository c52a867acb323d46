/* SPDX-License-Identifier: BSD-3-Clause */
/* Propsets and propsubsets of version 2: what decodes comes back from its encoding. */
#include "core/wire/props.h"
#include "tests/fuzz/fuzz.h"

static void check_set(const uint8_t *data, uint32_t len)
{
	struct rr_props p, again;
	struct rr_rcur c;
	struct rr_wcur w;
	uint8_t buf[256];

	rr_rcur_init(&c, data, len);
	rr_props_get(&c, &p);
	if (c.rc != RR_WIRE_OK)
		return;
	fuzz_check(p.unknown <= len / 8 && p.given < 1u << RR_PROP_N);
	fuzz_check(p.value[RR_PROP_BRS] <= RR_RVREQSUP_GENL && p.value[RR_PROP_DONE] <= 1);
	rr_wcur_init(&w, buf, rr_props_size(&p));
	rr_props_put(&w, &p);
	fuzz_check(!w.full && w.p == w.end);
	rr_rcur_init(&c, buf, rr_props_size(&p));
	rr_props_get(&c, &again);
	fuzz_check(c.rc == RR_WIRE_OK && again.given == p.given && again.unknown == 0);
	fuzz_check(memcmp(again.value, p.value, sizeof(p.value)) == 0);
}

static void check_subset(const uint8_t *data, uint32_t len)
{
	struct rr_propsubset s;
	struct rr_rcur c;
	struct rr_wcur w;
	uint8_t buf[64];

	rr_rcur_init(&c, data, len);
	rr_propsubset_get(&c, &s);
	if (c.rc != RR_WIRE_OK)
		return;
	rr_wcur_init(&w, buf, sizeof(buf));
	rr_propsubset_put(&w, &s);
	fuzz_check(!w.full && w.p - buf <= len && memcmp(buf, data, (size_t)(w.p - buf)) == 0);
	for (uint32_t n = 0; n < 32 * (RR_PROPSUBSET_WORDS + 1); n++)
		fuzz_check(rr_propsubset_has(&s, n) ==
			   (n / 32 < s.nwords && (rr_be32(data + 4 + n / 32 * 4) >> n % 32 & 1)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	check_set(data, (uint32_t)len);
	check_subset(data, (uint32_t)len);
	return 0;
}
