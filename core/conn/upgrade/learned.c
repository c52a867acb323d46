/* SPDX-License-Identifier: BSD-3-Clause */
/* What earlier connections of this process to an address, port and program were like: a small
 * table, in which the least recently used entry is replaced. Only the time of an offer depends
 * on it, so a wrong entry costs little. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/lock.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

#define SLOTS	64u
#define OURS	0u		/* in place of a program: the server has the library */

static struct {
	struct sockaddr_in6 peer;
	uint32_t prog;
	uint32_t quarters;	/* mean number of calls, times four; 0: a free slot */
	uint32_t used;
} lesson[SLOTS];
static struct rr_lock lock;
static uint32_t clock_hand;
static uint32_t nslots;		/* those behind have never been used, and are not touched */

/* Returns SLOTS if there is none. Called with the lock held, as all that touch lesson[]. */
static uint32_t find_slot(const struct sockaddr_in6 *peer, uint32_t prog)
{
	for (uint32_t i = 0; i < nslots; i++)
		if (lesson[i].quarters && lesson[i].prog == prog &&
		    rr_cache_same(&lesson[i].peer, peer))
			return i;
	return SLOTS;
}

/* clock_hand may wrap: only differences count. */
static uint32_t oldest(void)
{
	uint32_t at = 0;

	if (nslots < SLOTS)
		return nslots++;
	for (uint32_t i = 1; i < SLOTS; i++)
		if (clock_hand - lesson[i].used > clock_hand - lesson[at].used)
			at = i;
	return at;
}

/* Takes a connection with so many calls into the mean, with a weight of a quarter. */
static void learn(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls)
{
	uint32_t at;

	if (rr_lock_try(&lock))
		return;		/* another thread is learning */
	at = find_slot(peer, prog);
	calls = rr_min(calls, 1u << 16);
	if (at == SLOTS) {
		at = oldest();
		lesson[at].peer = *peer;
		lesson[at].prog = prog;
		lesson[at].quarters = 4 * calls;
	} else {
		lesson[at].quarters -= lesson[at].quarters / 4;
		lesson[at].quarters = rr_max(lesson[at].quarters + calls, 1u);
	}
	lesson[at].used = ++clock_hand;
	rr_lock_drop(&lock);
}

/* 0 also where the lock is taken: nobody waits for a guess. */
static uint32_t look_up(const struct sockaddr_in6 *peer, uint32_t prog)
{
	uint32_t at, calls = 0;

	if (rr_lock_try(&lock))
		return 0;
	at = find_slot(peer, prog);
	if (at < SLOTS) {
		lesson[at].used = ++clock_hand;
		/* it stays there if the number of calls does */
		calls = lesson[at].quarters / 4;
	}
	rr_lock_drop(&lock);
	return calls;
}

void rr_learned_end(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls)
{
	if (calls && prog != OURS)
		learn(peer, prog, calls);
}

uint32_t rr_learned_usual(const struct sockaddr_in6 *peer, uint32_t prog)
{
	return prog == OURS ? 0 : look_up(peer, prog);
}

uint32_t rr_learned_most(const struct sockaddr_in6 *peer)
{
	uint32_t most = 0;

	if (rr_lock_try(&lock))
		return 0;
	for (uint32_t i = 0; i < nslots; i++)
		if (lesson[i].quarters && lesson[i].prog != OURS &&
		    rr_cache_same(&lesson[i].peer, peer))
			most = rr_max(most, lesson[i].quarters / 4);
	rr_lock_drop(&lock);
	return most;
}

/* "Yes" is an entry of its own, for a program that no call has; "no" frees that entry. */
void rr_learned_ours(const struct sockaddr_in6 *peer, bool is)
{
	uint32_t at;

	if (is)
		return learn(peer, OURS, 1);
	if (rr_lock_try(&lock))
		return;
	at = find_slot(peer, OURS);
	if (at < SLOTS)
		lesson[at].quarters = 0;
	rr_lock_drop(&lock);
}

bool rr_learned_is_ours(const struct sockaddr_in6 *peer)
{
	return look_up(peer, OURS) > 0;
}

void rr_learned_forked(void)
{
	lock = (struct rr_lock){ 0 };
}
