/* SPDX-License-Identifier: BSD-3-Clause */
#include "core/ulb/binding.h"
#include "tests/unit/ulb_msg.h"

static struct msg m;

enum { CREATE = 6, GETATTR = 9, OPEN = 18, PUTFH = 22, READ = 25, READDIR = 26, READLINK = 27,
       WRITE = 38, CREATE_SESSION = 43, SEQUENCE = 53, READ_PLUS = 68 };

#define TAG	4u	/* bytes of the tag */
#define OPS	60u	/* position of the first operation */

static void begin(uint32_t minor, uint32_t nops)
{
	begin_call(&m, NFS, 4, 1);
	add_opaque(&m, TAG);
	W(&m, minor, nops);
	cr_assert_eq(m.n, OPS - 4);
}

static void putfh(void)
{
	W(&m, PUTFH);
	add_opaque(&m, 9);
}

static uint32_t write_op(uint32_t len)
{
	W(&m, WRITE, 1, 2, 3, 4, 0, 0, 2);
	add_opaque(&m, len);
	return m.n - rr_align(len, 4u);
}

static void read_op(uint32_t count)
{
	W(&m, READ, 1, 2, 3, 4, 0, 0, count);
}

static void sequence(void)
{
	W(&m, SEQUENCE, 1, 2, 3, 4, 1, 0, 0, 0);
}

/* Each result: the operation, its status, what follows. */
#define RES_HEADER	(HEADER + 4 + 4 + TAG + 4)
#define RES_READ(n)	(16u + (n))

Test(ulb_nfs4, every_operation_of_a_compound_counts)
{
	uint32_t first, second;

	begin(0, 5);
	putfh();
	first = write_op(6);
	read_op(100);
	second = write_op(0);
	read_op(4097);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, 2);
	is_item(&call.args[0], first, 6);
	is_item(&call.args[1], second, 0);
	cr_assert_eq(call.nresults, 2);
	cr_assert_eq(call.results[0], 100);
	cr_assert_eq(call.results[1], 4097);
	cr_assert_eq(call.reply_rest, RES_HEADER + 8 + 2 * (8 + 16) + 2 * RES_READ(0));
	cr_assert_eq(call.reply_max, call.reply_rest + 100 + 4100);
}

/* req: rfc8166 3.4.4.3 #1 */
Test(ulb_nfs4, linkdata_of_create_and_readlink_is_eligible)
{
	begin(0, 2);
	W(&m, CREATE, 5);
	add_opaque(&m, 21);
	add_opaque(&m, 3);
	W(&m, 1, 0, 0);
	W(&m, READLINK);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, 1);
	is_item(&call.args[0], OPS + 8, 21);
	cr_assert_eq(call.nresults, 1);
	cr_assert_eq(call.results[0], 4096);
}

Test(ulb_nfs4, what_one_operation_asks_for_does_not_bound_the_next)
{
	begin(0, 2);
	read_op(10);
	W(&m, READLINK);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nresults, 2);
	cr_assert_eq(call.results[0], 10);
	cr_assert_eq(call.results[1], 4096);
}

Test(ulb_nfs4, create_session_has_its_largest_replies_third_in_each_channel)
{
	begin(1, 1);
	W(&m, CREATE_SESSION, 1, 2, 3, 4);
	W(&m, 11, 12, 13, 14, 15, 16, 1, 17);
	W(&m, 21, 22, 23, 24, 25, 26, 0);
	W(&m, 0x40000000, 2, 0, 1, 5);
	add_opaque(&m, 4);
	W(&m, 0, 0, 2, 7, 8);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.fore_max, 13);
	cr_assert_eq(call.back_max, 23);
	m.n -= 4;
	cr_assert_eq(look(&m), RR_ULB_NONE);
	cr_assert_eq(call.fore_max, 0);
}

/* req: rfc8166 3.4.4.3 #1 */
Test(ulb_nfs4, a_directory_has_no_linkdata)
{
	begin(0, 1);
	W(&m, CREATE, 2);
	add_opaque(&m, 3);
	W(&m, 1, 0, 0);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, 0);
}

Test(ulb_nfs4, read_plus_is_not_eligible_and_has_no_bound)
{
	begin(2, 1);
	W(&m, READ_PLUS, 1, 2, 3, 4, 0, 0, 4096);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nresults, 0);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
}

Test(ulb_nfs4, behind_an_unknown_operation_nothing_is_known)
{
	static const uint32_t unknown[] = { 0, 1, 2, 76, 10044, 0xffffffff };
	uint32_t pos;

	for (uint32_t i = 0; i < rr_array_size(unknown); i++) {
		begin(0, 4);
		pos = write_op(8);
		read_op(8);
		W(&m, unknown[i]);
		write_op(8);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.nargs, 1);
		is_item(&call.args[0], pos, 8);
		cr_assert_eq(call.nresults, 1);
		cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
		cr_assert_eq(call.reply_rest, RR_ULB_UNKNOWN);
	}
}

Test(ulb_nfs4, a_read_chunk_behind_an_unknown_operation_is_a_violation)
{
	struct rr_ulb_chunk c[2] = { { 0, 8 }, { 0, 8 } };

	begin(0, 3);
	c[0].pos = write_op(8);
	W(&m, 99);
	c[1].pos = write_op(8);
	cut(&m, c[1].pos, 8);
	cut(&m, c[0].pos, 8);
	cr_assert_eq(look_chunks(&m, c, 1), RR_ULB_OK);
	cr_assert_eq(look_chunks(&m, c, 2), RR_ULB_VIOLATION);
}

/* req: rfc8166 3.4.5 #1 */
Test(ulb_nfs4, several_read_chunks_in_the_order_of_their_positions)
{
	struct rr_ulb_chunk c[2] = { { 0, 9 }, { 0, 8 } }, swapped[2];

	begin(0, 3);
	c[0].pos = write_op(9);
	read_op(1);
	c[1].pos = write_op(5);
	cut(&m, c[1].pos, 8);
	cut(&m, c[0].pos, 12);
	cr_assert_eq(look_chunks(&m, c, 2), RR_ULB_OK);
	cr_assert_eq(call.nargs, 2);
	is_item(&call.args[0], c[0].pos, 9);
	is_item(&call.args[1], c[1].pos, 5);
	cr_assert_eq(call.args[1].chunk, 1);
	cr_assert_eq(call.len, c[1].pos + 8);
	swapped[0] = c[1];
	swapped[1] = c[0];
	cr_assert_eq(look_chunks(&m, swapped, 2), RR_ULB_VIOLATION);
}

Test(ulb_nfs4, one_of_two_items_may_be_in_the_stream)
{
	struct rr_ulb_chunk c = { 0, 5 };

	begin(0, 2);
	write_op(9);
	c.pos = write_op(5);
	cut(&m, c.pos, 8);
	cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_OK);
	cr_assert_not(call.args[0].placed);
	cr_assert_eq(call.args[0].chunk, RR_ULB_INLINE);
	cr_assert(call.args[1].placed);
}

Test(ulb_nfs4, more_items_than_can_be_told_stay_in_the_stream)
{
	begin(0, 40);
	for (uint32_t i = 0; i < 20; i++) {
		write_op(4);
		read_op(4);
	}
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs, RR_ULB_ITEMS);
	cr_assert_eq(call.nresults, RR_ULB_ITEMS);
	cr_assert_eq(call.reply_rest, call.reply_max - 4 * RR_ULB_ITEMS);
}

Test(ulb_nfs4, fewer_operations_than_counted_are_garbage)
{
	begin(0, 3);
	write_op(8);
	read_op(8);
	cr_assert_eq(look(&m), RR_ULB_NONE);
	is_nothing();
}

Test(ulb_nfs4, attributes_bound_a_getattr)
{
	begin(0, 1);
	W(&m, GETATTR, 2, 1 << 3 | 1 << 4, 1 << (47 - 32));	/* change, size, time_access */
	cr_assert_eq(look(&m), RR_ULB_OK);
	/* operation, status, bitmap of three words, length, values */
	cr_assert_eq(call.reply_max, RES_HEADER + 8 + 16 + 4 + 8 + 8 + 12);
	begin(0, 1);
	W(&m, GETATTR, 5, 1 << 3, 0, 0, 0, 0);		/* may come back as long as it went */
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RES_HEADER + 8 + 24 + 4 + 8);
}

Test(ulb_nfs4, attributes_without_limit_and_unknown_ones_leave_no_bound)
{
	static const uint32_t bits[] = { 12, 24, 58, 59, 61, 67, 80, 87, 95, 96, 127 };

	for (uint32_t i = 0; i < rr_array_size(bits); i++) {
		uint32_t map[4] = { 0 };

		map[bits[i] / 32] = 1u << bits[i] % 32;
		begin(0, 2);
		W(&m, GETATTR, 4, map[0], map[1], map[2], map[3]);
		read_op(10);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN, "%u", bits[i]);
		cr_assert_eq(call.results[0], 10);
	}
}

Test(ulb_nfs4, a_readdir_takes_no_more_than_it_may)
{
	begin(0, 1);
	W(&m, READDIR, 0, 0, 0, 0, 512, 8191, 1, 1 << 12);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RES_HEADER + 8 + 8 + 8192 + 4);
}

Test(ulb_nfs4, a_session_bounds_what_has_no_bound)
{
	begin(1, 2);
	sequence();
	W(&m, GETATTR, 1, 1 << 12);
	cr_assert_eq(look_part(&m, m.n, m.n, 0), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
	cr_assert_eq(look_part(&m, m.n, m.n, RR_ULB_UNKNOWN), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
	cr_assert_eq(look_part(&m, m.n, m.n, 65536), RR_ULB_OK);
	cr_assert_eq(call.reply_max, 65536);
	cr_assert_eq(call.reply_rest, 65536);
	begin(0, 1);
	W(&m, GETATTR, 1, 1 << 12);
	cr_assert_eq(look_part(&m, m.n, m.n, 65536), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
}

/* RFC 8881 §18.36.3: ca_maxresponsesize does not count what RPCSEC_GSS puts around the results. */
Test(ulb_nfs4, what_gss_puts_around_the_results_comes_on_top_of_a_sessions_bound)
{
	for (uint32_t service = 1; service <= 2; service++) {
		begin_gss(&m, 4, 1, 0, service);
		set_proc(&m, 1);
		if (service == 2)
			W(&m, 48, 99);
		add_opaque(&m, TAG);
		W(&m, 1, 2);
		sequence();
		W(&m, GETATTR, 1, 1 << 12);
		cr_assert_eq(look_part(&m, m.n, m.n, 65536), RR_ULB_OK);
		cr_assert_eq(call.reply_max, 65536 + (service == 2 ? 16 + 512 : 0), "%u", call.reply_max);
		cr_assert_eq(call.reply_rest, call.reply_max);
	}
}

Test(ulb_nfs4, a_sessions_bound_with_what_gss_adds_is_no_bound_beyond_32_bits)
{
	begin_gss(&m, 4, 1, 0, 2);
	set_proc(&m, 1);
	W(&m, 48, 99);
	add_opaque(&m, TAG);
	W(&m, 1, 2);
	sequence();
	W(&m, GETATTR, 1, 1 << 12);
	for (uint32_t most = UINT32_MAX - 530; most >= UINT32_MAX - 530; most++) {
		cr_assert_eq(look_part(&m, m.n, m.n, most), RR_ULB_OK);
		cr_assert_eq(call.reply_max, most < UINT32_MAX - 528 ? most + 528 : RR_ULB_UNKNOWN, "%u", most);
	}
}

Test(ulb_nfs4, the_largest_counts_do_not_overflow)
{
	begin(0, 200);
	for (uint32_t i = 0; i < 200; i++)
		read_op(0xffffffff);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.reply_max, RR_ULB_UNKNOWN);
	cr_assert_eq(call.results[15], 0xffffffff);
	begin(0, 0xffffffff);
	cr_assert_eq(look(&m), RR_ULB_NONE);
}

Test(ulb_nfs4, an_attribute_bitmap_longer_than_the_message_is_garbage)
{
	begin(0, 1);
	W(&m, GETATTR, 0xffffffff, 0, 0);
	cr_assert_eq(look(&m), RR_ULB_NONE);
	is_nothing();
}

Test(ulb_nfs4, an_open_is_walked_whatever_its_arms)
{
	/* claims, with the words that each takes */
	static const struct { uint32_t arm, words; bool name; } claim[] = {
		{ 0, 0, true }, { 1, 1, false }, { 2, 4, true }, { 3, 0, true }, { 4, 0, false },
		{ 5, 4, false }, { 6, 0, false } };
	uint32_t pos;

	for (uint32_t how = 0; how < 5; how++) {
		for (uint32_t i = 0; i < rr_array_size(claim); i++) {
			begin(1, 2);
			W(&m, OPEN, 0, 3, 0, 1, 2);
			add_opaque(&m, 11);
			if (how < 4)
				W(&m, 1, how);
			else
				W(&m, 0);
			if (how == 2 || how == 3)
				W(&m, 8, 9);
			if (how < 2 || how == 3) {
				W(&m, 1, 2);
				add_opaque(&m, 4);
			}
			W(&m, claim[i].arm);
			add_words(&m, claim[i].words);
			if (claim[i].name)
				add_opaque(&m, 5);
			pos = write_op(7);
			cr_assert_eq(look(&m), RR_ULB_OK);
			cr_assert_eq(call.nargs, 1);
			is_item(&call.args[0], pos, 7);
		}
	}
	begin(1, 1);
	W(&m, OPEN, 0, 3, 0, 1, 2, 0, 0, 7);
	cr_assert_eq(look(&m), RR_ULB_NONE);
}

/* --- callbacks -------------------------------------------------------------------------- */

Test(ulb_nfs4, callbacks_have_bounds_and_nothing_eligible)
{
	begin_call(&m, 0x40000000, 1, 1);
	add_opaque(&m, 0);
	W(&m, 1, 5, 2);
	W(&m, 11, 1, 2, 3, 4, 1, 0, 0, 0, 1, 1, 2, 3, 4, 1, 7, 8);	/* CB_SEQUENCE */
	W(&m, 4, 1, 2, 3, 4, 0);					/* CB_RECALL */
	add_opaque(&m, 30);
	cr_assert_eq(look(&m), RR_ULB_OK);
	cr_assert_eq(call.nargs + call.nresults, 0);
	cr_assert_eq(call.reply_max, HEADER + 12 + 8 + 32 + 8);
	cr_assert_eq(look_part(&m, m.n, m.n, 100), RR_ULB_OK);
	cr_assert_eq(call.reply_max, 100);
}

Test(ulb_nfs4, a_callback_takes_no_read_chunk)
{
	struct rr_ulb_chunk c = { 0, 32 };

	begin_call(&m, 0x40000000, 1, 1);
	add_opaque(&m, 0);
	W(&m, 0, 5, 1, 4, 1, 2, 3, 4, 0, 32);
	c.pos = m.n;
	cr_assert_eq(look_chunks(&m, &c, 1), RR_ULB_VIOLATION);
}

Test(ulb_nfs4, a_compound_may_be_executed_twice_if_each_of_its_operations_may)
{
	begin(0, 2);
	putfh();
	read_op(100);
	look(&m);
	cr_assert(call.idempotent);
	begin(0, 3);
	putfh();
	read_op(100);
	write_op(6);
	look(&m);
	cr_assert_not(call.idempotent);
	begin(1, 3);		/* a session remembers */
	sequence();
	putfh();
	read_op(100);
	look(&m);
	cr_assert_not(call.idempotent);
	begin(0, 3);		/* the last one is not known */
	putfh();
	read_op(100);
	W(&m, 9999);
	look(&m);
	cr_assert_not(call.idempotent);
	for (uint32_t op = 72; op <= 75; op += 3) {	/* GETXATTR, REMOVEXATTR */
		begin(2, 2);
		putfh();
		W(&m, op);
		add_opaque(&m, 3);
		cr_assert_eq(look(&m), RR_ULB_OK);
		cr_assert_eq(call.idempotent, op == 72);
	}
}

/* A call of others may have changed something by the time that it is sent again. */
extern const struct rr_ulb_binding rr_ulb_nfs4;

Test(ulb_nfs4, only_operations_that_change_nothing_are_executed_twice)
{
	static const uint8_t same[] = {
		3, 9, 10, 13, 15, 16,		/* ACCESS GETATTR GETFH LOCKT LOOKUP LOOKUPP */
		17, 22, 23, 24, 25, 26, 27,	/* NVERIFY PUTFH PUTPUBFH PUTROOTFH READ READDIR READLINK */
		31, 32, 33, 37,			/* RESTOREFH SAVEFH SECINFO VERIFY */
		47, 48, 52, 55,			/* GETDEVICEINFO GETDEVICELIST SECINFO_NO_NAME TEST_STATEID */
		67, 68, 69, 72, 74,		/* OFFLOAD_STATUS READ_PLUS SEEK GETXATTR LISTXATTRS */
	};
	uint64_t want[2] = { 0 };

	for (size_t i = 0; i < sizeof(same); i++)
		want[same[i] / 64] |= UINT64_C(1) << same[i] % 64;
	for (int i = 0; i < 2; i++)
		cr_assert_eq(rr_ulb_nfs4.ops_twice[i], want[i], "%llx, not %llx", (unsigned long long)rr_ulb_nfs4.ops_twice[i],
			     (unsigned long long)want[i]);
	cr_assert_eq(rr_ulb_nfs4.procs_twice, 3);
}
