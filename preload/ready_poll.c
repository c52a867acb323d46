/* SPDX-License-Identifier: BSD-3-Clause */
/* poll() and ppoll(), and the loop that select() shares.
 *
 * The kernel's array is the app's with the fds of ours taken out (-1), lengthened by what their
 * connections sleep on. The kernel asks each fd anew in every pass, and so does this: an fd
 * that another thread closed in mid-sleep is what its number is by then. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "core/base/os.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/wrap.h"

/* One entry of the app's array that the kernel alone cannot answer. */
struct slot {
	struct rr_file *file;	/* referenced; NULL: left to the kernel from now on */
	struct rr_conn *conn;	/* NULL: an epoll set */
	nfds_t at;
	bool kernel;		/* for now the kernel's answer is the right one */
	bool armed;
	bool deadlk;		/* this is a signal handler that interrupted a call on it */
};

struct work {
	struct pollfd *fds;	/* the app's */
	nfds_t n;
	struct pollfd *kern;	/* n, and up to 2 more for each slot */
	nfds_t extra;
	struct slot *slots;
	nfds_t nslots;
	nfds_t others;		/* entries of the app's array that are the kernel's alone */
	const sigset_t *mask;
	rr_time deadline;
	rr_time until;
	struct rr_fruitless fruitless;
	int cancel;
	int inner;		/* a private epoll set instead of the extra entries; -1 */
	void *mem;
	size_t mem_size;
};

enum { SPIN_LOOK = 4000 /* ns between looks at the kernel's fds */, FEW = 8 };

static struct rr_sock *slot_sock(const struct slot *s)
{
	return container_of(s->file, struct rr_sock, f);
}

/* --- which entries are ours --- */

static bool interesting(struct rr_file *f, int fd, struct rr_conn **conn)
{
	struct rr_sock *so = container_of(f, struct rr_sock, f);

	*conn = NULL;
	if (f->kind == RR_KIND_EPOLL)
		return rr_ep_managed(f);
	*conn = rr_sock_conn(so);
	return *conn && rr_sock_check(so, fd);
}

static nfds_t count_ours(const struct pollfd *fds, nfds_t n)
{
	nfds_t ours = 0;

	for (nfds_t i = 0; i < n; i++)
		ours += fds[i].fd >= 0 && rr_fdt_has(fds[i].fd);
	return ours;
}

static void find_slots(struct work *w, nfds_t max)
{
	for (nfds_t i = 0; i < w->n; i++) {
		struct slot s = { .at = i };

		w->kern[i] = (struct pollfd){ w->fds[i].fd, w->fds[i].events, 0 };
		if (w->fds[i].fd < 0)
			continue;
		w->others++;
		if (w->nslots == max || !(s.file = rr_fdt_get(w->fds[i].fd)))
			continue;
		if (!interesting(s.file, w->fds[i].fd, &s.conn)) {
			rr_file_put(s.file);
			continue;
		}
		w->others--;
		w->slots[w->nslots++] = s;
	}
}

static void drop_slot(struct work *w, struct slot *s)
{
	if (!s->file)
		return;
	rr_file_put(s->file);
	s->file = NULL;
	s->kernel = false;
	w->others++;
	w->kern[s->at].fd = w->fds[s->at].fd;
}

/* After a sleep: slots whose fd is no longer what it was are the kernel's. */
static void recheck_slots(struct work *w)
{
	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++) {
		struct rr_file *f = s->file ? rr_fdt_get(w->fds[s->at].fd) : NULL;

		if (f)
			rr_file_put(f);
		if (f != s->file || (s->conn && rr_conn_is_tcp(s->conn)))
			drop_slot(w, s);
	}
}

static void work_end(struct work *w)
{
	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++)
		if (s->file)
			rr_file_put(s->file);
	if (w->inner >= 0)
		rr_real.close(w->inner);
	if (w->mem)
		munmap(w->mem, w->mem_size);
}

/* --- what is ready --- */

static int ask_slot(struct work *w, struct slot *s)
{
	struct pollfd *p = &w->fds[s->at];
	rr_time until;

	if (s->conn)
		return rr_sock_poll(slot_sock(s), s->conn, p->fd, (unsigned)(unsigned short)p->events);
	if (p->events & (POLLIN | POLLRDNORM) && rr_ep_readable(s->file, p->fd, &until))
		return p->events & (POLLIN | POLLRDNORM);
	return 0;
}

/* Asks the connections; how many entries are ready. */
static int look_ours(struct work *w)
{
	int ready = 0;

	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++) {
		struct pollfd *p = &w->fds[s->at];
		int r;

		if (!s->file)
			continue;
		r = ask_slot(w, s);
		s->kernel = r == RR_CONN_KERNEL;
		s->deadlk = r == -EDEADLK;
		p->revents = r > 0 ? (short)r : 0;
		w->kern[s->at].fd = s->kernel ? p->fd : -1;
		ready += p->revents != 0;
	}
	return ready;
}

/* The kernel saw something on the anchor of a connection that is not carried yet: the
 * connection may know better (it may have been an offer, taken in by now). */
static bool take_kernel(struct work *w, struct slot *s)
{
	struct pollfd *p = &w->fds[s->at], *k = &w->kern[s->at];
	int r;

	if (!s->file || !s->kernel || !k->revents)
		return false;
	r = rr_sock_poll(slot_sock(s), s->conn, p->fd, (unsigned)(unsigned short)p->events);
	if (r == RR_CONN_KERNEL)
		r = k->revents;
	else if (r >= 0)
		s->kernel = false;
	p->revents = r > 0 ? (short)r : 0;
	return p->revents != 0;
}

/* What the kernel said, in w->kern[].revents: how many more entries are ready. */
static int look_kernel(struct work *w)
{
	struct slot *s = w->slots, *end = w->slots + w->nslots;
	int ready = 0;

	for (nfds_t i = 0; i < w->n; i++) {
		while (s < end && s->at < i)
			s++;
		if (s < end && s->at == i && s->file) {
			ready += take_kernel(w, s);
			continue;
		}
		w->fds[i].revents = w->kern[i].fd < 0 ? 0 : w->kern[i].revents;
		ready += w->fds[i].revents != 0;
	}
	return ready;
}

static bool any_kernel(const struct work *w)
{
	if (w->others)
		return true;
	for (const struct slot *s = w->slots; s < w->slots + w->nslots; s++)
		if (s->kernel)
			return true;
	return false;
}

/* The kernel's entries, after ours, of which so many are ready. told: it has just said all,
 * when it ended the sleep. */
static int look_theirs(struct work *w, int ready, bool told)
{
	int rc;

	if (!any_kernel(w)) {
		for (nfds_t i = 0; i < w->n; i++)
			if (w->fds[i].fd < 0)
				w->fds[i].revents = 0;
		return ready;
	}
	rc = told ? 0 : rr_real.poll(w->kern, w->n, 0);
	if (rc < 0)
		return ready && errno == EINTR ? ready : -errno;
	return ready + look_kernel(w);
}

/* Everything, without sleeping: how many entries are ready, or -errno. */
static int look(struct work *w)
{
	return look_theirs(w, look_ours(w), false);
}

/* --- spinning --- */

static bool has_news(const struct work *w, const struct slot *s)
{
	return s->file && s->conn &&
	       rr_conn_peek(s->conn, rr_ev_want((unsigned short)w->fds[s->at].events));
}

static bool peek(const struct work *w)
{
	for (const struct slot *s = w->slots; s < w->slots + w->nslots; s++)
		if (has_news(w, s))
			return true;
	return false;
}

/* Asks only those that show something, after a look at everything: a server of many connections
 * need not lock each of them for one that calls. */
static int look_news(struct work *w)
{
	int ready = 0;

	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++) {
		int r = has_news(w, s) ? ask_slot(w, s) : 0;

		w->fds[s->at].revents = r > 0 ? (short)r : 0;
		ready += r > 0;
	}
	return ready;
}

static void spin_budget(const struct work *w, struct rr_spin *spin)
{
	spin->want = 0;
	spin->enough = false;
	for (const struct slot *s = w->slots; s < w->slots + w->nslots && !spin->enough; s++)
		if (s->file && s->conn)
			rr_conn_spin(s->conn, spin);
}

static bool spin_longer(const struct work *w, struct rr_spin *spin)
{
	spin_budget(w, spin);
	return rr_spin_longer(spin, w->deadline);
}

static int spin_until(struct work *w, struct rr_spin *spin)
{
	rr_time looked = spin->now;
	int ready;

	do {
		bool kernel = spin->now - looked > SPIN_LOOK && any_kernel(w);

		if (!kernel && !peek(w))
			continue;
		/* The kernel's were not ready a few microseconds ago: that is how
		 * the app finds them when ours are. */
		ready = kernel ? look(w) : look_news(w);
		if (ready)
			return ready;
		looked = kernel ? spin->now : looked;
	} while (rr_spin_on(spin) || spin_longer(w, spin));
	return 0;
}

static int spin_for(struct work *w, struct rr_spin *spin)
{
	int ready;

	if (!rr_spin_begin(spin, w->deadline))
		return 0;
	ready = spin_until(w, spin);
	rr_spin_end(spin, ready > 0);
	rr_conn_spun(spin, ready > 0);
	return ready;
}

/* The first look, and a spin if that is worth it. If not, the thread is about to sleep, and the
 * kernel says then at once what is ready: it is asked before only where there is much to arm in
 * vain. */
static int look_and_spin(struct work *w, bool told)
{
	struct rr_spin spin = { 0 };
	int ready = look_ours(w);

	if (ready || !w->deadline || told)
		ready = look_theirs(w, ready, told);
	if (ready || !w->deadline)
		return ready;
	spin_budget(w, &spin);
	if (!told && (w->mask || w->nslots > FEW || spin.want || spin.yields))
		ready = look_theirs(w, 0, false);
	return ready ? ready : spin_for(w, &spin);
}

/* --- sleeping --- */

static void disarm(struct work *w)
{
	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++) {
		if (!s->armed)
			continue;
		s->armed = false;
		rr_conn_disarm(s->conn, w->fds[s->at].fd);
		rr_ep_activate(slot_sock(s));
	}
}

static void cancelled(void *arg)
{
	disarm(arg);
	work_end(arg);
}

/* 0 armed; 1 look again. */
static int arm_slot(struct work *w, struct slot *s)
{
	struct pollfd *p = &w->fds[s->at], out[2];
	rr_time until = RR_TIME_NEVER;
	int n;

	if (!s->conn) {
		w->kern[s->at].fd = p->fd;
		if (p->events & (POLLIN | POLLRDNORM) && rr_ep_readable(s->file, p->fd, &until))
			return 1;
		w->until = rr_min(w->until, until);
		return 0;
	}
	if (rr_conn_arm(s->conn, p->fd, rr_ev_want((unsigned short)p->events)))
		return 1;
	s->armed = true;
	n = rr_conn_fds(s->conn, p->fd, rr_ev_want((unsigned short)p->events), out, &until);
	w->until = rr_min(w->until, until);
	if (!s->kernel && p->events & (POLLOUT | POLLWRNORM))
		w->until = rr_min(w->until, rr_now() + RR_SHUT_LOOK);
	if (s->kernel && until == RR_TIME_NEVER)
		return 0;	/* in its place, with the app's own mask */
	w->kern[s->at].fd = -1;
	for (int i = 0; i < n; i++)
		w->kern[w->n + w->extra++] = out[i];
	return 0;
}

static int arm(struct work *w)
{
	w->extra = 0;
	w->until = rr_min(w->deadline, rr_conn_idle(rr_now()));
	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++) {
		if (s->file && !s->deadlk && arm_slot(w, s)) {
			disarm(w);
			return 1;
		}
	}
	return 0;
}

/* The lengthened array exceeds RLIMIT_NOFILE: what was added goes into an epoll set, which
 * takes the place of an entry of ours. */
static int shorten(struct work *w)
{
	struct pollfd *p = &w->kern[w->slots[0].at];
	nfds_t i = 0;

	while (p->fd >= 0 && ++i < w->nslots)
		p = &w->kern[w->slots[i].at];
	if (w->inner < 0)
		w->inner = rr_real.epoll_create1(EPOLL_CLOEXEC);
	if (w->inner < 0 || p->fd >= 0)
		return -EINVAL;
	for (i = 0; i < w->extra; i++) {
		struct pollfd *x = &w->kern[w->n + i];
		struct epoll_event ev = { .events = (unsigned short)x->events };

		rr_real.epoll_ctl(w->inner, EPOLL_CTL_ADD, x->fd, &ev);
	}
	w->extra = 0;
	p->fd = w->inner;
	p->events = POLLIN;
	return 0;
}

static int sleep_once(struct work *w)
{
	struct timespec ts;
	rr_time now = rr_now();
	int rc;

	rc = rr_real.ppoll(w->kern, w->n + w->extra, rr_left(&ts, now, w->until), w->mask);
	if (rc < 0 && errno == EINVAL && w->extra && !shorten(w))
		rc = rr_real.ppoll(w->kern, w->n, rr_left(&ts, now, w->until), w->mask);
	return rc < 0 ? -errno : rc;
}

/* What the sleep left in w->kern belongs to the app's entries only where they are the
 * kernel's; and the array is as before. */
static void unextend(struct work *w)
{
	for (struct slot *s = w->slots; s < w->slots + w->nslots; s++) {
		struct pollfd *k = &w->kern[s->at];

		if (k->fd == w->inner) {
			k->fd = -1;
			k->events = w->fds[s->at].events;
		}
	}
	if (w->inner >= 0) {
		rr_real.close(w->inner);
		w->inner = -1;
	}
}

static int sleep_armed(struct work *w)
{
	int rc;

	pthread_cleanup_push(cancelled, w);
	rr_cancel_back(w->cancel);
	rc = sleep_once(w);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	disarm(w);
	unextend(w);
	recheck_slots(w);
	return rc;
}

/* --- the loop --- */

static int wait_ready(struct work *w)
{
	rr_time slept, now;
	bool told = false;
	int ready, rc;

	for (;; rr_fruitless_pause(&w->fruitless)) {
		ready = look_and_spin(w, told);
		told = false;
		if (ready || (!w->deadline && !w->mask))
			return ready;
		for (struct slot *s = w->slots; s < w->slots + w->nslots; s++)
			if (s->deadlk)
				return -EINTR;
		if (arm(w)) {	/* perhaps again and again, for what the app never sees */
			if (rr_now() >= w->deadline)
				return look(w);
			continue;
		}
		slept = rr_now();
		rc = sleep_armed(w);
		if (rc < 0)
			return rc;
		now = rr_now();
		if (now >= w->deadline)
			return look(w);
		rr_fruitless_slept(&w->fruitless, slept, now);
		told = true;
	}
}

static int start(struct work *w, void *mem, nfds_t ours)
{
	w->kern = mem;
	w->slots = (struct slot *)(void *)(w->kern + w->n + 2 * ours);
	w->inner = -1;
	find_slots(w, ours);
	if (!w->nslots)		/* they went away, or to TCP */
		return 0;
	return 1;
}

static int plain(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	struct timespec ts;
	int rc = rr_real.ppoll(fds, n, rr_left(&ts, deadline ? rr_now() : 0, deadline), mask);

	return rc < 0 ? -errno : rc;
}

bool rr_fits_stack(size_t size)
{
	stack_t alt;

	return size <= 512 || (size <= 4096 && !sigaltstack(NULL, &alt) && !(alt.ss_flags & SS_ONSTACK));
}

int rr_poll_wait(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	nfds_t ours = count_ours(fds, n);
	size_t size = (n + 2 * ours) * sizeof(struct pollfd) + ours * sizeof(struct slot);
	bool small = rr_fits_stack(size);
	struct slot stack[small ? size / sizeof(struct slot) + 1 : 1];
	struct work w = { .fds = fds, .n = n, .mask = mask, .deadline = deadline };
	void *mem = stack;
	int rc, saved = errno;

	if (!ours)
		return plain(fds, n, deadline, mask);
	w.cancel = rr_cancel_off();
	if (!small) {
		mem = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (mem == MAP_FAILED) {
			rr_cancel_back(w.cancel);
			return -ENOMEM;
		}
		w.mem = mem;
		w.mem_size = size;
	}
	if (start(&w, mem, ours)) {
		rc = wait_ready(&w);
		if (rc < 0)
			for (nfds_t i = 0; i < n; i++)
				fds[i].revents = 0;
		work_end(&w);
		rr_cancel_back(w.cancel);
	} else {
		work_end(&w);
		rr_cancel_back(w.cancel);
		rc = plain(fds, n, deadline, mask);
	}
	errno = saved;
	return rc;
}

/* --- the calls --- */

/* Nothing of ours, or nothing that may be read: the kernel's. */
static bool not_ours(const struct pollfd *fds, nfds_t n)
{
	struct rlimit lim;

	if (!n || rr_bad_ptr(fds))
		return true;
	if (n > 1024 && (getrlimit(RLIMIT_NOFILE, &lim) || n > lim.rlim_cur))
		return true;
	return !count_ours(fds, n);
}

int rr_wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	rr_time deadline = RR_TIME_NEVER;

	if (likely(not_ours(fds, n)))
		return rr_real.poll(fds, n, timeout);
	if (timeout >= 0)
		deadline = timeout ? rr_now() + (rr_time)timeout * RR_MSEC : 0;
	return (int)rr_ret(rr_poll_wait(fds, n, deadline, NULL));
}

int rr_wrap_ppoll(struct pollfd *fds, nfds_t n, const struct timespec *timeout,
		  const sigset_t *mask)
{
	rr_time deadline;

	if (likely(not_ours(fds, n)) || (timeout && rr_bad_ptr(timeout)) ||
	    (mask && rr_bad_ptr(mask)) || (timeout && !rr_timespec_ok(timeout)))
		return rr_real.ppoll(fds, n, timeout, mask);
	deadline = rr_deadline(timeout);
	if (timeout && !timeout->tv_sec && !timeout->tv_nsec)
		deadline = 0;
	return (int)rr_ret(rr_poll_wait(fds, n, deadline, mask));
}
