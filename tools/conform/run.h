/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_RUN_H
#define RR_CONFORM_RUN_H

/* Plays one case against a peer. */

#include "tools/conform/link.h"

#define RR_MEETINGS	256u	/* expectations of a case that can be lied to */

/* How an expectation is shown something else than what came, to see whether it notices. */
enum rr_lie {
	RR_LIE_NONE, RR_LIE_XID, RR_LIE_VERSION, RR_LIE_CREDIT, RR_LIE_KIND, RR_LIE_NEXT,
	RR_LIE_HANDLE, RR_LIE_LENGTH, RR_LIE_OFFSET,	/* of a chunk of the peer's */
	RR_LIES
};

struct rr_options {
	struct rr_link_params link;
	enum rr_dialect dialect;
	enum rr_role role;
	uint32_t targets;		/* bits of enum rr_target: what the peer serves */
	uint32_t program, version;	/* whose NULL is called */
	uint32_t timeout, silence;	/* ms */
	uint32_t patience;		/* ms that the peer waits for its replies to be pulled;
					 * 0: not known */
	const char *caller;		/* for a requester: the command that makes it call */
	const char *strict;		/* of alternatives only this implementation's; NULL:
					 * all */
	/* This expectation, of all that are met, counted from 1, is lied to; 0: none. */
	uint32_t lie_at;
	enum rr_lie lie;
	bool probe;			/* checks that each notices all changes of what came
					 * (rr_probe()) */
};

enum rr_verdict { RR_PASS, RR_FAIL, RR_SKIP, RR_DIFFERS, RR_UNREACHED };

struct rr_result {
	const struct rr_case *c;
	enum rr_verdict verdict;
	char why[512];			/* of all but RR_PASS */
	int line;			/* of the step that failed; 0 none */
	char *trace;			/* the messages of a failed case, which the caller
					 * frees; NULL */
	double seconds;
	uint32_t expectations;		/* how many were met or not */
	uint16_t lies[RR_MEETINGS];	/* the lies that can be told about each: bits of enum
					 * rr_lie */
	bool lied;			/* an expectation was lied to */
	uint32_t probed;		/* changes that were made */
};

/* Plays case c. from is the listener to which a requester comes, else NULL. */
void rr_run_case(const struct rr_options *o, const struct rr_case *c,
		 struct rr_link_listener *from, struct rr_result *out);

/* --- caller.c: the process that makes a requester call --- */

struct rr_caller {
	pid_t pid;			/* 0 none */
	int status;			/* once it has ended; -1 before */
};

/* Runs "command verb [n]". */
bool rr_caller_start(struct rr_caller *c, const char *command, const char *verb, uint64_t n);
/* Has it ended? Then status is its exit status, or 128 and more for a signal. */
bool rr_caller_ended(struct rr_caller *c);
void rr_caller_stop(struct rr_caller *c);

#endif
