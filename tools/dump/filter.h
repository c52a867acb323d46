/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FILTER_H
#define RR_FILTER_H

/* Which packets are shown: "host ADDRESS", "port N", "program N", "calls", "replies", with or
 * without "and" between them. All conditions must hold. */

#include "tools/dump/talks.h"

struct rr_filter {
	bool has_host, has_program, calls, replies;
	uint8_t host[16]; /* IPv4 as an IPv6-mapped address */
	uint16_t port;    /* 0: any */
	uint32_t program;
};

/* Adds the condition that word begins, which may take the next word. Returns how many words
 * were taken. Ends the program with a message if they mean nothing. */
int rr_filter_word(struct rr_filter *f, const char *word, const char *next);

/* The number of a program: text is a number or a name from /etc/rpc. Ends the program as
 * above. */
uint32_t rr_filter_program(const char *text);

/* The first judges by addresses, the second by the first n bytes of the RPC message. The second
 * notes in t what it needs to judge replies. */
bool rr_filter_ends(const struct rr_filter *f, const struct rr_cap_packet *p);
bool rr_filter_rpc(const struct rr_filter *f, struct rr_talk *t, const uint8_t *from,
		   uint32_t n);

#endif
