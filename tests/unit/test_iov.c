/* SPDX-License-Identifier: BSD-3-Clause */
/* Walks over arrays of iovecs, with empty pieces at the beginning, in between and at the end. */
#include <criterion/criterion.h>
#include <string.h>

#include "core/base/compiler.h"
#include "core/base/iov.h"

#define BYTES	10u

static uint8_t bytes[BYTES] = "0123456789";
static const struct iovec iov[] = {
	{ NULL, 0 }, { bytes, 4 }, { NULL, 0 }, { bytes + 4, 5 }, { bytes + 9, 1 }, { NULL, 0 }
};
#define N	((int)rr_array_size(iov))

/* Are these the bytes from..from+len), all of them and no others? */
static bool are_bytes(const struct iovec *v, int n, size_t from, size_t len)
{
	for (int i = 0; i < n; i++) {
		if (v[i].iov_len && v[i].iov_base != bytes + from)
			return false;
		if (v[i].iov_len > len)
			return false;
		from += v[i].iov_len;
		len -= v[i].iov_len;
	}
	return len == 0;
}

Test(iov, pieces_are_added_up)
{
	cr_assert_eq(rr_iov_total(iov, N), BYTES);
	cr_assert_eq(rr_iov_total(iov, 1), 0);
	cr_assert_eq(rr_iov_total(NULL, 0), 0);
}

Test(iov, what_is_copied_begins_and_ends_where_it_is_asked_to)
{
	for (size_t from = 0; from <= BYTES + 1; from++) {
		for (size_t want = 0; want <= BYTES + 1; want++) {
			size_t there = from < BYTES ? rr_min(want, BYTES - from) : 0;
			uint8_t to[BYTES + 2];

			memset(to, '-', sizeof(to));
			cr_assert_eq(rr_iov_copy(to, want, iov, N, from), there, "%zu bytes from %zu on", want,
				     from);
			cr_assert(!memcmp(to, bytes + (there ? from : 0), there) && to[there] == '-');
		}
	}
}

Test(iov, what_is_cut_begins_and_ends_where_it_is_asked_to)
{
	for (size_t from = 0; from <= BYTES + 1; from++) {
		for (size_t most = 0; most <= BYTES + 1; most++) {
			size_t there = from < BYTES ? rr_min(most, BYTES - from) : 0;
			struct iovec out[N];
			int k = rr_iov_cut(iov, N, from, most, out, N);

			cr_assert(are_bytes(out, k, from, there), "%zu bytes from %zu on", most, from);
			for (int i = 0; i < k; i++)
				cr_assert_gt(out[i].iov_len, 0);
		}
	}
}

Test(iov, of_more_pieces_than_there_is_room_for_the_first_are_cut)
{
	struct iovec out[3] = { [2] = { bytes, 99 } };

	cr_assert_eq(rr_iov_cut(iov, N, 2, SIZE_MAX, out, 2), 2);
	cr_assert(are_bytes(out, 2, 2, 7));
	cr_assert_eq(out[2].iov_len, 99, "written behind its end");
	cr_assert_eq(rr_iov_cut(iov, N, 0, SIZE_MAX, out, 0), 0);
}

Test(iov, a_cursor_passes_each_byte_once_whatever_its_steps)
{
	for (size_t step = 1; step <= BYTES; step++) {
		struct rr_iov c = rr_iov_begin(iov, N, BYTES);
		size_t at = 0;

		for (; c.left; at += rr_min(step, BYTES - at)) {
			const uint8_t *p = NULL;
			size_t n = rr_iov_piece(&c, &p);

			cr_assert(p == bytes + at && n > 0 && n <= c.left);
			cr_assert_eq(c.left, BYTES - at);
			rr_iov_skip(&c, rr_min(step, c.left));
		}
		cr_assert_eq(at, BYTES);
		cr_assert_eq(rr_iov_piece(&c, &(const uint8_t *){ NULL }), 0);
	}
}

Test(iov, a_cursor_over_nothing_is_at_its_end)
{
	struct rr_iov none = rr_iov_begin(NULL, 0, 0), empty = rr_iov_begin(iov, 1, 0);
	const uint8_t *p;

	cr_assert_eq(rr_iov_piece(&none, &p), 0);
	cr_assert_eq(rr_iov_piece(&empty, &p), 0);
	rr_iov_skip(&none, 0);
	rr_iov_skip(&empty, 0);
	cr_assert(!none.left && !empty.left);
}

Test(iov, the_rest_between_two_pieces_is_the_apps_own_array)
{
	struct rr_iov c = rr_iov_begin(iov, N, BYTES);
	const struct iovec *rest;
	struct iovec room[1];
	int n;

	cr_assert_eq(rr_iov_rest(&c, room, 1, &n), iov);
	cr_assert_eq(n, N);
	rr_iov_skip(&c, 4);
	rest = rr_iov_rest(&c, room, 1, &n);
	cr_assert(rest != room && are_bytes(rest, n, 4, 6));
}

Test(iov, the_rest_within_a_piece_is_as_much_as_there_is_room_for)
{
	struct rr_iov c = rr_iov_begin(iov, N, BYTES);
	struct iovec room[2];
	int n;

	rr_iov_skip(&c, 5);
	cr_assert_eq(rr_iov_rest(&c, room, 1, &n), room);
	cr_assert(n == 1 && are_bytes(room, n, 5, 4));
	cr_assert_eq(rr_iov_rest(&c, room, 2, &n), room);
	cr_assert(n == 2 && are_bytes(room, n, 5, 5));
	cr_assert_eq(iov[3].iov_len, 5, "the app's array is as it was");
}
