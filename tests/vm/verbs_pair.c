/* SPDX-License-Identifier: BSD-3-Clause */
/* What holds for a pair of queue pairs, however they were connected. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "tests/vm/verbs_lib.h"

static void t_sends_of_every_size_arrive_as_they_were(void)
{
	static const size_t size[] = { 1, 28, 255, 256, 257, 1000, 4095, 4096 };
	uint8_t buf[4096];
	struct rr_wc wc;

	open_pair();
	CHECK(a->send_size == 4096 && b->send_size == 4096);
	for (unsigned round = 0; round < 40; round++) {
		size_t n = size[round % rr_array_size(size)];

		memset(buf, (int)round, sizeof(buf));
		post(a, buf, n);
		memset(buf, 0xff, sizeof(buf));		/* ours again at once */
		CHECK(next(b, &wc) == 1 && wc.op == RR_WC_RECV && wc.len == n);
		CHECK(wc.buf[0] == round && wc.buf[n - 1] == round && !wc.has_imm && !wc.has_inv);
		ops->repost(b, wc.cookie);
	}
	CHECK(ops->send(a, &(struct iovec){ buf, 4097 }, 1, 0, 0) == -EMSGSIZE);
	close_pair();
}

static void t_immediate_data_arrives_without_payload(void)
{
	struct rr_wc wc;

	open_pair();
	CHECK(ops->send_imm(b, 0x52480001, 0) == 1);
	CHECK(next(a, &wc) == 1 && wc.has_imm && wc.imm == 0x52480001 && wc.len == 0);
	close_pair();
}

static void t_reads_and_writes_move_bytes_and_say_when(void)
{
	struct rr_seg seg;
	struct rr_wc wc;

	open_pair();
	memset(b->mem, 'b', 65536);
	expose(b, a, b->mem + 100, 60000, RR_RIGHT_READ, &seg);
	CHECK(ops->read(a, a->mem + 4096, 50000, &seg, 1000, 42) == 0);
	CHECK(next(a, &wc) == 1 && wc.op == RR_WC_READ && wc.status == 0 && wc.cookie == 42);
	CHECK(a->mem[4095] == 0 && a->mem[4096] == 'b' && a->mem[4096 + 49999] == 'b' &&
	      a->mem[4096 + 50000] == 0);
	invalidate(b, &seg);
	CHECK(ops->invalidate(b, seg.handle, 1) == -EINVAL);

	expose(b, a, b->mem + 200000, 1000, RR_RIGHT_WRITE, &seg);
	memset(a->mem, 'a', 1000);
	CHECK(ops->write(a, a->mem, 600, &seg, 200, 43) == 0);
	CHECK(next(a, &wc) == 1 && wc.op == RR_WC_WRITE && wc.status == 0 && wc.cookie == 43);
	CHECK(b->mem[200199] == 0 && b->mem[200200] == 'a' && b->mem[200799] == 'a' &&
	      b->mem[200800] == 0);
	CHECK(ops->read(a, (uint8_t *)&seg, 1, &seg, 0, 0) == -EFAULT);	/* not registered */
	close_pair();
}

/* What the peer does without a right, with a dead key or out of bounds ends the connection. */
static void forbidden(enum rr_rights have, bool read, uint32_t off, bool dead)
{
	struct rr_seg seg;
	struct rr_wc wc;
	int rc;

	open_pair();
	memset(b->mem, 'b', 8192);
	expose(b, a, b->mem, 4096, have, &seg);
	if (dead)
		invalidate(b, &seg);
	memset(a->mem, 'a', 4096);
	rc = read ? ops->read(a, a->mem, 4096, &seg, off, 9) : ops->write(a, a->mem, 4096, &seg, off, 9);
	CHECK(rc == 0);
	CHECK(next(a, &wc) == 1 && wc.cookie == 9 && wc.status < 0);
	CHECK(next(a, &wc) < 0);
	CHECK(memchr(read ? b->mem : a->mem, read ? 'a' : 'b', 4096) == NULL);
	CHECK(memchr(b->mem, 'a', 8192) == NULL && memchr(a->mem, 'b', 4096) == NULL);
	close_pair();
}

static void t_access_without_the_right_ends_the_connection(void)
{
	forbidden(RR_RIGHT_READ, false, 0, false);
	forbidden(RR_RIGHT_WRITE, true, 0, false);
}

static void t_access_by_a_dead_key_ends_the_connection(void)
{
	forbidden(RR_RIGHT_READ, true, 0, true);
	forbidden(RR_RIGHT_WRITE, false, 0, true);
}

/* The rxe of Linux 6.1 does not hold a window's bounds, only those of the region below it. */
static void t_access_out_of_bounds_ends_the_connection(void)
{
	if (!env.no_windows)
		return;
	forbidden(RR_RIGHT_READ, true, 1, false);
	forbidden(RR_RIGHT_WRITE, false, 4096, false);
}

/* Does a learn that b has read what this key opens? Both are driven. */
static bool learns(const struct rr_seg *seg, rr_time patience)
{
	rr_time end = rr_now() + patience;
	struct rr_wc wc;

	while (!ops->consumed(a, seg->handle) && rr_now() < end) {
		CHECK(ops->poll(b, &wc, 1) == 0 && ops->poll(a, &wc, 1) == 0);
		sched_yield();
	}
	return ops->consumed(a, seg->handle);
}

static void fetch(const struct rr_seg *seg, uint32_t off, uint32_t len)
{
	struct rr_wc wc;

	CHECK(ops->read(b, b->mem, len, seg, off, 5) == 0);
	CHECK(next(b, &wc) == 1 && wc.op == RR_WC_READ && !wc.status);
}

/* Who wants to know is told of exactly those that were read to the end, sooner or later. */
static void t_what_the_peer_has_read_is_known_on_demand(void)
{
	struct rr_seg seg[3];

	open_pair();
	for (uint32_t i = 0; i < 3; i++)
		expose(a, b, a->mem + 8192 * i, 8192, RR_RIGHT_READ, &seg[i]);
	fetch(&seg[0], 0, 4000);
	fetch(&seg[0], 4000, 8192 - 4000);
	fetch(&seg[1], 0, 8191);
	CHECK(learns(&seg[0], PATIENCE));
	CHECK(!learns(&seg[1], 100 * RR_MSEC) && !learns(&seg[2], 100 * RR_MSEC));
	fetch(&seg[1], 8191, 1);
	CHECK(learns(&seg[1], PATIENCE));
	CHECK(!ops->consumed(a, seg[2].handle));
	for (uint32_t i = 0; i < 3; i++)
		invalidate(a, &seg[i]);
	CHECK(!ops->consumed(a, seg[0].handle));
	close_pair();
}

/* Nobody asks, and a key comes back: what was read under it before is not what is read now. */
static void t_an_old_key_does_not_count_as_read(void)
{
	struct rr_seg seg, first;

	open_pair();
	expose(a, b, a->mem, 4096, RR_RIGHT_READ, &first);
	fetch(&first, 0, 4096);
	invalidate(a, &first);
	for (int i = 0; i < 600; i++) {
		expose(a, b, a->mem, 4096, RR_RIGHT_READ, &seg);
		if (seg.handle == first.handle)
			CHECK(!learns(&seg, 20 * RR_MSEC));
		invalidate(a, &seg);
	}
	close_pair();
}

/* A Send has a receive, or is not made: the window is what the peer has posted, as far as it said. */
static void t_sends_stop_where_the_receives_end(void)
{
	struct rr_wc wc;
	uint32_t sent = 0, got = 0;

	open_pair();
	CHECK(ops->window(a) == par.recvs);
	for (uint32_t round = 0; round < 20; round++) {
		while (ops->window(a)) {
			post(a, (uint8_t[]){ (uint8_t)sent, 1, 2, 3 }, 4);
			sent++;
		}
		CHECK(ops->send(a, &(struct iovec){ a, 1 }, 1, 0, 0) == -EAGAIN);
		CHECK(ops->send_imm(a, 1, 0) == -EAGAIN);
		while (got < sent) {
			CHECK(next(b, &wc) == 1 && wc.len == 4 && wc.buf[0] == (uint8_t)got);
			got++;
			ops->repost(b, wc.cookie);
		}
		for (rr_time end = rr_now() + PATIENCE; ops->window(a) < par.recvs * 3 / 4 && rr_now() < end;)
			CHECK(ops->poll(a, &wc, 1) == 0);
		CHECK(ops->window(a) >= par.recvs * 3 / 4 && ops->window(a) <= par.recvs);
	}
	close_pair();
}

static bool soon_open(uint32_t window)
{
	struct rr_wc wc;

	for (rr_time end = rr_now() + PATIENCE; ops->window(a) < window && rr_now() < end;)
		CHECK(ops->poll(a, &wc, 1) == 0);
	return ops->window(a) == window;
}

static void give_back(uint32_t n)
{
	struct rr_wc wc;

	for (uint32_t i = 0; i < n; i++) {
		post(a, &i, 4);
		while (ops->poll(b, &wc, 1) != 1)
			;
		ops->repost(b, wc.cookie);
	}
}

/* A count that is due goes with the next Send, in one post, or before who owes it sleeps; it does not wait until the
 * peer cannot go on. */
static void t_what_came_back_is_told_with_the_next_message(void)
{
	uint32_t due = par.recvs / 4;
	struct rr_wc wc;

	open_pair();
	give_back(due);
	CHECK(ops->poll(a, &wc, 1) == 0 && ops->window(a) == par.recvs - due);
	post(b, "answer", 6);
	CHECK(next(a, &wc) == 1 && wc.len == 6 && !memcmp(wc.buf, "answer", 6));
	CHECK(ops->window(a) == par.recvs);
	ops->repost(a, wc.cookie);
	give_back(due);
	ops->arm(b, RR_ARM_RECV);
	CHECK(soon_open(par.recvs));
	give_back(par.recvs / 3);
	CHECK(soon_open(par.recvs));
	close_pair();
}

#define LONG	(66u << 10)
#define MANY	8	/* pairs of which both ends may have long receives */

static void t_long_receives_are_for_some_connections(void)
{
	struct rr_qp *end[MANY][2];
	uint8_t *buf = malloc(LONG);
	struct rr_wc wc;

	par.long_size = LONG;
	open_pair();
	close_pair();
	for (uint32_t i = 0; i < MANY; i++) {
		open_pair();
		CHECK(a->recv_size == LONG && b->send_size == LONG && a->recvs == 24);
		end[i][0] = a;
		end[i][1] = b;
		for (uint32_t n = 0; n < 100; n++) {
			memset(buf, (int)n, LONG);
			post(a, buf, LONG);
			CHECK(next(b, &wc) == 1 && wc.len == LONG && wc.buf[0] == n && wc.buf[LONG - 1] == n);
			ops->repost(b, wc.cookie);
		}
	}
	open_pair();
	CHECK(a->recv_size == par.recv_size && b->recv_size == par.recv_size && a->recvs == par.recvs);
	close_pair();
	for (uint32_t i = 0; i < MANY; i++) {
		a = end[i][0];
		b = end[i][1];
		close_pair();
	}
	open_pair();
	CHECK(a->recv_size == LONG && b->recv_size == LONG);
	close_pair();
	par.long_size = 0;
	free(buf);
}

/* Many messages in one direction only, their sender looking for nothing but room. */
static void t_a_sender_polls_only_for_room(void)
{
	uint8_t buf[3000];
	struct rr_wc wc;

	open_pair();
	for (uint32_t i = 0; i < 2000; i++) {
		memset(buf, (int)i, sizeof(buf));
		post(a, buf, sizeof(buf));
		CHECK(next(b, &wc) == 1 && wc.len == sizeof(buf) && wc.buf[2999] == (uint8_t)i);
		ops->repost(b, wc.cookie);
	}
	close_pair();
}

/* What was sent before the end is there to be read, then the connection is lost. */
static void t_what_was_sent_survives_an_orderly_end(void)
{
	uint8_t buf[2000] = { 0 };
	struct rr_wc wc;

	open_pair();
	for (int i = 0; i < 10; i++)
		post(a, buf, sizeof(buf));
	ops->close(a);
	for (int i = 0; i < 10; i++)
		CHECK(next(b, &wc) == 1 && wc.len == sizeof(buf));
	while (ops->drain(b) == 0)
		poll(&(struct pollfd){ b->wake_fd, POLLIN, 0 }, 1, 5000);
	CHECK(ops->poll(b, &wc, 1) == -ECONNRESET);
	CHECK(ops->send_imm(b, 1, 0) == -ECONNRESET);
	ops->close(b);
	free(a);
	free(b);
}

static void t_who_disconnects_is_heard_before_it_closes(void)
{
	struct rr_wc wc;

	open_pair();
	ops->disconnect(a);
	while (ops->drain(b) == 0)
		poll(&(struct pollfd){ b->wake_fd, POLLIN, 0 }, 1, 5000);
	CHECK(ops->poll(b, &wc, 1) == -ECONNRESET);
	CHECK(ops->send_imm(b, 1, 0) == -ECONNRESET);
	close_pair();
}

static unsigned listening(void)
{
	FILE *f = popen("rdma resource show cm_id | grep -c LISTEN", "r");
	unsigned n = 99;

	CHECK(f && fscanf(f, "%u", &n) == 1);
	pclose(f);
	return n;
}

/* Nobody else has any business there; who came would be refused by us, as often as he likes. */
static void t_the_port_is_shut_when_the_connection_stands(void)
{
	unsigned before = listening();

	offer_and_answer(par.token);
	CHECK(listening() == before + 1);
	CHECK(establish() == 0);
	CHECK(listening() == before);
	post(a, "here", 4);
	close_pair();
}

static void t_a_wrong_token_gets_no_connection(void)
{
	uint8_t wrong[RR_TOKEN_LEN] = { 9 };

	offer_and_answer(wrong);
	CHECK(establish() < 0);
	close_pair();
}

static void t_a_peer_that_never_comes_is_no_trouble(void)
{
	struct rr_prov_addr offer = { .len = 1, .bytes = { 2 } }, answer;

	b = calloc(1, ops->qp_size(&par));
	CHECK(ops->answer(b, &par, &offer, &answer) == 0);
	CHECK(ops->establish(b) == -EAGAIN);
	ops->close(b);
	free(b);
}

static void t_an_address_without_device_is_refused(void)
{
	struct rr_prov_addr offer = { .len = 1, .bytes = { 2 } }, answer;
	struct rr_prov_params p = par;

	b = calloc(1, ops->qp_size(&par));
	((struct sockaddr_in *)&p.local)->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	CHECK(ops->answer(b, &p, &offer, &answer) == -EADDRNOTAVAIL);
	((struct sockaddr_in *)&p.local)->sin_addr.s_addr = inet_addr("192.0.2.7");
	CHECK(ops->answer(b, &p, &offer, &answer) < 0);
	offer.len = 0;
	CHECK(ops->answer(b, &par, &offer, &answer) < 0);
	free(b);
}

/* A forked child has no part in it, and its end does not hurt the parent's. */
static void t_a_forked_child_only_lets_go(void)
{
	struct rr_wc wc;
	int status;
	pid_t pid;

	open_pair();
	pid = fork();
	if (pid == 0) {
		bool lost = ops->poll(a, &wc, 1) == -ECONNRESET && ops->send_imm(a, 1, 0) == -ECONNRESET;
		struct rr_prov_addr offer;

		lost &= ops->prepare(new_qp(), &par, &offer) == -ECHILD;
		ops->close(a);
		ops->close(b);
		_exit(lost ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	post(a, "still here", 10);
	CHECK(next(b, &wc) == 1 && wc.len == 10);
	close_pair();
}

static void close_both(void)
{
	ops->close(a);
	ops->close(b);
}

static void t_a_child_may_let_go_as_soon_as_there_is_one(void)
{
	struct rr_wc wc;
	int status;
	pid_t pid;

	open_pair();
	in_child = close_both;
	pid = fork();
	if (pid == 0)
		_exit(0);
	in_child = NULL;
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	post(a, "still here", 10);
	CHECK(next(b, &wc) == 1 && wc.len == 10);
	close_pair();
}

/* Of a parent that has had none it inherits nothing, and has its own. To be run first. */
static void t_a_forked_child_has_its_own(void)
{
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		open_pair();
		post(a, "here", 4);
		close_pair();
		_exit(0);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

/* The peer takes keys back with its Sends, those that it was given, and says so by has_inv. */
static void t_the_peer_takes_keys_back_where_it_may(void)
{
	struct iovec iov = { (void *)(uintptr_t)"done", 4 };
	struct rr_seg seg;
	struct rr_wc wc;

	open_pair();
	CHECK(a->peer_inv == env.invite && b->peer_inv == env.invite);
	for (int i = 0; i < 50; i++) {
		expose(a, b, a->mem, 4096, RR_RIGHT_WRITE, &seg);
		while (!ops->window(b))
			CHECK(ops->poll(b, &wc, 1) == 0);
		CHECK(ops->send(b, &iov, 1, 0, seg.handle) == 1);
		CHECK(next(a, &wc) == 1 && wc.len == 4 && wc.has_inv == env.invite);
		CHECK(wc.inv_handle == (env.invite ? seg.handle : 0));
		ops->repost(a, wc.cookie);
		if (env.invite)
			CHECK(ops->invalidate(a, seg.handle, 1) == -EINVAL);	/* it is gone */
		else
			invalidate(a, &seg);
	}
	memset(b->mem, 'b', 10);
	CHECK(ops->write(b, b->mem, 10, &seg, 0, 9) == 0);
	CHECK(next(b, &wc) == 1 && wc.status < 0 && a->mem[0] == 0);
	close_pair();
}

/* More exposures than there are send queue entries or windows to begin with, each under another key. */
static void t_a_key_is_never_the_last_one_again(void)
{
	uint32_t last = 0;
	struct rr_seg seg;

	open_pair();
	for (int i = 0; i < 600; i++) {
		expose(a, b, a->mem, 4096, RR_RIGHT_READ, &seg);
		CHECK(seg.handle != last);
		last = seg.handle;
		invalidate(a, &seg);
	}
	close_pair();
}

static void t_all_that_one_message_may_expose_waits_for_its_post(void)
{
	struct rr_seg seg[RR_PROV_PIECES];

	open_pair();
	for (uint32_t i = 0; i + 1 < RR_PROV_PIECES; i++)
		CHECK(ops->expose(a, a->mem + 4096 * i, 4096, RR_RIGHT_READ, &seg[i]) == 0);
	expose(a, b, a->mem, 4096, RR_RIGHT_READ, &seg[RR_PROV_PIECES - 1]);
	for (uint32_t i = 0; i < RR_PROV_PIECES; i++)
		invalidate(a, &seg[i]);
	close_pair();
}

/* Kilobytes that this process has pinned. */
static unsigned long pinned(void)
{
	unsigned long kb = 0;
	char line[256];
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof(line), f))
		sscanf(line, "VmPin: %lu", &kb);
	if (f)
		fclose(f);
	return kb;
}

static bool all_used(void *ctx, size_t off, size_t len)
{
	(void)ctx;
	(void)off;
	(void)len;
	return true;
}

static bool none_used(void *ctx, size_t off, size_t len)
{
	return !all_used(ctx, off, len);
}

/* a reads from b, at this place of both. */
static void touch(size_t at, uint32_t len)
{
	struct rr_seg seg;
	struct rr_wc wc;

	memset(b->mem + at, 'b', len);
	expose(b, a, b->mem + at, len, RR_RIGHT_READ, &seg);
	CHECK(ops->read(a, a->mem + at, len, &seg, 0, 5) == 0);
	CHECK(next(a, &wc) == 1 && wc.op == RR_WC_READ && !wc.status);
	CHECK(a->mem[at] == 'b' && a->mem[at + len - 1] == 'b');
	invalidate(b, &seg);
}

static void t_memory_is_locked_as_far_as_it_is_used(void)
{
	unsigned long start, warm;

	par.mem_size = 32 << 20;
	start = pinned();
	open_pair();
	CHECK(pinned() - start < 2048);
	touch(0, 100);
	warm = pinned();
	for (uint32_t i = 0; i < 50; i++)
		touch(4096 * (i % 20), 4096);
	CHECK(pinned() == warm && warm - start < 4096);
	touch(3000000, 3000000);
	touch((32 << 20) - 100000, 100000);
	warm = pinned();
	CHECK(warm - start >= (env.no_windows ? 32ul : 64ul) << 10 && warm - start < 68ul << 10);
	touch(1000000, 1000000);
	CHECK(pinned() == warm);	/* what was registered on the way is gone */
	ops->trim(a, all_used, NULL);
	CHECK(pinned() == warm && a->mem[1000000] == 'b');
	ops->trim(a, none_used, NULL);
	ops->trim(b, none_used, NULL);
	CHECK(pinned() - start < 2048 && a->mem[1000000] == 0);
	touch(5000, 1000000);
	close_pair();
	CHECK(pinned() == start);
	par.mem_size = 1 << 20;
}

/* Who may not lock much stays within that, and is told before it begins. (By a child: see the first test.) */
static void t_the_limit_of_locked_memory_is_known_before(void)
{
	const struct rlimit low = { 4 << 20, 4 << 20 };
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct rr_prov_addr offer;
		struct rr_qp *q = new_qp();
		int rc;

		if (setrlimit(RLIMIT_MEMLOCK, &low) || prctl(PR_SET_KEEPCAPS, 0) || setuid(65534))
			_exit(2);
		par.mem_size = 16 << 20;
		rc = ops->prepare(q, &par, &offer);
		if (rc != -ENOMEM)
			_exit(3);
		par.mem_size = 2 << 20;
		par.long_size = LONG;	/* that would be too much */
		rc = ops->prepare(q, &par, &offer);
		if (q->recv_size != par.recv_size)
			_exit(6);
		ops->close(q);
		if (rc || ops->prepare(q, &par, &offer))
			_exit(4);
		q = new_qp();
		_exit(ops->prepare(q, &par, &offer) == -ENOMEM ? 0 : 5);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
}

static void t_descriptors_keep_out_of_the_way(void)
{
	open_pair();
	CHECK(low_fds() == 0);
	close_pair();
}

static void t_many_connections_leave_nothing(void)
{
	const char *cycles = getenv("CYCLES");
	unsigned fds, res;
	struct rr_seg seg;

	open_pair();	/* what is made once stays */
	close_pair();
	fds = count_fds();
	res = resources();
	for (int i = cycles ? atoi(cycles) : 1000; i > 0; i--) {
		open_pair();
		expose(a, b, a->mem, 4096, RR_RIGHT_READ, &seg);
		close_pair();
	}
	CHECK(count_fds() == fds);
	CHECK(resources() == res);
}

static const struct vt tests[] = {
	T_OURS(a_forked_child_has_its_own),
	T_OURS(the_limit_of_locked_memory_is_known_before),
	T_OURS(long_receives_are_for_some_connections),	/* the process's first, too */
	T(sends_of_every_size_arrive_as_they_were),
	T_OURS(immediate_data_arrives_without_payload),
	T(reads_and_writes_move_bytes_and_say_when),
	T(access_without_the_right_ends_the_connection),
	T(access_by_a_dead_key_ends_the_connection),
	T(access_out_of_bounds_ends_the_connection),
	T(the_peer_takes_keys_back_where_it_may),
	T(a_key_is_never_the_last_one_again),
	T(all_that_one_message_may_expose_waits_for_its_post),
	T_OURS(what_the_peer_has_read_is_known_on_demand),
	T_OURS(an_old_key_does_not_count_as_read),
	T_OURS(sends_stop_where_the_receives_end),
	T_OURS(what_came_back_is_told_with_the_next_message),
	T(a_sender_polls_only_for_room),
	T(what_was_sent_survives_an_orderly_end),
	T(who_disconnects_is_heard_before_it_closes),
	T_OURS(the_port_is_shut_when_the_connection_stands),
	T_OURS(a_wrong_token_gets_no_connection),
	T_OURS(a_peer_that_never_comes_is_no_trouble),
	T_OURS(an_address_without_device_is_refused),
	T(a_forked_child_only_lets_go),
	T(a_child_may_let_go_as_soon_as_there_is_one),
	T(memory_is_locked_as_far_as_it_is_used),
	T(descriptors_keep_out_of_the_way),
	T(many_connections_leave_nothing),
};

int main(int argc, char **argv)
{
	return verbs_main(argc, argv, tests, rr_array_size(tests));
}
