/* SPDX-License-Identifier: BSD-3-Clause */
/* Holds one descriptor number in reserve while answers are out. If the app had used up all
 * numbers when the offering side joins, there would be none for the memory that it passes. One
 * number will do for all answers, because each needs it for a moment only. */
#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"

/* Lower half of the inode, because the app may have closed the descriptor unseen; 1 + the
 * number; 0: none. */
static _Atomic uint64_t place;
static _Atomic int waiting;	/* number of answers that are out … */
static _Atomic int32_t whose;	/* … in this process (a forked child starts at none) */

static int fd_of_place(uint64_t p)
{
	return (int)(uint32_t)p - 1;
}

/* What identifies the socket at fd; 0: it cannot be told, and counts as no place. */
static uint64_t made_at(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : (uint64_t)st.st_ino << 32 | ((uint32_t)fd + 1);
}

/* Two threads may make one at the same time: the second closes its own. */
static int make_place(void)
{
	uint64_t none = 0;
	int fd;

	if (atomic_load_explicit(&place, memory_order_relaxed))
		return 0;
	fd = rr_ownfd_raise(rr_os->socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return fd;
	if (!atomic_compare_exchange_strong_explicit(&place, &none, made_at(fd),
						     memory_order_relaxed,
						     memory_order_relaxed))
		rr_ownfd_close(fd);
	return 0;
}

/* Closes the socket, so that its number is free for the next descriptor. Another thread may be
 * faster; the caller then tries again later. */
bool rr_shm_place_lend(void)
{
	uint64_t p = atomic_exchange_explicit(&place, 0, memory_order_relaxed);
	int fd = fd_of_place(p);

	if (fd < 0)
		return false;
	if (made_at(fd) != p) {
		rr_ownfd_set(fd, false);
		return false;
	}
	rr_ownfd_close(fd);
	return true;
}

void rr_shm_place_back(void)
{
	make_place();
}

int rr_shm_place_keep(void)
{
	int rc = make_place();

	if (rc)
		return rc;
	if (atomic_exchange_explicit(&whose, (int32_t)rr_pid(),
				     memory_order_relaxed) != (int32_t)rr_pid())
		atomic_store_explicit(&waiting, 0, memory_order_relaxed);
	atomic_fetch_add_explicit(&waiting, 1, memory_order_relaxed);
	return 0;
}

/* An answer of the parent's does not count in a forked child, which has never counted it. */
void rr_shm_place_drop(void)
{
	if (atomic_load_explicit(&whose, memory_order_relaxed) == (int32_t)rr_pid())
		atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed);
}

/* Frees the number, unless answers are out. */
static bool spare_place(void)
{
	if (atomic_load_explicit(&whose, memory_order_relaxed) == (int32_t)rr_pid() &&
	    atomic_load_explicit(&waiting, memory_order_relaxed) > 0)
		return false;
	return rr_shm_place_lend();
}

bool rr_prov_spare(void)
{
	int saved = errno;
	bool any = rr_shm_listener_spare();

	any |= spare_place();
	errno = saved;
	return any;
}

/* A place or a listener is given up by an exchange, so that a thread that is about to use it
 * either has it already or no longer finds it. */
bool rr_prov_forget(int fd)
{
	uint64_t p = atomic_load_explicit(&place, memory_order_relaxed);

	if (fd < 0 || !((fd_of_place(p) == fd &&
			 atomic_compare_exchange_strong_explicit(&place, &p, 0,
								 memory_order_relaxed,
								 memory_order_relaxed)) ||
			rr_shm_listener_forget(fd)))
		return false;
	rr_ownfd_set(fd, false);
	return true;
}
