/* SPDX-License-Identifier: BSD-3-Clause */
/* Regions that serve one connection after another. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/prov/shm/shm_int.h"
#include "core/prov/shm/reuse.c"
#include "tests/lib/mapped.h"
#include "tests/lib/shm_pair.h"
#include "tests/lib/slowfd.h"

#define ops	(&rr_prov_shm)
#define RECVS	128u

static struct shm_pair p;
static struct sockaddr_in6 at;
static int maps;	/* that were there before the last connection but one */
static uint8_t serial;

static struct rr_shm *client(void)
{
	return rr_shm_of(p.c);
}

static struct rr_shm *server(void)
{
	return rr_shm_of(p.s);
}

static void begin_sized(uint32_t recvs)
{
	shm_pair_init(&p, 4096, recvs);
	p.cp.near = true;
	at = (struct sockaddr_in6){ .sin6_family = AF_INET6, .sin6_port = 7 };
	p.cp.peer = &at;
	p.cp.token[0] = p.sp.token[0] = ++serial;
}

static void connect_both(void)
{
	cr_assert_eq(shm_pair_connect(&p), 0);
}

static void begin(void)
{
	begin_sized(RECVS);
	connect_both();
}

static void end_one(struct rr_qp *qp, bool unused)
{
	ops->disconnect(qp);
	qp->mem_unused = unused;
	ops->close(qp);
}

static void end(void)
{
	end_one(p.c, true);
	end_one(p.s, true);
	shm_qp_free(p.c, &p.cp);
	shm_qp_free(p.s, &p.sp);
}

static bool is_again(void)
{
	cr_assert_eq(client()->again.taken, server()->again.taken);
	return server()->again.taken;
}

/* The first connection of a process does not have its regions kept. */
static void begin_second(void)
{
	maps = shared_maps();
	begin();
	end();
	begin();
}

static void offer_again(void)
{
	begin_second();
	end();
	begin_sized(RECVS);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	cr_assert(client()->again.taken);
}

static int say(struct rr_qp *qp, const char *text)
{
	struct iovec iov = { (void *)text, strlen(text) };

	return ops->send(qp, &iov, 1, 0, 0);
}

static bool hears(struct rr_qp *qp, const char *text)
{
	struct rr_wc wc;

	if (ops->poll(qp, &wc, 1) != 1 || wc.len != strlen(text) ||
	    memcmp(wc.buf, text, wc.len) != 0)
		return false;
	ops->repost(qp, wc.cookie);
	return true;
}

static bool hears_nothing(struct rr_qp *qp)
{
	struct rr_wc wc;

	return !ops->peek(qp, RR_ARM_RECV) && ops->poll(qp, &wc, 1) == 0;
}

static void they_talk(void)
{
	cr_assert(hears_nothing(p.c) && hears_nothing(p.s));
	for (int i = 0; i < 20; i++) {
		cr_assert_eq(say(p.c, "a call"), 1);
		cr_assert(hears(p.s, "a call"));
		cr_assert_eq(say(p.s, "a reply"), 1);
		cr_assert(hears(p.c, "a reply"));
	}
}

Test(shm_reuse, the_next_connection_has_the_regions_of_the_last)
{
	uint8_t *own, *peer;

	begin_second();
	cr_assert_not(is_again());
	they_talk();
	own = client()->own.berth.at;
	peer = client()->peer.berth.at;
	for (int i = 0; i < 3; i++) {
		end();
		begin();
		cr_assert(is_again());
		cr_assert_eq(client()->own.berth.at, own);
		cr_assert_eq(client()->peer.berth.at, peer);
		cr_assert_eq(p.c->peer_pid, (uint32_t)getpid());
		they_talk();
	}
}

Test(shm_reuse, what_nobody_has_read_is_not_there_any_more)
{
	begin_second();
	for (int i = 0; i < 5; i++) {
		cr_assert_eq(say(p.c, "lost"), 1);
		cr_assert_eq(say(p.s, "lost, too"), 1);
	}
	end();
	begin();
	cr_assert(is_again());
	they_talk();
}

static bool in_use(void *ctx, size_t off, size_t len)
{
	(void)ctx, (void)off, (void)len;
	return false;
}

/* An idle connection has given slots back, so that there is nothing in some that come before
 * others in which there is. */
Test(shm_reuse, what_was_read_is_not_there_any_more)
{
	begin_sized(64);
	connect_both();
	end();
	begin_sized(64);
	connect_both();
	they_talk();
	ops->trim(p.c, in_use, NULL);
	ops->trim(p.s, in_use, NULL);
	they_talk();
	end();
	begin_sized(64);
	connect_both();
	cr_assert(is_again());
	they_talk();
	they_talk();
}

/* One of the two has closed, and goes on sending to the other: no honest peer, or a slow one. */
Test(shm_reuse, what_comes_after_one_end_has_closed_is_not_there_any_more)
{
	begin_second();
	cr_assert_eq(say(p.s, "heard"), 1);
	cr_assert(hears(p.c, "heard"));
	end_one(p.c, true);
	cr_assert_eq(say(p.s, "late"), 1);
	end_one(p.s, true);
	begin();
	cr_assert(is_again());
	they_talk();
}

Test(shm_reuse, a_server_that_has_not_closed_yet_gets_new_regions)
{
	struct shm_pair old;

	begin_second();
	end_one(p.c, true);
	old = p;
	begin();
	cr_assert_not(is_again());
	they_talk();
	end_one(old.s, true);
	they_talk();
	end();
	begin();
	cr_assert(is_again());
	they_talk();
}

Test(shm_reuse, another_server_gets_new_regions)
{
	begin_second();
	end();
	begin_sized(RECVS);
	at.sin6_port = 8;
	connect_both();
	cr_assert_not(is_again());
	they_talk();
	end();
	begin();
	cr_assert(is_again());
}

Test(shm_reuse, other_sizes_need_new_regions)
{
	static const struct { uint32_t recv_size, recvs; size_t mem_size; } other[] = {
		{ 4096, RECVS - 1, 1 << 20 }, { 8192, RECVS, 1 << 20 }, { 4096, RECVS, 1 << 19 },
	};

	for (size_t i = 0; i < rr_array_size(other); i++) {
		begin_second();
		end();
		begin_sized(RECVS);
		p.cp.recv_size = p.sp.recv_size = other[i].recv_size;
		p.cp.recvs = p.sp.recvs = other[i].recvs;
		p.cp.mem_size = p.sp.mem_size = other[i].mem_size;
		connect_both();
		cr_assert_not(is_again(), "%zu", i);
		they_talk();
		end();
	}
}

/* By neither end. */
static void then_it_is_not_kept(void)
{
	end();
	cr_assert_eq(shared_maps(), maps);
	begin();
	cr_assert_not(is_again());
	they_talk();
}

Test(shm_reuse, a_long_message_is_too_much)
{
	static char text[RR_SHM_SHORT + 2];

	memset(text, 'x', sizeof(text) - 1);
	begin_second();
	cr_assert_eq(say(p.s, text), 1);
	cr_assert(hears(p.c, text));
	then_it_is_not_kept();
}

/* Both ends know how many slots have had a message. */
static void many_at_once(struct rr_qp *from, struct rr_qp *to)
{
	for (uint32_t i = 0; i <= FEW; i++)
		cr_assert_eq(say(from, "a call"), 1);
	for (uint32_t i = 0; i <= FEW; i++)
		cr_assert(hears(to, "a call"));
	then_it_is_not_kept();
}

Test(shm_reuse, many_calls_at_once_are_too_much)
{
	begin_second();
	many_at_once(p.c, p.s);
}

Test(shm_reuse, many_replies_at_once_are_too_much)
{
	begin_second();
	many_at_once(p.s, p.c);
}

Test(shm_reuse, many_messages_one_after_the_other_are_few)
{
	begin_second();
	for (uint32_t i = 0; i <= 10 * FEW; i++) {
		cr_assert_eq(say(p.c, "a call"), 1);
		cr_assert(hears(p.s, "a call"));
	}
	end();
	begin();
	cr_assert(is_again());
	they_talk();
}

/* As a server does. */
Test(shm_reuse, an_end_that_has_seen_the_others_end_keeps_them_too)
{
	struct rr_wc wc;

	begin_second();
	end_one(p.c, true);
	cr_assert_eq(ops->drain(p.s), -ECONNRESET);
	cr_assert_eq(ops->poll(p.s, &wc, 1), -ECONNRESET);
	end_one(p.s, true);
	begin();
	cr_assert(is_again());
}

Test(shm_reuse, chunks_are_too_much)
{
	struct rr_seg seg;
	char there[4];

	begin_second();
	cr_assert_eq(ops->expose(p.c, p.c->mem, 4, RR_RIGHT_READ, &seg), 0);
	cr_assert_eq(ops->read(p.s, there, 4, &seg, 0, 0), 1);
	then_it_is_not_kept();
}

Test(shm_reuse, memory_in_use_is_too_much)
{
	begin_second();
	end_one(p.c, false);
	end_one(p.s, false);
	begin();
	cr_assert_not(is_again());
}

Test(shm_reuse, a_peer_that_has_lied_is_not_met_again)
{
	struct rr_wc wc;

	begin_second();
	atomic_store(&server()->own.ring[0].len, UINT32_C(1) << 31);
	atomic_store(&server()->own.ring[0].seq, rr_shm_seq(0));
	cr_assert_eq(ops->poll(p.s, &wc, 1), -EPROTO);
	end();
	begin();
	cr_assert_not(is_again());
}

Test(shm_reuse, a_fork_sees_nothing_that_is_used_again)
{
	begin_second();
	end();
	cr_assert_eq(shared_maps(), maps + 4);
	rr_prov_forks();
	cr_assert_eq(shared_maps(), maps);
	begin();
	cr_assert_not(is_again());
	rr_prov_forks();	/* a child may have this one */
	end();
	begin();
	cr_assert_not(is_again());
}

/* One that we are not told of. */
Test(shm_reuse, a_process_takes_its_own_only)
{
	int status;
	pid_t pid;

	begin_second();
	end();
	pid = fork();
	if (!pid) {
		begin_second();
		_exit(is_again());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
	begin();
	cr_assert(is_again());
}

Test(shm_reuse, a_child_leaves_its_parents_connection_alone)
{
	int status;
	pid_t pid;

	begin_second();
	pid = fork();
	if (!pid) {
		end();
		begin_second();
		_exit(is_again());
	}
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	cr_assert_eq(status, 0);
}

Test(shm_reuse, what_has_not_ended_is_not_kept)
{
	begin_second();
	p.c->mem_unused = p.s->mem_unused = true;
	ops->close(p.c);
	ops->close(p.s);
	cr_assert_eq(shared_maps(), maps + 2, "the queue pairs");
}

Test(shm_reuse, what_is_declined_is_not_kept)
{
	offer_again();
	p.c->mem_unused = true;
	ops->close(p.c);
	cr_assert_eq(shared_maps(), maps + 4, "the queue pairs, and what the server keeps");
}

Test(shm_reuse, what_is_old_goes_when_another_is_kept)
{
	int before;

	begin_second();
	end();
	before = shared_maps();
	for (unsigned i = 0; i < KEPT; i++)
		pairs[i].since -= 2 * FRESH;
	begin_sized(RECVS);
	at.sin6_port = 9;
	connect_both();
	end();
	cr_assert_eq(shared_maps(), before, "two for two");
}

/* Regions that nobody has asked for again give way in turn. */
Test(shm_reuse, a_process_keeps_a_few)
{
	maps = shared_maps();
	begin();
	end();
	for (int i = 0; i < 64; i++) {
		begin_sized(RECVS);
		at.sin6_port = (in_port_t)(100 + i);
		connect_both();
		end();
	}
	cr_assert_eq(shared_maps(), maps + 2 * 8);
}

Test(shm_reuse, an_offer_names_nothing_but_what_it_has_room_for)
{
	begin_second();
	end();
	begin_sized(RECVS);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	p.offer.len--;
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -EINVAL);
	p.offer.len = 2 + RR_SHM_NAME;
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), -EINVAL);
	ops->close(p.c);
}

Test(shm_reuse, regions_that_the_server_does_not_know_are_made_anew)
{
	begin_second();
	end();
	begin_sized(RECVS);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	p.offer.bytes[p.offer.len - 1] ^= 1;
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert_not(is_again());
	they_talk();
}

/* --- peers that lie ----------------------------------------------------------------------- */

static struct rr_shm_hello hello(uint64_t magic, const uint8_t *proof)
{
	struct rr_shm_hello h = {
		.magic = magic, .version = RR_SHM_VERSION, .size = sizeof(h),
		.recv_size = 4096, .recvs = 8, .mem_size = 1 << 20,
	};
	struct rr_shm_geo g;

	rr_shm_geo_init(&g, h.recv_size, h.recvs, h.mem_size);
	h.total = g.total;
	memcpy(h.proof, proof, RR_SHM_PROOF);
	return h;
}

static int memory(void)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	cr_assert_eq(ftruncate(fd, (off_t)hello(0, p.cp.token).total), 0);
	cr_assert_eq(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
	return fd;
}

/* Stands in for the server. */
static int connect_to_client(void)
{
	struct sockaddr_un sa = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	memcpy(sa.sun_path + 1, p.offer.bytes + 2, RR_SHM_NAME);
	cr_assert_eq(connect(fd, (void *)&sa,
			     offsetof(struct sockaddr_un, sun_path) + 1 + RR_SHM_NAME), 0);
	return fd;
}

/* With memory, and a proof of which so many bits are wrong. */
static void say_hello(int sock, uint64_t magic, const uint8_t *proof, uint8_t wrong)
{
	struct rr_shm_hello h = hello(magic, proof);
	int fd = memory();

	h.proof[3] ^= wrong;
	cr_assert(hand_over(sock, &h, sizeof(h), &fd, 1));
}

Test(shm_reuse, no_descriptor_comes_with_regions_that_are_known)
{
	offer_again();
	say_hello(connect_to_client(), RR_SHM_AGAIN, p.cp.token, 0);
	cr_assert_eq(ops->join(p.c, &p.answer), -EPROTO);
	cr_assert_eq(shared_maps(), maps + 4, "the queue pairs, and what the server keeps");
}

/* What was offered stays as it is until the peer has shown its half of the token. */
Test(shm_reuse, a_stranger_does_not_change_what_is_used)
{
	offer_again();
	say_hello(connect_to_client(), RR_SHM_MAGIC, p.cp.token, 1);
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert_eq(ops->join(p.c, &p.answer), 0);
	cr_assert_eq(ops->establish(p.s), 0);
	cr_assert(is_again());
	they_talk();
}

/* A server's region is in use as soon as it has said so. */
Test(shm_reuse, a_client_does_not_change_its_mind)
{
	offer_again();
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	cr_assert(server()->again.taken);
	say_hello(accept(client()->listener[0], NULL, NULL), RR_SHM_MAGIC,
		  p.cp.token + RR_SHM_PROOF, 0);
	cr_assert_eq(ops->establish(p.s), -EPROTO);
}

Test(shm_reuse, a_server_takes_no_regions_again_that_it_has_not_said_so_of)
{
	struct rr_shm_hello h;
	int sock;

	begin_second();
	end();
	begin_sized(RECVS);
	cr_assert_eq(ops->prepare(p.c, &p.cp, &p.offer), 0);
	p.offer.bytes[p.offer.len - 1] ^= 1;
	cr_assert_eq(ops->answer(p.s, &p.sp, &p.offer, &p.answer), 0);
	sock = accept(client()->listener[0], NULL, NULL);
	h = hello(RR_SHM_AGAIN, p.cp.token + RR_SHM_PROOF);
	cr_assert_eq(send(sock, &h, sizeof(h), 0), (ssize_t)sizeof(h));
	cr_assert_eq(ops->establish(p.s), -EPROTO);
}

Test(shm_reuse, memory_that_the_app_has_locked_is_not_kept)
{
	begin_second();
	/* sanitizers ignore mlock() */
	if (syscall(SYS_mlock, client()->own.keys, RR_PAGE) ||
	    syscall(SYS_mlock, server()->own.keys, RR_PAGE))
		cr_skip_test("no page may be locked");
	then_it_is_not_kept();
}
