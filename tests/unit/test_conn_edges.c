/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes wrong at the edges of a connection: each test is named after what went wrong. */

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <string.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/conn/enter.h"
#include "tests/unit/conn_pair.h"

TestSuite(conn_edges, .init = setup, .fini = teardown, .timeout = 60);

/* want[0..n) is received while the sender's app does nothing at all. */
static void arrives_alone(struct rr_end *to, const uint8_t *want, size_t n)
{
	cr_assert_eq(rr_end_recv(to, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, want, n), 0);
}

/* --- the hatch --- */

static void small_chunks(void)
{
	rr_test_params.reliable_replies = false;
	rr_test_params.eng.reply_chunk = 1024;
	rr_test_params.eng.reply_chunk_max = 2048;
	setup();
}

/* What was accepted before the hatch is on its way when the call returns that accepts the record's
 * last byte: its writer may never call again before it has an answer. */
Test(conn_edges, a_reply_that_opens_the_hatch_is_sent_whole, .init = small_chunks)
{
	size_t n;

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
	n = rr_test_reply(out, 2, 20000, 2);
	cr_assert_eq(rr_end_send(&p.server, NULL, out, n), (ssize_t)n);
	arrives_alone(&p.client, out, n);
}

Test(conn_edges, a_record_in_pieces_that_is_no_rpc_is_sent_whole)
{
	static uint8_t want[208];
	size_t n = 204;

	carried();
	memset(out, 0x5a, n);
	memcpy(out, "\x80\0\0\xc8", 4);
	for (size_t off = 0; off < n; off += 51)
		cr_assert_eq(rr_end_send(&p.client, NULL, out + off, 51), 51);
	/* what was collected, as one fragment, and the rest */
	memset(want, 0x5a, sizeof(want));
	memcpy(want, "\0\0\0\x95", 4);
	memcpy(want + 153, "\x80\0\0\x33", 4);
	arrives_alone(&p.server, want, sizeof(want));
}

/* --- the anchor --- */

Test(conn_edges, an_end_mark_in_two_parts_is_an_end_mark)
{
	uint8_t mark[RR_MARK_LEN];
	struct rr_share *sh;

	carried();
	sh = p.client.c->share;
	rr_nego_put_mark(mark, sh->token, sh->tx.records);
	cr_assert_eq(send(p.client.fd, mark, 10, 0), 10);
	for (int i = 0; i < 50; i++) {
		cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
		usleep(1000);
	}
	cr_assert_eq(send(p.client.fd, mark + 10, RR_MARK_LEN - 10, 0), RR_MARK_LEN - 10);
	shutdown(p.client.fd, SHUT_WR);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 1), 0);
}

/* The client says on the anchor that it has sent so many records, and that this is all. */
static void ends_after(uint64_t records)
{
	uint8_t mark[RR_MARK_LEN];

	rr_nego_put_mark(mark, p.client.c->share->token, records);
	cr_assert_eq(send(p.client.fd, mark, sizeof(mark), 0), (ssize_t)sizeof(mark));
	shutdown(p.client.fd, SHUT_WR);
}

static void resets(void)
{
	struct sockaddr none = { .sa_family = AF_UNSPEC };

	cr_assert_eq(connect(p.client.fd, &none, sizeof(none)), 0);
	usleep(20000);	/* the anchor is not looked at more often, by a clock that ticks slowly */
}

/* Between two hosts FIN and reset overtake messages, and come behind them for the app all the same. */
Test(conn_edges, a_reset_behind_the_end_is_behind_what_has_yet_to_arrive)
{
	static const uint8_t hdr[] = { 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 32, [27] = 0 };
	size_t n;
	struct iovec iov[] = { { (void *)(uintptr_t)hdr, sizeof(hdr) }, { out + 4, 0 } };
	struct rr_qp *qp;

	carried();
	qp = p.client.c->share->qp;
	ends_after(p.client.c->share->tx.records + 1);
	resets();
	cr_assert_eq(rr_end_poll(&p.server, POLLIN | POLLRDHUP), 0);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0, "who waits can sleep");
	rr_conn_disarm(p.server.c, p.server.fd);

	n = rr_test_call(out, 2, 10, 1);
	iov[1].iov_len = n - 4;
	cr_assert_eq(qp->ops->send(qp, iov, 2, 0, 0), 1);
	arrives_alone(&p.server, out, n);
	usleep(20000);
	cr_assert_eq(rr_end_poll(&p.server, POLLIN), POLLIN | POLLHUP | POLLERR);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), 0);
}

/* A peer that lies, or is gone; and an app that never sleeps. */
Test(conn_edges, what_was_promised_and_can_not_arrive_is_a_reset)
{
	carried();
	ends_after(p.client.c->share->tx.records + 1);
	resets();
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	shutdown(p.client.c->share->qp->wake_fd, SHUT_RDWR);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 1), -ECONNRESET);
}

/* Whoever closes ends the provider's side first, and may have to wait for a CPU then. */
Test(conn_edges, a_fin_long_after_the_end_mark_is_an_end)
{
	uint8_t mark[RR_MARK_LEN];

	carried();
	rr_nego_put_mark(mark, p.client.c->share->token, p.client.c->share->tx.records);
	cr_assert_eq(send(p.client.fd, mark, sizeof(mark), 0), (ssize_t)sizeof(mark));
	shutdown(p.client.c->share->qp->wake_fd, SHUT_RDWR);
	for (int i = 0; i < 200; i++) {
		rr_conn_drain(p.server.c);
		cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
		usleep(1000);
	}
	shutdown(p.client.fd, SHUT_WR);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 1), 0);
}

/* A shutdown() while the upgrade is under way holds when it is carried. */
Test(conn_edges, shutdown_during_the_upgrade_is_not_forgotten)
{
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(rr_end_try_send(&p.client, out, n), -EAGAIN);	/* nobody has answered yet */
	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR), 0);
	shutdown(p.client.fd, SHUT_WR);
	for (int i = 0; i < 1000 && !rr_conn_is_carried(p.server.c); i++) {
		rr_end_poll(&p.server, POLLIN);
		rr_end_poll(&p.client, POLLIN);
	}
	cr_assert(rr_conn_is_carried(p.client.c));
	cr_assert_eq(rr_end_try_send(&p.client, out, n), -EPIPE);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 1), 0);
}

Test(conn_edges, shutdown_for_reading_before_the_first_call_is_no_close_by_the_server)
{
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_RD), 0);
	shutdown(p.client.fd, SHUT_RD);
	cr_assert_eq(rr_end_send(&p.client, &p.server, out, n), (ssize_t)n);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
}

/* A signal handler that interrupted a call on the connection can do nothing with it. */
Test(conn_edges, shutdown_inside_another_call_of_the_thread_changes_nothing)
{
	struct rr_lock *l;

	carried();
	cr_assert_eq(rr_conn_hold(p.client.c, &l), RR_S_CARRIED);
	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_RDWR), -EDEADLK);
	cr_assert_eq(rr_lock_try(l), -EDEADLK, "nor is the lock dropped that the other call has");
	rr_lock_drop(l);
	cr_assert_not(p.client.c->shut_rd);
	cr_assert_not(p.client.c->shut_wr);
	cr_assert_eq(rr_end_poll(&p.client, POLLIN | POLLOUT), POLLOUT);
}

/* Half a connection is not worth an upgrade. */
Test(conn_edges, shutdown_for_reading_and_writing_before_the_first_call)
{
	cr_assert_eq(rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR), 0);
	cr_assert(rr_conn_is_tcp(p.client.c));
}

/* Who looks for a connection in a list may find one whose last user has just gone. */
Test(conn_edges, a_connection_that_nobody_has_any_more_is_not_kept)
{
	struct rr_conn *c = p.client.c;

	cr_assert_eq(c->refs, 1);
	cr_assert(rr_conn_keep(c));
	cr_assert_eq(c->refs, 2);
	c->refs = 0;
	cr_assert_not(rr_conn_keep(c));
	cr_assert_eq(c->refs, 0);
	c->refs = 2;
	rr_conn_free(c);
	cr_assert_eq(c->refs, 1);
}

enum { OFTEN = 5000000 };	/* long enough for threads to meet on any machine */

static void *keep_often(void *c)
{
	bool kept = true;

	for (int i = 0; i < OFTEN; i++)
		kept &= rr_conn_keep(c);
	cr_assert(kept);
	return NULL;
}

Test(conn_edges, each_of_several_threads_that_keep_a_connection_counts)
{
	struct rr_conn *c = p.client.c;
	pthread_t t;

	cr_assert_eq(pthread_create(&t, NULL, keep_often, c), 0);
	keep_often(c);
	pthread_join(t, NULL);
	cr_assert_eq(c->refs, 1 + 2 * OFTEN);
	c->refs = 1;
}

/* dup2() to its number: it goes elsewhere first. */
Test(conn_edges, a_wake_up_fd_in_the_way_moves_and_still_wakes)
{
	struct rr_qp *qp;
	struct stat was, is;
	int fd;

	carried();
	qp = p.server.c->share->qp;
	fd = qp->wake_fd;
	cr_assert_eq(fstat(fd, &was), 0);
	p.server.c->share->procs++;
	cr_assert_not(rr_conn_move_fd(fd), "another process has it by this number");
	p.server.c->share->procs--;
	atomic_store(&p.server.c->face.changed, false);
	cr_assert(rr_conn_move_fd(fd));
	cr_assert_neq(qp->wake_fd, fd);
	cr_assert_eq(fstat(qp->wake_fd, &is), 0);
	cr_assert_eq(is.st_ino, was.st_ino);
	cr_assert_eq(fcntl(qp->wake_fd, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
	cr_assert(rr_ownfd_is(qp->wake_fd));
	cr_assert_not(rr_ownfd_is(fd));
	cr_assert(rr_conn_changed(p.server.c));
	close(fd);
	cr_assert_not(rr_conn_move_fd(fd), "nothing is there any more");
	cr_assert_eq(rr_conn_arm(p.server.c, p.server.fd, POLLIN), 0);
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
	rr_conn_disarm(p.server.c, p.server.fd);
}

/* Threads that spin look at memory, and would not see the FIN. */
Test(conn_edges, the_end_shows_to_who_spins)
{
	carried();
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	cr_assert_not(rr_conn_peek(p.server.c, POLLIN));
	rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR);
	shutdown(p.client.fd, SHUT_WR);
	p.server.c->share->rx.checked = 0;
	cr_assert_eq(rr_end_poll(&p.server, POLLIN) & POLLIN, POLLIN);
	cr_assert(rr_conn_peek(p.server.c, POLLIN));
}

/* --- whom to ask --- */

/* Left to the kernel, the write could succeed a moment later: the next one would look like the
 * connection's first, and an offer be sent in the middle of a record. */
Test(conn_edges, a_write_before_the_connection_is_there_waits)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	size_t n = rr_test_call(out, 1, 10, 1);
	struct rr_end late = { .fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0) };
	int l = socket(AF_INET, SOCK_STREAM, 0), full[3];
	socklen_t len = sizeof(a);

	cr_assert_eq(bind(l, (struct sockaddr *)&a, sizeof(a)), 0);
	cr_assert_eq(listen(l, 0), 0);
	getsockname(l, (struct sockaddr *)&a, &len);
	for (int i = 0; i < 3; i++) {	/* a full backlog: SYNs are not answered */
		full[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
		connect(full[i], (struct sockaddr *)&a, sizeof(a));
	}
	cr_assert_eq(connect(late.fd, (struct sockaddr *)&a, sizeof(a)), -1);
	cr_assert_eq(errno, EINPROGRESS);
	late.c = rr_conn_client(late.fd, (struct sockaddr *)&a, sizeof(a));
	cr_assert_eq(rr_conn_send(late.c, late.fd, &(struct iovec){ out, n }, 1, 0), -EAGAIN);
	cr_assert_eq(rr_conn_st(late.c), RR_S_NEW);
	rr_end_close(&late);
	for (int i = 0; i < 3; i++)
		close(full[i]);
	close(l);
}

/* By stdio or syscall(2): what looks like the first write is in the middle of the stream. */
Test(conn_edges, what_was_written_unseen_keeps_the_connection_on_tcp)
{
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(send(p.client.fd, out, n, 0), (ssize_t)n);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	cr_assert(rr_conn_is_tcp(p.client.c));
	for (int i = 0; i < 2; i++) {
		cr_assert_eq(rr_end_recv(&p.server, NULL, in, n), (ssize_t)n);
		cr_assert_eq(memcmp(in, out, n), 0);
	}
}

Test(conn_edges, a_server_that_spoke_unseen_does_not_answer)
{
	size_t n = rr_test_call(out, 1, 10, 1);

	cr_assert_eq(rr_end_try_send(&p.client, out, n), -EAGAIN);	/* the offer is out */
	cr_assert_eq(send(p.server.fd, "hello", 5, 0), 5);
	rr_end_poll(&p.server, POLLIN);
	cr_assert(rr_conn_is_tcp(p.server.c));
}

/* A first connect() failed later on, a second one went elsewhere. */
Test(conn_edges, the_peer_is_who_the_socket_is_connected_to)
{
	struct sockaddr_in *peer = (void *)&p.client.c->peer;
	in_port_t port = peer->sin_port;
	size_t n = rr_test_call(out, 1, 10, 1);

	peer->sin_port = htons(9);
	rr_end_try_send(&p.client, out, n);
	cr_assert_eq(peer->sin_port, port);
}

/* --- processes --- */

/* Whoever notices first: a thread that wakes, too. */
Test(conn_edges, what_a_dead_process_left_is_not_used)
{
	struct rr_share *sh;
	pid_t pid;

	carried();
	cr_assert_eq(rr_end_send(&p.client, NULL, out, rr_test_call(out, 2, 10, 1)), 54);
	sh = p.server.c->share;
	pid = fork();
	if (!pid) {
		rr_lock_forked();
		rr_lock_take(&sh->lock);
		sh->rx.bytes = 12345;
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	rr_conn_drain(p.server.c);
	cr_assert_eq(rr_end_try_recv(&p.server, in, 100, 0), -ECONNRESET);
}

/* --- writable means that a write gets on --- */

static bool writable(struct rr_end *e)
{
	return rr_end_poll(e, POLLOUT) & POLLOUT;
}

/* The window's news had been seen by nobody, since another thing was short. */
Test(conn_edges, who_waits_for_an_entry_of_the_call_table_can_sleep)
{
	uint32_t i;

	carried();
	for (i = 0; i < 100; i++) {
		size_t n = rr_test_call(out, 100 + i, 20000, i);

		if (rr_end_try_send(&p.client, out, n) != (ssize_t)n)
			break;
	}
	cr_assert_lt(i, 100);
	cr_assert(!writable(&p.client));
	cr_assert_eq(rr_conn_arm(p.client.c, p.client.fd, POLLOUT), 0);
	rr_conn_disarm(p.client.c, p.client.fd);
	cr_assert_eq(rr_end_recv(&p.server, NULL, in, 20044), 20044);
	cr_assert(writable(&p.client));
	cr_assert_eq(rr_end_try_send(&p.client, out, rr_test_call(out, 500, 20000, 1)), 20044);
}

static void little_exposed(void)
{
	rr_test_params.eng.max_exposed = 65536;
	setup();
}

Test(conn_edges, a_reply_that_must_wait_for_others_is_waited_for, .init = little_exposed)
{
	size_t n, done;

	carried();
	for (uint32_t i = 0; i < 2; i++)
		one_way(&p.client, &p.server, rr_test_call(out, 10 + i, 10, 1));
	n = rr_test_reply(out, 10, 60000, 1);
	cr_assert_eq(rr_end_try_send(&p.server, out, n), (ssize_t)n);
	rr_test_reply(out, 11, 60000, 1);
	done = (size_t)rr_end_try_send(&p.server, out, n);
	cr_assert(done > 0 && done < n, "what the client may read already is taken: %zu", done);
	cr_assert_eq(rr_end_try_send(&p.server, out + done, n - done), -EAGAIN);
	cr_assert(!writable(&p.server));
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	cr_assert(writable(&p.server));
	cr_assert_eq(rr_end_try_send(&p.server, out + done, n - done), (ssize_t)(n - done));
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void little_patience(void)
{
	rr_test_params.eng.done_timeout = 20 * RR_MSEC;
	setup();
}

/* As bytes in a socket's buffer do: a client may be stopped for an hour. */
Test(conn_edges, a_long_reply_that_is_read_late_is_there, .init = little_patience)
{
	size_t n;

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 10, 10, 1));
	n = rr_test_reply(out, 10, 60000, 1);
	cr_assert_eq(rr_end_try_send(&p.server, out, n), (ssize_t)n);
	usleep(40000);
	cr_assert(writable(&p.server));	/* and looks at what is due */
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, n), (ssize_t)n);
	cr_assert_eq(memcmp(in, out, n), 0);
}

static void reply_chunks(void)
{
	rr_test_params.reliable_replies = false;
	rr_test_params.eng.reply_chunk = 8192;
	rr_test_params.eng.done_timeout = 200 * RR_MSEC;
	setup();
}

Test(conn_edges, a_call_that_may_be_forgotten_makes_room_at_once, .init = reply_chunks)
{
	uint32_t i;

	carried();
	for (i = 0; i < 100000; i++) {	/* who takes a while over it has some forgotten on the way */
		size_t n = rr_test_call(out, 100 + i, 100, i);

		out[27] = 9;	/* a procedure whose replies nobody has seen: with a Reply chunk */
		if (rr_end_try_send(&p.client, out, n) != (ssize_t)n)
			break;
	}
	cr_assert_lt(i, 100000);
	usleep(300000);
	cr_assert(writable(&p.client));
	cr_assert_eq(rr_end_try_send(&p.client, out, rr_test_call(out, 500, 100, 1)), 144);
}

/* A spinning thread asks without the lock: it must not hear of what it does not wait for. */
Test(conn_edges, a_writer_is_told_nothing_of_bytes_to_read)
{
	carried();
	rr_end_send(&p.server, NULL, out, rr_test_reply(out, 1, 10, 1));
	cr_assert_eq(rr_end_poll(&p.client, POLLIN), POLLIN);
	p.client.c->share->qp->ops->window(p.client.c->share->qp);	/* that is no news either */
	cr_assert(rr_conn_peek(p.client.c, POLLIN));
	cr_assert(!rr_conn_peek(p.client.c, POLLOUT));
}

Test(conn_edges, a_writer_is_told_nothing_of_a_shutdown_for_reading)
{
	carried();
	p.client.c->share->qp->ops->window(p.client.c->share->qp);
	rr_conn_shutdown(p.client.c, p.client.fd, SHUT_RD);
	cr_assert(!rr_conn_peek(p.client.c, POLLOUT));
	rr_conn_shutdown(p.client.c, p.client.fd, SHUT_WR);
	cr_assert(rr_conn_peek(p.client.c, POLLOUT));
}

/* Its death is known; until the anchor says how it ended there is nothing to look at. */
Test(conn_edges, a_provider_that_is_lost_has_nothing_to_say)
{
	struct rr_share *sh;

	carried();
	sh = p.server.c->share;
	shutdown(p.client.c->share->qp->wake_fd, SHUT_RDWR);
	rr_conn_drain(p.server.c);
	cr_assert(rr_link_is_lost(sh));
	cr_assert(rr_conn_peek(p.server.c, POLLIN));
	cr_assert_eq(rr_end_try_recv(&p.server, in, 1, 0), -EAGAIN);
	cr_assert(!rr_conn_peek(p.server.c, POLLIN));
}

/* An app that has been told of it may well leave it open for ever. */
Test(conn_edges, a_connection_that_fails_at_one_end_fails_at_the_other)
{
	struct pollfd fds[2];
	rr_time until;
	int n;

	carried();
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
	cr_assert_eq(rr_conn_arm(p.client.c, p.client.fd, POLLIN), 0);
	n = rr_test_reply(out, 2, 10, 1);
	cr_assert_eq(rr_end_try_send(&p.server, out, (size_t)n), n);
	cr_assert_eq(send(p.client.fd, "bytes that are neither a call nor a mark", 40, 0), 40);
	for (int i = 0; i < 50000 && !rr_link_is_dead(p.server.c->share); i++, usleep(1000))
		rr_end_poll(&p.server, POLLIN);
	cr_assert(rr_link_is_dead(p.server.c->share));

	n = rr_conn_fds(p.client.c, p.client.fd, POLLIN, fds, &until);
	cr_assert_eq(n, 2);
	cr_assert_eq(poll(&fds[1], 1, 50000), 1, "a sleeper wakes");
	rr_conn_disarm(p.client.c, p.client.fd);
	arrives_alone(&p.client, out, rr_test_reply(out, 2, 10, 1));
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, 1), -ECONNRESET);
}

/* Its app has been told, and may sleep on others. */
Test(conn_edges, a_connection_that_has_failed_wakes_nobody_any_more)
{
	struct pollfd fds[2];
	rr_time until;

	carried();
	rr_share_hold(p.server.c->share);
	rr_drv_fail(p.server.c->share, ECONNRESET, RR_R_PROTOCOL);
	rr_lock_drop(&p.server.c->share->lock);
	cr_assert_eq(rr_conn_fds(p.server.c, p.server.fd, POLLIN, fds, &until), 1);
	cr_assert_eq(fds[0].fd, p.server.fd);
	cr_assert_eq(until, RR_TIME_NEVER);
}

/* --- replies that nobody can carry --- */

static void no_reply_chunks(void)
{
	rr_test_params.reliable_replies = false;
	rr_test_params.eng.reply_chunk = 0;
	rr_test_params.negative_time = RR_SEC;
	setup();
}

/* RFC 8166 §4.5.3, from a peer that cannot go back to TCP. */
Test(conn_edges, after_err_chunk_at_the_limit_new_connections_stay_on_tcp, .init = no_reply_chunks)
{
	static const uint8_t err[] = { 0, 0, 0, 77, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 4, 0, 0, 0, 2 };
	struct iovec iov = { (void *)(uintptr_t)err, sizeof(err) };
	size_t n;
	struct rr_end again = { .fd = socket(AF_INET, SOCK_STREAM, 0) };
	struct sockaddr_in peer;
	socklen_t len = sizeof(peer);
	struct rr_qp *qp;

	carried();
	getpeername(p.client.fd, (struct sockaddr *)&peer, &len);
	n = rr_test_call(out, 77, 10, 1);
	cr_assert_eq(rr_end_send(&p.client, NULL, out, n), (ssize_t)n);
	qp = p.server.c->share->qp;
	cr_assert_eq(qp->ops->send(qp, &iov, 1, 0, 0), 1);
	cr_assert_eq(rr_end_recv(&p.client, NULL, in, 1), -ECONNRESET);
	cr_assert_eq(connect(again.fd, (struct sockaddr *)&peer, len), 0);
	again.c = rr_conn_client(again.fd, (struct sockaddr *)&peer, len);
	cr_assert_eq(rr_cache_look(&again.c->peer, rr_now()), RR_R_SIZE_KNOWN);
	cr_assert_eq(rr_end_send(&again, NULL, out, n), (ssize_t)n);
	cr_assert(rr_conn_is_tcp(again.c));
	rr_end_close(&again);
}

/* The write that looks for room finds that there is no connection any more: it takes nothing. */
Test(conn_edges, a_write_that_finds_the_connection_failed_is_told, .init = no_reply_chunks)
{
	static uint8_t err[] = { 0, 0, 0, 77, 0, 0, 0, 1, 0, 0, 0, 32, 0, 0, 0, 4, 0, 0, 0, 2 };
	struct iovec iov = { err, sizeof(err) };
	uint32_t xid = 77;
	struct rr_qp *qp;
	size_t n;

	carried();
	do
		n = rr_test_call(out, xid++, 10, 1);
	while (rr_end_try_send(&p.client, out, n) == (ssize_t)n);
	cr_assert(!rr_link_is_dead(p.client.c->share));
	cr_assert_lt(xid, 256);
	err[3] = (uint8_t)(xid - 2);	/* the last that went */
	qp = p.server.c->share->qp;
	cr_assert_eq(qp->ops->send(qp, &iov, 1, 0, 0), 1);
	cr_assert_eq(rr_end_try_send(&p.client, out, n), -ECONNRESET);
	cr_assert(rr_link_is_dead(p.client.c->share));
}

/* Each takes a receive of the peer's, which has it back. */
Test(conn_edges, as_many_notes_as_one_likes_leave_all_receives_there)
{
	struct rr_share *from, *to;

	carried();
	from = p.server.c->share;
	to = p.client.c->share;
	for (uint32_t i = 0; i < 3 * to->qp->recvs; i++) {
		rr_lock_take(&from->lock);
		cr_assert_geq(rr_drv_say(from, RR_IMM_NOTE), 0, "%u of %u", i, to->qp->recvs);
		rr_lock_drop(&from->lock);
		cr_assert_eq(rr_end_poll(&p.client, POLLIN), 0);
		rr_end_poll(&p.server, POLLIN);
	}
	one_way(&p.client, &p.server, rr_test_call(out, 2, 10, 1));
}

/* Counted once for each time. */
Test(conn_edges, a_record_that_waits_for_memory_is_counted)
{
	const struct rr_counters *count;
	struct rr_share *sh;
	size_t n = rr_test_call(out, 5, 100000, 1);
	uint64_t before;
	int64_t b[1024];
	int had = 0;

	carried();
	sh = p.client.c->share;
	count = sh->qp->count;
	before = count->v[RR_C_memory_stalls];
	cr_assert_eq(rr_end_try_send(&p.client, out, 8), 8);
	for (size_t len = 1 << 20; len; len /= 2)
		while (had < 1024 && (b[had] = rr_pool_alloc(&sh->pool, len)) >= 0)
			had++;
	cr_assert_lt(rr_end_try_send(&p.client, out + 8, n - 8), (ssize_t)n - 8);
	cr_assert_eq(count->v[RR_C_memory_stalls], before + 1);
	while (had--)
		rr_pool_free(&sh->pool, (uint32_t)b[had]);
}
