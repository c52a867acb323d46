/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_WIRE_H
#define RR_CONFORM_WIRE_H

/* Messages as a case describes them: making them, and comparing them with what came. Nothing of
 * core/wire is used here, because a judge that shared the codec would share its errors. */

#include "tools/conform/case.h"

#define RR_CHUNK_SEGS	64u
#define RR_BODY_MAX	(2u << 20)	/* bytes that a case can make at a time */
#define RR_SENT		32u	/* messages whose chunks are remembered */
#define RR_SENT_CHUNKS	8u

/* A buffer that grows. */
struct rr_bytes {
	uint8_t *p;
	size_t len, cap;
};

/* Appends n bytes, which the caller fills in. */
uint8_t *rr_bytes_more(struct rr_bytes *b, size_t n);
void rr_bytes_add(struct rr_bytes *b, const void *p, size_t n);
void rr_bytes_word(struct rr_bytes *b, uint32_t v);
void rr_bytes_free(struct rr_bytes *b);

struct rr_chunk {
	uint32_t n;
	uint32_t at;			/* in a message that came: where its segments begin */
	struct rr_seg seg[RR_CHUNK_SEGS];
};

/* A variable: a number; memory of ours, exposed; or a chunk of the peer's, with what was pulled
 * of it. */
struct rr_var {
	struct rr_var *next;
	const char *name;
	uint64_t num;
	bool mem, theirs;
	uint8_t *at;
	uint32_t len;
	struct rr_chunk chunk;
};

/* Which bytes of a message a case says something about. Filled in by a comparison. */
struct rr_heeded {
	const uint8_t *buf;
	uint8_t *how;			/* for each byte one of: */
	uint32_t len;
};

enum { RR_HEED_EXACT, RR_HEED_RANGE, RR_HEED_NONE };	/* RANGE is noted for words */

struct rr_env {
	struct rr_arena arena;
	struct rr_var *vars;
	const char *missing;		/* a variable that was used and has no value */
	uint32_t invalidated;		/* the handle that the last received message
					 * invalidated; 0: none */
	bool too_long;			/* more than RR_BODY_MAX bytes should have been made */
	enum rr_dialect dialect;
	enum rr_role role;
	struct rr_heeded *heeded;	/* NULL: nobody asks */
	/* The chunks of messages that were sent, which replies must return. */
	uint32_t nsent;
	struct rr_sent {
		uint32_t xid, nwrites;
		bool has_reply;
		struct rr_chunk write[RR_SENT_CHUNKS], reply;
	} sent[RR_SENT];
};

void rr_env_free(struct rr_env *e);
void rr_env_set(struct rr_env *e, const char *name, uint64_t v);
struct rr_var *rr_env_find(struct rr_env *e, const char *name);
/* The number of this variable; 0 if the case has not set it. */
uint64_t rr_env_num(struct rr_env *e, const char *name);
/* The variable of this name; made if there is none. */
struct rr_var *rr_env_var(struct rr_env *e, const char *name);
uint64_t rr_env_eval(struct rr_env *e, const struct rr_expr *x);
/* Does v match the pattern? Then it gets the pattern's name. */
bool rr_env_match(struct rr_env *e, const struct rr_pat *pat, uint64_t v);
void rr_env_print(struct rr_env *e, const struct rr_pat *pat, char *out, size_t cap);
/* The pattern that the case gives for the field of this name; NULL: it does not name it. */
const struct rr_pat *rr_field_pat(const struct rr_field *f, const char *name);

/* The bytes that a copy names, as far as they exist. */
const uint8_t *rr_env_bytes(struct rr_env *e, const struct rr_segspec *s, uint32_t *len);

/* The number of a header of this kind on the wire. False: the dialect has none. */
bool rr_kind_number(enum rr_dialect d, enum rr_msg_kind kind, uint32_t *number);
bool rr_kind_has_lists(enum rr_msg_kind kind);
/* The layout of a message of this version. An end of version 2 that has fallen back uses
 * version 1's. */
enum rr_dialect rr_layout(enum rr_dialect d, uint32_t vers);
/* The version that headers of a dialect have. */
uint32_t rr_dialect_version(enum rr_dialect d);

/* The byte at i of what `opaque` and `pattern` consist of. */
static inline uint8_t rr_pattern(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8));
}

/* --- make.c --- */

/* Makes the message of a send step, or a body (rpc, u32 ...) alone. False: why says what is
 * wrong. */
bool rr_make_message(struct rr_env *e, const struct rr_step *s, struct rr_bytes *out, char *why,
		     size_t cap);
void rr_make_body(struct rr_env *e, const struct rr_item *items, struct rr_bytes *out);

/* --- match.c --- */

/* Is what came what the step expects? If not, why says what differs. */
bool rr_match_message(struct rr_env *e, const struct rr_step *s, const uint8_t *buf,
		      uint32_t len, char *why, size_t cap);
bool rr_match_body(struct rr_env *e, const struct rr_item *items, const uint8_t *buf,
		   uint32_t len, char *why, size_t cap);
/* Describes a message in one line, for a report. */
void rr_match_describe(enum rr_dialect d, const uint8_t *buf, uint32_t len, char *out,
		       size_t cap);

/* --- open.c --- */

/* Is this what a requester says before its first call, and step s (NULL: none) does not ask for
 * it? Then out is the answer. */
bool rr_make_opening(struct rr_env *e, const struct rr_step *s, const uint8_t *buf,
		     uint32_t len,
		    struct rr_bytes *out);

/* --- seen.c --- */

struct rr_seen {
	enum rr_msg_kind kind;
	uint32_t xid, vers, credit, proc, flags, inv, align, thresh, err;
	uint32_t narm, arm[2];
	uint32_t nreads;
	struct { uint32_t position, at; struct rr_seg seg; } read[RR_CHUNK_SEGS];
	uint32_t nwrites;
	struct rr_chunk write[RR_SENT_CHUNKS];
	bool has_reply;
	struct rr_chunk reply;
	const uint8_t *body;		/* of an RPC message, or properties */
	uint32_t body_len, size;	/* size: of the message */
	bool v2;			/* laid out as version 2 is */
	uint32_t err_at, lists_at, lists_end;	/* positions in the message; 0: it has none */
};

/* Takes a message apart. Returns NULL, or what is malformed. */
const char *rr_seen_read(enum rr_dialect d, const uint8_t *buf, uint32_t len,
			 struct rr_seen *s);
/* The value of the word of this name (a field of a header, an error, ...). False: the message
 * has none. */
bool rr_seen_field(const struct rr_seen *s, const char *name, uint32_t *v);

/* Where in the message the word of this name is. False, and 0: it has none. */
bool rr_seen_at(const struct rr_seen *s, const char *name, uint32_t *at);

/* --- probe.c --- */

/* Does step s, which expects a message or memory, notice every change of what came, except in
 * what it leaves open? False: the change at *at goes unnoticed. Adds the number of changes to
 * *probed. */
bool rr_probe(struct rr_env *e, const struct rr_step *s, const uint8_t *buf, uint32_t len,
	      uint32_t *probed, uint32_t *at);
/* Where in a message the first segment (handle, length, offset) is of a chunk that s names and
 * that later steps read or write. False: there is none. */
bool rr_probe_kept(struct rr_env *e, const struct rr_step *s, const uint8_t *buf, uint32_t len,
		   uint32_t *at);

static inline uint32_t rr_word(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

#endif
