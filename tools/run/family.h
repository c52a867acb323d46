/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FAMILY_H
#define RR_FAMILY_H

/* The processes that one program has become, through fork, daemon() and exec, and the TCP ports
 * that they listen on. Read from /proc: nobody tells. A process is of the family if its parent
 * is, if it was seen to be, if it has a listening socket that a member was seen with, or if its
 * environment at exec has RR_FAMILY_VAR with the family's mark, which what daemon() has left
 * without a parent still has.
 *
 * The mark is a secret, but other processes may have read it from a member of their user. So it
 * counts only for a process of the watcher's own user, or, where the watcher is root, for one
 * that has become another user since it was forked from a member: no exec has moved its stack
 * since. A program that ends before anybody has seen its stack leaves it unknown; then the
 * first look takes the mark alone, which nobody can have read yet.
 *
 * What is none of that is lost sight of: a process that overwrites its environment and loses
 * its parent at once, before it listens; or one that does so, becomes another user and calls
 * exec. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#define RR_FAMILY_VAR		"RDMARPC_FAMILY"
#define RR_FAMILY_MEMBERS	1024u
#define RR_FAMILY_PORTS		2048u
#define RR_FAMILY_STACKS	64u

struct rr_member {
	int pid;
	uint64_t ticks;		/* start time: a pid that is used again has another */
	uid_t user;		/* its real user */
};

struct rr_listening {
	uint8_t family;		/* 4, 6 */
	uint16_t port;
	uid_t maker;		/* who made the socket */
	uint64_t inode;
	struct rr_member owner;	/* pid 0: none of the family */
};

struct rr_family {
	char mark[33];			/* 128 random bits */
	uint64_t since;			/* nobody of the family is older */
	bool missed;			/* the first was gone before anybody saw its stack */
	uint32_t nstacks;		/* of members, free-running: the oldest goes */
	uint64_t stacks[RR_FAMILY_STACKS];
	uint32_t nmembers;
	struct rr_member members[RR_FAMILY_MEMBERS];
	uint32_t nlisteners;		/* of this network namespace, whoever's */
	struct rr_listening listeners[RR_FAMILY_PORTS];
};

/* The family of the calling process. Who looks at it afterwards is in a session of its own. 0
 * or -errno. */
int rr_family_init(struct rr_family *f);

/* The first process has just called exec: looks where its stack is now. */
void rr_family_meet(struct rr_family *f);

/* Looks which sockets listen now; owners of new ones are known after rr_family_scan(). Returns
 * a number that changes when they do. */
uint64_t rr_family_listeners(struct rr_family *f);

/* Looks at all processes: who is of the family, and whose the listening sockets are. */
void rr_family_scan(struct rr_family *f);

/* Who listens on port for netid "tcp" or "tcp6"; NULL: nobody of the family. */
const struct rr_listening *rr_family_listener(const struct rr_family *f, const char *netid,
					     uint16_t port);

#endif
