/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/prov/prov.h"

#include <string.h>

#include "core/base/compiler.h"

static const struct rr_prov_ops *const provs[] = { &rr_prov_shm };

const struct rr_prov_ops *rr_prov_by_id(uint8_t id)
{
	for (size_t i = 0; i < rr_array_size(provs); i++)
		if (provs[i]->id == id)
			return provs[i];
	return NULL;
}

const struct rr_prov_ops *rr_prov_by_name(const char *name)
{
	for (size_t i = 0; i < rr_array_size(provs); i++)
		if (strcmp(provs[i]->name, name) == 0)
			return provs[i];
	return NULL;
}
