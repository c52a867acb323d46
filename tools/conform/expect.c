/* SPDX-License-Identifier: BSD-3-Clause */
/* Compares what the peer did with what it must do. In a self-test, shows an expectation
 * something false instead: the expectation has to fail then, or it proves nothing about a
 * peer. */
#include "tools/conform/run_int.h"

#define STRICT_MAX	4u	/* alternatives that may belong to one implementation */

/* What an expectation is shown: the message that came, or the lie that was made of it. */
struct shown {
	const uint8_t *p;	/* a message; NULL none */
	uint32_t len;
	bool closed;
	uint8_t lie[RR_LINK_RECV];
};

/* Does an alternative name this field? Then it is unknown which value would be wrong for it. */
static bool names_field(const struct rr_step *s, const char *name)
{
	return rr_field_pat(s->fields, name) || (s->other && names_field(s->other, name));
}

/* Does an alternative ignore what follows the first words? */
static bool ignores_next(const struct rr_step *s)
{
	for (const struct rr_item *it = s->items; it; it = it->next)
		if (it->kind == RR_I_LISTS)
			return true;
	if (s->what == RR_E_MESSAGE && s->kind != RR_K_ERROR && !rr_kind_has_lists(s->kind))
		return true;
	return s->other && ignores_next(s->other);
}

/* Where the word is that a lie changes: one of the first four, an error's code, the first of
 * the chunk lists, or a word of a chunk that later steps use. Returns false, and *at 0, if the
 * message has no such word, or if the case leaves the word open: then nobody could say that the
 * lie should be noticed. Without a message there is one lie, a message at all. */
static bool lied_word(struct rr_run *r, enum rr_lie lie, const struct rr_step *s,
		      const struct shown *sh, uint32_t *at)
{
	static const struct { const char *name; uint32_t at; } words[RR_LIES] = {
		[RR_LIE_XID] = { "xid", 0 }, [RR_LIE_VERSION] = { "vers", 4 },
			[RR_LIE_CREDIT] = { "credit", 8 },
		[RR_LIE_KIND] = { "proc", 12 }, [RR_LIE_NEXT] = { "", 16 },
	};
	bool next = lie == RR_LIE_NEXT;

	if (lie > RR_LIE_NEXT)
		return sh->p && !s->other && rr_probe_kept(&r->env, s, sh->p, sh->len, at);
	*at = words[lie].at;
	if (next && r->env.dialect == RR_DIALECT_V2)
		*at += s->kind == RR_K_ERROR ? 4 : 8;
	if (!sh->p)
		return lie == RR_LIE_XID;	/* any message at all */
	return *at + 4 <= sh->len &&
	       !(next ? ignores_next(s) : names_field(s, words[lie].name));
}

/* The lies that could be told about what came. */
static uint32_t possible(struct rr_run *r, const struct rr_step *s, const struct shown *sh)
{
	uint32_t lies = 0, at;

	for (enum rr_lie lie = RR_LIE_XID; lie < RR_LIES; lie++)
		lies |= lied_word(r, lie, s, sh, &at) ? 1u << lie : 0;
	return lies;
}

/* Lies to the expectation if it is its turn: one word of the message that came is made wrong,
 * or if none came, a message is made up. `as` is the step by which the expectation is counted.
 * With probe set, only notes which lies would be possible. */
static void lie(struct rr_run *r, const struct rr_step *as, const struct rr_step *s,
		struct shown *sh)
{
	static const uint8_t one[4] = { 0, 0, 0, 1 };	/* the length of a chunk of one byte */
	uint32_t at;

	if (!rr_run_meets(r, as, r->o->probe ? possible(r, s, sh) : 0) ||
	    !lied_word(r, r->o->lie, s, sh, &at))
		return;
	r->r->lied = true;
	memset(sh->lie, 0, sizeof(sh->lie));
	sh->len = sh->p ? rr_min(sh->len, (uint32_t)sizeof(sh->lie)) : 28;
	if (sh->p)
		memcpy(sh->lie, sh->p, sh->len);
	switch (r->o->lie) {
	case RR_LIE_CREDIT: memset(sh->lie + at, 0, 4); break;
	case RR_LIE_LENGTH: memcpy(sh->lie + at + 4, one, sizeof(one)); break;
	case RR_LIE_OFFSET: sh->lie[at + 12] ^= 0x55; break;
	default: sh->lie[at] ^= 0x55;
	}
	sh->p = sh->lie;
	sh->closed = false;
}

/* If silence is all that is allowed, waiting for the long timeout would only cost time. */
static bool wants_silence_only(const struct rr_step *s)
{
	for (; s; s = s->other)
		if (s->what != RR_E_SILENCE)
			return false;
	return true;
}

/* Waits for the next message, answers what a requester says before its first call, and puts
 * into sh what is to be judged. */
static void look_for_message(struct rr_run *r, const struct rr_step *as,
			     const struct rr_step *s, struct shown *sh)
{
	uint32_t silence = s->a.n ? (uint32_t)rr_run_eval(r, &s->a) : r->o->silence;
	uint32_t ms = wants_silence_only(s) ? silence : r->o->timeout;
	const struct rr_message *m;

	do
		m = rr_link_recv(&r->link, ms);
	while (m && rr_run_opens(r, s, m));

	*sh = (struct shown){ .closed = r->link.closed };
	if (m) {
		sh->p = m->bytes;
		sh->len = m->len;
		r->env.invalidated = m->inv;
	}
	lie(r, as, s, sh);
	rr_env_set(&r->env, "len", sh->len);
}

/* Is what came what this alternative expects? If not, why says what it is instead. */
static bool alternative(struct rr_run *r, const struct rr_step *s, const struct shown *sh,
			char *why, size_t cap)
{
	switch (s->what) {
	case RR_E_SILENCE:
		snprintf(why, cap,
			 sh->p ? "a message came, where silence was expected" :
			 "the connection was lost");
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

/* Copies to kept those alternatives of s that belong to the implementation judged strictly, and
 * returns them. Returns s itself if there is nothing to choose from or none belongs to it. */
static const struct rr_step *strict_ones(const struct rr_run *r, const struct rr_step *s,
					 struct rr_step kept[STRICT_MAX])
{
	const struct rr_step *a = r->o->strict && s->other ? s : NULL;
	uint32_t n = 0;

	for (; a && n < STRICT_MAX; a = a->other)
		if (a->who && !strcmp(a->who, r->o->strict)) {
			kept[n] = *a;
			kept[n].other = NULL;
			if (n)
				kept[n - 1].other = &kept[n];
			n++;
		}
	return n ? kept : s;
}

/* Fails the case: what came is allowed by the documents, but is not what the implementation is
 * known to do. */
static bool nothing_strict(struct rr_run *r, const struct rr_step *a)
{
	return rr_run_fail(r, a->line, "this is what came, and no alternative says 'as %s'",
			   r->o->strict);
}

/* In probe mode: does s notice every change of what came? If it does not, the case fails with
 * the byte that it overlooks. */
static bool notices_all(struct rr_run *r, const struct rr_step *s, const uint8_t *p,
			uint32_t len)
{
	uint32_t at;

	return !r->o->probe || rr_probe(&r->env, s, p, len, &r->r->probed, &at) ||
	       rr_run_fail(r, s->line, "byte %u of %u, 0x%02x, could be another, "
			   "and the case does not say so", at, len, p[at]);
}

/* The probe is made only the first time that an expectation is met (in a repeat), and only of
 * expectations without alternatives: what one of them notices, another may allow. */
bool rr_run_expects(struct rr_run *r, const struct rr_step *as, const struct rr_step *step)
{
	char why[384], came[160] = "";
	struct rr_step kept[STRICT_MAX];
	const struct rr_step *s = strict_ones(r, step, kept);
	struct shown sh;
	bool fresh;

	if (!rr_run_connected(r))
		return false;
	fresh = !rr_run_met(r, as);
	look_for_message(r, as, s, &sh);
	if (fresh && sh.p && !s->other && s->what == RR_E_MESSAGE &&
	    !notices_all(r, s, sh.p, sh.len))
		return false;
	for (const struct rr_step *a = s; a; a = a->other)
		if (alternative(r, a, &sh, why, sizeof(why))) {
			r->closed_well |= a->what == RR_E_CLOSE;
			return !r->o->strict || !step->other || s == kept ||
			       nothing_strict(r, a);
		}
	if (sh.p)
		rr_match_describe(r->env.dialect, sh.p, sh.len, came, sizeof(came));
	return rr_run_fail(r, s->line, "%s%s%s%s", why, *came ? "; came: " : "", came,
		    s->other ? "; nor is it what else is allowed" : "");
}

/* Compares memory of ours, which the peer has written, or memory of the peer's, which was
 * pulled before. */
static bool expect_memory(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_run_memory(r, s);
	char why[300];

	if (!v)
		return false;
	if (!v->at)
		return rr_run_fail(r, s->line, "%s: was not pulled", s->name);
	if (!rr_run_met(r, s) && !notices_all(r, s, v->at, v->len))
		return false;
	if (rr_run_meets(r, s, RR_LIE_ANY)) {
		r->r->lied = true;
		for (uint32_t i = 0; i < v->len; i++)
			v->at[i] ^= 0x55;
	}
	return rr_match_body(&r->env, s->items, v->at, v->len, why, sizeof(why)) ||
	       rr_run_fail(r, s->line, "memory %s: %s", s->name, why);
}

static bool expect_value(struct rr_run *r, const struct rr_step *s)
{
	uint64_t v = rr_run_eval(r, &s->a);
	char want[96];

	if (rr_run_meets(r, s, RR_LIE_ANY)) {
		r->r->lied = true;
		v ^= 0x55555555;
	}
	if (rr_env_match(&r->env, &s->pat, v))
		return true;
	rr_env_print(&r->env, &s->pat, want, sizeof(want));
	return rr_run_fail(r, s->line, "the value is %llu (0x%llx), expected %s",
			   (unsigned long long)v, (unsigned long long)v, want);
}

/* Providers that cannot know whether the peer has read let the expectation pass
 * (rr_link_was_read() is -1). */
static bool expect_read(struct rr_run *r, const struct rr_step *s)
{
	struct rr_var *v = rr_run_memory(r, s);
	int was;

	if (!v)
		return false;
	was = v->chunk.n ? rr_link_was_read(&r->link, v->chunk.seg[0].handle) : 0;
	if (rr_run_meets(r, s, RR_LIE_ANY)) {
		r->r->lied = true;
		was = 0;
	}
	return was != 0 || rr_run_fail(r, s->line, "%s: the peer has not read it", s->name);
}

bool rr_step_expect(struct rr_run *r, const struct rr_step *s)
{
	switch (s->what) {
	case RR_E_MEMORY: return expect_memory(r, s);
	case RR_E_READ: return expect_read(r, s);
	case RR_E_VALUE: return expect_value(r, s);
	case RR_E_EXIT: return rr_run_serve(r, s);
	default: return rr_run_expects(r, s, s);
	}
}
