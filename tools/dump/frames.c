/* SPDX-License-Identifier: BSD-3-Clause */
/* Makes IP, TCP and UDP headers with their checksums, around a payload of which only the first
 * bytes may have been captured. There are no Ethernet headers and no fragments: packets are raw
 * IP, and the caller keeps them shorter than 64 KiB (RR_FRAME_MOST). */
#include "tools/dump/frames.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/ip6.h>
#include <netinet/tcp.h>
#include <netinet/udp.h>
#include <string.h>

/* Is it an IPv4 address in IPv6-mapped form, ::ffff:a.b.c.d? */
static bool is_v4(const uint8_t *addr)
{
	static const uint8_t mapped[12] = {[10] = 0xff, 0xff};

	return !memcmp(addr, mapped, sizeof(mapped));
}

/* RFC 1071: the sum of 16-bit words, without folding. */
static uint64_t sum_words(const void *from, uint32_t n, uint64_t s)
{
	const uint8_t *p = from;

	for (; n > 1; n -= 2, p += 2)
		s += (uint32_t)(p[0] << 8 | p[1]);
	return n ? s + (uint32_t)(p[0] << 8) : s;
}

/* Ends a sum by adding the carries back in. Returns the checksum in network byte order. */
static uint16_t fold(uint64_t s)
{
	while (s >> 16)
		s = (s & 0xffff) + (s >> 16);
	return htons((uint16_t)~s);
}

/* The checksum over pseudo-header, transport header (hdr, n bytes) and payload. The
 * pseudo-header has the two addresses, the protocol and the length. Returns 0 if a part of the
 * payload was not captured, because nobody can compute it then. */
static uint16_t checksum(const struct rr_frame *f, uint8_t proto, const void *hdr, uint32_t n)
{
	uint32_t skip = is_v4(f->from.addr) && is_v4(f->to.addr) ? 12 : 0;
	uint64_t s = proto + n + f->len;

	if (f->captured != f->len)
		return 0;
	s = sum_words(f->from.addr + skip, 16 - skip, s);
	s = sum_words(f->to.addr + skip, 16 - skip, s);
	return fold(sum_words(f->payload, f->len, sum_words(hdr, n, s)));
}

/* Writes the IP header for len bytes behind it; returns the header's length. Both ends must be
 * IPv4 for an IPv4 header: a mixed pair is written as IPv6 with the mapped address. */
static uint32_t put_ip(const struct rr_frame *f, uint8_t proto, uint32_t len, uint8_t *out)
{
	struct iphdr v4 = {
	    .version = 4, .ihl = 5, .ttl = 64, .protocol = proto, .frag_off = htons(IP_DF)};
	struct ip6_hdr v6 = {0};

	if (is_v4(f->from.addr) && is_v4(f->to.addr)) {
		v4.tot_len = htons((uint16_t)(sizeof(v4) + len));
		memcpy(&v4.saddr, f->from.addr + 12, 4);
		memcpy(&v4.daddr, f->to.addr + 12, 4);
		v4.check = fold(sum_words(&v4, sizeof(v4), 0));
		memcpy(out, &v4, sizeof(v4));
		return sizeof(v4);
	}
	v6.ip6_flow = htonl(6u << 28);
	v6.ip6_plen = htons((uint16_t)len);
	v6.ip6_nxt = proto;
	v6.ip6_hlim = 64;
	memcpy(&v6.ip6_src, f->from.addr, 16);
	memcpy(&v6.ip6_dst, f->to.addr, 16);
	memcpy(out, &v6, sizeof(v6));
	return sizeof(v6);
}

/* Puts a packet together: IP header, transport header hdr of n bytes, and what there is of the
 * payload. The headers carry the lengths of the whole packet, as in any capture with a snapshot
 * length. */
static uint32_t put_packet(const struct rr_frame *f, uint8_t proto, const void *hdr, uint32_t n,
			   uint8_t *out, uint32_t *whole)
{
	uint32_t at = put_ip(f, proto, n + f->len, out);

	memcpy(out + at, hdr, n);
	at += n;
	*whole = at + f->len;
	memcpy(out + at, f->payload, f->captured);
	return at + f->captured;
}

uint32_t rr_frame_tcp(const struct rr_frame *f, uint8_t *out, uint32_t *whole)
{
	struct tcphdr h = {.source = htons(f->from.port),
			   .dest = htons(f->to.port),
			   .seq = htonl(f->seq),
			   .ack_seq = htonl(f->ack),
			   .doff = 5,
			   .psh = 1,
			   .ack = 1,
			   .window = htons(65535)};

	h.check = checksum(f, IPPROTO_TCP, &h, sizeof(h));
	return put_packet(f, IPPROTO_TCP, &h, sizeof(h), out, whole);
}

uint32_t rr_frame_udp(const struct rr_frame *f, uint8_t *out, uint32_t *whole)
{
	struct udphdr h = {.source = htons(f->from.port),
			   .dest = htons(f->to.port),
			   .len = htons((uint16_t)(sizeof(h) + f->len))};

	h.check = checksum(f, IPPROTO_UDP, &h, sizeof(h));
	return put_packet(f, IPPROTO_UDP, &h, sizeof(h), out, whole);
}
