/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_SHM_PAIR_H
#define RR_TEST_SHM_PAIR_H

/* Both ends of a shm connection in one process, for tests of the provider. */

#include "core/prov/prov.h"
#include "tests/lib/open_fds.h"

struct shm_pair {
	struct rr_prov_params cp, sp;
	struct rr_prov_addr offer, answer;
	struct rr_qp *c, *s;		/* offering and answering side */
	struct rr_counters counts;	/* of both */
};

/* rr_os becomes the C library's own functions. */
void shm_use_libc(void);
/* Parameters and zeroed queue pairs (in memory shared with forked children);
 * shm_use_libc(). */
void shm_pair_init(struct shm_pair *p, uint32_t recv_size, uint32_t recvs);
/* The whole handshake: 0, or the first error. */
int shm_pair_connect(struct shm_pair *p);
/* init and connect, with recvs of 4096 bytes; aborts if that fails. */
void shm_pair_open(struct shm_pair *p, uint32_t recvs);
/* Closes both ends and frees their memory. */
void shm_pair_close(struct shm_pair *p);
/* The memory of one queue pair. */
struct rr_qp *shm_qp_new(const struct rr_prov_params *p);
void shm_qp_free(struct rr_qp *qp, const struct rr_prov_params *p);

#endif
