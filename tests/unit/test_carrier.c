/* SPDX-License-Identifier: BSD-3-Clause */
/* The queue pair that carries a connection, and the share around it: what a provider is asked, and what is made of
 * its answers. */
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "core/base/log.h"
#include "core/base/os.h"
#include "core/base/pages.h"
#include "core/conn/base/base.h"
#include "core/conn/base/price.h"
#include "tests/lib/connpair.h"
#include "tests/unit/log_said.h"
#include "tests/lib/mapped.h"

#define MS	(20 * RR_MSEC)	/* what the provider takes */
#define QP_SIZE	1000u

static struct {
	int rc;
	bool slow;
	int prepared, answered, joined, established, withdrawn, connected, disconnected, closed;
	int listened, unlistened, tended, took;
	const void *args[4];
	const struct rr_qp *qp;
	struct rr_lst *lst;
} prov;
static const struct rr_prov_ops ops;

static rr_time clock_at = 1000 * RR_SEC;

int clock_gettime(clockid_t which, struct timespec *ts)
{
	if (which != CLOCK_MONOTONIC)
		return (int)syscall(SYS_clock_gettime, which, ts);
	*ts = (struct timespec){ .tv_sec = (time_t)(clock_at / RR_SEC), .tv_nsec = (long)(clock_at % RR_SEC) };
	return 0;
}

static int done(struct rr_qp *qp, const void *a, const void *b, const void *c)
{
	prov.qp = qp;
	prov.args[0] = a;
	prov.args[1] = b;
	prov.args[2] = c;
	if (prov.slow)
		clock_at += MS;
	return prov.rc;
}

static size_t fake_size(const struct rr_prov_params *p)
{
	(void)p;
	return QP_SIZE;
}

static int fake_prepare(struct rr_qp *qp, const struct rr_prov_params *p, struct rr_prov_addr *offer)
{
	prov.prepared++;
	return done(qp, p, offer, NULL);
}

static int fake_answer(struct rr_qp *qp, const struct rr_prov_params *p, const struct rr_prov_addr *offer,
		       struct rr_prov_addr *answer)
{
	prov.answered++;
	return done(qp, p, offer, answer);
}

static int fake_join(struct rr_qp *qp, const struct rr_prov_addr *answer)
{
	prov.joined++;
	return done(qp, answer, NULL, NULL);
}

static int fake_establish(struct rr_qp *qp)
{
	prov.established++;
	return done(qp, NULL, NULL, NULL);
}

static int fake_withdraw(struct rr_qp *qp)
{
	prov.withdrawn++;
	return done(qp, NULL, NULL, NULL);
}

static int fake_connect(struct rr_qp *qp, const struct rr_prov_params *p, const struct sockaddr *to,
			const struct sockaddr *from)
{
	prov.connected++;
	return done(qp, p, to, from);
}

static void fake_disconnect(struct rr_qp *qp)
{
	prov.disconnected++;
	prov.qp = qp;
}

static void fake_close(struct rr_qp *qp)
{
	prov.closed++;
	done(qp, NULL, NULL, NULL);
}

static void fake_observe(struct rr_qp *qp, uint32_t cpu, struct rr_peer_look *out)
{
	(void)qp;
	(void)cpu;
	(void)out;
}

static void fake_trim(struct rr_qp *qp, bool (*used)(void *ctx, size_t off, size_t len), void *ctx)
{
	prov.qp = qp;
	prov.rc = used(ctx, 0, RR_POOL_PAGE) | used(ctx, RR_POOL_PAGE, RR_POOL_PAGE) << 1 |
		used(ctx, 0, 2 * RR_POOL_PAGE) << 2;
}

static size_t fake_lst_size(void)
{
	return sizeof(struct rr_lst) + 5000;
}

static int fake_listen(struct rr_lst *lst, const struct sockaddr *addr)
{
	prov.listened++;
	cr_assert(lst->ops == &ops && lst->v6only && lst->fd == -1);
	prov.lst = lst;
	memset(lst + 1, 1, 5000);
	return done(NULL, addr, NULL, NULL);
}

static void fake_unlisten(struct rr_lst *lst)
{
	(void)lst;
	prov.unlistened++;
}

static int fake_tend(struct rr_lst *lst)
{
	prov.tended++;
	return done(NULL, lst, NULL, NULL);
}

static int fake_take(struct rr_lst *lst, struct rr_qp *qp, const struct rr_prov_params *p, struct sockaddr_in6 *peer,
		     struct sockaddr_in6 *local)
{
	prov.took++;
	peer->sin6_port = 1;
	local->sin6_port = 2;
	return done(qp, lst, p, NULL);
}

static const struct rr_prov_ops ops = {
	.name = "fake", .id = RR_PROV_ID_FAKE, .caps = 0, .qp_size = fake_size, .prepare = fake_prepare, .answer = fake_answer,
	.join = fake_join, .establish = fake_establish, .withdraw = fake_withdraw, .connect = fake_connect,
	.disconnect = fake_disconnect, .close = fake_close, .trim = fake_trim, .lst_size = fake_lst_size,
	.listen = fake_listen, .unlisten = fake_unlisten, .tend = fake_tend, .take = fake_take,
}, plain = {
	.name = "plain", .id = RR_PROV_ID_SHM, .caps = RR_PROV_LOCAL | RR_PROV_FAMILY, .qp_size = fake_size,
	.prepare = fake_prepare, .answer = fake_answer, .close = fake_close, .observe = fake_observe,
}, device = {
	.name = "device", .id = RR_PROV_ID_VERBS, .qp_size = fake_size, .prepare = fake_prepare, .close = fake_close,
};
static const struct rr_prov_params pp = { .recv_size = 4096, .recvs = 32, .mem_size = 1 << 20, .token = "fifteen letters" };

static void begin(void)
{
	rr_test_params.spin = 20 * RR_USEC;
	rr_test_params.spin_worth = 7 * RR_USEC;
	rr_test_setup();
}

TestSuite(carrier, .init = begin, .timeout = 60);

Test(carrier, a_new_share_is_laid_out)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	const uint8_t *base = (const uint8_t *)sh;

	cr_assert(sh->qp->ops == &ops && sh->qp->wake_fd == -1);
	cr_assert((const uint8_t *)sh->qp >= base + sizeof(*sh) && (uintptr_t)sh->qp % RR_CACHELINE == 0);
	cr_assert((const uint8_t *)sh->rx.ent >= (const uint8_t *)sh->qp + QP_SIZE);
	cr_assert_eq((const void *)(sh->rx.ent + RR_RX_ENTS), sh->eng, "the queue for the app ends where the engine begins");
	cr_assert((uintptr_t)(sh->rx.ent + RR_RX_FIRST) % RR_PAGE == 0);
	cr_assert((uint8_t *)sh->tables >= (uint8_t *)sh->eng + rr_eng_size(&sh->ep));
	cr_assert((uint8_t *)(sh->tables + 1) <= sh->back.ring);
	cr_assert_eq(sh->back.ring + RR_RING, base + sh->size);
	cr_assert(sh->size % RR_PAGE == 0 && sh->back.door == -1 && sh->back.owner == (int32_t)rr_pid());
	cr_assert(sh->far == -1 && sh->tx.buf == RR_BUF_NONE && sh->pull == sh->tables->pull);
	cr_assert_eq(sh->patience, rr_test_params.idle_trim);
	cr_assert(sh->procs == 1 && sh->family[0] == (int32_t)rr_pid() && sh->family[1] == 0);
	cr_assert_eq(memcmp(sh->token, pp.token, RR_TOKEN_LEN), 0);
	cr_assert(sh->ep.recvs == 32 && sh->ep.pulls == RR_PULLS && sh->ep.inline_send == 4096 && sh->ep.inline_recv == 4096);
	cr_assert_eq(sh->ep.done_timeout_pressure, rr_test_params.eng.done_timeout / 10);
	cr_assert_eq(sh->ep.caps, (uint32_t)(RR_CAP_RELIABLE_REPLY | RR_CAP_RING_CREDITS | RR_CAP_HATCH | RR_CAP_REVERSE_CHUNKS));
	cr_assert(sh->ep.sizes == &rr_conn_sizes && sh->ep.credits == rr_test_params.eng.credits);
	cr_assert_eq(sh->spin, 20 * RR_USEC);
	memset(sh->back.ring, 1, RR_RING);
	rr_carrier_free(sh);
	cr_assert_eq(prov.closed, 1);
	sh = rr_carrier_new(&plain, &pp);
	cr_assert_eq(sh->spin, 7 * RR_USEC, "what its peer says makes spinning cheaper");
	rr_carrier_free(sh);
}

static void has_room(uint32_t credits, uint32_t reverse)
{
	struct rr_eng_params ep;
	struct rr_share *sh;
	size_t room, most = 0;

	rr_test_params.eng.credits = credits;
	rr_test_params.eng.bc_credits = reverse;
	sh = rr_carrier_new(&ops, &pp);
	room = (size_t)((uint8_t *)sh->tables - (uint8_t *)sh->eng);
	ep = sh->ep;
	for (int d = 0; rr_dialect_names[d]; d++)
		for (int i = 0; i < 4; i++) {
			ep.dialect = (enum rr_dialect)d;
			ep.connector = i & 1;
			ep.caps = i & 2 ? sh->ep.caps : sh->ep.caps & ~(uint32_t)RR_CAP_RING_CREDITS;
			cr_assert_geq(room, rr_eng_size(&ep));
			most = rr_max(most, rr_eng_size(&ep));
		}
	cr_assert_lt(room - most, RR_CACHELINE);
	rr_carrier_free(sh);
}

/* Whatever the two sides agree on, the engine has room. */
Test(carrier, there_is_room_for_any_engine)
{
	has_room(1, 1);
	has_room(200, 1);
	has_room(1, 200);
	has_room(1, 60);
	has_room(60, 1);
	has_room(200, 200);
	has_room(32, 8);
}

Test(carrier, an_offer_names_its_provider_and_address)
{
	struct rr_nego_prov offer = { 0 };
	enum rr_reason why = RR_R_NONE;
	struct rr_share *sh;

	prov.slow = true;
	sh = rr_carrier_offer(&ops, &pp, &offer, &why);
	cr_assert(sh && why == RR_R_NONE && prov.prepared == 1 && offer.id == RR_PROV_ID_FAKE);
	cr_assert(prov.qp == sh->qp && prov.args[0] == &pp && prov.args[1] == &offer.addr);
	cr_assert_eq(rr_price_sum(), MS);
	prov.slow = false;
	rr_carrier_free(sh);
}

Test(carrier, an_answer_does_likewise)
{
	struct rr_nego_prov offer = { 0 }, answer = { 0 };
	enum rr_reason why = RR_R_NONE;
	struct rr_share *sh;

	prov.slow = true;
	sh = rr_carrier_answer(&ops, &pp, &offer, &answer, &why);
	cr_assert(sh && why == RR_R_NONE && prov.answered == 1 && answer.id == RR_PROV_ID_FAKE && offer.id == 0);
	cr_assert(prov.qp == sh->qp && prov.args[0] == &pp && prov.args[1] == &offer.addr && prov.args[2] == &answer.addr);
	cr_assert_eq(rr_price_sum(), MS);
	prov.slow = false;
	rr_carrier_free(sh);
}

static enum rr_reason reason(const struct rr_prov_ops *with, int rc)
{
	struct rr_nego_prov offer = { 0 };
	enum rr_reason why = RR_R_NO_ROUTE;
	int closed = prov.closed;

	prov.rc = rc;
	cr_assert_null(rr_carrier_offer(with, &pp, &offer, &why));
	cr_assert_eq(prov.closed, closed + 1, "nothing of it is left");
	return why;
}

Test(carrier, errors_of_a_provider_have_reasons)
{
	cr_assert_eq(reason(&device, -ECHILD), RR_R_FORKED);
	cr_assert_eq(reason(&device, -EDQUOT), RR_R_CGROUP);
	cr_assert_eq(reason(&device, -ENETDOWN), RR_R_DEVICE);
	cr_assert_eq(reason(&device, -EIO), RR_R_DEVICE);
	cr_assert_eq(reason(&device, -EINVAL), RR_R_NO_ROUTE);
	cr_assert_eq(reason(&plain, -ECHILD), RR_R_FORKED);
	cr_assert_eq(reason(&plain, -ENETDOWN), RR_R_DEVICE);
	cr_assert_eq(reason(&plain, -EIO), RR_R_NO_ROUTE);
	cr_assert_eq(reason(&plain, -ENOMEM), RR_R_NO_MEMORY);
	cr_assert_eq(reason(&plain, -EACCES), RR_R_NO_ROUTE);
}

Test(carrier, that_memory_cannot_be_locked_is_said_once)
{
	rr_log_setup(RR_LOG_WARN, hear);
	cr_assert_eq(reason(&plain, -ENOMEM), RR_R_NO_MEMORY);
	cr_assert_str_eq(said, "");
	cr_assert_eq(reason(&device, -ENOMEM), RR_R_MEMLOCK);
	cr_assert(strstr(said, "LimitMEMLOCK"));
	said[0] = '\0';
	cr_assert_eq(reason(&device, -ENOMEM), RR_R_MEMLOCK);
	cr_assert_str_eq(said, "");
}

Test(carrier, what_failed_has_no_price)
{
	prov.slow = true;
	prov.rc = -EINVAL;
	(void)reason(&ops, -EINVAL);
	cr_assert_eq(rr_price_sum(), MS, "but for what it costs to end it");
}

Test(carrier, what_children_could_not_use_is_not_used_where_they_do)
{
	struct rr_nego_prov offer = { 0 }, answer = { 0 };
	enum rr_reason why = RR_R_NONE;
	struct rr_share *sh;

	atomic_store(&rr_conn_forks, true);
	cr_assert_null(rr_carrier_offer(&ops, &pp, &offer, &why));
	cr_assert_eq(why, RR_R_FORKED);
	cr_assert_eq(prov.prepared, 0);
	why = RR_R_NONE;
	cr_assert_null(rr_carrier_answer(&ops, &pp, &offer, &answer, &why));
	cr_assert(why == RR_R_FORKED && prov.answered == 0);
	sh = rr_carrier_offer(&plain, &pp, &offer, &why);
	cr_assert_not_null(sh);
	rr_carrier_free(sh);
}

Test(carrier, without_memory_there_is_none)
{
	struct rr_nego_prov offer = { 0 }, answer = { 0 };
	enum rr_reason why = RR_R_NONE, why2 = RR_R_NONE;
	struct rlimit old, none = { 0, 0 };
	struct rr_share *sh, *sh2;
	struct rr_lst *lst = NULL;
	struct sockaddr to = { 0 };
	int rc;

	cr_assert_eq(getrlimit(RLIMIT_AS, &old), 0);
	none.rlim_max = old.rlim_max;
	cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
	sh = rr_carrier_offer(&ops, &pp, &offer, &why);
	sh2 = rr_carrier_answer(&ops, &pp, &offer, &answer, &why2);
	rc = rr_carrier_listen(&ops, &to, true, &lst);
	setrlimit(RLIMIT_AS, &old);
	cr_assert(!sh && why == RR_R_NO_MEMORY && prov.prepared == 0);
	cr_assert(!sh2 && why2 == RR_R_NO_MEMORY && prov.answered == 0);
	cr_assert(rc == -ENOMEM && !lst && prov.listened == 0);
}

Test(carrier, of_those_that_were_offered_one_is_kept)
{
	struct rr_share *a = rr_carrier_new(&ops, &pp), *b = rr_carrier_new(&plain, &pp), *c = rr_carrier_new(&device, &pp);
	struct rr_share *offered = a;

	a->next = b;
	b->next = c;
	cr_assert_not(rr_carrier_choose(&offered, 99));
	cr_assert(offered == a && a->next == b && b->next == c && !c->next && prov.closed == 0);
	cr_assert(rr_carrier_choose(&offered, RR_PROV_ID_SHM));
	cr_assert(offered == b && !b->next && prov.closed == 2);
	cr_assert(rr_carrier_choose(&offered, RR_PROV_ID_SHM));
	cr_assert(offered == b && prov.closed == 2);
	rr_carrier_free(offered);
	cr_assert_eq(prov.closed, 3);
	rr_carrier_free(NULL);
	cr_assert_eq(prov.closed, 3);
}

Test(carrier, joining_and_establishing_have_their_price)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	struct rr_prov_addr answer = { 0 };

	prov.rc = -EAGAIN;
	cr_assert_eq(rr_carrier_join(sh, &answer), -EAGAIN);
	cr_assert_eq(rr_carrier_establish(sh), -EAGAIN);
	cr_assert_eq(rr_price_sum(), 0);
	prov.rc = 0;
	prov.slow = true;
	cr_assert_eq(rr_carrier_join(sh, &answer), 0);
	cr_assert(prov.joined == 2 && prov.args[0] == &answer && prov.qp == sh->qp);
	cr_assert_eq(rr_price_sum(), MS);
	cr_assert_eq(rr_carrier_establish(sh), 0);
	cr_assert_eq(rr_price_sum(), 2 * MS);
	rr_carrier_free(sh);
	cr_assert_eq(rr_price_sum(), 3 * MS);
}

Test(carrier, an_answer_is_withdrawn_if_it_can_be)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);

	cr_assert(rr_carrier_withdraw(sh) && prov.withdrawn == 1);
	prov.rc = -EAGAIN;
	cr_assert_not(rr_carrier_withdraw(sh));
	prov.rc = -EIO;
	cr_assert(rr_carrier_withdraw(sh));
	sh->qp->ops = &plain;
	cr_assert_not(rr_carrier_withdraw(sh));
	cr_assert_eq(prov.withdrawn, 3);
	rr_carrier_free(sh);
}

Test(carrier, native_peers)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	struct sockaddr to = { 0 }, from = { 0 };
	struct rr_lst *lst = NULL;

	prov.rc = -ENETUNREACH;
	cr_assert_eq(rr_carrier_call(sh, &pp, &to, &from), -ENETUNREACH);
	cr_assert(prov.connected == 1 && prov.qp == sh->qp && prov.args[0] == &pp && prov.args[1] == &to && prov.args[2] == &from);
	prov.rc = -EADDRINUSE;
	cr_assert_eq(rr_carrier_listen(&ops, &to, true, &lst), -EADDRINUSE);
	cr_assert(prov.listened == 1 && !lst && !is_mapped(prov.lst) && !is_mapped((uint8_t *)prov.lst + RR_PAGE));
	prov.rc = 0;
	cr_assert_eq(rr_carrier_listen(&ops, &to, true, &lst), 0);
	cr_assert(prov.listened == 2 && lst && prov.args[0] == &to);
	prov.rc = -ESHUTDOWN;
	cr_assert_eq(rr_carrier_tend(lst), -ESHUTDOWN);
	cr_assert(prov.tended == 1 && prov.args[0] == lst);
	prov.rc = 3;
	cr_assert_eq(rr_carrier_take(lst, sh, &pp), 3);
	cr_assert(prov.took == 1 && prov.args[0] == lst && prov.args[1] == &pp && prov.qp == sh->qp);
	cr_assert(sh->name[1].sin6_port == 1 && sh->name[0].sin6_port == 2);
	lst->ops = &(struct rr_prov_ops){ .lst_size = fake_lst_size, .unlisten = fake_unlisten };
	cr_assert_eq(rr_carrier_tend(lst), 0);
	rr_carrier_unlisten(lst);
	cr_assert(prov.unlistened == 1 && !is_mapped(lst) && !is_mapped((uint8_t *)lst + RR_PAGE));
	rr_carrier_free(sh);
}

Test(carrier, its_life)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	static uint8_t mem[4 * RR_POOL_PAGE];
	int far[2];
	char byte;

	cr_assert_eq(rr_carrier_kind(sh), RR_CARRIER_SHM);
	sh->qp->ops = &device;
	cr_assert_eq(rr_carrier_kind(sh), RR_CARRIER_VERBS);
	sh->qp->ops = &ops;
	rr_pool_init(&sh->pool, &sh->tables->pool, mem, sizeof(mem));
	rr_pool_alloc(&sh->pool, 1);
	rr_carrier_trim(sh);
	cr_assert(prov.rc == (1 | 4) && prov.qp == sh->qp, "the first page is in use");
	rr_carrier_disconnect(sh);
	cr_assert(prov.disconnected == 1 && prov.closed == 0);
	rr_carrier_close(sh);
	cr_assert(prov.closed == 1 && sh->qp->ops == &ops);
	cr_assert_eq(pipe(far), 0);
	sh->far = far[1];
	rr_carrier_free(sh);
	cr_assert_eq(prov.closed, 2);
	cr_assert_eq(read(far[0], &byte, 1), 0, "the other end of the app's socket is closed");
}

/* --- the family ------------------------------------------------------------------------------------------------ */

static int32_t a_dead_process(void)
{
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	waitpid(pid, NULL, 0);
	return (int32_t)pid;
}

Test(carrier, a_family_has_a_place_for_each)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	int32_t me = (int32_t)rr_pid();

	rr_family_swap(sh, 0, 11);
	rr_family_swap(sh, 0, 12);
	cr_assert(sh->family[0] == me && sh->family[1] == 11 && sh->family[2] == 12 && sh->family[3] == 0);
	rr_family_swap(sh, 11, 0);
	rr_family_swap(sh, 77, 0);
	cr_assert(sh->family[0] == me && sh->family[1] == 0 && sh->family[2] == 12);
	for (uint32_t i = 3; i < RR_FAMILY; i++)
		rr_family_swap(sh, 0, 100);
	cr_assert(sh->family[1] == 100 && sh->family[RR_FAMILY - 1] == 0);
	rr_family_swap(sh, 0, 200);
	cr_assert_eq(sh->family[RR_FAMILY - 1], 200);
	rr_family_swap(sh, 0, 300);
	for (uint32_t i = 0; i < RR_FAMILY; i++)
		cr_assert_neq(sh->family[i], 300, "no place is left");
	cr_assert(sh->hint == 0 && sh->procs == 1);
	rr_carrier_free(sh);
}

Test(carrier, who_has_died_does_not_count)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	int32_t me = (int32_t)rr_pid(), parent = (int32_t)getppid(), dead = a_dead_process();

	sh->family[0] = dead;
	sh->family[1] = parent;
	sh->family[2] = me;
	sh->family[3] = dead;
	sh->family[RR_FAMILY - 1] = dead;
	atomic_store(&sh->procs, 5);
	cr_assert_eq(rr_conn_procs(sh), 2);
	cr_assert_eq(sh->procs, 2);
	cr_assert(!sh->family[0] && sh->family[1] == parent && sh->family[2] == me && !sh->family[3] &&
		  !sh->family[RR_FAMILY - 1]);
	cr_assert_eq(rr_conn_procs(sh), 2);
	rr_carrier_free(sh);
}

Test(carrier, numbers_of_another_namespace_say_nothing)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	int32_t dead = a_dead_process();

	sh->family[1] = dead;
	atomic_store(&sh->procs, 2);
	rr_lock_mix(&sh->lock);
	cr_assert_eq(rr_conn_procs(sh), 2);
	cr_assert_eq(sh->family[1], dead);
	rr_carrier_free(sh);
}

Test(carrier, leaving_tells_how_many_are_left)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	int32_t dead = a_dead_process();

	sh->family[1] = dead;
	sh->family[2] = (int32_t)getppid();
	atomic_store(&sh->procs, 3);
	cr_assert_eq(rr_conn_leave(sh), 1);
	cr_assert(!sh->family[0] && !sh->family[1] && sh->family[2] == (int32_t)getppid() && sh->procs == 1);
	sh->family[2] = 0;
	sh->family[3] = dead;
	cr_assert_eq(rr_conn_leave(sh), 0, "then nobody is left to be counted");
	cr_assert_eq(sh->procs, 0);
	rr_carrier_free(sh);
}

Test(carrier, what_a_provider_can_decides_who_may_share)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);

	cr_assert_not(rr_conn_shareable(sh));
	sh->qp->ops = &plain;
	cr_assert(rr_conn_shareable(sh));
	rr_carrier_free(sh);
}

/* What has nothing under way loses what lies behind, and in front of, the engine's own pages. */
Test(carrier, tables_are_given_back)
{
	struct rr_share *sh = rr_carrier_new(&ops, &pp);
	size_t keep = 2 * RR_PAGE;
	uint8_t *eng = (uint8_t *)sh->eng;

	memset(sh->rx.ent, 1, RR_RX_ENTS * sizeof(*sh->rx.ent));
	memset(eng, 2, keep);
	sh->back.ring[0] = sh->back.ring[RR_RING - 1] = 3;
	rr_share_trim(sh, keep);
	cr_assert_eq(*(uint8_t *)&sh->rx.ent[0], 0);
	cr_assert_eq(*(uint8_t *)&sh->rx.ent[RR_RX_FIRST - 1], 0);
	cr_assert_eq(*(uint8_t *)&sh->rx.ent[RR_RX_FIRST], 1, "in the page where the engine begins");
	cr_assert(eng[0] == 2 && eng[RR_PAGE] == 2);
	cr_assert(sh->back.ring[0] == 0 && sh->back.ring[RR_RING - 1] == 0);
	cr_assert_eq(sh->procs, 1);
	rr_carrier_free(sh);
}

Test(carrier, shares_of_another_process_are_unmapped_only)
{
	struct rr_share *a = rr_carrier_new(&ops, &pp), *b = rr_carrier_new(&ops, &pp);

	a->next = b;
	rr_share_unmap(a);
	cr_assert_eq(prov.closed, 0);
	cr_assert(!is_mapped(a) && !is_mapped(b));
	rr_share_unmap(NULL);
}
