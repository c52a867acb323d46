/* SPDX-License-Identifier: BSD-3-Clause */
/* Keeps a listener that an offer has used for the next offer, because making another one, out
 * of the app's way, and closing it takes nine system calls. There is one for each process; an
 * offer that finds none makes its own.
 *
 * Only an offer that has succeeded leaves its listener here, and only one to a peer on this
 * host, where everybody can see such names anyway: in offers to others a repeated name would
 * reveal that they come from one process. Nobody may be waiting at the listener when it is
 * taken, so a stranger has to be as quick as with a new one. */
#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <string.h>
#include <sys/un.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/shm/foreign.h"

bool rr_shm_is_name(const char *name)
{
	size_t n = sizeof(RR_SHM_PREFIX) - 1;

	if (memcmp(name, RR_SHM_PREFIX, n) != 0)
		return false;
	while (n < RR_SHM_NAME && memchr("0123456789abcdef", name[n], 16))
		n++;
	return n == RR_SHM_NAME;
}

static _Atomic uint64_t kept;	/* pid in the upper half, 1 + the descriptor below; 0: none */

/* The thread that exchanges owns what was there, so no two threads get the same listener. */
static uint64_t exchange(uint64_t with)
{
	return atomic_exchange_explicit(&kept, with, memory_order_acq_rel);
}

static uint64_t kept_as(int fd)
{
	return (uint64_t)(uint32_t)rr_pid() << 32 | ((uint32_t)fd + 1);
}

/* Is it still our listener? The app may have closed it unseen, and reused the number. */
static bool is_still(int fd, char name[RR_SHM_NAME])
{
	const size_t size = offsetof(struct sockaddr_un, sun_path) + 1 + RR_SHM_NAME;
	struct sockaddr_un sa;
	socklen_t len = sizeof(sa);

	if (rr_os->getsockname(fd, (void *)&sa, &len) || sa.sun_family != AF_UNIX ||
	    len != size ||
	    sa.sun_path[0] || !rr_shm_is_name(sa.sun_path + 1))
		return false;
	memcpy(name, sa.sun_path + 1, RR_SHM_NAME);
	return true;
}

/* The listener that was kept, and its name; -1: there is none that this process can use. */
static int take_kept(uint64_t was, char name[RR_SHM_NAME])
{
	int fd = (int)(uint32_t)was - 1;

	if (fd < 0)
		return -1;
	if (!is_still(fd, name)) {
		rr_ownfd_set(fd, false);
		return -1;
	}
	if (was >> 32 == (uint32_t)rr_pid())
		return fd;
	rr_ownfd_close(fd);	/* a forked child's copy of its parent's listener */
	return -1;
}

/* If another one was kept before, that one is closed: which of the two stays does not
 * matter. */
void rr_shm_listener_keep(int fd)
{
	char name[RR_SHM_NAME];

	fd = take_kept(exchange(kept_as(fd)), name);
	if (fd >= 0)
		rr_shm_drop_listener(fd, true);
}

/* Does it listen, and does nobody wait at it? By accept4() it takes the kernel a socket to find
 * that out. */
static bool is_idle(int fd)
{
	struct pollfd p = { fd, POLLIN, 0 };

	return rr_os->poll(&p, 1, 0) == 0;
}

int rr_shm_listener_take(char name[RR_SHM_NAME])
{
	int fd = take_kept(exchange(0), name), stray;

	if (fd < 0 || is_idle(fd))
		return fd;
	stray = rr_os->accept4(fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (stray < 0 && errno == EAGAIN)
		return fd;
	if (stray >= 0)
		rr_shm_drop_sock(stray);
	if (stray >= 0 || errno != EINVAL)
		rr_shm_drop_listener(fd, true);
	else
		rr_ownfd_set(fd, false);	/* it does not listen: not ours any more */
	return -1;
}

/* The exchange succeeds only while exactly this descriptor of this process is kept; from then
 * on no offer can take it. */
bool rr_shm_listener_forget(int fd)
{
	uint64_t mine = kept_as(fd);

	return atomic_compare_exchange_strong_explicit(&kept, &mine, 0, memory_order_acq_rel,
						       memory_order_relaxed);
}

bool rr_shm_listener_spare(void)
{
	char name[RR_SHM_NAME];
	int fd = take_kept(exchange(0), name);

	if (fd >= 0)
		rr_shm_drop_listener(fd, true);
	return fd >= 0;
}
