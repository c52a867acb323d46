/* SPDX-License-Identifier: BSD-3-Clause */
/* select() and pselect(): translated to poll() when a set holds a socket of ours. The fd sets
 * are changed only on success. select() writes back the time left and pselect() does not, as
 * with Linux and glibc. */
#include <errno.h>
#include <string.h>

#include "core/base/os.h"
#include "preload/ready.h"
#include "preload/real.h"
#include "preload/scratch.h"
#include "preload/wrap.h"

/* Which poll bits count for which set, as in the kernel's fs/select.c. */
#define IN_BITS		(POLLIN | POLLRDNORM | POLLRDBAND | POLLHUP | POLLERR)
#define OUT_BITS	(POLLOUT | POLLWRNORM | POLLWRBAND | POLLERR)
#define EX_BITS		POLLPRI

enum { WORD = 8 * sizeof(unsigned long) };

/* Programs allocate fd sets of any size, so these are plain words: FD_SET() checks its
 * bound. */
struct sets {
	int n;
	unsigned long *in, *out, *ex;	/* each may be NULL */
};

static unsigned long fd_word(const unsigned long *set, int i)
{
	return set ? set[i] : 0;
}

static bool isset(const unsigned long *set, int fd)
{
	return set && set[fd / WORD] >> (fd % WORD) & 1;
}

/* The fds of word i that are in any of the sets; bits from s->n on do not count. */
static unsigned long in_any(const struct sets *s, int i)
{
	unsigned long w = fd_word(s->in, i) | fd_word(s->out, i) | fd_word(s->ex, i);
	int left = s->n - i * (int)WORD;

	return left >= (int)WORD ? w : w & ((1ul << left) - 1);
}

static int set_words(const struct sets *s)
{
	return (s->n + (int)WORD - 1) / (int)WORD;
}

/* How many fds are in the sets; *ours: how many of them the table has. */
static nfds_t count_sets(const struct sets *s, nfds_t *ours)
{
	nfds_t n = 0;

	*ours = 0;
	for (int i = 0; i < set_words(s); i++)
		for (unsigned long w = in_any(s, i); w; w &= w - 1, n++)
			*ours += rr_fdt_has(i * (int)WORD + __builtin_ctzl(w));
	return n;
}

/* Writes one pollfd for each fd in the sets. */
static void to_poll(const struct sets *s, struct pollfd *p)
{
	for (int i = 0; i < set_words(s); i++) {
		for (unsigned long w = in_any(s, i); w; w &= w - 1) {
			int fd = i * (int)WORD + __builtin_ctzl(w);

			p->fd = fd;
			p->events = (short)((isset(s->in, fd) ? IN_BITS : 0) |
					    (isset(s->out, fd) ? OUT_BITS : 0) |
					    (isset(s->ex, fd) ? EX_BITS : 0));
			p->revents = 0;
			p++;
		}
	}
}

/* In how many sets the entry would show. poll() also reports hang-ups and errors that no set
 * asks for. */
static unsigned shown(const struct sets *s, const struct pollfd *p)
{
	unsigned r = (unsigned short)p->revents;

	return (isset(s->in, p->fd) && r & IN_BITS) +
	       (isset(s->out, p->fd) && r & OUT_BITS) + (isset(s->ex, p->fd) && r & EX_BITS);
}

static void clear_sets(const struct sets *s)
{
	size_t size = (size_t)set_words(s) * sizeof(unsigned long);

	if (s->in)
		memset(s->in, 0, size);
	if (s->out)
		memset(s->out, 0, size);
	if (s->ex)
		memset(s->ex, 0, size);
}

/* Replaces the sets by what is ready. */
static void show_sets(const struct sets *s, const struct pollfd *p, nfds_t n)
{
	clear_sets(s);
	for (nfds_t i = 0; i < n; i++) {
		unsigned long bit;
		int at;

		if (p[i].fd < 0)
			continue;
		bit = 1ul << (p[i].fd % WORD);
		at = p[i].fd / (int)WORD;
		if (s->in && p[i].events & POLLIN && p[i].revents & IN_BITS)
			s->in[at] |= bit;
		if (s->out && p[i].events & POLLOUT && p[i].revents & OUT_BITS)
			s->out[at] |= bit;
		if (s->ex && p[i].events & POLLPRI && p[i].revents & EX_BITS)
			s->ex[at] |= bit;
	}
}

/* select()'s result for what poll() has reported, or -EBADF. 0: poll() woke only for bits that
 * no set asks for; those entries are taken out before the next poll(). */
static int judge_sets(const struct sets *s, struct pollfd *p, nfds_t n)
{
	int sum = 0;

	for (nfds_t i = 0; i < n; i++) {
		if (p[i].fd < 0 || !p[i].revents)
			continue;
		if (p[i].revents & POLLNVAL)
			return -EBADF;
		sum += (int)shown(s, &p[i]);
	}
	for (nfds_t i = 0; !sum && i < n; i++)
		if (p[i].fd >= 0 && p[i].revents)
			p[i].fd = -1;
	return sum;
}

/* The loop is for hang-ups that poll() reports and select() does not: without those entries it
 * waits on. */
static int by_poll(const struct sets *s, struct pollfd *p, nfds_t n, rr_time deadline,
		   const sigset_t *mask)
{
	int rc;

	to_poll(s, p);
	for (;;) {
		rc = rr_poll_wait(p, n, deadline, mask);
		if (rc < 0)
			return rc;
		if (!rc) {
			clear_sets(s);
			return 0;
		}
		rc = judge_sets(s, p, n);
		if (rc > 0)
			show_sets(s, p, n);
		if (rc)
			return rc;
	}
}

/* Waits for what *s says, by poll() over the fds that are in any of the sets. */
static int select_wait(const struct sets *s, rr_time deadline, const sigset_t *mask)
{
	nfds_t none, n = count_sets(s, &none);
	size_t size = n * sizeof(struct pollfd);
	bool small = size <= RR_STACK;
	struct pollfd stack[small && n ? n : 1], *p = stack;
	int rc;

	if (!small && !(p = rr_scratch_take(size)))
		return -ENOMEM;
	rc = by_poll(s, p, n, deadline, mask);
	if (!small)
		rr_scratch_give(p);
	return rc;
}

/* Is the call ours to do? Then *s says what to wait for. A number of fds beyond any limit is
 * the kernel's to refuse. */
static bool are_ours(struct sets *s, int n, fd_set *r, fd_set *w, fd_set *x)
{
	nfds_t have;

	if (n <= 0 || !rr_fdt_any(n) || n > 1 << 20 || (r && rr_bad_ptr(r)) ||
	    (w && rr_bad_ptr(w)) || (x && rr_bad_ptr(x)))
		return false;
	*s = (struct sets){ n, (unsigned long *)(void *)r, (unsigned long *)(void *)w,
			    (unsigned long *)(void *)x };
	count_sets(s, &have);
	return have != 0;
}

/* As in Linux, the time left is written back even after an error. */
int rr_wrap_select(int n, fd_set *r, fd_set *w, fd_set *x, struct timeval *timeout)
{
	rr_time deadline = RR_TIME_NEVER, now;
	struct sets s;
	int rc;

	if (likely(!are_ours(&s, n, r, w, x)) ||
	    (timeout && (rr_bad_ptr(timeout) || timeout->tv_sec < 0 || timeout->tv_usec < 0)))
		return rr_real.select(n, r, w, x, timeout);
	if (timeout && (uint64_t)timeout->tv_sec < UINT32_MAX) {
		deadline = (rr_time)timeout->tv_sec * RR_SEC + (rr_time)timeout->tv_usec *
			   RR_USEC;
		deadline += deadline ? rr_now() : 0;
	}
	rc = select_wait(&s, deadline, NULL);
	if (timeout && deadline != RR_TIME_NEVER) {
		now = deadline ? rr_now() : 0;
		now = deadline > now ? deadline - now : 0;
		timeout->tv_sec = (time_t)(now / RR_SEC);
		timeout->tv_usec = (suseconds_t)(now % RR_SEC / RR_USEC);
	}
	return (int)rr_ret(rc);
}

/* The mask holds for the sleep only, so it is passed on to ppoll() (ready_poll.c). */
int rr_wrap_pselect(int n, fd_set *r, fd_set *w, fd_set *x, const struct timespec *timeout,
		    const sigset_t *mask)
{
	rr_time deadline;
	struct sets s;

	if (likely(!are_ours(&s, n, r, w, x)) || (mask && rr_bad_ptr(mask)) ||
	    (timeout && (rr_bad_ptr(timeout) || !rr_timespec_ok(timeout))))
		return rr_real.pselect(n, r, w, x, timeout, mask);
	deadline = rr_deadline(timeout);
	if (timeout && !timeout->tv_sec && !timeout->tv_nsec)
		deadline = 0;
	return (int)rr_ret(select_wait(&s, deadline, mask));
}
