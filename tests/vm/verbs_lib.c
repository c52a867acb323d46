/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/vm/verbs_lib.h"

#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <sys/ioctl.h>

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

#define FLOOR	100	/* where descriptors of ours begin */

static int raise_fd(int fd)
{
	int to = fd < 0 ? -errno : fcntl(fd, F_DUPFD_CLOEXEC, FLOOR);

	if (fd >= 0)
		close(fd);
	return to;
}

struct rr_verbs_env env = { .os = &libc_os, .own_fd = own_fd, .raise_fd = raise_fd };
const char *test;
const struct rr_prov_ops *ops;
struct rr_prov_params par = {
	.recv_size = 4096, .recvs = 32, .mem_size = 1 << 20,
};
struct rr_qp *a, *b;
struct rr_lst *lst;
bool native;
void (*in_child)(void);

struct rr_qp *new_qp(void)
{
	struct rr_qp *q = calloc(1, ops->qp_size(&par));

	q->wake_fd = -1;
	return q;
}

void offer_and_answer(const uint8_t *answer_token)
{
	struct rr_prov_params other = par;
	struct rr_prov_addr offer, answer;

	memcpy(other.token, answer_token, RR_TOKEN_LEN);
	a = new_qp();
	b = new_qp();
	CHECK(ops->prepare(a, &par, &offer) == 0);
	CHECK(ops->answer(b, &other, &offer, &answer) == 0);
	CHECK(ops->join(a, &answer) == 0);
}

struct sockaddr *at_port(uint16_t port)
{
	static struct sockaddr_in6 s;

	s = par.local;
	s.sin6_port = htons(port);	/* stands in the same place in both families */
	return (struct sockaddr *)&s;
}

void listen_at(const struct sockaddr *addr)
{
	lst = calloc(1, ops->lst_size());
	CHECK(ops->listen(lst, addr) == 0);
}

void unlisten(void)
{
	ops->unlisten(lst);
	free(lst);
}

int take(struct rr_qp *q, struct sockaddr_in6 *peer, struct sockaddr_in6 *local)
{
	struct pollfd p = { lst->fd, POLLIN, 0 };

	CHECK(poll(&p, 1, 10000) == 1);
	return ops->take(lst, q, &par, peer, local);
}

int establish_one(struct rr_qp *q)
{
	rr_time end = rr_now() + PATIENCE;
	int rc;

	while ((rc = ops->establish(q)) == -EAGAIN && rr_now() < end)
		poll(&(struct pollfd){ q->wake_fd, POLLIN, 0 }, 1, 100);
	return rc;
}

int establish(void)
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

static void open_native(void)
{
	a = new_qp();
	b = new_qp();
	if (!lst)
		listen_at(at_port(PORT));
	CHECK(ops->take(lst, b, &par, NULL, NULL) == -EAGAIN);
	CHECK(ops->connect(a, &par, at_port(PORT), NULL) == 0);
	for (rr_time end = rr_now() + PATIENCE; poll(&(struct pollfd){ lst->fd, POLLIN, 0 }, 1, 10) == 0 && rr_now() < end;)
		CHECK(ops->establish(a) == -EAGAIN);
	CHECK(take(b, NULL, NULL) == 0);
}

void open_pair(void)
{
	if (native)
		open_native();
	else
		offer_and_answer(par.token);
	CHECK(establish() == 0);
}

void close_pair(void)
{
	ops->close(a);
	ops->close(b);
	free(a);
	free(b);
}

int next(struct rr_qp *q, struct rr_wc *wc)
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

void post(struct rr_qp *q, const void *p, size_t len)
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

void invalidate(struct rr_qp *q, const struct rr_seg *seg)
{
	int rc = ops->invalidate(q, seg->handle, 77);
	struct rr_wc wc;

	CHECK(rc == !!env.no_windows);
	if (rc == 0)
		CHECK(next(q, &wc) == 1 && wc.op == RR_WC_INVALIDATE && wc.cookie == 77 && !wc.status);
}

void expose(struct rr_qp *q, struct rr_qp *peer, void *at, uint32_t len, enum rr_rights rights,
		   struct rr_seg *seg)
{
	struct rr_wc wc;

	CHECK(ops->expose(q, at, len, rights, seg) == 0 && seg->length == len);
	post(q, "here", 4);
	CHECK(next(peer, &wc) == 1 && wc.len == 4);
	ops->repost(peer, wc.cookie);
}

unsigned count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	unsigned n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

unsigned low_fds(void)
{
	char name[64], is[256];
	unsigned n = 0;

	for (int fd = 3; fd < FLOOR; fd++) {
		ssize_t len;

		snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
		len = readlink(name, is, sizeof(is) - 1);
		is[len > 0 ? len : 0] = 0;
		n += strstr(is, "infiniband") || strstr(is, "eventpoll");
	}
	return n;
}

unsigned resources(void)
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

static void forked(void)
{
	if (in_child)
		in_child();
}

static void stuck(int sig)
{
	(void)sig;
	printf("%s: stuck\n", test);
	_exit(1);
}

int verbs_main(int argc, char **argv, const struct vt *tests, size_t n)
{
	const char *dir = getenv("BUILD");
	rr_verbs_plugin_fn *entry;
	char path[4096];
	size_t done = 0;
	void *so;

	test = "set-up";
	signal(SIGALRM, stuck);
	setvbuf(stdout, NULL, _IOLBF, 0);
	snprintf(path, sizeof(path), "%s/" RR_VERBS_PLUGIN, dir ? dir : "build");
	pthread_atfork(NULL, NULL, forked);
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so || argc < 3)
		return fprintf(stderr, "%s\n", so ? "usage: windows|regions|native|invite ADDRESS [TEST...]" : dlerror()), 1;
	env.no_windows = !strcmp(argv[1], "regions");
	native = !strcmp(argv[1], "native");
	env.invite = !strcmp(argv[1], "invite");
	*(void **)&entry = dlsym(so, RR_VERBS_ENTRY);
	CHECK(entry(RR_VERBS_ABI + 1, &env) == NULL);
	ops = entry(RR_VERBS_ABI, &env);
	CHECK(ops);
	((struct sockaddr_in *)&par.local)->sin_family = AF_INET;
	CHECK(inet_pton(AF_INET, argv[2], &((struct sockaddr_in *)&par.local)->sin_addr) == 1);
	memcpy(par.token, "sixteen bytes ..", RR_TOKEN_LEN);
	for (size_t i = 0; i < n; i++) {
		bool wanted = argc == 3;

		for (int k = 3; k < argc; k++)
			wanted |= !strcmp(argv[k], tests[i].name);
		if (!wanted || (tests[i].ours && native))
			continue;
		test = tests[i].name;
		alarm(120);
		tests[i].run();
		done++;
		printf("ok %s\n", test);
	}
	printf("%zu rules hold\n", done);
	return 0;
}
