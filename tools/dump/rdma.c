/* SPDX-License-Identifier: BSD-3-Clause */
/* Matches transport messages with records, and shows them as Sends, Reads and Writes.
 *
 * A transport message says which memory the chunks are in, and only the record has their bytes.
 * So a message with chunks waits for its record and a record for its message, up to PATIENCE.
 * When exactly the Reads and Writes went, and in which pieces, is not known: they are shown
 * beside the Send that they belong to, an item per segment. Queue pairs and packet numbers are
 * invented, and headers of other versions are shown as those of version 1, unless they are
 * wanted as they went. */
#include "tools/dump/rdma.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/cmdata.h"
#include "core/wire/codec.h"
#include "core/wire/cursor.h"
#include "tools/dump/roce.h"

#define QPN 0x100u            /* queue pair of the first connection; each connection has two */
#define CM_QPN 1u             /* where the connection manager is ... */
#define CM_QKEY 0x80010000u   /* ... and its key */
#define PATIENCE (2 * RR_SEC) /* how long a message waits for its record, or a record for its
			       * message */
#define MOST (64u << 20)      /* bytes that wait, at most */

/* Bytes of a record or message, of which `captured` of len are here. */
struct bytes {
	const uint8_t *p;
	uint32_t len, captured;
};

static struct bytes bytes_of(const struct rr_tap_packet *p)
{
	return (struct bytes){rr_tap_data(p), p->h.len, p->h.captured};
}

/* Takes the next n bytes off. */
static struct bytes bytes_take(struct bytes *b, uint32_t n)
{
	struct bytes head = {.p = b->p};

	head.len = rr_min(n, b->len);
	head.captured = rr_min(n, b->captured);
	b->p += head.captured;
	b->len -= head.len;
	b->captured -= head.captured;
	return head;
}

/* What packets are made for: the connection, the packet that is being shown (for its ends), the
 * time and the comment. */
struct voice {
	struct rr_show *s;
	struct rr_talk *t;
	const struct rr_show_kept *k;
	uint64_t ns;
	const char *comment;
};

/* Who has sent the packet: 0 the client, 1 the server. A client's packet that is sent, or a
 * server's that is received, comes from the client. */
static unsigned side_of(const struct rr_cap_packet *h)
{
	return !(h->flags & RR_CAP_SERVER) != !!(h->flags & RR_CAP_OUT);
}

/* --- packets --- */

/* Fills in the addresses of r, which side has sent, and writes the packet to the capture. */
static void show_packet(const struct voice *v, struct rr_roce *r, unsigned side)
{
	static uint8_t out[RR_ROCE_MOST];
	const struct rr_cap_packet *h = &v->k->p->h;
	unsigned from = side != !!(h->flags & RR_CAP_SERVER);
	uint32_t n, whole;

	memcpy(r->from, h->addr[from], 16);
	memcpy(r->to, h->addr[!from], 16);
	n = rr_roce_packet(r, out, &whole);
	rr_pcapng_packet(&v->s->out, v->k->interface, v->ns, out, n, whole, v->comment);
}

static uint32_t qpn(const struct rr_talk *t, unsigned side)
{
	return QPN + 2 * t->number + side;
}

/* Writes a message from side as the packets that it takes, at least one, numbered from *psn on.
 * opcode has four numbers: middle, last, first, only. The headers in r->ext go before the first
 * payload, and of a Read response also before the last one. The last packet of a request asks
 * for an acknowledgement, but no response does; acknowledgements themselves are not shown. */
static void put_payload(const struct voice *v, struct rr_roce *r, unsigned side, uint32_t *psn,
			struct bytes b, const uint8_t opcode[4])
{
	struct rr_roce packet;
	bool first = true;

	do {
		struct bytes piece = bytes_take(&b, RR_ROCE_MTU);
		bool ends = !b.len;

		packet = *r;
		packet.qpn = qpn(v->t, !side);
		packet.psn = (*psn)++;
		packet.opcode = opcode[2 * first + ends];
		packet.payload = piece.p;
		packet.len = piece.len;
		packet.captured = piece.captured;
		if (opcode[0] == RR_ROCE_READ_MIDDLE)
			packet.next = first || ends ? r->next : 0;
		else
			packet.next = first ? r->next : 0;
		packet.last = ends && opcode[0] != RR_ROCE_READ_MIDDLE;
		show_packet(v, &packet, side);
		first = false;
	} while (b.len);
}

static void put_send(const struct voice *v, unsigned side, struct bytes b)
{
	static const uint8_t opcode[4] = {RR_ROCE_SEND_MIDDLE, RR_ROCE_SEND_LAST,
					  RR_ROCE_SEND_FIRST, RR_ROCE_SEND_ONLY};
	struct rr_roce r = {0};

	put_payload(v, &r, side, &v->t->psn[side], b, opcode);
	v->t->msn[!side]++;
}

/* seg is memory that the peer has exposed; b is what goes there. A Write counts as a message of
 * its own at the peer, hence msn. */
static void put_write(const struct voice *v, unsigned side, const struct rr_seg *seg,
		      struct bytes b)
{
	static const uint8_t opcode[4] = {RR_ROCE_WRITE_MIDDLE, RR_ROCE_WRITE_LAST,
					  RR_ROCE_WRITE_FIRST, RR_ROCE_WRITE_ONLY};
	struct rr_roce r = {0};

	rr_roce_reth(&r, seg->offset, seg->handle, b.len);
	put_payload(v, &r, side, &v->t->psn[side], b, opcode);
	v->t->msn[!side]++;
}

/* Shows an RDMA Read by side, and the peer's responses. The request has the number of the first
 * response, and takes as many numbers from the requester's sequence as there are responses. */
static void put_read(const struct voice *v, unsigned side, const struct rr_seg *seg,
		     struct bytes b)
{
	static const uint8_t opcode[4] = {RR_ROCE_READ_MIDDLE, RR_ROCE_READ_LAST,
					  RR_ROCE_READ_FIRST, RR_ROCE_READ_ONLY};
	struct rr_roce r = {.opcode = RR_ROCE_READ,
			    .last = true,
			    .qpn = qpn(v->t, !side),
			    .psn = v->t->psn[side]};

	rr_roce_reth(&r, seg->offset, seg->handle, b.len);
	show_packet(v, &r, side);
	r = (struct rr_roce){0};
	rr_roce_aeth(&r, ++v->t->msn[!side]);
	put_payload(v, &r, !side, &v->t->psn[side], b, opcode);
}

/* --- setting up --- */

static void put_mad(const struct voice *v, unsigned side, const uint8_t *mad, uint32_t psn)
{
	struct rr_roce r = {.opcode = RR_ROCE_DATAGRAM, .qpn = CM_QPN, .psn = psn};

	r.payload = mad;
	r.len = r.captured = RR_ROCE_MAD;
	rr_roce_deth(&r, CM_QKEY, CM_QPN);
	show_packet(v, &r, side);
}

/* Writes the private data of RFC 8797 for one end. ours: of the end that is captured. h has the
 * sizes of both, as this end sees them. */
static void cm_data(const struct rr_cap_packet *h, bool ours, uint8_t *to)
{
	struct rr_cmdata d = {.send_size = ours ? h->send_size : h->recv_size,
			      .recv_size = ours ? h->recv_size : h->send_size};

	rr_cmdata_put(&d, to);
}

/* Shows the exchange by which RDMA CM would have set up a connection between these addresses,
 * once, before the first message. No process has sent these packets, and their comment says so.
 * A reader needs them to know which queue pairs belong together and that RPC-over-RDMA is
 * spoken on them. */
static void put_set_up(const struct voice *v)
{
	const struct rr_cap_packet *h = &v->k->p->h;
	bool server = h->flags & RR_CAP_SERVER;
	struct rr_roce_cm c = {.id = v->t->number + 1};
	struct voice cm = *v;
	uint8_t mad[RR_ROCE_MAD];
	char text[128];

	for (unsigned side = 0; side < 2; side++) {
		memcpy(c.addr[side], h->addr[side != server], 16);
		c.port[side] = h->port[side != server];
		c.qpn[side] = qpn(v->t, side);
		c.psn[side] = v->t->psn[side];
		if (h->recv_size)
			cm_data(h, side == server, c.data[side]);
	}
	c.ndata = h->recv_size ? RR_CMDATA_LEN : 0;
	snprintf(text, sizeof(text), "%s[%d]; made up by rdmarpc-dump", v->k->comm, v->k->pid);
	cm.comment = text;
	rr_roce_request(&c, mad);
	put_mad(&cm, 0, mad, 2 * c.id);
	rr_roce_reply(&c, mad);
	put_mad(&cm, 1, mad, c.id);
	rr_roce_ready(&c, mad);
	put_mad(&cm, 0, mad, 2 * c.id + 1);
}

/* --- chunks --- */

/* A message and its record. */
struct pair {
	const struct rr_msg *m;
	struct bytes stream; /* of the message, after its header */
	struct bytes record; /* len 0: none */
	unsigned side;       /* whose message it is */
	bool reply;
};

/* The bytes of a Write or Reply chunk. In a reply the responder has set the segments' lengths
 * to what it has written (RFC 8166 §3.4.6). */
static uint32_t wchunk_length(const struct rr_msg *m, const struct rr_wchunk *w)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->nsegs; i++)
		n += m->ch.segs[w->first + i].length;
	return n;
}

/* Shows b as RDMA Writes into the segments of w, in their order, which the responder must keep
 * (RFC 8166 §3.4.6). */
static void put_pieces(const struct voice *v, const struct pair *p, const struct rr_wchunk *w,
		       struct bytes b)
{
	for (uint32_t i = 0; i < w->nsegs && b.len; i++) {
		const struct rr_seg *seg = &p->m->ch.segs[w->first + i];

		if (seg->length)
			put_write(v, p->side, seg, bytes_take(&b, seg->length));
	}
}

/* Finds the item of n bytes that is in the record but not in the stream of the reply, because
 * it went into a Write chunk. An item of variable length is led by its length, which stays in
 * the stream, and is padded to a multiple of four, which never goes into the chunk (RFC 8166
 * §3.4.6.2).
 *
 * The item lies at or before the first difference; its beginning may be equal to what follows
 * it. So the search goes backwards from there, word by word, for a length of n. all: nothing
 * else is missing, so the rest must agree to the last byte. Returns false if there is no such
 * place; else *at is an offset into both. */
static bool find_missing(struct bytes record, struct bytes stream, uint32_t n, bool all,
			 uint32_t *at)
{
	uint32_t most = rr_min(record.len, stream.len), skip = rr_align(n, 4u), same = 0;

	while (same < most && record.p[same] == stream.p[same])
		same++;
	for (same &= ~3u; same; same -= 4) {
		uint32_t rest = stream.len - same;

		if (rr_be32(record.p + same - 4) != n || record.len - same < skip)
			continue;
		if (all && (record.len - same - skip != rest ||
			    memcmp(record.p + same + skip, stream.p + same, rest)))
			continue;
		*at = same;
		return true;
	}
	return false;
}

/* Shows the data that the responder has written, each item from its place in the record. Shows
 * none of the further items if one is not found, and nothing at all if a part was not captured:
 * where an item lies can be told only from complete bytes. */
static void put_write_list(const struct voice *v, const struct pair *p)
{
	struct bytes record = p->record, stream = p->stream, item;
	uint32_t left = 0, at;

	if (record.captured != record.len || stream.captured != stream.len)
		return;
	for (uint32_t i = 0; i < p->m->ch.nwrites; i++)
		left += wchunk_length(p->m, &p->m->ch.writes[i]) > 0;
	for (uint32_t i = 0; i < p->m->ch.nwrites; i++) {
		const struct rr_wchunk *w = &p->m->ch.writes[i];
		uint32_t n = wchunk_length(p->m, w);

		if (!n)
			continue;
		if (!find_missing(record, stream, n, !--left, &at))
			return;
		bytes_take(&record, at);
		bytes_take(&stream, at);
		item = bytes_take(&record, rr_align(n, 4u));
		put_pieces(v, p, w, bytes_take(&item, n));
	}
}

/* Shows what the responder has written before it sent its reply: the whole reply into the Reply
 * chunk (RDMA_NOMSG, RFC 8166 §3.5.3), or items by the Write list. In a call these chunks only
 * offer memory. */
static void put_written(const struct voice *v, const struct pair *p)
{
	const struct rr_chunks *ch = &p->m->ch;

	if (!p->reply || !p->record.len)
		return;
	if (ch->has_reply && p->m->type == RR_NOMSG)
		put_pieces(v, p, &ch->reply, p->record);
	else if (ch->nwrites)
		put_write_list(v, p);
}

/* The length of the Read chunk whose first segment is i; its other segments follow and have the
 * same position. */
static uint32_t read_length(const struct rr_chunks *ch, uint32_t i)
{
	uint32_t n = 0, position = ch->reads[i].position;

	for (; i < ch->nreads && ch->reads[i].position == position; i++)
		n += ch->reads[i].seg.length;
	return n;
}

/* The record without the items that other Read chunks hold, which is what the chunk at position
 * zero holds. The caller frees *room, to which the result points. Positions come from a message
 * and are not trusted: one that goes backwards is skipped, and bytes_take() takes no more than
 * there is, so the copy never exceeds record.captured. */
static struct bytes without_items(const struct pair *p, uint8_t **room)
{
	const struct rr_chunks *ch = &p->m->ch;
	struct bytes record = p->record, b = {0};
	uint32_t at = 0;

	*room = malloc(record.captured + 1);
	if (!*room)
		err(1, NULL);
	b.p = *room;
	for (uint32_t i = 0; i < ch->nreads; i++) {
		uint32_t position = ch->reads[i].position, n = read_length(ch, i);
		struct bytes piece;

		if (!position || position < at || (i && ch->reads[i - 1].position == position))
			continue;
		piece = bytes_take(&record, position - at);
		memcpy(*room + b.captured, piece.p, piece.captured);
		b.captured += piece.captured;
		b.len += piece.len;
		bytes_take(&record, rr_align(n, 4u));
		at = position + rr_align(n, 4u);
	}
	memcpy(*room + b.captured, record.p, record.captured);
	b.captured += record.captured;
	b.len += record.len;
	return b;
}

/* Shows the RDMA Reads by which the receiver of a message pulls its Read chunks. Segments of
 * the same position are one chunk; each takes the next bytes of it. The receiver is the one
 * that reads, hence !side. */
static void put_reads(const struct voice *v, const struct pair *p)
{
	const struct rr_chunks *ch = &p->m->ch;
	uint8_t *room = NULL;
	struct bytes b = {0};

	if (!p->record.len)
		return;
	for (uint32_t i = 0; i < ch->nreads; i++) {
		const struct rr_read_seg *r = &ch->reads[i];

		if (!i || ch->reads[i - 1].position != r->position) {
			b = p->record;
			if (r->position)
				bytes_take(&b, r->position);
			else if (!room)
				b = without_items(p, &room);
		}
		if (r->seg.length && b.len)
			put_read(v, !p->side, &r->seg, bytes_take(&b, r->seg.length));
	}
	free(room);
}

/* --- messages --- */

static bool decode_any(const struct rr_tap_packet *p, struct rr_msg *m)
{
	return rr_talk_codec(p)->decode(rr_tap_data(p), p->h.captured, m) == RR_WIRE_OK;
}

/* Only messages that carry an RPC message count. Everything else (errors, RDMA_DONE) is shown
 * as a plain Send. */
static bool has_rpc(const struct rr_msg *m)
{
	return m->type == RR_MSG || m->type == RR_NOMSG || m->type == RR_MSGP;
}

static bool decode(const struct rr_tap_packet *p, struct rr_msg *m)
{
	return decode_any(p, m) && has_rpc(m);
}

/* Dissectors know the headers of version 1 only. Puts into *b, which is the whole message, what
 * version 1 would have sent: its header with the same XID, credits and chunks, and the rest of
 * the message. The caller frees the result, which is where that lies; NULL: *b can be shown as
 * it is, or version 1 has no such message. */
static uint8_t *as_version_1(const struct rr_msg *m, struct bytes *b)
{
	const struct rr_codec *v1 = rr_codec_first(RR_DIALECT_V1);
	struct rr_msg other = *m;
	uint32_t n;
	uint8_t *room;

	if (m->vers == v1->version && !m->reverse)
		return NULL;
	other.vers = v1->version;
	n = v1->size(&other);
	if (!n)
		return NULL;
	bytes_take(b, m->hdr_len);
	room = malloc(n + b->captured);
	if (!room)
		err(1, NULL);
	v1->encode(&other, room, n);
	memcpy(room + n, b->p, b->captured);
	*b = (struct bytes){room, n + b->len, n + b->captured};
	return room;
}

/* Is it the beginning of a reply? The word after the XID is 0 in a call and 1 in a reply (RFC
 * 5531 §9). */
static bool has_reply(struct bytes rpc)
{
	return rpc.captured >= 8 && rr_be32(rpc.p + 4) == 1;
}

/* Does part of the message go by RDMA Read or Write? */
static bool has_payload(const struct rr_msg *m, struct bytes stream)
{
	return m->type == RR_NOMSG || m->ch.nreads || (m->ch.nwrites && has_reply(stream));
}

/* Shows a message with everything that belongs to it, in the order in which it could have gone:
 * what the responder writes, the Send, what the receiver reads. record is the one that its
 * chunks belong to, or NULL if it never came; then only the Send is shown. A message that
 * cannot be decoded has no chunks. Does nothing if the filter leaves the message out, or enough
 * were shown. */
static void show_message(struct rr_show *s, struct rr_talk *t, const struct rr_show_kept *k,
			 const struct rr_tap_packet *record)
{
	static struct rr_msg m;
	struct pair p = {.m = &m, .side = side_of(&k->p->h)};
	struct bytes whole = bytes_of(k->p), rpc;
	bool known = decode_any(k->p, &m), good = known && has_rpc(&m);
	uint8_t *room = NULL;
	char text[256];
	struct voice v = {s, t, k, k->p->h.ns, text};

	if (s->most && s->shown == s->most)
		return;
	if (good) {
		p.stream = whole;
		bytes_take(&p.stream, m.hdr_len);
		p.record = record ? bytes_of(record) : (struct bytes){0};
		rpc = p.record.len ? p.record : p.stream;
		p.reply = has_reply(rpc);
	} else {
		m.ch.nreads = m.ch.nwrites = m.ch.has_reply = 0;
		rpc = (struct bytes){0};
	}
	if (!rr_filter_rpc(&s->filter, t, rpc.p, rpc.captured))
		return;
	if (record)
		v.ns = rr_max(v.ns, record->h.ns);
	rr_show_comment(text, sizeof(text), k, good ? rr_talk_kinds(&m) : 0);
	if (known && !s->wire)
		room = as_version_1(&m, &whole);
	if (room)
		strncat(text, "; header shown as version 1", sizeof(text) - strlen(text) - 1);
	if (!t->set_up)
		put_set_up(&v);
	t->set_up = true;
	if (good)
		put_written(&v, &p);
	put_send(&v, p.side, whole);
	if (good)
		put_reads(&v, &p);
	free(room);
	s->shown++;
}

/* --- messages and records that wait for each other --- */

/* A message or a record that waits for its other half. It owns its packet and a copy of the
 * process's name, since the tap may be gone by the time that it is shown. */
struct rr_talk_wait {
	struct rr_talk_wait *next;
	struct rr_show_kept k;
	char comm[32];
	uint32_t xid;
};

static void wait_free(struct rr_show *s, struct rr_talk_wait *w)
{
	s->waiting -= sizeof(*w) + w->k.p->h.captured;
	free(w->k.p);
	free(w);
}

/* Puts the packet at the end of the connection's list. Returns false if too many bytes wait
 * already: then the caller shows or drops the packet without its other half. */
static bool wait_for_other(struct rr_show *s, struct rr_talk *t, const struct rr_show_kept *k,
			   uint32_t xid)
{
	struct rr_talk_wait **at = &t->waiting, *w;

	if (s->waiting >= MOST)
		return false;
	w = calloc(1, sizeof(*w));
	if (!w)
		err(1, NULL);
	w->k = *k;
	snprintf(w->comm, sizeof(w->comm), "%s", k->comm);
	w->k.comm = w->comm;
	w->xid = xid;
	s->waiting += sizeof(*w) + k->p->h.captured;
	while (*at)
		at = &(*at)->next;
	*at = w;
	return true;
}

/* Takes the matching half off the list: the same XID and sender, but a record for a message and
 * a message for a record. Returns NULL if it has not come. */
static struct rr_talk_wait *take_other(struct rr_talk *t, const struct rr_cap_packet *h,
				       uint32_t xid)
{
	for (struct rr_talk_wait **at = &t->waiting, *w; (w = *at); at = &w->next) {
		const struct rr_cap_packet *o = &w->k.p->h;

		if (w->xid == xid && o->kind != h->kind && side_of(o) == side_of(h)) {
			*at = w->next;
			return w;
		}
	}
	return NULL;
}

/* Returns true if the record is kept. One that nothing waits for and that was received is
 * dropped, because of what is received the message always comes first: that message had no
 * chunks, or has expired. */
static bool record_came(struct rr_show *s, const struct rr_show_kept *k, struct rr_talk *t)
{
	uint32_t xid = k->p->h.captured >= 4 ? rr_be32(rr_tap_data(k->p)) : 0;
	struct rr_talk_wait *w = take_other(t, &k->p->h, xid);

	if (w) {
		show_message(s, t, &w->k, k->p);
		wait_free(s, w);
		return false;
	}
	/* Of what is received, the message comes first. */
	return k->p->h.flags & RR_CAP_OUT && wait_for_other(s, t, k, xid);
}

/* Returns true if the message is kept until its record comes. One without chunks needs no
 * record, and is shown at once. */
static bool message_came(struct rr_show *s, const struct rr_show_kept *k, struct rr_talk *t)
{
	static struct rr_msg m;
	struct rr_talk_wait *w = NULL;
	struct bytes stream = bytes_of(k->p);
	bool halved = false;

	if (decode(k->p, &m)) {
		bytes_take(&stream, m.hdr_len);
		halved = has_payload(&m, stream);
		w = take_other(t, &k->p->h, m.xid);
	}
	if (halved && !w && wait_for_other(s, t, k, m.xid))
		return true;
	show_message(s, t, k, w ? w->k.p : NULL);
	if (w)
		wait_free(s, w);
	return false;
}

bool rr_rdma_take(struct rr_show *s, const struct rr_show_kept *k, struct rr_talk *t)
{
	if (k->p->h.len > MOST) /* no library carries a record of this size */
		return false;
	return k->p->h.kind == RR_CAP_RECORD ? record_came(s, k, t) : message_came(s, k, t);
}

/* Shows messages that have waited since before ns without their chunks, and frees records whose
 * message has not come. */
static void expire_talk(struct rr_show *s, struct rr_talk *t, uint64_t ns)
{
	struct rr_talk_wait **at = &t->waiting, *w;

	while ((w = *at)) {
		if (w->k.p->h.ns >= ns) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		if (w->k.p->h.kind == RR_CAP_MESSAGE)
			show_message(s, t, &w->k, NULL);
		wait_free(s, w);
	}
}

void rr_rdma_expire(struct rr_show *s, uint64_t ns)
{
	if (ns != UINT64_MAX)
		ns -= rr_min(ns, (uint64_t)PATIENCE);
	for (size_t i = 0; s->waiting && i < rr_array_size(s->talks.bucket); i++)
		for (struct rr_talk *t = s->talks.bucket[i]; t; t = t->next)
			expire_talk(s, t, ns);
}
