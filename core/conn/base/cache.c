/* SPDX-License-Identifier: BSD-3-Clause */
/* Peers that get no offer for a while, because they seem to have no library or have sent
 * replies that cannot be carried: (address, port) -> why, and until when. How long is the
 * caller's decision. */

#include <errno.h>
#include <string.h>

#include "core/base/lock.h"
#include "core/base/peeraddr.h"
#include "core/conn/base/base.h"

#define SLOTS	64u
#define SHARE	16u	/* slots of one address at most, to leave room for others */

static struct {
	struct sockaddr_in6 peer;
	enum rr_reason why;
	rr_time until;
} slot[SLOTS];
static struct rr_lock lock;
static uint32_t next;

enum rr_reason rr_cache_look(const struct sockaddr_in6 *peer, rr_time now)
{
	enum rr_reason why = RR_R_NONE;

	if (rr_lock_take(&lock) == -EDEADLK)
		return RR_R_NONE;
	for (uint32_t i = 0; i < SLOTS && !why; i++)
		if (slot[i].until > now && rr_peeraddr_same(&slot[i].peer, peer))
			why = slot[i].why;
	rr_lock_drop(&lock);
	return why;
}

static bool same_host(const struct sockaddr_in6 *a, const struct sockaddr_in6 *b)
{
	struct sockaddr_in6 c = *b;

	c.sin6_port = a->sin6_port;	/* sin_port lies at the same offset */
	return rr_peeraddr_same(a, &c);
}

/* The peer's own slot. If there is none: the slot that expires first of the peer's address, if
 * that address has its share of slots already; else the next in turn. */
static uint32_t place_for(const struct sockaddr_in6 *peer)
{
	uint32_t n = 0, oldest = 0;

	for (uint32_t i = 0; i < SLOTS; i++) {
		if (!slot[i].until || !same_host(&slot[i].peer, peer))
			continue;
		if (rr_peeraddr_same(&slot[i].peer, peer))
			return i;
		if (!n++ || slot[i].until < slot[oldest].until)
			oldest = i;
	}
	return n >= SHARE ? oldest : next++ % SLOTS;
}

void rr_cache_add(const struct sockaddr_in6 *peer, enum rr_reason why, rr_time until)
{
	uint32_t at;

	if (rr_lock_take(&lock) == -EDEADLK)
		return;
	at = place_for(peer);
	slot[at].peer = *peer;
	slot[at].why = why;
	slot[at].until = until;
	rr_lock_drop(&lock);
}

void rr_cache_drop(const struct sockaddr_in6 *peer)
{
	if (rr_lock_take(&lock) == -EDEADLK)
		return;
	for (uint32_t i = 0; i < SLOTS; i++)
		if (slot[i].until && rr_peeraddr_same(&slot[i].peer, peer))
			slot[i].until = 0;
	rr_lock_drop(&lock);
}

/* In a forked child: another thread of the parent may have been inside. */
void rr_cache_forked(void)
{
	lock = (struct rr_lock){ 0 };
}
