/* SPDX-License-Identifier: BSD-3-Clause */
/* The wait of poll() and select() where an fd may be ours: looks, spins, arms, sleeps.
 *
 * The kernel is given an array of our own (pollfind.c). A connection at rest (rr_conn_rest())
 * has its wake-up fd there in place of the app's fd, or has no entry, where one set stands for
 * all of them (restset.h). An fd about which the kernel has the first word (struct
 * rr_plainwait) stays as it is. Any other connection of ours is taken out (-1) and asked;
 * before a sleep, the fds to sleep on for it are added behind the array. So a process with many
 * connections, few of which have news, pays for those few.
 *
 * The kernel looks every fd up anew in each pass, and so does this wait: after a sleep, an fd
 * that another thread has closed is what its number means by then. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/os.h"
#include "preload/looks.h"
#include "preload/pollrest.h"
#include "preload/real.h"
#include "preload/restset.h"
#include "preload/wrap.h"

enum {
	FEW = 8,		/* so many slots are armed without asking the kernel first */
	SUSPECT = 8,		/* so many sleeps in a row that ended for nothing throw doubt on
				 * the set */
};

/* --- what has changed meanwhile --- */

/* Before any sleep: an upgrade that looked for sleepers meanwhile may have missed this thread.
 * Connections that do not stay plain are asked. */
static void confirm_plain(struct rr_work *w)
{
	if (!w->plain || rr_plainwait_is_sure(w->plainwait))
		return;
	for (nfds_t k = 1; k < w->nk; k++) {
		struct rr_slot *s = rr_work_slot(w, k);

		if (s && s->plain && !rr_plainwait_stays(s->conn))
			rr_plain_leaves(w, s);
	}
}

/* After a sleep: a slot whose fd is no longer what it was is the kernel's. */
static void recheck_slot(struct rr_work *w, struct rr_slot *s)
{
	struct rr_file *f = s->file ? rr_fdt_peek(w->fds[s->at].fd) : NULL;

	if (s->file && (f != s->file || (s->conn && rr_conn_is_tcp(s->conn))))
		rr_slot_drop(w, s);
}

static void recheck_awake(struct rr_work *w)
{
	for (struct rr_slot *s = w->awake; s; s = s->next)
		if (!s->rests && !s->plain)
			recheck_slot(w, s);
}

static void recheck_all(struct rr_work *w)
{
	uint32_t changes = rr_fdt_changes();

	for (nfds_t k = 1; k < w->nk; k++) {
		struct rr_slot *s = rr_work_slot(w, k);

		if (s)
			recheck_slot(w, s);
	}
	if (!w->standing || changes == w->rechecked)
		return;
	w->rechecked = changes;
	for (struct rr_slot *s = w->slots; s < w->slots + w->nslots; s++)
		if (s->standing)
			recheck_slot(w, s);
}

/* --- looking --- */

/* Asks one connection or epoll set: bits, 0, RR_CONN_KERNEL or -EDEADLK. Before bytes are
 * reported, the fd number is verified if that is due. */
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

/* Whether the app's entry is ready. told: as for look_awake(). */
static bool look_slot(struct rr_work *w, struct rr_slot *s, bool told)
{
	struct pollfd *p = &w->fds[s->at];
	int r;

	s->listed = false;
	if (!s->file || s->rests || s->plain)
		return false;
	if (told && s->kernel && w->kern[s->k].revents) {
		p->revents = 0;
		rr_slot_wakes(w, s);
		return false;
	}
	r = ask_slot(w, s, RR_ASK_FIRST);
	if (!s->file)
		return false;
	s->kernel = r == RR_CONN_KERNEL;
	s->deadlk = r == -EDEADLK;
	p->revents = r > 0 ? (short)r : 0;
	w->kern[s->k].fd = s->kernel ? p->fd : -1;
	if (!r)
		rr_pollrest_tires(w, s);
	if (!s->rests)
		rr_slot_wakes(w, s);
	return p->revents != 0;
}

/* After a sleep of the kernel's, before which all others were at rest or plain: asks those that
 * were awake, but not those that the kernel has reported, which take_kernel() asks. */
static int look_awake(struct rr_work *w)
{
	struct rr_slot *s = w->awake, *next;
	int ready = 0;

	for (w->awake = NULL; s; s = next) {
		next = s->next;
		ready += look_slot(w, s, true);
	}
	return ready;
}

/* Asks the connections that do not rest; how many entries are ready. */
static int look_ours(struct rr_work *w, bool told)
{
	int ready = 0;

	if (told)
		return look_awake(w);
	w->awake = NULL;
	for (nfds_t k = w->nk; k-- > 1;) {
		struct rr_slot *s = rr_work_slot(w, k);

		ready += s && look_slot(w, s, false);
	}
	return ready;
}

/* The kernel has reported entry s: a connection that is not carried yet, which may know better
 * (an offer that it has taken in), or the wake-up fd of one at rest. Returns whether the entry
 * is ready for the app. */
static bool take_kernel(struct rr_work *w, struct rr_slot *s)
{
	struct pollfd *p = &w->fds[s->at];
	short told = w->kern[s->k].revents;
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

/* Takes in the kernel's answer in w->kern[].revents. Returns how many entries are ready,
 * including those found before. */
static int look_kernel(struct rr_work *w)
{
	int ready = 0;

	for (nfds_t k = 1; k < w->nk; k++) {
		struct rr_slot *s = rr_work_slot(w, k);
		struct pollfd *p = &w->fds[w->places[k].at];

		if (s && s->file) {
			ready += take_kernel(w, s);
			continue;
		}
		p->revents = w->kern[k].fd < 0 ? 0 : w->kern[k].revents;
		ready += p->revents != 0;
	}
	return ready;
}

/* Is there any entry that the kernel has to be asked about? */
static bool any_kernel(const struct rr_work *w)
{
	if (w->others || w->resting || w->plain)
		return true;
	for (const struct rr_slot *s = w->awake; s; s = s->next)
		if (s->kernel)
			return true;
	return false;
}

/* Clears revents of the entries that are the kernel's, which is not asked now. */
static void none_of_the_kernels(struct rr_work *w)
{
	for (nfds_t k = 1; k < w->nk; k++) {
		const struct rr_slot *s = rr_work_slot(w, k);

		if (!s || !s->file || s->rests || s->plain)
			w->fds[w->places[k].at].revents = 0;
	}
}

/* Asks the kernel without sleeping. */
static int ask_kernel(struct rr_work *w)
{
	return rr_real.poll(rr_work_kern(w), rr_work_count(w), 0);
}

/* Looks at the kernel's entries, after ours, of which `ready` are ready. told: the kernel has
 * reported all when it ended the sleep. Returns how many entries are ready, or -errno. */
static int look_theirs(struct rr_work *w, int ready, bool told)
{
	int rc;

	if (!told && !any_kernel(w)) {
		none_of_the_kernels(w);
		return ready;
	}
	rc = told ? 0 : ask_kernel(w);
	if (rc < 0 && errno == EINVAL && w->set) {
		rr_pollrest_without(w);
		rc = ask_kernel(w);
	}
	if (rc < 0)
		return ready && errno == EINTR ? ready : -errno;
	if (!told)
		rr_looks_note(w);
	rr_pollrest_spread(w);
	return look_kernel(w);
}

/* Looks at everything without sleeping. Returns how many entries are ready, or -errno. */
static int look_once(struct rr_work *w)
{
	return look_theirs(w, look_ours(w, false), false);
}

/* --- spinning --- */

/* Does memory show something new? Costs no lock and no system call. */
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

/* After a look at everything: asks only connections whose memory shows news. A server with many
 * connections need not lock each of them when one client calls. */
static int look_news(struct rr_work *w, const struct rr_spin *spin)
{
	int ready = 0;

	for (struct rr_slot *s = w->awake; s; s = s->next) {
		int r = 0;

		if (has_news(w, s)) {
			rr_conn_seen(s->conn, spin);
			r = ask_slot(w, s, 0);
		}
		w->fds[s->at].revents = r > 0 ? (short)r : 0;
		ready += r > 0;
	}
	return ready;
}

/* How long the connections that are awake want to spin, into *spin. */
static void spin_budget(const struct rr_work *w, struct rr_spin *spin)
{
	spin->want = 0;
	spin->enough = false;
	for (const struct rr_slot *s = w->awake; s && !spin->enough; s = s->next)
		if (s->file && s->conn)
			rr_conn_spin(s->conn, spin);
}

/* The time is over: do they want to spin for longer by now? */
static bool work_spin_longer(const struct rr_work *w, struct rr_spin *spin)
{
	spin_budget(w, spin);
	return rr_spin_longer(spin, w->deadline);
}

/* Spins until something is ready. Returns as look_once(), or 0 when the time is over. */
static int work_spin_until(struct rr_work *w, struct rr_spin *spin)
{
	rr_time gap = rr_looks_gap(w), looked = rr_looks_last(w);
	int ready;

	if (!looked)
		looked = spin->now;
	do {
		bool kernel = spin->now > looked + gap && any_kernel(w);

		if (!kernel && !peek_work(w))
			continue;
		/* The kernel's fds were not ready some microseconds ago: the app is told of
		 * ours alone, as the kernel might have told it then. */
		ready = kernel ? look_once(w) : look_news(w, spin);
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

/* The first look, and a spin if that pays. If it does not, the thread is about to sleep and the
 * kernel will report at once what is ready, so the kernel is asked before only where much would
 * be armed in vain. */
static int look_and_spin(struct rr_work *w, bool told)
{
	struct rr_spin spin = { 0 };
	int ready = look_ours(w, told);

	if (ready && w->deadline && !told && rr_looks_recent(w)) {
		none_of_the_kernels(w);
		return ready;
	}
	if (ready || !w->deadline || told)
		ready = look_theirs(w, ready, told);
	if (ready || !w->deadline)
		return ready;
	spin_budget(w, &spin);
	if (!told && !rr_looks_recent(w) &&
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

/* Cleanup handler of a thread that is cancelled in its sleep. */
static void poll_cancelled(void *arg)
{
	disarm_work(arg);
	rr_pollfind_end(arg);
}

/* Arms one slot and adds the fds to sleep on. 0: armed; 1: it has news, look again. */
static int arm_slot(struct rr_work *w, struct rr_slot *s)
{
	struct pollfd *p = &w->fds[s->at], out[2];
	rr_time until = RR_TIME_NEVER;
	int n;

	if (!s->conn) {
		w->kern[s->k].fd = p->fd;
		w->until = rr_min(w->until, rr_ep_show_nested());
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
		return 0;	/* the kernel's entry stands, with the app's own mask */
	w->kern[s->k].fd = -1;
	for (int i = 0; i < n; i++)
		w->kern[w->nk + w->extra++] = out[i];
	return 0;
}

/* Arms all slots that are awake. 0: armed; 1: one has news, and nothing is armed any more. */
static int arm_work(struct rr_work *w)
{
	rr_time now = rr_now();

	w->extra = 0;
	w->until = rr_min(w->deadline, rr_conn_idle(now));
	for (struct rr_slot *s = w->awake; s; s = s->next) {
		if (s->file && !s->deadlk && arm_slot(w, s)) {
			disarm_work(w);
			return 1;
		}
	}
	if (w->resting && !w->verify)
		w->verify = rr_pollrest_look(w, now);
	if (w->resting)
		w->until = rr_min(w->until, w->verify);
	return 0;
}

/* EINVAL: with our entries the array is longer than RLIMIT_NOFILE allows. */
static int work_sleep_once(struct rr_work *w)
{
	struct timespec ts;
	rr_time now = rr_now();
	int rc;

	rc = rr_real_sleep(rr_work_kern(w), rr_work_count(w) + w->extra,
			   rr_left(&ts, now, w->until), w->mask);
	if (rc < 0 && errno == EINVAL && (w->extra || w->set) && !rr_pollshort_begin(w))
		rc = rr_real_sleep(rr_work_kern(w), rr_work_count(w),
				   rr_left(&ts, now, w->until), w->mask);
	return rc < 0 ? -errno : rc;
}

/* Sleeps, and disarms everything afterwards, however the sleep ends. A cancellation point. */
static int work_sleep_armed(struct rr_work *w)
{
	int rc;

	pthread_cleanup_push(poll_cancelled, w);
	rr_cancel_back(w->cancel);
	rc = work_sleep_once(w);
	pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &w->cancel);
	pthread_cleanup_pop(0);
	disarm_work(w);
	rr_pollshort_end(w);
	recheck_awake(w);
	return rc;
}

/* --- the loop --- */

/* Looks, spins, arms and sleeps until something is ready or the time is over. Returns as
 * rr_poll_wait(). With a signal mask the kernel is called even if there is no time to wait,
 * because a pending signal that the mask lets in has to end the call. */
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
			recheck_all(w);
		told = false;
		for (struct rr_slot *s = w->awake; s; s = s->next)
			if (s->deadlk)
				return -EINTR;
		if (arm_work(w)) {	/* this may repeat: the peer may send what the app never
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

/* The kernel's own call, on the app's array. */
static int plain(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	struct timespec ts;
	int rc = rr_real_sleep(fds, n, rr_left(&ts, deadline ? rr_now() : 0, deadline), mask);

	return rc < 0 ? -errno : rc;
}

bool rr_fits_stack(size_t size)
{
	stack_t alt;

	return size <= RR_STACK ||
	       (size <= 4096 && !sigaltstack(NULL, &alt) && !(alt.ss_flags & SS_ONSTACK));
}

/* The arrays are filled: waits, and lets go of them. */
static int wait_filled(struct rr_work *w)
{
	int rc;

	w->rechecked = w->changes;
	confirm_plain(w);
	rc = wait_ready(w);
	if (rc < 0)
		for (nfds_t i = 0; i < w->n; i++)
			w->fds[i].revents = 0;
	rr_pollfind_end(w);
	return rc;
}

/* A wait on the array of the wait before. RR_POLL_ON: it is another one. */
static RR_NOINLINE int wait_again(struct pollfd *fds, nfds_t n, rr_time deadline,
				  const sigset_t *mask)
{
	struct rr_work w = { .fds = fds, .n = n, .mask = mask, .deadline = deadline };
	int rc = RR_POLL_ON, saved = errno;

	w.cancel = rr_cancel_off();
	if (rr_pollfind_again(&w))
		rc = wait_filled(&w);
	rr_cancel_back(w.cancel);
	errno = saved;
	return rc;
}

/* The arrays lie on the stack if they are small, otherwise in memory that is kept for such
 * calls (scratch.h): this may run on a signal handler's stack. */
static RR_NOINLINE int wait_for_ours(struct pollfd *fds, nfds_t n, nfds_t ours,
				     rr_time deadline, const sigset_t *mask)
{
	size_t size = rr_pollfind_size(n, ours);
	bool small = size <= RR_STACK && ours < RR_POLL_MANY;	/* those of many are kept */
	struct rr_slot stack[small ? size / sizeof(struct rr_slot) + 1 : 1];
	struct rr_work w = { .fds = fds, .n = n, .mask = mask, .deadline = deadline };
	int rc = -ENOMEM, saved = errno;

	w.cancel = rr_cancel_off();
	if (rr_pollfind(&w, ours, small ? stack : NULL)) {
		if (w.nslots) {
			rc = wait_filled(&w);
			rr_cancel_back(w.cancel);
		} else {	/* none is ours any more */
			rr_pollfind_end(&w);
			rr_cancel_back(w.cancel);
			rc = plain(fds, n, deadline, mask);
		}
	} else {
		rr_cancel_back(w.cancel);
	}
	errno = saved;
	return rc;
}

/* How many entries are ours; another thread may add or take away some meanwhile. */
static nfds_t count_ours(const struct pollfd *fds, nfds_t n)
{
	nfds_t ours = 0;

	for (nfds_t i = 0; i < n; i++)
		ours += rr_fdt_has(fds[i].fd);
	return ours;
}

/* The entries that are not met, and cannot stay so in a wait with others, or for longer. Most
 * apps put new connections at the end. */
static void meet_entries(const struct pollfd *fds, nfds_t n)
{
	uint32_t left = atomic_load_explicit(&rr_unmet_n, memory_order_relaxed);
	struct rr_sock *so;

	while (left && n--) {
		struct rr_file *f = rr_fdt_peek(fds[n].fd);

		if (!f || !rr_unmet_file(f))
			continue;
		left--;
		if (rr_conn_at(fds[n].fd, &so))
			rr_file_put(&so->f);
	}
}

int rr_poll_wait(struct pollfd *fds, nfds_t n, rr_time deadline, const sigset_t *mask)
{
	nfds_t ours;
	int rc = RR_POLL_ON;

	if (n <= RR_NAP_FEW && deadline && !mask)
		rc = rr_poll_nap(fds, n, deadline);
	if (n >= RR_POLL_MANY) {
		if (rr_unmet_any())
			meet_entries(fds, n);
		rc = wait_again(fds, n, deadline, mask);
	}
	if (rc == RR_POLL_ON)
		rc = rr_poll_plain(fds, n, deadline, mask);
	if (rc != RR_POLL_ON)
		return rc;
	if (rr_unmet_any())
		meet_entries(fds, n);
	ours = count_ours(fds, n);
	return ours ? wait_for_ours(fds, n, ours, deadline, mask)
		    : plain(fds, n, deadline, mask);
}
