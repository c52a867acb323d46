/* SPDX-License-Identifier: BSD-3-Clause */
/* Record marking means the same in every split, and the same as a plain reading of the
 * whole stream. The first eight bytes seed the split, the rest is the stream. */
#include "core/wire/recmark.h"
#include "tests/fuzz/fuzz.h"

/* What a stream means: a hash over headers, payload bytes and ends of records. */
struct meaning {
	uint64_t hash;
	uint32_t records;
	bool boundary;
};

static void note(struct meaning *m, uint64_t v)
{
	m->hash = (m->hash ^ v) * UINT64_C(0x100000001b3);
}

static void note_bytes(struct meaning *m, const uint8_t *p, size_t n)
{
	while (n--)
		note(m, *p++);
}

static void note_header(struct meaning *m, uint32_t left, bool last)
{
	note(m, 1000 + left);
	note(m, 2000 + last);
}

static void note_end(struct meaning *m)
{
	note(m, 3000);
	m->records++;
}

static void feed(struct rr_rm *rm, const uint8_t *p, size_t len, struct meaning *m)
{
	size_t at = 0, n;

	while (at < len || (rm->last && rm->left == 0)) {
		enum rr_rm_what what = rr_rm_next(rm, p + at, len - at, &n);

		fuzz_check(n <= len - at);
		if (what == RR_RM_FRAGMENT)
			note_header(m, rm->left, rm->last);
		if (what == RR_RM_DATA || what == RR_RM_RECORD)
			note_bytes(m, p + at, n);
		if (what == RR_RM_RECORD) {
			note_end(m);
			fuzz_check(rr_rm_at_boundary(rm));
		} else {
			fuzz_check(n > 0 && !rr_rm_at_boundary(rm));
		}
		at += n;
	}
}

static struct meaning in_pieces(const uint8_t *p, size_t len, uint64_t seed)
{
	struct meaning m = { 0 };
	struct rr_rm rm;

	rr_rm_init(&rm);
	for (size_t at = 0; at < len;) {
		size_t n = rr_min(1 + (size_t)rng_below(&seed, 9), len - at);

		feed(&rm, p + at, n, &m);
		at += n;
	}
	m.boundary = rr_rm_at_boundary(&rm);
	return m;
}

/* The plain reading, with everything at hand. */
static struct meaning plainly(const uint8_t *p, size_t len)
{
	struct meaning m = { .boundary = true };

	while (len >= 4) {
		uint32_t mark = rr_be32(p), left = mark & ~RR_RM_LAST;
		size_t n = rr_min((size_t)left, len - 4);

		note_header(&m, left, mark & RR_RM_LAST);
		note_bytes(&m, p + 4, n);
		m.boundary = n == left && mark & RR_RM_LAST;
		if (m.boundary)
			note_end(&m);
		p += 4 + n;
		len -= 4 + n;
	}
	m.boundary = m.boundary && len == 0;
	return m;
}

static void check_equal(struct meaning a, struct meaning b)
{
	fuzz_check(a.hash == b.hash);
	fuzz_check(a.records == b.records);
	fuzz_check(a.boundary == b.boundary);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct meaning want, whole = { 0 };
	struct rr_rm rm;

	if (len < 8)
		return 0;
	want = plainly(data + 8, len - 8);
	rr_rm_init(&rm);
	feed(&rm, data + 8, len - 8, &whole);
	whole.boundary = rr_rm_at_boundary(&rm);
	check_equal(whole, want);
	check_equal(in_pieces(data + 8, len - 8, rr_be64(data)), want);
	return 0;
}
