/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_FAKECONN_H
#define RR_FAKECONN_H

/* conn.h played by a script: tests say what is ready, and when. The wake-up fd is a real
 * eventfd that is rung as a provider would: only while somebody has armed. */

#include <stdatomic.h>

#include "core/conn/conn.h"
#include "preload/file.h"

/* States with which conn.h's own inline functions answer as the script wants. */
enum rr_fake_state {
	RR_FAKE_NEW = RR_S_HEARD,
	RR_FAKE_WAITING = RR_S_OFFERED,
	RR_FAKE_CARRIED = RR_S_CARRIED,
	RR_FAKE_TCP = RR_S_TCP
};

struct rr_conn {
	struct rr_conn_face face;	/* whose state is an enum rr_fake_state */
	_Atomic unsigned ready;		/* POLLIN, POLLOUT, POLLRDHUP, POLLHUP, POLLERR */
	_Atomic int sleepers;
	_Atomic bool watched;
	_Atomic bool offer;		/* NEW: the next event on the anchor is an offer */
	_Atomic bool refuses;		/* … which it refuses, and is TCP */
	_Atomic rr_time until;		/* WAITING: the deadline; then it is TCP */
	_Atomic int inq;
	_Atomic bool restless;		/* there is always something, which is not for the app */
	_Atomic bool dead;		/* no drain silences the wake-up fd; the first one finds out */
	_Atomic bool can_rest, rests;	/* an arm for POLLIN puts it to rest */
	_Atomic bool quiet;
	_Atomic bool plain;		/* the kernel has the first word */
	_Atomic bool seen;		/* there are bytes: what rr_conn_has_seen() says */
	_Atomic int accepts;		/* a listener: what rr_conn_accept() says */
	_Atomic unsigned anchor;	/* CARRIED: what is waited for on the anchor; 0: POLLRDHUP */
	_Atomic unsigned busy_from;	/* from this poll on a handler has interrupted its holder; 0 none */
	_Atomic int arm_fails;		/* what an arm returns if that is negative */
	_Atomic rr_time look_at;	/* CARRIED: when to look again; 0: not at all */
	rr_time spin, longer;	/* what a spin wants at first, and more when that is over */
	bool piped;			/* no thread can sleep on wake in recv() … */
	int louds;			/* … and how often that was asked for */
	int wake;
	_Atomic unsigned asked;		/* RR_ASK_* of the last poll */
	_Atomic unsigned news_seen;	/* rr_conn_seen() was told */
	_Atomic unsigned polls, peeks, arms, disarms, drains, swallowed;
	_Atomic unsigned later;		/* disarms and drains that might have been put off */
	_Atomic unsigned in_set;	/* rr_conn_in_set() */
};

/* What the calls do of which a test has a script of its own. NULL: as if there was nothing. */
struct rr_fake_script {
	ssize_t (*recv)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
	ssize_t (*send)(struct rr_conn *c, int fd, const struct iovec *iov, int n, int flags);
	int (*take_error)(struct rr_conn *c, int fd);
	bool (*getopt)(struct rr_conn *c, int level, int name, void *val, socklen_t *len);
	bool (*setopt)(struct rr_conn *c, int level, int name, const void *val, socklen_t len);
	void (*opt_set)(struct rr_conn *c, int fd, int level, int name);
	bool (*name)(struct rr_conn *c, bool peer, struct sockaddr *addr, socklen_t *len);
	void (*named)(struct rr_conn *c, bool peer, const struct sockaddr *addr, socklen_t len);
	bool (*let_go)(struct rr_conn *c);
	int (*shutdown)(struct rr_conn *c, int fd, int how);
	void (*keep_error)(struct rr_conn *c, int err);
	void (*close)(struct rr_conn *c, int fd);
	void (*vanished)(struct rr_conn *c);
	struct rr_conn *(*client)(int fd, const struct sockaddr *peer, socklen_t len);
	struct rr_conn *(*server)(int fd);
	/* Of connections that are not met: without may_wait each is met at once. */
	bool (*may_wait)(bool server, const struct sockaddr *peer, socklen_t len);
	size_t (*first_call)(struct rr_conn_passed *f, const uint8_t *head, size_t have);
	bool (*first_went)(struct rr_conn_passed *f, const uint8_t *p, size_t len);
	struct rr_conn *(*after)(int fd, const struct rr_conn_passed *f);
	void (*went_out)(struct rr_conn *c, const struct iovec *iov, int n, size_t len);
	void (*came_in)(struct rr_conn *c, const struct iovec *iov, int n, size_t len);
	void (*never)(const struct rr_conn_passed *f);
	struct rr_conn *(*listener)(int fd);
	struct rr_conn *(*dial)(int fd, const struct sockaddr *peer, socklen_t len);
	int (*dialed)(struct rr_conn *c, int fd, bool wait);
	void (*fork)(struct rr_conn *c, const char *when);	/* "nears", "forked", "failed" */
	void (*daemon)(void);
	void (*early)(struct rr_conn *c);
	void (*setup)(const struct rr_conn_params *p);
	uint32_t (*serves)(int fd);
	bool (*move_fd)(int fd);
	bool (*scarce)(void);
	int (*accept)(struct rr_conn *l, int fd, int flags, struct rr_conn **out);
	bool (*defers)(struct rr_conn *l);
	int (*watch_plain)(struct rr_conn *c, int fd, unsigned want, int wake);
};
extern struct rr_fake_script rr_fake;

/* A tracked TCP socket at fd with such a connection. */
struct rr_conn *rr_fake_conn(int fd, enum rr_fake_state state);
/* One that has not been met. */
struct rr_sock *rr_fake_unmet(int fd);

/* Adds and takes bits, as the peer would: rings if it is armed. */
void rr_fake_ready(struct rr_conn *c, unsigned add, unsigned take);
/* Becomes another state, and says so to the sets. */
void rr_fake_become(struct rr_conn *c, int fd, enum rr_fake_state state);
/* How often rr_conn_spun() was told of a spin, and of one that has paid. */
extern struct rr_fake_spun {
	_Atomic int calls, paid;
} rr_fake_spun;
/* How often it was asked whether a connection rests. */
extern _Atomic unsigned rr_fake_rests_asked;
/* While the next wait adds its plain connections, an upgrade looks at c. */
void rr_fake_unsure(struct rr_conn *c);

#endif
