/* SPDX-License-Identifier: BSD-3-Clause */
/* Sorts packets by time, and makes frames and comments of them. Each packet that comes in is
 * kept until rr_show_until() reaches its time. This file writes RPC records as TCP; with
 * --as rdma it hands packets to rdma.c. It trusts the lengths in a packet, which process_tap.c
 * has checked. */
#include "tools/dump/show.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/stats_abi.h"
#include "core/wire/cursor.h"
#include "core/wire/recmark.h"
#include "tools/dump/frames.h"
#include "tools/dump/rdma.h"
#include "tools/segment.h"

/* A pid in a packet is of the captured process's PID namespace. For the process itself the pid
 * that this program sees is known; for a forked child only the packet's own word is. */
void rr_show_add(struct rr_show *s, const struct rr_tap *t, uint32_t interface,
		 struct rr_tap_packet *p)
{
	if (s->nkept == s->room) {
		s->room = s->room ? 2 * s->room : 1024;
		s->kept = rr_grow_array(s->kept, s->room, sizeof(*s->kept));
	}
	s->kept[s->nkept] = (struct rr_show_kept){
	    .p = p,
	    .interface = interface,
	    .order = s->nkept,
	    .comm = t->comm,
	    .pid = p->h.pid == t->own_pid ? t->pid : p->h.pid,
	    .child = p->h.pid != t->own_pid,
	};
	s->nkept++;
}

/* Orders by time; packets of the same time stay in the order in which they came. */
static int by_time(const void *a, const void *b)
{
	const struct rr_show_kept *x = a, *y = b;

	if (x->p->h.ns != y->p->h.ns)
		return x->p->h.ns < y->p->h.ns ? -1 : 1;
	return x->order < y->order ? -1 : x->order > y->order;
}

/* --- comments --- */

/* Writes the names of the chunks to buf, joined by "and"; "none" if there are none. */
static void chunks_text(char *buf, size_t size, uint32_t chunks)
{
	static const struct {
		uint32_t bit;
		const char *name;
	} all[] = {
	    {RR_CHUNK_WHOLE, "position-zero Read"},
	    {RR_CHUNK_READ, "Read"},
	    {RR_CHUNK_WRITE, "Write"},
	    {RR_CHUNK_REPLY, "Reply"},
	    {RR_CHUNK_PADDED, "none, padded"},
	};
	const char *sep = "";
	size_t n = 0;

	buf[0] = '\0';
	for (size_t i = 0; i < rr_array_size(all); i++) {
		if (!(chunks & all[i].bit))
			continue;
		n += (size_t)snprintf(buf + n, size - n, "%s%s", sep, all[i].name);
		sep = " and ";
	}
	if (!n)
		snprintf(buf, size, "none");
}

static const char *dialect_of(const struct rr_cap_packet *h)
{
	return rr_dialect_name(h->dialect + 1u);
}

void rr_show_comment(char *buf, size_t size, const struct rr_show_kept *k, uint32_t chunks)
{
	const struct rr_cap_packet *h = &k->p->h;
	char text[80];

	chunks_text(text, sizeof(text), chunks);
	snprintf(buf, size, "%s[%d]%s, %s, %s; carrier %s, dialect %s%s; chunks: %s", k->comm,
		 k->pid, k->child ? " (forked)" : "",
		 h->flags & RR_CAP_SERVER ? "server" : "client",
		 h->flags & RR_CAP_OUT ? "sent" : "received", rr_carrier_name(h->carrier),
		 dialect_of(h), h->flags & RR_CAP_NATIVE ? ", native peer" : "", text);
}

/* --- records --- */

/* The frame's ends: h has our own end first, and the sender has to be first in the frame. */
static struct rr_frame frame_of(const struct rr_cap_packet *h)
{
	bool in = !(h->flags & RR_CAP_OUT);
	struct rr_frame f = {0};

	memcpy(f.from.addr, h->addr[in], 16);
	memcpy(f.to.addr, h->addr[!in], 16);
	f.from.port = h->port[in];
	f.to.port = h->port[!in];
	return f;
}

/* show_record() writes the record mark into the room that process_tap.c leaves before the
 * payload. */
_Static_assert(RR_TAP_MARK == RR_RM_HDR, "room for it");

/* Writes a record mark and the message as TCP, in as many segments as they take. Sequence
 * numbers count what has been shown in each direction, so that a dissector can reassemble the
 * stream. A record that was cut by the snapshot length still counts in full: the last segments
 * then have no captured bytes. */
static void show_record(struct rr_show *s, const struct rr_show_kept *k, struct rr_talk *t)
{
	static uint8_t out[RR_FRAME_HEADERS + RR_FRAME_MOST];
	const struct rr_cap_packet h = k->p->h;
	struct rr_frame f = frame_of(&h);
	bool in = !(h.flags & RR_CAP_OUT);
	uint32_t left = RR_RM_HDR + h.len, have = RR_RM_HDR + h.captured, whole, n;
	const uint8_t *from = k->p->stream;
	char text[256];

	rr_show_comment(text, sizeof(text), k,
			h.captured >= 4 ? rr_talk_chunks(t, rr_be32(rr_tap_data(k->p)), !in)
					: 0);
	rr_rm_put(k->p->stream, h.len, true);
	for (; left; left -= f.len, have -= f.captured, from += f.captured) {
		f.len = rr_min(left, RR_FRAME_MOST);
		f.captured = rr_min(have, f.len);
		f.payload = from;
		f.seq = t->seq[in];
		f.ack = t->seq[!in];
		t->seq[in] += f.len;
		n = rr_frame_tcp(&f, out, &whole);
		rr_pcapng_packet(&s->out, k->interface, h.ns, out, n, whole, text);
	}
	s->shown++;
}

/* Shows one packet. Returns true if rdma.c keeps it: then the caller must not free it. A
 * transport message is not shown as such among records, see learn_all(). */
static bool show_one(struct rr_show *s, const struct rr_show_kept *k)
{
	struct rr_talk *t;

	if (!rr_filter_ends(&s->filter, &k->p->h))
		return false;
	t = rr_talks_get(&s->talks, &k->p->h, k->pid);
	if (!t)
		return false;
	if (s->rdma)
		return rr_rdma_take(s, k, t);
	if (k->p->h.kind == RR_CAP_RECORD &&
	    rr_filter_rpc(&s->filter, t, rr_tap_data(k->p), k->p->h.captured))
		show_record(s, k, t);
	return false;
}

/* Learns from transport messages before any record is shown, because a record's comment names
 * the chunks in which it went, and its message may come earlier or later. */
static void learn_all(struct rr_show *s)
{
	for (uint32_t i = 0; i < s->nkept; i++) {
		struct rr_show_kept *k = &s->kept[i];
		struct rr_talk *t;

		if (k->p->h.kind == RR_CAP_MESSAGE && !k->learnt) {
			t = rr_talks_get(&s->talks, &k->p->h, k->pid);
			if (t)
				rr_talk_learn(t, k->p);
			k->learnt = true;
		}
	}
}

/* What is later than ns stays, and is numbered anew, so that by_time() keeps the order of
 * arrival. With UINT64_MAX all packets are shown, but nothing that waits in rdma.c expires:
 * packets that come later may complete it. rr_show_end() expires it. */
void rr_show_until(struct rr_show *s, uint64_t ns)
{
	uint32_t i = 0, n = 0;

	if (s->nkept)
		qsort(s->kept, s->nkept, sizeof(*s->kept), by_time);
	if (!s->rdma)
		learn_all(s);
	for (; i < s->nkept && s->kept[i].p->h.ns <= ns && !(s->most && s->shown == s->most);
	     i++)
		if (!show_one(s, &s->kept[i]))
			free(s->kept[i].p);
	for (; i < s->nkept; i++, n++) {
		s->kept[n] = s->kept[i];
		s->kept[n].order = n;
	}
	s->nkept = n;
	if (s->waiting && ns != UINT64_MAX)
		rr_rdma_expire(s, ns);
}

void rr_show_end(struct rr_show *s)
{
	rr_show_until(s, UINT64_MAX);
	rr_rdma_expire(s, UINT64_MAX);
}
