/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait of poll() and select().
 *
 * The kernel's array is the app's, with the wake-up fds of connections at rest (rr_conn_rest())
 * in place of the app's own. Those of which the kernel has the first word (struct rr_plainwait)
 * stay as they are. Fds of other connections are taken out (-1) and asked; if it comes
 * to a sleep, what they sleep on is put behind. So who has many connections, of which few have
 * news, pays for those. The kernel asks each fd anew in every pass, and so does this: an fd
 * that another thread closed in mid-sleep is what its number is by then. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "preload/pollrest.h"
#include "preload/real.h"
#include "preload/restset.h"
#include "preload/scratch.h"
#include "preload/wrap.h"

enum {
	FEW = 8,		/* to arm, perhaps in vain */
	SUSPECT = 8,		/* sleeps in a row that ended for nothing */
};

/* --- which entries are ours --- */

static bool slot_is_plain(struct rr_work *w, struct rr_slot *s)
{
	struct rr_conn *c = rr_file_conn(s->file);

	if (!c || !rr_plainwait_add(&w->plainwait, c))
		return false;
	s->conn = c;
	s->plain = true;
	return true;
}

static bool slot_is_ours(struct rr_work *w, struct rr_slot *s, rr_time now)
{
	int fd = w->fds[s->at].fd;
	struct rr_sock *so;

	if (s->file->kind == RR_KIND_EPOLL) {
		rr_ep_show_nested();
		return rr_ep_managed(s->file);
	}
	so = container_of(s->file, struct rr_sock, f);
	s->conn = rr_sock_conn(so);
	return s->conn && (rr_pollrest_finds(w, s, now) || rr_sock_check(so, fd));
}

static nfds_t count_ours(const struct pollfd *fds, nfds_t n)
{
	nfds_t ours = 0;

	for (nfds_t i = 0; i < n; i++)
		ours += fds[i].fd >= 0 && rr_fdt_has(fds[i].fd);
	return ours;
}

static void find_slots(struct rr_work *w, nfds_t max)
{
	rr_time now = rr_now_coarse();

	for (nfds_t i = 0; i < w->n; i++) {
		struct rr_slot s = { .at = (uint32_t)i };

		w->kern[i] = (struct pollfd){ w->fds[i].fd, w->fds[i].events, 0 };
		w->fds[i].revents = 0;
		if (w->fds[i].fd < 0)
			continue;
		w->others++;
		if (w->nslots == max || !(s.file = rr_fdt_peek(w->fds[i].fd)))
			continue;
		if (slot_is_plain(w, &s)) {
			w->plain++;
		} else if (!(s.file = rr_fdt_get(w->fds[i].fd))) {
			continue;
		} else if (!slot_is_ours(w, &s, now)) {
			rr_file_put(s.file);
			continue;
		}
		w->others--;
		w->slots[w->nslots++] = s;
	}
}

/* Before any sleep: an upgrade that looked for sleepers meanwhile may not have seen this
 * one. */
static void confirm_plain(struct rr_work *w)
{
	if (!w->plain || rr_plainwait_is_sure(w->plainwait))
		return;
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++)
		if (s->plain && !rr_plainwait_stays(s->conn))
			rr_plain_leaves(w, s);
}

/* After a sleep: slots whose fd is no longer what it was are the kernel's. */
static void recheck_slots(struct rr_work *w, bool resting)
{
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++) {
		struct rr_file *f;

		if (!s->file || ((s->rests || s->plain) && !resting))
			continue;
		f = rr_fdt_peek(w->fds[s->at].fd);
		if (f != s->file || (s->conn && rr_conn_is_tcp(s->conn)))
			rr_slot_drop(w, s);
	}
}

static void work_end(struct rr_work *w)
{
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++) {
		if (s->rests)
			rr_conn_rested(s->conn);
		if (s->file && !s->plain)
			rr_file_put(s->file);
	}
	rr_plainwait_end(w->plainwait);
	if (w->set)
		rr_restset_give();
	if (w->inner >= 0)
		rr_real.close(w->inner);
	if (w->mem)
		rr_scratch_give(w->mem);
}

/* --- what is ready --- */

/* Bytes are about to be told of: the number is looked at, unless that was just done. */
static int ask_slot(struct rr_work *w, struct rr_slot *s, unsigned how)
{
	struct pollfd *p = &w->fds[s->at];
	rr_time until;
	int r;

	if (s->conn) {
		r = rr_sock_poll(rr_slot_sock(s), s->conn, p->fd,
				 (unsigned)(unsigned short)p->events, how);
		if (r <= 0 || rr_sock_check(rr_slot_sock(s), p->fd))
			return r;
		rr_slot_drop(w, s);
		return 0;
	}
	if (p->events & (POLLIN | POLLRDNORM) && rr_ep_readable(s->file, p->fd, &until))
		return p->events & (POLLIN | POLLRDNORM);
	return 0;
}

/* Asks the connections that do not rest; how many entries are ready. told: the kernel has just
 * ended a sleep, and who is asked for what it said of it (take_kernel()) need not be asked
 * twice. */
static int look_ours(struct rr_work *w, bool told)
{
	int ready = 0;

	w->awake = NULL;
	for (struct rr_slot *s = w->slots + w->nslots; s-- > w->slots;) {
		struct pollfd *p = &w->fds[s->at];
		int r;

		s->listed = false;
		if (!s->file || s->rests || s->plain)
			continue;
		if (told && s->kernel && w->kern[s->at].revents) {
			p->revents = 0;
			rr_slot_wakes(w, s);
			continue;
		}
		r = ask_slot(w, s, RR_ASK_FIRST);
		if (!s->file)
			continue;
		s->kernel = r == RR_CONN_KERNEL;
		s->deadlk = r == -EDEADLK;
		p->revents = r > 0 ? (short)r : 0;
		w->kern[s->at].fd = s->kernel ? p->fd : -1;
		ready += p->revents != 0;
		if (!r)
			rr_pollrest_tires(w, s);
		if (!s->rests)
			rr_slot_wakes(w, s);
	}
	return ready;
}

/* The kernel saw something on the anchor of a connection that is not carried yet, which may
 * know better (it may have been an offer, taken in by now); or on the wake-up fd of one at
 * rest. */
static bool take_kernel(struct rr_work *w, struct rr_slot *s)
{
	struct pollfd *p = &w->fds[s->at], *k = &w->kern[s->at];
	short told = k->revents;
	int r;

	if (s->rests) {
		p->revents = 0;
		if (!told)
			return false;
		rr_pollrest_leaves(w, s, true);
	} else if (s->plain) {
		p->revents = 0;
		if (!told)
			return false;
		if (!rr_plain_leaves(w, s)) {
			p->revents = told;
			return true;
		}
		s->kernel = true;
	} else if (!s->kernel || !told) {
		return p->revents != 0;
	}
	r = ask_slot(w, s, s->kernel ? rr_ask_told((unsigned short)told) : 0);
	if (!s->file)
		return false;
	s->deadlk = s->kernel && r == -EDEADLK;
	if (r == RR_CONN_KERNEL)
		r = s->kernel ? rr_still_told(s->conn, p, told) : 0;
	else if (r >= 0)
		s->kernel = false;
	p->revents = r > 0 ? (short)r : 0;
	return p->revents != 0;
}

/* What the kernel said, in w->kern[].revents: how many entries are ready, with those that were
 * found before. */
static int look_kernel(struct rr_work *w)
{
	struct rr_slot *s = w->slots, *end = w->slots + w->nslots;
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

static bool any_kernel(const struct rr_work *w)
{
	if (w->others || w->resting || w->plain)
		return true;
	for (const struct rr_slot *s = w->awake; s; s = s->next)
		if (s->kernel)
			return true;
	return false;
}

static void none_of_the_kernels(struct rr_work *w)
{
	struct rr_slot *s = w->slots, *end = w->slots + w->nslots;

	for (nfds_t i = 0; i < w->n; i++) {
		if (s < end && s->at == i && (s++)->file && !s[-1].rests && !s[-1].plain)
			continue;
		w->fds[i].revents = 0;
	}
}

/* The kernel's entries, after ours, of which so many are ready. told: it has just said all,
 * when it ended the sleep. */
static int look_theirs(struct rr_work *w, int ready, bool told)
{
	int rc;

	if (!told && !any_kernel(w)) {
		none_of_the_kernels(w);
		return ready;
	}
	rc = told ? 0 : rr_real.poll(w->kern, w->n + w->set, 0);
	if (rc < 0 && errno == EINVAL && w->set) {
		rr_pollrest_without(w);
		rc = rr_real.poll(w->kern, w->n, 0);
	}
	if (rc < 0)
		return ready && errno == EINTR ? ready : -errno;
	if (!told)
		rr_look_note(w);
	rr_pollrest_spread(w);
	return look_kernel(w);
}

/* Everything, without sleeping: how many entries are ready, or -errno. */
static int look_once(struct rr_work *w)
{
	return look_theirs(w, look_ours(w, false), false);
}

/* --- spinning --- */

static bool has_news(const struct rr_work *w, const struct rr_slot *s)
{
	return s->file && s->conn && rr_conn_peek(s->conn, rr_slot_want(w, s));
}

static bool peek_work(const struct rr_work *w)
{
	for (const struct rr_slot *s = w->awake; s; s = s->next)
		if (has_news(w, s))
			return true;
	return false;
}

/* Asks only those that show something, after a look at everything: a server of many connections
 * need not lock each of them for one that calls. */
static int look_news(struct rr_work *w)
{
	int ready = 0;

	for (struct rr_slot *s = w->awake; s; s = s->next) {
		int r = has_news(w, s) ? ask_slot(w, s, 0) : 0;

		w->fds[s->at].revents = r > 0 ? (short)r : 0;
		ready += r > 0;
	}
	return ready;
}

static void spin_budget(const struct rr_work *w, struct rr_spin *spin)
{
	spin->want = 0;
	spin->enough = false;
	for (const struct rr_slot *s = w->awake; s && !spin->enough; s = s->next)
		if (s->file && s->conn)
			rr_conn_spin(s->conn, spin);
}

static bool work_spin_longer(const struct rr_work *w, struct rr_spin *spin)
{
	spin_budget(w, spin);
	return rr_spin_longer(spin, w->deadline);
}

static int work_spin_until(struct rr_work *w, struct rr_spin *spin)
{
	rr_time gap = rr_look_gap(w), looked = rr_looked_at(w);
	int ready;

	if (!looked)
		looked = spin->now;
	do {
		bool kernel = spin->now > looked + gap && any_kernel(w);

		if (!kernel && !peek_work(w))
			continue;
		/* The kernel's were not ready a few microseconds ago: that is how
		 * the app finds them when ours are. */
		ready = kernel ? look_once(w) : look_news(w);
		if (ready)
			return ready;
		looked = kernel ? spin->now : looked;
	} while (rr_spin_on(spin) || work_spin_longer(w, spin));
	return 0;
}

static int work_spin_for(struct rr_work *w, struct rr_spin *spin)
{
	int ready;

	if (!rr_spin_begin(spin, w->deadline))
		return 0;
	ready = work_spin_until(w, spin);
	rr_spin_end(spin, ready > 0);
	rr_conn_spun(spin, ready > 0);
	return ready;
}

/* The first look, and a spin if that is worth it. If not, the thread is about to sleep, and the
 * kernel says then at once what is ready: it is asked before only where there is much to arm in
 * vain. */
static int look_and_spin(struct rr_work *w, bool told)
{
	struct rr_spin spin = { 0 };
	int ready = look_ours(w, told);

	if (ready && w->deadline && !told && rr_looked_just_now(w)) {
		none_of_the_kernels(w);
		return ready;
	}
	if (ready || !w->deadline || told)
		ready = look_theirs(w, ready, told);
	if (ready || !w->deadline)
		return ready;
	spin_budget(w, &spin);
	if (!told && !rr_looked_just_now(w) &&
	    (w->mask || w->nslots - w->resting - w->plain > FEW || spin.want || spin.yields))
		ready = look_theirs(w, 0, false);
	return ready ? ready : work_spin_for(w, &spin);
}

/* --- sleeping --- */

static void disarm_work(struct rr_work *w)
{
	for (struct rr_slot *s = w->awake; s; s = s->next) {
		if (!s->armed)
			continue;
		s->armed = false;
		rr_conn_disarm(s->conn, w->fds[s->at].fd);
		rr_ep_activate(rr_slot_sock(s));
	}
}

static void poll_cancelled(void *arg)
{
	disarm_work(arg);
	work_end(arg);
}

/* 0 armed; 1 look again. */
static int arm_slot(struct rr_work *w, struct rr_slot *s)
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
	if (rr_conn_arm(s->conn, p->fd, rr_slot_want(w, s)))
		return 1;
	n = rr_conn_rests(s->conn);
	if (n >= 0) {
		rr_pollrest_put(w, s, n);
		return 0;
	}
	s->armed = true;
	n = rr_conn_fds(s->conn, p->fd, rr_slot_want(w, s), out, &until);
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

static int arm_work(struct rr_work *w)
{
	rr_time now = rr_now();

	w->extra = w->set;
	w->until = rr_min(w->deadline, rr_conn_idle(now));
	for (struct rr_slot *s = w->awake; s; s = s->next) {
		if (s->file && !s->deadlk && arm_slot(w, s)) {
			disarm_work(w);
			return 1;
		}
	}
	if (w->resting && !w->verify)
		w->verify = now + RR_REST_LOOK;
	if (w->resting)
		w->until = rr_min(w->until, w->verify);
	return 0;
}

/* The lengthened array exceeds RLIMIT_NOFILE: what was added goes into an epoll set, which
 * takes the place of an entry of ours; the set of those at rest alone can be done without. */
static int shorten(struct rr_work *w)
{
	const struct rr_slot *s = w->awake;
	struct pollfd *p;

	if (w->extra == w->set) {
		rr_pollrest_without(w);
		w->extra = 0;
		return 0;
	}
	while (s && w->kern[s->at].fd >= 0)
		s = s->next;
	if (w->inner < 0)
		w->inner = rr_real.epoll_create1(EPOLL_CLOEXEC);
	if (w->inner < 0 || !s)
		return -EINVAL;
	p = &w->kern[s->at];
	for (nfds_t i = 0; i < w->extra; i++) {
		struct pollfd *x = &w->kern[w->n + i];
		struct epoll_event ev = { .events = (unsigned short)x->events };

		rr_real.epoll_ctl(w->inner, EPOLL_CTL_ADD, x->fd, &ev);
	}
	w->extra = 0;
	p->fd = w->inner;
	p->events = POLLIN;
	w->kern[w->n].revents = w->set ? POLLIN : 0;	/* perhaps */
	return 0;
}

static int work_sleep_once(struct rr_work *w)
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
static void unextend(struct rr_work *w)
{
	if (w->inner >= 0) {
		for (struct rr_slot *s = w->awake; s; s = s->next) {
			struct pollfd *k = &w->kern[s->at];

			if (k->fd == w->inner)
				*k = (struct pollfd){ -1, w->fds[s->at].events, 0 };
		}
		rr_real.close(w->inner);
		w->inner = -1;
	}
}

static int work_sleep_armed(struct rr_work *w)
{
	int rc;

	pthread_cleanup_push(poll_cancelled, w);
	rr_cancel_back(w->cancel);
	rc = work_sleep_once(w);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	disarm_work(w);
	unextend(w);
	recheck_slots(w, false);
	return rc;
}

/* --- the loop --- */

static int wait_ready(struct rr_work *w)
{
	rr_time slept, now;
	bool told = false;
	int ready, rc;

	for (;; rr_fruitless_pause(&w->fruitless)) {
		ready = look_and_spin(w, told);
		if (ready || (!w->deadline && !w->mask))
			return ready;
		if (told)	/* and sleeps again */
			recheck_slots(w, true);
		told = false;
		for (struct rr_slot *s = w->awake; s; s = s->next)
			if (s->deadlk)
				return -EINTR;
		if (arm_work(w)) {	/* perhaps again and again, for what the app never
					 * sees */
			if (rr_now() >= w->deadline)
				return look_once(w);
			continue;
		}
		slept = rr_now();
		rc = work_sleep_armed(w);
		if (rc < 0)
			return rc;
		now = rr_now();
		if (now >= w->deadline)
			return look_once(w);
		if (!rc && w->verify && now >= w->verify)
			rr_pollrest_verify(w);
		else
			rr_fruitless_slept(&w->fruitless, slept, now);
		if (unlikely(w->fruitless.n == SUSPECT) && w->set) {
			rr_restset_reset();
			rr_pollrest_without(w);
		}
		told = true;
	}
}

static int work_start(struct rr_work *w, void *mem, nfds_t ours)
{
	w->kern = mem;
	w->slots = (struct rr_slot *)(void *)(w->kern + w->n + 1 + 2 * ours);
	w->inner = -1;
	rr_pollrest_start(w, ours);
	find_slots(w, ours);
	confirm_plain(w);
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

	return size <= RR_STACK ||
	       (size <= 4096 && !sigaltstack(NULL, &alt) && !(alt.ss_flags & SS_ONSTACK));
}

static RR_NOINLINE int wait_for_ours(struct pollfd *fds, nfds_t n, nfds_t ours,
				     rr_time deadline, const sigset_t *mask)
{
	size_t size = (n + 1 + 2 * ours) * sizeof(struct pollfd) + ours *
		      sizeof(struct rr_slot);
	bool small = size <= RR_STACK;
	struct rr_slot stack[small ? size / sizeof(struct rr_slot) + 1 : 1];
	struct rr_work w = { .fds = fds, .n = n, .mask = mask, .deadline = deadline };
	void *mem = stack;
	int rc, saved = errno;

	w.cancel = rr_cancel_off();
	if (!small) {
		mem = w.mem = rr_scratch_take(size);
		if (!mem) {
			rr_cancel_back(w.cancel);
			return -ENOMEM;
		}
	}
	if (work_start(&w, mem, ours)) {
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

int rr_poll_wait(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	int rc = rr_poll_plain(fds, n, deadline, mask);
	nfds_t ours;

	if (rc != RR_POLL_ON)
		return rc;
	ours = count_ours(fds, n);
	return ours ? wait_for_ours(fds, n, ours, deadline, mask)
		    : plain(fds, n, deadline, mask);
}
