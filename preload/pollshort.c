/* SPDX-License-Identifier: BSD-3-Clause */
/* A poll() whose array, with the entries that we have added behind the app's, is longer than
 * RLIMIT_NOFILE allows: the added entries go into an epoll set of ours. */

#include <errno.h>
#include <sys/epoll.h>

#include "preload/pollrest.h"
#include "preload/real.h"

int rr_pollshort_begin(struct rr_work *w)
{
	const struct rr_slot *s = w->awake;
	struct pollfd *p;

	if (w->extra == w->set) {
		rr_pollrest_without(w);
		w->extra = 0;
		return 0;
	}
	/* an entry of ours that stands empty: the set goes there */
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
	w->kern[w->n].revents = w->set ? POLLIN : 0;	/* the set may have rung: it is looked
							 * at */
	return 0;
}

/* Closing the set ends its entries. The slot that had lent its place is empty again, as before
 * the sleep. */
void rr_pollshort_end(struct rr_work *w)
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
