/* SPDX-License-Identifier: BSD-3-Clause */
/* The one place where configuration becomes parameters: core knows nothing of config/. */

#include "preload/setup.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config/conf.h"
#include "core/base/log.h"
#include "core/conn/conn.h"
#include "preload/real.h"

static struct rr_conf conf;

void rr_setup_conf(void)
{
	rr_conf_load(&conf, environ);
}

/* --- log --- */

/* Opened for each line: a log has few lines, and an fd kept for it would have to be hidden from
 * the app and survive all that it does to its fds. */
static void to_file(const char *line, unsigned len)
{
	int fd = open(conf.log_file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0644);

	if (fd < 0)
		return;
	if (rr_real.write(fd, line, len) < 0) {
		/* nobody to tell */
	}
	rr_real.close(fd);
}

/* What 2 was when the configuration was read. A daemon that closes it may get a connection
 * under that number. */
static struct stat stderr_then;

static void to_stderr(const char *line, unsigned len)
{
	struct stat st;

	if (fstat(STDERR_FILENO, &st) < 0 || st.st_dev != stderr_then.st_dev ||
	    st.st_ino != stderr_then.st_ino)
		return;
	if (rr_real.write(STDERR_FILENO, line, len) < 0) {
		/* nobody to tell */
	}
}

void rr_setup_log(void)
{
	rr_log_sink *sink = NULL;

	if (!strcmp(conf.log_file, "stderr"))
		sink = fstat(STDERR_FILENO, &stderr_then) ? NULL : to_stderr;
	else if (conf.log_file[0])
		sink = to_file;
	rr_log_setup(conf.log_level, sink);
	rr_conf_log_problems(&conf);
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

void rr_setup_conn(void)
{
	static struct rr_conn_params p;

	p = (struct rr_conn_params){
		.program = conf.program,
		.inline_size = conf.inline_threshold,
		.credits = conf.credits,
		.bc_credits = conf.backchannel_credits,
		.max_msg = conf.max_message,
		.reply_chunk = conf.reply_chunk,
		.reply_chunk_max = conf.reply_chunk_max,
		.max_chunks = conf.max_chunks,
		.max_segs = conf.max_segments,
		.max_exposed = conf.max_exposed,
		.done_timeout = conf.done_timeout_s,
		.upgrade_timeout = conf.upgrade_timeout_ms,
		.negative_time = conf.negative_cache_s,
		.spin = conf.spin_us,
		.max_stash = conf.stash,
		.warm_memory = conf.warm_memory,
		.idle_trim = conf.idle_trim_ms,
		.reliable_replies = conf.reliable_replies,
		.mode = mode,
		.mode_call = mode_call,
	};
	_Static_assert(sizeof(p.run_dir) >= sizeof(conf.run_dir), "a path fits");
	memcpy(p.run_dir, conf.run_dir, sizeof(conf.run_dir));
	rr_conn_setup(&p);
}
