/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_CASE_H
#define RR_CONFORM_CASE_H

/* A case as it is read from its file: what to do to a peer, step by step, and what the peer
 * must do. docs/CONFORM.md describes the format. All of a case lies in its arena. */

#include <stdio.h>

#include "core/base/stats.h"
#include "core/base/types.h"
#include "tools/conform/arena.h"

#define RR_EXPR_TERMS	4u
#define RR_PAT_ALTS	6u
#define RR_PRIVATE_MAX	32u

/* Which property of an exposed or received piece of memory is meant: name.handle and so on. */
enum rr_part { RR_PART_NONE, RR_PART_HANDLE, RR_PART_LENGTH, RR_PART_OFFSET, RR_PART_SEGMENTS };

/* A sum of numbers and variables. */
struct rr_expr {
	uint32_t n;
	struct rr_term {
		bool minus;
		enum rr_part part;
		const char *name;	/* NULL: value */
		uint64_t value;
	} t[RR_EXPR_TERMS];
};

/* What a word may be (anything, or one of some ranges), and the name that it gets from then
 * on. */
struct rr_pat {
	bool any;
	const char *bind;		/* NULL: it gets no name */
	uint32_t n;
	struct { struct rr_expr lo, hi; bool open; } alt[RR_PAT_ALTS];
};

struct rr_field {
	struct rr_field *next;
	const char *name;
	struct rr_pat pat;
};

/* A segment: name, name[off:len], or handle:length:offset. Or name{bytes}: all segments of a
 * chunk of the peer's, with lengths that add up to so many bytes, filled from the first on. */
struct rr_segspec {
	struct rr_segspec *next;
	const char *name;		/* NULL: the three numbers */
	bool part;			/* of name: off and len */
	bool to_end;			/* no len */
	bool filled;
	struct rr_expr num[3];		/* handle, length, offset; or off, len; or bytes */
};

/* One line of a message's description. */
enum rr_item_kind {
	/* in chunk lists and the like */
	RR_I_READ, RR_I_WRITE, RR_I_REPLY, RR_I_LISTS, RR_I_PROP,
	/* in bodies */
	RR_I_RPC_CALL, RR_I_RPC_REPLY, RR_I_U32, RR_I_U64, RR_I_HEX, RR_I_STRING, RR_I_OPAQUE,
	RR_I_PATTERN, RR_I_FILL, RR_I_COPY, RR_I_MARK, RR_I_SKIP, RR_I_REST,
	/* changes of what is made already */
	RR_I_AT, RR_I_CUT,
};

struct rr_item {
	struct rr_item *next;
	enum rr_item_kind kind;
	int line;
	const char *name;		/* bound or marked; NULL none */
	struct rr_expr a, b;
	struct rr_pat pat;
	struct rr_field *fields;	/* of rpc call, rpc reply */
	struct rr_segspec *segs;	/* to be sent */
	struct rr_field *lens;		/* of an expected chunk: a pattern for each segment's
					 * length */
	const uint8_t *bytes;		/* hex, string */
	uint32_t len;
};

/* The form of a header; the dialect knows its number. */
enum rr_msg_kind {
	RR_K_MSG, RR_K_NOMSG, RR_K_MSGP, RR_K_DONE, RR_K_ERROR, RR_K_BCALL, RR_K_BRPLY,
		RR_K_CONNPROP,
	RR_K_OTHER,			/* the first four words, and what follows as it is
					 * given */
	RR_K_RAW,			/* not even those */
	RR_KINDS
};

enum rr_step_op {
	RR_STEP_SEND, RR_STEP_EXPECT, RR_STEP_MEMORY, RR_STEP_WITHDRAW, RR_STEP_SET,
		RR_STEP_REPEAT,
	RR_STEP_WAIT, RR_STEP_CLOSE, RR_STEP_PULL, RR_STEP_PUSH, RR_STEP_CALL, RR_STEP_NULL,
};

enum rr_expect {
	RR_E_MESSAGE, RR_E_SILENCE, RR_E_CLOSE, RR_E_MEMORY, RR_E_READ, RR_E_EXIT, RR_E_VALUE,
};

struct rr_step {
	struct rr_step *next;
	enum rr_step_op op;
	int line;
	/* send, expect */
	enum rr_msg_kind kind;
	enum rr_expect what;
	struct rr_field *fields;
	struct rr_item *items;
	struct rr_step *other;		/* expect: an alternative to this step */
	const char *who;		/* of an alternative: the implementation that
					 * behaves so */
	/* memory, withdraw, set, pull, push, expect memory */
	const char *name;
	struct rr_expr a;
	struct rr_pat pat;		/* expect value */
	enum rr_rights rights;		/* 0: none, for the tool's own use */
	bool refused;			/* pull, push: must not succeed */
	/* repeat */
	struct rr_step *body;
	/* call */
	const char *verb;
};

enum rr_level { RR_MUST, RR_SHOULD, RR_MAY };
enum rr_role { RR_RESPONDER, RR_REQUESTER };
enum rr_target { RR_T_NULL, RR_T_LAB, RR_T_NFS3, RR_T_NFS4, RR_T_REVERSE, RR_T_TIGHT,
		 RR_TARGETS };

struct rr_requirement {
	struct rr_requirement *next;
	const char *document, *section;
	uint32_t ordinal;		/* 0: the whole section */
};

struct rr_case {
	struct rr_arena arena;
	const char *path;
	char name[96];			/* directory and file, without .case */
	const char *title;
	struct rr_requirement *requires;
	enum rr_level level;
	enum rr_role role;
	uint32_t dialects;		/* bits of enum rr_dialect */
	enum rr_target target;
	uint32_t caps;			/* enum rr_cap that the tool offers in an upgrade */
	bool native;			/* for connections without an upgrade only */
	bool says;			/* sends these bytes as private data of RDMA CM, in
					 * place of RFC 8797's */
	const uint8_t *private_data;
	uint32_t private_len;
	bool ends;			/* the connection ends before a closing NULL call could
					 * be made */
	bool patience;			/* the case needs the peer's patience to be known */
	struct rr_step *steps;
};

/* Names for the parser, the reports and the errors. */
extern const char *const rr_level_names[], *const rr_role_names[], *const rr_target_names[],
	*const rr_kind_names[];

/* Reads the case text[0..len), which is in file path. NULL: err[0..cap) says what is wrong, and
 * where. */
struct rr_case *rr_case_parse(const char *path, const char *text, size_t len, char *err,
			      size_t cap);
void rr_case_free(struct rr_case *c);

#endif
