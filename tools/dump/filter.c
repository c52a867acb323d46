/* SPDX-License-Identifier: BSD-3-Clause */
/* Decides which packets are shown, by their addresses and by their RPC headers. Bad words of
 * the user end the program with status 2; bytes of a packet never do: a record that is not RPC
 * matches no condition on RPC. */
#include "tools/dump/filter.h"

#include <arpa/inet.h>
#include <err.h>
#include <netdb.h>
#include <stdlib.h>
#include <string.h>

#include "core/wire/cursor.h"
#include "core/wire/rpc.h"

/* Parses a number in C's notation. strtoul() would take "-1" for a large number, so that is
 * refused first. `what` names it in the message. */
static unsigned long filter_number(const char *what, const char *text, unsigned long most)
{
	char *end;
	unsigned long v = strtoul(text, &end, 0);

	if (end == text || *end || *text == '-' || v > most)
		errx(2, "%s: '%s' is not a number up to %lu", what, text, most);
	return v;
}

/* A name is looked up only if it does not begin with a digit, so that a number never depends on
 * /etc/rpc. */
uint32_t rr_filter_program(const char *text)
{
	struct rpcent *e = *text < '0' || *text > '9' ? getrpcbyname(text) : NULL;

	return e ? (uint32_t)e->r_number : (uint32_t)filter_number("program", text, UINT32_MAX);
}

static void parse_host(struct rr_filter *f, const char *text)
{
	f->has_host = true;
	memset(f->host, 0, sizeof(f->host));
	f->host[10] = f->host[11] = 0xff;
	if (inet_pton(AF_INET, text, f->host + 12) != 1 &&
	    inet_pton(AF_INET6, text, f->host) != 1)
		errx(2, "host: '%s' is not an address", text);
}

int rr_filter_word(struct rr_filter *f, const char *word, const char *next)
{
	if (!strcmp(word, "and"))
		return 1;
	if (!strcmp(word, "calls"))
		return f->calls = true;
	if (!strcmp(word, "replies"))
		return f->replies = true;
	if (strcmp(word, "host") && strcmp(word, "port") && strcmp(word, "program"))
		errx(2, "filter: '%s' is none of: host, port, program, calls, replies", word);
	if (!next)
		errx(2, "filter: '%s' of what?", word);
	if (!strcmp(word, "host")) {
		parse_host(f, next);
	} else if (!strcmp(word, "port")) {
		f->port = (uint16_t)filter_number(word, next, UINT16_MAX);
	} else {
		f->has_program = true;
		f->program = rr_filter_program(next);
	}
	return 2;
}

bool rr_filter_ends(const struct rr_filter *f, const struct rr_cap_packet *p)
{
	if (f->port && p->port[0] != f->port && p->port[1] != f->port)
		return false;
	return !f->has_host || !memcmp(p->addr[0], f->host, 16) ||
	       !memcmp(p->addr[1], f->host, 16);
}

/* Only a call names its program. A reply is recognized by the XID of a call that was let
 * through before; the reply to a call from before the capture is not shown. "calls" and
 * "replies" together are the same as neither. */
bool rr_filter_rpc(const struct rr_filter *f, struct rr_talk *t, const uint8_t *from,
		   uint32_t n)
{
	struct rr_rpc rpc;
	bool call;

	if (!f->has_program && !f->calls && !f->replies)
		return true;
	if (!rr_rpc_peek(from, n, &rpc))
		return false;
	call = rpc.type == RR_RPC_CALL;
	if (f->has_program && call) {
		if (rpc.prog != f->program)
			return false;
		rr_talk_call(t, rpc.xid);
	} else if (f->has_program && !rr_talk_answers(t, rpc.xid)) {
		return false;
	}
	return f->calls == f->replies || f->calls == call;
}
