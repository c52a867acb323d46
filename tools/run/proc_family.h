/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FAMILY_H
#define RR_FAMILY_H

/* The processes that one program has become, through fork, daemon() and exec, and the TCP ports
 * on which they listen. All of it is read from /proc, since nobody reports it.
 *
 * A process is of the family if its parent is; if it was seen to be before; if it has a
 * listening socket with which a member was seen; or if its environment at exec has
 * RR_FAMILY_VAR with the family's mark, which a process without a parent (after daemon()) still
 * has.
 *
 * The mark is a secret, but other processes of a member's user may have read it. So it counts
 * only for a process of the watcher's own user, or, if the watcher is root, for a process that
 * has become another user since it was forked from a member, and has not called exec since: its
 * stack has not moved. If a program ends before its stack was seen, the stack is unknown; then
 * the first look accepts the mark alone, which nobody can have read by then.
 *
 * A process that fits none of these is lost: one that overwrites its environment and loses its
 * parent at once, before it listens; or one that does so, becomes another user and calls
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
	uint64_t ticks;		/* start time: if a pid is used again, this differs */
	uid_t user;		/* its real user */
};

struct rr_listening {
	uint8_t family;		/* 4, 6 */
	uint16_t port;
	uid_t maker;		/* the user who made the socket */
	uint64_t inode;
	struct rr_member owner;	/* pid 0: no member of the family */
};

struct rr_family {
	char mark[33];			/* 128 random bits */
	uint64_t since;			/* no member is older */
	bool missed;			/* the first process was gone before its stack was
					 * seen */
	uint32_t nstacks;		/* of members, free-running: the oldest is replaced */
	uint64_t stacks[RR_FAMILY_STACKS];
	uint32_t nmembers;
	struct rr_member members[RR_FAMILY_MEMBERS];
	uint32_t nlisteners;		/* in this network namespace, of any process */
	struct rr_listening listeners[RR_FAMILY_PORTS];
};

/* Makes the calling process a family. The process that watches it must be in a session of its
 * own. Returns 0 or -errno. */
int rr_family_init(struct rr_family *f);

/* The first process has just called exec: notes where its stack is now. */
void rr_family_meet(struct rr_family *f);

/* Looks which sockets listen now. The owners of new ones are known after rr_family_scan().
 * Returns a number that changes when the sockets do. */
uint64_t rr_family_listeners(struct rr_family *f);

/* Looks at all processes: which are members, and which listening sockets are theirs. */
void rr_family_scan(struct rr_family *f);

/* The member that listens on port for netid "tcp" or "tcp6"; NULL: none does. */
const struct rr_listening *rr_family_listener(const struct rr_family *f, const char *netid,
					     uint16_t port);

#endif
