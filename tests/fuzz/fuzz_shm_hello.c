/* SPDX-License-Identifier: BSD-3-Clause */
/* What strangers and peers say during set-up. First byte: 0 the input is the address in an
 * offer, else a hello that comes with a memfd, from someone who knows the token if bit 1 is
 * set. */
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "core/prov/shm/shm_int.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/shm_pair.h"

#define ops (&rr_prov_shm)

static struct shm_pair pair;

static void address(const uint8_t *data, size_t len)
{
	len = len < RR_PROV_ADDR ? len : RR_PROV_ADDR;
	memcpy(pair.offer.bytes, data, len);
	pair.offer.len = (uint16_t)len;
	pair.sp.run_dir = "/dev/null/none";
	fuzz_check(ops->answer(pair.s, &pair.sp, &pair.offer, &pair.answer) != 0);
}

static void send_hello(int sock, const void *b, size_t n, int fd)
{
	struct iovec iov = { (void *)b, n };
	union { struct cmsghdr a; char room[CMSG_SPACE(sizeof(int))]; } ctl = { .room = "" };
	struct msghdr m = { .msg_iov = &iov, .msg_iovlen = 1,
			    .msg_control = &ctl, .msg_controllen = sizeof(ctl) };

	CMSG_FIRSTHDR(&m)->cmsg_level = SOL_SOCKET;
	CMSG_FIRSTHDR(&m)->cmsg_type = SCM_RIGHTS;
	CMSG_FIRSTHDR(&m)->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(CMSG_FIRSTHDR(&m)), &fd, sizeof(int));
	fuzz_check(sendmsg(sock, &m, 0) == (ssize_t)n);
}

static int sealed_memfd(const struct rr_shm_hello *h)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	fuzz_check(fd >= 0);
	if (h->total <= RR_SHM_MEM_MAX * 2)
		fuzz_check(ftruncate(fd, (off_t)h->total) == 0);
	fuzz_check(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

static void hello(const uint8_t *data, size_t len, bool knows)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	struct rr_shm_hello h = { 0 };
	int sock, fd;

	fuzz_check(ops->prepare(pair.c, &pair.cp, &pair.offer) == 0);
	len = len < sizeof(h) ? len : sizeof(h);
	memcpy(&h, data, len);
	if (knows)
		memcpy(h.proof, pair.cp.token, RR_SHM_PROOF);
	sock = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);
	memcpy(sa.sun_path + 1, pair.offer.bytes + 2, 40u);
	fuzz_check(connect(sock, (void *)&sa,
			   offsetof(struct sockaddr_un, sun_path) + 1 + 40) == 0);
	fd = sealed_memfd(&h);
	if (len)
		send_hello(sock, &h, len, fd);
	close(fd);
	if (ops->join(pair.c, &pair.answer) == 0) {
		fuzz_check(knows && len == sizeof(h));
		fuzz_check(pair.c->send_size == rr_min(h.recv_size, 4096u) &&
			   pair.c->peer_recvs == rr_min(h.recvs, 8u));
		ops->send_imm(pair.c, 1, 0);
	}
	ops->close(pair.c);
	close(sock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
	int fds = len < 64 ? open_fds() : 0;

	if (len == 0)
		return 0;
	shm_pair_init(&pair, 4096, 8);
	if (data[0] == 0)
		address(data + 1, len - 1);
	else
		hello(data + 1, len - 1, data[0] & 2);
	shm_qp_free(pair.c, &pair.cp);
	shm_qp_free(pair.s, &pair.sp);
	if (len < 64)
		fuzz_check(open_fds() == fds);
	return 0;
}
