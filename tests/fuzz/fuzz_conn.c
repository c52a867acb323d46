/* SPDX-License-Identifier: BSD-3-Clause */
/* core/conn as a whole: two connections in one process, over a TCP connection in memory
 * (tests/lib/fakenet.c) and the fake provider. The input is a program: four bytes that say what
 * is spoken over what, then actions: calls of the apps, steps of the provider, faults, time.
 * One end may turn hostile: then nobody calls its connection any more, and the input says what
 * it puts on the TCP connection and into the queue pair.
 *
 * As long as both ends are ours, what an app reads is what the other app wrote, in order; an
 * end of file comes behind all of it; without a fault nothing is lost, nothing fails and no
 * access is one that hardware refuses. With a hostile end the other one stays within its
 * bounds. Afterwards no mapping is left. */
#include <errno.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/mman.h>

#include "core/conn/enter.h"
#include "core/prov/fake/fake.h"
#include "tests/fuzz/conn_puppet.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/connpair.h"
#include "tests/lib/fakenet.h"

#define MSG_MAX		32768u
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
static struct rr_fake_link link;
static struct rr_prov_ops real;
static rr_time clock_now;
static unsigned busy;			/* so many posts find no room */
static bool faulted;			/* something was done that may end the connection */
static bool late;			/* so much time has passed that a reply may find its call's memory taken back */
static struct side *puppet;		/* the hostile end */
static uint32_t next_xid;
static enum rr_dialect dialect;
static long mapped;
static uint64_t chances;

/* --- what stands in for the host (see fuzz_conn_LD in mk/fuzz.mk) ---------------------------- */

int __real_clock_gettime(clockid_t which, struct timespec *ts);
int __wrap_clock_gettime(clockid_t which, struct timespec *ts);
bool __wrap_rr_os_random(void *buf, size_t n);
void __wrap_rr_os_nap(rr_time t);
void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off);
int __real_munmap(void *at, size_t len);
int __wrap_munmap(void *at, size_t len);

/* For rr_now() and rr_now_coarse(): whoever waits for a moment to pass sees it pass. The day and
 * the hour, which the fuzzer itself needs, are the host's. */
int __wrap_clock_gettime(clockid_t which, struct timespec *ts)
{
	if (which != CLOCK_MONOTONIC && which != CLOCK_MONOTONIC_COARSE)
		return __real_clock_gettime(which, ts);
	clock_now += which == CLOCK_MONOTONIC ? RR_USEC : 0;
	*ts = (struct timespec){ (time_t)(clock_now / RR_SEC), (long)(clock_now % RR_SEC) };
	return 0;
}

bool __wrap_rr_os_random(void *buf, size_t n)
{
	uint8_t *p = buf;

	while (n--)
		*p++ = (uint8_t)rng_next(&chances);
	return true;
}

void __wrap_rr_os_nap(rr_time t)
{
	clock_now += t;
}

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	mapped += (long)len;
	return __real_mmap(at, len, prot, flags, fd, off);
}

int __wrap_munmap(void *at, size_t len)
{
	mapped -= (long)len;
	return __real_munmap(at, len);
}

/* --- a provider that has no room now and then, where that may be: Sends and fences have theirs by credits ------ */

static bool is_busy(void)
{
	return busy && busy--;
}

static int busy_send_imm(struct rr_qp *qp, uint32_t imm, uint64_t cookie)
{
	return is_busy() ? -EAGAIN : real.send_imm(qp, imm, cookie);
}

static int busy_expose(struct rr_qp *qp, const void *p, uint32_t len, enum rr_rights r, struct rr_seg *out)
{
	return is_busy() ? -EAGAIN : real.expose(qp, p, len, r, out);
}

static int busy_read(struct rr_qp *qp, void *to, uint32_t len, const struct rr_seg *seg, uint32_t off, uint64_t cookie)
{
	return !link.conf.direct && is_busy() ? -EAGAIN : real.read(qp, to, len, seg, off, cookie);
}

static int busy_prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer)
{
	return is_busy() ? -ENOMEM : real.prepare(qp, p, offer);
}

static int busy_answer(struct rr_qp *qp, const struct rr_prov_params *p, const struct rr_prov_addr *offer,
		       struct rr_prov_addr *answer)
{
	return is_busy() ? -ENOMEM : real.answer(qp, p, offer, answer);
}

/* --- what is spoken -------------------------------------------------------------------------- */

static enum rr_dialect wanted(bool server, const struct sockaddr *local, const struct sockaddr *peer,
			      const uint32_t *program)
{
	(void)server, (void)local, (void)peer, (void)program;
	return dialect;
}

static void set_params(uint32_t how)
{
	struct rr_conn_params *p = &rr_test_params;

	p->inline_size = 1024u << (how & 1);
	p->credits = 4;
	p->bc_credits = 2;
	p->max_msg = MSG_MAX;
	p->reply_chunk = 4096;
	p->reply_chunk_max = MSG_MAX;
	p->max_chunks = p->max_segs = 8;
	p->max_exposed = 4 * MSG_MAX;
	p->done_timeout = (how & 64 ? 2 : 1000000) * RR_SEC;
	p->upgrade_timeout = 5 * RR_SEC;
	p->spin = 0;
	p->max_stash = 16384;
	p->warm_memory = 65536;
	p->idle_trim = 100 * RR_MSEC;
	p->reliable_replies = !(how & 2);
	p->done_property = !(how & 4);
	p->reverse_chunks = how & 8;
	p->lenient_read_chunks = how & 16;
	p->reply_chunks = (enum rr_reply_chunks)(how >> 5 & 1);
	p->dialect = wanted;
}

static void open_link(uint32_t how, uint64_t seed)
{
	struct rr_fake_conf conf = {
		/* Two of ours always count receives; where nobody does there is no hatch
		 * either. */
		.ring = true, .direct = how & 1, .reorder = how & 4, .inv = how & 8,
		.delay = how >> 4 & 7, .eager = how & 128,
	};

	rr_fake_link_init(&link, &conf, seed);
	real = link.ops;
	link.ops.send_imm = busy_send_imm;
	link.ops.expose = busy_expose;
	link.ops.read = busy_read;
	link.ops.prepare = busy_prepare;
	link.ops.answer = busy_answer;
	rr_prov_only(&link.ops);
}

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

/* --- the host, the network, the device ------------------------------------------------------- */

static void do_time(uint32_t how)
{
	static const rr_time some[] = { RR_USEC, RR_MSEC, 60 * RR_MSEC, 150 * RR_MSEC, RR_SEC, 3 * RR_SEC,
					6 * RR_SEC, 100 * RR_SEC };

	clock_now += some[how % 8];
	/* Who answers so slowly where replies are not reliable loses the connection, as option
	 * done_timeout says; and so does, in version 2, who does not answer the opening. */
	late |= !rr_cp->reliable_replies && rr_cp->done_timeout < 1000 * RR_SEC && how % 8 > 3;
	faulted |= late || (dialect == RR_DIALECT_V2 && how % 8 > 3);
	rr_conn_idle(clock_now);
}

static void do_fault(uint32_t how)
{
	if (how & 1) {
		busy = how >> 2 & 15;
		return;
	}
	if (how & 2) {
		fakenet_hinder(how >> 2 & 15);
		return;
	}
	faulted = true;
	if (how & 4)
		fakenet_reset();
	if (how & 8)
		rr_fake_break(&link);
	if (how & 16)
		link.break_at = link.step + (how >> 5) + 1;
}

static void do_steps(uint32_t n)
{
	while (n--)
		rr_fake_step(&link);
}

/* From now on this end does what the input says. */
static void turn(struct side *s)
{
	if (puppet || s->closed || other(s)->closed)
		return;
	puppet = s;
	faulted = true;
}

static void app(struct side *s, struct prog *g, uint32_t what)
{
	if (s->closed || s == puppet)
		return;
	switch (what) {
	case 0: case 1: do_write(s, g); break;
	case 2: case 3: do_read(s, get(g, 1) * 40, 0); break;
	case 4: do_read(s, get(g, 1), MSG_PEEK); break;
	case 5: do_poll(s, get(g, 1) & (POLLIN | POLLOUT | POLLPRI)); break;
	case 6: do_sleep(s, get(g, 1)); break;
	case 7: do_option(s, get(g, 1)); break;
	case 8: do_shutdown(s, (int)get(g, 1) % 3); break;
	case 9: do_close(s); break;
	case 10: do_junk(s, g); break;
	}
}

static void act(struct prog *g)
{
	if (!puppet->closed)
		puppet_act(g, puppet->c, other(puppet)->closed ? NULL : other(puppet)->c, puppet->fd);
}

static void step(struct prog *g)
{
	uint32_t op = get(g, 1);
	struct side *s = &sides[op & 1];

#ifdef FUZZ_ANCHOR
	if (op & 0x80 && puppet) {
		act(g);
		check_all();
		return;
	}
#endif
	switch (op >> 1 & 15) {
	case 11: do_steps(get(g, 1) % 64); break;
	case 12: do_time(get(g, 1)); break;
	case 13: do_fault(get(g, 1)); break;
	case 14: turn(s); break;
	case 15:
		if (puppet)
			act(g);
		break;
	default: app(s, g, op >> 1 & 15);
	}
	check_all();
}

/* A call and a reply, so that the input need not say how an upgrade comes about. */
static void upgrade(void)
{
	struct prog none = { NULL, 0 };

	for (int i = 0; i < 20; i++)
		for (int k = 0; k < 2; k++) {
			if (sides[k].out_at == sides[k].out_len && !sides[k].accepted)
				make_record(&sides[k], &none);
			write_some(&sides[k], SIZE_MAX);
			do_read(&sides[k], 4000, 0);
			do_steps(8);
		}
}

/* true: something moved. */
static bool drain_some(void)
{
	bool moved = false;

	for (int k = 0; k < 2; k++) {
		if (sides[k].closed || &sides[k] == puppet)
			continue;
		moved |= do_read(&sides[k], 4000, 0);
		do_poll(&sides[k], POLLIN | POLLOUT);
		do_steps(16);
		clock_now += 2 * RR_MSEC;
	}
	return moved;
}

/* Without a fault all that was accepted arrives, if it is read. */
static void drain(void)
{
	busy = 0;
	fakenet_hinder(0);
	for (int i = 0, quiet = 0; i < 1000 && quiet < 12; i++)
		quiet = drain_some() ? 0 : quiet + 1;
	for (int k = 0; k < 2 && !faulted; k++)
		fuzz_check(sides[k].failed || sides[!k].closed || sides[!k].shut_rd || sides[!k].failed ||
			   sides[k].junk || sides[!k].saw_offer || sides[!k].got.nends == sides[k].sent.nends);
}

static void finish(void)
{
	static long before;

	do_close(&sides[0]);
	do_close(&sides[1]);
	fuzz_check(!before || before == mapped);
	before = mapped;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	struct prog g = { data, len };
	uint32_t how = get(&g, 1), over = get(&g, 1), more = get(&g, 1);

	if (!rr_os) {
		rr_test_setup();
		rr_os = &fakenet_os;
	}
	clock_now += 1000 * RR_SEC;
	busy = 0;
	chances = 0;
	memset(&rr_conn_sizes, 0, sizeof(rr_conn_sizes));	/* learned from earlier inputs */
	faulted = late = false;
	puppet = NULL;
	next_xid = 100;
	dialect = (enum rr_dialect)(more & 3);
	set_params(how);
	open_link(over, get(&g, 1));
	open_sides();
#ifdef FUZZ_ANCHOR
	more |= 4;
#endif
	if (more & 4)
		upgrade();
#ifdef FUZZ_ANCHOR
	turn(&sides[more >> 3 & 1]);
#endif
	while (g.len)
		step(&g);
	drain();
	check_all();
	finish();
	return 0;
}
