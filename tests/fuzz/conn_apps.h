/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_CONN_APPS_H
#define RR_FUZZ_CONN_APPS_H

/* The two apps of fuzz_conn: what each of them writes, reads and asks, and what they check of
 * it. What an app reads is what the other one wrote, in order. */

#include <errno.h>
#include <netinet/in.h>
#include <string.h>

#include "core/conn/enter.h"
#include "tests/fuzz/conn_host.h"
#include "tests/fuzz/conn_puppet.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/connpair.h"
#include "tests/lib/fakenet.h"

#define STREAM		(256u << 10)	/* bytes in one direction, in one input */
#define CALLS		64u
#define ENDS		4096u

/* A stream of records without the marks: where a record is parted is not kept on the way. */
struct records {
	uint8_t mark[4];
	uint32_t have, left;
	bool last;
	size_t n, nends, ends[ENDS];
	uint8_t bytes[STREAM];
};

struct side {
	struct rr_conn *c;
	int fd;
	bool closed, shut_rd, shut_wr, failed, junk, saw_offer;
	/* what this app writes: a record, so much of it already */
	uint8_t out[MSG_MAX + 8192];
	size_t out_len, out_at;
	size_t accepted;
	struct records sent;	/* by this app */
	struct records got;	/* … and by it */
	uint32_t ncalls, nanswered;	/* calls of this app's … */
	struct {
		uint32_t xid;
		size_t record;		/* … and which record each is */
	} call[CALLS];
};

static struct side sides[2];		/* client, server */
static bool faulted;			/* something was done that may end the connection */
static bool late;			/* so much time has passed that a reply may find its call's memory taken back */
static struct side *puppet;		/* the hostile end */
static uint32_t next_xid;

/* --- records ------------------------------------------------------------------------------- */

static void records_clear(struct records *r)
{
	r->have = r->left = 0;
	r->n = r->nends = 0;
}

/* Part of a fragment, or a byte of a mark: how much of it. */
static size_t records_take(struct records *r, const uint8_t *p, size_t n)
{
	if (r->left) {
		n = rr_min(n, (size_t)r->left);
		memcpy(r->bytes + r->n, p, n);
		r->n += n;
		r->left -= (uint32_t)n;
		return n;
	}
	r->mark[r->have++] = *p;
	if (r->have == 4) {
		r->have = 0;
		r->last = r->mark[0] & 0x80;
		r->left = rr_be32(r->mark) & 0x7fffffff;
	}
	return 1;
}

static void records_feed(struct records *r, const uint8_t *p, size_t n)
{
	fuzz_check(r->n + n <= STREAM);
	for (size_t took; n; p += took, n -= took) {
		took = records_take(r, p, n);
		if (!r->have && !r->left && r->last && r->nends < ENDS)
			r->ends[r->nends++] = r->n;
	}
}

/* Is got the beginning of sent, from byte and record on where it was so before? */
static bool records_fit(const struct records *got, const struct records *sent, size_t n, size_t nends)
{
	return got->n <= sent->n && got->nends <= sent->nends &&
	       !memcmp(got->bytes + n, sent->bytes + n, got->n - n) &&
	       !memcmp(got->ends + nends, sent->ends + nends, (got->nends - nends) * sizeof(*got->ends));
}

static void open_sides(void)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons(2001),
				  .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };

	fakenet_open();
	for (int i = 0; i < 2; i++) {
		struct side *s = &sides[i];

		s->fd = FAKENET_FD + i;
		s->closed = s->shut_rd = s->shut_wr = s->failed = s->junk = s->saw_offer = false;
		s->out_len = s->out_at = s->accepted = 0;
		records_clear(&s->sent);
		records_clear(&s->got);
		s->ncalls = s->nanswered = 0;
		s->c = i ? rr_conn_server(s->fd) : rr_conn_client(s->fd, (struct sockaddr *)&to, sizeof(to));
		fuzz_check(s->c);
	}
}

static struct side *other(struct side *s)
{
	return &sides[s == sides];
}

/* --- checks ---------------------------------------------------------------------------------- */

/* A connection that never wrote a byte to a peer that is ours has nothing to fail for. */
static void may_fail(struct side *s, ssize_t n)
{
	if (n >= 0 || n == -EAGAIN || n == -EINTR)
		return;
	fuzz_check(n > -4096);
	fuzz_check(faulted || s->shut_wr || s->closed || other(s)->closed || other(s)->shut_rd);
	s->failed = true;
}

static void check_share(const struct rr_conn *c)
{
	const struct rr_share *sh = c->share;

	if (!rr_conn_is_carried(c))
		return;
	fuzz_check(sh->rx.tail - sh->rx.head <= RR_RX_ENTS);
	fuzz_check(sh->rx.held <= sh->qp->recvs);
	fuzz_check(sh->rx.stash <= rr_cp->max_stash + sh->ep.max_msg);
	fuzz_check((uint64_t)sh->pool.used * RR_POOL_PAGE <= sh->qp->mem_size);
	fuzz_check(sh->pull_bytes <= sh->qp->mem_size);
	fuzz_check(sh->rx.bytes <= (uint64_t)RR_RX_ENTS * sh->ep.max_msg);
}

static void check_all(void)
{
	for (int i = 0; i < 2; i++)
		if (!sides[i].closed && &sides[i] != puppet)
			check_share(sides[i].c);
	fuzz_check(puppet || ((late || !link.violations) && !link.rnr));
}

/* --- the apps -------------------------------------------------------------------------------- */

static void make_call(struct side *s, uint32_t len)
{
	s->out_len = rr_test_call(s->out, ++next_xid, len, (unsigned)len);
	if (s->ncalls == CALLS)
		return;
	s->call[s->ncalls].xid = next_xid;
	s->call[s->ncalls++].record = s->sent.nends;
}

/* To the oldest call that it has read and not answered; else there is none to be made. */
static bool make_reply(struct side *s, uint32_t len)
{
	struct side *o = other(s);

	if (o->nanswered == o->ncalls || o->call[o->nanswered].record >= s->got.nends)
		return false;
	s->out_len = rr_test_reply(s->out, o->call[o->nanswered].xid, len, o->nanswered);
	o->nanswered++;
	return true;
}

/* A record of two fragments, of which the first ends somewhere. */
static void split(struct side *s, uint32_t at)
{
	size_t body = s->out_len - 4;

	at %= (uint32_t)body;
	memmove(s->out + at + 8, s->out + 4 + at, body - at);
	rr_rm_put(s->out, at, false);
	rr_rm_put(s->out + 4 + at, (uint32_t)body - at, true);
	s->out_len += 4;
}

static void make_record(struct side *s, struct prog *g)
{
	uint32_t kind = get(g, 1), len = get(g, 2) % (MSG_MAX + 4096);

	s->out_at = s->out_len = 0;
	if (kind & 1 ? s == &sides[1] : s == &sides[0])
		make_call(s, len);
	else if (!make_reply(s, len))
		return;
	if (kind & 2 && s->out_len > 8)
		split(s, get(g, 2));
}

static ssize_t app_send(struct side *s, const void *buf, size_t len)
{
	struct iovec iov[2] = { { (void *)(uintptr_t)buf, len / 2 },
				{ (uint8_t *)(uintptr_t)buf + len / 2, len - len / 2 } };
	ssize_t n = rr_conn_send(s->c, s->fd, iov, 2, 0);

	return n == RR_CONN_KERNEL ? fakenet_send(s->fd, buf, len) : n;
}

static void write_some(struct side *s, size_t most)
{
	size_t len = rr_min(most, s->out_len - s->out_at);
	ssize_t n;

	if (!len || s->accepted + len > STREAM)
		return;
	n = app_send(s, s->out + s->out_at, len);
	may_fail(s, n);
	if (n <= 0)
		return;
	fuzz_check((size_t)n <= len && !s->shut_wr);
	records_feed(&s->sent, s->out + s->out_at, (size_t)n);
	s->accepted += (size_t)n;
	s->out_at += (size_t)n;
}

static void do_write(struct side *s, struct prog *g)
{
	uint32_t most;

	if (s->out_at == s->out_len)
		make_record(s, g);
	most = get(g, 1);
	write_some(s, most < 250 ? most * 16 + 1 : sizeof(s->out));
}

/* Bytes that no RPC app writes: the stream is no good from there on, but still a stream. */
static void do_junk(struct side *s, struct prog *g)
{
	uint32_t n = get(g, 1) % 32;

	if (s->out_at != s->out_len)
		return;
	for (s->out_at = s->out_len = 0; s->out_len < n; s->out_len++)
		s->out[s->out_len] = (uint8_t)get(g, 1);
	write_some(s, n);
	s->out_len = s->out_at;
	s->junk = true;
}

/* An end of file stands behind all that was written, if the writer's end was in order. */
static void at_end(struct side *s)
{
	const struct side *from = other(s);

	if (s->shut_rd || faulted || from->failed || s->failed)
		return;
	fuzz_check(from->closed || from->shut_wr);
	fuzz_check(from->junk || s->saw_offer || s->got.nends == from->sent.nends);
}

/* A server that went its own way before the offer came reads it as a call of a program that it
 * has not. What becomes of the rest is between the apps then. */
static bool is_offer(struct side *s)
{
	return s == &sides[1] && rr_conn_is_tcp(s->c) && !s->got.n && !s->got.have && other(s)->c->xid;
}

static void take(struct side *s, const uint8_t *buf, size_t n)
{
	size_t before = s->got.n, ends = s->got.nends;

	s->saw_offer |= is_offer(s);
	if (s->saw_offer)
		return;
	records_feed(&s->got, buf, n);
	fuzz_check(records_fit(&s->got, &other(s)->sent, before, ends));
}

/* true: there was something. */
static bool do_read(struct side *s, size_t len, int flags)
{
	uint8_t *buf = malloc(len + 1);
	struct iovec iov[2] = { { buf, len / 3 }, { buf + len / 3, len - len / 3 } };
	ssize_t n = rr_conn_recv(s->c, s->fd, iov, 2, flags);

	if (n == RR_CONN_KERNEL)
		n = fakenet_recv(s->fd, buf, len, flags);
	may_fail(s, n);
	if (n == 0 && len)
		at_end(s);
	if (n > 0 && !puppet) {
		fuzz_check((size_t)n <= len);
		if (!(flags & MSG_PEEK))
			take(s, buf, (size_t)n);
	}
	free(buf);
	return n > 0;
}

/* As epoll asks, and, where nothing is to be written, poll(). */
static void do_poll(struct side *s, unsigned want)
{
	unsigned how = want & POLLOUT ? 0 : RR_ASK_FIRST;
	int got = rr_conn_poll(s->c, s->fd, want | how), told;

	if (got == RR_CONN_KERNEL) {
		told = fakenet_poll(s->fd, (int)want);
		if (how && told)
			got = rr_conn_poll(s->c, s->fd, want | rr_ask_told((unsigned)told));
		if (got == RR_CONN_KERNEL)
			got = told;
	}
	fuzz_check(!(got & ~(int)(want | POLLERR | POLLHUP)));
}

static void do_shutdown(struct side *s, int how)
{
	int rc = rr_conn_shutdown(s->c, s->fd, how);

	if (rc >= 0 || rc == RR_CONN_KERNEL)
		fakenet_shutdown(s->fd, how);
	s->shut_rd |= how != SHUT_WR;
	s->shut_wr |= how != SHUT_RD;
}

static void do_close(struct side *s)
{
	if (s->closed)
		return;
	/* A record in part goes nowhere, and bytes that were not read make a reset of it. */
	faulted |= other(s)->sent.n != s->got.n || s->sent.n != other(s)->got.n;
	rr_conn_close(s->c, s->fd);
	fakenet_close(s->fd);
	rr_conn_free(s->c);
	s->closed = true;
}

/* What a thread does before it sleeps, and an epoll set. */
static void do_sleep(struct side *s, uint32_t how)
{
	unsigned want = how & 1 ? POLLIN : how & 2 ? POLLOUT : POLLIN | POLLOUT | POLLRDHUP;
	struct pollfd p[2];
	struct rr_spin spin = { 0 };
	rr_time until;
	int rc, n;

	rr_conn_peek(s->c, want);
	rr_conn_spin(s->c, &spin);
	if (rr_spin_begin(&spin, rr_now())) {
		rr_spin_on(&spin);
		rr_spin_end(&spin, how & 8);
	}
	rc = how & 4 ? rr_conn_watch(s->c, s->fd, want) : rr_conn_arm(s->c, s->fd, want);
	fuzz_check(rc == 0 || rc == 1);
	n = rr_conn_fds(s->c, s->fd, want, p, &until);
	fuzz_check(n >= 0 && n <= 2);
	rr_conn_drain(s->c);
	if (!rc && !(how & 4))
		rr_conn_disarm(s->c, s->fd);
	rr_conn_changed(s->c);
}

static void do_option(struct side *s, uint32_t how)
{
	int val = (int)(how >> 2) * 50;
	socklen_t len = sizeof(val);

	switch (how & 3) {
	case 0: rr_conn_setopt(s->c, SOL_SOCKET, SO_RCVLOWAT, &val, len); break;
	case 1: rr_conn_getopt(s->c, SOL_SOCKET, SO_RCVLOWAT, &val, &len); break;
	case 2: fuzz_check(rr_conn_inq(s->c, s->fd) >= RR_CONN_KERNEL); break;
	case 3:
		val = rr_conn_take_error(s->c, s->fd);
		fuzz_check(val >= 0 || val == RR_CONN_KERNEL);
		s->failed |= val > 0;
		break;
	}
}

#endif
