/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes blocks and options of pcapng, in the byte order of this machine: a reader learns the
 * order from the section header's magic number. Only what rdmarpc-dump needs is here. Nothing
 * is checked after each write, because stdio keeps the error for the caller (ferror()). */
#include "tools/dump/pcapng.h"

#include <string.h>

#include "core/base/compiler.h"

#define RAW 101u /* LINKTYPE_RAW: the packet begins with an IP header */

/* Numbers of blocks and options: draft-ietf-opsawg-pcapng. */
enum { SECTION = 0x0a0d0d0a, INTERFACE = 1, TOTALS = 5, PACKET = 6 };
enum {
	COMMENT = 1,
	SHB_APPLICATION = 4,
	IF_NAME = 2,
	IF_DESCRIPTION = 3,
	IF_RESOLUTION = 9,
	ISB_RECEIVED = 4,
	ISB_DROPPED = 5
};

struct png_option {
	uint16_t code, len;
	const void *value;
};

static uint32_t padded(uint32_t n)
{
	return rr_align(n, 4u);
}

/* Writes n bytes and zeroes up to a multiple of four, to which pcapng aligns every part of a
 * block. */
static void put_padded(struct rr_pcapng *p, const void *from, uint32_t n)
{
	static const uint8_t zeroes[4];

	if (n)
		fwrite(from, 1, n, p->f);
	fwrite(zeroes, 1, padded(n) - n, p->f);
}

/* An option that points to s, which must live until block() has written it. The length is
 * bounded because an option's length field has 16 bits. */
static struct png_option text_option(uint16_t code, const char *s)
{
	return (struct png_option){code, (uint16_t)strnlen(s, 1024), s};
}

/* Writes a block: its fixed part, then data, then the options. The length of the whole block
 * stands at both ends, so that a reader can also go backwards. The option with code 0 and
 * length 0 ends the list. */
static void block(struct rr_pcapng *p, uint32_t type, const void *fixed, uint32_t nfixed,
		  const void *data, uint32_t ndata, const struct png_option *opt, unsigned nopt)
{
	uint32_t len = 16 + nfixed + padded(ndata), end = 0;

	for (unsigned i = 0; i < nopt; i++)
		len += 4 + padded(opt[i].len);
	put_padded(p, &type, 4);
	put_padded(p, &len, 4);
	put_padded(p, fixed, nfixed);
	put_padded(p, data, ndata);
	for (unsigned i = 0; i < nopt; i++) {
		put_padded(p, &opt[i].code, 2 * sizeof(uint16_t));
		put_padded(p, opt[i].value, opt[i].len);
	}
	put_padded(p, &end, 4);
	put_padded(p, &len, 4);
}

/* The section's length is not known before it ends, and a pipe cannot be rewound. The format
 * has all bits set for "not specified". */
void rr_pcapng_begin(struct rr_pcapng *p, FILE *f)
{
	struct {
		uint32_t magic;
		uint16_t major, minor;
		uint32_t length[2];
	} s = {
	    0x1a2b3c4d, 1, 0, {UINT32_MAX, UINT32_MAX}, /* nobody knows how long it gets */
	};
	struct png_option by = text_option(SHB_APPLICATION, "rdmarpc-dump " RR_VERSION);

	*p = (struct rr_pcapng){.f = f};
	block(p, SECTION, &s, sizeof(s), NULL, 0, &by, 1);
}

/* Interfaces have no number in the file: a reader counts their blocks, as `interfaces` does
 * here. Times are nanoseconds (9: ten to the power of -9). A snaplen of 0 means no limit, since
 * the process cuts packets before they arrive here. */
uint32_t rr_pcapng_interface(struct rr_pcapng *p, const char *name, const char *description)
{
	struct {
		uint16_t link, reserved;
		uint32_t snaplen;
	} s = {RAW, 0, 0};
	static const uint8_t nanoseconds = 9;
	struct png_option opt[] = {text_option(IF_NAME, name),
			       text_option(IF_DESCRIPTION, description),
			       {IF_RESOLUTION, 1, &nanoseconds}};

	block(p, INTERFACE, &s, sizeof(s), NULL, 0, opt, rr_array_size(opt));
	return p->interfaces++;
}

/* An enhanced packet block. The time is one 64-bit number, but is stored as two words, the high
 * one first in either byte order. */
void rr_pcapng_packet(struct rr_pcapng *p, uint32_t interface, uint64_t ns, const void *data,
		      uint32_t captured, uint32_t len, const char *comment)
{
	uint32_t s[5] = {interface, (uint32_t)(ns >> 32), (uint32_t)ns, captured, len};
	struct png_option opt = text_option(COMMENT, comment);

	block(p, PACKET, s, sizeof(s), data, captured, &opt, 1);
}

void rr_pcapng_totals(struct rr_pcapng *p, uint32_t interface, uint64_t ns, uint64_t packets,
		      uint64_t dropped)
{
	uint32_t s[3] = {interface, (uint32_t)(ns >> 32), (uint32_t)ns};
	struct png_option opt[] = {{ISB_RECEIVED, 8, &packets}, {ISB_DROPPED, 8, &dropped}};

	block(p, TOTALS, s, sizeof(s), NULL, 0, opt, 2);
}
