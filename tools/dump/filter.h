/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FILTER_H
#define RR_FILTER_H

/* Which packets are shown: "host ADDRESS", "port N", "program N", "calls", "replies", with or
 * without "and" between them. All must be true. */

#include "tools/dump/talks.h"

struct rr_filter {
	bool has_host, has_program, calls, replies;
	uint8_t host[16]; /* IPv4 as mapped */
	uint16_t port;    /* 0 any */
	uint32_t program;
};

/* Adds a word, with the next one where it takes one. How many were taken; ends the program with
 * a message where they mean nothing. */
int rr_filter_word(struct rr_filter *f, const char *word, const char *next);

/* A number or a name of /etc/rpc. Ends the program as above. */
uint32_t rr_filter_program(const char *text);

/* By its addresses; by its RPC message's first n bytes (t learns what it needs for replies). */
bool rr_filter_ends(const struct rr_filter *f, const struct rr_cap_packet *p);
bool rr_filter_rpc(const struct rr_filter *f, struct rr_talk *t, const uint8_t *from,
		   uint32_t n);

#endif
