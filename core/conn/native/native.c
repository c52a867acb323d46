/* SPDX-License-Identifier: BSD-3-Clause */
/* Native peers: any implementation of RFC 8166 that dials us, or is dialled, by RDMA CM. There
 * is no library of ours at the other end, so nothing of ours goes on the wire: no offer, no end
 * mark, no way back to TCP. Dialling is dial.c's.
 *
 * A listener has two doors, the app's TCP socket and the provider's RDMA listener. Requests are
 * taken from the latter when the app asks for readiness, and wait in a queue for its accept().
 * Of a family, the process that asks first opens the RDMA listener; the others try again now
 * and then. */

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/log.h"
#include "core/base/os.h"
#include "core/conn/base/spare.h"
#include "core/conn/native/native.h"

/* Connections that wait for accept(); each has all of its memory already. */
#define QUEUE		8u
#define REFUSALS	8	/* refused in one look; each takes some milliseconds */
#define RETRY		(10 * RR_SEC)
#define RETRY_SOON	RR_SEC	/* the port's owner may end; the any-address needs no device */
#define LOOK_AGAIN	RR_SEC	/* at who is in the queue, where no descriptor tells */

struct rr_listener {
	struct rr_lst *lst;		/* NULL: the door is shut */
	rr_time retry;			/* when to try to open it */
	enum rr_reason why;
	uint16_t port;			/* of RDMA CM */
	struct sockaddr_in6 addr;	/* the TCP socket's own; v4 or v6 */
	/* Until when there is no room for guests; 0: there may be some. */
	rr_time full;
	/* When a refusal was last logged … */
	rr_time told;
	uint32_t untold;		/* … and how many refusals were not logged since */
	struct rr_share *first;		/* the queue, oldest first */
	struct rr_share *spare;	/* a share without a request, for the next one */
	uint32_t n;
	bool lost;			/* its device went away while the door was open */
	/* The door was opened before the app gave up its privileges, and nobody has asked for
	 * readiness yet. */
	bool early;
	_Atomic bool shared;		/* with other processes, by a fork */
};

/* --- the door ---------------------------------------------------------------------------- */

static _Atomic bool any_reserved;	/* some listener had a reserved port */

bool rr_conn_any_early(void)
{
	return unlikely(atomic_load_explicit(&any_reserved, memory_order_relaxed));
}

/* NULL: no native rule covers the address. The door is opened later (door()), so a process that
 * only forks opens none. */
struct rr_conn *rr_conn_listener(int fd)
{
	struct sockaddr_in6 addr = { 0 };
	socklen_t len = sizeof(addr);
	struct rr_listener *l;
	struct rr_conn *c;
	uint16_t port;

	if (!rr_cp || !rr_cp->native || rr_os->getsockname(fd, (struct sockaddr *)&addr, &len))
		return NULL;
	port = rr_cp->native(true, (struct sockaddr *)&addr, NULL);
	if (!port)
		return NULL;
	l = mmap(NULL, sizeof(*l), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (l == MAP_FAILED)
		return NULL;
	c = rr_slab_get(true, fd);
	if (!c) {
		munmap(l, sizeof(*l));
		return NULL;
	}
	l->addr = addr;
	l->port = port;
	c->listener = l;
	c->listener_size = sizeof(*l);
	rr_report_open(c, fd);
	atomic_store_explicit(&c->face.state, RR_S_LISTEN, memory_order_release);
	if (port < IPPORT_RESERVED)
		atomic_store_explicit(&any_reserved, true, memory_order_relaxed);
	return c;
}

static enum rr_reason why_not(int rc)
{
	switch (rc) {
	case -EADDRINUSE: return RR_R_PORT_TAKEN;
	case -EMFILE: case -ENFILE: return RR_R_NO_FDS;
	case -ENOMEM: return RR_R_NO_MEMORY;
	default: return RR_R_NO_DEVICE;
	}
}

/* Reports the state of the door when it changes, because the process may try again and
 * again. */
static void report_door(struct rr_conn *c, int rc)
{
	struct rr_listener *l = c->listener;
	enum rr_reason why = rc ? why_not(rc) : RR_R_NONE;

	if (rc && why == l->why)
		return;
	l->why = why;
	rr_conn_set_changed(c);
	rr_report_adopt(c);
	rr_report(c, rc ? RR_CS_TCP : RR_CS_LISTENING, RR_CARRIER_NONE, why);
	if (rc)
		rr_warn("native peers cannot reach RDMA port %u: %s (error %d); others use TCP",
			l->port, rr_reason_text(why), -rc);
	else
		rr_info("native peers reach RDMA port %u", l->port);
}

static void shut_door(struct rr_listener *l)
{
	if (!l->lst)
		return;
	rr_carrier_unlisten(l->lst);
	l->lst = NULL;
}

/* For an IPv4 socket the kernel knows no such option, and the answer is no. */
static bool is_v6only(int fd)
{
	socklen_t len = sizeof(int);
	int only = 0;

	return !rr_os->getsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &only, &len) && only;
}

/* Listens at the same address as the app's socket, at the port that the rule gives. */
static int open_rdma_door(struct rr_listener *l, int fd)
{
	const struct rr_prov_ops *ops = rr_prov_native();
	struct sockaddr_in6 addr = l->addr;

	if (!ops)
		return -ENODEV;
	if (!rr_own_spare(-1))
		return -EMFILE;
	addr.sin6_port = htons(l->port);	/* where sin_port is */
	return rr_carrier_listen(ops, (struct sockaddr *)&addr, is_v6only(fd), &l->lst);
}

/* Is the door open? Tries to open it, if it is time to. */
static bool door(struct rr_conn *c, int fd)
{
	struct rr_listener *l = c->listener;
	rr_time now;
	int rc;

	if (likely(l->lst))
		return true;
	now = rr_now();
	if (now < l->retry)
		return false;
	rc = open_rdma_door(l, fd);
	l->lost &= rc != 0;
	l->retry = now + (rc == -EADDRINUSE ? RETRY_SOON : RETRY);
	report_door(c, rc);
	return rc == 0;
}

/* The app may be about to drop its privileges, so a reserved port is opened now. If it forks
 * next, rr_native_forks() shuts the door again. */
void rr_conn_early(struct rr_conn *c)
{
	struct rr_listener *l = c->listener;
	struct rr_lock *lock;

	if (!l || l->port >= IPPORT_RESERVED || rr_conn_hold(c, &lock) < 0)
		return;
	if (rr_conn_st(c) == RR_S_LISTEN && !l->lst)
		l->early = door(c, c->fd);
	rr_lock_drop(lock);
}

/* Is the door expected to open? Nothing reports that, so a sleeping thread wakes up for it.
 * (Where there never was a device, another call is needed to find one.) */
static bool awaited(const struct rr_listener *l)
{
	return l->lost || l->why == RR_R_PORT_TAKEN;
}

/* --- who comes in ------------------------------------------------------------------------ */

/* Rewrites an IPv4 address the way the app's socket shows it. */
static void as_family(struct sockaddr_in6 *a, sa_family_t family)
{
	const struct sockaddr_in in = *(const struct sockaddr_in *)(const void *)a;

	if (a->sin6_family != AF_INET || family != AF_INET6)
		return;
	memset(a, 0, sizeof(*a));
	a->sin6_family = AF_INET6;
	a->sin6_port = in.sin_port;
	a->sin6_addr.s6_addr[10] = a->sin6_addr.s6_addr[11] = 0xff;
	memcpy(a->sin6_addr.s6_addr + 12, &in.sin_addr, 4);
}

/* Sets the addresses that the connection will show. False: a rule does not admit this peer. The
 * local port is that of the app's TCP listener, which the app expects. */
static bool admit(const struct rr_listener *l, struct rr_share *sh)
{
	const struct sockaddr *local = (struct sockaddr *)&sh->name[0];
	const struct sockaddr *peer = (struct sockaddr *)&sh->name[1];

	as_family(&sh->name[0], l->addr.sin6_family);
	as_family(&sh->name[1], l->addr.sin6_family);
	sh->name[0].sin6_port = l->addr.sin6_port;
	return rr_cp->native(true, local, peer) &&
	       rr_cp->mode(true, local, peer) != RR_MODE_TCP &&
	       !(rr_cp->stopped && rr_cp->stopped());
}

static void queue_peer(struct rr_listener *l, struct rr_share *sh)
{
	struct rr_share **at = &l->first;

	while (*at)
		at = &(*at)->next;
	*at = sh;
	l->n++;
}

/* Logs a refusal, but not each: a peer that keeps coming must not fill the log. */
static void report_refusal(struct rr_listener *l, int rc)
{
	rr_time now = rr_now();

	if (l->told && now - l->told < RETRY) {
		l->untold++;
		return;
	}
	l->told = now;
	if (rc)
		rr_warn("refused a native peer: error %d (%u more since the last such line)",
			-rc, l->untold);
	else
		rr_info("refused a native peer by a rule (%u more since the last such line)",
			l->untold);
	l->untold = 0;
}

/* Takes one request, if there is one. 0: taken or refused; or -errno. */
static int take_one(struct rr_listener *l)
{
	struct rr_prov_params p;
	struct rr_share *sh;
	int rc;

	if (!rr_own_params(&p, NULL, NULL, -1))
		return -EMFILE;
	/* kept for the next look if there is no request: looks are frequent, requests are
	 * not */
	if (!l->spare)
		l->spare = rr_carrier_new(l->lst->ops, &p);
	sh = l->spare;
	if (!sh)
		return -ENOMEM;
	rc = rr_carrier_take(l->lst, sh, &p);
	if (rc == -EAGAIN || rc == -ESHUTDOWN)
		return rc;
	if (rc) {
		report_refusal(l, rc);
		return 0;
	}
	l->spare = NULL;
	if (admit(l, sh)) {
		queue_peer(l, sh);
	} else {
		report_refusal(l, 0);
		rr_carrier_free(sh);
	}
	return 0;
}

/* Is there a request that there is room for? */
static bool knocks(struct rr_conn *c, rr_time now)
{
	struct rr_listener *l = c->listener;
	bool was = l->full;
	uint32_t unmet;

	if (l->n >= QUEUE || now < l->full || !rr_anchor_poll(l->lst->fd, POLLIN))
		return false;
	unmet = l->n + rr_guests_each(rr_native_step);	/* an app may never look at them */
	l->full = rr_guests_full(unmet, now);
	if (was != !!l->full)	/* whether the door is watched has changed */
		rr_conn_set_changed(c);
	return !l->full;
}

/* Called with the listener's lock before each accept() and each question about readiness. The
 * number of requests handled in one look is limited, because each takes time out of the app's
 * call. */
void rr_native_look(struct rr_conn *c, int fd)
{
	struct rr_listener *l = c->listener;
	int rc;

	if (!door(c, fd))
		return;
	l->early = false;
	rc = rr_carrier_tend(l->lst);
	for (int i = 0; !rc && i < REFUSALS && knocks(c, rr_now()); i++)
		rc = take_one(l);
	if (rc == -ESHUTDOWN) {
		shut_door(l);
		l->lost = true;
		l->retry = rr_now() + RETRY_SOON;
		report_door(c, -ENODEV);
	}
}

int rr_native_poll(struct rr_conn *c, int fd, unsigned want)
{
	rr_native_look(c, fd);
	if (!c->listener->lst && !c->listener->n)
		return RR_CONN_KERNEL;
	return (int)(rr_anchor_poll(fd, want) | (c->listener->n ? want & RR_IN_BITS : 0));
}

/* What to sleep on: the app's socket, and the door if a request could be taken: while the queue
 * is full, a request wakes nobody. *until: when to wake up for what no descriptor reports, such
 * as peers in the queue. (It need not be soon, since whoever sleeps has asked before; but the
 * kernel's word about the app's socket must not be taken for all there is to know.) */
int rr_native_fds(struct rr_conn *c, int fd, unsigned want, struct pollfd out[2],
		  rr_time *until)
{
	struct rr_listener *l = c->listener;
	bool open = door(c, fd);

	out[0] = (struct pollfd){ fd, (short)want, 0 };
	if (!open && awaited(l))
		*until = l->retry;
	if (l->full)
		*until = rr_min(*until, l->full);
	if (!(want & RR_IN_BITS))
		return 1;
	if (open && l->n < QUEUE && !l->full) {
		out[1] = (struct pollfd){ l->lst->fd, POLLIN, 0 };
		return 2;
	}
	if (l->n)
		*until = rr_min(*until, rr_now() + LOOK_AGAIN);
	return 1;
}

static struct rr_share *unqueue_peer(struct rr_listener *l)
{
	struct rr_share *sh = l->first;

	if (sh) {
		l->first = sh->next;
		sh->next = NULL;
		l->n--;
	}
	return sh;
}

/* Options that an accepted socket inherits from its listener, as far as apps look at them. */
static void inherit_options(int listener, int fd)
{
	static const struct { int level, name; } option[] = {
		{ SOL_SOCKET, SO_RCVTIMEO }, { SOL_SOCKET, SO_SNDTIMEO },
		{ SOL_SOCKET, SO_LINGER }, { SOL_SOCKET, SO_KEEPALIVE },
		{ IPPROTO_TCP, TCP_NODELAY },
	};
	uint64_t room[2];

	for (size_t i = 0; i < rr_array_size(option); i++) {
		socklen_t len = sizeof(room);

		if (!rr_os->getsockopt(listener, option[i].level, option[i].name, room, &len))
			rr_os->setsockopt(fd, option[i].level, option[i].name, room, len);
	}
}

/* Makes the app's end of sh. Returns its descriptor, or -errno. */
static int make_conn(struct rr_share *sh, int listener, int flags, struct rr_conn **out)
{
	struct rr_conn *c;
	int fd;

	if (!rr_own_spare(-1))
		return -EMFILE;
	fd = rr_loopback_new(sh->name[0].sin6_family, flags, &sh->far);
	if (fd < 0)
		return fd;
	c = rr_slab_get(true, fd);
	if (!c) {
		rr_os->close(fd);
		rr_loopback_end(&sh->far, false);
		return -ENOMEM;
	}
	inherit_options(listener, fd);
	c->share = sh;
	memcpy(c->name, sh->name, sizeof(c->name));
	c->deadline = rr_now() + rr_cp->upgrade_timeout;
	rr_report_open(c, fd);
	rr_report(c, RR_CS_NEW, RR_CARRIER_NONE, RR_R_NONE);
	atomic_store_explicit(&c->face.state, RR_S_TAKEN, memory_order_release);
	rr_guests_enters(c);
	*out = c;
	return fd;
}

/* Returns the new descriptor, -EAGAIN: there is no native peer now; RR_CONN_KERNEL: only the
 * kernel can have one; or -errno. */
int rr_conn_accept(struct rr_conn *c, int fd, int flags, struct rr_conn **out)
{
	struct rr_listener *l = c->listener;
	struct rr_lock *lock;
	struct rr_share *sh;
	int rc, st = rr_conn_hold(c, &lock);

	if (st < 0)
		return st;
	if (st != RR_S_LISTEN) {
		rr_lock_drop(lock);
		return RR_CONN_KERNEL;
	}
	rr_native_look(c, fd);
	if (l->n == QUEUE)	/* there is room again: the door is watched again */
		rr_conn_set_changed(c);
	sh = unqueue_peer(l);
	rc = l->lst || awaited(l) ? -EAGAIN : RR_CONN_KERNEL;
	if (sh) {
		rc = make_conn(sh, fd, flags, out);
		if (rc < 0) {	/* as in the kernel, it stays in the queue */
			sh->next = l->first;
			l->first = sh;
			l->n++;
		}
	}
	rr_lock_drop(lock);
	return rc;
}

bool rr_conn_defers(struct rr_conn *c)
{
	struct rr_lock *lock;
	bool yes;

	if (!c->listener->shared || rr_conn_hold(c, &lock) < 0)
		return false;
	yes = c->listener->lst;
	rr_lock_drop(lock);
	return yes;
}

void rr_native_forks(struct rr_conn *c)
{
	struct rr_listener *l = c->listener;

	l->shared = true;
	if (l->early)		/* perhaps it is the child that will accept */
		shut_door(l);
	l->early = false;
}

/* --- the end of a listener --------------------------------------------------------------- */

/* Peers in the queue see their connections end, as those do that wait in the kernel's queue. */
void rr_native_close(struct rr_conn *c)
{
	struct rr_listener *l = c->listener;

	shut_door(l);
	l->retry = RR_TIME_NEVER;
	rr_carrier_free(l->first);
	if (l->spare)
		rr_spare_leave(l->spare);
	l->first = l->spare = NULL;
	l->n = 0;
}

/* In a child: the queue and the door are the parent's. This process may open a door of its own
 * when the parent's is shut. */
void rr_native_forked(struct rr_conn *c)
{
	struct rr_listener *l = c->listener;

	l->shared = true;
	rr_native_close(c);
	l->lost = false;
	l->retry = 0;
	l->why = RR_R_NONE;
}

/* --- its connections --------------------------------------------------------------------- */

/* The addresses of a native connection as the app is to see them; false: the kernel knows them.
 * As with getpeername(2), *len is the full length even where the address was cut. */
bool rr_conn_name(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len)
{
	const struct sockaddr_in6 *name;
	struct rr_lock *lock;
	socklen_t size;
	bool known;

	if (rr_conn_is_kernels(c) || (int)*len < 0 || rr_conn_hold(c, &lock) < 0)
		return false;
	known = c->name[peer].sin6_family && !rr_conn_is_tcp(c);
	if (known) {
		name = &c->name[peer];
		size = name->sin6_family == AF_INET ? sizeof(struct sockaddr_in)
						    : sizeof(*name);
		memcpy(addr, name, rr_min(*len, size));
		*len = size;
	}
	rr_lock_drop(lock);
	return known;
}

/* The connection was never established: the app's end sees a reset, and is the kernel's. */
static void end_taken(struct rr_conn *c, enum rr_reason why)
{
	if (c->relay)	/* its relay sleeps on the socket */
		rr_os->shutdown(c->share->far, SHUT_RDWR);
	rr_loopback_end(&c->share->far, true);
	rr_carrier_free(c->share);
	c->share = NULL;
	rr_count(rr_stats_counters(c->st), RR_C_upgrade_failures, 1);
	rr_report(c, RR_CS_DEAD, RR_CARRIER_NONE, why);
	rr_conn_turn(c, RR_S_TCP);
}

/* Parameters come from the rule, and nothing is negotiated: the peer does not know the library.
 * In version 2 the peer could answer in version 1; a peer that is known not to speak version 2
 * is not asked again (version-two-08 §7.2). */
void rr_native_carry(struct rr_conn *c)
{
	struct rr_eng_params *ep = &c->share->ep;
	enum rr_dialect other;

	ep->dialect = rr_own_dialect(c, NULL);
	other = rr_eng_falls_back(ep->dialect);
	if (other != ep->dialect && !c->face.server &&
	    rr_cache_look(&c->peer, rr_now()) == RR_R_NO_DIALECT)
		ep->dialect = other;
	ep->caps = rr_eng_native_caps(ep->dialect, rr_own_caps());
	rr_keep_learn(c->share, c->fd);
	if (c->face.server)
		rr_guests_comes(c);
	rr_upgrade_carry(c);
}

/* One more step towards a carried connection, for a peer that was accepted; a limited time is
 * allowed for it. */
void rr_native_step(struct rr_conn *c)
{
	int rc = rr_carrier_establish(c->share);

	if (rc == 0)
		rr_native_carry(c);
	else if (rc != -EAGAIN || rr_now() >= c->deadline)
		end_taken(c, rc == -EAGAIN ? RR_R_TIMEOUT : RR_R_PEER_DIED);
}
