/* SPDX-License-Identifier: BSD-3-Clause */
/* Waiting of one thread for one connection: spin, arm, sleep, and the kernel's rules for
 * restarting an interrupted call. Waits for several are ready_poll.c's and epwait.c's. */
#include "preload/ready.h"

#include <errno.h>
#include <pthread.h>

#include "core/base/os.h"
#include "core/base/outdated.h"
#include "preload/naps.h"
#include "preload/real.h"

#define NAP	RR_MSEC		/* shorter than the kernel's time-outs can express */
/* While one connection rings for nothing, others wait with it: so no pause is longer. */
#define PAUSE_MOST (200 * RR_USEC)

bool rr_timespec_ok(const struct timespec *ts)
{
	return ts->tv_sec >= 0 && ts->tv_nsec >= 0 && ts->tv_nsec < (long)RR_SEC;
}

rr_time rr_deadline(const struct timespec *ts)
{
	if (!ts || (uint64_t)ts->tv_sec > UINT32_MAX)
		return RR_TIME_NEVER;
	return rr_now() + (rr_time)ts->tv_sec * RR_SEC + (rr_time)ts->tv_nsec;
}

bool rr_wait_allowed(int fd)
{
	int fl = rr_real.fcntl(fd, F_GETFL);

	return fl >= 0 && !(fl & O_NONBLOCK);
}

rr_time rr_wait_deadline(int fd, int option)
{
	struct timeval tv;
	socklen_t len = sizeof(tv);

	if (rr_real.getsockopt(fd, SOL_SOCKET, option, &tv, &len) < 0 ||
	    (!tv.tv_sec && !tv.tv_usec))
		return RR_TIME_NEVER;
	return rr_now() + (rr_time)tv.tv_sec * RR_SEC + (rr_time)tv.tv_usec * RR_USEC;
}

struct timespec *rr_left(struct timespec *ts, rr_time now, rr_time end)
{
	rr_time left = end > now ? end - now : 0;

	if (end == RR_TIME_NEVER)
		return NULL;
	ts->tv_sec = (time_t)(left / RR_SEC);
	ts->tv_nsec = (long)(left % RR_SEC);
	return ts;
}

short rr_still_told(const struct rr_conn *c, const struct pollfd *p, short told)
{
	struct pollfd k = { p->fd, p->events, 0 };

	if (likely(!rr_conn_is_tcp(c)))
		return told;
	return rr_real.poll(&k, 1, 0) > 0 ? k.revents : 0;
}

void rr_fruitless_slept(struct rr_fruitless *f, rr_time from, rr_time to)
{
	f->n = to - from < RR_MSEC ? f->n + 1 : 0;
}

void rr_fruitless_pause(const struct rr_fruitless *f)
{
	if (f->n >= 3)
		rr_os_nap(rr_min((20 * RR_USEC) << rr_min(f->n - 3, 9u), PAUSE_MOST));
}

/* --- signals: would the kernel's recv() have been restarted? --- */

enum handlers { NO_HANDLER, ALL_RESTART, ALL_EINTR, MIXED };

/* Is sig raised by the thread itself, and so never while it sleeps? Crash reporters handle
 * these signals in programs whose other handlers all restart. */
static bool is_fault(int sig)
{
	return sig == SIGSEGV || sig == SIGBUS || sig == SIGFPE || sig == SIGILL ||
	       sig == SIGTRAP || sig == SIGSYS;
}

/* Which kinds of handlers are installed for the signals that this thread does not block. */
static enum handlers scan_handlers(void)
{
	bool restart = false, eintr = false;
	struct sigaction sa;
	sigset_t blocked;

	pthread_sigmask(SIG_BLOCK, NULL, &blocked);
	for (int sig = 1; sig < NSIG; sig++) {
		if (is_fault(sig) || sigismember(&blocked, sig) == 1 ||
		    sigaction(sig, NULL, &sa))
			continue;
		if (!(sa.sa_flags & SA_SIGINFO) &&
		    (sa.sa_handler == SIG_DFL || sa.sa_handler == SIG_IGN))
			continue;
		if (sa.sa_flags & SA_RESTART)
			restart = true;
		else
			eintr = true;
	}
	if (!eintr)
		return restart ? ALL_RESTART : NO_HANDLER;
	return restart ? MIXED : ALL_EINTR;
}

static _Atomic uint64_t seen_handlers;	/* when; its lowest bit: of both kinds */

static enum handlers see_handlers(rr_time now)
{
	enum handlers h = scan_handlers();

	atomic_store_explicit(&seen_handlers, (now & ~UINT64_C(1)) | (h == MIXED),
			      memory_order_relaxed);
	return h;
}

/* Are there handlers of both kinds? The answer may be out of date (rr_is_outdated()); an EINTR
 * brings it up to date. */
static bool handlers_mixed(rr_time now)
{
	static _Atomic uint32_t uses;
	uint64_t seen = atomic_load_explicit(&seen_handlers, memory_order_relaxed);

	if (!seen || rr_is_outdated(now - seen, &uses))
		return see_handlers(now) == MIXED;
	return seen & 1;
}

/* --- sleeping --- */

struct sleeper {
	struct rr_sock *so;
	struct rr_conn *c;
	int fd;
	unsigned want;
	bool forever;		/* the app's call has no time-out, so the kernel would restart
				 * it */
	int option;		/* of a nap: the socket option that says whether it has a
				 * time-out; else 0 */
	struct pollfd p[2];
	int n;
	rr_time began;		/* when the sleep did */
	rr_time until;		/* when to look again for the connection's sake */
	/* Sleeps, or has slept, on the wake-up fd of a connection at rest alone. */
	bool naps, napped;
	int cancel;
};

/* Cleanup handler of a cancelled thread, which also gives back the caller's reference. */
static void wait_cancelled(void *arg)
{
	struct sleeper *s = arg;

	rr_conn_disarm(s->c, s->fd);
	rr_ep_activate(s->so);
	rr_file_put(&s->so->f);
}

/* Sleeps in the kernel's recv(), which has the kernel's own restart rules. 0: look again;
 * -EINTR; -EAGAIN: this sleep is not possible here. */
static int sleep_in_recv(const struct sleeper *s, const struct pollfd *p)
{
	char b;

	if (rr_real.recv(p->fd, &b, 1, MSG_PEEK) >= 0)
		return 0;
	if (errno == EINTR || errno == EAGAIN)
		return -errno;
	/* The call has taken the anchor's error from the socket, so the app must get it. */
	return p->fd == s->fd ? -errno : 0;
}

/* Sleeps in ppoll(). After EINTR decides by the installed handlers whether the kernel's recv()
 * or send() would have been restarted. 0: look again; -EINTR. */
static int sleep_in_poll(struct sleeper *s, rr_time now, rr_time end)
{
	struct timespec ts;

	if (rr_real_sleep(s->p, (nfds_t)s->n, rr_left(&ts, now, end), NULL) >= 0)
		return 0;
	if (errno != EINTR)
		return 0;
	if (s->option)
		s->forever = rr_wait_deadline(s->fd, s->option) == RR_TIME_NEVER;
	if (!s->forever)
		return -EINTR;
	switch (see_handlers(rr_now())) {
	case NO_HANDLER:
	case ALL_RESTART:
		return 0;
	default:
		return -EINTR;
	}
}

/* Are the bytes on p, the anchor, for the app (rr_conn_fds())? */
static bool is_apps(const struct pollfd *p)
{
	return p->events & POLLIN && !(p->events & POLLRDHUP);
}

/* The fd whose recv() can stand for the whole sleep; NULL: there is none. ours: when it has to
 * end for our sake. If the app's socket alone can have news, the kernel sees to the socket's
 * time-out, too. A listener has no recv(). */
static const struct pollfd *recv_sleep_on(struct sleeper *s, rr_time now, rr_time ours,
					  rr_time deadline)
{
	int wake = rr_conn_wakes_by_socket(s->c) ? rr_conn_wake_fd(s->c) : -1;

	if (ours != RR_TIME_NEVER || !s->n || rr_sock_listens(s->so))
		return NULL;
	if ((s->option || deadline == RR_TIME_NEVER) && s->n == 1 && s->p[0].fd == s->fd &&
	    s->p[0].events == POLLIN)
		return &s->p[0];
	if (deadline != RR_TIME_NEVER)
		return NULL;
	if (s->n == 1 && s->p[0].fd == wake && s->p[0].events == POLLIN)
		return &s->p[0];
	if (!handlers_mixed(now) || (s->n > 1 && is_apps(&s->p[0])))
		return NULL;
	/* poll() could not tell which kind of handler has run. The wake-up fd wakes for the
	 * peer's death, too; what the anchor has already must be looked at first. */
	for (int i = 0; i < s->n; i++)
		if ((s->n == 1 || s->p[i].fd == wake) && s->p[i].events & POLLIN &&
		    rr_real.poll(s->p, (nfds_t)s->n, 0) == 0)
			return &s->p[i];
	return NULL;
}

/* Sleeps once. 0: look again; else -errno for the app, or -EAGAIN: there can be no nap. Not
 * inlined into its caller, which siglongjmp() may return to: variables in registers would be
 * wrong there. */
static RR_NOINLINE int wait_sleep_once(struct sleeper *s, rr_time deadline)
{
	rr_time now = rr_now();
	rr_time ours = rr_min(s->until, rr_conn_idle(now));
	const struct pollfd *one;
	int rc = -EAGAIN;

	if (s->want == POLLOUT)
		ours = rr_min(ours, now + RR_SHUT_LOOK);
	one = recv_sleep_on(s, now, ours, deadline);
	if (!one && s->option && handlers_mixed(now))
		return -EAGAIN;
	if (one)
		rc = sleep_in_recv(s, one);
	if (rc == -EAGAIN)
		rc = sleep_in_poll(s, now, rr_min(deadline, ours));
	return rc;
}

/* Sleeps on what is armed, and disarms it. Returns as wait_sleep_once(). */
static int wait_sleep_armed(struct sleeper *s, rr_time deadline)
{
	int rc = 0;

	pthread_cleanup_push(wait_cancelled, s);
	rr_cancel_back(s->cancel);
	rc = wait_sleep_once(s, deadline);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &s->cancel);
	pthread_cleanup_pop(0);
	rr_conn_disarm_later(s->c, s->fd);
	rr_ep_activate(s->so);
	return rc;
}

/* The time is over: does the connection want to spin for longer by now? */
static bool wait_spin_longer(struct rr_conn *c, struct rr_spin *spin, rr_time deadline)
{
	spin->want = 0;
	rr_conn_spin(c, spin);
	return rr_spin_longer(spin, deadline);
}

/* Kept out of its callers, whose other paths need the stack. */
RR_NOINLINE bool rr_wait_spin(struct rr_conn *c, unsigned want, rr_time deadline)
{
	struct rr_spin spin = { 0 };
	bool found = rr_conn_peek(c, want);

	if (found)
		return true;
	rr_conn_spin(c, &spin);
	if (!rr_spin_begin(&spin, deadline))
		return false;
	while (!(found = rr_conn_peek(c, want)))
		if (!rr_spin_on(&spin) && !wait_spin_longer(c, &spin, deadline))
			break;
	if (found)
		rr_conn_seen(c, &spin);
	rr_spin_end(&spin, found);
	rr_conn_spun(&spin, found);
	return found;
}

/* Spins; true: there may be something. Unread bytes look like news as long as they lie there,
 * so a thread that waits to write asks again. */
static bool wait_spin(struct sleeper *s, rr_time deadline)
{
	return rr_wait_spin(s->c, s->want, deadline) &&
	       (s->want == POLLIN || rr_sock_poll(s->so, s->c, s->fd, s->want, 0));
}

/* Cleanup handler of a thread that is cancelled before it waits. */
static void drop_ref(void *so)
{
	rr_file_put(&((struct rr_sock *)so)->f);
}

/* A connection at rest has hardly anything that its wake-up fd does not tell of, and for that
 * there is the next sleep of this wait. By ppoll(): recv() has no such time-out. */
static void what_to_sleep_on(struct sleeper *s, rr_time now)
{
	int wake = s->napped ? -1 : rr_conn_rests(s->c);

	s->began = now;
	s->naps = wake >= 0 && !handlers_mixed(now);
	s->napped |= s->naps;
	if (!s->naps) {
		s->n = rr_conn_fds(s->c, s->fd, s->want, s->p, &s->until);
		return;
	}
	s->p[0] = (struct pollfd){ wake, POLLIN, 0 };
	s->n = 1;
	s->until = now + rr_nap_time();
}

/* The sleep has brought nothing. Returns 0 to look again, 1 if the app shall, or -EAGAIN. Not
 * inlined into its caller, below which connections are upgraded: that takes much of a small
 * stack. */
static RR_NOINLINE int slept_in_vain(struct sleeper *s, struct rr_fruitless *f,
				     rr_time deadline)
{
	rr_time now = rr_now();

	rr_fruitless_slept(f, s->began, now);
	if (s->naps && now >= rr_min(s->until, deadline) &&
	    rr_nap_has_missed(s->fd, now - s->began))
		return 0;
	if (now >= deadline)
		return -EAGAIN;
	return now >= s->until && !s->naps;
}

/* Waits until s->want may hold; returns as rr_wait_one(). */
static int wait_for_sleeper(struct sleeper *s, rr_time deadline)
{
	struct rr_fruitless f = { 0 };
	int rc, saved = errno;

	for (;; rr_fruitless_pause(&f)) {
		if (!s->c || rr_conn_is_tcp(s->c) || wait_spin(s, deadline))
			break;
		if (!rr_sock_at(s->so, s->fd))
			return -EBADF;
		if (!rr_conn_wakes_by_socket(s->c) && handlers_mixed(rr_now()))
			rr_conn_wake_by_socket(s->c);
		rc = rr_conn_arm(s->c, s->fd, s->want);
		if (rc < 0)
			return rc;
		if (rc)
			break;
		what_to_sleep_on(s, rr_now());
		rc = wait_sleep_armed(s, deadline);
		errno = saved;
		if (rc)
			return rc;
		if (s->want == POLLIN && rr_conn_peek(s->c, POLLIN)) {
			if (s->naps)
				rr_nap_had_news(s->began);
			break;
		}
		/* This also takes in what else has arrived. A bit that holds, or the kernel's
		 * word, ends the wait. */
		if (rr_sock_poll(s->so, s->c, s->fd, s->want, 0))
			break;
		rc = slept_in_vain(s, &f, deadline);
		if (rc)
			return rr_min(rc, 0);
	}
	return 0;
}

static int wait_until(struct sleeper *s, rr_time deadline)
{
	int rc;

	s->c = rr_sock_conn(s->so);
	pthread_cleanup_push(drop_ref, s->so);
	s->cancel = rr_cancel_off();
	pthread_cleanup_pop(0);
	rc = wait_for_sleeper(s, deadline);
	rr_cancel_back(s->cancel);
	return rc;
}

int rr_wait_one(struct rr_sock *so, int fd, unsigned want, rr_time deadline)
{
	struct sleeper s = { .so = so, .fd = fd, .want = want,
			     .forever = deadline == RR_TIME_NEVER };

	return wait_until(&s, deadline);
}

/* If handlers of both kinds are installed the kernel's recv() would have to sleep to the end,
 * which a nap cannot, so there is none. */
int rr_wait_nap(struct rr_sock *so, int fd, unsigned want, int option)
{
	struct sleeper s = { .so = so, .fd = fd, .want = want, .option = option };

	return wait_until(&s, rr_now() + NAP);
}
