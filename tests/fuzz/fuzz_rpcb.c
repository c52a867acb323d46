/* SPDX-License-Identifier: BSD-3-Clause */
/* What an rpcbind that is anybody's says: the bytes of its answer as libtirpc decodes them, and
 * the lines that rdmarpc-run makes of it and reads back. Rules that come out of it are correct,
 * and for the host's own address only. The input's first byte chooses; the rest is the answer,
 * or the lines. */
#include "tools/run/resolve.c"
#include "tools/run/rpcb.c"

#include "config/internal.h"
#include "tests/fuzz/fuzz.h"

static void check_entry(const struct rr_rpcb *e)
{
	char out[128], host[128];
	uint16_t port;

	fuzz_check(memchr(e->netid, '\0', sizeof(e->netid)));
	fuzz_check(memchr(e->addr, '\0', sizeof(e->addr)));
	fuzz_check(memchr(e->owner, '\0', sizeof(e->owner)));
	port = rr_uaddr_port(e->addr, host);
	if (port && rr_uaddr_with_port(e->addr, 65535, out))
		fuzz_check(rr_uaddr_port(out, NULL) == 65535);
	fuzz_check(rr_rpcb_user(e) >= -1 && rr_rpcb_user(e) < UINT32_MAX);
}

static void check_rules(const char *address)
{
	static struct rr_rules rules;
	static struct rr_conf c;

	rules = (struct rr_rules){ 0 };
	add_both_rules(&rules, address, "require");
	fuzz_check(rules.len == strlen(rules.text) && rules.len < sizeof(rules.text));
	memset(&c, 0, sizeof(c));
	rr_conf_rules(&c, "FUZZ", rules.text, rules.len);
	fuzz_check(!c.problems_len || rules.n > RR_CONF_RULES);
	for (uint32_t i = 0; i < c.nrules; i++) {
		const struct rr_rule *r = &c.rules[i];
		uint8_t want[16];

		fuzz_check(inet_pton(r->family == 6 ? AF_INET6 : AF_INET, address, want) == 1);
		fuzz_check(!memcmp(r->address, want, r->family == 6 ? 16 : 4));
		fuzz_check(r->role == 'c' && r->has_port && r->has_native);
	}
}

static void check_list(void)
{
	fuzz_check(there.n <= RR_RPCB_MAX);
	for (uint32_t i = 0; i < there.n; i++)
		check_entry(&there.e[i]);
	there.n = rr_min(there.n, 64u);		/* it is a square */
	check_rules("10.0.0.1");
	check_rules("fe80::1");
}

/* As rr_resolve_ask() prints it, and parse_answer() reads it back. */
static void print_and_parse(void)
{
	static char text[256 << 10];
	size_t n = 0;

	text[0] = '\0';
	for (uint32_t i = 0; i < there.n; i++)
		if (is_of_use(&there.e[i]))
			n += (size_t)snprintf(text + n, sizeof(text) - n, "%u %u %s %s\n", there.e[i].prog,
					      there.e[i].vers, there.e[i].netid, there.e[i].addr);
	parse_answer(text);
}

static void decode(const uint8_t *data, size_t len)
{
	uint8_t *bytes = tight(data, len);
	XDR x;

	xdrmem_create(&x, (char *)bytes, (u_int)len, XDR_DECODE);
	if (entries(&x, &there)) {
		check_list();
		print_and_parse();
		check_list();
	}
	xdr_destroy(&x);
	free(bytes);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	char *text;

	if (len < 1)
		return 0;
	memset(&there, 0, offsetof(struct rr_rpcb_list, e) + 80 * sizeof(there.e[0]));
	if (data[0] & 1) {
		decode(data + 1, len - 1);
		return 0;
	}
	text = malloc(len);
	fuzz_check(text);
	memcpy(text, data + 1, len - 1);
	text[len - 1] = '\0';
	parse_answer(text);
	check_list();
	free(text);
	return 0;
}
