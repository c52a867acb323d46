/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef MAPPED_H
#define MAPPED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Is there anything in the address space where p is, be it a reservation? */
static inline bool is_mapped(const void *p)
{
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);
	unsigned char vec;

	return !mincore((void *)((uintptr_t)p & ~(page - 1)), page, &vec);
}

/* Mappings that could be somebody else's, too. */
static inline int shared_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "r");
	char line[512], mode[8];
	int n = 0;

	while (fgets(line, sizeof(line), f))
		n += sscanf(line, "%*s %7s", mode) == 1 && mode[3] == 's';
	fclose(f);
	return n;
}

#endif
