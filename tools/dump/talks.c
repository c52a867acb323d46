/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of connections: what their packets have told about each. A connection is found by
 * the addresses and ports of both ends, in either direction. It is made by its first packet and
 * forgotten when it has been silent for long; nothing says that it has ended. */
#include "tools/dump/talks.h"

#include <err.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/codec.h"
#include "core/wire/cursor.h"

/* Adds up both ends, so that a packet of either direction finds the same bucket. Whoever
 * chooses addresses can make buckets long; that costs time, nothing else. */
static uint32_t hash(const struct rr_cap_packet *p)
{
	uint32_t h = (uint32_t)p->port[0] + p->port[1];

	for (unsigned i = 0; i < 16; i++)
		h += (uint32_t)(p->addr[0][i] + p->addr[1][i]) << i;
	return (h ^ h >> 12) % rr_array_size(((struct rr_talks *)0)->bucket);
}

/* Is t the connection of packet p? here: does the packet come from the end that is shown?
 * Otherwise it must come from the other end. */
static bool is_of(const struct rr_talk *t, const struct rr_cap_packet *p, bool here)
{
	return t->port[0] == p->port[!here] && t->port[1] == p->port[here] &&
	       !memcmp(t->addr[0], p->addr[!here], 16) &&
	       !memcmp(t->addr[1], p->addr[here], 16);
}

/* Makes a connection that is shown from the end that p comes from, and puts it in front of *at.
 * Ends the program if there is no memory. */
static struct rr_talk *talk_new(struct rr_talks *all, struct rr_talk **at,
				const struct rr_cap_packet *p, int pid)
{
	struct rr_talk *t = calloc(1, sizeof(*t));

	if (!t)
		err(1, NULL);
	memcpy(t->addr, p->addr, sizeof(t->addr));
	memcpy(t->port, p->port, sizeof(t->port));
	t->pid = pid;
	t->seq[0] = t->seq[1] = 1;
	t->number = all->numbers++;
	/* tshark keeps the numbers of both ends in one list, so they must differ. */
	t->psn[1] = 1u << 23;
	t->next = *at;
	*at = t;
	all->n++;
	return t;
}

/* From now on the connection is shown from its other end, p's. What was sent becomes what was
 * received. The notes are dropped, since their directions would be wrong. */
static void turn_round(struct rr_talk *t, const struct rr_cap_packet *p)
{
	uint32_t seq = t->seq[0];

	memcpy(t->addr, p->addr, sizeof(t->addr));
	memcpy(t->port, p->port, sizeof(t->port));
	t->seq[0] = t->seq[1];
	t->seq[1] = seq;
	memset(t->note, 0, sizeof(t->note));
}

/* Returns NULL for the end that is not shown, so that no message appears twice when both ends
 * are captured. If the process of the shown end has gone, the other end takes over. A process
 * may call itself: then both ends come from one tap, and the end that spoke first is shown. */
struct rr_talk *rr_talks_get(struct rr_talks *all, const struct rr_cap_packet *p, int pid)
{
	struct rr_talk **bucket = &all->bucket[hash(p)], *t = *bucket;

	while (t && !is_of(t, p, true) && !is_of(t, p, false))
		t = t->next;
	if (!t)
		t = talk_new(all, bucket, p, pid);
	t->last = p->ns;
	if (!is_of(t, p, true)) {
		if (t->pid)
			return NULL;
		turn_round(t, p);
	}
	if (!t->pid)
		t->pid = pid;
	return t;
}

void rr_talks_left(struct rr_talks *all, int pid)
{
	for (size_t i = 0; i < rr_array_size(all->bucket); i++)
		for (struct rr_talk *t = all->bucket[i]; t; t = t->next)
			if (t->pid == pid)
				t->pid = 0;
}

/* A connection on which messages wait in rdma.c stays, because they hang on it. */
void rr_talks_expire(struct rr_talks *all, uint64_t ns)
{
	for (size_t i = 0; i < rr_array_size(all->bucket); i++) {
		struct rr_talk **at = &all->bucket[i], *t;

		while ((t = *at)) {
			if (t->last >= ns || t->waiting) {
				at = &t->next;
				continue;
			}
			*at = t->next;
			free(t->calls);
			free(t);
			all->n--;
		}
	}
}

/* A Read chunk at position zero holds the whole message; one at another position holds a data
 * item of it (RFC 8166 §3.4.5 and §3.5.3). */
uint8_t rr_talk_kinds(const struct rr_msg *m)
{
	uint8_t k = 0;

	for (uint32_t i = 0; i < m->ch.nreads; i++)
		k |= m->ch.reads[i].position ? RR_CHUNK_READ : RR_CHUNK_WHOLE;
	if (m->ch.nwrites)
		k |= RR_CHUNK_WRITE;
	if (m->ch.has_reply)
		k |= RR_CHUNK_REPLY;
	return m->type == RR_MSGP ? k | RR_CHUNK_PADDED : k;
}

/* The version is the second word of every header. If the dialect of the packet has no such
 * version, version 1 is tried: the decoder judges the rest. */
const struct rr_codec *rr_talk_codec(const struct rr_tap_packet *p)
{
	const struct rr_codec *c = NULL;

	if (p->h.captured >= RR_PREFIX_LEN)
		c = rr_codec_find(rr_be32(rr_tap_data(p) + 4), (enum rr_dialect)p->h.dialect);
	return c ? c : rr_codec_first(RR_DIALECT_V1);
}

/* Messages that cannot be decoded, and those that carry no RPC message (errors, RDMA_DONE), are
 * ignored. Of two messages with the same note the later one wins. */
void rr_talk_learn(struct rr_talk *t, const struct rr_tap_packet *p)
{
	const struct rr_codec *c = rr_talk_codec(p);
	static struct rr_msg m;
	struct rr_talk_note *n;

	if (c->decode(rr_tap_data(p), p->h.captured, &m) != RR_WIRE_OK)
		return;
	if (m.type != RR_MSG && m.type != RR_NOMSG && m.type != RR_MSGP)
		return;
	n = &t->note[m.xid % RR_TALK_NOTES];
	*n = (struct rr_talk_note){m.xid, p->h.flags & RR_CAP_OUT, rr_talk_kinds(&m),
				   (uint8_t)m.vers, true};
}

/* The note may have been overwritten by another message since; then 0 says that nothing is
 * known. */
uint32_t rr_talk_chunks(const struct rr_talk *t, uint32_t xid, bool out)
{
	const struct rr_talk_note *n = &t->note[xid % RR_TALK_NOTES];

	return n->used && n->xid == xid && n->out == out ? n->chunks : 0;
}

void rr_talk_call(struct rr_talk *t, uint32_t xid)
{
	if (!t->calls)
		t->calls = calloc(RR_TALK_CALLS, sizeof(*t->calls));
	if (!t->calls)
		err(1, NULL);
	t->calls[xid % RR_TALK_CALLS] = (struct rr_talk_call){xid, true};
}

/* A call has one reply: the note is used up, so that a later call with the same XID has to be
 * of the program again. */
bool rr_talk_answers(struct rr_talk *t, uint32_t xid)
{
	struct rr_talk_call *c = t->calls ? &t->calls[xid % RR_TALK_CALLS] : NULL;

	if (!c || !c->used || c->xid != xid)
		return false;
	c->used = false;
	return true;
}
