/* SPDX-License-Identifier: BSD-3-Clause */
/* A poll() whose array, with the entries that we have added behind the app's, is longer than
 * RLIMIT_NOFILE allows: the added entries go into an epoll set of ours. */

#include <errno.h>
#include <sys/epoll.h>

#include "preload/pollrest.h"
#include "preload/real.h"

/* Puts the added entries into a set of their own, in the place of an entry of ours that stands
 * empty. */
static int put_aside(struct rr_work *w)
{
	const struct rr_slot *s = w->awake;

	while (s && w->kern[s->k].fd >= 0)
		s = s->next;
	if (w->inner < 0)
		w->inner = rr_real.epoll_create1(EPOLL_CLOEXEC);
	if (w->inner < 0 || !s)
		return -EINVAL;
	for (nfds_t i = 0; i < w->extra; i++) {
		struct pollfd *x = &w->kern[w->nk + i];
		struct epoll_event ev = { .events = (unsigned short)x->events };

		rr_real.epoll_ctl(w->inner, EPOLL_CTL_ADD, x->fd, &ev);
	}
	w->extra = 0;
	w->kern[s->k] = (struct pollfd){ w->inner, POLLIN, 0 };
	return 0;
}

int rr_pollshort_begin(struct rr_work *w)
{
	int rc = w->extra ? put_aside(w) : 0;

	if (w->set)
		rr_pollrest_without(w);
	return rc;
}

/* Closing the set ends its entries. The slot that had lent its place is empty again, as before
 * the sleep. */
void rr_pollshort_end(struct rr_work *w)
{
	if (w->inner >= 0) {
		for (struct rr_slot *s = w->awake; s; s = s->next) {
			struct pollfd *k = &w->kern[s->k];

			if (k->fd == w->inner)
				*k = (struct pollfd){ -1, w->fds[s->at].events, 0 };
		}
		rr_real.close(w->inner);
		w->inner = -1;
	}
}
