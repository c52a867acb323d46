/* SPDX-License-Identifier: BSD-3-Clause */
/* The verbs provider by itself, for a guest with a device: two queue pairs in one process, driven
 * through the provider interface. verbs_pair windows|regions ADDRESS [TEST...] */
#include <arpa/inet.h>
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/plugin.h"

#define CHECK(x) do { if (!(x)) { printf("%s:%d: %s: not so: %s\n", __FILE__, __LINE__, test, #x); exit(1); } } while (0)
#define PATIENCE	(10 * RR_SEC)

static const struct rr_os libc_os = {
	.socket = socket, .bind = bind, .listen = listen, .connect = connect,
	.accept4 = accept4, .shutdown = shutdown, .close = close, .fcntl = fcntl,
	.ioctl = ioctl, .getsockopt = getsockopt, .setsockopt = setsockopt,
	.getsockname = getsockname, .getpeername = getpeername, .recv = recv, .send = send,
	.recvmsg = recvmsg, .sendmsg = sendmsg, .poll = poll,
};

static void own_fd(int fd, bool own)
{
	(void)fd;
	(void)own;
}

static struct rr_verbs_env env = { &libc_os, own_fd, false };
static const char *test;
static const struct rr_prov_ops *ops;
static struct rr_prov_params par = {
	.recv_size = 4096, .recvs = 32, .mem_size = 1 << 20, .fd_floor = 100,
};
static struct rr_qp *a, *b;	/* offering, answering */

static void offer_and_answer(const uint8_t *answer_token)
{
	struct rr_prov_params other = par;
	struct rr_prov_addr offer, answer;

	memcpy(other.token, answer_token, RR_TOKEN_LEN);
	a = calloc(1, ops->qp_size(&par));
	b = calloc(1, ops->qp_size(&par));
	a->wake_fd = b->wake_fd = -1;
	CHECK(ops->prepare(a, &par, &offer) == 0);
	CHECK(ops->answer(b, &other, &offer, &answer) == 0);
	CHECK(ops->join(a, &answer) == 0);
}

/* Steps both until both are done or one has failed; 0 connected. */
static int establish(void)
{
	rr_time end = rr_now() + PATIENCE;
	int ra = -EAGAIN, rb = -EAGAIN;

	while ((ra == -EAGAIN || rb == -EAGAIN) && rr_now() < end) {
		struct pollfd p[2] = { { a->wake_fd, POLLIN, 0 }, { b->wake_fd, POLLIN, 0 } };

		if (ra == -EAGAIN)
			ra = ops->establish(a);
		if (rb == -EAGAIN)
			rb = ops->establish(b);
		if ((ra && ra != -EAGAIN) || (rb && rb != -EAGAIN))
			return ra && ra != -EAGAIN ? ra : rb;
		poll(p, 2, 10);
	}
	return ra ? ra : rb;
}

static void open_pair(void)
{
	offer_and_answer(par.token);
	CHECK(establish() == 0);
}

static void close_pair(void)
{
	ops->close(a);
	ops->close(b);
	free(a);
	free(b);
}

/* The next completion of q, slept for; what poll() said. */
static int next(struct rr_qp *q, struct rr_wc *wc)
{
	rr_time end = rr_now() + PATIENCE;
	int n;

	while ((n = ops->poll(q, wc, 1)) == 0 && rr_now() < end) {
		struct pollfd p = { q->wake_fd, POLLIN, 0 };

		if (ops->arm(q, RR_ARM_RECV) == 0) {
			CHECK(poll(&p, 1, 5000) == 1);
			ops->drain(q);
		}
	}
	return n;
}

static void post(struct rr_qp *q, const void *p, size_t len)
{
	const uint8_t *bytes = p;
	size_t half = len / 2;
	struct rr_wc wc;
	struct iovec iov[2] = { { (void *)(uintptr_t)bytes, half },
				{ (void *)(uintptr_t)(bytes + half), len - half } };

	while (!ops->window(q))
		CHECK(ops->poll(q, &wc, 1) == 0);
	CHECK(ops->send(q, iov, 2, 7, 0) == 1);
}

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

/* Takes a key of q's back. */
static void invalidate(struct rr_qp *q, const struct rr_seg *seg)
{
	int rc = ops->invalidate(q, seg->handle, 77);
	struct rr_wc wc;

	CHECK(rc == !!env.no_windows);
	if (rc == 0)
		CHECK(next(q, &wc) == 1 && wc.op == RR_WC_INVALIDATE && wc.cookie == 77 && !wc.status);
}

/* Exposed memory of q, for whoever hears of it by a Send. */
static void expose(struct rr_qp *q, struct rr_qp *peer, void *at, uint32_t len, enum rr_rights rights,
		   struct rr_seg *seg)
{
	struct rr_wc wc;

	CHECK(ops->expose(q, at, len, rights, seg) == 0 && seg->length == len);
	post(q, "here", 4);
	CHECK(next(peer, &wc) == 1 && wc.len == 4);
	ops->repost(peer, wc.cookie);
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

static void t_a_wrong_token_gets_no_connection(void)
{
	uint8_t wrong[RR_TOKEN_LEN] = { 9 };

	offer_and_answer(wrong);
	CHECK(establish() < 0);
	close_pair();
}

static void t_a_peer_that_never_comes_is_no_trouble(void)
{
	struct rr_prov_addr offer = { .len = 1, .bytes = { 1 } }, answer;

	b = calloc(1, ops->qp_size(&par));
	CHECK(ops->answer(b, &par, &offer, &answer) == 0);
	CHECK(ops->establish(b) == -EAGAIN);
	ops->close(b);
	free(b);
}

static void t_an_address_without_device_is_refused(void)
{
	struct rr_prov_addr offer = { .len = 1, .bytes = { 1 } }, answer;
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

		ops->close(a);
		ops->close(b);
		_exit(lost ? 0 : 1);
	}
	CHECK(waitpid(pid, &status, 0) == pid && status == 0);
	post(a, "still here", 10);
	CHECK(next(b, &wc) == 1 && wc.len == 10);
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

static unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* Objects of this process, as the kernel counts them for the device. */
static unsigned resources(void)
{
	char line[256];
	unsigned total = 0;
	FILE *f = popen("rdma resource show", "r");

	while (f && fgets(line, sizeof(line), f)) {
		for (char *p = line; (p = strpbrk(p, "0123456789")); p++)
			if (p > line && p[-1] == ' ')
				total += (unsigned)strtoul(p, &p, 10);
	}
	if (f)
		pclose(f);
	return total;
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

#define T(name) { #name, t_##name }
static const struct { const char *name; void (*run)(void); } tests[] = {
	T(sends_of_every_size_arrive_as_they_were),
	T(immediate_data_arrives_without_payload),
	T(reads_and_writes_move_bytes_and_say_when),
	T(access_without_the_right_ends_the_connection),
	T(access_by_a_dead_key_ends_the_connection),
	T(access_out_of_bounds_ends_the_connection),
	T(a_key_is_never_the_last_one_again),
	T(sends_stop_where_the_receives_end),
	T(a_sender_polls_only_for_room),
	T(what_was_sent_survives_an_orderly_end),
	T(a_wrong_token_gets_no_connection),
	T(a_peer_that_never_comes_is_no_trouble),
	T(an_address_without_device_is_refused),
	T(a_forked_child_only_lets_go),
	T(many_connections_leave_nothing),
};

int main(int argc, char **argv)
{
	const char *dir = getenv("BUILD");
	rr_verbs_plugin_fn *entry;
	char path[4096];
	void *so;

	test = "set-up";
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(path, sizeof(path), "%s/" RR_VERBS_PLUGIN, dir ? dir : "build");
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so || argc < 3)
		return fprintf(stderr, "%s\n", so ? "usage: verbs_pair windows|regions ADDRESS [TEST...]" : dlerror()), 1;
	env.no_windows = !strcmp(argv[1], "regions");
	*(void **)&entry = dlsym(so, RR_VERBS_ENTRY);
	CHECK(entry(RR_VERBS_ABI + 1, &env) == NULL);
	ops = entry(RR_VERBS_ABI, &env);
	CHECK(ops);
	((struct sockaddr_in *)&par.local)->sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, argv[2], &((struct sockaddr_in *)&par.local)->sin_addr) == 1);
	memcpy(par.token, "sixteen bytes ..", RR_TOKEN_LEN);
	for (size_t i = 0; i < rr_array_size(tests); i++) {
		bool wanted = argc == 3;

		for (int k = 3; k < argc; k++)
			wanted |= !strcmp(argv[k], tests[i].name);
		if (!wanted)
			continue;
		test = tests[i].name;
		tests[i].run();
		printf("ok %s\n", test);
	}
	printf("%zu rules hold\n", rr_array_size(tests));
	return 0;
}
