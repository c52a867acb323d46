/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_IOV_H
#define RR_IOV_H

/* The app's bytes: an array of iovecs, which nothing here changes, and a cursor over them. No
 * function looks at what a piece points to, except rr_iov_copy(). */

#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

/* --- arrays --- */

/* Bytes of all pieces together; the caller knows that the sum fits. */
static inline size_t rr_iov_total(const struct iovec *iov, int n)
{
	size_t total = 0;

	for (int i = 0; i < n; i++)
		total += iov[i].iov_len;
	return total;
}

/* Copies up to want bytes, from byte skip on. Returns how many there were. */
size_t rr_iov_copy(uint8_t *dst, size_t want, const struct iovec *iov, int n, size_t skip);

/* Describes the bytes from byte skip on, `most` of them at most, by pieces out[0..max), without
 * empty ones. Returns the number of pieces; if that is max there may be more bytes. */
int rr_iov_cut(const struct iovec *iov, int n, size_t skip, size_t most, struct iovec *out,
	       int max);

/* Pieces of a cut that lies on the stack. The app's array may have a thousand; then one call of
 * the kernel's fills or sends the first so many. Whoever counts the bytes of such a call makes
 * the same cut. */
#define RR_IOV_CUT	16

/* --- cursor --- */

struct rr_iov {
	const struct iovec *iov;	/* the piece that the cursor stands in, … */
	int n;				/* … which is the first of so many, */
	size_t skip;			/* and the bytes of it that lie before the cursor */
	size_t left;			/* bytes behind the cursor, in all pieces */
};

/* A cursor at the beginning of iov[0..n), which has total bytes. */
static inline struct rr_iov rr_iov_begin(const struct iovec *iov, int n, size_t total)
{
	return (struct rr_iov){ iov, n, 0, total };
}

/* The contiguous bytes at the cursor: sets *p and returns how many; 0 at the end. */
size_t rr_iov_piece(struct rr_iov *c, const uint8_t **p);

/* Moves the cursor past len bytes; there must be as many. */
static inline void rr_iov_skip(struct rr_iov *c, size_t len)
{
	c->left -= len;
	len += c->skip;
	while (c->n && len >= c->iov->iov_len) {
		len -= c->iov->iov_len;
		c->iov++;
		c->n--;
	}
	c->skip = len;
}

/* What is left, as an array of *n pieces: the rest of the cursor's own array if the cursor
 * stands between two pieces, else room[0..max), which holds only the first bytes if max is too
 * small. */
const struct iovec *rr_iov_rest(const struct rr_iov *c, struct iovec *room, int max, int *n);

#endif
