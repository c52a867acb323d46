/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FUZZ_CONN_HOST_H
#define RR_FUZZ_CONN_HOST_H

/* What fuzz_conn has instead of a host: a clock, chance, a count of what is mapped, and a
 * provider that has no room now and then; and which parameters its connections have. */

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "core/conn/enter.h"
#include "core/prov/fake/fake.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/connpair.h"

#define MSG_MAX		32768u

static struct rr_fake_link link;
static struct rr_prov_ops real;
static rr_time clock_now;
static unsigned busy;			/* so many posts find no room */
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

static int busy_send_note(struct rr_qp *qp, uint32_t imm, const void *note, uint32_t len)
{
	return is_busy() ? -EAGAIN : real.send_note(qp, imm, note, len);
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

/* A peer with few receives is told nothing of a message before its end (advance.c). */
#ifdef FUZZ_ADVANCE
#define CREDITS		32
#else
#define CREDITS		4
#endif

static void set_params(uint32_t how)
{
	struct rr_conn_params *p = &rr_test_params;

	p->inline_size = 1024u << (how & 1);
	p->eng.credits = CREDITS;
	p->eng.bc_credits = 2;
	p->eng.max_msg = MSG_MAX;
	p->eng.reply_chunk = 4096;
	p->eng.reply_chunk_max = MSG_MAX;
	p->eng.max_chunks = p->eng.max_segs = 8;
	p->eng.max_exposed = 4 * MSG_MAX;
	p->eng.done_timeout = (how & 64 ? 2 : 1000000) * RR_SEC;
	p->upgrade_timeout = 5 * RR_SEC;
	p->spin = 0;
	p->max_stash = 16384;
	p->warm_memory = 65536;
	p->idle_trim = 100 * RR_MSEC;
	p->reliable_replies = !(how & 2);
	p->eng.no_done = how & 4;
	p->reverse_chunks = how & 8;
	p->eng.lenient_read_chunks = how & 16;
	p->eng.reply_chunks = (enum rr_reply_chunks)(how >> 5 & 1);
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
	link.ops.send_note = busy_send_note;
	link.ops.expose = busy_expose;
	link.ops.read = busy_read;
	link.ops.prepare = busy_prepare;
	link.ops.answer = busy_answer;
	rr_prov_only(&link.ops);
}

#endif
