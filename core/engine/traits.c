/* SPDX-License-Identifier: BSD-3-Clause */

/* The table of how dialects differ from version 1. The engine has a pointer to its dialect's
 * row, and knows no dialect by name. Headers are core/wire's. */

#include "core/engine/engine_int.h"

/* Where the chunk lists begin in a header: behind the four fixed words of version 1 (RFC 8166
 * §4.2), or the six of version 2. */
#define LISTS_V1	16u
#define LISTS_V2	24u
#define ERR(name)	(1u << RR_ERR_##name)
#define ERRORS_V1	(ERR(VERS) | ERR(CHUNK))
#define ERRORS_V2	(ERRORS_V1 | ERR(INVAL_HTYPE) | ERR(READ_CHUNKS) | ERR(WRITE_CHUNKS) | \
			 ERR(SEGMENTS) | ERR(WRITE_RESOURCE) | ERR(REPLY_RESOURCE) | \
			 ERR(SYSTEM))

static const struct rr_traits traits[] = {
	[RR_DIALECT_V1] = {
		.lists = LISTS_V1, .errors = ERRORS_V1, .reliable = true, .general = true,
		.plain = true, .prompt = true,
	},
	[RR_DIALECT_V2] = {
		.lists = LISTS_V2, .errors = ERRORS_V2, .reliable = true, .directed = true,
		.full_errors = true, .falls_back = &traits[RR_DIALECT_V1],
		.opening = &rr_opening_v2,
	},
	[RR_DIALECT_DRAFT02] = {
		.lists = LISTS_V1, .errors = ERRORS_V1, .read_replies = true,
		.unbound_reads = true, .exact_reads = true, .zero_grants = true,
		.padding = true,
		.opening = &rr_opening_ccp,
	},
	[RR_DIALECT_SLIDES] = { .lists = LISTS_V1, .errors = ERRORS_V1, .reverse_types = true },
};

const struct rr_traits *rr_traits_of(const struct rr_codec *codec)
{
	return &traits[codec->dialect];
}

uint32_t rr_eng_native_caps(enum rr_dialect dialect, uint32_t caps)
{
	return caps & (RR_CAP_REVERSE_CHUNKS |
		       (traits[dialect].opening ? RR_CAP_RELIABLE_REPLY : 0u));
}

enum rr_dialect rr_eng_falls_back(enum rr_dialect dialect)
{
	const struct rr_traits *other = traits[dialect].falls_back;

	return other ? (enum rr_dialect)(other - traits) : dialect;
}

bool rr_eng_delays(enum rr_dialect dialect)
{
	return !traits[dialect].prompt;
}
