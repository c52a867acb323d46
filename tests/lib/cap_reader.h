/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CAP_READER_H
#define RR_CAP_READER_H

/* A reader of captures (core/base/capture_abi.h) within the process that is captured. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/capture.h"

struct cap_reader {
	struct rr_cap_ring *ring;
	uint64_t tail;
	int fd;			/* -1: dead */
};

/* As a reader does: first the wishes. */
static inline void cap_ask(struct rr_cap_desk *d, uint32_t number, uint32_t order)
{
	atomic_store(&d->order, order);
	atomic_store(&d->ask, number);
}

/* Maps the ring that the desk gives, lives and says so. */
static inline void cap_attach(struct cap_reader *r, const struct rr_cap_desk *d)
{
	struct flock l = { .l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1 };
	struct rr_cap_ring *head;
	char path[40];
	int fd;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", atomic_load(&d->fd));
	/* One for the lock alone: a mapping would keep it. */
	r->fd = open(path, O_RDWR | O_CLOEXEC);
	fd = open(path, O_RDWR | O_CLOEXEC);
	r->tail = 0;
	head = mmap(NULL, RR_CAP_HEAD, PROT_READ, MAP_SHARED, fd, 0);
	if (r->fd < 0 || head == MAP_FAILED || head->magic != RR_CAP_MAGIC || fcntl(r->fd, F_OFD_SETLK, &l))
		abort();
	r->ring = mmap(NULL, (size_t)RR_CAP_HEAD + head->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (r->ring == MAP_FAILED)
		abort();
	munmap(head, RR_CAP_HEAD);
	close(fd);
	atomic_store(&r->ring->open, 1);
}

static inline void cap_bytes(struct cap_reader *r, uint64_t at, void *to, size_t n)
{
	uint8_t *bytes = (uint8_t *)r->ring + RR_CAP_HEAD;

	for (size_t i = 0; i < n; i++, at++) {
		uint8_t *b = &bytes[at & (r->ring->size - 1)];

		if (to)
			((uint8_t *)to)[i] = *b;
		*b = 0;
	}
}

/* The next packet: its bytes in the ring, 0 none. Of its payload up to `most` bytes go to data. */
static inline uint32_t cap_take(struct cap_reader *r, struct rr_cap_packet *h, void *data, size_t most)
{
	_Atomic uint64_t *commit = (void *)((uint8_t *)r->ring + RR_CAP_HEAD + (r->tail & (r->ring->size - 1)));
	uint64_t word = atomic_load_explicit(commit, memory_order_acquire);
	uint32_t size = (uint32_t)word & ~7u;
	size_t n;

	if (!word)
		return 0;
	cap_bytes(r, r->tail, h, sizeof(*h));
	n = h->captured < most ? h->captured : most;
	cap_bytes(r, r->tail + sizeof(*h), data, n);
	cap_bytes(r, r->tail + sizeof(*h) + n, NULL, size - sizeof(*h) - n);
	r->tail += size;
	atomic_store_explicit(&r->ring->tail, r->tail, memory_order_release);
	return (uint32_t)word;
}

/* The end of its process. */
static inline void cap_die(struct cap_reader *r)
{
	close(r->fd);
	r->fd = -1;
}

#endif
