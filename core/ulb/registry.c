/* SPDX-License-Identifier: BSD-3-Clause */
/* The registry of bindings, by program and version; bindings.def lists them. A number, which
 * fits into the record of a call (struct rr_ulb_rec), stands for a binding; 0 stands for none.
 * The list is short, so it is searched from its beginning. */

#include "core/base/compiler.h"
#include "core/ulb/binding.h"
#include "core/ulb/ulb.h"

#define RR_BINDING(name) extern const struct rr_ulb_binding name;
#include "core/ulb/bindings.def"
#undef RR_BINDING

#define RR_BINDING(name) &name,
static const struct rr_ulb_binding *const bindings[] = {
#include "core/ulb/bindings.def"
};
#undef RR_BINDING

const struct rr_ulb_binding *rr_ulb_at(uint32_t number)
{
	return number - 1 < rr_array_size(bindings) ? bindings[number - 1] : NULL;
}

const struct rr_ulb_binding *rr_ulb_find(uint32_t prog, uint32_t vers, uint8_t *number)
{
	for (uint8_t i = 0; i < rr_array_size(bindings); i++) {
		if (bindings[i]->prog == prog && bindings[i]->vers == vers) {
			*number = i + 1;
			return bindings[i];
		}
	}
	*number = 0;
	return NULL;
}

bool rr_ulb_has(uint32_t prog, uint32_t vers)
{
	uint8_t number;

	return rr_ulb_find(prog, vers, &number);
}
