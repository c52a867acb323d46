/* SPDX-License-Identifier: BSD-3-Clause */
/* Turns the configuration into the parameters of the layers below. Core knows nothing of
 * config/, so this is the one place that knows both. */

#include "preload/setup.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "config/conf.h"
#include "config/rundir.h"
#include "core/base/os.h"
#include "core/conn/conn.h"
#include "preload/appmem.h"
#include "preload/diag_plugin.h"
#include "preload/file.h"
#include "preload/libc.h"
#include "preload/logsink.h"
#include "preload/rundirs.h"
#include "preload/sock.h"
#include "preload/statseg.h"

static struct rr_conf conf;

/* The name of a system call that a filter refuses and without which not even a connection that
 * stays on TCP can be looked after; NULL: none. Each is tried with arguments that make it fail
 * otherwise (fd -1). */
static const char *forbidden(void)
{
	/* Where the third argument is a length, memcheck must be able to read one. */
	static socklen_t none;
	static const struct { const char *name; long nr; socklen_t *third; } calls[] = {
		{ "fcntl", RR_SYS_FCNTL, NULL }, { "recvfrom", SYS_recvfrom, NULL },
		{ "sendto", SYS_sendto, NULL }, { "getsockopt", SYS_getsockopt, NULL },
		{ "setsockopt", SYS_setsockopt, NULL },
		{ "getsockname", SYS_getsockname, &none },
		{ "getpeername", SYS_getpeername, &none },
	};
	struct timespec no_time = { 0 };
	const char *which = NULL;
	int saved = errno;

	if (syscall(SYS_ppoll, NULL, 0, &no_time, NULL, 0) < 0 && rr_os_is_filtered(errno))
		which = "ppoll";
	for (size_t i = 0; i < rr_array_size(calls) && !which; i++)
		if (syscall(calls[i].nr, -1, 0, calls[i].third, 0, 0, 0) < 0 &&
		    rr_os_is_filtered(errno))
			which = calls[i].name;
	errno = saved;
	return which;
}

static const char *refused;

void rr_setup_conf(void)
{
	rr_conf_load(&conf, environ);
	refused = forbidden();
	if (refused)
		conf.enabled = false;
}

void rr_setup_log(void)
{
	char comm[20];

	rr_logsink_setup(conf.log_to, conf.log_file, conf.log_level);
	if (rr_log_has_sink()) {
		rr_proc_comm(0, comm, sizeof(comm));
		rr_log_name(comm);
	}
	rr_conf_log_problems(&conf);
	if (refused)
		rr_warn("system call %s is forbidden (seccomp): connections stay on TCP",
			refused);
	rr_diag_setup(conf.diagnostics);
}

/* --- connections --- */

static enum rr_mode mode(bool server, const struct sockaddr *local, const struct sockaddr *peer)
{
	return rr_conf_mode(&conf, server, local, peer);
}

static enum rr_mode mode_call(const struct sockaddr *local, const struct sockaddr *peer,
			      uint32_t program)
{
	return rr_conf_mode_call(&conf, local, peer, program);
}

static enum rr_dialect dialect(bool server, const struct sockaddr *local,
			       const struct sockaddr *peer, const uint32_t *program)
{
	return rr_conf_dialect(&conf, server, local, peer, program);
}

static uint16_t native_rule(bool server, const struct sockaddr *local,
			    const struct sockaddr *peer)
{
	return rr_conf_native(&conf, server, local, peer);
}

static bool any_native(void)
{
	for (uint32_t i = 0; i < conf.nrules; i++)
		if (conf.rules[i].has_native)
			return true;
	return false;
}

static bool any_required(void)
{
	for (uint32_t i = 0; i < conf.nrules; i++)
		if (conf.rules[i].has_program && conf.rules[i].mode == RR_MODE_REQUIRE)
			return true;
	return false;
}

/* What it is worth to the user that a wait ends without a sleep. */
static rr_time spin_worth(enum rr_profile profile)
{
	switch (profile) {
	case RR_PROFILE_LATENCY:
		return RR_TIME_NEVER;
	case RR_PROFILE_THRIFT:
		return 0;
	case RR_PROFILE_BALANCED:
		break;
	}
	return RR_SPIN_WORTH;
}

void rr_setup_conn(void)
{
	static struct rr_conn_params p;

	p = (struct rr_conn_params){
		.program = conf.program,
		.verbs = conf.verbs,
		.bypass_proxies = conf.bypass_proxies,
		.ask_peer = conf.ask_peer,
		.tell_peer = conf.tell_peer,
		.inline_size = conf.inline_threshold,
		.device_inline = conf.device_inline_threshold,
		.ack_timeout = (uint8_t)conf.device_ack_timeout,
		.eng = {
			.no_done = !conf.done_property,
			.credits = conf.credits,
			.bc_credits = conf.backchannel_credits,
			.max_msg = conf.max_message,
			.reply_chunk = conf.reply_chunk,
			.reply_chunk_max = conf.reply_chunk_max,
			.reply_chunks = conf.reply_chunks,
			.lenient_read_chunks = conf.lenient_read_chunks,
			.max_chunks = conf.max_chunks,
			.max_segs = conf.max_segments,
			.max_exposed = conf.max_exposed,
			.done_timeout = conf.done_timeout_s,
			.pad_thresh = conf.msgp_threshold,
			.pad_align = conf.msgp_align,
			.ccp_prog = conf.ccp_program,
			.rdma_reads = conf.rdma_reads,
		},
		.memory = conf.memory,
		.reverse_chunks = conf.reverse_chunks,
		.upgrade_timeout = conf.upgrade_timeout_ms,
		.offer_after = conf.offer_after,
		.negative_time = conf.negative_cache_s,
		.spin = conf.profile == RR_PROFILE_THRIFT ? 0 : conf.spin_us,
		.spin_worth = rr_min(conf.spin_us, spin_worth(conf.profile)),
		.max_stash = conf.stash,
		.budget = conf.connection_budget,
		.process_budget = conf.process_budget,
		.native_silent = conf.native_silent,
		.warm_memory = conf.warm_memory,
		.idle_trim = conf.idle_trim_ms, .idle_stay = conf.idle_stay,
		.reliable_replies = conf.reliable_replies,
		.mode = mode,
		.alike = !conf.nrules,
		.mode_call = mode_call,
		.require_call = any_required(),
		.dialect = dialect,
		.dialects = rr_conf_dialects(&conf),
		.native = any_native() ? native_rule : NULL,
		.stopped = rr_statseg_stopped,
		.fd_of = rr_fdt_fd_of,
		.readable = rr_appmem_readable,
		.turned = rr_sock_turned,
		.stats = rr_statseg_get,
		.run_dir = rr_rundirs_meet,
	};
	rr_rundirs_setup(conf.run_dir);
	rr_statseg_setup(rr_rundirs_own, conf.run_dir[0] ? conf.run_dir : RR_RUN_DIR);
	rr_conn_setup(&p);
}
