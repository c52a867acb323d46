/* SPDX-License-Identifier: BSD-3-Clause */
/* Parses text of /proc. Numbers are read by hand, because what sscanf() does with one that is
 * too large is undefined. */
#include "tools/run/procfs.h"

#include <string.h>

#define TCP_LISTEN	0x0a

/* The value of a digit; 16 for any other character. */
static unsigned digit(char c)
{
	return c >= '0' && c <= '9' ? (unsigned)(c - '0') :
	       c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10) :
	       c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) : 16;
}

/* Reads the number at *p and moves *p behind it. False: there is none below 2^64. */
static bool number_at(const char **p, unsigned base, uint64_t *v)
{
	const char *start = *p;

	for (*v = 0; digit(**p) < base; (*p)++)
		if (__builtin_mul_overflow(*v, (uint64_t)base, v) ||
		    __builtin_add_overflow(*v, (uint64_t)digit(**p), v))
			return false;
	return *p > start;
}

/* The n-th word from p on; spaces and tabs separate words. NULL: there are fewer. */
static const char *nth_word(const char *p, unsigned n)
{
	for (;; n--) {
		p += strspn(p, " \t");
		if (!*p)
			return NULL;
		if (!n)
			return p;
		p += strcspn(p, " \t");
	}
}

/* The n-th word as a number up to most, counted from 0 at p. False: it is none, or larger. */
static bool number_field(const char *p, unsigned n, uint64_t most, uint64_t *v)
{
	p = nth_word(p, n);
	return p && number_at(&p, 10, v) && *v <= most;
}

/* After the name the words are fields 3 on of proc(5), so word n is field n + 3: 4 parent, 6
 * session, 20 threads, 22 start time, 28 start of the stack, which is 0 for those who may not
 * know. */
bool rr_procfs_stat(const char *text, struct rr_procfs_stat *out)
{
	const char *p = strrchr(text, ')');	/* the name before it may contain anything */
	uint64_t parent, session, threads;
	const char *state;

	/* The state is field 3 of proc(5). */
	if (!p || !(state = nth_word(++p, 0)) || !number_field(p, 1, INT32_MAX, &parent) ||
	    !number_field(p, 3, INT32_MAX, &session) ||
	    !number_field(p, 17, INT32_MAX, &threads) ||
	    !number_field(p, 19, UINT64_MAX, &out->ticks))
		return false;
	if (!number_field(p, 25, UINT64_MAX, &out->stack))
		out->stack = 0;
	out->parent = (int)parent;
	out->session = (int)session;
	/* A process lives on when its first thread has ended. */
	out->over = *state == 'X' || (*state == 'Z' && threads <= 1);
	return true;
}

/* The line has real, effective, saved and file system user. */
bool rr_procfs_uids(const char *text, uid_t uid[3])
{
	const char *p = strstr(text, "\nUid:");
	uint64_t v;

	for (unsigned i = 0; i < 3; i++) {
		if (!p || !number_field(p + 5, i, UINT32_MAX, &v))
			return false;
		uid[i] = (uid_t)v;
	}
	return true;
}

/* "  0: 00000000:006F 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0
 * 1234 ...": words 1 and 2 are the local and the remote address with their ports in hex, word
 * 3 is the state, 7 the user, 9 the inode. */
bool rr_procfs_tcp(const char *line, struct rr_procfs_tcp *out)
{
	const char *p = nth_word(line, 1), *state = nth_word(line, 3);
	uint64_t port, st, maker;

	p = p ? strchr(p, ':') : NULL;
	if (!p || !state || (p++, !number_at(&p, 16, &port)) || port > UINT16_MAX ||
	    !number_at(&state, 16, &st) ||
	    !number_field(line, 7, UINT32_MAX, &maker) ||
	    !number_field(line, 9, UINT64_MAX, &out->inode))
		return false;
	out->port = (uint16_t)port;
	out->listening = st == TCP_LISTEN;
	out->maker = (uid_t)maker;
	return true;
}

/* An environment is strings that end in zero bytes; one without its end, as a process may write
 * it, counts up to the last byte. */
bool rr_procfs_environ_has(const char *bytes, size_t n, const char *entry)
{
	size_t len = strlen(entry);

	for (const char *end = bytes + n, *next; bytes < end; bytes = next + 1) {
		next = memchr(bytes, '\0', (size_t)(end - bytes));
		if (!next)
			next = end;
		if ((size_t)(next - bytes) == len && !memcmp(bytes, entry, len))
			return true;
	}
	return false;
}
