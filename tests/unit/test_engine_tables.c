/* SPDX-License-Identifier: BSD-3-Clause */
/* How much of everything an engine has (core/engine/engine_init.c): what its parameters promise has room, and nothing is beyond what an
 * index can name. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "core/engine/engine_int.h"
#include "tests/lib/oneside.h"

static const uint32_t credits[] = { 1, 2, 7, 32, 200, 2000, RR_TABLE_MAX, 100000 };
static struct one o;

static void start(uint32_t caps, bool connector, uint32_t n, uint32_t back, uint32_t recvs)
{
	one_params(&o, caps, connector);
	o.p.credits = n;
	o.p.bc_credits = back;
	o.p.recvs = recvs;
	o.p.invalidate = false;
	one_start(&o);
}

static uint32_t most(uint32_t n)
{
	return rr_min(n, RR_TABLE_MAX);
}

static void assert_room(uint32_t asked, uint32_t granted, uint32_t recvs)
{
	const struct rr_eng_tables *t = &o.e->tables;
	uint32_t all = t->calls.n + t->serves.n + t->shown.n + t->ins.n + t->txs.n;

	cr_assert_eq(t->calls.n, most(rr_max(asked, o.e->ring ? 16u : 1u)));
	cr_assert_eq(t->serves.n, most(granted + (o.e->ring ? 64 : asked + 16)));
	cr_assert_eq(t->shown.n, RR_ENG_SHOWN);
	cr_assert_eq(t->ins.n, most(2 * recvs + RR_ENG_SHOWN + 16), "of each receive the message, and what is to be said of it");
	cr_assert_eq(t->txs.n, most(t->calls.n + t->serves.n + 16u));
	/* Nobody says when they are taken: three fences and a release, of the entries that have the most. */
	cr_assert_geq(t->ops_cap, 4 * all);
	cr_assert_lt(t->ops_cap, 8 * all);
	cr_assert_eq(t->ops_cap & (t->ops_cap - 1), 0, "what is a mask");
}

Test(engine_tables, there_is_room_for_what_the_parameters_promise)
{
	static const uint32_t caps[] = { 0, RR_CAP_RELIABLE_REPLY, RR_CAP_RING_CREDITS, RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS };

	for (size_t i = 0; i < rr_array_size(credits); i++)
		for (size_t j = 0; j < rr_array_size(credits); j++)
			for (size_t k = 0; k < 2 * rr_array_size(caps); k++) {
				bool connector = k & 1;
				uint32_t n = credits[i], back = credits[j];

				start(caps[k / 2], connector, n, back, 0);
				assert_room(connector ? n : back, connector ? back : n, rr_eng_recvs(&o.p));
				one_fini(&o);
				start(caps[k / 2], connector, n, back, 500);
				assert_room(connector ? n : back, connector ? back : n, 500);
				one_fini(&o);
			}
}

/* As many segments as there may be in all chunks, which the tables of headers bound. */
Test(engine_tables, there_is_room_for_as_many_segments_as_are_allowed)
{
	static const struct { uint32_t chunks, segs, serve, in; } of[] = {
		{ 1, 1, 1, 1 }, { 4, 2, 8, 8 }, { 2, 8, 16, 16 }, { 1, 1000, RR_OP_MAX_SEGS, RR_OP_MAX_SEGS },
		{ 1000, 1, RR_MAX_SEGS, RR_OP_MAX_SEGS }, { UINT32_MAX, UINT32_MAX, RR_MAX_SEGS, RR_OP_MAX_SEGS },
	};

	for (size_t i = 0; i < rr_array_size(of); i++) {
		one_params(&o, 0, false);
		o.p.max_chunks = of[i].chunks;
		o.p.max_segs = of[i].segs;
		one_start(&o);
		cr_assert_geq(o.e->tables.serves.stride, sizeof(struct rr_serve) + of[i].serve * sizeof(struct rr_seg), "%zu", i);
		cr_assert_lt(o.e->tables.serves.stride, sizeof(struct rr_serve) + of[i].serve * sizeof(struct rr_seg) + 16, "%zu", i);
		cr_assert_geq(o.e->tables.ins.stride, sizeof(struct rr_in) + of[i].in * sizeof(struct rr_seg), "%zu", i);
		cr_assert_lt(o.e->tables.ins.stride, sizeof(struct rr_in) + of[i].in * sizeof(struct rr_seg) + 16, "%zu", i);
		cr_assert_eq(o.e->tables.in_segs, of[i].in);
		one_fini(&o);
	}
}

static struct rr_hdr_sizes sizes_in(enum rr_dialect dialect)
{
	struct rr_hdr_sizes s;

	one_params(&o, 0, true);
	o.p.dialect = dialect;
	one_start(&o);
	s = o.e->hdr;
	cr_assert_eq(o.e->hdr_returned, s.min);
	one_fini(&o);
	return s;
}

/* What chunks of the most segments add to a header: told by what is encoded. */
static void assert_sizes(const struct rr_hdr_sizes *s, const struct rr_codec *codec)
{
	static uint8_t buf[4096];
	static struct rr_msg m;

	rr_msg_init(&m, RR_MSG, 0, codec->version, 1);
	cr_assert_eq(codec->encode(&m, buf, sizeof(buf)), s->min);
	m.ch.nreads = RR_ENG_SEGS;
	cr_assert_eq(codec->encode(&m, buf, sizeof(buf)), s->min + s->read);
	m.ch.nreads = 0;
	m.ch.has_reply = true;
	m.ch.reply.nsegs = m.ch.nsegs = RR_ENG_SEGS;
	cr_assert_eq(codec->encode(&m, buf, sizeof(buf)), s->min + s->reply);
	m.ch.has_reply = false;
	m.ch.nwrites = 1;
	m.ch.writes[0] = m.ch.reply;
	cr_assert_eq(codec->encode(&m, buf, sizeof(buf)), s->min + s->write);
}

Test(engine_tables, header_sizes_are_those_of_the_codec_whichever_came_first)
{
	for (int i = 0; i < 3; i++) {
		struct rr_hdr_sizes one = sizes_in(RR_DIALECT_V1), two = sizes_in(RR_DIALECT_V2);

		assert_sizes(&one, rr_codec_first(RR_DIALECT_V1));
		assert_sizes(&two, rr_codec_first(RR_DIALECT_V2));
		cr_assert_gt(two.min, one.min);
	}
}

/* A page that a connection of a few short calls needs not have. */
Test(engine_tables, who_starts_as_others_have_leaves_its_scratch_memory_alone)
{
	sizes_in(RR_DIALECT_V1);
	one_init(&o, 0, true);
	for (size_t i = 0; i < sizeof(*o.e->tmp); i++)
		cr_assert_eq(((const uint8_t *)o.e->tmp)[i], 0, "%zu", i);
	one_fini(&o);
}
