/* SPDX-License-Identifier: BSD-3-Clause */
/* A connection once it exists: messages, memory, completions, its end. link_ways.c makes
 * connections. A case is played by one thread, so each call here waits for what it needs, at
 * most for the connection's timeout. Nothing is retried and nothing corrected: what the peer
 * does wrong has to be seen. */

#include "tools/conform/link.h"

#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"

#define NAP	20	/* ms: the longest sleep, even where a wake-up is to come */

/* --- set-up --- */

void rr_link_prov_params(const struct rr_link_params *p, struct rr_prov_params *pp)
{
	*pp = (struct rr_prov_params){
		.recv_size = p->recv_size, .recvs = p->recvs, .mem_size = RR_LINK_MEM,
	};
}

/* The memory is a mapping because providers expect zeroed pages that can be shared. anchor is
 * kept: the caller may have it open already. */
const char *rr_link_new(struct rr_link *l, const struct rr_link_params *p,
			const struct rr_prov_ops *ops, const struct rr_prov_params *pp)
{
	void *m;

	*l = (struct rr_link){ .p = *p, .ops = ops, .anchor = l->anchor };
	l->in_end = &l->in;
	l->trace_end = &l->trace;
	l->qp_size = ops->qp_size(pp);
	m = mmap(NULL, l->qp_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (m == MAP_FAILED)
		return "out of memory";
	l->qp = m;
	l->qp->count = &l->count;
	l->qp->wake_fd = -1;
	return NULL;
}

/* Waits until the provider has connected. A provider's -EAGAIN means "not yet". */
const char *rr_link_establish(struct rr_link *l)
{
	rr_time until = rr_now() + l->p.timeout * RR_MSEC;
	int rc;

	while ((rc = l->ops->establish(l->qp)) == -EAGAIN && rr_now() < until)
		poll(&(struct pollfd){ l->qp->wake_fd, POLLIN, 0 }, 1, NAP);
	return !rc ? NULL : rc == -EAGAIN ? "the peer does not complete the connection" :
	       strerror(-rc);
}

void rr_link_unlisten(struct rr_link_listener *l)
{
	if (l->fd >= 0)
		close(l->fd);
	if (l->lst)
		l->ops->unlisten(l->lst);
	free(l->lst);
	free(l);
}

/* Closes whatever there is; may be called for a connection that was made only in part. Messages
 * that rr_link_recv() has returned are gone afterwards. */
void rr_link_close(struct rr_link *l)
{
	if (l->qp) {
		l->ops->close(l->qp);
		munmap(l->qp, l->qp_size);
	}
	if (l->anchor >= 0)
		close(l->anchor);
	while (l->in) {
		struct rr_message *m = l->in;

		l->in = m->next;
		free(m);
	}
	while (l->trace) {
		struct rr_message *m = l->trace;

		l->trace = m->next;
		free(m);
	}
	*l = (struct rr_link){ .anchor = -1 };
}

/* --- completions --- */

/* A copy of the message, which the caller owns. The provider's buffer goes back to the peer. */
static struct rr_message *new_message(bool sent, const void *p, uint32_t len, uint32_t inv)
{
	struct rr_message *m = calloc(1, sizeof(*m) + len);

	if (!m)
		err(3, NULL);
	m->sent = sent;
	m->inv = inv;
	m->len = len;
	if (len)
		memcpy(m->bytes, p, len);
	return m;
}

/* Adds m to a list; *end points to the last pointer in it. */
static void append(struct rr_message ***end, struct rr_message *m)
{
	**end = m;
	*end = &m->next;
}

/* The trace owns all messages that were sent or taken, in this order, until the link is
 * closed. */
static void trace_message(struct rr_link *l, struct rr_message *m)
{
	append(&l->trace_end, m);
}

/* Takes a message in and gives its receive back to the peer. The copy comes first: with shm the
 * peer could still write to the buffer. */
static void note_received(struct rr_link *l, const struct rr_wc *wc)
{
	if (!wc->has_imm)	/* with immediate data: what two libraries say to each other
				 * beside the protocol */
		append(&l->in_end,
		       new_message(false, wc->buf, wc->len, wc->has_inv ? wc->inv_handle : 0));
	l->ops->repost(l->qp, wc->cookie);
}

/* Takes completed operations from the provider. Cookies grow with each operation, and only one
 * that completes later is waited for at a time, so the last completed cookie says enough. A
 * failed completion ends the connection. */
static void take_completed(struct rr_link *l)
{
	struct rr_wc wc[8];
	int n = l->closed ? 0 : l->ops->poll(l->qp, wc, 8);

	l->closed |= n < 0;
	for (int i = 0; i < n; i++) {
		l->closed |= wc[i].status != 0;
		if (wc[i].op == RR_WC_RECV) {
			if (!wc[i].status)
				note_received(l, &wc[i]);
		} else if (wc[i].cookie > l->done) {
			l->done = wc[i].cookie;
			l->done_status = wc[i].status;
		}
	}
	if (n > 0)
		l->ops->kick(l->qp);
}

/* Has the TCP connection ended? That ends the RDMA connection, too. What comes on it otherwise
 * (the end mark of a library) is thrown away. */
static bool anchor_ended(struct rr_link *l)
{
	struct pollfd p = { l->anchor, POLLIN, 0 };
	uint8_t mark[64];

	if (l->anchor < 0 || poll(&p, 1, 0) <= 0)
		return false;
	return recv(l->anchor, mark, sizeof(mark), MSG_DONTWAIT) <= 0 && errno != EAGAIN;
}

/* Has the connection ended? What came before its end is taken in. */
static bool has_ended(struct rr_link *l)
{
	if (!anchor_ended(l))
		return false;
	take_completed(l);
	l->closed = true;
	return true;
}

/* Sleeps until something has come or NAP is over. arm() returns 1 if there is something
 * already; then nobody sleeps. */
static void sleep_until(struct rr_link *l, rr_time until)
{
	struct pollfd p[2] = { { l->qp->wake_fd, POLLIN, 0 }, { l->anchor, POLLIN, 0 } };
	rr_time now = rr_now();
	int ms = until <= now ? 0 : (int)rr_min((until - now) / RR_MSEC + 1, (rr_time)NAP);

	if (l->ops->arm(l->qp, RR_ARM_RECV) == 0) {
		poll(p, 2, ms);
		if (l->ops->drain(l->qp) < 0)
			take_completed(l);	/* takes what was left before the end */
	}
	l->ops->disarm(l->qp);
}

/* Takes completions until what is waited for has come: a message (cookie 0), or the completion
 * of cookie. False: it has not come within ms. */
static bool wait_for_completion(struct rr_link *l, uint64_t cookie, uint32_t ms)
{
	rr_time until = rr_now() + ms * RR_MSEC;

	for (;;) {
		take_completed(l);
		if (cookie ? l->done >= cookie : l->in != NULL)
			return true;
		if (l->closed || rr_now() >= until)
			return false;
		if (has_ended(l))
			return cookie ? false : l->in != NULL;
		sleep_until(l, until);
	}
}

/* Waits for the end of an operation; rc is what its post call returned. Returns 0 or -errno. */
static int finish_post(struct rr_link *l, int rc)
{
	if (rc != 0)
		return rc > 0 ? 0 : rc;
	if (!wait_for_completion(l, l->cookies, l->p.timeout))
		return l->closed ? -ECONNRESET : -ETIMEDOUT;
	return l->done_status;
}

/* --- messages --- */

/* -EAGAIN means that the peer has posted no receive: waiting is right then, since only a lost
 * connection is an error. The message is in the trace even if it could not be sent. */
int rr_link_send(struct rr_link *l, const void *p, uint32_t len, uint32_t inv)
{
	rr_time until = rr_now() + l->p.timeout * RR_MSEC;
	struct rr_message *m = new_message(true, p, len, inv);
	struct iovec iov = { m->bytes, len };
	int rc;

	trace_message(l, m);
	for (;;) {
		take_completed(l);
		rc = l->closed ? -ECONNRESET : l->ops->send(l->qp, &iov, 1, ++l->cookies, inv);
		if (rc != -EAGAIN || rr_now() >= until)
			break;
		if (!has_ended(l))
			rr_os_nap(RR_MSEC);
	}
	if (rc >= 0)
		l->ops->kick(l->qp);
	return rc < 0 ? rc : 0;	/* nobody waits for its completion */
}

const struct rr_message *rr_link_recv(struct rr_link *l, uint32_t ms)
{
	struct rr_message *m;

	if (!wait_for_completion(l, 0, ms))
		return NULL;
	m = l->in;
	l->in = m->next;
	m->next = NULL;
	if (!l->in)
		l->in_end = &l->in;
	trace_message(l, m);
	return m;
}

/* --- memory --- */

/* Pieces are whole pages and are never given back within a connection: no key of a case ever
 * covers memory that an earlier key did. 0xee shows a case what the peer has not written. */
uint8_t *rr_link_memory(struct rr_link *l, uint32_t len)
{
	size_t room = rr_align(rr_max(len, 1u), 4096u);
	uint8_t *at = l->qp->mem + l->used;

	if (room > l->qp->mem_size - l->used)
		return NULL;
	l->used += room;
	memset(at, 0xee, room);
	return at;
}

int rr_link_expose(struct rr_link *l, const void *at, uint32_t len, enum rr_rights rights,
		   struct rr_seg *out)
{
	return l->ops->expose(l->qp, at, len, rights, out);
}

int rr_link_withdraw(struct rr_link *l, uint32_t handle)
{
	return finish_post(l, l->ops->invalidate(l->qp, handle, ++l->cookies));
}

/* Reads segment by segment, to consecutive memory at `at`. A provider with consume() (shm) has
 * to be told that the segment is done with. */
int rr_link_read(struct rr_link *l, uint8_t *at, const struct rr_chunk *ch)
{
	int rc = 0;

	for (uint32_t i = 0; i < ch->n && !rc; at += ch->seg[i++].length) {
		if (ch->seg[i].length)
			rc = finish_post(l,
					 l->ops->read(l->qp, at, ch->seg[i].length, &ch->seg[i],
						      0, ++l->cookies));
		if (!rc && l->ops->consume)
			l->ops->consume(l->qp, &ch->seg[i]);
	}
	return rc;
}

/* Writes from the first segment on, as a responder must (RFC 8166 §3.4.6). -EMSGSIZE: the chunk
 * is too small, and is full now. */
int rr_link_write(struct rr_link *l, const uint8_t *at, uint32_t len, const struct rr_chunk *ch)
{
	int rc = 0;

	for (uint32_t i = 0; i < ch->n && len && !rc; i++) {
		uint32_t n = rr_min(len, ch->seg[i].length);

		if (n)
			rc = finish_post(l,
					 l->ops->write(l->qp, at, n, &ch->seg[i], 0,
						       ++l->cookies));
		at += n;
		len -= n;
	}
	return rc ? rc : len ? -EMSGSIZE : 0;
}

int rr_link_was_read(struct rr_link *l, uint32_t handle)
{
	if (l->ops->consumed(l->qp, handle))
		return 1;
	return l->ops->caps & RR_PROV_DIRECT ? 0 : -1;
}
