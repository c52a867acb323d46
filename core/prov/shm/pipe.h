/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SHM_PIPE_H
#define RR_SHM_PIPE_H

/* Doorbells through pipes (pipe.c). Under the connection's lock; errno may change. */

#include "core/base/os.h"
#include "core/prov/shm/shm_int.h"

/* The socket between the two ends. */
static inline int rr_shm_sock(const struct rr_shm *q)
{
	return q->qp.piped ? q->qp.other_fd : q->qp.wake_fd;
}

/* See prov.h. */
void rr_shm_ease(struct rr_qp *qp, uint32_t may);
/* wake_fd is a pipe: consumes its bells. False: the peer is gone. */
bool rr_shm_pipe_drain(const struct rr_shm *q);
/* Wakes who sleeps on our pipe, if there is one: it stays readable until that is drained. */
void rr_shm_pipe_wake(const struct rr_shm *q);
/* Rings the peer's, if we have it. */
static inline void rr_shm_pipe_ring(const struct rr_shm *q)
{
	if (q->qp.ring_fd >= 0)
		(void)!rr_os_write(q->qp.ring_fd, "", 1);
}
/* A pipe was let in that is not wanted any more: takes it, or finds that it will not come. */
void rr_shm_pipe_decline(struct rr_shm *q);
/* Closes all descriptors but the socket. */
void rr_shm_pipe_close(struct rr_shm *q);

#endif
