/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/fakeconn.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/standing.h"
#include "preload/unmet.h"
#include "preload/wait.h"

enum { EVER = POLLERR | POLLHUP };

/* What a test leaves open is no leak: the fd table has it, in memory that LeakSanitizer does not
 * search. */
static struct rr_conn *made[1024];
static _Atomic unsigned nmade;

struct rr_conn *rr_fake_conn(int fd, enum rr_fake_state state)
{
	struct rr_sock *so = rr_sock_new(fd);
	struct rr_conn *c = calloc(1, sizeof(*c));

	made[atomic_fetch_add(&nmade, 1) % rr_array_size(made)] = c;
	c->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	c->face.state = state;
	c->until = RR_TIME_NEVER;
	c->accepts = RR_CONN_KERNEL;
	so->conn = c;
	rr_file_is_at(&so->f, fd);	/* its inode is known */
	rr_fdt_give(fd, &so->f);
	return c;
}

struct rr_sock *rr_fake_unmet(int fd)
{
	struct rr_sock *so = rr_sock_new(fd);

	rr_file_is_at(&so->f, fd);
	rr_fdt_give(fd, &so->f);
	so->flags = RR_SOCK_UNMET;
	atomic_fetch_add(&rr_unmet_n, 1);
	return so;
}

static void ring(struct rr_conn *c)
{
	uint64_t one = 1;

	if ((c->sleepers || c->rests || atomic_exchange(&c->watched, false)) &&
	    write(c->wake, &one, sizeof(one)) < 0)
		abort();
}

void rr_fake_ready(struct rr_conn *c, unsigned add, unsigned take)
{
	c->ready = (c->ready | add) & ~take;
	ring(c);
}

void rr_fake_become(struct rr_conn *c, int fd, enum rr_fake_state state)
{
	struct rr_sock *so = rr_fdt_sock(fd);

	c->face.state = state;
	c->face.changed = true;
	if (rr_conn_changed(c))
		rr_sock_sync(so);
	rr_file_put(&so->f);
}

/* --- conn.h --- */

/* A connection's calls may leave any errno; that the app's is kept is their callers' part. */
static void spoil_errno(void)
{
	errno = EKEYREJECTED;
}

struct rr_fake_script rr_fake;

void rr_conn_setup(const struct rr_conn_params *p)
{
	if (rr_fake.setup)
		rr_fake.setup(p);
}

/* No native peers. */
struct rr_conn *rr_conn_listener(int fd)
{
	return rr_fake.listener ? rr_fake.listener(fd) : NULL;
}

bool rr_conn_any_early(void)
{
	spoil_errno();
	return rr_fake.early;
}

void rr_conn_early(struct rr_conn *c)
{
	if (rr_fake.early)
		rr_fake.early(c);
}

int rr_conn_accept(struct rr_conn *l, int fd, int flags, struct rr_conn **out)
{
	*out = NULL;
	errno = ENOKEY;		/* for all that is called before and after it */
	return rr_fake.accept ? rr_fake.accept(l, fd, flags, out) : l->accepts;
}

bool rr_conn_scarce(void)
{
	return rr_fake.scarce && rr_fake.scarce();
}

bool rr_conn_defers(struct rr_conn *l)
{
	return rr_fake.defers && rr_fake.defers(l);
}

struct rr_conn *rr_conn_dial(int fd, const struct sockaddr *peer, socklen_t len)
{
	return rr_fake.dial ? rr_fake.dial(fd, peer, len) : NULL;
}

int rr_conn_dialed(struct rr_conn *c, int fd, bool wait)
{
	spoil_errno();
	return rr_fake.dialed ? rr_fake.dialed(c, fd, wait) : RR_CONN_KERNEL;
}

bool rr_conn_name(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len)
{
	return rr_fake.name && rr_fake.name(c, peer, addr, len);
}

bool rr_conn_has_seen(struct rr_conn *c)
{
	return c->seen;
}

void rr_conn_named(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len)
{
	if (rr_fake.named)
		rr_fake.named(c, peer, addr, len);
}

struct rr_conn *rr_conn_client(int fd, const struct sockaddr *peer, socklen_t len)
{
	spoil_errno();
	return rr_fake.client ? rr_fake.client(fd, peer, len) : NULL;
}

struct rr_conn *rr_conn_server(int fd)
{
	spoil_errno();
	return rr_fake.server ? rr_fake.server(fd) : NULL;
}

bool rr_conn_may_wait(struct rr_conn_passed *f, bool server, const struct sockaddr *peer, socklen_t len)
{
	*f = (struct rr_conn_passed){ .server = server };
	return rr_fake.may_wait && rr_fake.may_wait(server, peer, len);
}

bool rr_conn_first_went(struct rr_conn_passed *f, const uint8_t *p, size_t len)
{
	if (rr_fake.first_went ? !rr_fake.first_went(f, p, len) : !rr_conn_is_record(p, len))
		return false;
	rr_conn_note_out(f, len);
	return true;
}

bool rr_conn_first_came(struct rr_conn_passed *f, const uint8_t *p, size_t len)
{
	if (!rr_conn_is_record(p, len))
		return false;
	rr_conn_note_in(f, len);
	return true;
}

size_t rr_conn_first_call(struct rr_conn_passed *f, const uint8_t *head, size_t have)
{
	spoil_errno();
	return rr_fake.first_call ? rr_fake.first_call(f, head, have) : 0;
}

struct rr_conn *rr_conn_after(int fd, const struct rr_conn_passed *f)
{
	spoil_errno();
	return rr_fake.after  ? rr_fake.after(fd, f) :
	       f->server      ? rr_conn_server(fd)   :
				rr_conn_client(fd, (const struct sockaddr *)&f->end[1], f->len[1]);
}

void rr_conn_went_out(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	if (rr_fake.went_out)
		rr_fake.went_out(c, iov, n, len);
}

void rr_conn_came_in(struct rr_conn *c, const struct iovec *iov, int n, size_t len)
{
	if (rr_fake.came_in)
		rr_fake.came_in(c, iov, n, len);
}

void rr_conn_never(const struct rr_conn_passed *f)
{
	spoil_errno();
	if (rr_fake.never)
		rr_fake.never(f);
}

ssize_t rr_conn_recv(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	spoil_errno();
	return rr_fake.recv ? rr_fake.recv(c, fd, iov, n, flags) : -EAGAIN;
}

ssize_t rr_conn_send(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags)
{
	spoil_errno();
	return rr_fake.send ? rr_fake.send(c, fd, iov, n, flags) : -EAGAIN;
}

int rr_conn_inq(struct rr_conn *c, int fd RR_UNUSED)
{
	spoil_errno();
	return c->inq;
}

uint64_t rr_conn_came(struct rr_conn *c RR_UNUSED)
{
	return 0;
}

int rr_conn_take_error(struct rr_conn *c, int fd)
{
	return rr_fake.take_error ? rr_fake.take_error(c, fd) : RR_CONN_KERNEL;
}

bool rr_conn_getopt(struct rr_conn *c, int level, int name, void *val, socklen_t *len)
{
	return rr_fake.getopt && rr_fake.getopt(c, level, name, val, len);
}

bool rr_conn_setopt(struct rr_conn *c, int level, int name, const void *val, socklen_t len)
{
	return rr_fake.setopt && rr_fake.setopt(c, level, name, val, len);
}

void rr_conn_opt_set(struct rr_conn *c, int fd, int level, int name)
{
	if (rr_fake.opt_set)
		rr_fake.opt_set(c, fd, level, name);
}

/* An offer: what arrives on a NEW connection is not for the app. */
static void take_offer(struct rr_conn *c, int fd)
{
	char buf[256];

	if (recv(fd, buf, sizeof(buf), MSG_DONTWAIT) > 0) {
		c->offer = false;
		c->swallowed++;
	}
}

int rr_conn_poll(struct rr_conn *c, int fd, unsigned want)
{
	spoil_errno();
	c->polls++;
	c->rests = false;
	rr_standing_ceased(c);
	c->asked = want & (RR_ASK_FIRST | RR_ASK_TOLD);
	want &= ~c->asked;
	if (c->busy_from && c->polls >= c->busy_from)
		return -EDEADLK;
	if (c->face.state == RR_FAKE_NEW) {
		if (!c->offer)
			return RR_CONN_KERNEL;
		take_offer(c, fd);
		if (!c->offer && c->refuses) {
			c->face.state = RR_FAKE_TCP;
			return RR_CONN_KERNEL;
		}
		return c->offer ? RR_CONN_KERNEL : 0;
	}
	if (c->face.state == RR_FAKE_WAITING && rr_now() >= c->until) {
		c->face.state = RR_FAKE_TCP;
		c->face.changed = true;
	}
	if (c->face.state == RR_FAKE_TCP)
		return RR_CONN_KERNEL;
	return (int)(c->ready & (want | EVER));
}

bool rr_conn_peek(const struct rr_conn *c, unsigned want)
{
	atomic_fetch_add(&((struct rr_conn *)(uintptr_t)c)->peeks, 1);
	return c->face.state == RR_FAKE_CARRIED && c->ready & (want | EVER);
}

void rr_conn_spin(const struct rr_conn *c, struct rr_spin *s)
{
	if (!s->now)
		rr_spin_look_around(s);
	s->want = rr_max(s->want, s->began ? c->longer : c->spin);
}

void rr_conn_seen(const struct rr_conn *c, const struct rr_spin *s RR_UNUSED)
{
	atomic_fetch_add(&((struct rr_conn *)(uintptr_t)c)->news_seen, 1);
}

struct rr_fake_spun rr_fake_spun;

void rr_conn_spun(const struct rr_spin *s RR_UNUSED, bool paid)
{
	rr_fake_spun.calls++;
	rr_fake_spun.paid += paid;
}

static bool kernels(const struct rr_conn *c)
{
	return c->face.state == RR_FAKE_NEW || c->face.state == RR_FAKE_TCP;
}

int rr_conn_arm(struct rr_conn *c, int fd RR_UNUSED, unsigned want)
{
	spoil_errno();
	if (c->arm_fails < 0)
		return c->arm_fails;
	c->arms++;
	c->sleepers++;
	if (!c->restless && (kernels(c) || !(c->ready & (want | EVER)))) {
		c->rests = c->can_rest && c->face.state == RR_FAKE_CARRIED && want == POLLIN;
		return 0;
	}
	c->sleepers--;
	return 1;
}

/* One wait at a time. */
struct rr_plainwait {
	struct rr_conn *of[64];
	unsigned n;
};
static struct rr_plainwait plainwait;
static struct rr_conn *unsure;

void rr_fake_unsure(struct rr_conn *c)
{
	unsure = c;
}

bool rr_plainwait_stays(const struct rr_conn *c)
{
	return c->plain && kernels(c);
}

bool rr_plainwait_add(struct rr_plainwait **w, const struct rr_conn *c)
{
	struct rr_conn *mine = (struct rr_conn *)(uintptr_t)c;

	if (!rr_plainwait_stays(c) || plainwait.n == rr_array_size(plainwait.of))
		return false;
	for (unsigned i = 0; i < plainwait.n; i++)
		if (plainwait.of[i] == c)
			return true;
	*w = &plainwait;
	plainwait.of[plainwait.n++] = mine;
	mine->arms++;
	mine->sleepers++;
	return true;
}

bool rr_plainwait_is_sure(struct rr_plainwait *w RR_UNUSED)
{
	if (!unsure)
		return true;
	unsure->plain = false;
	unsure = NULL;
	return false;
}

void rr_plainwait_leave(struct rr_plainwait *w, const struct rr_conn *c)
{
	for (unsigned i = 0; i < w->n; i++) {
		if (w->of[i] != c)
			continue;
		w->of[i]->disarms++;
		w->of[i]->sleepers--;
		w->of[i] = w->of[--w->n];
	}
}

void rr_plainwait_end(struct rr_plainwait *w)
{
	while (w && w->n)
		rr_plainwait_leave(w, w->of[0]);
}

/* No wait is kept. */
struct rr_plainwait *rr_plainwait_resume(uint32_t files RR_UNUSED, uint32_t *n RR_UNUSED)
{
	return NULL;
}

void rr_plainwait_note(struct rr_plainwait *w RR_UNUSED, int fd RR_UNUSED)
{
}

bool rr_plainwait_knows(const struct rr_plainwait *w RR_UNUSED, int fd RR_UNUSED)
{
	return false;
}

void rr_plainwait_pause(struct rr_plainwait *w, uint32_t files RR_UNUSED)
{
	rr_plainwait_end(w);
}

void rr_conn_disarm(struct rr_conn *c, int fd RR_UNUSED)
{
	spoil_errno();
	c->rests = false;
	rr_standing_ceased(c);
	c->disarms++;
	if (--c->sleepers == 0)
		rr_conn_drain(c);
}

void rr_conn_disarm_later(struct rr_conn *c, int fd)
{
	c->later++;
	rr_conn_disarm(c, fd);
}

_Atomic unsigned rr_fake_rests_asked;

int rr_conn_rests(const struct rr_conn *c)
{
	rr_fake_rests_asked++;
	return c->rests ? c->wake : -1;
}

int rr_conn_rest(struct rr_conn *c)
{
	c->sleepers += c->rests;
	return rr_conn_rests(c);
}

void rr_conn_rested(struct rr_conn *c)
{
	c->sleepers--;
}

bool rr_conn_stands(struct rr_conn *c, uint32_t at)
{
	return c->rests && rr_standing_join(c, at);
}

void rr_conn_sleeps(struct rr_conn *c)
{
	c->sleepers++;
}

bool rr_conn_may_rest(const struct rr_conn *c)
{
	return c->can_rest && c->face.state == RR_FAKE_CARRIED;
}

bool rr_conn_is_quiet(const struct rr_conn *c)
{
	return c->can_rest && c->quiet;
}

int rr_conn_watch(struct rr_conn *c, int fd RR_UNUSED, unsigned want)
{
	spoil_errno();
	if (c->arm_fails < 0)
		return c->arm_fails;
	c->arms++;
	c->watched = true;
	return c->restless || (!kernels(c) && c->ready & (want | EVER));
}

int rr_conn_watch_plain(struct rr_conn *c, int fd, unsigned want, int wake)
{
	return rr_fake.watch_plain ? rr_fake.watch_plain(c, fd, want, wake) : -EAGAIN;
}

int rr_conn_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2], rr_time *until)
{
	spoil_errno();
	*until = RR_TIME_NEVER;
	switch (atomic_load(&c->face.state)) {
	case RR_FAKE_CARRIED:
		out[0] = (struct pollfd){ fd, c->anchor ? (short)c->anchor : POLLRDHUP, 0 };
		out[1] = (struct pollfd){ c->wake, POLLIN, 0 };
		if (c->look_at)
			*until = c->look_at;
		if (c->dead && c->drains)
			return 1;
		return 2;
	case RR_FAKE_WAITING:
		*until = c->until;
		out[0] = (struct pollfd){ c->wake, POLLIN, 0 };
		return 1;
	default:
		out[0] = (struct pollfd){ fd, (short)want, 0 };
		return 1;
	}
}

int rr_conn_wake_fd(const struct rr_conn *c)
{
	return c->face.state == RR_FAKE_CARRIED ? c->wake : -1;
}

bool rr_conn_wakes_by_socket(const struct rr_conn *c)
{
	return !c->piped;
}

void rr_conn_wake_by_socket(struct rr_conn *c)
{
	c->louds++;
	c->piped = false;
}

bool rr_conn_drain(struct rr_conn *c)
{
	uint64_t n;

	spoil_errno();
	c->drains++;
	if (c->sleepers == 0 && !c->dead && read(c->wake, &n, sizeof(n)) < 0 && errno != EAGAIN)
		abort();
	return c->dead;
}

bool rr_conn_drain_later(struct rr_conn *c)
{
	c->later++;
	return rr_conn_drain(c);
}

void rr_conn_in_set(struct rr_conn *c)
{
	spoil_errno();
	c->in_set++;
}

rr_time rr_conn_idle(rr_time now RR_UNUSED)
{
	return RR_TIME_NEVER;
}

void rr_conn_keep_error(struct rr_conn *c, int err)
{
	if (rr_fake.keep_error)
		rr_fake.keep_error(c, err);
}

int rr_conn_shutdown(struct rr_conn *c, int fd, int how)
{
	spoil_errno();
	return rr_fake.shutdown ? rr_fake.shutdown(c, fd, how) : RR_CONN_KERNEL;
}

void rr_conn_close(struct rr_conn *c, int fd)
{
	spoil_errno();
	if (rr_fake.close)
		rr_fake.close(c, fd);
}

void rr_conn_vanished(struct rr_conn *c)
{
	spoil_errno();
	if (rr_fake.vanished)
		rr_fake.vanished(c);
}

void rr_conn_free(struct rr_conn *c)
{
	close(c->wake);
	spoil_errno();
	/* Who looks without a reference, as at a real one, whose memory stays a connection's. */
#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__)
	if (!c->sleepers)	/* nor does a plain wait hold those on which it sleeps */
		free(c);
#endif
}

static void tell_fork(struct rr_conn *c, const char *when)
{
	spoil_errno();
	if (rr_fake.fork)
		rr_fake.fork(c, when);
}

void rr_conn_fork_nears(struct rr_conn *c)
{
	tell_fork(c, "nears");
}

void rr_conn_fork_prepare(void)
{
}

void rr_conn_fork_parent(void)
{
}

void rr_conn_fork_child(void)
{
}

void rr_conn_forked(struct rr_conn *c)
{
	tell_fork(c, "forked");
}

void rr_conn_fork_failed(struct rr_conn *c)
{
	tell_fork(c, "failed");
}

void rr_conn_daemon(void)
{
	spoil_errno();
	if (rr_fake.daemon)
		rr_fake.daemon();
}

bool rr_conn_move_fd(int fd)
{
	return rr_fake.move_fd && rr_fake.move_fd(fd);
}

bool rr_conn_let_go(struct rr_conn *c)
{
	spoil_errno();
	return rr_fake.let_go && rr_fake.let_go(c);
}

uint32_t rr_conn_serves(int fd)
{
	return rr_fake.serves ? rr_fake.serves(fd) : 0;
}

void rr_conn_serves_not(uint32_t which RR_UNUSED)
{
}
