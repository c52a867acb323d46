/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP's keepalive on the anchor of what is carried to another host, unseen by the app. */
#include <criterion/criterion.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "core/base/compiler.h"
#include "tests/lib/fakepair.h"

static const struct { int level, name; } opts[] = {
	{ SOL_SOCKET, SO_KEEPALIVE }, { IPPROTO_TCP, TCP_KEEPIDLE }, { IPPROTO_TCP, TCP_KEEPINTVL },
	{ IPPROTO_TCP, TCP_KEEPCNT },
};
static int before[4];

static int kernels(const struct rr_end *e, int level, int name)
{
	socklen_t len = sizeof(int);
	int val = -1;

	getsockopt(e->fd, level, name, &val, &len);
	return val;
}

/* As the wrappers do. */
static int apps(const struct rr_end *e, int level, int name)
{
	socklen_t len = sizeof(int);
	int val = -1;

	return rr_conn_getopt(e->c, level, name, &val, &len) ? val : kernels(e, level, name);
}

static void sets(const struct rr_end *e, int level, int name, int val)
{
	if (!rr_conn_setopt(e->c, level, name, &val, sizeof(val)))
		cr_assert_eq(setsockopt(e->fd, level, name, &val, sizeof(val)), 0);
	rr_conn_opt_set(e->c, e->fd, level, name);
}

static void open_pair(void)
{
	static const struct rr_fake_conf conf = { .eager = true };

	rr_test_setup();
	open_over(&conf, 1);
	for (int i = 0; i < 4; i++)
		before[i] = kernels(&p.client, opts[i].level, opts[i].name);
}

TestSuite(conn_keepalive, .init = open_pair, .fini = close_pair, .timeout = 60);

static void call(uint32_t xid, size_t len)
{
	send_one(&p.client, &p.server, rr_test_call(out, xid, len, 1));
	send_one(&p.server, &p.client, rr_test_reply(out, xid, len, 1));
}

static void as_before(const struct rr_end *e, int (*of)(const struct rr_end *, int, int))
{
	for (int i = 0; i < 4; i++)
		cr_assert_eq(of(e, opts[i].level, opts[i].name), before[i], "%d", i);
}

static void asks(const struct rr_end *e, int idle, int every, int times)
{
	cr_assert_eq(kernels(e, SOL_SOCKET, SO_KEEPALIVE), 1);
	cr_assert_eq(kernels(e, IPPROTO_TCP, TCP_KEEPIDLE), idle);
	cr_assert_eq(kernels(e, IPPROTO_TCP, TCP_KEEPINTVL), every);
	cr_assert_eq(kernels(e, IPPROTO_TCP, TCP_KEEPCNT), times);
}

Test(conn_keepalive, tcp_asks_once_a_minute_and_the_app_sees_what_it_had)
{
	as_before(&p.server, kernels);
	call(1, 100);
	cr_assert(rr_conn_is_carried(p.client.c) && rr_conn_is_carried(p.server.c));
	for (int i = 0; i < 2; i++) {
		asks(i ? &p.client : &p.server, 60, 60, 120);
		as_before(i ? &p.client : &p.server, apps);
	}
	cr_assert_neq(before[1], 60);
}

Test(conn_keepalive, what_the_app_sets_it_gets_back)
{
	call(1, 100);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 30);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPCNT, 4);
	cr_assert_eq(apps(&p.client, IPPROTO_TCP, TCP_KEEPIDLE), 30);
	cr_assert_eq(apps(&p.client, IPPROTO_TCP, TCP_KEEPCNT), 4);
	asks(&p.client, 60, 60, 120);
	sets(&p.client, SOL_SOCKET, SO_KEEPALIVE, 1);
	cr_assert_eq(apps(&p.client, SOL_SOCKET, SO_KEEPALIVE), 1);
	asks(&p.client, 30, before[2], 4);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 7200);
	cr_assert_eq(apps(&p.client, IPPROTO_TCP, TCP_KEEPIDLE), 7200);
	asks(&p.client, 60, before[2], 4);
	sets(&p.client, SOL_SOCKET, SO_KEEPALIVE, 0);
	cr_assert_eq(apps(&p.client, SOL_SOCKET, SO_KEEPALIVE), 0);
	asks(&p.client, 60, 60, 120);
}

Test(conn_keepalive, what_the_app_had_set_before_counts)
{
	sets(&p.client, SOL_SOCKET, SO_KEEPALIVE, 1);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 20);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPINTVL, 5);
	call(1, 100);
	asks(&p.client, 20, 5, before[3]);
	cr_assert_eq(apps(&p.client, IPPROTO_TCP, TCP_KEEPINTVL), 5);
}

/* Behind the hatch of both directions it is a TCP connection like any other. */
Test(conn_keepalive, tcp_gets_the_apps_values_back)
{
	call(1, 100);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 30);
	send_one(&p.client, &p.server, rr_test_call(out, 2, (1 << 20) + 4096, 1));
	asks(&p.client, 60, 60, 120);
	send_one(&p.server, &p.client, rr_test_reply(out, 2, (1 << 20) + 4096, 1));
	call(3, 100);
	as_before(&p.server, kernels);
	cr_assert_eq(kernels(&p.client, SOL_SOCKET, SO_KEEPALIVE), 0);
	cr_assert_eq(kernels(&p.client, IPPROTO_TCP, TCP_KEEPIDLE), 30);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 31);
	cr_assert_eq(kernels(&p.client, IPPROTO_TCP, TCP_KEEPIDLE), 31);
}

/* It would have the connection end, after that time of silence on a network that is down. */
Test(conn_keepalive, nothing_is_asked_where_the_app_has_a_user_timeout)
{
	sets(&p.client, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
	call(1, 100);
	as_before(&p.client, kernels);
	asks(&p.server, 60, 60, 120);
	sets(&p.server, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
	as_before(&p.server, kernels);
	as_before(&p.server, apps);
}

Test(conn_keepalive, on_one_host_nothing_stands_between)
{
	rr_pair_close(&p);
	rr_prov_only(NULL);
	rr_pair_open(&p);
	call(1, 100);
	cr_assert(rr_conn_is_carried(p.client.c));
	as_before(&p.client, kernels);
	as_before(&p.server, kernels);
}

Test(conn_keepalive, a_probe_is_out_until_it_is_answered)
{
	struct rr_share *sh;

	call(1, 100);
	sh = p.client.c->share;
	sh->keep_idle = RR_SEC;
	rr_keep_asked(sh, 0);
	cr_assert(sh->probing, "it went out");
	rr_keep_answer(sh, 0);
	cr_assert(!sh->probing && rr_link_is_up(sh));
	rr_keep_asked(sh, -EAGAIN);
	cr_assert(!sh->probing && rr_link_is_up(sh) && sh->keep_idle, "it is asked again");
	rr_keep_asked(sh, 1);
	cr_assert(!sh->probing && rr_link_is_up(sh));
	rr_keep_asked(sh, -EOPNOTSUPP);
	cr_assert(!sh->probing && rr_link_is_up(sh) && !sh->keep_idle);
}

static int probe_status;

static int one_probe(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	(void)qp;
	if (probe_status > 0 || n < 1)
		return 0;
	*wc = (struct rr_wc){ .op = RR_WC_PROBE, .status = probe_status };
	probe_status = 1;
	return 1;
}

Test(conn_keepalive, the_answer_comes_as_a_completion)
{
	static struct rr_prov_ops ops;
	struct rr_share *sh;
	char byte;

	call(1, 100);
	sh = p.client.c->share;
	ops = *sh->qp->ops;
	ops.poll = one_probe;
	sh->qp->ops = &ops;
	for (int dead = 0; dead < 2; dead++) {
		rr_keep_asked(sh, 0);
		probe_status = dead ? -ETIMEDOUT : 0;
		cr_assert_eq(rr_end_try_recv(&p.client, &byte, 1, 0), dead ? -ETIMEDOUT : -EAGAIN);
		cr_assert(!sh->probing && probe_status == 1);
	}
}

/* That another call of the app's finds it out is the same. */
Test(conn_keepalive, a_probe_without_an_answer_ends_the_connection)
{
	char byte;

	call(1, 100);
	rr_keep_asked(p.client.c->share, -ETIMEDOUT);
	cr_assert_eq(rr_end_try_recv(&p.client, &byte, 1, 0), -ETIMEDOUT);
}

/* With a native peer it is the library that asks, as long after the last message as the app has said. */
Test(conn_keepalive, what_the_app_sets_for_a_native_peer_is_learned)
{
	struct rr_share *sh;

	call(1, 100);
	sh = p.client.c->share;
	sets(&p.client, SOL_SOCKET, SO_KEEPALIVE, 1);
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 30);
	cr_assert_eq(sh->keep_idle, 0, "between two of ours TCP does it");
	sh->anchor.ours = false;
	sh->qp->native = true;
	rr_conn_opt_set(p.client.c, p.client.fd, SOL_SOCKET, SO_LINGER);
	cr_assert_eq(sh->keep_idle, 0, "another option");
	sets(&p.client, IPPROTO_TCP, TCP_KEEPIDLE, 70);
	cr_assert_eq(sh->keep_idle, 70 * RR_SEC);
	sets(&p.client, SOL_SOCKET, SO_KEEPALIVE, 0);
	cr_assert_eq(sh->keep_idle, 0);
	sh->qp->native = false;
}
