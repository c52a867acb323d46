/* SPDX-License-Identifier: BSD-3-Clause */
/* Private data of RDMA CM: what the two ends tell each other when a connection is made (RFC
 * 8797). The format of RFC 8797 itself is core/wire/cmdata.c's. */

#include <string.h>

#include "core/base/compiler.h"
#include "core/prov/verbs/plugin.h"
#include "core/prov/verbs/connections.h"
#include "core/wire/cmdata.h"
#include "core/wire/cursor.h"

#define TOKEN_MAGIC	"RRtk"
/* Most receives of a peer that are believed: options do not allow more. */
#define RECVS		4096u

/* --- between two of ours: the token, and how many receives there are ---------------------- */

uint32_t rr_verbs_private_put_pair(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE])
{
	struct rr_cmdata d = { .remote_inv = v->said_inv, .send_size = v->param.recv_size,
			       .recv_size = v->param.recv_size };

	rr_cmdata_put(&d, out);
	memcpy(out + 8, TOKEN_MAGIC, 4);
	memcpy(out + 12, v->param.token, RR_TOKEN_LEN);
	rr_put_be32(out + 12 + RR_TOKEN_LEN, v->param.recvs);
	return RR_VERBS_PRIVATE;
}

/* All of it comes from a stranger until the token has been compared, and lengths are checked
 * before anything is read. The count of receives bounds what notes may say later (notes.c). */
bool rr_verbs_private_get_pair(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf,
			       uint32_t len)
{
	struct rr_cmdata d;
	uint32_t at = rr_cmdata_get(buf, len, &d);

	if (!at || len - at < RR_VERBS_PRIVATE - RR_CMDATA_LEN ||
	    memcmp(buf + at, TOKEN_MAGIC, 4) ||
	    memcmp(buf + at + 4, v->param.token, RR_TOKEN_LEN))
		return false;
	qp->peer_recvs = rr_min(rr_be32(buf + at + 4 + RR_TOKEN_LEN), RECVS);
	v->window = qp->peer_recvs;
	/* What we send is gathered in slots of our own size. */
	qp->send_size = rr_min(d.recv_size, v->param.recv_size);
	qp->peer_send = d.send_size;
	v->remote_inv = d.remote_inv;
	return true;
}

/* --- with anybody ------------------------------------------------------------------------ */

uint32_t rr_verbs_private_put_native(const struct rr_vq *v, uint8_t out[RR_VERBS_PRIVATE])
{
	struct rr_cmdata d = { .remote_inv = v->said_inv, .send_size = v->param.recv_size,
			       .recv_size = v->param.recv_size };

	if (unlikely(rr_verbs_process_say && rr_verbs_process_say->instead)) {
		_Static_assert(RR_VERBS_SAY <= RR_VERBS_PRIVATE, "what is said has room");
		memcpy(out, rr_verbs_process_say->bytes, rr_verbs_process_say->len);
		return rr_verbs_process_say->len;
	}
	rr_cmdata_put(&d, out);
	return RR_CMDATA_LEN;
}

/* A peer that sends nothing we understand gets the defaults, and is not refused for it. */
/* req: rfc8797 4 #1 */
bool rr_verbs_private_get_native(struct rr_qp *qp, struct rr_vq *v, const uint8_t *buf,
				 uint32_t len)
{
	struct rr_cmdata d;

	rr_cmdata_get(buf, len, &d);
	v->window = UINT32_MAX;
	qp->send_size = rr_min(d.recv_size, v->param.recv_size);
	qp->peer_send = d.send_size;
	v->remote_inv = d.remote_inv;
	return true;
}
