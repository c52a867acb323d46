/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef SPIN_ENDS_H
#define SPIN_ENDS_H

/* How spins end: what rr_spin_end(), which the Makefile wraps, and rr_conn_spun() are told. */

#include "tests/lib/fakeconn.h"

static _Atomic int spin_ends, spin_ends_paid;

void __real_rr_spin_end(struct rr_spin *s, bool paid);
void __wrap_rr_spin_end(struct rr_spin *s, bool paid);

void __wrap_rr_spin_end(struct rr_spin *s, bool paid)
{
	spin_ends++;
	spin_ends_paid += paid;
	__real_rr_spin_end(s, paid);
}

/* So many spins have ended, and so many of them have paid. */
#define assert_spins(n, pay) do {							\
	cr_assert(spin_ends == (n) && rr_fake_spun.calls == (n), "%d %d", spin_ends,	\
		  rr_fake_spun.calls);							\
	cr_assert(spin_ends_paid == (pay) && rr_fake_spun.paid == (pay), "%d %d",	\
		  spin_ends_paid, rr_fake_spun.paid);					\
} while (0)

#endif
