/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes RoCEv2 packets: base and extended transport headers, the invariant CRC, and the
 * messages of the connection manager. They are made so that Wireshark dissects and
 * reassembles them; fields that only a device would need have plausible constants. Nothing
 * is parsed here. */
#include "tools/dump/roce.h"

#include <string.h>

#include "core/wire/cursor.h"

#define PORT 4791u /* UDP's, of RoCEv2 */
#define BTH 12u
#define ICRC 4u
#define UDP 8u

static void put_24(uint8_t *p, uint32_t v)
{
	p[0] = (uint8_t)(v >> 16);
	p[1] = (uint8_t)(v >> 8);
	p[2] = (uint8_t)v;
}

void rr_roce_reth(struct rr_roce *r, uint64_t offset, uint32_t handle, uint32_t len)
{
	rr_put_be64(r->ext, offset);
	rr_put_be32(r->ext + 8, handle);
	rr_put_be32(r->ext + 12, len);
	r->next = 16;
}

void rr_roce_aeth(struct rr_roce *r, uint32_t msn)
{
	r->ext[0] = 0x1f; /* acknowledged; says nothing of credits */
	put_24(r->ext + 1, msn);
	r->next = 4;
}

void rr_roce_deth(struct rr_roce *r, uint32_t qkey, uint32_t qpn)
{
	rr_put_be32(r->ext, qkey);
	rr_put_be32(r->ext + 4, qpn);
	r->next = 8;
}

/* The CRC of Ethernet (reflected, polynomial 0xedb88320), four bits at a time. The caller
 * begins with all bits set and inverts the result. */
static uint32_t crc(uint32_t c, const uint8_t *p, uint32_t n)
{
	static const uint32_t of[16] = {
	    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
	    0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
	    0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
	};

	while (n--) {
		c ^= *p++;
		c = c >> 4 ^ of[c & 15];
		c = c >> 4 ^ of[c & 15];
	}
	return c;
}

/* The invariant CRC over the n bytes of a packet before it (annex A17). Fields that a router
 * may change count as all ones. Eight bytes of ones stand for the local route header, which
 * RoCE does not have. h is a copy, so that the packet itself keeps its fields. */
static uint32_t icrc(const uint8_t *packet, uint32_t n)
{
	static const uint8_t lrh[8] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
	bool v4 = packet[0] >> 4 == 4;
	uint32_t ip = v4 ? 20 : 40, most = ip + UDP + BTH;
	uint8_t h[40 + UDP + BTH];

	memcpy(h, packet, most);
	if (v4) {
		h[1] = h[8] = 0xff;   /* type of service, time to live */
		h[10] = h[11] = 0xff; /* checksum */
	} else {
		h[0] |= 0x0f; /* traffic class, flow label */
		h[1] = h[2] = h[3] = 0xff;
		h[7] = 0xff; /* hop limit */
	}
	h[ip + 6] = h[ip + 7] = 0xff; /* UDP's checksum */
	h[ip + UDP + 4] = 0xff;       /* congestion */
	return ~crc(crc(crc(UINT32_MAX, lrh, sizeof(lrh)), h, most), packet + most, n - most);
}

/* Writes the base transport header and the extended headers of r; returns their length. pad is
 * the number of bytes that fill the payload up to a multiple of four; the receiver takes them
 * off again. */
static uint32_t put_bth(const struct rr_roce *r, uint32_t pad, uint8_t *to)
{
	to[0] = r->opcode;
	to[1] = (uint8_t)(0x40 | pad << 4); /* migrated, padding; version 0 */
	to[2] = to[3] = 0xff;               /* the default partition */
	rr_put_be32(to + 4, r->qpn);
	rr_put_be32(to + 8, r->psn & 0xffffff);
	to[8] = r->last ? 0x80 : 0;
	memcpy(to + BTH, r->ext, r->next);
	return BTH + r->next;
}

/* The invariant CRC covers the IP and UDP headers too, so the packet is made twice: first with
 * zeroes in place of the CRC, to compute it, then with the CRC, because the UDP checksum covers
 * that. Without the whole payload there is no CRC, and the packet ends where the capture does.
 *
 * The UDP source port is made from the receiver's queue pair, so that each direction of a
 * connection keeps one. */
uint32_t rr_roce_packet(const struct rr_roce *r, uint8_t *out, uint32_t *whole)
{
	uint8_t ib[BTH + sizeof(r->ext) + RR_ROCE_MTU + 3 + ICRC];
	uint32_t pad = -r->len & 3, at = put_bth(r, pad, ib), n, sum;
	struct rr_frame f = {.payload = ib, .len = at + r->len + pad + ICRC};

	memcpy(f.from.addr, r->from, 16);
	memcpy(f.to.addr, r->to, 16);
	f.from.port = (uint16_t)(0xc000 | (r->qpn & 0x3fff));
	f.to.port = PORT;
	if (r->captured)
		memcpy(ib + at, r->payload, r->captured);
	f.captured = at + r->captured;
	if (r->captured == r->len) {
		memset(ib + f.captured, 0, pad + ICRC);
		f.captured = f.len;
		n = rr_frame_udp(&f, out, whole);
		sum = icrc(out, n - ICRC);
		for (int i = 0; i < 4; i++)
			ib[f.len - ICRC + (uint32_t)i] = (uint8_t)(sum >> 8 * i);
	}
	return rr_frame_udp(&f, out, whole);
}

/* --- the connection manager --- */

enum { REQUEST = 0x10, REPLY = 0x13, READY = 0x14 };
#define MAD_DATA 24u

/* A connection's id in the connection manager's words; the client's is even. */
static uint32_t cm_id(const struct rr_roce_cm *c, unsigned which)
{
	return 2 * c->id + which;
}

/* Begins a management datagram: clears it, writes the common header and the sender's id, and
 * returns where the message's own data begins. All three messages of an exchange have the same
 * transaction id. from is 0 for the client, 1 for the server. */
static uint8_t *begin_mad(const struct rr_roce_cm *c, uint16_t attribute, unsigned from,
			  uint8_t *mad)
{
	memset(mad, 0, RR_ROCE_MAD);
	mad[0] = 1; /* version */
	mad[1] = 7; /* class: communication management ... */
	mad[2] = 2; /* ... and its version */
	mad[3] = 3; /* Send */
	rr_put_be64(mad + 8, (uint64_t)cm_id(c, 0) << 32 | REQUEST); /* of the transaction */
	mad[16] = (uint8_t)(attribute >> 8);
	mad[17] = (uint8_t)attribute;
	rr_put_be32(mad + MAD_DATA, cm_id(c, from));
	return mad + MAD_DATA;
}

static bool is_v4_cm(const struct rr_roce_cm *c)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return !memcmp(c->addr[0], mapped, 12) && !memcmp(c->addr[1], mapped, 12);
}

/* Writes RDMA CM's header for IP (annex A11) at d, and the private data behind it. The client's
 * port and both addresses are in this header; the server's port is in the service id. */
static void put_ip_cm(const struct rr_roce_cm *c, uint8_t *d)
{
	uint32_t skip = is_v4_cm(c) ? 12 : 0;

	d[1] = is_v4_cm(c) ? 0x40 : 0x60;
	d[2] = (uint8_t)(c->port[0] >> 8);
	d[3] = (uint8_t)c->port[0];
	memcpy(d + 4 + skip, c->addr[0] + skip, 16 - skip);
	memcpy(d + 20 + skip, c->addr[1] + skip, 16 - skip);
	memcpy(d + 36, c->data[0], c->ndata);
}

/* Offsets into d are those of the ConnectRequest in chapter 12. Time-outs and retry counts are
 * of no use to a reader of the capture, but a dissector shows them, so they are plausible. */
void rr_roce_request(const struct rr_roce_cm *c, uint8_t mad[RR_ROCE_MAD])
{
	uint8_t *d = begin_mad(c, REQUEST, 0, mad);

	rr_put_be64(d + 8,
		    UINT64_C(0x0000000001060000) | c->port[1]); /* RDMA IP CM, TCP's port */
	put_24(d + 32, c->qpn[0]);
	d[35] = d[39] = 16; /* RDMA Reads at a time, either way */
	d[43] = 0xa0;       /* time-outs: some seconds; reliably connected */
	put_24(d + 44, c->psn[0]);
	d[47] = 0xa7; /* the same; retries */
	d[48] = d[49] = 0xff;
	d[50] = 0x57; /* an MTU of 4096; retries */
	d[51] = 0xf0;
	memcpy(d + 56, c->addr[0], 16);
	memcpy(d + 72, c->addr[1], 16);
	d[93] = 64;   /* hops */
	d[95] = 0x98; /* time-out */
	put_ip_cm(c, d + 140);
}

/* Offsets are those of the ConnectReply in chapter 12. Its private data has no header of RDMA
 * CM before it: only the request needs to say the addresses. */
void rr_roce_reply(const struct rr_roce_cm *c, uint8_t mad[RR_ROCE_MAD])
{
	uint8_t *d = begin_mad(c, REPLY, 1, mad);

	rr_put_be32(d + 4, cm_id(c, 0));
	put_24(d + 12, c->qpn[1]);
	put_24(d + 20, c->psn[1]);
	d[24] = d[25] = 16;
	d[27] = 0xe0; /* retries */
	memcpy(d + 36, c->data[1], c->ndata);
}

void rr_roce_ready(const struct rr_roce_cm *c, uint8_t mad[RR_ROCE_MAD])
{
	uint8_t *d = begin_mad(c, READY, 0, mad);

	rr_put_be32(d + 4, cm_id(c, 1));
}
