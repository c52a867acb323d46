/* SPDX-License-Identifier: BSD-3-Clause */
/* The upgrade between two of ours: which side listens where, and the token by which they
 * recognize each other. The steps of RDMA CM that follow are cm_setup.c's. */
#include <arpa/inet.h>
#include <errno.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/rdmacm.h"
#include "core/prov/verbs/connections.h"

#define RESOLVE_MS	1000


#define ADDR_VERSION	2	/* of an offer, and of everything two of ours tell each other */

/* The form of an address in an answer: family, port, address, scope. */
#define ADDR_LEN	24u

/* Our end is made only when the answer has come: an offer that is declined costs nothing. */
int rr_verbs_pair_prepare(struct rr_qp *qp, const struct rr_prov_params *p,
			  struct rr_prov_addr *offer)
{
	int n = 0, saved = errno;
	struct ibv_device **list;

	if (rr_verbs_process_orphan)
		return -ECHILD;
	/* only to see whether there is any */
	list = ibv_get_device_list(&n);
	if (!list)
		n = -errno;
	errno = saved;
	if (!list)
		return n;
	ibv_free_device_list(list);
	if (!n)
		return -ENODEV;
	offer->bytes[0] = ADDR_VERSION;
	offer->len = 1;
	n = rr_verbs_setup_start(qp, p);
	return n ? rr_verbs_end_undo(qp, n) : 0;
}

/* Writes the address of our listener for the peer, in network order. Always 0. */
static int address_put(const struct rdma_cm_id *id, struct rr_prov_addr *out)
{
	const struct sockaddr *sa = rdma_get_local_addr((struct rdma_cm_id *)(uintptr_t)id);
	uint16_t port = rdma_get_src_port((struct rdma_cm_id *)(uintptr_t)id);

	memset(out, 0, sizeof(*out));
	out->len = ADDR_LEN;
	memcpy(out->bytes + 2, &port, 2);
	if (sa->sa_family == AF_INET) {
		out->bytes[0] = 4;
		memcpy(out->bytes + 4,
		       &((const struct sockaddr_in *)(const void *)sa)->sin_addr, 4);
	} else {
		out->bytes[0] = 6;
		memcpy(out->bytes + 4,
		       &((const struct sockaddr_in6 *)(const void *)sa)->sin6_addr, 16);
	}
	return 0;
}

/* Reads the address that the peer has sent. The scope is ignored because it only has a meaning
 * on its own host: link-local addresses are not supported. */
static int address_get(const struct rr_prov_addr *in, struct sockaddr_storage *out)
{
	struct sockaddr_in *v4 = (struct sockaddr_in *)out;
	struct sockaddr_in6 *v6 = (struct sockaddr_in6 *)out;

	memset(out, 0, sizeof(*out));
	if (in->len < ADDR_LEN || (in->bytes[0] != 4 && in->bytes[0] != 6))
		return -EPROTO;
	if (in->bytes[0] == 4) {
		v4->sin_family = AF_INET;
		memcpy(&v4->sin_port, in->bytes + 2, 2);
		memcpy(&v4->sin_addr, in->bytes + 4, 4);
	} else {
		v6->sin6_family = AF_INET6;
		memcpy(&v6->sin6_port, in->bytes + 2, 2);
		memcpy(&v6->sin6_addr, in->bytes + 4, 16);
	}
	return 0;
}

/* The anchor's own address, with any port; a v4-mapped one becomes one of IPv4. */
static int own_address(const struct rr_prov_params *p, struct sockaddr_in6 *out)
{
	const struct sockaddr_in *v4 = (struct sockaddr_in *)(void *)out;

	*out = p->local;
	out->sin6_port = 0;
	rr_verbs_unmap(out);
	if (out->sin6_family == AF_INET)
		return ntohl(v4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET ? -EADDRNOTAVAIL : 0;
	if (out->sin6_family != AF_INET6 || IN6_IS_ADDR_LOOPBACK(&out->sin6_addr) ||
	    IN6_IS_ADDR_LINKLOCAL(&out->sin6_addr))
		return -EADDRNOTAVAIL;
	return 0;
}

/* Makes a listener at the address to which TCP has led the peer. If that is not a device's,
 * there is no route. Notes need immediate data, which iWARP does not have, so iWARP is declined
 * here. */
static int listen_pair(struct rr_qp *qp, struct rr_vq *v, struct rr_prov_addr *answer)
{
	struct sockaddr_in6 a;
	int rc = v ? own_address(&v->param, &a) : -ENOMEM;

	if (!rc)
		rc = rr_verbs_setup_open(qp, v);
	if (rc)
		return rc;
	if (rr_creds_create_id(v->cm, &v->listener) ||
	    rr_creds_bind_addr(v->listener, (struct sockaddr *)&a) ||
	    rr_creds_listen(v->listener, 2))
		return -errno;
	if (!v->listener->verbs)
		return -ENODEV;
	rc = rr_verbs_setup_device(v->listener);
	if (!rc && rr_verbs_iwarp(v->listener))
		rc = -EOPNOTSUPP;
	return rc ? rc : address_put(v->listener, answer);
}

/* The offer says nothing but its version: who comes is known by the token, not by an
 * address. */
int rr_verbs_pair_answer(struct rr_qp *qp, const struct rr_prov_params *p,
			 const struct rr_prov_addr *offer, struct rr_prov_addr *answer)
{
	int saved = errno, rc;

	if (offer->len < 1 || offer->bytes[0] != ADDR_VERSION)
		return -EPROTO;
	rc = rr_verbs_setup_start(qp, p);
	if (!rc)
		rc = listen_pair(qp, rr_verbs_of(qp), answer);
	if (rc)
		rr_verbs_end_undo(qp, rc);
	errno = saved;
	return rc;
}

/* Has somebody connected whom we have not looked at yet? */
static bool is_called(const struct rr_vq *v)
{
	struct pollfd p = { v->cm ? v->cm->fd : -1, POLLIN, 0 };

	return v->listener && rr_os->poll(&p, 1, 0) > 0;
}

/* If nobody has connected, the listener goes and later attempts fail. A peer that has been
 * accepted may have sent something: -EAGAIN. */
int rr_verbs_pair_withdraw(struct rr_qp *qp)
{
	struct rr_vq *v = rr_verbs_of(qp);

	if (v && !v->err && (v->state != RR_V_LISTENING || is_called(v)))
		return -EAGAIN;
	if (v && v->listener) {
		rr_creds_destroy_id(v->listener);
		v->listener = NULL;
	}
	return 0;
}

/* Begins to connect; the rest happens in rr_verbs_setup_establish(). After a failure the caller
 * still has to call close(). */
int rr_verbs_pair_join(struct rr_qp *qp, const struct rr_prov_addr *answer)
{
	struct rr_vq *v = rr_verbs_of(qp);
	struct sockaddr_storage to;
	int saved = errno, rc;

	if (!v)
		return -ECONNRESET;
	rc = address_get(answer, &to);
	if (!rc)
		rc = rr_verbs_setup_open(qp, v);
	if (!rc)
		rc = rr_verbs_setup_resolve(v, (struct sockaddr *)&to, NULL, RESOLVE_MS);
	errno = saved;
	return rc;
}
