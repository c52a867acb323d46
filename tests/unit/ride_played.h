/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RIDE_PLAYED_H
#define RIDE_PLAYED_H

/* For tests of core/conn/upgrade/ride.c: the kernel's queue is played, and so are the decisions of other files: whether an
 * offer goes, what is done with an answer, when it is given up. */

#include <criterion/criterion.h>
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ioctl.h>

#include "core/base/os.h"
#include "core/conn/upgrade/upgrade.h"
#include "tests/lib/connpair.h"

enum { FD = 30 };

static struct rr_conn c;
static struct rr_share sh;
static struct rr_os os;

/* --- what is played (the Makefile wraps these) --- */

static struct {
	/* the kernel: what came, and what a read finds behind it: 0 the end, or an errno */
	uint8_t queue[100000];
	size_t n, most;
	int then;
	unsigned reads, peeks, sizes, polls;
	unsigned bad_peek;	/* the how-manieth peek fails with `then` */
	unsigned blind;		/* so many times FIONREAD says 0 */
	size_t hidden;		/* … and these have come since */
	unsigned shows, wanted;	/* poll() */
	int sends[4];		/* what the next sends return: bytes or -errno */
	unsigned nsends;
	size_t sent;		/* bytes that were to go with the last one */
	/* other files */
	bool may_pay, loopback, device, required, must_ask, not_seen_all, lets_by, stopped;
	ssize_t offers, answers;
	enum rr_conn_st offer_st;
	int skips, takes;
	enum rr_nego taken;
	uint32_t taken_need, taken_xid;
	unsigned offered, answered, withheld, counts, skipped, answers_taken, offers_taken, ours_said, ends;
	bool ours;
	uint32_t end_prog, end_calls;
	int lowat;
	enum rr_conn_st st;
	enum rr_reason why;
	unsigned becomes;
} k;

void __wrap_rr_learned_end(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls);
void __wrap_rr_learned_ours(const struct sockaddr_in6 *peer, bool is);
uint32_t __wrap_rr_ride_may_pay(const struct sockaddr_in6 *peer);
bool __wrap_rr_offer_by_loopback(const struct sockaddr_in6 *peer);
const struct rr_prov_ops *__wrap_rr_prov_nth(uint32_t i);
bool __wrap_rr_offer_required(struct rr_conn *it);
bool __wrap_rr_ride_must_ask(struct rr_conn *it, int fd, int flags);
ssize_t __wrap_rr_ride_offer(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags);
ssize_t __wrap_rr_ride_answer(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags);
bool __wrap_rr_ride_seen_all(const struct rr_conn *it, int fd);
bool __wrap_rr_upgrade_withholds(struct rr_conn *it, uint32_t need, size_t have);
void __wrap_rr_conn_lowat(struct rr_conn *it, int bytes);
enum rr_nego __wrap_rr_nego_get_offer(const uint8_t *p, size_t len, uint32_t program, uint32_t *xid, struct rr_hello *h,
				      uint32_t *need);
enum rr_nego __wrap_rr_nego_get_answer(const uint8_t *p, size_t len, uint32_t xid, struct rr_hello *h, uint32_t *need);
void __wrap_rr_ride_leave(struct rr_conn *it, enum rr_reason why);
int __wrap_rr_ride_take_answer(struct rr_conn *it, int fd, enum rr_nego what, const struct rr_hello *h, uint32_t need);
int __wrap_rr_ride_take_offer(struct rr_conn *it, int fd, const struct rr_hello *h, uint32_t xid, uint32_t need);
bool __wrap_rr_upgrade_stopped(void);
int __wrap_rr_upgrade_skip(struct rr_conn *it, int fd);
void __wrap_rr_ride_count(struct rr_conn *it);
void __wrap_rr_conn_become(struct rr_conn *it, enum rr_conn_st st, enum rr_reason why);

void __wrap_rr_learned_end(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls)
{
	cr_assert_eq(peer, &c.peer);
	k.ends++;
	k.end_prog = prog;
	k.end_calls = calls;
}

void __wrap_rr_learned_ours(const struct sockaddr_in6 *peer, bool is)
{
	cr_assert_eq(peer, &c.peer);
	k.ours_said++;
	k.ours = is;
}

uint32_t __wrap_rr_ride_may_pay(const struct sockaddr_in6 *peer)
{
	cr_assert(peer == &c.peer);
	return k.may_pay ? 1 : 2;
}

const struct rr_prov_ops *__wrap_rr_prov_nth(uint32_t i)
{
	cr_assert_eq(i, 1);
	return k.device ? &rr_prov_shm : NULL;
}

bool __wrap_rr_offer_by_loopback(const struct sockaddr_in6 *peer)
{
	cr_assert_eq(peer, &c.peer);
	return k.loopback;
}

bool __wrap_rr_offer_required(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	return k.required;
}

bool __wrap_rr_ride_must_ask(struct rr_conn *it, int fd, int flags)
{
	cr_assert(it == &c && fd == FD && flags == 7);
	return k.must_ask;
}

ssize_t __wrap_rr_ride_offer(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags)
{
	cr_assert(it == &c && fd == FD && iov && n && flags == 7);
	k.offered++;
	if (k.offer_st)
		rr_conn_turn(it, k.offer_st);
	return k.offers;
}

ssize_t __wrap_rr_ride_answer(struct rr_conn *it, int fd, const struct iovec *iov, int n, int flags)
{
	cr_assert(it == &c && fd == FD && iov && n && flags == 7);
	k.answered++;
	return k.answers;
}

bool __wrap_rr_ride_seen_all(const struct rr_conn *it, int fd)
{
	cr_assert(it == &c && fd == FD);
	return !k.not_seen_all;
}

bool __wrap_rr_upgrade_withholds(struct rr_conn *it, uint32_t need, size_t have)
{
	cr_assert(it == &c && need > have);
	k.withheld++;
	return !k.lets_by;
}

void __wrap_rr_conn_lowat(struct rr_conn *it, int bytes)
{
	cr_assert_eq(it, &c);
	k.lowat = bytes;
}

/* Ours begins with 0xc0, its length and an enum rr_nego; of anything else nothing is ours. */
static enum rr_nego is_ours(const uint8_t *p, size_t len, uint32_t *need)
{
	cr_assert(len);
	if (p[0] != 0xc0)
		return RR_NEGO_OTHER;
	*need = len > 1 ? p[1] : 12;
	if (len > 1 && p[1] >= 254)
		*need = RR_ANSWER_MAX + (p[1] == 255);
	return len < *need ? RR_NEGO_PART : (enum rr_nego)p[2];
}

enum rr_nego __wrap_rr_nego_get_offer(const uint8_t *p, size_t len, uint32_t program, uint32_t *xid, struct rr_hello *h,
				      uint32_t *need)
{
	enum rr_nego what = is_ours(p, len, need);

	cr_assert(c.face.server && program == rr_cp->program && *need <= RR_OFFER_MAX + 1);
	if (what == RR_NEGO_OURS) {
		*xid = 0x77;
		memset(h, 0, sizeof(*h));
		h->caps = p[3] ? RR_CAP_CROSSING : 0;
	}
	return what;
}

enum rr_nego __wrap_rr_nego_get_answer(const uint8_t *p, size_t len, uint32_t xid, struct rr_hello *h, uint32_t *need)
{
	cr_assert(!c.face.server && xid == c.xid);
	memset(h, 0, sizeof(*h));
	return is_ours(p, len, need);
}

void __wrap_rr_ride_leave(struct rr_conn *it, enum rr_reason why)
{
	cr_assert_eq(it, &c);
	k.why = why;
	rr_conn_turn(it, RR_S_SWALLOW);
}

/* Takes it out, as the real ones do. */
static int taken(uint32_t need)
{
	k.taken_need = need;
	k.n -= need;
	memmove(k.queue, k.queue + need, k.n);
	rr_conn_turn(&c, c.face.server ? RR_S_HEARD : RR_S_MEETING);
	return k.takes;
}

int __wrap_rr_ride_take_answer(struct rr_conn *it, int fd, enum rr_nego what, const struct rr_hello *h, uint32_t need)
{
	cr_assert(it == &c && fd == FD && h && !c.face.server);
	k.answers_taken++;
	k.taken = what;
	return taken(need);
}

int __wrap_rr_ride_take_offer(struct rr_conn *it, int fd, const struct rr_hello *h, uint32_t xid, uint32_t need)
{
	cr_assert(it == &c && fd == FD && h && c.face.server);
	k.offers_taken++;
	k.taken_xid = xid;
	return taken(need);
}

bool __wrap_rr_upgrade_stopped(void)
{
	return k.stopped;
}

int __wrap_rr_upgrade_skip(struct rr_conn *it, int fd)
{
	cr_assert(it == &c && fd == FD);
	k.skipped++;
	return k.skips;
}

void __wrap_rr_ride_count(struct rr_conn *it)
{
	cr_assert_eq(it, &c);
	k.counts++;
}

void __wrap_rr_conn_become(struct rr_conn *it, enum rr_conn_st st, enum rr_reason why)
{
	cr_assert_eq(it, &c);
	k.becomes++;
	k.why = why;
	rr_conn_turn(it, st);
}

static ssize_t reads(struct iovec *iov, size_t n, int flags)
{
	size_t got = 0, left = rr_min(k.n, k.most);

	cr_assert(flags & MSG_DONTWAIT && !(flags & ~(MSG_DONTWAIT | MSG_PEEK)));
	*(flags & MSG_PEEK ? &k.peeks : &k.reads) += 1;
	if (!k.n || (flags & MSG_PEEK && k.peeks == k.bad_peek)) {
		errno = k.then ? k.then : EBADF;	/* of old */
		return k.then ? -1 : 0;
	}
	for (size_t i = 0; i < n && left; i++) {
		size_t take = rr_min(iov[i].iov_len, left);

		memcpy(iov[i].iov_base, k.queue + got, take);
		got += take;
		left -= take;
	}
	if (!(flags & MSG_PEEK)) {
		k.n -= got;
		memmove(k.queue, k.queue + got, k.n);
	}
	return (ssize_t)got;
}

static ssize_t plays_recv(int fd, void *to, size_t len, int flags)
{
	cr_assert_eq(fd, FD);
	return reads(&(struct iovec){ to, len }, 1, flags);
}

static ssize_t plays_recvmsg(int fd, struct msghdr *m, int flags)
{
	cr_assert_eq(fd, FD);
	return reads(m->msg_iov, m->msg_iovlen, flags);
}

static ssize_t plays_sendmsg(int fd, const struct msghdr *m, int flags)
{
	int rc = k.sends[k.nsends++ % 4];

	cr_assert(fd == FD && (flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) == 7);
	k.sent = rr_iov_total(m->msg_iov, (int)m->msg_iovlen);
	errno = -rc;
	return rc < 0 ? -1 : rc;
}

static ssize_t plays_send(int fd, const void *from, size_t len, int flags)
{
	struct iovec iov = { (void *)(uintptr_t)from, len };

	return plays_sendmsg(fd, &(struct msghdr){ .msg_iov = &iov, .msg_iovlen = 1 }, flags);
}

static int plays_ioctl(int fd, unsigned long what, ...)
{
	va_list ap;

	cr_assert(fd == FD && what == FIONREAD);
	va_start(ap, what);
	*va_arg(ap, int *) = k.sizes++ < k.blind ? 0 : (int)(k.n - k.hidden);
	va_end(ap);
	return 0;
}

static int plays_poll(struct pollfd *q, nfds_t n, int ms)
{
	cr_assert(n == 1 && ms == 0 && q->fd == FD);
	k.polls++;
	k.wanted = (unsigned short)q->events;
	q->revents = (short)(k.shows & (k.wanted | POLLHUP | POLLERR));
	return q->revents != 0;
}

static void afresh(enum rr_conn_st st, bool server)
{
	memset(&k, 0, sizeof(k));
	memset(&c, 0, sizeof(c));
	k.then = EAGAIN;
	k.most = SIZE_MAX;
	c.face.server = server;
	c.face.state = st;
	c.fd = FD;
	c.xid = 0x55;
	c.share = &sh;
}

static inline void begin(void)
{
	rr_test_setup();
	os = (struct rr_os){ .recv = plays_recv, .recvmsg = plays_recvmsg, .send = plays_send, .sendmsg = plays_sendmsg,
			     .ioctl = plays_ioctl, .poll = plays_poll };
	rr_os = &os;
	afresh(RR_S_ASKED, false);
}

#endif
