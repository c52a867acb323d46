/* SPDX-License-Identifier: BSD-3-Clause */
/* rawcall HOST PORT VERB N: calls that labcli does not make, for rdmarpc-conform to be the server of; other verbs
 * are labcli's.
 *
 *	read N		READ of NFS version 3, of N bytes of some file
 *	write N		WRITE of N bytes
 *	echo-null N	ECHO of N bytes of the laboratory program, then its NULL
 *	read-null N, write-null N
 *			READ and WRITE, then NULL of NFS
 *	holes N		seven ECHOs of N bytes at once, and when two are answered one that is longer: a requester that has
 *			hardly memory for so much has it in pieces
 *	reverse N	NULL of the laboratory program, and N calls of the server's are answered with their arguments
 *	gss-read N, gss-write N, gssi-read N, gssi-write N
 *			the same READ and WRITE as a client of RPCSEC_GSS lays them out, its service none or integrity,
 *			to a server that takes anything for a checksum
 *
 * Exits with 0 if the answers were as they should be. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/rpc.h"

#define ROOM	(4u << 20)
#define LAB	0x20005244u
#define NFS	100003u
#define XID	0x1234u	/* of the first call */
#define GSS	6u	/* flavor, version 1 */
#define SEQ	7u
#define HANDLE	0x48444c45u
#define SUM	0x53554d00u

enum { SVC_NONE = 1, SVC_INTEGRITY };	/* of RFC 2203 */

static uint8_t msg[ROOM + RPC_MARK];	/* a record */
static uint32_t len;			/* of it, its mark included */
static uint32_t xid = XID - 1;
static uint32_t gss;			/* service; 0: AUTH_NONE */
static uint32_t body;			/* where the integrity's is */
static int fd;

static void put(uint32_t v)
{
	rpc_put(msg, len / 4, v);
	len += 4;
}

/* A word of the record; 0 beyond its end. */
static uint32_t get(uint32_t at)
{
	return 4 * at + 4 <= len ? rpc_get(msg, at) : 0;
}

static uint8_t pattern(uint32_t i)
{
	return (uint8_t)(i * 7 + (i >> 8));
}

static void put_words(const uint32_t *p, size_t n)
{
	for (size_t i = 0; i < n; i++)
		put(p[i]);
}

static void put_call(uint32_t prog, uint32_t vers, uint32_t proc)
{
	/* DATA, a sequence number, a handle; and a checksum of what is before it */
	const uint32_t cred[] = { GSS, 24, 1, 0, SEQ, gss, 4, HANDLE, GSS, 4, SUM };

	len = (uint32_t)rpc_put_call(msg, ++xid, prog, vers, proc, 0);
	if (!gss)
		return;
	len -= 16;	/* credential and verifier of AUTH_NONE */
	put_words(cred, sizeof(cred) / 4);
	if (gss != SVC_INTEGRITY)
		return;
	body = len;
	put(0);
	put(SEQ);
}

/* The arguments are all there: the length of what was checked, and its checksum. */
static void end_call(void)
{
	if (gss != SVC_INTEGRITY)
		return;
	rpc_put(msg, body / 4, len - body - 4);
	put(4);
	put(SUM);
}

static void put_opaque(uint32_t n)
{
	put(n);
	for (uint32_t i = 0; i < n; i++)
		msg[len + i] = pattern(i);
	memset(msg + len + n, 0, 4);
	len += (n + 3) & ~3u;
}

static void send_message(void)
{
	rpc_put_mark(msg, len - RPC_MARK);
	if (!rpc_write_all(fd, msg, len))
		exit(1);
}

static void receive_message(void)
{
	len = (uint32_t)rpc_read_record(fd, msg, sizeof(msg));
	if (!len)
		exit(1);
}

/* The reply to our call: accepted, without error. */
static bool is_success(void)
{
	return rpc_is_success(msg, len, xid);
}

/* Of a file of which nobody knows more than its handle. */
static void put_file(uint32_t n)
{
	put(8);
	put(0x11111111);
	put(0x22222222);
	put(0);		/* offset */
	put(0);
	put(n);
}

/* status, no attributes, count, eof, data */
static bool do_read(uint32_t n)
{
	bool ok;

	put_call(NFS, 3, 6);
	put_file(n);
	end_call();
	send_message();
	receive_message();
	if (gss == SVC_INTEGRITY)
		return is_success();
	ok = is_success() && get(7) == 0 && get(8) == 0 && get(9) == n && get(11) == n &&
	     len == 48 + ((n + 3) & ~3u);
	for (uint32_t i = 0; ok && i < n; i++)
		ok = msg[48 + i] == pattern(i);
	return ok;
}

/* status, no attributes before or after, count */
static bool do_write(uint32_t n)
{
	put_call(NFS, 3, 7);
	put_file(n);
	put(2);		/* FILE_SYNC */
	put_opaque(n);
	end_call();
	send_message();
	receive_message();
	if (gss == SVC_INTEGRITY)
		return is_success();
	return is_success() && get(7) == 0 && get(8) == 0 && get(9) == 0 && get(10) == n;
}

static void send_echo(uint32_t n)
{
	put_call(LAB, 1, 1);
	put_opaque(n);
	send_message();
}

static bool do_echo(uint32_t n)
{
	static uint8_t want[ROOM];
	uint32_t end;

	send_echo(n);
	end = len - RPC_CALL_HEAD;
	memcpy(want, msg + RPC_CALL_HEAD, end);
	receive_message();
	return is_success() && len == RPC_REPLY_HEAD + end && !memcmp(msg + RPC_REPLY_HEAD, want, end);
}

static bool do_null(uint32_t prog, uint32_t vers)
{
	put_call(prog, vers, 0);
	send_message();
	receive_message();
	return is_success();
}

/* Once there is a grant for them. Their replies may be any. */
static bool do_holes(uint32_t n)
{
	if (!do_null(LAB, 1))
		return false;
	for (int i = 0; i < 7; i++)
		send_echo(n);
	receive_message();
	receive_message();
	send_echo(n + 4096);
	for (int i = 0; i < 6; i++)
		receive_message();
	return true;
}

static bool echo_null(uint32_t n)
{
	return do_echo(n) && do_null(LAB, 1);
}

static bool read_null(uint32_t n)
{
	return do_read(n) && do_null(NFS, 3);
}

static bool write_null(uint32_t n)
{
	return do_write(n) && do_null(NFS, 3);
}

/* The call in msg becomes its reply. */
static void reply_with_arguments(void)
{
	uint32_t rest = len - RPC_CALL_HEAD;

	memmove(msg + RPC_REPLY_HEAD, msg + RPC_CALL_HEAD, rest);
	len = (uint32_t)rpc_put_reply(msg, get(RPC_XID), rest);
	send_message();
}

static bool do_reverse(uint32_t n)
{
	bool answered = false;
	uint32_t calls = 0;

	put_call(LAB, 1, 0);
	send_message();
	while (calls < n || !answered) {
		receive_message();
		if (get(RPC_TYPE) == 0 && len >= RPC_CALL_HEAD) {
			reply_with_arguments();
			calls++;
		} else if (answered || !is_success()) {
			return false;
		} else {
			answered = true;
		}
	}
	return calls == n;
}

static void labcli(char **argv)
{
	const char *build = getenv("BUILD");
	char path[4096];

	snprintf(path, sizeof(path), "%s/apps/labcli", build ? build : "build");
	argv[0] = path;
	execv(path, argv);
	exit(127);
}

int main(int argc, char **argv)
{
	static const struct { const char *name; bool (*run)(uint32_t n); uint32_t gss; } verbs[] = {
		{ "read", do_read, 0 }, { "write", do_write, 0 }, { "reverse", do_reverse, 0 },
		{ "gss-read", do_read, SVC_NONE }, { "gss-write", do_write, SVC_NONE },
		{ "holes", do_holes, 0 },
		{ "echo-null", echo_null, 0 }, { "read-null", read_null, 0 }, { "write-null", write_null, 0 },
		{ "gssi-read", do_read, SVC_INTEGRITY }, { "gssi-write", do_write, SVC_INTEGRITY },
	};
	struct sockaddr_in a;
	uint32_t n = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0;

	if (argc < 5 || n > ROOM / 2)
		return 64;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (strcmp(argv[3], verbs[i].name) != 0)
			continue;
		signal(SIGPIPE, SIG_IGN);
		a = rpc_address(argv[1], atoi(argv[2]));
		fd = rpc_connect(&a);
		if (fd < 0)
			return 1;
		gss = verbs[i].gss;
		return !verbs[i].run(n);
	}
	labcli(argv);
}
