/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of core/ulb against rpcgen's codecs for nfs.x: each procedure and operation is
 * filled with random values, encoded, and looked at. The walk must find exactly the eligible
 * items where they were encoded, end at the last byte, and no result may pass its bound. */
#include <stdio.h>

#include "core/ulb/ulb.h"
#include "oracle/nfs.h"
#include "tests/lib/bytes.h"

#define ROUNDS	1000
#define NFS	100003u
#define NFS_CB	0x40000000u
#define PLACES	64u

static uint64_t seed;
static const char *what;
static uint32_t which;

#define check(cond) do { \
	if (!(cond)) { \
		fprintf(stderr, "%s:%d: %s %u: %s\n", __FILE__, __LINE__, what, which, #cond); \
		exit(1); \
	} \
} while (0)

/* --- where eligible items were encoded ---------------------------------------------------- */

static struct { uint32_t pos, len; } place[PLACES];
static uint32_t places;

bool_t xdr_eligible(XDR *x, eligible *e)
{
	if (x->x_op == XDR_ENCODE) {
		check(places < PLACES);
		place[places].pos = xdr_getpos(x) + 4;
		place[places++].len = e->len;
	}
	return xdr_bytes(x, &e->val, &e->len, ~0u);
}

/* --- random values: a stream to decode from ----------------------------------------------- */

static uint32_t budget;
static const uint32_t *fixed;	/* the next word is this one */

static uint32_t random_word(void)
{
	static const uint32_t arms[] = { 10005, 10010, 10017, 10058, 10094, 5, 6 };
	uint32_t how = rng_below(&seed, 100);

	if (how < 60)
		return rng_below(&seed, 3);
	if (how < 92)
		return rng_below(&seed, 10);
	return how < 97 ? arms[rng_below(&seed, 7)] : rng_below(&seed, 40);
}

static bool_t get_word(XDR *x, long *v)
{
	(void)x;
	if (budget < 4)
		return FALSE;
	budget -= 4;
	*v = (int32_t)(fixed ? *fixed : random_word());
	fixed = NULL;
	return TRUE;
}

static bool_t get_bytes(XDR *x, char *p, u_int n)
{
	(void)x;
	if (n > budget)
		return FALSE;
	budget -= n;
	rng_bytes(&seed, p, n);
	return TRUE;
}

static int32_t *no_inline(XDR *x, u_int n)
{
	(void)x;
	(void)n;
	return NULL;
}

static const struct xdr_ops random_ops = {
	.x_getlong = get_word, .x_getbytes = get_bytes, .x_inline = no_inline,
};

/* Appends a random value of codec f to out; its first word is first if that is given. */
static void append(XDR *out, xdrproc_t f, const uint32_t *first)
{
	static uint64_t obj[1024];
	XDR x = { .x_op = XDR_DECODE, .x_ops = &random_ops };
	bool_t made;

	do {
		memset(obj, 0, sizeof(obj));
		budget = 3000;
		fixed = first;
		made = f(&x, obj);
		if (made)
			check(f(out, obj));
		xdr_free(f, obj);
	} while (!made);
}

static void word(XDR *x, uint32_t v)
{
	check(xdr_u_int(x, &v));
}

static void opaque_of(XDR *x, uint32_t len)
{
	char body[512];
	char *p = body;

	rng_bytes(&seed, body, len);
	check(xdr_bytes(x, &p, &len, sizeof(body)));
}

/* --- messages ----------------------------------------------------------------------------- */

static uint8_t buf[1 << 20];

static void begin_call(XDR *x, uint32_t prog, uint32_t vers, uint32_t proc)
{
	places = 0;
	xdrmem_create(x, (char *)buf, sizeof(buf), XDR_ENCODE);
	word(x, 7);
	word(x, 0);
	word(x, 2);
	word(x, prog);
	word(x, vers);
	word(x, proc);
	word(x, 1);
	opaque_of(x, rng_below(&seed, 401));
	word(x, 0);
	opaque_of(x, rng_below(&seed, 401));
}

static void begin_reply(XDR *x)
{
	places = 0;
	xdrmem_create(x, (char *)buf, sizeof(buf), XDR_ENCODE);
	word(x, 7);
	word(x, 1);
	word(x, 0);
	word(x, 0);
	opaque_of(x, rng_below(&seed, 401));
	word(x, 0);
}

static void same_places(const struct rr_ulb_item *it, uint32_t n)
{
	check(n == rr_min(places, RR_ULB_ITEMS));
	for (uint32_t i = 0; i < n; i++)
		check(it[i].pos == place[i].pos && it[i].len == place[i].len);
}

static struct rr_ulb_call look(XDR *x, bool to_end)
{
	uint32_t len = xdr_getpos(x);
	uint8_t *p = tight(buf, len);
	struct rr_ulb_view v = { .buf = p, .have = len, .len = len };
	struct rr_ulb_call k, cut;

	check(rr_ulb_call(&v, 0, &k) == RR_ULB_OK);
	check(k.len == len && k.rec.reduce);
	same_places(k.args, k.nargs);
	v.have = v.len = len - 4;
	if (to_end)
		check(rr_ulb_call(&v, 0, &cut) == RR_ULB_NONE);
	free(p);
	return k;
}

static uint32_t look_reply(XDR *x, const struct rr_ulb_rec *rec)
{
	uint32_t len = xdr_getpos(x);
	uint8_t *p = tight(buf, len);
	struct rr_ulb_view v = { .buf = p, .have = len, .len = len };
	struct rr_ulb_reply r;

	check(rr_ulb_reply(rec, &v, &r) == RR_ULB_OK);
	check(r.len == len);
	same_places(r.items, r.nitems);
	v.have = v.len = len - 4;
	check(rr_ulb_reply(rec, &v, &r) == RR_ULB_NONE);
	free(p);
	return len;
}

/* --- versions 2 and 3 --------------------------------------------------------------------- */

static const struct {
	uint32_t vers, proc;
	bool walked;		/* its arguments, to their end */
	xdrproc_t args, res;
} procs[] = {
	{ 2, 5, false, (xdrproc_t)xdr_fh2, (xdrproc_t)xdr_linkres2 },
	{ 2, 6, true, (xdrproc_t)xdr_read2, (xdrproc_t)xdr_readres2 },
	{ 2, 8, true, (xdrproc_t)xdr_write2, (xdrproc_t)xdr_attrres2 },
	{ 2, 13, true, (xdrproc_t)xdr_symlink2, (xdrproc_t)xdr_one },
	{ 3, 5, false, (xdrproc_t)xdr_blob, (xdrproc_t)xdr_linkres3 },
	{ 3, 6, true, (xdrproc_t)xdr_read3, (xdrproc_t)xdr_readres3 },
	{ 3, 7, true, (xdrproc_t)xdr_write3, (xdrproc_t)xdr_writeres3 },
	{ 3, 10, true, (xdrproc_t)xdr_symlink3, (xdrproc_t)xdr_maderes3 },
};

static void procedure(uint32_t i)
{
	struct rr_ulb_call k;
	uint32_t len;
	XDR x;

	which = procs[i].proc;
	begin_call(&x, NFS, procs[i].vers, procs[i].proc);
	append(&x, procs[i].args, NULL);
	k = look(&x, procs[i].walked);
	begin_reply(&x);
	append(&x, procs[i].res, NULL);
	len = look_reply(&x, &k.rec);
	if (k.nresults == 0 || procs[i].proc == 5)	/* no count that is random as well */
		check(len <= k.reply_max);
}

/* --- version 4 and its callbacks ---------------------------------------------------------- */

struct ops {
	uint32_t prog, vers;
	uint32_t first, last;
	uint32_t words;		/* between tag and operations */
	xdrproc_t arg, res;
};

/* Their results are as long as their arguments allow, which are random as well. */
static bool is_counted(const struct ops *o, uint32_t op)
{
	static const uint32_t counted[] = { 9, 25, 26, 47, 50, 74 };

	for (uint32_t i = 0; i < rr_array_size(counted); i++) {
		if (counted[i] == op)
			return true;
	}
	return o->prog == NFS_CB && op == 3;
}

static void begin_ops(XDR *x, const struct ops *o, uint32_t tag, uint32_t n)
{
	begin_call(x, o->prog, o->vers, 1);
	opaque_of(x, tag);
	for (uint32_t i = 0; i < o->words; i++)
		word(x, i);
	word(x, n);
}

static void begin_results(XDR *x, uint32_t tag, uint32_t n)
{
	begin_reply(x);
	word(x, 0);
	opaque_of(x, tag);
	word(x, n);
}

static void one_operation(const struct ops *o, uint32_t op)
{
	uint32_t tag = rng_below(&seed, 9);
	struct rr_ulb_call k;
	uint32_t len;
	XDR x;

	which = op;
	begin_ops(&x, o, tag, 1);
	append(&x, o->arg, &op);
	k = look(&x, true);
	begin_results(&x, tag, 1);
	append(&x, o->res, &op);
	len = look_reply(&x, &k.rec);
	if (!is_counted(o, op))
		check(len <= k.reply_max);
}

static void compound(const struct ops *o)
{
	uint32_t n = rng_below(&seed, 8), tag = rng_below(&seed, 9);
	struct rr_ulb_call k;
	XDR x;

	begin_ops(&x, o, tag, n);
	for (uint32_t i = 0; i < n; i++) {
		which = o->first + rng_below(&seed, o->last - o->first + 1);
		append(&x, o->arg, &which);
	}
	k = look(&x, true);
	begin_results(&x, tag, n);
	for (uint32_t i = 0; i < n; i++) {
		which = o->first + rng_below(&seed, o->last - o->first + 1);
		append(&x, o->res, &which);
	}
	look_reply(&x, &k.rec);
}

static void operations(const char *name, const struct ops *o)
{
	what = name;
	for (int i = 0; i < ROUNDS; i++) {
		for (uint32_t op = o->first; op <= o->last; op++)
			one_operation(o, op);
		compound(o);
	}
}

int main(void)
{
	static const struct ops v4 = { NFS, 4, 3, 75, 1, (xdrproc_t)xdr_arg4,
				       (xdrproc_t)xdr_result4 };
	static const struct ops cb = { NFS_CB, 1, 3, 15, 2, (xdrproc_t)xdr_cbarg,
				       (xdrproc_t)xdr_cbresult };

	seed = 1;
	what = "procedure";
	for (int i = 0; i < ROUNDS; i++) {
		for (uint32_t p = 0; p < rr_array_size(procs); p++)
			procedure(p);
	}
	operations("operation", &v4);
	operations("callback", &cb);
	printf("%u rounds of %u operations\n", ROUNDS, v4.last + cb.last - 4);
	return 0;
}
