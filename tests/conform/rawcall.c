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
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ROOM	(4u << 20)
#define LAB	0x20005244u
#define NFS	100003u
#define XID	0x1234u	/* of the first call */
#define HEAD	40u	/* of a call with AUTH_NONE */
#define GSS	6u	/* flavor, version 1 */
#define SEQ	7u
#define HANDLE	0x48444c45u
#define SUM	0x53554d00u

enum { SVC_NONE = 1, SVC_INTEGRITY };	/* of RFC 2203 */

static uint8_t msg[ROOM + 4];	/* behind a record mark */
static uint32_t len;
static uint32_t xid = XID - 1;
static uint32_t gss;		/* service; 0: AUTH_NONE */
static uint32_t body;		/* where the integrity's is */
static int fd;

static void put(uint32_t v)
{
	v = htonl(v);
	memcpy(msg + 4 + len, &v, 4);
	len += 4;
}

static uint32_t get(uint32_t at)
{
	uint32_t v = 0;

	if (at + 4 <= len)
		memcpy(&v, msg + 4 + at, 4);
	return ntohl(v);
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
	const uint32_t words[] = { ++xid, 0, 2, prog, vers, proc };
	/* DATA, a sequence number, a handle; and a checksum of what is before it */
	const uint32_t cred[] = { GSS, 24, 1, 0, SEQ, gss, 4, HANDLE, GSS, 4, SUM };
	const uint32_t none[4] = { 0 };

	len = 0;
	put_words(words, sizeof(words) / 4);
	put_words(gss ? cred : none, gss ? sizeof(cred) / 4 : 4);
	if (gss != SVC_INTEGRITY)
		return;
	body = len;
	put(0);
	put(SEQ);
}

/* The arguments are all there: the length of what was checked, and its checksum. */
static void end_call(void)
{
	uint32_t n = htonl(len - body - 4);

	if (gss != SVC_INTEGRITY)
		return;
	memcpy(msg + 4 + body, &n, 4);
	put(4);
	put(SUM);
}

static void put_opaque(uint32_t n)
{
	put(n);
	for (uint32_t i = 0; i < n; i++)
		msg[4 + len + i] = pattern(i);
	memset(msg + 4 + len + n, 0, 4);
	len += (n + 3) & ~3u;
}

/* All n bytes, or the end of the program. */
static void all(bool out, uint8_t *p, size_t n)
{
	while (n > 0) {
		ssize_t k = out ? send(fd, p, n, MSG_NOSIGNAL) : recv(fd, p, n, 0);

		if (k <= 0)
			exit(1);
		p += k;
		n -= (size_t)k;
	}
}

static void send_message(void)
{
	uint32_t mark = htonl(0x80000000u | len);

	memcpy(msg, &mark, 4);
	all(true, msg, len + 4);
}

static void receive_message(void)
{
	uint32_t mark;

	all(false, (uint8_t *)&mark, 4);
	len = ntohl(mark) & 0x7fffffff;
	if (!(ntohl(mark) >> 31) || len > ROOM)
		exit(1);
	all(false, msg + 4, len);
}

/* The reply to our call: accepted, without error. */
static bool is_success(void)
{
	return len >= 24 && get(0) == xid && get(4) == 1 && get(8) == 0 && get(20) == 0;
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
	ok = is_success() && get(24) == 0 && get(28) == 0 && get(32) == n && get(40) == n && len == 44 + ((n + 3) & ~3u);
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
	return is_success() && get(24) == 0 && get(28) == 0 && get(32) == 0 && get(36) == n;
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
	end = len - HEAD;
	memcpy(want, msg + 4 + HEAD, end);
	receive_message();
	return is_success() && len == 24 + end && !memcmp(msg + 4 + 24, want, end);
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
	uint32_t rest = len - HEAD;

	memmove(msg + 4 + 24, msg + 4 + HEAD, rest);
	len = 4;
	for (uint32_t i = 1; i < 6; i++)
		put(i == 1);
	len += rest;
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
		if (get(4) == 0 && len >= HEAD) {
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
	struct sockaddr_in a = { .sin_family = AF_INET };
	uint32_t n = argc > 4 ? (uint32_t)strtoul(argv[4], NULL, 0) : 0;

	if (argc < 5 || n > ROOM / 2)
		return 64;
	for (size_t i = 0; i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (strcmp(argv[3], verbs[i].name) != 0)
			continue;
		a.sin_port = htons((in_port_t)atoi(argv[2]));
		fd = socket(AF_INET, SOCK_STREAM, 0);
		if (inet_pton(AF_INET, argv[1], &a.sin_addr) != 1 ||
		    connect(fd, (struct sockaddr *)&a, sizeof(a)))
			return 1;
		gss = verbs[i].gss;
		return !verbs[i].run(n);
	}
	labcli(argv);
}
