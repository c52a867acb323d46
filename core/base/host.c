/* SPDX-License-Identifier: BSD-3-Clause */
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/os.h"

void rr_host_id(uint8_t out[16])
{
	static _Atomic uint64_t kept[2];
	uint64_t id[2] = { 0, 0 };
	char text[64];
	int fd;
	ssize_t n;

	id[0] = atomic_load_explicit(&kept[0], memory_order_relaxed);
	id[1] = atomic_load_explicit(&kept[1], memory_order_relaxed);
	if (!id[0] || !id[1]) {
		fd = rr_os_open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
		n = fd < 0 ? 0 : syscall(SYS_read, fd, text, sizeof(text));
		if (fd >= 0)
			rr_os->close(fd);
		if (n < 36)
			return memset(out, 0, 16), (void)0;
		/* FNV-1a, twice from different starts: an identity, not a secret */
		id[0] = UINT64_C(0xcbf29ce484222325);
		id[1] = UINT64_C(0x9ae16a3b2f90404f);
		for (int i = 0; i < 36; i++) {
			id[0] = (id[0] ^ (uint8_t)text[i]) * UINT64_C(0x100000001b3);
			id[1] = (id[1] ^ (uint8_t)text[35 - i]) * UINT64_C(0x100000001b3);
		}
		atomic_store_explicit(&kept[0], id[0], memory_order_relaxed);
		atomic_store_explicit(&kept[1], id[1], memory_order_relaxed);
	}
	memcpy(out, id, 16);
}
