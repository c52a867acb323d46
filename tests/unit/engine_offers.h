/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef ENGINE_OFFERS_H
#define ENGINE_OFFERS_H

/* For tests of what the requester makes of upper-layer bindings with a peer that is plain RFC 8166 (Linux' server):
 * an engine, a message of the app's, and calls of NFS. */

#include <errno.h>

#include "core/base/compiler.h"
#include "tests/lib/oneside.h"
#include "tests/unit/ulb_msg.h"

#define MSG	0
#define NOMSG	1
#define FH	32u
#define XID	7u

static struct one o;
static struct msg m;

static inline void start(void)
{
	one_init(&o, 0, true);
}

static inline void finish(void)
{
	one_fini(&o);
}

static inline void again(void)
{
	finish();
	start();
}

/* RFC 1813 §3.3.6, §3.3.7, §3.3.16 */
static inline void read3(uint32_t count)
{
	begin_call(&m, NFS, 3, 6);
	add_opaque(&m, FH);
	W(&m, 0, 0, count);
}

static inline uint32_t write3(uint32_t len)
{
	begin_call(&m, NFS, 3, 7);
	add_opaque(&m, FH);
	W(&m, 0, 0, len, 2);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

static inline void readdir3(uint32_t count)
{
	begin_call(&m, NFS, 3, 16);
	add_opaque(&m, FH);
	W(&m, 0, 0, 0, 0, count);
}

static inline void compound(uint32_t minor, uint32_t ops)
{
	begin_call(&m, NFS, 4, 1);
	W(&m, 0, minor, ops);
}

static inline uint32_t write4(uint32_t len)
{
	W(&m, 38, 1, 2, 3, 4, 0, 0, 2);
	add_opaque(&m, len);
	return m.n - len - rr_ulb_pad(len);
}

static inline void read4(uint32_t count)
{
	W(&m, 25, 1, 2, 3, 4, 0, 0, count);
}

static inline void call_out(void)
{
	cr_assert_eq(one_send_bytes(&o, m.b, m.n), 0);
}

/* The bound that the binding knows. */
static inline const struct rr_ulb_call *bound(void)
{
	cr_assert_eq(look(&m), RR_ULB_OK);
	return &call;
}

static inline const struct rr_op *exposed(uint32_t n)
{
	cr_assert_eq(one_count(&o, RR_OP_EXPOSE), n, "%u exposures", one_count(&o, RR_OP_EXPOSE));
	return one_op(&o, RR_OP_EXPOSE, 0);
}

#define HEADER_IS(...) do { \
	const uint32_t want[] = { __VA_ARGS__ }; \
	cr_assert_eq(one_count(&o, RR_OP_SEND), 1); \
	for (uint32_t w = 0; w < rr_array_size(want); w++) \
		cr_assert_eq(one_word(&o, 0, w), want[w], "word %u is %x", w, one_word(&o, 0, w)); \
	cr_assert_eq(one_op(&o, RR_OP_SEND, 0)->hdr_len, sizeof(want)); \
} while (0)

#endif
