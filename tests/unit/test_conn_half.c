/* SPDX-License-Identifier: BSD-3-Clause */
/* Offers of which nothing more is heard, clients that come late, addresses that differ, descriptors that are scarce: what
 * strangers are told, and what an answer costs. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/base/stats.h"
#include "core/conn/enter.h"
#include "core/wire/cursor.h"
#include "tests/lib/open_fds.h"
#include "tests/unit/conn_pair.h"

#define LATER	(3600 * RR_SEC)

static struct rr_os os;
static int turned, turned_fd;
static bool open_when_turned;

static void note_turned(struct rr_conn *c, int fd)
{
	turned++;
	turned_fd = fd;
	open_when_turned = c->share && rr_ownfd_is(c->share->qp->wake_fd);
}

static void begin(void)
{
	rr_test_params.stats = rr_test_segment;
	rr_test_params.upgrade_timeout = RR_SEC;
	rr_test_params.turned = note_turned;
	setup();
	os = *rr_os;
	rr_os = &os;
}

TestSuite(conn_half, .init = begin, .fini = teardown, .timeout = 60);

/* The client's first call, as far as it goes without its server. */
static size_t offer(struct rr_end *client)
{
	size_t n = rr_test_call(out, 1, 100, 1);

	cr_assert_eq(rr_end_try_send(client, out, n), -EAGAIN);
	cr_assert_eq(rr_conn_st(client->c), RR_S_OFFERED);
	return n;
}

/* The server waits so long for its client, which itself waits a second for the answer, also on a busy machine. */
static size_t answered_for(struct rr_pair *q, rr_time patience)
{
	size_t n = offer(&q->client);

	rr_test_params.upgrade_timeout = patience;
	cr_assert_eq(rr_end_poll(&q->server, POLLIN), 0);
	cr_assert_eq(rr_conn_st(q->server.c), RR_S_ANSWERED);
	return n;
}

static size_t answered(struct rr_pair *q)
{
	return answered_for(q, RR_SEC);
}

static uint32_t reason(const struct rr_conn *c)
{
	return atomic_load(&c->st->reason);
}

/* The call that was held goes by TCP, and so does its reply. */
static void goes_on_by_tcp(struct rr_pair *q, size_t n)
{
	cr_assert_eq(rr_end_send(&q->client, &q->server, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&q->server, &q->client, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	n = rr_test_reply(out, 1, 5000, 2);
	cr_assert_eq(rr_end_send(&q->server, &q->client, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&q->client, &q->server, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert(rr_conn_is_tcp(q->client.c) && rr_conn_is_tcp(q->server.c));
}

Test(conn_half, an_answer_ends_when_some_thread_goes_to_sleep)
{
	int before = open_fds();
	size_t n = answered(&p);
	rr_time due = rr_conn_idle(rr_now());

	cr_assert(due > rr_now() && due <= rr_now() + RR_SEC, "that thread sleeps no longer than that");
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_ANSWERED);
	cr_assert_eq(rr_conn_idle(rr_now() + LATER), RR_TIME_NEVER);
	cr_assert(rr_conn_is_tcp(p.server.c));
	cr_assert_eq(reason(p.server.c), RR_R_ABANDONED);
	cr_assert_eq(open_fds(), before + 1, "the client's listener");
	cr_assert_eq(turned, 1);
	cr_assert_eq(turned_fd, p.server.fd);
	cr_assert(open_when_turned, "who waits for it looks elsewhere before the number is another's");
	goes_on_by_tcp(&p, n);
	cr_assert_eq(reason(p.client.c), RR_R_ABANDONED);
	cr_assert_eq(open_fds(), before);
}

Test(conn_half, an_answer_ends_at_its_connections_own_next_step)
{
	size_t n = answered_for(&p, RR_MSEC);

	usleep(2000);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert(rr_conn_is_tcp(p.server.c));
	cr_assert_eq(rr_conn_idle(rr_now() + LATER), RR_TIME_NEVER);
	cr_assert_eq(turned, 0, "its caller sees it");
	goes_on_by_tcp(&p, n);
}

/* Its child has no part in what its parent waits for. */
Test(conn_half, a_child_that_asks_is_told_of_a_reset_and_of_what_it_asked_for)
{
	int st = -1;
	pid_t pid;

	offer(&p.client);
	pid = fork();
	if (!pid)
		_exit(rr_conn_poll(p.client.c, p.client.fd, POLLIN) != (POLLIN | POLLERR | POLLHUP) ||
		      rr_conn_poll(p.client.c, p.client.fd, POLLOUT) != (POLLOUT | POLLERR | POLLHUP) ||
		      rr_conn_poll(p.client.c, p.client.fd, 0) != (POLLERR | POLLHUP));
	cr_assert_eq(waitpid(pid, &st, 0), pid);
	cr_assert_eq(st, 0);
	cr_assert_eq(rr_conn_st(p.client.c), RR_S_OFFERED);
}

/* As captures show them. */
Test(conn_half, a_carried_connection_knows_both_its_ends)
{
	const struct rr_end *e[] = { &p.client, &p.server };
	struct sockaddr_in a;
	socklen_t len = sizeof(a);

	carried();
	for (int i = 0; i < 2; i++) {
		const struct rr_cap_ends *ends = &e[i]->c->share->ends;

		cr_assert_eq(ends->carrier, RR_CARRIER_SHM);
		cr_assert_eq(getsockname(e[i]->fd, (struct sockaddr *)&a, &len), 0);
		cr_assert_eq(ends->port[0], ntohs(a.sin_port), "%d", i);
		cr_assert_eq(getpeername(e[i]->fd, (struct sockaddr *)&a, &len), 0);
		cr_assert_eq(ends->port[1], ntohs(a.sin_port), "%d", i);
		cr_assert(ends->addr[0][12] == 127 && ends->addr[1][12] == 127, "%d", i);
	}
}

Test(conn_half, who_waits_for_the_client_looks_again_in_time)
{
	struct pollfd fds[2];
	rr_time until;

	answered(&p);
	cr_assert_eq(rr_conn_fds(p.server.c, p.server.fd, POLLIN, fds, &until), 2);
	cr_assert(until > rr_now() && until <= rr_now() + RR_SEC);
}

static int not_yet(struct rr_qp *qp)
{
	(void)qp;
	return -EAGAIN;
}

/* By a device it takes some more time when the client has been accepted. */
Test(conn_half, one_that_is_being_taken_up_is_waited_for_asleep)
{
	struct rr_prov_ops slow = rr_prov_shm;
	struct pollfd fds[2];
	rr_time until;

	slow.establish = slow.withdraw = not_yet;
	answered_for(&p, 20 * RR_MSEC);
	p.server.c->share->qp->ops = &slow;
	usleep(21000);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_ANSWERED);
	rr_conn_fds(p.server.c, p.server.fd, POLLIN, fds, &until);
	cr_assert_gt(until, rr_now());
	cr_assert_eq(rr_conn_idle(rr_now() + LATER), RR_TIME_NEVER);
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_ANSWERED);
	p.server.c->share->qp->ops = &rr_prov_shm;
}

Test(conn_half, a_client_that_has_joined_is_carried_however_late_its_server_looks)
{
	size_t n = answered(&p);

	cr_assert_eq(rr_end_try_send(&p.client, out, n), (ssize_t)n);
	cr_assert(rr_conn_is_carried(p.client.c));
	rr_conn_idle(rr_now() + LATER);
	rr_prov_spare();
	cr_assert_not(rr_conn_scarce());
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
	cr_assert(rr_conn_is_carried(p.server.c));
}

Test(conn_half, one_that_ends_by_itself_is_forgotten)
{
	struct rr_pair q;

	rr_pair_open(&q);
	answered(&p);
	answered(&q);
	rr_end_close(&p.server);
	rr_conn_idle(rr_now() + LATER);
	cr_assert(rr_conn_is_tcp(q.server.c));
	cr_assert_eq(turned, 1);
	rr_pair_close(&q);
	cr_assert_eq(rr_conn_idle(rr_now() + 2 * LATER), RR_TIME_NEVER);
}

Test(conn_half, a_rule_that_requires_rdma_is_kept)
{
	answered(&p);
	p.server.c->require = true;
	rr_conn_idle(rr_now() + LATER);
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_REFUSED);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -ECONNABORTED);
}

Test(conn_half, one_that_another_thread_is_at_is_left_alone_for_now)
{
	answered(&p);
	cr_assert_eq(rr_lock_take(&p.server.c->lock), 0);
	cr_assert_neq(rr_conn_idle(rr_now() + LATER), RR_TIME_NEVER);
	cr_assert_eq(rr_conn_st(p.server.c), RR_S_ANSWERED);
	rr_lock_drop(&p.server.c->lock);
	cr_assert_eq(rr_conn_idle(rr_now() + 2 * LATER), RR_TIME_NEVER);
	cr_assert(rr_conn_is_tcp(p.server.c));
}

static void wait_until(struct rr_pair *q, rr_time deadline, bool patient)
{
	answered(q);
	rr_half_leave(q->server.c);
	q->server.c->deadline = deadline;
	rr_half_add(q->server.c, patient);
}

/* Whichever of the two lengths of time they have been given. */
Test(conn_half, they_end_in_the_order_of_their_deadlines)
{
	rr_time now = rr_now();
	struct rr_pair q[4];

	for (int i = 0; i < 4; i++) {
		rr_pair_open(&q[i]);
		wait_until(&q[i], now + (rr_time)(i + 1) * LATER, i & 1);
	}
	for (int i = 0; i < 4; i++) {
		cr_assert_eq(rr_half_due(), now + (rr_time)(i + 1) * LATER);
		rr_conn_idle(now + (rr_time)(i + 1) * LATER);
		for (int k = 0; k < 4; k++)
			cr_assert_eq(rr_conn_is_tcp(q[k].server.c), k <= i, "%d at %d", k, i);
	}
	cr_assert_eq(rr_half_due(), 0);
	for (int i = 0; i < 4; i++)
		rr_pair_close(&q[i]);
}

/* The first that can be ended is, once, and the next is due when it was. */
static int takes_it(struct rr_conn *c RR_UNUSED)
{
	return 0;
}

Test(conn_half, what_is_picked_is_out_and_the_next_is_due_at_its_time)
{
	rr_time now = rr_now(), later = now + LATER;
	struct rr_conn *c = NULL;
	struct rr_pair q[2];

	for (int i = 0; i < 2; i++) {
		rr_pair_open(&q[i]);
		wait_until(&q[i], later + (rr_time)i, false);
	}
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(rr_half_due(), later + (rr_time)i);
		cr_assert_eq(rr_half_pick(later + 1, later + 1, takes_it, &c), 0);
		cr_assert_eq(c, q[i].server.c);
	}
	cr_assert_eq(rr_half_due(), 0);
	cr_assert_eq(rr_half_pick(later + 1, later + 1, takes_it, &c), -ESRCH);
	for (int i = 0; i < 2; i++)
		rr_pair_close(&q[i]);
}

/* --- many --- */

enum { MANY = 40 };
static struct rr_pair many[MANY];

static void many_close(void)
{
	for (int i = 0; i < MANY; i++)
		rr_pair_close(&many[i]);
}

/* Of each the offering side's three and ours. */
Test(conn_half, silent_offers_cost_two_descriptors_each_and_one_when_their_time_is_over)
{
	int before, after[MANY];

	for (int i = 0; i < MANY; i++) {
		rr_pair_open(&many[i]);
		offer(&many[i].client);
	}
	before = open_fds();
	for (int i = 0; i < MANY; i++) {
		rr_end_poll(&many[i].server, POLLIN);
		after[i] = open_fds();
	}
	cr_assert_eq(after[0], before + 2, "one, and one place for all");
	cr_assert_eq(after[MANY - 1], before + MANY + 1);
	rr_conn_idle(rr_now() + LATER);
	cr_assert_eq(open_fds(), before);
	many_close();
}

Test(conn_half, an_app_that_is_short_of_descriptors_gets_them_at_once)
{
	int before;

	for (int i = 0; i < MANY; i++) {
		rr_pair_open(&many[i]);
		offer(&many[i].client);
	}
	before = open_fds();
	for (int i = 0; i < MANY; i++)
		rr_end_poll(&many[i].server, POLLIN);
	cr_assert(rr_conn_scarce());
	cr_assert_eq(open_fds(), before);
	cr_assert_not(rr_conn_scarce());
	many_close();
}

static struct rlimit was;

static void limited(rlim_t n)
{
	struct rlimit rl;

	getrlimit(RLIMIT_NOFILE, &was);
	rl = (struct rlimit){ n, was.rlim_max };
	setrlimit(RLIMIT_NOFILE, &rl);
}

/* A quarter of what there may be stays the app's: who offers then is declined, and nothing is made. */
Test(conn_half, no_answer_is_given_where_descriptors_are_scarce)
{
	int answers = 0, scarce = 0, before;

	for (int i = 0; i < MANY; i++)
		rr_pair_open(&many[i]);
	for (int i = 0; i < MANY; i++)
		offer(&many[i].client);
	limited(256);
	for (int i = 0; i < MANY; i++) {
		before = open_fds();
		rr_end_poll(&many[i].server, POLLIN);
		if (rr_conn_st(many[i].server.c) == RR_S_ANSWERED) {
			answers++;
			cr_assert_leq(many[i].server.fd + rr_ownfd_above(many[i].server.fd) + 64, 256 + 1, "with the place");
			continue;
		}
		cr_assert_eq(reason(many[i].server.c), RR_R_NO_FDS);
		cr_assert_eq(open_fds(), before);
		scarce++;
	}
	setrlimit(RLIMIT_NOFILE, &was);
	cr_assert_eq(answers + scarce, MANY);
	cr_assert(scarce > 0, "%d answers", answers);
	many_close();
}

/* --- who is at the other end --- */

static int another_peer(int fd, struct sockaddr *sa, socklen_t *len)
{
	int rc = getpeername(fd, sa, len);

	if (fd == p.server.fd)
		((struct sockaddr_in *)(void *)sa)->sin_port ^= 1;
	return rc;
}

static int no_peer(int fd, struct sockaddr *sa, socklen_t *len)
{
	if (fd == p.client.fd)
		return errno = ENOTCONN, -1;
	return getpeername(fd, sa, len);
}

/* The server's part in the upgrade makes no descriptor and no mapping, only these bytes. */
static void is_refused(const char *hex, enum rr_reason here, enum rr_reason there)
{
	size_t n = offer(&p.client);
	int before = open_fds();
	uint8_t bytes[200];
	ssize_t got;
	char text[401];

	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0);
	cr_assert(rr_conn_is_tcp(p.server.c));
	cr_assert_eq(open_fds(), before);
	got = recv(p.client.fd, bytes, sizeof(bytes), MSG_PEEK | MSG_DONTWAIT);
	memset(bytes + 4, 0, 4);	/* the xid */
	for (ssize_t i = 0; i < got; i++)
		snprintf(text + 2 * i, 3, "%02x", bytes[i]);
	cr_assert_str_eq(text, hex);
	goes_on_by_tcp(&p, n);
	cr_assert_eq(reason(p.server.c), here);
	cr_assert_eq(reason(p.client.c), there, "%s", rr_reason_text(reason(p.client.c)));
}

#define REFUSAL	"80000028" "00000000" "00000001" "00000000" "0000000000000000" "00000000" "72646d617270630a" "00000002"

Test(conn_half, other_addresses_are_declined_for_that)
{
	os.getpeername = another_peer;
	is_refused(REFUSAL "00000003", RR_R_ADDRESSES, RR_R_ADDRESSES);
}

Test(conn_half, no_addresses_are_other_addresses)
{
	os.getpeername = no_peer;
	is_refused(REFUSAL "00000003", RR_R_ADDRESSES, RR_R_ADDRESSES);
}

Test(conn_half, other_addresses_are_taken_where_the_option_says_so)
{
	rr_test_params.bypass_proxies = true;
	os.getpeername = another_peer;
	carried();
}

static uint8_t said[4][RR_OFFER_MAX];
static ssize_t said_len[4];
static int nsaid;

static ssize_t listen_in(int fd, const void *buf, size_t len, int flags)
{
	if (nsaid < 4 && len <= RR_OFFER_MAX) {
		memcpy(said[nsaid], buf, len);
		said_len[nsaid++] = (ssize_t)len;
	}
	return send(fd, buf, len, flags);
}

/* Nothing of two offers, or two answers, of the same two processes tells that they are the same. */
Test(conn_half, two_connections_of_a_host_have_nothing_in_common_but_options)
{
	struct rr_hello a, b, yes;
	uint32_t xid, need;
	struct rr_pair q;

	os.send = listen_in;
	carried();
	rr_pair_open(&q);
	answered(&q);
	cr_assert_eq(nsaid, 4);	/* offer, answer, offer, answer */
	cr_assert_eq(rr_nego_get_offer(said[0], (size_t)said_len[0], rr_cp->program, &xid, &a, &need), RR_NEGO_OURS);
	cr_assert_eq(rr_nego_get_answer(said[1], (size_t)said_len[1], xid, &yes, &need), RR_NEGO_OURS);
	cr_assert_eq(rr_nego_get_offer(said[2], (size_t)said_len[2], rr_cp->program, &xid, &b, &need), RR_NEGO_OURS);
	cr_assert(memcmp(a.host, b.host, RR_IDENT) && memcmp(a.ends, b.ends, RR_IDENT));
	cr_assert_leq(said_len[0], (ssize_t)RR_OFFER_MAX);
	cr_assert_eq(yes.inline_size | yes.recvs | yes.host[0] | yes.ends[0], 0, "an answer says no more than it must");
	rr_pair_close(&q);
}

static uint32_t reliable(const struct rr_end *e)
{
	return e->c->share->ep.caps & RR_CAP_RELIABLE_REPLY;
}

/* req: reliable-reply-00 - #10 */
Test(conn_half, reliable_replies_need_the_word_of_both)
{
	for (int client = 0; client < 2; client++)
		for (int server = 0; server < 2; server++) {
			struct rr_pair q;
			size_t n;

			rr_pair_open(&q);
			rr_test_params.reliable_replies = client;
			n = offer(&q.client);
			rr_test_params.reliable_replies = server;
			cr_assert_eq(rr_end_poll(&q.server, POLLIN), 0);
			rr_test_params.reliable_replies = client;
			cr_assert_eq(rr_end_send(&q.client, &q.server, out, n), (ssize_t)n);
			cr_assert_eq(rr_end_recv(&q.server, &q.client, in, n), (ssize_t)n);
			cr_assert_eq(reliable(&q.client) != 0, client && server, "client %d %d", client, server);
			cr_assert_eq(reliable(&q.server) != 0, client && server, "server %d %d", client, server);
			rr_pair_close(&q);
		}
}

static int another_token(uint8_t *buf, ssize_t n)
{
	buf[n] ^= 1;
	return 0;
}

/* A host's identity is not one that is written down once and shown for ever after. */
static ssize_t replay(int fd, const void *buf, size_t len, int flags)
{
	uint8_t copy[RR_OFFER_MAX];

	memcpy(copy, buf, len);
	if (fd == p.client.fd)
		another_token(copy, 60);
	return send(fd, copy, len, flags);
}

Test(conn_half, digests_of_another_token_say_nothing)
{
	os.send = replay;
	is_refused(REFUSAL "00000003", RR_R_ADDRESSES, RR_R_ADDRESSES);
}

static ssize_t of_version_1(int fd, const void *buf, size_t len, int flags)
{
	uint8_t copy[RR_OFFER_MAX];

	memcpy(copy, buf, len);
	if (fd == p.client.fd)
		copy[55] = 1;
	return send(fd, copy, len, flags);
}

Test(conn_half, another_version_is_declined)
{
	os.send = of_version_1;
	is_refused(REFUSAL "00000002", RR_R_RELEASES, RR_R_DECLINED);
}

/* --- an answer that is not what it should be --- */

static void (*spoil)(struct rr_hello *h);

/* The server's answer is changed on its way. */
static ssize_t spoiled(int fd, const void *buf, size_t len, int flags)
{
	uint32_t xid = len < 8 ? 0 : rr_be32((const uint8_t *)buf + 4), need;
	uint8_t copy[RR_ANSWER_MAX];
	struct rr_hello h;

	if (fd != p.server.fd || rr_nego_get_answer(buf, len, xid, &h, &need) != RR_NEGO_OURS)
		return send(fd, buf, len, flags);
	spoil(&h);
	cr_assert_eq(rr_nego_put_answer(&h, xid, copy, sizeof(copy)), len);
	return send(fd, copy, len, flags);
}

static void is_not_taken(void (*how)(struct rr_hello *h))
{
	size_t n;

	spoil = how;
	os.send = spoiled;
	n = answered(&p);
	goes_on_by_tcp(&p, n);
	cr_assert_eq(reason(p.client.c), RR_R_NO_PROVIDER, "%s", rr_reason_text(reason(p.client.c)));
}

static void first_of_token(struct rr_hello *h) { h->token[0] ^= 1; }
static void last_of_token(struct rr_hello *h) { h->token[RR_TOKEN_LEN - 1] ^= 1; }
static void other_provider(struct rr_hello *h) { h->prov[0].id ^= 1; }

Test(conn_half, an_answer_with_another_token_is_not_taken) { is_not_taken(first_of_token); }
Test(conn_half, nor_is_one_whose_token_differs_in_its_last_byte) { is_not_taken(last_of_token); }
Test(conn_half, nor_is_one_that_chooses_what_was_not_offered) { is_not_taken(other_provider); }

static bool stop(void)
{
	return true;
}

/* A thread that went to sleep over TCP, and has not had a CPU since: what comes by another carrier it would sleep through. */
static void sleep_over(struct rr_end *e)
{
	cr_assert_eq(rr_conn_arm(e->c, e->fd, POLLIN), 0);
}

static void wait_for_tcp(struct rr_end *e)
{
	rr_time end = rr_now() + 10 * RR_SEC;

	while (!rr_conn_is_tcp(e->c) && rr_now() < end)
		rr_end_poll(e, POLLIN);
	cr_assert(rr_conn_is_tcp(e->c));
	cr_assert_eq(reason(e->c), RR_R_KERNEL_ONLY, "%s", rr_reason_text(reason(e->c)));
}

Test(conn_half, a_server_whose_thread_sleeps_on_declines)
{
	size_t n;

	sleep_over(&p.server);
	n = offer(&p.client);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), 0, "it may wake yet");
	cr_assert(!rr_conn_is_tcp(p.server.c));
	wait_for_tcp(&p.server);
	rr_conn_disarm(p.server.c, p.server.fd);
	goes_on_by_tcp(&p, n);
}

Test(conn_half, a_client_whose_thread_sleeps_on_chooses_tcp)
{
	size_t n;

	sleep_over(&p.client);
	n = answered(&p);
	wait_for_tcp(&p.client);
	rr_conn_disarm(p.client.c, p.client.fd);
	goes_on_by_tcp(&p, n);
}

/* Who may not talk to us is not told that we are there: it is the app that knows no such program. */
Test(conn_half, where_upgrades_are_stopped_the_offer_is_the_apps)
{
	offer(&p.client);
	rr_test_params.stopped = stop;
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), POLLIN);
	cr_assert(rr_conn_is_tcp(p.server.c));
	cr_assert_eq(reason(p.server.c), RR_R_STOPPED);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 28, 0), 28);
	cr_assert_eq(memcmp(in + 16, "RDMA", 4), 0, "its program number is the first that it sees");
}
