/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_PCAPNG_H
#define RR_PCAPNG_H

/* Writes pcapng: a section, an interface for each process, and packets with comments. All
 * packets are raw IP. Write errors stay with the file: see ferror(). */

#include <stdint.h>
#include <stdio.h>

struct rr_pcapng {
	FILE *f;
	uint32_t interfaces;
};

/* Begins with the section's header. */
void rr_pcapng_begin(struct rr_pcapng *p, FILE *f);

/* Adds an interface; returns its number. */
uint32_t rr_pcapng_interface(struct rr_pcapng *p, const char *name, const char *description);

/* Writes data[0..captured) of a packet of len bytes. ns is the time since 1970. */
void rr_pcapng_packet(struct rr_pcapng *p, uint32_t interface, uint64_t ns, const void *data,
		      uint32_t captured, uint32_t len, const char *comment);

/* Writes an interface's totals, when it ends. */
void rr_pcapng_totals(struct rr_pcapng *p, uint32_t interface, uint64_t ns, uint64_t packets,
		      uint64_t dropped);

#endif
