/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of rpcbind's own protocol (RFC 1833), by libtirpc. Its rpcb_set() refuses netids that
 * /etc/netconfig does not have, so the procedures are called directly. Each call has a
 * connection of its own, with a time-out, and leaves nothing behind. */

#include "tools/run/rpcb.h"

#include <errno.h>
#include <netinet/in.h>
#include <rpc/rpc.h>
#include <rpc/rpcb_prot.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

static const struct timeval patience = { 5, 0 };

/* --- connections --- */

/* Connects to rpcbind's local socket. The owner of what is registered by a connection is the
 * effective user at the time of its connect(). */
static int connect_local(void)
{
	static const struct sockaddr_un at = { .sun_family = AF_UNIX,
					       .sun_path = _PATH_RPCBINDSOCK };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), saved;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, (const struct sockaddr *)&at, sizeof(at)))
		return fd;
	saved = errno;
	close(fd);
	errno = saved;
	return -1;
}

/* Connects to a host's rpcbind. SO_SNDTIMEO also bounds connect(), which then fails with
 * EINPROGRESS. */
static int connect_address(const struct sockaddr *sa)
{
	socklen_t len = sa->sa_family == AF_INET6 ? sizeof(struct sockaddr_in6) :
			sizeof(struct sockaddr_in);
	int fd = socket(sa->sa_family, SOCK_STREAM | SOCK_CLOEXEC, IPPROTO_TCP), saved;

	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
	if (!connect(fd, sa, len))
		return fd;
	saved = errno == EINPROGRESS ? ETIMEDOUT : errno;
	close(fd);
	errno = saved;
	return -1;
}

/* An RPC client on fd, which it takes over; NULL if there is none. clnt_destroy() closes fd. */
static CLIENT *client_on(int fd)
{
	struct sockaddr_storage ss = { 0 };
	struct netbuf peer = { .maxlen = sizeof(ss), .buf = &ss };
	socklen_t len = sizeof(ss);
	CLIENT *c = NULL;

	if (!getpeername(fd, (struct sockaddr *)&ss, &len)) {
		peer.len = len;
		c = clnt_vc_create(fd, &peer, RPCBPROG, RPCBVERS4, 0, 0);
	}
	if (c)
		clnt_control(c, CLSET_FD_CLOSE, NULL);
	else
		close(fd);
	return c;
}

const char *rr_rpcb_missing(void)
{
	static char why[128];
	int fd = connect_local();

	if (fd >= 0) {
		close(fd);
		return NULL;
	}
	snprintf(why, sizeof(why), "%s: %s", _PATH_RPCBINDSOCK, strerror(errno));
	return why;
}

/* --- dump --- */

/* Decodes a string into buf. A longer one fails, and with it the whole answer. */
static bool_t text(XDR *x, char *buf, u_int size)
{
	return xdr_string(x, &buf, size - 1);
}

/* Appends an entry if it matters. Those of other users get half of the room at most, so that
 * they cannot crowd out the others. */
static void keep_entry(struct rr_rpcb_list *l, const struct rr_rpcb *e)
{
	int64_t user = rr_rpcb_user(e);
	bool other = user && user != (int64_t)geteuid();

	if (l->matters && !l->matters(e))
		return;
	if (l->n == RR_RPCB_MAX || (other && l->others == RR_RPCB_MAX / 2)) {
		l->left_out++;
		return;
	}
	l->others += other;
	l->e[l->n++] = *e;
}

/* Decodes a list of entries (rpcblist, RFC 1833 §2.1) in place, because a helper should not
 * allocate lists and strings whose size a peer chooses. Each entry is led by TRUE, and FALSE
 * ends the list. */
static bool_t entries(XDR *x, struct rr_rpcb_list *l)
{
	struct rr_rpcb e;
	bool_t more;

	l->n = l->others = l->left_out = 0;
	for (uint32_t i = 0; i <= RR_RPCB_READ && xdr_bool(x, &more); i++) {
		if (!more)
			return TRUE;
		memset(&e, 0, sizeof(e));	/* compared as a whole, so what a text does not
						 * fill must be zero */
		if (!xdr_uint32_t(x, &e.prog) || !xdr_uint32_t(x, &e.vers) ||
		    !text(x, e.netid, sizeof(e.netid)) || !text(x, e.addr, sizeof(e.addr)) ||
		    !text(x, e.owner, sizeof(e.owner)))
			return FALSE;
		keep_entry(l, &e);
	}
	return FALSE;
}

/* Asks for all entries, in version 4 and then in version 3, whose answer is the same. Takes
 * over fd. Returns NULL, or why there is no answer. */
static const char *dump(int fd, struct rr_rpcb_list *l)
{
	CLIENT *c = client_on(fd);
	rpcvers_t older = RPCBVERS;
	enum clnt_stat st;

	if (!c)
		return "no RPC client";
	st = clnt_call(c, RPCBPROC_DUMP, (xdrproc_t)(void *)xdr_void, NULL,
		       (xdrproc_t)(void *)entries, l, patience);
	if (st == RPC_PROGVERSMISMATCH && clnt_control(c, CLSET_VERS, &older))
		st = clnt_call(c, RPCBPROC_DUMP, (xdrproc_t)(void *)xdr_void, NULL,
			       (xdrproc_t)(void *)entries, l, patience);
	clnt_destroy(c);
	return st == RPC_SUCCESS ? NULL : clnt_sperrno(st);
}

const char *rr_rpcb_dump(struct rr_rpcb_list *l)
{
	int fd = connect_local();

	return fd < 0 ? strerror(errno) : dump(fd, l);
}

const char *rr_rpcb_dump_at(const struct sockaddr *sa, struct rr_rpcb_list *l)
{
	int fd = connect_address(sa);

	return fd < 0 ? strerror(errno) : dump(fd, l);
}

/* --- set, unset --- */

/* Calls SET or UNSET with e. The owner in the argument is left empty, since rpcbind takes the
 * user who has connected. */
static bool change_registration(rpcproc_t proc, const struct rr_rpcb *e)
{
	struct rpcb arg = {
		.r_prog = e->prog, .r_vers = e->vers, .r_netid = (char *)(uintptr_t)e->netid,
		.r_addr = (char *)(uintptr_t)e->addr, .r_owner = (char *)(uintptr_t)"",
	};
	int fd = connect_local();
	CLIENT *c = fd < 0 ? NULL : client_on(fd);
	bool_t done = FALSE;

	if (!c)
		return false;
	if (clnt_call(c, proc, (xdrproc_t)(void *)xdr_rpcb, &arg, (xdrproc_t)(void *)xdr_bool,
		      &done, patience) != RPC_SUCCESS)
		done = FALSE;
	clnt_destroy(c);
	return done;
}

int64_t rr_rpcb_user(const struct rr_rpcb *e)
{
	char *end;
	unsigned long uid = strtoul(e->owner, &end, 10);

	if (!strcmp(e->owner, "superuser"))
		return 0;
	return *e->owner >= '0' && *e->owner <= '9' && !*end &&
	       uid < UINT32_MAX ? (int64_t)uid : -1;
}

/* Becomes e's owner for the time of the connect(), if this process is root: rpcbind lets a
 * program take back all of its entries only if none between them has another owner. */
bool rr_rpcb_set(const struct rr_rpcb *e)
{
	int64_t user = rr_rpcb_user(e);
	uid_t own = geteuid();
	bool other = own == 0 && user > 0 && !seteuid((uid_t)user);
	bool done = change_registration(RPCBPROC_SET, e);

	if (other && seteuid(own))
		abort();	/* from root to another user and back, which cannot fail */
	return done;
}

bool rr_rpcb_unset(const struct rr_rpcb *e)
{
	return change_registration(RPCBPROC_UNSET, e);
}

/* --- universal addresses --- */

/* Reads the number below 256 that ends addr[..end), and the dot before it. Returns where the
 * dot is, or NULL if there is no such number. */
static const char *octet(const char *addr, const char *end, unsigned *v)
{
	const char *p = end;
	unsigned n = 0, unit = 1;

	while (p > addr && p[-1] >= '0' && p[-1] <= '9' && end - p < 3) {
		n += (unsigned)(*--p - '0') * unit;
		unit *= 10;
	}
	*v = n;
	return p < end && p > addr && p[-1] == '.' && n < 256 ? p - 1 : NULL;
}

/* The port is the last two numbers; what comes before them is the host, whose form does not
 * matter here. */
uint16_t rr_uaddr_port(const char *addr, char *host)
{
	unsigned hi, lo;
	const char *dot = octet(addr, addr + strlen(addr), &lo);

	dot = dot ? octet(addr, dot, &hi) : NULL;
	if (!dot || dot == addr || dot - addr >= 128)
		return 0;
	if (host) {
		memcpy(host, addr, (size_t)(dot - addr));
		host[dot - addr] = '\0';
	}
	return (uint16_t)(hi << 8 | lo);
}

bool rr_uaddr_with_port(const char *addr, uint16_t port, char out[128])
{
	char host[128];

	return rr_uaddr_port(addr, host) &&
	       snprintf(out, 128, "%s.%u.%u", host, port / 256u, port % 256u) < 128;
}
