/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ULB_BINDING_H
#define RR_ULB_BINDING_H

/* A binding is a table with two formats for each procedure, one of its arguments and one of its
 * results. A format names XDR items in their order:
 *
 *   w  w12    a word; twelve words that do not matter
 *   o  o64    opaque<> or string<>; one of which bounds take at most 64 bytes into account
 *   d  d1024  the same, but DDP-eligible. In results without a number: at most what c said
 *   [..]8     counted array; bounds take at most 8 elements into account
 *   (..)      optional-data: a bool, then the rest if it is true
 *   *(..)     any number of those, linked into a list
 *   {7:..|8:..|:..}  union: a discriminating word; the arm without a number is the default
 *
 * and what the bound of a reply depends on:
 *
 *   c         word of the arguments: a count or maximum of bytes, for d and <>
 *   <..>      in results: together at most c bytes
 *   b         bitmap4 of the arguments: the attributes that are asked for, for f
 *   f         fattr4 of the results
 *   t         string that the results repeat
 *   q         nothing on the wire: replies are no larger than the session allows
 *   s, S      words: the largest reply that a new session will allow, in its fore and back
 *             channel
 *   %         counted array of operations, from the binding's second table
 *
 * Numbers behind o, d and ] are for bounds only: a longer item is walked all the same (decision
 * 6). Without a number there is no bound.
 *
 * Each element of an array takes at least one word, so that a large count alone causes no work:
 * it needs as many bytes. */

#include "core/base/types.h"

struct rr_ulb_proc {
	const char *args;	/* NULL: nothing about them matters */
	const char *res;	/* NULL: no bound, nothing eligible */
};

#define RR_TWICE(n)	(UINT64_C(1) << (n) % 64)

struct rr_ulb_binding {
	uint32_t prog, vers;
	uint32_t nprocs, nops;
	const struct rr_ulb_proc *procs;
	/* of %, by operation number; both formats NULL: there is no such operation */
	const struct rr_ulb_proc *ops;
	uint64_t procs_twice;		/* bit 1 << procedure: may be executed twice … */
	uint64_t ops_twice[2];		/* … and of operations, 64 in each word */
	const uint16_t *attrs;		/* of f: bytes of each attribute at most */
	uint32_t nattrs;
};

/* Largest user or group name, path and so on where the protocols give no limit: see
 * docs/decisions/0006-ulb-readings.md. */
#define RR_ULB_NAME	"512"
#define RR_ULB_PATH	"4096"
#define RR_ULB_ATTR_ANY	UINT16_MAX	/* an attribute without a bound */

/* The binding of (prog, vers) and its number from 1 on; NULL, 0. */
const struct rr_ulb_binding *rr_ulb_find(uint32_t prog, uint32_t vers, uint8_t *number);
/* The one with this number; NULL. */
const struct rr_ulb_binding *rr_ulb_at(uint32_t number);

#endif
