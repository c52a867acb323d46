/* SPDX-License-Identifier: BSD-3-Clause */
/* mkseg DIR [hostile SEED | port N | calls | exec | exit N | undecided | crowd]: a process with a statistics segment in DIR, as the shim makes it: one
 * connection over shm, one gone, one on TCP. Prints its pid, then waits for the end of its input.
 * hostile: then writes noise, strewn by SEED, into all that a reader looks at. port: the peer of
 * the first has port N, N calls and bytes more went to it in 4 us each, and there was a third one.
 * calls: a million calls took 1 us, and since then each takes 64 us. exec, exit: what it does at the end.
 * undecided: one more, by TCP, of which more may become. crowd: so many of them that two share an entry. */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/stats_abi.h"
#include "preload/statseg.h"

static struct sockaddr_in at(const char *ip, unsigned port)
{
	struct sockaddr_in in = { .sin_family = AF_INET, .sin_port = htons((uint16_t)port) };

	inet_pton(AF_INET, ip, &in.sin_addr);
	return in;
}

static void fill(struct rr_stat_seg *seg, unsigned port, unsigned more)
{
	struct sockaddr_in local = at("127.0.0.1", 900), peer = at("127.0.0.1", port);
	struct rr_stat_conn *shm = rr_stats_claim(seg, 5, false), *gone, *tcp;

	gone = rr_stats_claim(seg, 6, true);
	tcp = rr_stats_claim(seg, 7, true);
	rr_stats_addr(shm, (struct sockaddr *)&local, (struct sockaddr *)&peer);
	rr_stats_state(seg, shm, RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
	rr_stats_dialect(shm, RR_DIALECT_V2, 1);
	rr_stats_program(shm, more ? 100003 : 100000);
	rr_stats_peer_pid(shm, 4711);
	rr_count(rr_stats_counters(shm), RR_C_calls_sent, 10 + more);
	rr_count(rr_stats_counters(shm), RR_C_sent, more);
	rr_count(rr_stats_counters(shm), RR_C_replies_received, 9);
	rr_count(rr_stats_counters(shm), RR_C_spins, 10);
	rr_count(rr_stats_counters(shm), RR_C_spins_paid, 9);
	rr_count(rr_stats_counters(shm), RR_C_spun_ns, 20 * RR_USEC);
	rr_stats_state(seg, gone, RR_CS_CARRIED, RR_CARRIER_SHM, RR_R_NONE);
	rr_count(rr_stats_counters(gone), RR_C_calls_sent, 1);
	rr_count(rr_stats_counters(gone), RR_C_spins, 2);
	rr_count(rr_stats_counters(gone), RR_C_spun_ns, 100 * RR_USEC);
	rr_stats_release(seg, gone);
	rr_stats_state(seg, tcp, RR_CS_TCP, RR_CARRIER_TCP, RR_R_NO_SHIM);
	for (unsigned i = 0; i < more; i++)
		rr_stats_latency(seg, 4 * RR_USEC);
	if (more)
		rr_stats_tcp(seg, RR_R_NOT_RPC);
	for (int i = 0; i < 99; i++)
		rr_stats_latency(seg, 920);
	rr_stats_latency(seg, RR_MSEC);
}

static void spoil(struct rr_stat_seg *seg, unsigned seed)
{
	unsigned char *from = (unsigned char *)&seg->comm, *to = (unsigned char *)&seg->conn[RR_STAT_CONNS];

	srandom(seed);
	/* Past what says that it is a segment at all: a reader goes on to the rest. */
	for (unsigned char *p = from; p < to; p++)
		if (seed % 2 || random() % 64 == 0)
			*p = seed % 4 == 3 ? 0xff : (unsigned char)random();
	for (unsigned i = 0; i < RR_STAT_CONNS; i++)
		if (random() % 2)
			seg->conn[i].used = 1;
	seg->ncounters = seg->nreasons = UINT32_MAX;
	if (seed > 1) {
		seg->ntallies = RR_STAT_TALLIES;
		seg->tally_size = sizeof(struct rr_stat_tally);
	}
}

static struct rr_stat_conn *add_undecided(struct rr_stat_seg *seg)
{
	struct rr_stat_conn *e = rr_stats_claim(seg, 8, true);

	rr_stats_state(seg, e, RR_CS_NEW, RR_CARRIER_TCP, RR_R_NO_OFFER);
	return e;
}

/* Until the end of input. */
static void wait_end(struct rr_stat_seg *seg, bool calls)
{
	struct pollfd in = { STDIN_FILENO, POLLIN, 0 };

	for (int i = 0; calls && i < 1000000; i++)
		rr_stats_latency(seg, RR_USEC);
	printf("%d\n", getpid());
	fflush(stdout);
	while (!poll(&in, 1, calls ? 1 : -1))
		rr_stats_latency(seg, 64 * RR_USEC);
}

static const char *own;

static const char *own_dir(void)
{
	return own;
}

int main(int argc, char **argv)
{
	struct rr_stat_seg *seg;

	if (argc < 2)
		return 2;
	own = argv[1];
	rr_statseg_setup(own_dir, "");
	seg = rr_statseg_get(true);
	if (argc == 4 && !strcmp(argv[2], "port"))
		fill(seg, (unsigned)atoi(argv[3]), (unsigned)atoi(argv[3]));
	else
		fill(seg, 111, 0);
	if (argc == 4 && !strcmp(argv[2], "hostile"))
		spoil(seg, (unsigned)atoi(argv[3]));
	if (argc == 3 && !strcmp(argv[2], "undecided"))
		add_undecided(seg);
	if (argc == 3 && !strcmp(argv[2], "later")) {
		/* reasons of a release that has more of them */
		rr_stats_state(seg, rr_stats_claim(seg, 8, true), RR_CS_TCP, RR_CARRIER_TCP, (enum rr_reason)RR_R_COUNT);
		rr_stats_state(seg, rr_stats_claim(seg, 9, true), RR_CS_TCP, RR_CARRIER_TCP, (enum rr_reason)(RR_STAT_REASONS - 1));
	}
	if (argc == 3 && !strcmp(argv[2], "crowd")) {
		while (add_undecided(seg) != &seg->conn[RR_STAT_CONNS - 1])
			;
		add_undecided(seg);
	}
	wait_end(seg, argc == 3 && !strcmp(argv[2], "calls"));
	if (argc == 3 && !strcmp(argv[2], "exec"))
		execlp("sleep", "sleep", "600", NULL);
	if (argc == 4 && !strcmp(argv[2], "exit"))
		_exit(atoi(argv[3]));
	return 0;
}
