/* SPDX-License-Identifier: BSD-3-Clause */
/* An answer to an offer that comes too late never reaches the app, whatever else happens to the
 * connection. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core/conn/enter.h"
#include "core/prov/fake/fake.h"
#include "tests/lib/connpair.h"
#include "tests/lib/fakenet.h"

#define PEER	(FAKENET_FD + 1)

static struct rr_fake_link l;
static struct rr_conn *c;
static uint8_t buf[1024];

/* A client that has offered, heard nothing in time, and goes on by TCP. */
static void give_up(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(2001),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct iovec iov = { buf, rr_test_call(buf, 1, 10, 1) };

	rr_test_setup();
	rr_os = &fakenet_os;
	rr_test_params.upgrade_timeout = RR_MSEC;
	rr_fake_link_init(&l, &(struct rr_fake_conf){ .direct = true, .ring = true }, 1);
	rr_prov_only(&l.ops);
	fakenet_open();
	c = rr_conn_client(FAKENET_FD, (struct sockaddr *)&to, sizeof(to));
	while (rr_conn_st(c) != RR_S_SWALLOW)
		rr_conn_send(c, FAKENET_FD, &iov, 1, 0);
}

/* The answer, and n bytes of the other app's behind it. */
static void answer(size_t n)
{
	uint32_t len = rr_nego_put_refusal(RR_NEGO_DECLINED, c->xid, NULL, buf, sizeof(buf));

	cr_assert_eq(fakenet_send(PEER, buf, len), (ssize_t)len);
	n = n ? rr_test_reply(buf, 1, n, 1) : 0;
	cr_assert_eq(fakenet_send(PEER, buf, n), (ssize_t)n);
}

static ssize_t read_some(void)
{
	struct iovec iov = { buf, sizeof(buf) };
	ssize_t n = rr_conn_recv(c, FAKENET_FD, &iov, 1, 0);

	return n == RR_CONN_KERNEL ? fakenet_recv(FAKENET_FD, buf, sizeof(buf), 0) : n;
}

Test(conn_late, an_answer_is_swallowed)
{
	give_up();
	answer(100);
	cr_assert_eq(read_some(), 128);
}

Test(conn_late, an_answer_is_swallowed_before_a_reset_too)
{
	give_up();
	answer(0);
	fakenet_reset();
	cr_assert_eq(read_some(), -ECONNRESET);
}

Test(conn_late, what_stands_before_a_reset_is_read)
{
	give_up();
	answer(100);
	fakenet_reset();
	cr_assert_eq(read_some(), 128);
	cr_assert_eq(read_some(), -ECONNRESET);
}
