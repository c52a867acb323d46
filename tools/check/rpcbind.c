/* SPDX-License-Identifier: BSD-3-Clause */
/* Asks rpcbind what is registered (RFC 1833): RPCBPROC_DUMP of version 3, by TCP, written out
 * by hand so that this tool needs no libtirpc. The answer comes from a stranger: it is bounded,
 * and every length is checked. */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "core/base/types.h"
#include "tools/check/check.h"

#define MOST_BYTES (1u << 20)

/* --- XDR --- */

/* What is left of a reply. bad: something was missing, and all that follows reads as zero. */
struct xdr {
	const uint8_t *at, *end;
	bool bad;
};

static uint32_t xdr_word(struct xdr *x)
{
	uint32_t v;

	if (x->end - x->at < 4) {
		x->bad = true;
		return 0;
	}
	memcpy(&v, x->at, 4);
	x->at += 4;
	return ntohl(v);
}

/* Reads a string (RFC 4506 §4.11): its length, its bytes and padding to a multiple of four.
 * What does not fit into `to` is left out. */
static void xdr_text(struct xdr *x, char *to, size_t size)
{
	uint32_t n = xdr_word(x);
	size_t padded = ((size_t)n + 3) & ~(size_t)3;

	to[0] = '\0';
	if (x->bad || padded > (size_t)(x->end - x->at)) {
		x->bad = true;
		return;
	}
	snprintf(to, size, "%.*s", (int)rr_min((size_t)n, size - 1), (const char *)x->at);
	x->at += padded;
}

/* The port of a universal address ("1.2.3.4.8.1": 8 * 256 + 1; RFC 5665 §5.2.3); 0 if it has
 * none. The host's part may have dots or colons, so the numbers are looked for from the end. */
static uint16_t uaddr_port(const char *uaddr)
{
	const char *low = strrchr(uaddr, '.'), *high = low;
	unsigned hi, lo;

	while (high && high > uaddr && *--high != '.')
		;
	if (!high || high == uaddr || sscanf(high, ".%u.%u", &hi, &lo) != 2 || hi > 255 ||
	    lo > 255)
		return 0;
	return (uint16_t)(hi << 8 | lo);
}

/* --- the call --- */

static bool all_read(int fd, void *to, size_t n)
{
	for (ssize_t r; n; to = (char *)to + r, n -= (size_t)r) {
		r = read(fd, to, n);
		if (r <= 0)
			return false;
	}
	return true;
}

/* Reads a record of any number of fragments, which the caller frees. NULL: the connection
 * ended, took too long, or sends more than MOST_BYTES. */
static uint8_t *record(int fd, size_t *len)
{
	uint8_t *all = NULL, *more;
	uint32_t mark;

	*len = 0;
	do {
		if (!all_read(fd, &mark, 4))
			break;
		mark = ntohl(mark);
		if (*len + (mark & 0x7fffffff) > MOST_BYTES)
			break;
		more = realloc(all, *len + (mark & 0x7fffffff) + 1);
		if (!more)
			break;
		all = more;
		if (!all_read(fd, all + *len, mark & 0x7fffffff))
			break;
		*len += mark & 0x7fffffff;
		if (mark >> 31)
			return all;
	} while (true);
	free(all);
	return NULL;
}

/* Connects to port 111 of the peer's host. SO_SNDTIMEO also bounds connect(), which then fails
 * with EINPROGRESS. */
static int connect_rpcbind(const struct sockaddr *peer, int ms)
{
	struct timeval tv = { .tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000 };
	struct sockaddr_storage a = { 0 };
	bool six = peer->sa_family == AF_INET6;
	int fd = socket(peer->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	memcpy(&a, peer, six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in));
	if (six)
		((struct sockaddr_in6 *)&a)->sin6_port = htons(111);
	else
		((struct sockaddr_in *)&a)->sin_port = htons(111);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &tv, sizeof(tv));
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof(tv));
	if (connect(fd, (struct sockaddr *)&a,
		    six ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in))) {
		int saved = errno == EINPROGRESS ? ETIMEDOUT : errno;

		close(fd);
		errno = saved;
		return -1;
	}
	return fd;
}

/* Reads the entries of a reply to the dump (rpcblist of RFC 1833 §2.1) into *out, which the
 * caller frees. Returns how many, or -1 if the reply is none or denies the call. A list that
 * breaks off gives what came before. */
static int read_dump(const uint8_t *bytes, size_t len, struct rr_binding **out)
{
	struct xdr x = { bytes, bytes + len, false };
	struct rr_binding b, *more;
	char uaddr[64], owner[8];
	int n = 0;

	*out = NULL;
	xdr_word(&x);
	if (xdr_word(&x) != 1 || xdr_word(&x) != 0) /* a reply, accepted */
		return -1;
	xdr_word(&x);
	xdr_text(&x, owner, sizeof(owner)); /* the verifier, which is not used */
	if (xdr_word(&x) != 0) /* done */
		return -1;
	while (xdr_word(&x) == 1 && !x.bad) {
		b = (struct rr_binding){ 0 };
		b.prog = xdr_word(&x);
		b.vers = xdr_word(&x);
		xdr_text(&x, b.netid, sizeof(b.netid));
		xdr_text(&x, uaddr, sizeof(uaddr));
		xdr_text(&x, owner, sizeof(owner));
		b.port = uaddr_port(uaddr);
		more = x.bad ? NULL : reallocarray(*out, (size_t)n + 1, sizeof(b));
		if (!more)
			break;
		*out = more;
		more[n++] = b;
	}
	return n;
}

/* The call: its record mark (the last fragment, 40 bytes), XID, type CALL, RPC version 2,
 * program 100000, version 3, procedure 4 (RPCBPROC_DUMP), and credential and verifier of
 * AUTH_NONE. */
int rr_check_rpcbind(const struct sockaddr *peer, int timeout_ms, struct rr_binding **out,
		     char *why, size_t size)
{
	static const uint32_t call[11] = { 0x80000028, 0x72646d61, 0, 2, 100000, 3,
					   4,          0,          0, 0, 0 };
	int fd = connect_rpcbind(peer, timeout_ms), n = -1;
	uint32_t m[11];
	uint8_t *bytes;
	size_t len;

	*out = NULL;
	if (fd < 0) {
		snprintf(why, size, "%s", strerror(errno));
		return -1;
	}
	for (int i = 0; i < 11; i++)
		m[i] = htonl(call[i]);
	bytes = send(fd, m, sizeof(m), MSG_NOSIGNAL) == sizeof(m) ? record(fd, &len) : NULL;
	if (bytes)
		n = read_dump(bytes, len, out);
	if (n < 0)
		snprintf(why, size,
			 bytes ? "it does not tell what is registered" : "no answer");
	free(bytes);
	close(fd);
	return n;
}
