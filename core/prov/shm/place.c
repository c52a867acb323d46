/* SPDX-License-Identifier: BSD-3-Clause */
/* A descriptor of this process that does nothing but keep its number, as long as there are
 * answers that have not been taken up: if the app had used up all others by then, there would
 * be none for the memory that the offering side passes. One will do for all of them, since each
 * needs it for a moment only. */
#include "core/prov/shm/shm_int.h"

#include <errno.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/ownfd.h"

static _Atomic int place = -1;
static _Atomic int waiting;	/* answers … */
static _Atomic int32_t whose;	/* … of this process */

static int make_place(void)
{
	int fd, none = -1;

	if (atomic_load_explicit(&place, memory_order_relaxed) >= 0)
		return 0;
	fd = rr_ownfd_raise(rr_os->socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
	if (fd < 0)
		return fd;
	if (!atomic_compare_exchange_strong_explicit(&place, &none, fd, memory_order_relaxed,
						     memory_order_relaxed))
		rr_ownfd_close(fd);
	return 0;
}

bool rr_shm_place_lend(void)
{
	int fd = atomic_exchange_explicit(&place, -1, memory_order_relaxed);

	rr_ownfd_close(fd);
	return fd >= 0;
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

void rr_shm_place_drop(void)
{
	if (atomic_load_explicit(&whose, memory_order_relaxed) == (int32_t)rr_pid() &&
	    atomic_fetch_sub_explicit(&waiting, 1, memory_order_relaxed) <= 1)
		rr_shm_place_lend();
}

bool rr_prov_forget(int fd)
{
	int here = fd;

	if (fd < 0 || !atomic_compare_exchange_strong_explicit(&place, &here, -1,
							       memory_order_relaxed,
							       memory_order_relaxed))
		return false;
	rr_ownfd_set(fd, false);
	return true;
}
