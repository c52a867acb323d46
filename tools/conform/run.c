/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays a case: its steps one after the other, and then its verdict. Each case has its own
 * connection, variables and memory, so that no case depends on the one before. */

#include "tools/conform/run_int.h"

#define FIRST_XID	0x1000u
#define LAB_PROGRAM	0x20005244u
#define SHOWN		192u	/* bytes of a message, in a trace */

/* Sets what every case may refer to. The program is that of the target where the target is
 * fixed, else the user's (--program). */
static void variables(struct rr_run *r)
{
	static const struct { uint32_t program, version; } fixed[RR_TARGETS] = {
		[RR_T_LAB] = { LAB_PROGRAM, 1 }, [RR_T_NFS3] = { 100003, 3 },
			[RR_T_NFS4] = { 100003, 4 },
		[RR_T_REVERSE] = { LAB_PROGRAM, 1 }, [RR_T_TIGHT] = { LAB_PROGRAM, 1 },
	};
	enum rr_target t = r->c->target;

	r->env.dialect = r->o->dialect;
	r->env.role = r->o->role;
	rr_env_set(&r->env, "xid", 0);
	rr_env_set(&r->env, "len", 0);
	rr_env_set(&r->env, "grant", 1);
	rr_env_set(&r->env, "credits", r->o->link.credits);
	rr_env_set(&r->env, "patience", r->o->patience);
	rr_env_set(&r->env, "program", fixed[t].program ? fixed[t].program : r->o->program);
	rr_env_set(&r->env, "version", fixed[t].program ? fixed[t].version : r->o->version);
}

/* --- sending --- */

/* Gives a call an XID of its own, unless this end is the responder. Messages that belong to an
 * earlier one (DONE, an error) keep the last XID; so does a raw message, whose words are all
 * the case's. */
static void new_xid(struct rr_run *r, const struct rr_step *s)
{
	if (r->o->role == RR_RESPONDER && s->kind != RR_K_DONE && s->kind != RR_K_ERROR &&
	    s->kind != RR_K_RAW)
		rr_env_set(&r->env, "xid", r->next_xid++);
}

/* A connection that was to end may end while the case still sends; that is no failure. */
static bool step_send(struct rr_run *r, const struct rr_step *s)
{
	char why[160];
	int rc;

	if (!rr_run_connected(r))
		return false;
	new_xid(r, s);
	if (!rr_make_message(&r->env, s, &r->out, why, sizeof(why)))
		return rr_run_fail(r, s->line, "%s", why);
	rc = rr_link_send(&r->link, r->out.p, (uint32_t)r->out.len,
			  (uint32_t)rr_run_eval(r, &s->a));
	if (rc && r->link.closed && r->c->ends)
		return r->closed_well = true;	/* it was to end, and ended before all was
						 * said */
	return !rc || rr_run_fail(r, s->line, "cannot send: %s", strerror(-rc));
}

/* Each call of the command is a program of its own and makes a new connection, which the next
 * step that needs it accepts. */
static bool step_call(struct rr_run *r, const struct rr_step *s)
{
	if (!r->o->caller)
		return rr_run_fail(r, s->line, "call needs --requester");
	if (r->connected)
		rr_link_close(&r->link);
	r->connected = r->opened = r->closed_well = false;
	return rr_caller_start(&r->caller, r->o->caller, s->verb, rr_run_eval(r, &s->a)) ||
	       rr_run_fail(r, s->line, "the caller cannot be started");
}

/* --- steps --- */

/* Makes a NULL call, whose answer shows that the connection works. s is NULL for the call that
 * ends each case; the reason of its failure says so then. */
static bool step_null(struct rr_run *r, const struct rr_step *s)
{
	struct rr_item rpc = { .kind = RR_I_RPC_CALL }, reply = { .kind = RR_I_RPC_REPLY };
	struct rr_step call = { .op = RR_STEP_SEND, .kind = RR_K_MSG, .items = &rpc,
				.line = s ? s->line : 0 };
	struct rr_step want = { .op = RR_STEP_EXPECT, .kind = RR_K_MSG, .items = &reply,
				.line = call.line };

	if (step_send(r, &call) && rr_run_expects(r, s, &want))
		return true;
	if (!s && r->r->verdict == RR_FAIL) {
		char why[sizeof(r->r->why)];

		memcpy(why, r->r->why, sizeof(why));
		snprintf(r->r->why, sizeof(r->r->why), "the NULL that ends each case: %.400s",
			 why);
	}
	return false;
}

static bool run_steps(struct rr_run *r, const struct rr_step *s);

/* The number may depend on what the peer said (a grant), so it is bounded. */
static bool step_repeat(struct rr_run *r, const struct rr_step *s)
{
	uint64_t n = rr_run_eval(r, &s->a);

	for (uint64_t i = 0; i < rr_min(n, (uint64_t)100000); i++) {
		rr_env_set(&r->env, s->name, i);
		if (!run_steps(r, s->body))
			return false;
	}
	return true;
}

static bool step_set(struct rr_run *r, const struct rr_step *s)
{
	rr_env_set(&r->env, s->name, rr_run_eval(r, &s->a));
	return true;
}

static bool step_wait(struct rr_run *r, const struct rr_step *s)
{
	rr_os_nap(rr_min(rr_run_eval(r, &s->a), UINT64_C(60000)) * RR_MSEC);
	return true;
}

static bool step_close(struct rr_run *r, const struct rr_step *s)
{
	(void)s;
	if (r->connected)
		rr_link_close(&r->link);
	r->connected = false;
	return true;
}

static bool (*const step_of[])(struct rr_run *r, const struct rr_step *s) = {
	[RR_STEP_SEND] = step_send, [RR_STEP_EXPECT] = rr_step_expect,
		[RR_STEP_MEMORY] = rr_step_memory,
	[RR_STEP_WITHDRAW] = rr_step_withdraw, [RR_STEP_SET] = step_set,
		[RR_STEP_REPEAT] = step_repeat,
	[RR_STEP_WAIT] = step_wait, [RR_STEP_CLOSE] = step_close, [RR_STEP_PULL] = rr_step_pull,
	[RR_STEP_PUSH] = rr_step_push, [RR_STEP_CALL] = step_call, [RR_STEP_NULL] = step_null,
};

/* Can the step be done after the connection has ended? */
static bool outlives(const struct rr_step *s)
{
	return s->op == RR_STEP_CALL || (s->op == RR_STEP_EXPECT && s->what == RR_E_EXIT);
}

/* Does the steps until one fails. Once the peer has closed the connection as it may, the steps
 * that need a connection are left out. Returns false if the case has failed. */
static bool run_steps(struct rr_run *r, const struct rr_step *s)
{
	for (; s; s = s->next) {
		if (r->closed_well && !outlives(s))
			continue;
		r->env.missing = NULL;
		if (!step_of[s->op](r, s))
			return false;
		if (r->env.missing)
			return rr_run_fail(r, s->line, "'%s' has no value here",
					   r->env.missing);
		if (r->env.too_long)
			return rr_run_fail(r, s->line, "more than %u bytes", RR_BODY_MAX);
	}
	return true;
}

/* After the steps the peer must still work: on this connection or, if that has ended, on
 * another. The calls of a requester must have been answered, unless its connection was to
 * end. */
static bool finish_case(struct rr_run *r)
{
	if (r->o->role == RR_REQUESTER)
		return r->closed_well || r->c->ends || !r->caller.pid ||
		       r->caller.status >= 0 || rr_run_serve(r, NULL);
	if (r->closed_well || r->c->ends)
		step_close(r, NULL);
	return step_null(r, NULL);
}

/* --- results --- */

static void print_message(FILE *f, enum rr_dialect d, const struct rr_message *m)
{
	char text[200];

	rr_match_describe(d, m->bytes, m->len, text, sizeof(text));
	fprintf(f, "  %c %s\n   ", m->sent ? '>' : '<', text);
	for (uint32_t i = 0; i < rr_min(m->len, SHOWN); i++)
		fprintf(f, "%s%02x", i % 32 == 0 && i ? "\n    " : i % 4 == 0 ? " " : "",
			m->bytes[i]);
	fprintf(f, m->len > SHOWN ? " ...\n" : "\n");
}

/* All messages of the connection as text, which the caller frees; NULL without memory. A
 * connection that is closed already has no trace. */
static char *trace_of(struct rr_run *r)
{
	size_t size;
	char *text = NULL;
	FILE *f = open_memstream(&text, &size);

	if (!f)
		return NULL;
	for (const struct rr_message *m = r->connected ? r->link.trace : NULL; m; m = m->next)
		print_message(f, r->env.dialect, m);
	fclose(f);
	return text;
}

/* Why the case cannot be played against this peer, or NULL if it can. Also tells the provider
 * which private data the case wants; so it is called for every case that is played. */
static const char *not_for(const struct rr_options *o, const struct rr_case *c)
{
	if (c->role != o->role)
		return c->role == RR_REQUESTER ? "judges a requester" : "judges a responder";
	if (!(c->dialects & 1u << o->dialect))
		return "is of another dialect";
	if (!(o->targets & 1u << c->target))
		return "needs another service of the peer";
	if (c->native && o->link.way != RR_WAY_NATIVE)
		return "needs a peer without an upgrade";
	if (c->says && o->link.way != RR_WAY_NATIVE)
		return "needs private data of RDMA CM";
	if (o->link.way == RR_WAY_NATIVE && !rr_link_native_say(c))
		return "needs a provider with private data";
	if (c->patience && !o->patience)
		return "needs to know the peer's patience";
	if (c->caps && o->link.way == RR_WAY_NATIVE)
		return "needs what only an upgrade agrees on";
	return NULL;
}

/* A requester connects only when it is made to call; to a responder the tool connects before
 * the first step. The trace is taken before the connection is closed, because it belongs to
 * that. */
void rr_run_case(const struct rr_options *o, const struct rr_case *c,
		 struct rr_link_listener *from, struct rr_result *out)
{
	struct rr_run r = { .o = o, .c = c, .from = from, .r = out, .next_xid = FIRST_XID };
	rr_time start = rr_now();
	const char *why_not = not_for(o, c);

	*out = (struct rr_result){ .c = c, .verdict = why_not ? RR_SKIP : RR_PASS };
	if (why_not) {
		snprintf(out->why, sizeof(out->why), "%s", why_not);
		return;
	}
	variables(&r);
	if ((r.from || rr_run_connected(&r)) && run_steps(&r, c->steps)) {
		out->expectations = r.met;
		finish_case(&r);
	}
	if (out->verdict == RR_FAIL)
		out->trace = trace_of(&r);
	rr_caller_stop(&r.caller);
	if (r.connected)
		rr_link_close(&r.link);
	rr_env_free(&r.env);
	rr_bytes_free(&r.out);
	out->seconds = (double)(rr_now() - start) / 1e9;
}
