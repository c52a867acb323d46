/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONFORM_RUN_INT_H
#define RR_CONFORM_RUN_INT_H

/* What the parts that play a case share. A step returns false if it has failed: the case is
 * then over, and its result says why. */

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "tools/conform/run.h"

#define RR_LIE_ANY	(1u << RR_LIE_XID)	/* where there is only one lie */

/* A case that is being played. */
struct rr_run {
	const struct rr_options *o;
	const struct rr_case *c;
	struct rr_link_listener *from;
	struct rr_result *r;
	struct rr_link link;
	struct rr_env env;
	struct rr_caller caller;
	struct rr_bytes out;
	bool connected;
	bool opened;		/* the peer has begun its calls, or was asked something else */
	bool closed_well;	/* the peer has closed the connection as it may */
	uint32_t next_xid;
	/* The expectations that were met, each once. */
	uint32_t met;
	const struct rr_step *meeting[RR_MEETINGS];
};

typedef bool rr_step_fn(struct rr_run *r, const struct rr_step *s);

/* Sets the result's reason unless it has one. Returns false. */
bool rr_run_fail(struct rr_run *r, int line, const char *fmt,
		 ...) __attribute__((format(printf, 3, 4)));
/* Is there a connection? It is made if there is none. */
bool rr_run_connected(struct rr_run *r);

static inline uint64_t rr_run_eval(struct rr_run *r, const struct rr_expr *x)
{
	return rr_env_eval(&r->env, x);
}

/* Was the expectation met before? */
bool rr_run_met(const struct rr_run *r, const struct rr_step *s);
/* Notes that an expectation is met and which lies can be told about it (bits of enum rr_lie).
 * True: it is the one to be lied to. */
bool rr_run_meets(struct rr_run *r, const struct rr_step *s, uint32_t lies);

/* If m is what the peer says before its first call, and s (NULL: none) does not ask for it,
 * answers it and returns true. */
bool rr_run_opens(struct rr_run *r, const struct rr_step *s, const struct rr_message *m);

/* --- memory.c --- */
rr_step_fn rr_step_memory, rr_step_withdraw, rr_step_pull, rr_step_push;
/* The variable that stands for memory; NULL, and the case fails: there is none. */
struct rr_var *rr_run_memory(struct rr_run *r, const struct rr_step *s);

/* --- expect.c --- */
rr_step_fn rr_step_expect;
/* Plays one expectation of a message. as is the step by which it is known. */
bool rr_run_expects(struct rr_run *r, const struct rr_step *as, const struct rr_step *s);


/* --- serve.c --- */

/* Serves the caller as a good server does until it ends, with the status that s expects, or
 * 0. */
bool rr_run_serve(struct rr_run *r, const struct rr_step *s);

#endif
