/* SPDX-License-Identifier: BSD-3-Clause */
#include "tools/conform/run.h"

#include <stdarg.h>

#include "core/base/compiler.h"
#include "core/base/os.h"

#define FIRST_XID	0x1000u
#define LAB_PROGRAM	0x20005244u
#define SHOWN		192u	/* bytes of a message, in a trace */
#define MEETINGS	256u	/* expectations that can be lied to */

struct run {
	const struct rr_options *o;
	const struct rr_case *c;
	struct rr_listener *from;
	struct rr_result *r;
	struct rr_link link;
	struct rr_env env;
	struct rr_caller caller;
	struct rr_bytes out;
	bool connected;
	bool closed_well;	/* by the peer, as it may */
	uint32_t next_xid;
	/* The expectations that were met, each once. */
	uint32_t met;
	const struct rr_step *meeting[MEETINGS];
};

static bool fail(struct run *r, int line, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

static bool fail(struct run *r, int line, const char *fmt, ...)
{
	va_list ap;

	if (r->r->verdict != RR_PASS)
		return false;
	r->r->verdict = RR_FAIL;
	r->r->line = line;
	va_start(ap, fmt);
	vsnprintf(r->r->why, sizeof(r->r->why), fmt, ap);
	va_end(ap);
	return false;
}

/* --- the connection --- */

static bool connected(struct run *r)
{
	struct rr_link_params p = r->o->link;
	const char *why;

	if (r->connected)
		return true;
	p.caps = r->c->caps;
	p.dialect = r->o->dialect;
	p.timeout = r->o->timeout;
	why = r->from ? rr_link_accept(&r->link, r->from, &p) : rr_link_connect(&r->link, &p);
	if (why) {
		fail(r, 0, "no connection: %s", why);
		r->r->verdict = RR_UNREACHED;
		return false;
	}
	r->connected = true;
	rr_env_set(&r->env, "inline", r->link.qp->send_size);
	rr_env_set(&r->env, "ours", r->link.qp->recv_size);
	return true;
}

static void variables(struct run *r)
{
	static const struct { uint32_t program, version; } fixed[RR_TARGETS] = {
		[RR_T_LAB] = { LAB_PROGRAM, 1 }, [RR_T_NFS3] = { 100003, 3 }, [RR_T_NFS4] = { 100003, 4 },
	};
	enum rr_target t = r->c->target;

	r->env.dialect = r->o->dialect;
	r->env.role = r->o->role;
	rr_env_set(&r->env, "xid", 0);
	rr_env_set(&r->env, "len", 0);
	rr_env_set(&r->env, "grant", 1);
	rr_env_set(&r->env, "credits", r->o->link.credits);
	rr_env_set(&r->env, "program", fixed[t].program ? fixed[t].program : r->o->program);
	rr_env_set(&r->env, "version", fixed[t].program ? fixed[t].version : r->o->version);
}

static uint64_t eval(struct run *r, const struct rr_expr *x)
{
	return rr_env_eval(&r->env, x);
}

/* --- sending --- */

/* Calls have an XID of their own. */
static void new_xid(struct run *r, const struct rr_step *s)
{
	if (r->o->role == RR_RESPONDER && s->kind != RR_K_DONE && s->kind != RR_K_ERROR && s->kind != RR_K_RAW)
		rr_env_set(&r->env, "xid", r->next_xid++);
}

static bool step_send(struct run *r, const struct rr_step *s)
{
	char why[160];
	int rc;

	if (!connected(r))
		return false;
	new_xid(r, s);
	if (!rr_make_message(&r->env, s, &r->out, why, sizeof(why)))
		return fail(r, s->line, "%s", why);
	rc = rr_link_send(&r->link, r->out.p, (uint32_t)r->out.len, (uint32_t)eval(r, &s->a));
	return !rc || fail(r, s->line, "cannot send: %s", strerror(-rc));
}

/* --- memory --- */

static bool step_memory(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_env_var(&r->env, s->name);
	int rc = 0;

	if (!connected(r))
		return false;
	if (r->o->role == RR_RESPONDER)
		rr_env_set(&r->env, "xid", r->next_xid);	/* of the message that will name it */
	r->out.len = 0;
	rr_make_body(&r->env, s->items, &r->out);
	v->mem = true;
	v->len = s->a.n ? (uint32_t)eval(r, &s->a) : (uint32_t)r->out.len;
	v->at = rr_link_memory(&r->link, v->len);
	if (!v->at || r->out.len > v->len)
		return fail(r, s->line, "%s: %u bytes do not fit", s->name, v->len);
	memcpy(v->at, r->out.p, r->out.len);
	if (s->rights) {
		rc = rr_link_expose(&r->link, v->at, v->len, s->rights, &v->chunk.seg[0]);
		v->chunk.n = 1;
	}
	return !rc || fail(r, s->line, "%s cannot be exposed: %s", s->name, strerror(-rc));
}

/* A name that stands for memory. */
static struct rr_var *memory(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_env_find(&r->env, s->name);

	if (v && v->mem)
		return v;
	fail(r, s->line, "%s is no memory", s->name);
	return NULL;
}

static bool step_withdraw(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = memory(r, s);

	if (!v)
		return false;
	if (v->chunk.n && rr_link_withdraw(&r->link, v->chunk.seg[0].handle))
		return fail(r, s->line, "%s cannot be withdrawn", s->name);
	return true;
}

static uint32_t chunk_len(const struct rr_chunk *ch)
{
	uint64_t n = 0;

	for (uint32_t i = 0; i < ch->n; i++)
		n += ch->seg[i].length;
	return (uint32_t)rr_min(n, (uint64_t)UINT32_MAX);
}

static bool step_pull(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = memory(r, s);
	int rc;

	if (!v)
		return false;
	v->len = chunk_len(&v->chunk);
	v->at = rr_link_memory(&r->link, v->len);
	if (!v->at)
		return fail(r, s->line, "%s: %u bytes do not fit", s->name, v->len);
	rc = rr_link_read(&r->link, v->at, &v->chunk);
	return !rc || fail(r, s->line, "RDMA Read of %s: %s", s->name, strerror(-rc));
}

static bool step_push(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = memory(r, s);
	uint8_t *at;
	int rc;

	if (!v)
		return false;
	r->out.len = 0;
	rr_make_body(&r->env, s->items, &r->out);
	at = rr_link_memory(&r->link, (uint32_t)r->out.len);
	if (!at)
		return fail(r, s->line, "%zu bytes do not fit", r->out.len);
	memcpy(at, r->out.p, r->out.len);
	rc = rr_link_write(&r->link, at, (uint32_t)r->out.len, &v->chunk);
	return !rc || fail(r, s->line, "RDMA Write to %s: %s", s->name, strerror(-rc));
}

/* --- expecting --- */

/* What an expectation gets to see. */
struct shown {
	const uint8_t *p;	/* a message; NULL none */
	uint32_t len;
	bool closed;
	uint8_t lie[RR_LINK_RECV];
};

/* An expectation is met. True: it is the one to be lied to. */
static bool meets(struct run *r, const struct rr_step *s)
{
	for (uint32_t i = 0; i < r->met; i++)
		if (r->meeting[i] == s)
			return false;
	if (r->met == MEETINGS)
		return false;
	r->meeting[r->met++] = s;
	return r->met == r->o->lie_at;
}

static bool names_field(const struct rr_step *s, const char *name)
{
	for (const struct rr_field *f = s->fields; f; f = f->next)
		if (!strcmp(f->name, name))
			return true;
	return s->other && names_field(s->other, name);
}

/* An expectation is lied to: a message that came has one word wrong; if none came there is one. Where
 * a case says what it wants of that word there is no telling what would be wrong. */
static void lie(struct run *r, const struct rr_step *as, const struct rr_step *s, struct shown *sh)
{
	static const struct { const char *name; uint8_t at; } word[RR_LIES] = {
		[RR_LIE_XID] = { "xid", 0 }, [RR_LIE_VERSION] = { "vers", 4 }, [RR_LIE_KIND] = { "proc", 12 },
	};

	if (!meets(r, as) || names_field(s, word[r->o->lie].name))
		return;
	r->r->lied = true;
	memset(sh->lie, 0, sizeof(sh->lie));
	sh->len = sh->p ? rr_min(sh->len, (uint32_t)sizeof(sh->lie)) : 28;
	if (sh->p)
		memcpy(sh->lie, sh->p, sh->len);
	sh->lie[word[r->o->lie].at] ^= 0x55;
	sh->p = sh->lie;
	sh->closed = false;
}

static bool wants_silence_only(const struct rr_step *s)
{
	for (; s; s = s->other)
		if (s->what != RR_E_SILENCE)
			return false;
	return true;
}

static void look(struct run *r, const struct rr_step *as, const struct rr_step *s, struct shown *sh)
{
	uint32_t silence = s->a.n ? (uint32_t)eval(r, &s->a) : r->o->silence;
	const struct rr_message *m = rr_link_recv(&r->link, wants_silence_only(s) ? silence : r->o->timeout);

	*sh = (struct shown){ .closed = r->link.closed };
	if (m) {
		sh->p = m->bytes;
		sh->len = m->len;
	}
	lie(r, as, s, sh);
	rr_env_set(&r->env, "len", sh->len);
}

static bool alternative(struct run *r, const struct rr_step *s, const struct shown *sh, char *why, size_t cap)
{
	switch (s->what) {
	case RR_E_SILENCE:
		snprintf(why, cap, sh->p ? "a message came, where silence was expected" : "the connection was lost");
		return !sh->p && !sh->closed;
	case RR_E_CLOSE:
		snprintf(why, cap, "the connection was not closed");
		return !sh->p && sh->closed;
	default:
		snprintf(why, cap, "%s: nothing came%s", rr_kind_names[s->kind],
			 sh->closed ? ", the connection was lost" : "");
		return sh->p && rr_match_message(&r->env, s, sh->p, sh->len, why, cap);
	}
}

/* as: by which step it is known. */
static bool expect_one(struct run *r, const struct rr_step *as, const struct rr_step *s)
{
	char why[384], came[160] = "";
	struct shown sh;

	if (!connected(r))
		return false;
	look(r, as, s, &sh);
	for (const struct rr_step *a = s; a; a = a->other)
		if (alternative(r, a, &sh, why, sizeof(why))) {
			r->closed_well |= a->what == RR_E_CLOSE;
			return true;
		}
	if (sh.p)
		rr_match_describe(r->env.dialect, sh.p, sh.len, came, sizeof(came));
	return fail(r, s->line, "%s%s%s%s", why, *came ? "; came: " : "", came,
		    s->other ? "; nor is it what else is allowed" : "");
}

static bool expect_memory(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = memory(r, s);
	char why[300];

	if (!v)
		return false;
	if (!v->at)
		return fail(r, s->line, "%s: was not pulled", s->name);
	if (meets(r, s)) {
		r->r->lied = true;
		for (uint32_t i = 0; i < v->len; i++)
			v->at[i] ^= 0x55;
	}
	return rr_match_body(&r->env, s->items, v->at, v->len, why, sizeof(why)) ||
	       fail(r, s->line, "memory %s: %s", s->name, why);
}

static bool expect_read(struct run *r, const struct rr_step *s)
{
	struct rr_var *v = memory(r, s);
	int was;

	if (!v)
		return false;
	was = v->chunk.n ? rr_link_was_read(&r->link, v->chunk.seg[0].handle) : 0;
	return was != 0 || fail(r, s->line, "%s: the peer has not read it", s->name);
}

/* --- the side that serves --- */

static void put_chunk(struct rr_bytes *out, const struct rr_chunk *ch)
{
	rr_bytes_word(out, 1);
	rr_bytes_word(out, ch->n);
	for (uint32_t i = 0; i < ch->n; i++) {
		rr_bytes_word(out, ch->seg[i].handle);
		rr_bytes_word(out, 0);
		rr_bytes_word(out, (uint32_t)(ch->seg[i].offset >> 32));
		rr_bytes_word(out, (uint32_t)ch->seg[i].offset);
	}
}

/* RDMA_MSG, the call's chunks unused. */
static void put_answer(struct run *r, const struct rr_seen *s)
{
	uint32_t version = rr_dialect_version(r->env.dialect);
	const uint32_t prefix[] = { s->xid, version, r->o->link.credits, 0, 1, 0 };

	r->out.len = 0;
	for (uint32_t i = 0; i < (version == 2 ? 6 : 4); i++)
		rr_bytes_word(&r->out, prefix[i]);
	rr_bytes_word(&r->out, 0);
	for (uint32_t i = 0; i < s->nwrites; i++)
		put_chunk(&r->out, &s->write[i]);
	rr_bytes_word(&r->out, 0);
	if (s->has_reply)
		put_chunk(&r->out, &s->reply);
	else
		rr_bytes_word(&r->out, 0);
	for (uint32_t i = 0; i < 6; i++)
		rr_bytes_word(&r->out, i == 0 ? s->xid : i == 1);
}

/* As the laboratory program does, of which a requester's caller calls: ECHO gives back its arguments, others have
 * no results. */
static void answer(struct run *r, const struct rr_message *m)
{
	struct rr_seen s;

	if (rr_seen_read(r->env.dialect, m->bytes, m->len, &s) || s.kind != RR_K_MSG || s.body_len < 40)
		return;
	put_answer(r, &s);
	if (rr_word(s.body + 20) == 1)
		rr_bytes_add(&r->out, s.body + 40, s.body_len - 40);
	rr_link_send(&r->link, r->out.p, (uint32_t)r->out.len, 0);
}

/* Serves the caller as it should be served, until it ends: with the status that s expects, or 0. */
static bool serve(struct run *r, const struct rr_step *s)
{
	int line = s ? s->line : 0;
	char want[64] = "0";
	rr_time until = rr_now() + 4 * r->o->timeout * RR_MSEC;

	while (!rr_caller_ended(&r->caller) && rr_now() < until) {
		const struct rr_message *m = r->connected ? rr_link_recv(&r->link, 20) : NULL;

		if (m)
			answer(r, m);
		else if (!r->connected || r->link.closed)
			rr_os_nap(5 * RR_MSEC);
	}
	if (meets(r, s)) {
		r->r->lied = true;
		r->caller.status ^= 0x155;
	}
	if (r->caller.status < 0)
		return fail(r, line, "the caller does not end");
	if (s ? rr_env_match(&r->env, &s->fields->pat, (uint64_t)r->caller.status) : r->caller.status == 0)
		return true;
	if (s)
		rr_env_print(&r->env, &s->fields->pat, want, sizeof(want));
	return fail(r, line, "the caller ended with status %d, expected %s", r->caller.status, want);
}

static bool step_call(struct run *r, const struct rr_step *s)
{
	if (!r->o->caller)
		return fail(r, s->line, "there is no caller (--caller)");
	if (r->connected)
		rr_link_close(&r->link);
	r->connected = false;
	return rr_caller_start(&r->caller, r->o->caller, s->verb, eval(r, &s->a)) ||
	       fail(r, s->line, "the caller cannot be started");
}

/* --- steps --- */

static bool step_expect(struct run *r, const struct rr_step *s)
{
	switch (s->what) {
	case RR_E_MEMORY: return expect_memory(r, s);
	case RR_E_READ: return expect_read(r, s);
	case RR_E_EXIT: return serve(r, s);
	default: return expect_one(r, s, s);
	}
}

/* NULL, answered: the connection is as it should be. */
static bool step_null(struct run *r, const struct rr_step *s)
{
	struct rr_item rpc = { .kind = RR_I_RPC_CALL }, reply = { .kind = RR_I_RPC_REPLY };
	struct rr_step call = { .op = RR_STEP_SEND, .kind = RR_K_MSG, .items = &rpc, .line = s ? s->line : 0 };
	struct rr_step want = { .op = RR_STEP_EXPECT, .kind = RR_K_MSG, .items = &reply, .line = call.line };

	if (step_send(r, &call) && expect_one(r, s, &want))
		return true;
	if (!s && r->r->verdict == RR_FAIL) {
		char why[sizeof(r->r->why)];

		memcpy(why, r->r->why, sizeof(why));
		snprintf(r->r->why, sizeof(r->r->why), "the NULL that ends each case: %.400s", why);
	}
	return false;
}

static bool run_steps(struct run *r, const struct rr_step *s);

static bool step_repeat(struct run *r, const struct rr_step *s)
{
	uint64_t n = eval(r, &s->a);

	for (uint64_t i = 0; i < rr_min(n, (uint64_t)100000); i++) {
		rr_env_set(&r->env, s->name, i);
		if (!run_steps(r, s->body))
			return false;
	}
	return true;
}

static bool step_set(struct run *r, const struct rr_step *s)
{
	rr_env_set(&r->env, s->name, eval(r, &s->a));
	return true;
}

static bool step_wait(struct run *r, const struct rr_step *s)
{
	rr_os_nap(rr_min(eval(r, &s->a), UINT64_C(60000)) * RR_MSEC);
	return true;
}

static bool step_close(struct run *r, const struct rr_step *s)
{
	(void)s;
	if (r->connected)
		rr_link_close(&r->link);
	r->connected = false;
	return true;
}

static bool (*const step_of[])(struct run *r, const struct rr_step *s) = {
	[RR_STEP_SEND] = step_send, [RR_STEP_EXPECT] = step_expect, [RR_STEP_MEMORY] = step_memory,
	[RR_STEP_WITHDRAW] = step_withdraw, [RR_STEP_SET] = step_set, [RR_STEP_REPEAT] = step_repeat,
	[RR_STEP_WAIT] = step_wait, [RR_STEP_CLOSE] = step_close, [RR_STEP_PULL] = step_pull,
	[RR_STEP_PUSH] = step_push, [RR_STEP_CALL] = step_call, [RR_STEP_NULL] = step_null,
};

/* Until one fails, or the peer has closed as it may. */
static bool run_steps(struct run *r, const struct rr_step *s)
{
	for (; s && !r->closed_well; s = s->next) {
		r->env.missing = NULL;
		if (!step_of[s->op](r, s))
			return false;
		if (r->env.missing)
			return fail(r, s->line, "'%s' has no value here", r->env.missing);
		if (r->env.too_long)
			return fail(r, s->line, "more than %u bytes", RR_BODY_MAX);
	}
	return true;
}

/* After its steps the peer must be of use: on this connection, or if that is over on another. A requester
 * has had its calls answered, unless its connection was to end. */
static bool finish(struct run *r)
{
	if (r->o->role == RR_REQUESTER)
		return r->closed_well || r->c->ends || !r->caller.pid || r->caller.status >= 0 || serve(r, NULL);
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
		fprintf(f, "%s%02x", i % 32 == 0 && i ? "\n    " : i % 4 == 0 ? " " : "", m->bytes[i]);
	fprintf(f, m->len > SHOWN ? " ...\n" : "\n");
}

static char *trace_of(struct run *r)
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

/* Why this peer cannot be asked; NULL: it can. */
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
	if (c->caps && o->link.way == RR_WAY_NATIVE)
		return "needs what only an upgrade agrees on";
	return NULL;
}

void rr_run_case(const struct rr_options *o, const struct rr_case *c, struct rr_listener *from,
		 struct rr_result *out)
{
	struct run r = { .o = o, .c = c, .from = from, .r = out, .next_xid = FIRST_XID };
	rr_time start = rr_now();
	const char *why_not = not_for(o, c);

	*out = (struct rr_result){ .c = c, .verdict = why_not ? RR_SKIP : RR_PASS };
	if (why_not) {
		snprintf(out->why, sizeof(out->why), "%s", why_not);
		return;
	}
	variables(&r);
	if ((r.from || connected(&r)) && run_steps(&r, c->steps)) {
		out->expectations = r.met;
		finish(&r);
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
