/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() over connections at rest, whose wake-up fd stands in place of the app's. */
#include "tests/lib/ready_test.h"

static struct rr_conn *at_rest(int fd)
{
	struct rr_conn *c = rr_fake_conn(fd, RR_FAKE_CARRIED);
	struct pollfd p = { fd, POLLIN, 0 };

	c->can_rest = true;
	cr_assert_eq(rr_wrap_poll(&p, 1, 1), 0);
	cr_assert(c->rests);
	return c;
}

/* A message that is none of the app's, and then one that is. */
static void ring_twice(struct later *l)
{
	rr_fake_ready(l->c, 0, 0);
	usleep(20000);
	rr_fake_ready(l->c, POLLIN, 0);
}

Test(ready_rest, one_that_has_rung_for_nothing_is_slept_for_again, .timeout = 20)
{
	int peer, fd = tcp(&peer);
	struct rr_conn *c = at_rest(fd);
	struct pollfd p = { fd, POLLIN, 0 };
	struct later l = { .c = c, .what = ring_twice };

	start(&l);
	cr_assert_eq(rr_wrap_poll(&p, 1, -1), 1);
	cr_assert_eq(p.revents, POLLIN);
	finish(&l);
	cr_assert_eq(c->sleepers, 0);
}
