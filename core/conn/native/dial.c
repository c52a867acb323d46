/* SPDX-License-Identifier: BSD-3-Clause */
/* Dials a native peer: connect() by RDMA CM. While the provider connects, the app's socket
 * stays as it was. When the provider has connected, the socket is connected to ourselves over
 * loopback (base/loopback.c); if it could not, the kernel's connect() follows as if nothing had
 * happened. */

#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/native/native.h"

static bool any_address(const struct sockaddr_in6 *a)
{
	const struct sockaddr_in *in = (const void *)a;

	return a->sin6_family == AF_INET ? in->sin_addr.s_addr == htonl(INADDR_ANY) :
		IN6_IS_ADDR_UNSPECIFIED(&a->sin6_addr);
}

/* The socket's own address; zeroes and false if the kernel does not say. */
static bool own_name(int fd, struct sockaddr_in6 *a)
{
	socklen_t len = sizeof(*a);

	memset(a, 0, sizeof(*a));
	return !rr_os->getsockname(fd, (struct sockaddr *)a, &len);
}

/* The peer's RDMA CM address. False: no native rule covers it. */
static bool rdma_address(const struct rr_conn *c, int fd, struct sockaddr_in6 *to)
{
	struct sockaddr_in6 local;
	uint16_t port;

	own_name(fd, &local);
	port = rr_cp->native(false, (struct sockaddr *)&local,
			     (const struct sockaddr *)&c->peer);
	*to = c->peer;
	to->sin6_port = htons(port);	/* where sin_port is */
	return port != 0;
}

/* --- how it ends ------------------------------------------------------------------------- */

/* The app's connect() fails with err, now or when it asks. */
static void refuse(struct rr_conn *c, int err, enum rr_reason why)
{
	c->dial_err = err;
	rr_report(c, RR_CS_DEAD, RR_CARRIER_NONE, why);
	rr_conn_turn(c, RR_S_REFUSED);
}

/* From here on it is a TCP connection like others. A thread that waits in connect() makes the
 * kernel's call itself. */
static void go_on_by_tcp(struct rr_conn *c, int fd)
{
	rr_conn_turn(c, RR_S_NEW);
	if (!c->dial_wait && rr_os->connect(fd, (struct sockaddr *)&c->peer, c->peer_len) &&
	    errno != EINPROGRESS)
		refuse(c, errno, RR_R_NO_ROUTE);
}

/* The errno for connect() if a rule forbids TCP. */
static int as_tcp_says(int rc)
{
	switch (rc) {
	case -ENETUNREACH: case -EHOSTUNREACH: case -ECONNREFUSED: case -ETIMEDOUT:
		return -rc;
	case -EAGAIN:
		return ETIMEDOUT;
	default:
		return ECONNREFUSED;
	}
}

static enum rr_reason why_not_dialled(int rc)
{
	switch (rc) {
	case -ENODEV: return RR_R_NO_DEVICE;
	case -EDQUOT: return RR_R_CGROUP;
	case -ENOMEM: return RR_R_MEMLOCK;
	case -EMFILE: case -ENFILE: return RR_R_NO_FDS;
	case -ENETUNREACH: case -EHOSTUNREACH: case -ETIMEDOUT: return RR_R_NO_ROUTE;
	case -ENETDOWN: case -EIO: return RR_R_DEVICE;
	default: return RR_R_NO_NATIVE;
	}
}

/* A rule that requires RDMA refuses the connection. Otherwise the kernel's connect() follows,
 * and the peer is not dialled again for a while, unless what was lacking is memory, a
 * descriptor or a share of the cgroup of this process, or its own device's link. */
static void failed(struct rr_conn *c, int fd, int rc)
{
	enum rr_reason why = why_not_dialled(rc);
	struct sockaddr_in6 to;

	rr_carrier_free(c->share);
	c->share = NULL;
	rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
	rr_told_here(c, RR_TOLD_NATIVE, why);
	rr_info("fd %d: cannot connect by native RDMA (error %d)", fd, -rc);
	if (c->require)
		return refuse(c, as_tcp_says(rc), why);
	if (rdma_address(c, fd, &to) && rc != -ENOMEM && rc != -EMFILE && rc != -EDQUOT &&
	    rc != -ENETDOWN)
		rr_cache_add(&to, RR_R_NO_NATIVE, rr_now() + rr_cp->negative_time);
	go_on_by_tcp(c, fd);
}

/* The address that a TCP connection would have come from, for the app to see. Connecting a
 * datagram socket makes the kernel choose it, and sends nothing. */
static void route_name(const struct rr_conn *c, struct sockaddr_in6 *name)
{
	uint16_t port = name->sin6_port;
	int fd;

	if (!any_address(name))
		return;
	fd = rr_os->socket(c->peer.sin6_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (!rr_os->connect(fd, (const struct sockaddr *)&c->peer, c->peer_len))
		own_name(fd, name);
	rr_os->close(fd);
	name->sin6_port = port;
}

/* The app sees the addresses that a TCP connection would have had, not those of the loopback
 * connection behind its socket. */
static void established(struct rr_conn *c, int fd)
{
	struct rr_share *sh = c->share;
	struct sockaddr_in6 bound, now;
	int rc = -EMFILE;

	own_name(fd, &bound);
	if (rr_own_spare(-1))
		rc = rr_loopback_connect(fd, &sh->far);
	if (rc)
		return failed(c, fd, rc);
	own_name(fd, &now);
	bound.sin6_port = now.sin6_port;
	route_name(c, &bound);
	c->name[0] = bound;
	c->name[1] = c->peer;
	rr_native_carry(c);
}

void rr_dial_step(struct rr_conn *c, int fd)
{
	int rc = rr_carrier_establish(c->share);

	if (rc == 0)
		established(c, fd);
	else if (rc != -EAGAIN || rr_now() >= c->deadline)
		failed(c, fd, rc);
}

/* --- how it begins ----------------------------------------------------------------------- */

/* Begins to connect. 0: rr_dial_step() goes on with it; or -errno, and the caller frees the
 * share. */
static int call(struct rr_conn *c, int fd, const struct sockaddr_in6 *to)
{
	const struct rr_prov_ops *ops = rr_prov_native();
	struct sockaddr_in6 from;
	struct rr_prov_params p;

	if (!ops)
		return -ENODEV;
	if (!rr_own_params(&p, c, NULL, fd))
		return -EMFILE;
	c->share = rr_carrier_new(ops, &p);
	if (!c->share)
		return -ENOMEM;
	own_name(fd, &from);
	from.sin6_port = 0;
	return rr_carrier_call(c->share, &p, (const struct sockaddr *)to,
			       any_address(&from) ? NULL : (struct sockaddr *)&from);
}

static void begin_call(struct rr_conn *c, int fd, const struct sockaddr_in6 *to)
{
	int rc;

	rr_report_adopt(c);
	rr_told_offered(c, RR_TOLD_NATIVE);
	c->dial_wait = true;	/* until the call is under way */
	rc = call(c, fd, to);
	if (rc)
		return failed(c, fd, rc);
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	atomic_store_explicit(&c->face.state, RR_S_DIALING, memory_order_release);
}

/* Did dialling this peer fail a short while ago? */
static bool known_bad(const struct rr_conn *c, const struct sockaddr_in6 *to)
{
	rr_time now = rr_now();

	return rr_cache_look(to, now) == RR_R_NO_NATIVE ||
	       rr_cache_look(&c->peer, now) == RR_R_SIZE_KNOWN ||
	       (rr_cp->stopped && rr_cp->stopped());
}

/* In a function of its own, because most programs have no rule that wants this, and a
 * connection to ask with is large. */
static RR_NOINLINE struct rr_conn *begin_dial(int fd, const struct sockaddr *peer,
					      socklen_t len)
{
	struct rr_conn probe = { .peer_len = rr_min(len, (socklen_t)sizeof(probe.peer)) }, *c;
	struct sockaddr_in6 to, local;

	memcpy(&probe.peer, peer, probe.peer_len);
	own_name(fd, &local);
	if (!rdma_address(&probe, fd, &to) ||
	    (rr_cp->mode(false, (struct sockaddr *)&local, peer) != RR_MODE_REQUIRE &&
	     known_bad(&probe, &to)))
		return NULL;
	c = rr_conn_make(false, fd, peer, len);
	if (!c)
		return NULL;
	c->dial = true;
	begin_call(c, fd, &to);
	return c;
}

/* NULL: no rule wants this, or it failed a short while ago and is not required, so the
 * kernel's connect() is to be called. Nothing has been done to the socket then. */
struct rr_conn *rr_conn_dial(int fd, const struct sockaddr *peer, socklen_t len)
{
	if (!rr_cp || !rr_cp->native || !peer || len < sizeof(struct sockaddr_in) ||
	    (peer->sa_family != AF_INET &&
	     (peer->sa_family != AF_INET6 || len < sizeof(struct sockaddr_in6))))
		return NULL;
	return begin_dial(fd, peer, len);
}

int rr_dial_again(struct rr_conn *c, int fd)
{
	int err = c->dial_err;
	struct sockaddr_in6 to;

	c->dial_err = 0;
	if (err)
		return -err;
	if (rdma_address(c, fd, &to))
		begin_call(c, fd, &to);
	return RR_RIDE_OVER;
}
