/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of codecs, by version and dialect. Contains no encoding itself. */

#include "core/base/compiler.h"
#include "core/wire/codec.h"
#include "core/wire/v1.h"
#include "core/wire/v2.h"

/* If a dialect has several codecs, the one that a connection starts with comes first. */
static const struct rr_codec *const codecs[] = {
	&rr_v1_codec,
	&rr_v2_codec,
	&rr_draft02_codec,
	&rr_slides_codec,
};

const struct rr_codec *rr_codec_find(uint32_t version, enum rr_dialect dialect)
{
	for (size_t i = 0; i < rr_array_size(codecs); i++)
		if (codecs[i]->version == version && codecs[i]->dialect == dialect)
			return codecs[i];
	return NULL;
}

const struct rr_codec *rr_codec_first(enum rr_dialect dialect)
{
	for (size_t i = 0; i < rr_array_size(codecs); i++)
		if (codecs[i]->dialect == dialect)
			return codecs[i];
	return NULL;
}
