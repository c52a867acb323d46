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
#include <string.h>

#include "tests/fuzz/conn_apps.h"
#include "tests/fuzz/conn_host.h"
#include "tests/fuzz/conn_puppet.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/connpair.h"
#include "tests/lib/fakenet.h"

/* --- the host, the network, the device ------------------------------------------------------- */

static void do_time(uint32_t how)
{
	static const rr_time some[] = { RR_USEC, RR_MSEC, 60 * RR_MSEC, 150 * RR_MSEC, RR_SEC, 3 * RR_SEC,
					6 * RR_SEC, 100 * RR_SEC };

	clock_now += some[how % 8];
	/* Who answers so slowly where replies are not reliable loses the connection, as option
	 * done_timeout says; and so does, in version 2, who does not answer the opening. */
	late |= !rr_cp->reliable_replies && rr_cp->eng.done_timeout < 1000 * RR_SEC && how % 8 > 3;
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
#ifdef FUZZ_ADVANCE
	how &= ~2u;		/* reliable replies */
	over |= 1;		/* DIRECT */
	more = (more & ~3u) | RR_DIALECT_V1 | 4;
#endif
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
