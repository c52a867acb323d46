/* SPDX-License-Identifier: BSD-3-Clause */
/* Native connections: who comes, who is refused, what is said meanwhile. The other end is librdmacm by
 * itself, or the kernel's NFS server and client. */
#include <pthread.h>
#include <rdma/rdma_cma.h>
#include <signal.h>
#include <sys/wait.h>

#include "core/wire/cursor.h"
#include "tests/vm/verbs_lib.h"

/* --- a peer that is not of ours -------------------------------------------------------- */

/* Connects with this private data; afterwards rc is 0 or errno. */
struct stranger {
	const void *data;
	uint8_t len;
	uint8_t reads;		/* that it wants to issue */
	pthread_t thread;
	int rc;
	uint8_t got[256];	/* private data of the accepting side */
	uint8_t got_len;
	struct rdma_cm_id *id;
	struct ibv_pd *pd;
	struct ibv_cq *cq;
};

static int stranger_try(struct stranger *s)
{
	struct rdma_conn_param p = {
		.private_data = s->data, .private_data_len = s->len, .initiator_depth = s->reads,
		.responder_resources = 1, .retry_count = 7, .rnr_retry_count = 7,
	};
	struct ibv_qp_init_attr attr = {
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1 },
	};

	/* without a channel every step waits until it is done */
	if (rdma_create_id(NULL, &s->id, NULL, RDMA_PS_TCP) ||
	    rdma_resolve_addr(s->id, NULL, at_port(PORT), 2000) || rdma_resolve_route(s->id, 2000))
		return errno;
	s->pd = ibv_alloc_pd(s->id->verbs);
	s->cq = ibv_create_cq(s->id->verbs, 16, NULL, NULL, 0);
	attr.send_cq = attr.recv_cq = s->cq;
	if (rdma_create_qp(s->id, s->pd, &attr) || rdma_connect(s->id, &p))
		return errno;
	if (s->id->event && s->id->event->param.conn.private_data) {
		s->got_len = s->id->event->param.conn.private_data_len;
		memcpy(s->got, s->id->event->param.conn.private_data, s->got_len);
	}
	return 0;
}

static void *stranger_run(void *arg)
{
	struct stranger *s = arg;

	s->rc = stranger_try(s);
	return NULL;
}

static void stranger_come(struct stranger *s)
{
	CHECK(pthread_create(&s->thread, NULL, stranger_run, s) == 0);
}

static int stranger_is_in(struct stranger *s)
{
	pthread_join(s->thread, NULL);
	return s->rc;
}

static void stranger_go(struct stranger *s)
{
	/* without rdma_disconnect(), which would wait for the other end's answer */
	if (s->id && s->id->qp)
		rdma_destroy_qp(s->id);
	if (s->cq)
		ibv_destroy_cq(s->cq);
	if (s->pd)
		ibv_dealloc_pd(s->pd);
	if (s->id)
		rdma_destroy_id(s->id);
}

/* Takes a stranger who says this; what we then know of it stands in b. */
static uint8_t meet(const void *data, uint8_t len, uint8_t reads)
{
	struct stranger s = { .data = data, .len = len, .reads = reads };
	uint32_t i = 0;

	b = new_qp();
	listen_at(at_port(PORT));
	stranger_come(&s);
	CHECK(take(b, NULL, NULL) == 0);
	CHECK(establish_one(b) == 0);
	CHECK(stranger_is_in(&s) == 0);
	/* RFC 8797 §4: the sizes are ours, in units of 1024 less one */
	while (i + 8 <= s.got_len && memcmp(s.got + i, "\xf6\xab\x0e\x18", 4))
		i++;
	CHECK(i + 8 <= s.got_len && s.got[i + 4] == 1 && s.got[i + 6] == 3 && s.got[i + 7] == 3);
	stranger_go(&s);
	ops->close(b);
	unlisten();
	return s.got[i + 5];
}

/* req: rfc8797 4 #1 */
static void t_private_data_is_found_and_answered(void)
{
	static const uint8_t plain[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 1, 0, 1 };
	static const uint8_t behind[] = { 1, 2, 3, 4, 5, 0xf6, 0xab, 0x0e, 0x18, 1, 0, 255, 255, 9, 9 };

	meet(plain, sizeof(plain), 0);
	CHECK(b->send_size == 2048 && b->peer_inv && !b->peer_reads && b->reads);
	CHECK(b->peer_send == 1024);
	free(b);
	meet(behind, sizeof(behind), 4);
	CHECK(b->send_size == 4096 && !b->peer_inv && b->peer_reads);
	CHECK(b->peer_send == 262144);
	free(b);
}

/* req: rfc8797 5.1 #1 */
static void t_who_says_nothing_useful_has_the_defaults(void)
{
	static const uint8_t cut[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3 };
	static const uint8_t other_version[] = { 0xf6, 0xab, 0x0e, 0x18, 2, 1, 3, 3 };

	meet(NULL, 0, 0);
	CHECK(b->send_size == 1024 && b->peer_send == 1024 && !b->peer_inv);
	CHECK(ops->send_imm(b, 1, 0) < 0);
	free(b);
	/* over InfiniBand and RoCE what is behind is padded with zeroes */
	meet(cut, sizeof(cut), 0);
	CHECK(b->send_size == 4096 || b->send_size == 1024);
	free(b);
	meet(other_version, sizeof(other_version), 0);
	CHECK(b->send_size == 1024 && !b->peer_inv);
	free(b);
}

/* It asks for messages, has no receive for any, and never will: neither who sends nor who closes waits for it. */
static void t_who_has_no_receives_is_not_waited_for(void)
{
	static const uint8_t plain[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };
	struct stranger s = { .data = plain, .len = sizeof(plain) };
	uint8_t bytes[1000] = { 0 };
	struct iovec iov = { bytes, sizeof(bytes) };
	unsigned n = 0, without = resources();
	struct rr_wc wc;

	b = new_qp();
	listen_at(at_port(PORT));
	stranger_come(&s);
	CHECK(take(b, NULL, NULL) == 0);
	CHECK(establish_one(b) == 0);
	CHECK(stranger_is_in(&s) == 0);
	for (; ops->window(b) && n < 200; n++)
		CHECK(ops->send(b, &iov, 1, 0, 0) == 1);
	CHECK(n >= 8 && n < 200);
	CHECK(ops->send(b, &iov, 1, 0, 0) == -EAGAIN);
	CHECK(ops->poll(b, &wc, 1) == 0);
	CHECK(!ops->settle(b, 0));	/* core/conn leaves the rest to a thread */
	ops->close(b);
	stranger_go(&s);
	unlisten();
	free(b);
	for (rr_time end = rr_now() + PATIENCE; resources() > without && rr_now() < end;)
		usleep(10000);
	CHECK(resources() == without);
}

/* Nobody invalidates unless both have said so; we say so to who has.
 * req: rfc8797 4.1 #2 */
static void t_who_takes_send_with_invalidate_is_told_that_it_may_come(void)
{
	static const uint8_t with[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 3 };
	static const uint8_t without[] = { 0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3 };

	CHECK(meet(with, sizeof(with), 0) == 1 && b->peer_inv);
	free(b);
	CHECK(meet(without, sizeof(without), 0) == 0 && !b->peer_inv);
	free(b);
}

/* --- who may come ---------------------------------------------------------------------- */

static void t_addresses_are_those_of_both_ends(void)
{
	struct sockaddr_in any = { .sin_family = AF_INET, .sin_port = htons(PORT) };
	struct sockaddr_in6 peer, local;
	struct stranger s = { .rc = 0 };

	b = new_qp();
	listen_at((struct sockaddr *)&any);
	CHECK(ops->take(lst, b, &par, &peer, &local) == -EAGAIN);
	stranger_come(&s);
	CHECK(take(b, &peer, &local) == 0);
	CHECK(establish_one(b) == 0 && stranger_is_in(&s) == 0);
	CHECK(peer.sin6_family == AF_INET && local.sin6_family == AF_INET);
	CHECK(((struct sockaddr_in *)&peer)->sin_addr.s_addr == ((struct sockaddr_in *)&par.local)->sin_addr.s_addr);
	CHECK(peer.sin6_port != 0 && local.sin6_port == htons(PORT));
	stranger_go(&s);
	ops->close(b);
	free(b);
	unlisten();
}

static void t_the_any_address_of_ipv6_takes_ipv4_too(void)
{
	struct sockaddr_in6 any = { .sin6_family = AF_INET6, .sin6_port = htons(PORT) }, peer;
	struct stranger s = { .rc = 0 };

	b = new_qp();
	listen_at((struct sockaddr *)&any);
	stranger_come(&s);
	CHECK(take(b, &peer, NULL) == 0);
	CHECK(establish_one(b) == 0 && stranger_is_in(&s) == 0);
	CHECK(peer.sin6_family == AF_INET);
	stranger_go(&s);
	ops->close(b);
	free(b);
	unlisten();
}

static void t_a_port_has_one_listener(void)
{
	struct rr_lst *second = calloc(1, ops->lst_size());

	listen_at(at_port(PORT));
	CHECK(ops->listen(second, at_port(PORT)) == -EADDRINUSE && second->fd == -1);
	unlisten();
	CHECK(ops->listen(second, at_port(PORT)) == 0);
	ops->unlisten(second);
	free(second);
}

/* Its last word on a connection that cannot be. */
static int no_connection(const struct sockaddr *to, const struct sockaddr *from)
{
	int rc;

	a = new_qp();
	rc = ops->connect(a, &par, to, from);
	if (!rc)
		rc = establish_one(a);
	ops->close(a);
	free(a);
	return rc;
}

static void t_why_there_is_no_connection_is_told(void)
{
	struct sockaddr_in nowhere = { .sin_family = AF_INET, .sin_port = htons(PORT) };

	CHECK(no_connection(at_port(PORT), NULL) == -ECONNREFUSED);
	nowhere.sin_addr.s_addr = inet_addr("192.0.2.7");
	CHECK(no_connection((struct sockaddr *)&nowhere, NULL) == -ENETUNREACH);
	CHECK(no_connection(at_port(PORT), (struct sockaddr *)&nowhere) == -ENETUNREACH);
	par.recv_size = 512;
	CHECK(no_connection(at_port(PORT), NULL) == -EINVAL);
	par.recv_size = 4096;
}

static void t_who_was_not_taken_is_refused_at_the_end(void)
{
	struct stranger s = { .rc = 0 };

	listen_at(at_port(PORT));
	stranger_come(&s);
	CHECK(poll(&(struct pollfd){ lst->fd, POLLIN, 0 }, 1, 10000) == 1);
	unlisten();
	CHECK(stranger_is_in(&s) == ECONNREFUSED);
	stranger_go(&s);
}

/* What cannot be had (here: so many receives) costs that request only. */
static void t_a_request_that_cannot_be_taken_is_refused(void)
{
	struct stranger s = { .rc = 0 }, again = { .rc = 0 };
	struct rr_prov_params much = par;

	much.recvs = 1 << 28;
	much.mem_size = 0;
	b = new_qp();
	listen_at(at_port(PORT));
	stranger_come(&s);
	CHECK(poll(&(struct pollfd){ lst->fd, POLLIN, 0 }, 1, 10000) == 1);
	CHECK(ops->take(lst, b, &much, NULL, NULL) < 0);
	CHECK(stranger_is_in(&s) == ECONNREFUSED);
	stranger_go(&s);
	stranger_come(&again);
	CHECK(take(b, NULL, NULL) == 0);
	CHECK(establish_one(b) == 0 && stranger_is_in(&again) == 0);
	stranger_go(&again);
	ops->close(b);
	free(b);
	unlisten();
}

static void t_a_forked_child_does_not_have_the_listener(void)
{
	struct stranger s = { .rc = 0 };
	int status;
	pid_t pid;

	b = new_qp();
	listen_at(at_port(PORT));
	pid = fork();
	if (pid == 0) {
		bool none = ops->take(lst, b, &par, NULL, NULL) == -ESHUTDOWN;

		ops->unlisten(lst);
		_exit(!none);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	stranger_come(&s);
	CHECK(take(b, NULL, NULL) == 0);
	CHECK(establish_one(b) == 0 && stranger_is_in(&s) == 0);
	stranger_go(&s);
	ops->close(b);
	free(b);
	unlisten();
}

/* --- the kernel's NFS ------------------------------------------------------------------ */

/* RFC 8166 §4: XID, version, credits, RDMA_MSG, three empty lists. */
static uint32_t put_head(uint8_t *p, uint32_t xid)
{
	const uint32_t words[] = { xid, 1, 8, 0, 0, 0, 0 };

	for (uint32_t i = 0; i < rr_array_size(words); i++)
		rr_put_be32(p + 4 * i, words[i]);
	return sizeof(words);
}

static void t_knfsd_answers_a_null_call(void)
{
	/* CALL, RPC version 2, NFS version 3, NULL, AUTH_NONE twice */
	const uint32_t call[] = { 0, 2, 100003, 3, 0, 0, 0, 0, 0 };
	uint8_t msg[28 + 4 + sizeof(call)];
	uint32_t n = put_head(msg, 77);
	struct rr_wc wc;

	rr_put_be32(msg + n, 77);
	for (uint32_t i = 0; i < rr_array_size(call); i++)
		rr_put_be32(msg + n + 4 + 4 * i, call[i]);
	a = new_qp();
	CHECK(ops->connect(a, &par, at_port(20049), NULL) == 0);
	CHECK(establish_one(a) == 0);
	CHECK(a->native && a->send_size == 4096 && ops->window(a) == UINT32_MAX);
	CHECK(a->peer_reads && !a->reads);	/* it reads ours, and exposes nothing */
	for (int i = 0; i < 200; i++) {
		post(a, msg, sizeof(msg));
		CHECK(next(a, &wc) == 1 && wc.op == RR_WC_RECV && wc.len == 28 + 24);
		CHECK(rr_be32(wc.buf) == 77 && rr_be32(wc.buf + 8) > 0);	/* credits */
		CHECK(rr_be32(wc.buf + 28) == 77 && rr_be32(wc.buf + 32) == 1 && rr_be32(wc.buf + 48) == 0);
		ops->repost(a, wc.cookie);
	}
	ops->close(a);
	free(a);
}

static void mount_by_rdma(void)
{
	char opts[128], what[64], ip[INET_ADDRSTRLEN];

	inet_ntop(AF_INET, &((struct sockaddr_in *)&par.local)->sin_addr, ip, sizeof(ip));
	snprintf(what, sizeof(what), "%s:/", ip);
	snprintf(opts, sizeof(opts), "vers=4.1,proto=rdma,port=%d,soft,timeo=20,retrans=1,retry=0", PORT);
	if (!freopen("/dev/null", "w", stderr))
		_exit(126);
	execlp("mount", "mount", "-t", "nfs", "-o", opts, what, "/mnt", (char *)NULL);
	_exit(127);
}

static void t_the_kernel_client_comes_and_calls(void)
{
	struct rr_wc wc;
	int status;
	pid_t pid;

	b = new_qp();
	listen_at(at_port(PORT));
	pid = fork();
	if (pid == 0)
		mount_by_rdma();
	CHECK(take(b, NULL, NULL) == 0);
	CHECK(establish_one(b) == 0);
	/* It takes Send With Invalidate, and never reads our memory. */
	CHECK(b->send_size == 4096 && b->peer_inv && !b->peer_reads && b->reads);
	CHECK(next(b, &wc) == 1 && wc.op == RR_WC_RECV && wc.len >= 28 + 40);
	CHECK(rr_be32(wc.buf + 4) == 1 && rr_be32(wc.buf + 28) == rr_be32(wc.buf) &&
	      rr_be32(wc.buf + 40) == 100003);
	ops->close(b);
	free(b);
	unlisten();
	kill(pid, SIGKILL);
	CHECK(waitpid(pid, &status, 0) == pid);
}

static const struct vt tests[] = {
	T(private_data_is_found_and_answered),
	T(who_says_nothing_useful_has_the_defaults),
	T(who_has_no_receives_is_not_waited_for),
	T(who_takes_send_with_invalidate_is_told_that_it_may_come),
	T(addresses_are_those_of_both_ends),
	T(the_any_address_of_ipv6_takes_ipv4_too),
	T(a_port_has_one_listener),
	T(why_there_is_no_connection_is_told),
	T(who_was_not_taken_is_refused_at_the_end),
	T(a_request_that_cannot_be_taken_is_refused),
	T(a_forked_child_does_not_have_the_listener),
	T(knfsd_answers_a_null_call),
	T(the_kernel_client_comes_and_calls),
};

int main(int argc, char **argv)
{
	return verbs_main(argc, argv, tests, rr_array_size(tests));
}
