/* SPDX-License-Identifier: BSD-3-Clause */
/* Which server is asked before the first call goes: one on another host, of which nothing is known, by a write that waits. */
#include <arpa/inet.h>
#include <fcntl.h>

#define rr_prov_nth prov_nth_here
#include "core/prov/prov.c"
#undef rr_prov_nth

#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"
#include "tests/unit/conn_pair.h"

static bool device;

const struct rr_prov_ops *rr_prov_nth(uint32_t i);

const struct rr_prov_ops *rr_prov_nth(uint32_t i)
{
	return i <= device ? &rr_prov_shm : NULL;
}

static struct sockaddr_in *peer;

static void begin(void)
{
	setup();
	device = rr_test_params.verbs = true;
	peer = (void *)&p.client.c->peer;
	peer->sin_addr.s_addr = inet_addr("192.0.2.1");
}

TestSuite(conn_ask_first, .init = begin, .fini = teardown, .timeout = 60);

static bool must(int flags)
{
	return rr_ride_must_ask(p.client.c, p.client.fd, flags);
}

static void may_block(bool yes)
{
	cr_assert_eq(fcntl(p.client.fd, F_SETFL, yes ? 0 : O_NONBLOCK), 0);
}

Test(conn_ask_first, only_a_write_that_may_wait)
{
	may_block(false);
	cr_assert_not(must(0));
	may_block(true);
	cr_assert(must(0));
	cr_assert_not(must(MSG_DONTWAIT));
	cr_assert(must(MSG_NOSIGNAL));
	cr_assert_not(rr_ride_must_ask(p.client.c, -1, 0));
}

Test(conn_ask_first, only_where_a_device_could_reach_it)
{
	may_block(true);
	device = false;
	cr_assert_not(must(0));
	device = true;
	rr_test_params.verbs = false;
	cr_assert_not(must(0));
	rr_test_params.verbs = true;
	peer->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	cr_assert_not(must(0));
}

Test(conn_ask_first, only_of_whom_nothing_is_known)
{
	struct sockaddr_in6 *at = &p.client.c->peer;

	may_block(true);
	rr_learned_ours(at, true);
	cr_assert_not(must(0));
	rr_learned_ours(at, false);
	cr_assert(must(0));
	rr_cache_add(at, RR_R_NEGATIVE_CACHE, rr_now() + 60 * RR_SEC);
	cr_assert(must(0), "the offer itself looks for that");
	rr_cache_add(at, RR_R_TIMEOUT, rr_now() + 60 * RR_SEC);
	cr_assert_not(must(0), "another connection has waited in vain");
	rr_cache_drop(at);
	cr_assert(must(0));
}
