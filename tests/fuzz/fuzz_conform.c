/* SPDX-License-Identifier: BSD-3-Clause */
/* Any bytes as a case of rdmarpc-conform: it is read, or there is one line that says where it cannot be; and
 * what was read can be made into messages, and compared with any. */
#include "tests/fuzz/fuzz.h"
#include "tools/conform/wire.h"

static void use_step(struct rr_env *e, const struct rr_step *s, uint32_t depth)
{
	static uint8_t some[256] = { 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 32 };
	struct rr_bytes out = { 0 };
	char why[128];

	if (s->op == RR_STEP_SEND && rr_make_message(e, s, &out, why, sizeof(why)))
		rr_match_message(e, s, out.p, (uint32_t)out.len, why, sizeof(why));
	if (s->op == RR_STEP_EXPECT && s->what == RR_E_MESSAGE)
		rr_match_message(e, s, some, sizeof(some), why, sizeof(why));
	if (s->op == RR_STEP_EXPECT && s->what == RR_E_MEMORY)
		rr_match_body(e, s->items, some, sizeof(some), why, sizeof(why));
	rr_bytes_free(&out);
	fuzz_check(depth <= 5);
	for (const struct rr_step *in = s->body; in; in = in->next)
		use_step(e, in, depth + 1);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char why[256];
	struct rr_case *c = rr_case_parse("fuzz/a.case", (const char *)data, size, why, sizeof(why));

	fuzz_check(!c == (why[0] != '\0'));
	fuzz_check(strlen(why) < sizeof(why) && (c || !strncmp(why, "fuzz/a.case:", 12)));
	for (uint32_t d = 0; c && d < 4; d++) {
		static struct rr_env e;

		e.dialect = (enum rr_dialect)d;
		for (const struct rr_step *s = c->steps; s; s = s->next)
			use_step(&e, s, 0);
		rr_env_free(&e);
	}
	if (c)
		rr_case_free(c);
	return 0;
}
