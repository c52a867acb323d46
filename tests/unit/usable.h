/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef USABLE_H
#define USABLE_H

/* How a case at the responder ends: whatever it did, the connection goes on. */

#include <criterion/criterion.h>

#include "tests/lib/oneside.h"

static inline void one_end_usable(struct one *o)
{
	one_clear(o);
	ONE_RECV(o, 0x77, 1, 20, 0, 0, 0, 0, NULL_CALL(0x77));
	cr_assert_eq(one_count(o, RR_OP_DELIVER), 1, "the connection is not usable any more");
	cr_assert_eq(one_send(o, RR_RPC_REPLY, 0x77, 24), 0);
	cr_assert_eq(one_count(o, RR_OP_SEND), 1);
	cr_assert_eq(one_count(o, RR_OP_FAIL), 0);
	one_fini(o);
}

#endif
