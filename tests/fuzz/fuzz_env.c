/* SPDX-License-Identifier: BSD-3-Clause */
/* Any strings as the environment of a process: options, and the rules before and behind those
 * of the file. The file itself is empty (fuzz_conf has that). What comes out is within its
 * bounds, and the rules can be asked about any two addresses. The first bytes are the
 * addresses. */
#include "tests/fuzz/conf_checks.h"

#define VARS	64u
#define ENDS	(2 * (2 + 16) + 4)

static char file[] = "RDMARPC_CONF=/dev/null";

/* Strings of the input, each terminated; the last entry is NULL. */
static void split(char *text, size_t len, char *env[VARS + 2])
{
	uint32_t n = 0;

	env[n++] = file;	/* the first of a name counts */
	for (char *end = text + len; text < end && n < VARS; text += strlen(text) + 1)
		env[n++] = text;
	env[n] = NULL;
}

static void address(const uint8_t *p, struct sockaddr_in6 *out)
{
	struct sockaddr_in *in = (void *)out;

	memset(out, 0, sizeof(*out));
	if (p[2] & 1) {
		out->sin6_family = AF_INET6;
		memcpy(&out->sin6_addr, p + 2, 16);
		memcpy(&out->sin6_port, p, 2);
	} else {
		in->sin_family = AF_INET;
		memcpy(&in->sin_addr, p + 2, 4);
		memcpy(&in->sin_port, p, 2);
	}
}

static void ask_all(const struct rr_conf *c, const uint8_t *p)
{
	struct sockaddr_in6 local, peer;
	uint32_t program = rr_be32(p + 36);

	address(p, &local);
	address(p + 18, &peer);
	for (int server = 0; server < 2; server++) {
		fuzz_check(rr_conf_mode(c, server, (void *)&local, (void *)&peer) <= RR_MODE_REQUIRE);
		rr_conf_dialect(c, server, (void *)&local, (void *)&peer, server ? NULL : &program);
		rr_conf_native(c, server, (void *)&local, server ? NULL : (void *)&peer);
	}
	fuzz_check(rr_conf_mode_call(c, (void *)&local, (void *)&peer, program) <= RR_MODE_REQUIRE);
	fuzz_check(rr_conf_dialects(c));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	static struct rr_conf c;
	char *env[VARS + 2], *text;

	if (len < ENDS)
		return 0;
	text = malloc(len - ENDS + 1);
	fuzz_check(text);
	memcpy(text, data + ENDS, len - ENDS);
	text[len - ENDS] = '\0';
	split(text, len - ENDS, env);
	rr_conf_load(&c, env);
	check_numbers(&c);
	check_problems(&c);
	ask(&c);
	ask_all(&c, data);
	rr_conf_log_problems(&c);
	free(text);
	return 0;
}
