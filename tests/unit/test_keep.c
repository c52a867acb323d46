/* SPDX-License-Identifier: BSD-3-Clause */
/* Which options of the app's socket end or change the probes that TCP sends for a silent anchor. */
#include <criterion/criterion.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>

#include "core/base/os.h"
#include "core/conn/carried/carried.h"

#define FD	7

static struct rr_share sh;
static struct rr_os os;
static int keep, idle, user_timeout, gets, sets;

static int getting(int fd, int level, int name, void *val, socklen_t *len)
{
	cr_assert(fd == FD && *len == sizeof(int));
	gets++;
	*(int *)val = level == SOL_SOCKET ? keep : name == TCP_USER_TIMEOUT ? user_timeout : name == TCP_KEEPIDLE ? idle : 5;
	errno = EINVAL;		/* of no matter to the app */
	return 0;
}

static int setting(int fd, int level, int name, const void *val, socklen_t len)
{
	int n = *(const int *)val;

	cr_assert(fd == FD && len == sizeof(int));
	sets++;
	if (level == SOL_SOCKET)
		keep = n;
	else if (name == TCP_KEEPIDLE)
		idle = n;
	errno = EINVAL;
	return 0;
}

static void begin(void)
{
	os = (struct rr_os){ .getsockopt = getting, .setsockopt = setting };
	rr_os = &os;
	memset(&sh, 0, sizeof(sh));
	sh.anchor.ours = true;
	keep = 1;
	idle = 60;
	user_timeout = gets = sets = 0;
	errno = 0;
}

TestSuite(keep, .init = begin, .timeout = 60);

Test(keep, other_options_are_of_no_matter)
{
	rr_keep_set(&sh, FD, SOL_SOCKET, SO_RCVBUF);
	rr_keep_set(&sh, FD, IPPROTO_TCP, TCP_NODELAY);
	rr_keep_set(&sh, FD, SOL_SOCKET, TCP_KEEPIDLE == SO_KEEPALIVE ? SO_RCVBUF : TCP_KEEPIDLE);
	cr_assert(gets == 0 && sets == 0);
	sh.anchor.ours = false;
	rr_keep_set(&sh, FD, SOL_SOCKET, SO_KEEPALIVE);
	cr_assert(gets == 0 && sets == 0, "nor is any where there are no probes of ours");
}

Test(keep, the_apps_are_noted_and_ours_are_set_again)
{
	idle = 33;
	rr_keep_set(&sh, FD, IPPROTO_TCP, TCP_KEEPIDLE);
	cr_assert(idle == 60 && keep == 1 && sets == 4 && errno == 0, "%d", sets);
	cr_assert_eq(sh.anchor.app[1], 33);
	keep = 1;
	idle = 33;
	rr_keep_set(&sh, FD, SOL_SOCKET, SO_KEEPALIVE);
	cr_assert(sh.anchor.app[0] == 1 && idle == 33, "the app has probes that come earlier");
	idle = 7200;
	sh.anchor.app[1] = 7200;
	rr_keep_set(&sh, FD, SOL_SOCKET, SO_KEEPALIVE);
	cr_assert_eq(idle, 60);
}

Test(keep, with_a_time_limit_of_the_apps_none_are_sent)
{
	sh.anchor.app[1] = 7200;
	rr_keep_set(&sh, FD, IPPROTO_TCP, TCP_USER_TIMEOUT);
	cr_assert(sh.anchor.ours && keep == 1 && idle == 60);
	user_timeout = 1000;
	rr_keep_set(&sh, FD, IPPROTO_TCP, TCP_USER_TIMEOUT);
	cr_assert(!sh.anchor.ours && keep == 0 && idle == 7200 && errno == 0);
	user_timeout = 0;
	rr_keep_set(&sh, FD, IPPROTO_TCP, TCP_USER_TIMEOUT);
	cr_assert(keep == 0 && idle == 7200, "from then on they are the app's");
}
