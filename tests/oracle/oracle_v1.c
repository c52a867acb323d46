/* SPDX-License-Identifier: BSD-3-Clause */
/* req: rfc8166 4 #1 */
/* core/wire's version 1 codec against rpcgen's: the same bytes from the same header, the
 * same header from the same bytes, and the same verdict on spoiled ones. */
#include "core/wire/codec.h"
#include "oracle/rpcrdma1.h"
#include "tests/lib/msgs.h"
#include "tests/oracle/oracle.h"

#define ROUNDS	4000
#define BUF	8192u

static const struct rr_codec *v1;

/* --- struct rr_msg → rpcgen's, in static storage --- */

static struct xdr_read_list read_nodes[RR_MAX_SEGS];
static struct xdr_write_list write_nodes[RR_MAX_WRITE_CHUNKS];
static struct xdr_write_chunk reply_node;
static struct xdr_rdma_segment seg_nodes[RR_MAX_SEGS];

static struct xdr_rdma_segment to_seg(const struct rr_seg *s)
{
	return (struct xdr_rdma_segment){ s->handle, s->length, s->offset };
}

static struct xdr_write_chunk to_wchunk(const struct rr_wchunk *w)
{
	struct xdr_write_chunk out = { .target = { w->nsegs, seg_nodes + w->first } };

	return out;
}

static struct rpc_rdma_header to_lists(const struct rr_chunks *ch)
{
	struct rpc_rdma_header out = { NULL, NULL, NULL };

	for (uint32_t i = 0; i < ch->nsegs; i++)
		seg_nodes[i] = to_seg(&ch->segs[i]);
	for (uint32_t i = ch->nreads; i--;) {
		read_nodes[i].entry.position = ch->reads[i].position;
		read_nodes[i].entry.target = to_seg(&ch->reads[i].seg);
		read_nodes[i].next = out.rdma_reads;
		out.rdma_reads = &read_nodes[i];
	}
	for (uint32_t i = ch->nwrites; i--;) {
		write_nodes[i].entry = to_wchunk(&ch->writes[i]);
		write_nodes[i].next = out.rdma_writes;
		out.rdma_writes = &write_nodes[i];
	}
	if (ch->has_reply) {
		reply_node = to_wchunk(&ch->reply);
		out.rdma_reply = &reply_node;
	}
	return out;
}

static rdma_msg to_xdr(const struct rr_msg *m)
{
	struct rpc_rdma_header h = to_lists(&m->ch);
	rdma_msg out = { .rdma_xid = m->xid, .rdma_vers = m->vers, .rdma_credit = m->credit };
	rdma_body *b = &out.rdma_body;

	switch (m->type) {
	case RR_MSG:
		b->proc = RDMA_MSG;
		b->rdma_body_u.rdma_msg = h;
		break;
	case RR_NOMSG:
		b->proc = RDMA_NOMSG;
		b->rdma_body_u.rdma_nomsg = (struct rpc_rdma_header_nomsg){
			h.rdma_reads, h.rdma_writes, h.rdma_reply };
		break;
	case RR_MSGP:
		b->proc = RDMA_MSGP;
		b->rdma_body_u.rdma_msgp = (struct rpc_rdma_header_padded){
			m->align, m->thresh, h.rdma_reads, h.rdma_writes, h.rdma_reply };
		break;
	case RR_DONE:
		b->proc = RDMA_DONE;
		break;
	default:
		b->proc = RDMA_ERROR;
		b->rdma_body_u.rdma_error.err = (rpc_rdma_errcode)m->err;
		b->rdma_body_u.rdma_error.rpc_rdma_error_u.range =
			(rpc_rdma_errvers){ m->vers_low, m->vers_high };
	}
	return out;
}

/* --- rpcgen's → struct rr_msg; false if it is above our limits or breaks a rule that XDR
 * does not know (a position that is no multiple of four) --- */

static struct rr_seg from_seg(const struct xdr_rdma_segment *s)
{
	return (struct rr_seg){ s->handle, s->length, s->offset };
}

static bool from_wchunk(const struct xdr_write_chunk *in, struct rr_chunks *ch, struct rr_wchunk *w)
{
	if (in->target.target_len > RR_MAX_SEGS - ch->nsegs)
		return false;
	w->first = ch->nsegs;
	w->nsegs = (uint16_t)in->target.target_len;
	for (uint32_t i = 0; i < in->target.target_len; i++)
		ch->segs[ch->nsegs++] = from_seg(&in->target.target_val[i]);
	return true;
}

static bool from_lists(const struct rpc_rdma_header *in, struct rr_chunks *ch)
{
	for (struct xdr_read_list *r = in->rdma_reads; r; r = r->next) {
		if (ch->nreads == RR_MAX_SEGS || r->entry.position % 4)
			return false;
		ch->reads[ch->nreads].position = r->entry.position;
		ch->reads[ch->nreads++].seg = from_seg(&r->entry.target);
	}
	for (struct xdr_write_list *w = in->rdma_writes; w; w = w->next)
		if (ch->nwrites == RR_MAX_WRITE_CHUNKS ||
		    !from_wchunk(&w->entry, ch, &ch->writes[ch->nwrites++]))
			return false;
	ch->has_reply = in->rdma_reply;
	return !in->rdma_reply || from_wchunk(in->rdma_reply, ch, &ch->reply);
}

static bool from_xdr(const rdma_msg *in, struct rr_msg *m)
{
	static const enum rr_htype types[] = { RR_MSG, RR_NOMSG, RR_MSGP, RR_DONE, RR_ERROR };
	const rdma_body *b = &in->rdma_body;
	struct rpc_rdma_header h = { NULL, NULL, NULL };
	rpc_rdma_errvers r;

	rr_msg_init(m, types[b->proc], in->rdma_xid, in->rdma_vers, in->rdma_credit);
	switch (b->proc) {
	case RDMA_MSG:
		h = b->rdma_body_u.rdma_msg;
		break;
	case RDMA_NOMSG:
		h = (struct rpc_rdma_header){ b->rdma_body_u.rdma_nomsg.rdma_reads,
					      b->rdma_body_u.rdma_nomsg.rdma_writes,
					      b->rdma_body_u.rdma_nomsg.rdma_reply };
		if (!h.rdma_reads && !h.rdma_writes && !h.rdma_reply)
			return false;	/* §4.2.4 */
		break;
	case RDMA_MSGP:
		m->align = b->rdma_body_u.rdma_msgp.rdma_align;
		m->thresh = b->rdma_body_u.rdma_msgp.rdma_thresh;
		h = (struct rpc_rdma_header){ b->rdma_body_u.rdma_msgp.rdma_reads,
					      b->rdma_body_u.rdma_msgp.rdma_writes,
					      b->rdma_body_u.rdma_msgp.rdma_reply };
		break;
	case RDMA_DONE:
		break;
	case RDMA_ERROR:
		m->err = b->rdma_body_u.rdma_error.err;
		if (m->err == RR_ERR_VERS) {
			r = b->rdma_body_u.rdma_error.rpc_rdma_error_u.range;
			m->vers_low = r.rdma_vers_low;
			m->vers_high = r.rdma_vers_high;
		}
	}
	return from_lists(&h, &m->ch);
}

/* --- libtirpc --- */

static uint32_t xdr_out(rdma_msg *in, uint8_t *buf, uint32_t cap)
{
	XDR x;

	xdrmem_create(&x, (char *)buf, cap, XDR_ENCODE);
	return xdr_rdma_msg(&x, in) ? xdr_getpos(&x) : 0;
}

/* Decodes into *out, to be freed with xdr_free() either way; its length, 0 if malformed. */
static uint32_t xdr_in(const uint8_t *buf, uint32_t len, rdma_msg *out)
{
	XDR x;

	memset(out, 0, sizeof(*out));
	xdrmem_create(&x, (char *)(uintptr_t)buf, len, XDR_DECODE);
	return xdr_rdma_msg(&x, out) ? xdr_getpos(&x) : 0;
}

/* libtirpc takes any non-zero word as "true", which RFC 4506 does not: only what it would
 * write itself counts as well-formed. */
static bool canonical(rdma_msg *in, const uint8_t *buf, uint32_t len)
{
	static uint8_t again[BUF + 4096];

	return xdr_out(in, again, sizeof(again)) == len && memcmp(again, buf, len) == 0;
}

/* Both decoders on the same bytes: what ours takes the other takes, as the same; what the
 * other takes in its one canonical form and within our limits ours takes. */
static void compare_decoders(const uint8_t *buf, uint32_t len)
{
	static struct rr_msg ours, theirs;
	rdma_msg x;
	uint8_t *p = tight(buf, len);
	uint32_t used = xdr_in(p, len, &x);
	bool legal = used && canonical(&x, p, used) && from_xdr(&x, &theirs) && x.rdma_vers == 1;
	enum rr_wire_rc rc = v1->decode(p, len, &ours);

	if (rc == RR_WIRE_OK) {
		check(legal);
		check(used == ours.hdr_len);
		check(msg_equal(&ours, &theirs));
	} else {
		check(!legal);
	}
	xdr_free((xdrproc_t)xdr_rdma_msg, (char *)&x);
	free(p);
}

static void compare_encoders(uint64_t *seed, struct rr_msg *m, uint8_t *buf, uint32_t *len)
{
	uint8_t theirs[BUF];
	rdma_msg x;

	msg_random(seed, m);
	x = to_xdr(m);
	*len = v1->encode(m, buf, BUF);
	check(*len > 0 && *len == v1->size(m));
	check(xdr_out(&x, theirs, sizeof(theirs)) == *len);
	check(memcmp(buf, theirs, *len) == 0);
}

/* Changes a word: to a small number, which is what discriminators and counts are, or by
 * some low bits. */
static void spoil(uint64_t *seed, uint8_t *buf, uint32_t len)
{
	uint8_t *p = buf + 4 * rng_below(seed, len / 4);

	if (rng_below(seed, 2))
		rr_put_be32(p, rng_below(seed, 6));
	else
		p[3] ^= (uint8_t)rng_next(seed);
}

int main(void)
{
	static struct rr_msg m;
	static uint8_t buf[BUF];

	v1 = rr_codec_find(1, RR_DIALECT_V1);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t seed = round_seed = i;
		uint32_t len;

		compare_encoders(&seed, &m, buf, &len);
		compare_decoders(buf, len);
		compare_decoders(buf, rng_below(&seed, len));
		for (int k = 0; k < 4; k++) {
			spoil(&seed, buf, len);
			compare_decoders(buf, len);
		}
	}
	printf("%d headers\n", ROUNDS);
	return 0;
}
