/* SPDX-License-Identifier: BSD-3-Clause */

/* Walks the RPC header in front of arguments and results (RFC 5531 §9, RFC 2203 §5), and judges
 * whether the security service leaves them readable. The walk through arguments and results
 * themselves is in walk.c. */

#include "core/base/compiler.h"
#include "core/ulb/walk.h"
#include "core/wire/rpc.h"

#define AUTH_MAX	400u	/* RFC 5531 §8.2: body of a credential or verifier */
#define AUTH_SHORT	2u
#define AUTH_DH		3u

#define GSS_DATA	0u
#define GSS_DESTROY	3u
#define SVC_NONE	1u
#define SVC_INTEGRITY	2u
#define GSS_VERS_MAX	3u	/* RFC 2203, 5403, 7861 */

/* xid, REPLY, MSG_ACCEPTED, verifier, accept_stat */
#define REPLY_HEADER	(24u + AUTH_MAX)
/* What may stand in place of the results: the two versions of PROG_MISMATCH. */
#define REPLY_ERROR	8u
/* What RFC 2203 §5.3.3 adds around the results: lengths, sequence number and checksum; for
 * privacy also what the mechanism's token adds (RFC 4121 §4.2.4). */
#define GSS_WRAP	(16u + 512u)

/* A number for struct rr_ulb_rec, which has one byte for it. */
static uint8_t small(uint32_t v)
{
	return v < UINT8_MAX ? (uint8_t)v : UINT8_MAX;
}

/* The verdict on a message at the end of its walk. A chunk that has not been matched with an
 * eligible item by then stands where none may. */
static enum rr_ulb_rc verdict_of(const struct rr_walk *w)
{
	bool judged = w->rc == RR_WALK_OK || w->rc == RR_WALK_STOP;

	if (w->rc == RR_WALK_UNSEEN)
		return w->v->nchunks ? RR_ULB_NONE : RR_ULB_OK;
	if (rr_walk_has_chunks(w, judged ? w->chunk : 0))
		return RR_ULB_VIOLATION;
	return judged ? RR_ULB_OK : RR_ULB_NONE;
}

/* The verdict on a message for which there is no binding. */
static enum rr_ulb_rc unbound(const struct rr_walk *w)
{
	return rr_walk_has_chunks(w, 0) ? RR_ULB_VIOLATION : RR_ULB_NONE;
}

/* --- calls ------------------------------------------------------------------------------ */

struct header {
	uint32_t prog, vers, proc;
	uint32_t flavor;
	uint32_t gss_proc, gss_service;
	bool known;		/* everything that matters of the credential is known */
};

/* Returns the length of a credential's or verifier's body, and its flavor in *flavor. */
static uint32_t auth_length(struct rr_walk *w, uint32_t *flavor)
{
	uint32_t len;

	*flavor = rr_walk_word(w);
	len = rr_walk_word(w);
	if (len > AUTH_MAX)
		rr_walk_fail(w, RR_WALK_GARBAGE);
	return len;
}

/* RFC 2203 §5.2.2: version, procedure, sequence number, service, handle. */
/* req: rfc8166 8.2.2 #1 */
static uint32_t gss_credential(struct rr_walk *w, uint32_t len, struct header *h)
{
	uint32_t vers;

	if (len < 20)
		return len;
	vers = rr_walk_word(w);
	h->gss_proc = rr_walk_word(w);
	rr_walk_word(w);
	h->gss_service = rr_walk_word(w);
	h->known = vers >= 1 && vers <= GSS_VERS_MAX;
	return len - 16;
}

/* With a flavor that is not in the list, h->known stays false: what the security service does
 * to the arguments cannot be told then. */
static void credential(struct rr_walk *w, struct header *h)
{
	uint32_t len = auth_length(w, &h->flavor);

	switch (h->flavor) {
	case RR_RPCSEC_GSS:
		len = gss_credential(w, len, h);
		break;
	case RR_AUTH_NONE:
	case RR_AUTH_SYS:
	case AUTH_SHORT:
	case AUTH_DH:
		h->known = true;
		break;
	}
	rr_walk_skip(w, rr_ulb_padded(len));
}

static void verifier(struct rr_walk *w)
{
	uint32_t flavor;

	rr_walk_skip(w, rr_ulb_padded(auth_length(w, &flavor)));
}

/* Walks the header of a call. False: it is none, or not all of it is there; what could be read
 * is in *h all the same. */
static bool call_header(struct rr_walk *w, struct header *h)
{
	uint32_t type, rpcvers;

	rr_walk_word(w);			/* xid */
	type = rr_walk_word(w);
	rpcvers = rr_walk_word(w);
	if (!w->rc && (type != RR_RPC_CALL || rpcvers != RR_RPC_VERSION))
		rr_walk_fail(w, RR_WALK_GARBAGE);
	h->prog = rr_walk_word(w);
	h->vers = rr_walk_word(w);
	h->proc = rr_walk_word(w);
	credential(w, h);
	verifier(w);
	return w->rc == RR_WALK_OK;
}

/* req: rfc8166 8.2.2 #1 */
static bool is_data(const struct header *h)
{
	return h->flavor != RR_RPCSEC_GSS || h->gss_proc == GSS_DATA;
}

/* Does the security service leave arguments and results as they are? RFC 8166 §8.2.2.3. */
/* req: rfc8166 8.2.2.3 #1 */
static bool is_plain_header(const struct header *h)
{
	return h->flavor != RR_RPCSEC_GSS || (is_data(h) && h->gss_service == SVC_NONE);
}

static bool is_readable_header(const struct header *h)
{
	return is_plain_header(h) || (is_data(h) && h->gss_service == SVC_INTEGRITY);
}

/* NULL: the binding says nothing about this procedure, so nothing of it may be reduced. */
static const struct rr_ulb_proc *procedure(const struct rr_ulb_binding *b, uint32_t proc)
{
	if (!b || proc >= b->nprocs || !b->procs[proc].res)
		return NULL;
	return &b->procs[proc];
}

/* Walks the arguments as far as the security service lets them be read. Under integrity
 * protection they stand behind the length of the protected body and its sequence number (RFC
 * 2203). */
static void arguments(struct rr_walk *w, const struct header *h, const struct rr_ulb_proc *p)
{
	if (!p->args || !is_readable_header(h))
		return;
	if (!is_plain_header(h))
		rr_walk_format(w, "w2");	/* length of the body, sequence number */
	rr_walk_format(w, p->args);
}

/* The bound of a whole reply, in the form in which callers get it. */
static uint32_t total(uint64_t results, uint64_t extra, uint64_t limit)
{
	uint64_t n = rr_bound_add(REPLY_HEADER, rr_bound_add(results, extra));

	n = rr_min(n, limit);
	return n < RR_BOUND_NONE && n < RR_ULB_UNKNOWN ? (uint32_t)n : RR_ULB_UNKNOWN;
}

/* The reply's bounds, from what the arguments have said. Arguments that could not be walked
 * to their end bound only what does not depend on them. */
static void bounds(struct rr_walk *w, const struct header *h, const struct rr_ulb_proc *p,
		   uint32_t session_max, struct rr_ulb_call *out)
{
	uint64_t extra = is_plain_header(h) ? 0 : GSS_WRAP;
	uint64_t limit = w->session && session_max ? session_max + extra : RR_ULB_UNKNOWN;
	struct rr_bound b = rr_bound_format(w, p->res);

	out->reply_max = total(rr_max(b.all, REPLY_ERROR), extra, limit);
	out->reply_rest = total(rr_max(b.rest, REPLY_ERROR), extra, limit);
	out->nresults = w->nresults;
}

/* A control message of RPCSEC_GSS. Its reply comes from the security mechanism, whatever
 * procedure the call names. */
static void gss_control(const struct header *h, struct rr_ulb_call *out)
{
	if (h->gss_proc == GSS_DESTROY)
		out->reply_max = out->reply_rest = total(REPLY_ERROR, 0, RR_ULB_UNKNOWN);
}

static void note_header(const struct header *h, struct rr_ulb_rec *rec)
{
	rec->flavor = small(h->flavor);
	rec->gss_proc = small(h->gss_proc);
	rec->gss_service = small(h->gss_service);
}

/* Until the binding, the security service and the walk have all allowed it, *out says that
 * nothing is eligible and that no bound is known. */
static enum rr_ulb_rc look_at_call(struct rr_walk *w, uint32_t session_max,
				   struct rr_ulb_call *out)
{
	const struct rr_ulb_proc *p;
	struct header h = { 0 };
	uint8_t number = 0;
	bool readable = call_header(w, &h);

	note_header(&h, &out->rec);
	w->b = rr_ulb_find(h.prog, h.vers, &number);
	if (!readable || !h.known || !w->b)
		return w->rc == RR_WALK_UNSEEN ? RR_ULB_NONE : unbound(w);
	if (!is_data(&h)) {
		out->len = w->v->len;
		gss_control(&h, out);
		return unbound(w) == RR_ULB_NONE ? RR_ULB_OK : RR_ULB_VIOLATION;
	}
	p = procedure(w->b, h.proc);
	if (!p)
		return unbound(w);
	w->reduce = is_plain_header(&h);
	arguments(w, &h, p);
	if (verdict_of(w) != RR_ULB_OK)
		return verdict_of(w);
	bounds(w, &h, p, session_max, out);
	out->rec.binding = number;
	out->rec.proc = (uint8_t)h.proc;
	out->rec.reduce = w->reduce;
	out->nargs = w->nitems;
	out->idempotent = w->b->procs_twice >> h.proc & 1 && w->idempotent &&
			  w->rc == RR_WALK_OK && h.flavor != RR_RPCSEC_GSS;
	out->fore_max = w->fore_max;
	out->back_max = w->back_max;
	out->len = (uint32_t)(w->v->len + w->shift);
	return RR_ULB_OK;
}

/* req: rfc8166 3.4.2 #1, 6.1 #1 */
enum rr_ulb_rc rr_ulb_call(const struct rr_ulb_view *v, uint32_t session_max,
			   struct rr_ulb_call *out)
{
	struct rr_walk w;

	*out = (struct rr_ulb_call){ .reply_max = RR_ULB_UNKNOWN,
				     .reply_rest = RR_ULB_UNKNOWN };
	rr_walk_init(&w, v);
	w.items = out->args;
	w.results = out->results;
	return look_at_call(&w, session_max, out);
}

/* --- replies ---------------------------------------------------------------------------- */

/* Walks a reply's header; false if no results follow. */
static bool reply_header(struct rr_walk *w)
{
	uint32_t type, stat;

	rr_walk_word(w);			/* xid */
	type = rr_walk_word(w);
	stat = rr_walk_word(w);
	if (w->rc || type != RR_RPC_REPLY || stat != 0)
		return false;
	verifier(w);
	return rr_walk_word(w) == 0 && !w->rc;	/* SUCCESS */
}

/* req: rfc8166 6.1 #1 */
enum rr_ulb_rc rr_ulb_reply(const struct rr_ulb_rec *rec, const struct rr_ulb_view *v,
			    struct rr_ulb_reply *out)
{
	const struct rr_ulb_proc *p;
	enum rr_ulb_rc rc;
	struct rr_walk w;

	*out = (struct rr_ulb_reply){ 0 };
	rr_walk_init(&w, v);
	w.reply = true;
	w.reduce = rec->reduce;
	w.items = out->items;
	w.b = rr_ulb_at(rec->binding);
	p = procedure(w.b, rec->proc);
	if (!p || !rec->reduce)
		return unbound(&w);
	if (reply_header(&w))
		rr_walk_format(&w, p->res);
	rc = verdict_of(&w);
	if (rc == RR_ULB_OK) {
		out->nitems = w.nitems;
		out->len = (uint32_t)(v->len + w.shift);
	}
	return rc;
}

/* --- padding ---------------------------------------------------------------------------- */

static void pad_init(struct rr_walk *w, const struct rr_ulb_view *v, struct rr_ulb_padding *p)
{
	p->n = 0;
	p->rec = (struct rr_ulb_rec){ 0 };
	rr_walk_init(w, v);
	w->padding = p;
}

/* Padding is known only if the whole message has been walked: what is left could contain an
 * opaque. */
static enum rr_ulb_rc pad_verdict(const struct rr_walk *w)
{
	return w->rc == RR_WALK_OK && w->at == w->v->len ? RR_ULB_OK : RR_ULB_NONE;
}

/* A procedure whose table entry has no arguments may still have some, but none that matter
 * here. */
enum rr_ulb_rc rr_ulb_pad_call(const struct rr_ulb_view *v, struct rr_ulb_padding *p)
{
	const struct rr_ulb_proc *proc;
	struct header h = { 0 };
	uint8_t number;
	struct rr_walk w;

	pad_init(&w, v, p);
	if (!call_header(&w, &h) || !h.known || !is_plain_header(&h))
		return RR_ULB_NONE;
	note_header(&h, &p->rec);
	w.b = rr_ulb_find(h.prog, h.vers, &number);
	proc = procedure(w.b, h.proc);
	if (!proc)
		return RR_ULB_NONE;
	arguments(&w, &h, proc);
	p->rec.binding = number;
	p->rec.proc = (uint8_t)h.proc;
	p->rec.reduce = true;
	return pad_verdict(&w);
}

/* A reply without results has no opaque, hence no padding. */
enum rr_ulb_rc rr_ulb_pad_reply(const struct rr_ulb_rec *rec, const struct rr_ulb_view *v,
				struct rr_ulb_padding *p)
{
	const struct rr_ulb_proc *proc;
	struct rr_walk w;

	pad_init(&w, v, p);
	w.reply = true;
	w.b = rr_ulb_at(rec->binding);
	proc = procedure(w.b, rec->proc);
	if (!proc || !rec->reduce)
		return RR_ULB_NONE;
	if (!reply_header(&w))
		return w.rc ? RR_ULB_NONE : RR_ULB_OK;
	rr_walk_format(&w, proc->res);
	return pad_verdict(&w);
}
