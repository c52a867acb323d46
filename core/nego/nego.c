/* SPDX-License-Identifier: BSD-3-Clause */
/* Encodes and decodes the offer and its answer as RPC messages, and the end mark. It judges
 * bytes; it neither sends, nor waits, nor decides what to offer. */

#include <assert.h>

#include "core/nego/hello.h"
#include "core/nego/nego.h"
#include "core/wire/cursor.h"
#include "core/wire/recmark.h"
#include "core/wire/rpc.h"

/*
 * Offer                                  Answer
 *   0 mark: last | length                  0 mark: last | length
 *   4 xid                                  4 xid
 *   8 CALL, RPC version 2                  8 REPLY, MSG_ACCEPTED
 *  16 program, version 1, procedure 1     16 verifier AUTH_NONE, empty
 *  28 credential AUTH_NONE, empty         24 SUCCESS
 *  36 verifier AUTH_NONE, empty           28 magic
 *  44 magic                               36 version of the exchange
 *  52 version of the exchange             40 verdict
 *  56 fields: hello.h                     44 if chosen, or the offer asks: fields
 */
#define PROG_VERSION	1u
#define PROG_PROC	1u

#define OFFER_FIXED	56u
#define OFFER_MAGIC_AT	44u
#define ANSWER_FIXED	44u
#define ANSWER_MAGIC_AT	28u

enum { VERDICT_CHOSEN = 1, VERDICT_DECLINED = 2, VERDICT_ELSEWHERE = 3, VERDICT_ONE_HOST = 4 };

static const uint8_t magic[8] = { 'r', 'd', 'm', 'a', 'r', 'p', 'c', 0x0a };

static void put_magic(struct rr_wcur *c)
{
	uint8_t *p = rr_wcur_take(c, sizeof(magic));

	if (p)
		memcpy(p, magic, sizeof(magic));
}

/* Fills in the record mark. Returns the record's length, or 0 if it did not fit. */
static uint32_t finish_record(struct rr_wcur *c, uint8_t *buf)
{
	uint32_t len = (uint32_t)(c->p - buf);

	if (c->full)
		return 0;
	rr_rm_put(buf, len - RR_RM_HDR, true);
	return len;
}

/* The mark is put last, when the length is known; a cursor that was full gives length 0. */
uint32_t rr_nego_put_offer(const struct rr_hello *h, uint32_t program, uint32_t xid,
			   uint8_t *buf, uint32_t cap)
{
	struct rr_wcur c;

	rr_wcur_init(&c, buf, rr_min(cap, RR_OFFER_MAX));
	rr_put_u32(&c, 0);	/* the mark, later */
	rr_put_u32(&c, xid);
	rr_put_u32(&c, RR_RPC_CALL);
	rr_put_u32(&c, RR_RPC_VERSION);
	rr_put_u32(&c, program);
	rr_put_u32(&c, PROG_VERSION);
	rr_put_u32(&c, PROG_PROC);
	for (int i = 0; i < 2; i++) {	/* credential, verifier */
		rr_put_u32(&c, RR_AUTH_NONE);
		rr_put_u32(&c, 0);
	}
	put_magic(&c);
	rr_put_u32(&c, h->version);
	rr_hello_put(&c, h);
	return finish_record(&c, buf);
}

/* What all answers begin with. */
static void put_verdict(struct rr_wcur *c, uint32_t xid, uint32_t version, uint32_t verdict)
{
	rr_put_u32(c, 0);	/* the mark, later */
	rr_put_u32(c, xid);
	rr_put_u32(c, RR_RPC_REPLY);
	rr_put_u32(c, 0);	/* MSG_ACCEPTED */
	rr_put_u32(c, RR_AUTH_NONE);
	rr_put_u32(c, 0);
	rr_put_u32(c, 0);	/* SUCCESS */
	put_magic(c);
	rr_put_u32(c, version);
	rr_put_u32(c, verdict);
}

uint32_t rr_nego_put_answer(const struct rr_hello *h, uint32_t xid, uint8_t *buf, uint32_t cap)
{
	struct rr_wcur c;

	assert(h->nprov == 1);
	rr_wcur_init(&c, buf, rr_min(cap, RR_ANSWER_MAX));
	put_verdict(&c, xid, h->version, VERDICT_CHOSEN);
	rr_hello_put(&c, h);
	return finish_record(&c, buf);
}

uint32_t rr_nego_put_refusal(enum rr_nego no, uint32_t xid, const struct rr_hello *tell,
			     uint8_t *buf, uint32_t cap)
{
	struct rr_wcur c;

	rr_wcur_init(&c, buf, rr_min(cap, RR_ANSWER_MAX));
	put_verdict(&c, xid, RR_NEGO_VERSION, no == RR_NEGO_ELSEWHERE ? VERDICT_ELSEWHERE :
		    no == RR_NEGO_ONE_HOST ? VERDICT_ONE_HOST : VERDICT_DECLINED);
	if (tell && tell->release[0])
		rr_hello_put_told(&c, tell);
	return finish_record(&c, buf);
}

/* --- recognising an offer --- */

/* What every offer for this program has in common, from byte 8 on. The record mark before it
 * and the version behind it are judged separately; the xid may be anything. */
static void offer_pattern(uint32_t program, uint8_t *want)
{
	memset(want, 0, OFFER_MAGIC_AT);
	rr_put_be32(want + 12, RR_RPC_VERSION);
	rr_put_be32(want + 16, program);
	rr_put_be32(want + 20, PROG_VERSION);
	rr_put_be32(want + 24, PROG_PROC);
	memcpy(want + OFFER_MAGIC_AT, magic, sizeof(magic));
}

/* Can these bytes be the beginning of an offer's record mark? */
static bool mark_fits(const uint8_t *buf, size_t len)
{
	uint8_t hdr[RR_RM_HDR] = { 0x80 };	/* for when there is none */
	uint32_t frag;

	memcpy(hdr, buf, rr_min(len, sizeof(hdr)));
	frag = rr_be32(hdr) & ~RR_RM_LAST;
	if (!(hdr[0] & 0x80) || frag > RR_OFFER_MAX - RR_RM_HDR)
		return false;
	return len < RR_RM_HDR || (frag >= OFFER_FIXED - RR_RM_HDR && frag % 4 == 0);
}

/* Does every fixed byte that has arrived match? */
static bool offer_fits(const uint8_t *buf, size_t len, uint32_t program)
{
	uint8_t want[OFFER_MAGIC_AT + sizeof(magic)];
	size_t fixed = rr_min(len, sizeof(want));

	if (!mark_fits(buf, len))
		return false;
	offer_pattern(program, want);
	return fixed <= 8 || memcmp(buf + 8, want + 8, fixed - 8) == 0;
}

/* mark_fits() has held the length against OFFER_FIXED and RR_OFFER_MAX, so neither the
 * subtraction nor *need can go wrong. Bytes that fit but make no sense are the app's. */
enum rr_nego rr_nego_get_offer(const uint8_t *buf, size_t len, uint32_t program,
			       uint32_t *xid, struct rr_hello *h, uint32_t *need)
{
	struct rr_rcur c;

	if (!offer_fits(buf, len, program))
		return RR_NEGO_OTHER;
	*need = RR_RM_HDR;
	if (len < RR_RM_HDR)
		return RR_NEGO_PART;
	*need += rr_be32(buf) & ~RR_RM_LAST;
	if (len < *need)
		return RR_NEGO_PART;
	rr_rcur_init(&c, buf + OFFER_FIXED, *need - OFFER_FIXED);
	if (!rr_hello_get(&c, h))
		return RR_NEGO_OTHER;
	h->version = rr_be32(buf + OFFER_FIXED - 4);
	if (h->version == 0)
		return RR_NEGO_OTHER;
	*xid = rr_be32(buf + 4);
	return RR_NEGO_OURS;
}

/* --- recognising an answer --- */

/* Judges a record of len bytes in one fragment that is known to be a reply to our offer. */
static enum rr_nego judge_answer(const uint8_t *buf, uint32_t len, struct rr_hello *h)
{
	static const uint8_t accepted[ANSWER_MAGIC_AT - 12]; /* up to and with SUCCESS */
	struct rr_rcur c;
	uint32_t version, verdict;

	if (len < ANSWER_FIXED || len > RR_ANSWER_MAX ||
	    memcmp(buf + 12, accepted, sizeof(accepted)) != 0 ||
	    memcmp(buf + ANSWER_MAGIC_AT, magic, sizeof(magic)) != 0)
		return RR_NEGO_NO;
	version = rr_be32(buf + ANSWER_MAGIC_AT + sizeof(magic));
	verdict = rr_be32(buf + ANSWER_FIXED - 4);
	rr_rcur_init(&c, buf + ANSWER_FIXED, len - ANSWER_FIXED);
	if (!rr_hello_get(&c, h))
		memset(h, 0, sizeof(*h));	/* so it has chosen nothing */
	if (verdict == VERDICT_ELSEWHERE)
		return RR_NEGO_ELSEWHERE;
	if (verdict == VERDICT_ONE_HOST)
		return RR_NEGO_ONE_HOST;
	if (verdict != VERDICT_CHOSEN || version == 0 || h->nprov != 1)
		return RR_NEGO_DECLINED;
	h->version = version;
	return RR_NEGO_OURS;
}

/* A walk over the fragments of one record that compares the first eight bytes of its payload
 * with our xid and REPLY, however many fragments they are spread over. */
struct walk {
	struct rr_rm rm;
	uint8_t want[8];
	uint32_t matched;	/* bytes of want */
	size_t at;
	bool one_fragment;
};

/* Takes the next piece of the record: a header, or data up to the end of its fragment or of
 * what is there. False: the record has ended, or other bytes are in it. */
static bool walk_on(struct walk *w, const uint8_t *buf, size_t len)
{
	bool inside = w->rm.in_record;
	enum rr_rm_what what;
	size_t n, look;

	what = rr_rm_next(&w->rm, buf + w->at, len - w->at, &n);
	if (what == RR_RM_FRAGMENT)
		w->one_fragment = !inside;
	if (what == RR_RM_DATA || what == RR_RM_RECORD) {
		look = rr_min(n, sizeof(w->want) - w->matched);
		if (memcmp(buf + w->at, w->want + w->matched, look) != 0)
			return false;
		w->matched += (uint32_t)look;
	}
	w->at += n;
	return what != RR_RM_RECORD;
}

/* How many bytes, counted from the start of the record, must be there for the walk to make
 * progress: the rest of the fragment header, or of the bytes to be compared as far as this
 * fragment holds them, or of the fragment. */
static uint32_t walk_need(const struct walk *w)
{
	uint64_t more = w->rm.left;

	if (more == 0)
		more = RR_RM_HDR - w->rm.have;
	else if (w->matched < sizeof(w->want))
		more = rr_min(more, (uint64_t)(sizeof(w->want) - w->matched));
	return (uint32_t)rr_min(w->at + more, (uint64_t)UINT32_MAX);
}

enum rr_nego rr_nego_get_answer(const uint8_t *buf, size_t len, uint32_t xid,
				struct rr_hello *h, uint32_t *need)
{
	struct walk w = { .one_fragment = true };
	bool more = true;

	rr_put_be32(w.want, xid);
	rr_put_be32(w.want + 4, RR_RPC_REPLY);
	while (more && (w.at < len || (w.rm.last && w.rm.left == 0))) {
		more = walk_on(&w, buf, len);
		/* no RPC peer splits eight bytes into this many tiny fragments */
		if (w.matched < sizeof(w.want) && walk_need(&w) > RR_ANSWER_MAX)
			return RR_NEGO_OTHER;
	}
	if (more) {
		*need = walk_need(&w);
		return RR_NEGO_PART;
	}
	if (w.matched < sizeof(w.want))		/* or another byte was found */
		return RR_NEGO_OTHER;
	*need = (uint32_t)w.at;
	return w.one_fragment ? judge_answer(buf, *need, h) : RR_NEGO_NO;
}

/* --- dialects --- */

/* Each set has four bytes at most, so all pairs are tried, in the order of the offer. */
bool rr_dialects_choose(uint32_t offered, uint32_t ours, enum rr_dialect *d)
{
	if (!offered)
		offered = rr_dialects_add(0, RR_DIALECT_V1);
	for (uint32_t i = 0; i < 32; i += 8)
		for (uint32_t k = 0; k < 32; k += 8) {
			uint32_t one = offered >> (24 - i) & 0xff;

			if (one && one == (ours >> k & 0xff)) {
				*d = (enum rr_dialect)(one - 1);
				return true;
			}
		}
	return false;
}

/* --- the end mark --- */

void rr_nego_put_mark(uint8_t out[RR_MARK_LEN], const uint8_t token[RR_TOKEN_LEN],
		      uint64_t records)
{
	memcpy(out, token, RR_TOKEN_LEN);
	rr_put_be64(out + RR_TOKEN_LEN, records);
}

/* RR_MARK_LEN bytes are there. The number is the peer's. */
bool rr_nego_get_mark(const uint8_t *buf, const uint8_t token[RR_TOKEN_LEN], uint64_t *records)
{
	if (memcmp(buf, token, RR_TOKEN_LEN) != 0)
		return false;
	*records = rr_be64(buf + RR_TOKEN_LEN);
	return true;
}
