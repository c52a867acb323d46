/* SPDX-License-Identifier: BSD-3-Clause */
#include "tests/lib/shm_pair.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "core/base/os.h"

static const struct rr_os libc_os = {
	.socket = socket, .bind = bind, .listen = listen, .connect = connect,
	.accept4 = accept4, .shutdown = shutdown, .close = close, .fcntl = fcntl,
	.ioctl = ioctl, .getsockopt = getsockopt, .setsockopt = setsockopt,
	.getsockname = getsockname, .getpeername = getpeername, .recv = recv, .send = send,
	.recvmsg = recvmsg, .sendmsg = sendmsg, .poll = poll,
};

void shm_use_libc(void)
{
	rr_os = &libc_os;
}

struct rr_qp *shm_qp_new(const struct rr_prov_params *p)
{
	void *m = mmap(NULL, rr_prov_shm.qp_size(p), PROT_READ | PROT_WRITE,
		       MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (m == MAP_FAILED)
		abort();
	return m;
}

void shm_qp_free(struct rr_qp *qp, const struct rr_prov_params *p)
{
	munmap(qp, rr_prov_shm.qp_size(p));
}

void shm_pair_init(struct shm_pair *p, uint32_t recv_size, uint32_t recvs)
{
	shm_use_libc();
	memset(p, 0, sizeof(*p));
	p->cp = (struct rr_prov_params){
		.recv_size = recv_size, .recvs = recvs, .mem_size = 1 << 20,
	};
	for (unsigned i = 0; i < RR_TOKEN_LEN; i++)
		p->cp.token[i] = (uint8_t)(7 * i + 1);
	p->sp = p->cp;
	p->c = shm_qp_new(&p->cp);
	p->s = shm_qp_new(&p->sp);
	p->c->count = p->s->count = &p->counts;
}

int shm_pair_connect(struct shm_pair *p)
{
	int rc = rr_prov_shm.prepare(p->c, &p->cp, &p->offer);

	if (!rc)
		rc = rr_prov_shm.answer(p->s, &p->sp, &p->offer, &p->answer);
	if (!rc)
		rc = rr_prov_shm.join(p->c, &p->answer);
	if (!rc)
		rc = rr_prov_shm.establish(p->c);
	return rc ? rc : rr_prov_shm.establish(p->s);
}

void shm_pair_open(struct shm_pair *p, uint32_t recvs)
{
	int rc;

	shm_pair_init(p, 4096, recvs);
	rc = shm_pair_connect(p);
	if (rc) {
		fprintf(stderr, "shm_pair_open: %s\n", strerror(-rc));
		abort();
	}
}

void shm_pair_close(struct shm_pair *p)
{
	rr_prov_shm.close(p->c);
	rr_prov_shm.close(p->s);
	shm_qp_free(p->c, &p->cp);
	shm_qp_free(p->s, &p->sp);
}
