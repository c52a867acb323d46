/* SPDX-License-Identifier: BSD-3-Clause */
/* What earlier connections of this process to an address, port and program were like: a small
 * table, in which the least recently used entry is replaced. Only the time of an offer depends
 * on it, so a wrong entry costs little. */

#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/lock.h"
#include "core/base/peeraddr.h"
#include "core/conn/upgrade/upgrade.h"
#include "core/conn/upgrade/when.h"

#define SLOTS	64u
#define OURS	0u		/* in place of a program: the server has the library */
/* What an upgrade costs and saves is measured anew by one connection of so many, and earlier by
 * three, since what was measured first was measured with cold caches: by two that follow each
 * other, of which the second finds what the first has left, and by one more. */
#define AGAIN	512u
#define SOON	8u
#define LATER	32u

static struct {
	struct sockaddr_in6 peer;
	uint32_t prog;
	uint32_t quarters;	/* mean number of calls, times four; 0: a free slot */
	uint32_t seen;		/* connections */
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
		    rr_peeraddr_same(&lesson[i].peer, peer))
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
		lesson[at].seen = 0;
	} else {
		lesson[at].quarters -= lesson[at].quarters / 4;
		lesson[at].quarters = rr_max(lesson[at].quarters + calls, 1u);
	}
	lesson[at].seen++;
	lesson[at].used = ++clock_hand;
	rr_lock_drop(&lock);
}

/* What lesson i says. The mean stays where it is if the number of calls does. */
static struct rr_usual usual_of(uint32_t i)
{
	uint32_t n = lesson[i].seen;

	return (struct rr_usual){ .calls = lesson[i].quarters / 4,
				  .again = n == SOON || n == SOON + 1 || n == LATER ||
					   n % AGAIN == 0 };
}

/* Nothing also where the lock is taken: nobody waits for a guess. */
static struct rr_usual look_up(const struct sockaddr_in6 *peer, uint32_t prog)
{
	struct rr_usual u = { 0 };
	uint32_t at;

	if (rr_lock_try(&lock))
		return u;
	at = find_slot(peer, prog);
	if (at < SLOTS) {
		lesson[at].used = ++clock_hand;
		u = usual_of(at);
	}
	rr_lock_drop(&lock);
	return u;
}

void rr_learned_end(const struct sockaddr_in6 *peer, uint32_t prog, uint32_t calls)
{
	if (calls && prog != OURS)
		learn(peer, prog, calls);
}

struct rr_usual rr_learned_usual(const struct sockaddr_in6 *peer, uint32_t prog)
{
	return prog == OURS ? (struct rr_usual){ 0 } : look_up(peer, prog);
}

struct rr_usual rr_learned_most(const struct sockaddr_in6 *peer)
{
	struct rr_usual most = { 0 }, u;

	if (rr_lock_try(&lock))
		return most;
	for (uint32_t i = 0; i < nslots; i++)
		if (lesson[i].quarters && lesson[i].prog != OURS &&
		    rr_peeraddr_same(&lesson[i].peer, peer)) {
			u = usual_of(i);
			if (u.calls >= most.calls)
				most = u;
		}
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
	return look_up(peer, OURS).calls > 0;
}

void rr_learned_forked(void)
{
	lock = (struct rr_lock){ 0 };
}
