/* SPDX-License-Identifier: BSD-3-Clause */
/* req: version-two-08 5.2 #1 */
/* core/wire's version 2 codec against rpcgen's: the same bytes from the same header, the
 * same header from the same bytes, and the same verdict on spoiled ones. Prefix and body are
 * XDR objects of their own, and property values opaque: what combines them is written here
 * once more (version-two-08 §6.5). */
#include "core/wire/v2.h"
#include "oracle/rpcrdma2_base.h"
#include "oracle/rpcrdma2_done.h"
#include "tests/lib/msgs.h"
#include "tests/oracle/oracle.h"

#define ROUNDS	4000
#define BUF	8192u

static const struct rr_codec *v2;

/* Any header of version 2, as rpcgen sees it. */
struct header {
	struct rpcrdma2_hdr_prefix prefix;
	union {
		struct rpcrdma2_msg msg;
		struct rpcrdma2_nomsg nomsg;
		rpcrdma2_error error;
		struct rpcrdma2_connprop connprop;
	};
};

static bool xdr_header(XDR *x, struct header *h)
{
	if (!xdr_rpcrdma2_hdr_prefix(x, &h->prefix))
		return false;
	switch (h->prefix.rdma_start.rdma_htype) {
	case RDMA2_MSG:
		return xdr_rpcrdma2_msg(x, &h->msg);
	case RDMA2_NOMSG:
		return xdr_rpcrdma2_nomsg(x, &h->nomsg);
	case RDMA2_ERROR:
		return xdr_rpcrdma2_error(x, &h->error);
	case RDMA2_CONNPROP:
		return xdr_rpcrdma2_connprop(x, &h->connprop);
	default:
		return h->prefix.rdma_start.rdma_htype == RDMA2_DONE;
	}
}

static uint32_t xdr_out(struct header *h, uint8_t *buf, uint32_t cap)
{
	XDR x;

	xdrmem_create(&x, (char *)buf, cap, XDR_ENCODE);
	return xdr_header(&x, h) ? xdr_getpos(&x) : 0;
}

/* Decodes into *h, to be freed with xdr_done() either way; its length, 0 if malformed. */
static uint32_t xdr_in(const uint8_t *buf, uint32_t len, struct header *h)
{
	XDR x;

	memset(h, 0, sizeof(*h));
	xdrmem_create(&x, (char *)(uintptr_t)buf, len, XDR_DECODE);
	return xdr_header(&x, h) ? xdr_getpos(&x) : 0;
}

static void xdr_done(struct header *h)
{
	XDR x = { .x_op = XDR_FREE };

	(void)xdr_header(&x, h);
}

/* --- struct rr_msg → rpcgen's, in static storage --- */

static struct rpcrdma2_read_list read_nodes[RR_MAX_SEGS];
static struct rpcrdma2_write_list write_nodes[RR_MAX_WRITE_CHUNKS];
static struct rpcrdma2_write_chunk reply_node;
static struct rpcrdma2_segment seg_nodes[RR_MAX_SEGS];
static struct rpcrdma2_propval prop_nodes[RR_PROP_N];
static char prop_data[RR_PROP_N][4];

static struct rpcrdma2_segment to_seg(const struct rr_seg *s)
{
	return (struct rpcrdma2_segment){ s->handle, s->length, s->offset };
}

static struct rpcrdma2_write_chunk to_wchunk(const struct rr_wchunk *w)
{
	return (struct rpcrdma2_write_chunk){ { w->nsegs, seg_nodes + w->first } };
}

static struct rpcrdma2_chunk_lists to_lists(const struct rr_msg *m)
{
	struct rpcrdma2_chunk_lists out = { .rdma_inv_handle = m->inv_handle };
	const struct rr_chunks *ch = &m->ch;

	for (uint32_t i = 0; i < ch->nsegs; i++)
		seg_nodes[i] = to_seg(&ch->segs[i]);
	for (uint32_t i = ch->nreads; i--;) {
		read_nodes[i].rdma_entry.rdma_position = ch->reads[i].position;
		read_nodes[i].rdma_entry.rdma_target = to_seg(&ch->reads[i].seg);
		read_nodes[i].rdma_next = out.rdma_reads;
		out.rdma_reads = &read_nodes[i];
	}
	for (uint32_t i = ch->nwrites; i--;) {
		write_nodes[i].rdma_entry = to_wchunk(&ch->writes[i]);
		write_nodes[i].rdma_next = out.rdma_writes;
		out.rdma_writes = &write_nodes[i];
	}
	if (ch->has_reply) {
		reply_node = to_wchunk(&ch->reply);
		out.rdma_reply = &reply_node;
	}
	return out;
}

static rpcrdma2_error to_error(const struct rr_msg *m)
{
	rpcrdma2_error out = { .rdma_err = m->err };

	switch (m->err) {
	case RDMA2_ERR_VERS:
		out.rpcrdma2_error_u.rdma_vrange = (rpcrdma2_err_vers){ m->vers_low, m->vers_high };
		break;
	case RDMA2_ERR_READ_CHUNKS:
	case RDMA2_ERR_WRITE_CHUNKS:
		out.rpcrdma2_error_u.rdma_max_chunks = m->limit;
		break;
	case RDMA2_ERR_SEGMENTS:
		out.rpcrdma2_error_u.rdma_max_segments = m->limit;
		break;
	case RDMA2_ERR_WRITE_RESOURCE:
		out.rpcrdma2_error_u.rdma_writeres = (rpcrdma2_err_write){ m->chunk, m->needed };
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		out.rpcrdma2_error_u.rdma_length_needed = m->needed;
	}
	return out;
}

static const uint32_t propids[RR_PROP_N] = {
	RDMA2_PROPID_RBSIZ, RDMA2_PROPID_BRS, RDMA2_PROPID_DONE,
};

static bool xdr_value(XDR *x, uint32_t id, uint32_t *v)
{
	switch (id) {
	case RDMA2_PROPID_RBSIZ:
		return xdr_rpcrdma2_prop_rbsiz(x, v);
	case RDMA2_PROPID_BRS:
		return xdr_rpcrdma2_prop_brs(x, (rpcrdma2_prop_brs *)v) &&
		       *v <= RDMA2_RVREQSUP_GENL;
	default:
		return xdr_rpcrdma2_prop_done(x, (rpcrdma2_prop_done *)v) &&
		       *v <= RDMA2_DONE_YES;
	}
}

static rpcrdma2_propset to_props(const struct rr_props *p)
{
	rpcrdma2_propset out = { 0, prop_nodes };
	XDR x;

	for (uint32_t i = 0; i < RR_PROP_N; i++) {
		uint32_t v = p->value[i];

		if (!(p->given >> i & 1))
			continue;
		xdrmem_create(&x, prop_data[i], 4, XDR_ENCODE);
		check(xdr_value(&x, propids[i], &v));
		prop_nodes[out.rpcrdma2_propset_len++] = (struct rpcrdma2_propval){
			propids[i], { xdr_getpos(&x), prop_data[i] } };
	}
	return out;
}

static struct header to_xdr(const struct rr_msg *m)
{
	struct header h = { .prefix = { { m->xid, m->vers, m->credit, 0 },
					m->dir == RR_DIR_REPLY ? RPCRDMA2_F_RESPONSE : 0 } };
	uint32_t *htype = &h.prefix.rdma_start.rdma_htype;

	switch (m->type) {
	case RR_MSG:
		*htype = RDMA2_MSG;
		h.msg.rdma_chunks = to_lists(m);
		h.msg.rdma_rpc_first_word = m->xid;
		break;
	case RR_NOMSG:
		*htype = RDMA2_NOMSG;
		h.nomsg.rdma_chunks = to_lists(m);
		break;
	case RR_CONNPROP:
		*htype = RDMA2_CONNPROP;
		h.connprop.rdma_props = to_props(&m->props);
		break;
	case RR_DONE:
		*htype = RDMA2_DONE;
		break;
	default:
		*htype = RDMA2_ERROR;
		h.error = to_error(m);
	}
	return h;
}

/* --- rpcgen's → struct rr_msg; false if it is above our limits or breaks a rule that XDR
 * does not know --- */

static struct rr_seg from_seg(const struct rpcrdma2_segment *s)
{
	return (struct rr_seg){ s->rdma_handle, s->rdma_length, s->rdma_offset };
}

static bool from_wchunk(const struct rpcrdma2_write_chunk *in, struct rr_chunks *ch,
			struct rr_wchunk *w)
{
	uint32_t n = in->rdma_target.rdma_target_len;

	if (n > RR_MAX_SEGS - ch->nsegs)
		return false;
	w->first = ch->nsegs;
	w->nsegs = (uint16_t)n;
	for (uint32_t i = 0; i < n; i++)
		ch->segs[ch->nsegs++] = from_seg(&in->rdma_target.rdma_target_val[i]);
	return true;
}

static bool from_lists(const struct rpcrdma2_chunk_lists *in, struct rr_msg *m)
{
	struct rr_chunks *ch = &m->ch;

	m->inv_handle = in->rdma_inv_handle;
	for (struct rpcrdma2_read_list *r = in->rdma_reads; r; r = r->rdma_next) {
		if (ch->nreads == RR_MAX_SEGS || r->rdma_entry.rdma_position % 4)
			return false;
		ch->reads[ch->nreads].position = r->rdma_entry.rdma_position;
		ch->reads[ch->nreads++].seg = from_seg(&r->rdma_entry.rdma_target);
	}
	for (struct rpcrdma2_write_list *w = in->rdma_writes; w; w = w->rdma_next)
		if (ch->nwrites == RR_MAX_WRITE_CHUNKS ||
		    !from_wchunk(&w->rdma_entry, ch, &ch->writes[ch->nwrites++]))
			return false;
	ch->has_reply = in->rdma_reply;
	return !in->rdma_reply || from_wchunk(in->rdma_reply, ch, &ch->reply);
}

static void from_error(const rpcrdma2_error *in, struct rr_msg *m)
{
	m->err = in->rdma_err;
	switch (m->err) {
	case RDMA2_ERR_VERS:
		m->vers_low = in->rpcrdma2_error_u.rdma_vrange.rdma_vers_low;
		m->vers_high = in->rpcrdma2_error_u.rdma_vrange.rdma_vers_high;
		break;
	case RDMA2_ERR_READ_CHUNKS:
	case RDMA2_ERR_WRITE_CHUNKS:
		m->limit = in->rpcrdma2_error_u.rdma_max_chunks;
		break;
	case RDMA2_ERR_SEGMENTS:
		m->limit = in->rpcrdma2_error_u.rdma_max_segments;
		break;
	case RDMA2_ERR_WRITE_RESOURCE:
		m->chunk = in->rpcrdma2_error_u.rdma_writeres.rdma_chunk_index;
		m->needed = in->rpcrdma2_error_u.rdma_writeres.rdma_length_needed;
		break;
	case RDMA2_ERR_REPLY_RESOURCE:
		m->needed = in->rpcrdma2_error_u.rdma_length_needed;
	}
}

static bool from_propval(const struct rpcrdma2_propval *in, struct rr_props *p)
{
	for (uint32_t i = 0; i < RR_PROP_N; i++) {
		uint32_t v = p->value[i], len = in->rdma_data.rdma_data_len;
		XDR x;

		if (in->rdma_which != propids[i])
			continue;
		if (len == 0) {	/* §4.1: the default */
			struct rr_props d;

			rr_props_init(&d);
			rr_props_set(p, i, d.value[i]);
			return true;
		}
		xdrmem_create(&x, in->rdma_data.rdma_data_val, len, XDR_DECODE);
		if (!xdr_value(&x, propids[i], &v) || xdr_getpos(&x) != len)
			return false;
		rr_props_set(p, i, v);
		return true;
	}
	p->unknown++;
	return true;
}

static bool from_props(const rpcrdma2_propset *in, struct rr_props *p)
{
	rr_props_init(p);
	for (uint32_t i = 0; i < in->rpcrdma2_propset_len; i++)
		if (!from_propval(&in->rpcrdma2_propset_val[i], p))
			return false;
	return true;
}

static bool from_body(const struct header *h, struct rr_msg *m)
{
	switch (h->prefix.rdma_start.rdma_htype) {
	case RDMA2_MSG:
		m->type = RR_MSG;
		return from_lists(&h->msg.rdma_chunks, m);
	case RDMA2_NOMSG:
		m->type = RR_NOMSG;
		return from_lists(&h->nomsg.rdma_chunks, m) &&
		       (m->ch.nreads || m->ch.nwrites || m->ch.has_reply);
	case RDMA2_ERROR:
		m->type = RR_ERROR;
		from_error(&h->error, m);
		return m->dir == RR_DIR_REPLY;
	case RDMA2_CONNPROP:
		m->type = RR_CONNPROP;
		return from_props(&h->connprop.rdma_props, &m->props);
	default:
		m->type = RR_DONE;
		return m->dir == RR_DIR_CALL;
	}
}

static bool from_xdr(const struct header *h, struct rr_msg *m)
{
	const struct rpcrdma_common *c = &h->prefix.rdma_start;

	rr_msg_init(m, RR_HTYPE_OTHER, c->rdma_xid, c->rdma_vers, c->rdma_credit);
	m->dir = h->prefix.rdma_flags & RPCRDMA2_F_RESPONSE ? RR_DIR_REPLY : RR_DIR_CALL;
	if (c->rdma_vers != 2 || h->prefix.rdma_flags > RPCRDMA2_F_RESPONSE)
		return false;
	return from_body(h, m);
}

/* --- comparing --- */

/* libtirpc takes any non-zero word as "true", which RFC 4506 does not: only what it would
 * write itself counts as well-formed. It need not be so in what fills up a property. */
static bool canonical(struct header *h, const uint8_t *buf, uint32_t len)
{
	static uint8_t again[BUF + 4096];

	return h->prefix.rdma_start.rdma_htype == RDMA2_CONNPROP ||
	       (xdr_out(h, again, sizeof(again)) == len && memcmp(again, buf, len) == 0);
}

/* Version 1's ERR_VERS has this length, and no definition here. */
static bool may_be_version_one(const uint8_t *buf, uint32_t len)
{
	return len == 28 && rr_be32(buf + 12) == RDMA2_ERROR && rr_be32(buf + 16) == 1;
}

/* Both decoders on the same bytes. */
static void compare_decoders(const uint8_t *buf, uint32_t len)
{
	static struct rr_msg ours, theirs;
	struct header x;
	uint8_t *p = tight(buf, len);
	uint32_t used = xdr_in(p, len, &x);
	bool legal = used && canonical(&x, p, used) && from_xdr(&x, &theirs);
	enum rr_wire_rc rc = v2->decode(p, len, &ours);

	if (may_be_version_one(p, len)) {
		check(!legal || ours.err == theirs.err || ours.err == RR_ERR_VERS);
	} else if (rc == RR_WIRE_OK) {
		check(legal);
		check(used == ours.hdr_len + (ours.type == RR_MSG ? 4 : 0));
		check(msg_equal(&ours, &theirs));
		check(ours.type != RR_CONNPROP || ours.props.unknown == theirs.props.unknown);
	} else {
		check(!legal);
	}
	xdr_done(&x);
	free(p);
}

/* The length of the header and, behind a MSG, the first word of its RPC message. */
static uint32_t compare_encoders(uint64_t *seed, struct rr_msg *m, uint8_t *buf)
{
	uint8_t theirs[BUF];
	struct header x;
	uint32_t len;

	msg_random_v2(seed, m);
	x = to_xdr(m);
	len = v2->encode(m, buf, BUF);
	check(len > 0 && len == v2->size(m));
	if (m->type == RR_MSG)
		len += WORDS(buf + len, m->xid);
	check(xdr_out(&x, theirs, sizeof(theirs)) == len);
	check(memcmp(buf, theirs, len) == 0);
	return len;
}

/* A propset of any properties, known and unknown, of any length, by rpcgen's code. */
static uint32_t random_connprop(uint64_t *seed, uint8_t *buf)
{
	static const uint32_t ids[] = { 1, 2, RDMA2_PROPID_DONE, 3, 0, 0xffffffff };
	static const uint32_t lens[] = { 4, 4, 4, 0, 8, 3, 20 };
	struct rpcrdma2_propval vals[6];
	char data[6][20];
	struct header h = { .prefix = { { 1, 2, 3, RDMA2_CONNPROP }, rng_below(seed, 2) } };

	h.connprop.rdma_props = (rpcrdma2_propset){ rng_below(seed, 7), vals };
	for (uint32_t i = 0; i < h.connprop.rdma_props.rpcrdma2_propset_len; i++) {
		memset(data[i], 0, sizeof(data[i]));
		rng_bytes(seed, data[i] + 3, rng_below(seed, 4) ? 1 : 17);
		data[i][3] &= 3;
		vals[i] = (struct rpcrdma2_propval){
			ids[rng_below(seed, rr_array_size(ids))],
			{ lens[rng_below(seed, rr_array_size(lens))], data[i] } };
	}
	return xdr_out(&h, buf, BUF);
}

/* Changes a word: to a small number, which is what discriminators and counts are, or by
 * some low bits. */
static void spoil(uint64_t *seed, uint8_t *buf, uint32_t len)
{
	uint8_t *p = buf + 4 * rng_below(seed, len / 4);

	if (rng_below(seed, 2))
		rr_put_be32(p, rng_below(seed, 10));
	else
		p[3] ^= (uint8_t)rng_next(seed);
}

static void compare(uint64_t *seed, uint8_t *buf, uint32_t len)
{
	compare_decoders(buf, len);
	compare_decoders(buf, rng_below(seed, len));
	for (int k = 0; k < 4; k++) {
		spoil(seed, buf, len);
		compare_decoders(buf, len);
	}
}

int main(void)
{
	static struct rr_msg m;
	static uint8_t buf[BUF];

	v2 = rr_codec_find(2, RR_DIALECT_V2);
	for (uint32_t i = 0; i < ROUNDS; i++) {
		uint64_t seed = round_seed = i;

		compare(&seed, buf, compare_encoders(&seed, &m, buf));
		compare(&seed, buf, random_connprop(&seed, buf));
	}
	printf("%d headers\n", 2 * ROUNDS);
	return 0;
}
