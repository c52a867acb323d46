/* SPDX-License-Identifier: BSD-3-Clause */
/* Keepalive, for both kinds of peers. Whether a peer is gone is reported by fate.c.
 *
 * Between two of ours, the anchor of a connection that a device carries to another host is
 * silent, and firewalls or NATs between the hosts forget silent connections. So TCP sends
 * probes for us, once a minute, until it has bytes of its own again; the app is told that none
 * of this is set. These probes are no reason to end the connection: unless the app has asked
 * for that, two hours may pass without an answer.
 *
 * With a native peer, SO_KEEPALIVE is imitated. After TCP_KEEPIDLE seconds of silence the
 * device is given something that the peer's device has to acknowledge; how often it tries and
 * how long it waits is up to the device. If it gives up, the connection ends by ETIMEDOUT, as
 * TCP's would.
 *
 * The clock for that is the thread that waits for the connection: it sleeps no longer than
 * until the next probe. An app that does not wait would not hear of it from TCP either, until
 * it makes a call. */

#include <errno.h>
#include <netinet/tcp.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/conn/carried/carried.h"

#define IDLE		60	/* s: less than any common time-out of firewalls and NAT */
#define INTERVAL	60
#define COUNT		120

static int option(int fd, int level, int name)
{
	socklen_t len = sizeof(int);
	int val = 0;

	return rr_os->getsockopt(fd, level, name, &val, &len) ? 0 : val;
}

/* --- between two of ours ---------------------------------------------------------------- */

enum { ON, AFTER, EVERY, TIMES };

static const struct { int level, name; } opts[RR_KEEP_OPTS] = {
	[ON] = { SOL_SOCKET, SO_KEEPALIVE }, [AFTER] = { IPPROTO_TCP, TCP_KEEPIDLE },
	[EVERY] = { IPPROTO_TCP, TCP_KEEPINTVL }, [TIMES] = { IPPROTO_TCP, TCP_KEEPCNT },
};

static int which(int level, int name)
{
	for (int i = 0; i < (int)RR_KEEP_OPTS; i++)
		if (opts[i].level == level && opts[i].name == name)
			return i;
	return -1;
}

/* Sets the times before the option that uses them. */
static void put(int fd, const int val[RR_KEEP_OPTS])
{
	for (int i = RR_KEEP_OPTS - 1; i >= 0; i--)
		rr_os->setsockopt(fd, opts[i].level, opts[i].name, &val[i], sizeof(int));
}

/* If the app has set SO_KEEPALIVE itself, it has said how long the peer may be silent, so only
 * the first probe comes earlier. */
static void put_ours(const struct rr_anchor_keep *k, int fd)
{
	int val[RR_KEEP_OPTS] = {
		[ON] = 1, [AFTER] = IDLE, [EVERY] = INTERVAL, [TIMES] = COUNT
	};

	if (k->app[ON]) {
		val[AFTER] = rr_min(k->app[AFTER], IDLE);
		val[EVERY] = k->app[EVERY];
		val[TIMES] = k->app[TIMES];
	}
	put(fd, val);
}

/* TCP_USER_TIMEOUT limits how long bytes may go unacknowledged, and our probes would count as
 * such: none are sent then, unless the app has asked for probes itself. */
static bool may_ask(const struct rr_anchor_keep *k, int fd)
{
	return k->app[ON] || !option(fd, IPPROTO_TCP, TCP_USER_TIMEOUT);
}

void rr_keep_anchor(struct rr_share *sh, int fd)
{
	struct rr_anchor_keep *k = &sh->anchor;
	int saved = errno;

	if (sh->qp->native || rr_qp_caps(sh->qp) & RR_PROV_TELLS)
		return;
	for (int i = 0; i < (int)RR_KEEP_OPTS; i++)
		k->app[i] = option(fd, opts[i].level, opts[i].name);
	k->ours = may_ask(k, fd);
	if (k->ours)
		put_ours(k, fd);
	errno = saved;
}

static void give_options_back(struct rr_anchor_keep *k, int fd)
{
	int saved = errno;

	k->ours = false;
	put(fd, k->app);
	errno = saved;
}

void rr_keep_leave(struct rr_share *sh, int fd)
{
	if (unlikely(sh->anchor.ours) && rr_rx_is_tcp(sh) &&
	    (rr_tx_is_tcp(sh) || rr_tx_is_shut(sh)))
		give_options_back(&sh->anchor, fd);
}

bool rr_keep_hides(const struct rr_share *sh, int level, int name, int *val)
{
	int i = sh->anchor.ours ? which(level, name) : -1;

	if (i >= 0)
		*val = sh->anchor.app[i];
	return i >= 0;
}

bool rr_keep_cares(int level, int name)
{
	return which(level, name) >= 0 || (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT);
}

void rr_keep_set(struct rr_share *sh, int fd, int level, int name)
{
	struct rr_anchor_keep *k = &sh->anchor;
	int i = which(level, name), saved = errno;

	if (!k->ours || !rr_keep_cares(level, name))
		return;
	if (i >= 0)
		k->app[i] = option(fd, level, name);
	if (may_ask(k, fd))
		put_ours(k, fd);
	else
		give_options_back(k, fd);
	errno = saved;
}

/* --- native ----------------------------------------------------------------------------- */

void rr_keep_learn(struct rr_share *sh, int fd)
{
	int saved = errno;

	if (!sh->qp->native)
		return;
	sh->keep_idle = 0;
	if (option(fd, SOL_SOCKET, SO_KEEPALIVE))
		sh->keep_idle = (rr_time)option(fd, IPPROTO_TCP, TCP_KEEPIDLE) * RR_SEC;
	errno = saved;
}

rr_time rr_keep_due(const struct rr_share *sh)
{
	if (likely(!sh->keep_idle) || sh->probing || !rr_link_is_up(sh))
		return RR_TIME_NEVER;
	rr_time active = sh->active;

	return rr_max(active, sh->probed) + sh->keep_idle;
}

bool rr_keep_is_due(struct rr_share *sh, rr_time now)
{
	if (likely(now < rr_keep_due(sh)))
		return false;
	sh->probed = now;
	return true;
}

void rr_keep_asked(struct rr_share *sh, int rc)
{
	sh->probing = rc == 0;
	if (rc == -EOPNOTSUPP)	/* this provider notices by itself that a peer is gone */
		sh->keep_idle = 0;
	else if (rc < 0 && rc != -EAGAIN)
		rr_keep_answer(sh, rc);
}

void rr_keep_answer(struct rr_share *sh, int status)
{
	sh->probing = false;
	if (status == -ETIMEDOUT)
		rr_drv_fail(sh, ETIMEDOUT, RR_R_PEER_DIED);
	else if (status)
		rr_drv_lost(sh);
}
