/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/ulb/binding.h"
#include "tests/unit/ulb_msg.h"

/* Where the padding of RDMA_MSGP goes (draft-02 §3.5). */

#define ALIGN	64u
#define THRESH	100u
#define BASE	36u

static struct msg m;
static struct rr_ulb_padding p;

static void ask(bool there)
{
	memset(&p, 0xee, sizeof(p));
	p.align = ALIGN;
	p.thresh = THRESH;
	p.base = BASE;
	p.there = there;
}

static enum rr_ulb_rc pad_call(void)
{
	uint8_t *b = edged(m.b, m.n);
	struct rr_ulb_view v = { .buf = b, .have = m.n, .len = m.n };
	enum rr_ulb_rc rc = rr_ulb_pad_call(&v, &p);

	edge_back();
	return rc;
}

static enum rr_ulb_rc pad_reply(struct rr_ulb_rec rec)
{
	uint8_t *b = edged(m.b, m.n);
	struct rr_ulb_view v = { .buf = b, .have = m.n, .len = m.n };
	enum rr_ulb_rc rc = rr_ulb_pad_reply(&rec, &v, &p);

	edge_back();
	return rc;
}

/* To the next multiple. */
static uint32_t pad_at(uint32_t pos)
{
	return -(BASE + pos) % ALIGN;
}

static void is_pad(uint32_t i, uint32_t pos, uint32_t len)
{
	cr_assert_gt(len, 0);
	cr_assert_eq(p.at[i].pos, pos, "%u: %u", i, p.at[i].pos);
	cr_assert_eq(p.at[i].len, len, "%u: %u", i, p.at[i].len);
}

/* A handle of fh bytes and data of len, each behind so much padding; then the handle begins at 44. */
static uint32_t v3_write(uint32_t fh, uint32_t before_fh, uint32_t len, uint32_t before)
{
	uint32_t pos;

	begin_call(&m, NFS, 3, 7);
	W(&m, fh);
	m.n += before_fh + rr_align(fh, 4u);
	W(&m, 0, 0, len, 2, len);
	pos = m.n;
	m.n += before + rr_align(len, 4u);
	return pos;
}

Test(ulb_padding, each_long_opaque_is_put_behind_what_was_put_before_it)
{
	uint32_t pos = v3_write(100, 0, 201, 0), first = pad_at(44);
	const struct rr_ulb_binding *b;

	ask(false);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	cr_assert_eq(p.n, 2);
	is_pad(0, 44, first);
	is_pad(1, pos, pad_at(pos + first));
	b = rr_ulb_at(p.rec.binding);
	cr_assert(b && b->prog == NFS && b->vers == 3);
	cr_assert_eq(p.rec.proc, 7);
	cr_assert(p.rec.reduce);
	cr_assert_eq(p.rec.flavor, RR_AUTH_NONE);
	v3_write(99, 0, 99, 0);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	cr_assert_eq(p.n, 0);
}

Test(ulb_padding, what_is_there_is_found_where_it_is)
{
	uint32_t first = pad_at(44), pos = v3_write(100, first, 201, 0);

	cr_assert_neq(pad_at(pos), 0);
	v3_write(100, first, 201, pad_at(pos));
	ask(true);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	cr_assert_eq(p.n, 2);
	is_pad(0, 44, first);
	is_pad(1, pos, pad_at(pos));
}

Test(ulb_padding, all_of_the_call_must_be_walked)
{
	uint32_t len;

	v3_write(8, 0, 200, 0);
	len = m.n;
	ask(false);
	for (m.n = 0; m.n < len; m.n += 4)
		cr_assert_eq(pad_call(), RR_ULB_NONE, "%u", m.n);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	W(&m, 1);
	cr_assert_eq(pad_call(), RR_ULB_NONE);
	cr_assert_eq(p.n, 1);
}

Test(ulb_padding, what_security_hides_or_is_not_known_has_none)
{
	static const struct {
		uint32_t vers, proc, service;
		enum rr_ulb_rc rc;
	} gss[] = {
		{ 1, 0, 1, RR_ULB_OK }, { 1, 0, 2, RR_ULB_NONE }, { 1, 0, 3, RR_ULB_NONE },
		{ 1, 1, 1, RR_ULB_NONE }, { 1, 3, 1, RR_ULB_NONE }, { 4, 0, 1, RR_ULB_NONE },
	};

	ask(false);
	for (uint32_t i = 0; i < rr_array_size(gss); i++) {
		begin_gss(&m, 3, gss[i].vers, gss[i].proc, gss[i].service);
		set_proc(&m, 7);
		if (gss[i].service == 2)
			W(&m, 48, 99);
		add_opaque(&m, 8);
		W(&m, 0, 0, 9, 2);
		add_opaque(&m, 9);
		cr_assert_eq(pad_call(), gss[i].rc, "%u", i);
	}
	begin_gss(&m, 3, 1, 0, 1);
	set_proc(&m, 0);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	cr_assert(p.rec.flavor == RR_RPCSEC_GSS && p.rec.gss_service == 1);
	begin_gss(&m, 3, 1, 1, 1);
	set_proc(&m, 0);
	cr_assert_eq(pad_call(), RR_ULB_NONE);
	v3_write(8, 0, 9, 0);
	rr_put_be32(m.b + 24, 99);	/* flavor */
	cr_assert_eq(pad_call(), RR_ULB_NONE);
	begin_call(&m, NFS, 3, 0);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	cr_assert_eq(p.n, 0);
	begin_call(&m, NFS, 3, 1);	/* its arguments are in no table */
	add_opaque(&m, 8);
	cr_assert_eq(pad_call(), RR_ULB_NONE);
	begin_call(&m, NFS, 3, 22);
	cr_assert_eq(pad_call(), RR_ULB_NONE);
	begin_call(&m, 100004, 2, 0);
	cr_assert_eq(pad_call(), RR_ULB_NONE);
}

Test(ulb_padding, no_more_than_can_be_told)
{
	for (uint32_t n = RR_ULB_ITEMS; n <= RR_ULB_ITEMS + 1; n++) {
		begin_call(&m, NFS, 4, 1);
		W(&m, 0, 0, n);
		for (uint32_t i = 0; i < n; i++) {
			W(&m, 22);	/* PUTFH */
			add_opaque(&m, 100);
		}
		ask(false);
		cr_assert_eq(pad_call(), n == RR_ULB_ITEMS ? RR_ULB_OK : RR_ULB_NONE);
		cr_assert_eq(p.n, RR_ULB_ITEMS);
	}
}

/* 255 divides the largest offset, 64 does not. */
Test(ulb_padding, none_ends_beyond_the_largest_offset)
{
	uint32_t pos = v3_write(8, 0, 200, 0);

	for (uint32_t align = 64; align <= 255; align += 255 - 64) {
		ask(false);
		p.align = align;
		p.base = UINT32_MAX - pos - 10;
		cr_assert_eq(pad_call(), align == 255 ? RR_ULB_OK : RR_ULB_NONE);
	}
	is_pad(0, pos, 10);
}

/* --- replies ---------------------------------------------------------------------------- */

static struct rr_ulb_rec rec_of(uint32_t vers, uint32_t proc)
{
	begin_call(&m, NFS, vers, proc);
	if (vers == 4)
		W(&m, 0, 0, 0);
	else
		W(&m, 0, 0, 0, 200);
	ask(false);
	cr_assert_eq(pad_call(), RR_ULB_OK);
	return p.rec;
}

Test(ulb_padding, the_data_of_a_read_has_it)
{
	struct rr_ulb_rec rec = rec_of(3, 6), other;
	uint32_t len, pos = 24 + 4 + 4 + 8 + 4;

	begin_reply(&m, 0);
	W(&m, 0, 0, 200, 1);
	add_opaque(&m, 200);
	ask(false);
	cr_assert_eq(pad_reply(rec), RR_ULB_OK);
	cr_assert_eq(p.n, 1);
	is_pad(0, pos, pad_at(pos));
	cr_assert_eq(p.rec.binding, 0);
	len = m.n;
	for (m.n = 0; m.n < len; m.n += 4)
		cr_assert_eq(pad_reply(rec), RR_ULB_NONE, "%u", m.n);
	W(&m, 1);
	cr_assert_eq(pad_reply(rec), RR_ULB_NONE);
	m.n = len;
	other = rec;
	other.reduce = false;
	cr_assert_eq(pad_reply(other), RR_ULB_NONE);
	other = rec;
	other.binding = 0;
	cr_assert_eq(pad_reply(other), RR_ULB_NONE);
	other = rec;
	other.proc = 22;
	cr_assert_eq(pad_reply(other), RR_ULB_NONE);
}

Test(ulb_padding, a_reply_without_results_has_none_and_is_not_walked)
{
	struct rr_ulb_rec rec = rec_of(3, 6);

	m.n = 0;
	W(&m, 7, 1, 0, 0, 0, 2, 3, 3);	/* PROG_MISMATCH */
	cr_assert_eq(pad_reply(rec), RR_ULB_OK);
	m.n = 0;
	W(&m, 7, 1, 1, 0, 2, 2);	/* denied */
	cr_assert_eq(pad_reply(rec), RR_ULB_OK);
	cr_assert_eq(p.n, 0);
}

Test(ulb_padding, results_of_a_compound_are_results)
{
	struct rr_ulb_rec rec = rec_of(4, 1);

	begin_reply(&m, 0);
	W(&m, 0, 0, 1, 25, 0, 1);	/* READ */
	add_opaque(&m, 200);
	ask(false);
	cr_assert_eq(pad_reply(rec), RR_ULB_OK);
	cr_assert_eq(p.n, 1);
	is_pad(0, m.n - 200, pad_at(m.n - 200));
}
