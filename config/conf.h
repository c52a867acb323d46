/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CONF_H
#define RR_CONF_H

/* Configuration. Its sources, in the order in which they are read: rules in RDMARPC_RULES;
 * rdmarpc.conf (RDMARPC_CONF, else /etc/rdmarpc.conf); rules in RDMARPC_LAST_RULES;
 * RDMARPC_<NAME> in the environment. Of the rules that match a connection the first decides; of
 * the values of an option the last counts.
 *
 * options.def is the one list of options. A wrong value never stops the program: it leaves a
 * problem and the default. No malloc, no stdio, no locale; not async-signal-safe. */

#include <netinet/in.h>
#include <sys/socket.h>

#include "core/base/log.h"
#include "core/base/types.h"

#define RR_CONF_FILE	"/etc/rdmarpc.conf"
#define RR_CONF_TEXT	108u	/* a path; fits sun_path */
#define RR_CONF_RULES	64u
#define RR_CONF_COMMAND	64u
#define RR_CONF_NFS	2049u	/* port of a native rule that names none … */
#define RR_CONF_NFS_RDMA 20049u	/* … and its RDMA CM port */

/* One [rule]. It matches if all its keys do. */
struct rr_rule {
	enum rr_mode mode;
	uint8_t role;			/* 0 either, 'c' client, 's' server */
	uint8_t family;			/* of the address: 0 any, 4, 6 */
	uint8_t prefix;			/* bits of address that count */
	bool has_port, has_program, has_dialect;
	bool other;			/* its command is another process's: never matches */
	bool has_native;
	uint8_t dialect;		/* enum rr_dialect; without has_dialect, option dialect
					 * counts */
	uint16_t native;		/* RDMA CM port; 0: the usual one for the TCP port */
	uint16_t port_lo, port_hi;	/* of the server's end of the connection */
	uint32_t program;		/* of the first call; only the client judges it */
	uint8_t address[16];		/* of the peer */
};

struct rr_conf {
#define RR_CONF_BOOL(name)	bool name;
#define RR_CONF_COUNT(name)	uint32_t name;
#define RR_CONF_AFTER(name)	uint32_t name;
#define RR_CONF_SIZE(name)	uint32_t name;
#define RR_CONF_US(name)	rr_time name;
#define RR_CONF_MS(name)	rr_time name;
#define RR_CONF_S(name)		rr_time name;
#define RR_CONF_MODE(name)	enum rr_mode name;
#define RR_CONF_DIALECT(name)	enum rr_dialect name;
#define RR_CONF_PROFILE(name)	enum rr_profile name;
#define RR_CONF_POLICY(name)	enum rr_reply_chunks name;
#define RR_CONF_LEVEL(name)	enum rr_log_level name;
#define RR_CONF_PLACE(name)	enum rr_log_to name;
#define RR_CONF_PATH(name)	char name[RR_CONF_TEXT];
#define RR_SECTION(title)
#define RR_OPTION(name, type, ...) RR_CONF_##type(name)
#include "config/options.def"
#undef RR_OPTION
#undef RR_SECTION
	uint32_t nrules;
	uint32_t nproblems;		/* how many there were; the text may hold fewer */
	uint32_t problems_len;
	/* What comes from here on is not cleared, since its pages may never be needed: behind
	 * the first '\0', and from rules[nrules] on, there is anything. */
	char problems[4096];		/* lines, each ended by '\n' */
	struct rr_rule rules[RR_CONF_RULES];
};

/* Reads the file and the environment (envp may be NULL) into c, overwriting it. In a process
 * with elevated rights (AT_SECURE) the environment is ignored, since the caller has chosen it.
 * errno is left alone. */
void rr_conf_load(struct rr_conf *c, char **envp);

/* Logs what was wrong. Called after the log has been set up from c. */
void rr_conf_log_problems(const struct rr_conf *c);

/* The mode of a connection: that of the first rule that matches, else option mode; TCP if
 * option enabled is off. Either address may be NULL; rules on it then do not match. On the
 * client RR_MODE_AUTO also means that a rule on the first call's program may decide: ask
 * rr_conf_mode_call() when the program is known. Async-signal-safe. */
enum rr_mode rr_conf_mode(const struct rr_conf *c, bool server, const struct sockaddr *local,
			  const struct sockaddr *peer);
enum rr_mode rr_conf_mode_call(const struct rr_conf *c, const struct sockaddr *local,
			       const struct sockaddr *peer, uint32_t program);

/* The dialect of a connection: that of the rule that decides, else option dialect. program is
 * that of the first call; NULL: it is not known, and rules on it do not match.
 * Async-signal-safe. */
enum rr_dialect rr_conf_dialect(const struct rr_conf *c, bool server,
				const struct sockaddr *local,
				const struct sockaddr *peer, const uint32_t *program);

/* All dialects that rr_conf_dialect() may return, as bits 1 << dialect. */
uint32_t rr_conf_dialects(const struct rr_conf *c);

/* The RDMA CM port at which the server's end of the connection is reached without TCP and
 * without an offer (by native peers), as the first matching rule says; 0: none. For a listener
 * peer is NULL: then a native rule counts whatever its address, and any other rule on an
 * address does not match; ask again when the peer is known. Async-signal-safe. */
uint16_t rr_conf_native(const struct rr_conf *c, bool server, const struct sockaddr *local,
			const struct sockaddr *peer);

#endif
