/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef CONN_PLAYED_H
#define CONN_PLAYED_H

/* A carried connection between two of ours, whose client's provider is played by the test: each post is noted, and
 * ends as the test says. A test that uses this does not close the connection. */

#include <errno.h>
#include <stdlib.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/stats.h"
#include "core/conn/carried/carried.h"
#include "core/conn/enter.h"
#include "tests/unit/conn_pair.h"

enum { NOTES = 64 };

/* One post to the provider. */
struct note {
	const void *local;
	uint32_t len, handle, off, imm;
	uint64_t cookie;
};

static struct played {
	struct rr_prov_ops ops;
	struct note read[NOTES], write[NOTES], expose[NOTES], gone[NOTES], said[NOTES], consumed[NOTES];
	unsigned reads, writes, exposes, invalidates, says, consumes, kicks, reposts, windows, drains;
	uint64_t reposted;
	/* What a post returns: of the i-th and those behind it, `then`; before that, `first`. */
	struct { unsigned i; int first, then; } on_read, on_write, on_expose, on_gone, on_say, on_send;
	uint8_t peers[1 << 20];		/* the peer's memory: a segment's offset is a place in it */
	uint32_t unread;		/* the key that the peer has not read yet */
	int drained;			/* what drain() returns */
	/* the last message that was sent, as it went, and how */
	uint8_t sent[40000];
	uint32_t sent_len, sent_inv;
	int sent_pieces;
	uint64_t sent_cookie;
	unsigned sends, disconnects;
	uint32_t window;		/* what window() returns */
	/* what poll() returns: each time the next batch, of these completions */
	struct rr_wc wc[64];
	int batch[32];			/* how many; or -errno */
	unsigned polls, batches, given;
	unsigned tells[4];		/* of each enum rr_tell */
	uint32_t told[4];
} pl;

#define PLAYED(which, n) ((n) < pl.on_##which.i ? pl.on_##which.first : pl.on_##which.then)

static int played_read(struct rr_qp *qp, void *local, uint32_t len, const struct rr_seg *seg, uint32_t off,
		       uint64_t cookie)
{
	int rc = PLAYED(read, pl.reads);

	(void)qp;
	if (rc >= 0) {
		cr_assert_leq((uint64_t)off + len, seg->length);
		memcpy(local, pl.peers + seg->offset + off, len);
	}
	pl.read[pl.reads++ % NOTES] = (struct note){ .local = local, .len = len, .handle = seg->handle, .off = off,
						    .cookie = cookie };
	return rc;
}

static int played_write(struct rr_qp *qp, const void *local, uint32_t len, const struct rr_seg *seg, uint32_t off,
			uint64_t cookie)
{
	int rc = PLAYED(write, pl.writes);

	(void)qp;
	if (rc >= 0) {
		cr_assert_leq((uint64_t)off + len, seg->length);
		memcpy(pl.peers + seg->offset + off, local, len);
	}
	pl.write[pl.writes++ % NOTES] = (struct note){ .local = local, .len = len, .handle = seg->handle, .off = off,
						      .cookie = cookie };
	return rc;
}

static int played_expose(struct rr_qp *qp, const void *local, uint32_t len, enum rr_rights rights, struct rr_seg *seg)
{
	int rc = PLAYED(expose, pl.exposes);

	(void)qp;
	*seg = (struct rr_seg){ .handle = 1000 + pl.exposes, .length = len, .offset = 7 };
	pl.expose[pl.exposes++ % NOTES] = (struct note){ .local = local, .len = len, .imm = rights };
	return rc;
}

static int played_invalidate(struct rr_qp *qp, uint32_t handle, uint64_t cookie)
{
	int rc = PLAYED(gone, pl.invalidates);

	(void)qp;
	pl.gone[pl.invalidates++ % NOTES] = (struct note){ .handle = handle, .cookie = cookie };
	return rc;
}

static int played_say(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	int rc = PLAYED(say, pl.says);

	(void)qp;
	pl.said[pl.says++ % NOTES] = (struct note){ .imm = imm, .cookie = cookie };
	return rc;
}

static bool played_is_consumed(struct rr_qp *qp, uint32_t handle)
{
	(void)qp;
	return handle != pl.unread;
}

static void played_consume(struct rr_qp *qp, const struct rr_seg *seg)
{
	(void)qp;
	pl.consumed[pl.consumes++ % NOTES] = (struct note){ .handle = seg->handle };
}

static int played_poll(struct rr_qp *qp, struct rr_wc *wc, int n)
{
	int got = pl.polls < pl.batches ? pl.batch[pl.polls] : 0;

	(void)qp;
	cr_assert_leq(got, n);
	pl.polls++;
	for (int i = 0; i < got; i++)
		wc[i] = pl.wc[pl.given++ % rr_array_size(pl.wc)];
	return got;
}

static int played_send(struct rr_qp *qp, const struct iovec *iov, int n, uint64_t cookie, uint32_t inv)
{
	int rc = PLAYED(send, pl.sends);

	(void)qp;
	pl.sends++;
	pl.sent_len = 0;
	pl.sent_pieces = n;
	for (int i = 0; i < n; pl.sent_len += (uint32_t)iov[i].iov_len, i++)
		memcpy(pl.sent + pl.sent_len, iov[i].iov_base, iov[i].iov_len);
	pl.sent_cookie = cookie;
	pl.sent_inv = inv;
	return rc;
}

static uint32_t played_window(struct rr_qp *qp)
{
	(void)qp;
	pl.windows++;
	return pl.window;
}

static void played_disconnect(struct rr_qp *qp)
{
	(void)qp;
	pl.disconnects++;
}

static void played_tell(struct rr_qp *qp, enum rr_tell what, uint32_t value)
{
	(void)qp;
	pl.tells[what]++;
	pl.told[what] = value;
}

/* What the kernel says of the client's anchor, and of its wake-up fd, where these bits are there. */
static inline int played_shows(struct pollfd *q, nfds_t n, int fd, short anchor, short wake)
{
	int any = 0;

	for (nfds_t i = 0; i < n; i++) {
		short has = q[i].fd == fd ? anchor : q[i].fd == p.client.c->share->qp->wake_fd ? wake : 0;

		q[i].revents = has & (q[i].events | POLLERR | POLLHUP);
		any += q[i].revents != 0;
	}
	return any;
}

/* Why the connection is what it is, as its statistics say. */
static inline enum rr_reason reported(const struct rr_share *of)
{
	return (enum rr_reason)atomic_load(&of->st->reason);
}

static void played_kick(struct rr_qp *qp)
{
	(void)qp;
	pl.kicks++;
}

static void played_repost(struct rr_qp *qp, uint64_t cookie)
{
	(void)qp;
	pl.reposts++;
	pl.reposted = cookie;
}

static int played_drain(struct rr_qp *qp)
{
	(void)qp;
	pl.drains++;
	return pl.drained;
}

/* The client's share; direct: posts finish inside the call. */
static struct rr_share *play(bool direct)
{
	struct rr_share *sh;

	rr_test_params.stats = rr_test_segment;
	setup();
	carried();
	sh = p.client.c->share;
	pl.ops = *sh->qp->ops;
	if (!direct)
		pl.ops.caps &= ~(uint32_t)RR_PROV_DIRECT;
	pl.ops.read = played_read;
	pl.ops.write = played_write;
	pl.ops.expose = played_expose;
	pl.ops.invalidate = played_invalidate;
	pl.ops.send_imm = played_say;
	pl.ops.consumed = played_is_consumed;
	pl.ops.consume = played_consume;
	pl.ops.poll = played_poll;
	pl.ops.send = played_send;
	pl.ops.window = played_window;
	pl.ops.disconnect = played_disconnect;
	pl.ops.tell = played_tell;
	pl.window = 77;
	pl.ops.kick = played_kick;
	pl.ops.repost = played_repost;
	pl.ops.drain = played_drain;
	pl.on_read.i = pl.on_write.i = pl.on_expose.i = pl.on_gone.i = pl.on_say.i = pl.on_send.i = UINT32_MAX;
	pl.on_read.first = pl.on_write.first = pl.on_send.first = direct;
	pl.on_gone.first = pl.on_say.first = 1;
	sh->qp->ops = &pl.ops;
	for (size_t i = 0; i < sizeof(pl.peers); i++)
		pl.peers[i] = (uint8_t)(i * 7 + (i >> 8) * 13 + 1);
	return sh;
}

#endif
