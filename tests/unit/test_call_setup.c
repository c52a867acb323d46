/* SPDX-License-Identifier: BSD-3-Clause */
/* What the layers below are told of the configuration. */
#include <sched.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include "config/conf.h"
#include "core/base/diag.h"
#include "core/base/log.h"
#include "core/base/ownfd.h"
#include "preload/init.h"
#include "preload/rawos.h"
#include "preload/appmem.h"
#include "preload/diag_plugin.h"
#include "preload/setup.h"
#include "preload/rundirs.h"
#include "preload/statseg.h"
#include "tests/unit/call.h"

static struct rr_conn_params params;
static int setups;

static void setup_script(const struct rr_conn_params *p)
{
	params = *p;
	setups++;
	errno = ESTALE;
}

static void begin_setup(void)
{
	rr_fake.setup = setup_script;
	clearenv();
	setenv("RDMARPC_CONF", "/dev/null", 1);
}

TestSuite(call_setup, .init = begin_setup, .timeout = 60);

static void set_up(void)
{
	rr_setup_conf();
	rr_setup_conn();
}

static void set_number(const char *name, unsigned n)
{
	char text[16];

	snprintf(text, sizeof(text), "%u", n);
	setenv(name, text, 1);
}

Test(call_setup, each_number_comes_to_its_place)
{
	setenv("RDMARPC_PROGRAM", "0x20001234", 1);
	set_number("RDMARPC_CREDITS", 77);
	set_number("RDMARPC_BACKCHANNEL_CREDITS", 13);
	set_number("RDMARPC_MAX_SEGMENTS", 7);
	set_number("RDMARPC_MAX_CHUNKS", 3);
	setenv("RDMARPC_INLINE_THRESHOLD", "8k", 1);
	setenv("RDMARPC_UPGRADE_TIMEOUT_MS", "1234", 1);
	setenv("RDMARPC_NEGATIVE_CACHE_S", "17", 1);
	setenv("RDMARPC_SPIN_US", "33", 1);
	set_number("RDMARPC_OFFER_AFTER", 5);
	setenv("RDMARPC_MEMORY", "4m", 1);
	setenv("RDMARPC_STASH", "3m", 1);
	setenv("RDMARPC_IDLE_TRIM_MS", "7000", 1);
	set_up();
	cr_assert_eq(setups, 1);
	cr_assert_eq(params.program, 0x20001234);
	cr_assert(params.eng.credits == 77 && params.eng.bc_credits == 13, "%u %u", params.eng.credits,
		  params.eng.bc_credits);
	cr_assert(params.eng.max_segs == 7 && params.eng.max_chunks == 3);
	cr_assert(params.inline_size == 8192 && params.memory == 4 << 20 && params.max_stash == 3 << 20);
	cr_assert(params.upgrade_timeout == 1234 * RR_MSEC && params.negative_time == 17 * RR_SEC);
	cr_assert(params.spin == 33 * RR_USEC && params.offer_after == 5 && params.idle_trim == 7000 * RR_MSEC);
	cr_assert(params.alike && !params.native && !params.require_call && params.mode && params.mode_call &&
		  params.dialect && params.dialects == 1u << RR_DIALECT_V1);
	cr_assert(params.fd_of == rr_fdt_fd_of && params.readable == rr_appmem_readable &&
		  params.turned == rr_sock_turned && params.stats == rr_statseg_get && params.run_dir);
}

Test(call_setup, what_a_wait_without_a_sleep_is_worth)
{
	setenv("RDMARPC_SPIN_US", "33", 1);
	setenv("RDMARPC_PROFILE", "latency", 1);
	set_up();
	cr_assert(params.spin == 33 * RR_USEC && params.spin_worth == 33 * RR_USEC);
	setenv("RDMARPC_PROFILE", "thrift", 1);
	set_up();
	cr_assert(params.spin == 0 && params.spin_worth == 0);
	setenv("RDMARPC_SPIN_US", "1000", 1);
	setenv("RDMARPC_PROFILE", "balanced", 1);
	set_up();
	cr_assert(params.spin == 1000 * RR_USEC && params.spin_worth == RR_SPIN_WORTH);
}

Test(call_setup, what_rules_say_is_asked_for_only_if_there_are_any)
{
	struct sockaddr_in a = { .sin_family = AF_INET, .sin_port = htons(2049) };
	const struct sockaddr *sa = (struct sockaddr *)&a;
	uint32_t nfs = 100003;

	setenv("RDMARPC_RULES", "port=2049 mode=tcp", 1);
	set_up();
	cr_assert(!params.alike && !params.native && !params.require_call);
	cr_assert_eq(params.mode(false, NULL, sa), RR_MODE_TCP);
	a.sin_port = htons(2050);
	cr_assert_eq(params.mode(false, NULL, sa), RR_MODE_AUTO);
	cr_assert_eq(params.mode_call(NULL, sa, nfs), RR_MODE_AUTO);
	setenv("RDMARPC_RULES", "port=2049 mode=tcp; program=100003 mode=require", 1);
	set_up();
	cr_assert(params.require_call && !params.native);
	cr_assert_eq(params.mode_call(NULL, sa, nfs), RR_MODE_REQUIRE);
	setenv("RDMARPC_RULES", "program=100003 mode=tcp; port=111 mode=require", 1);
	set_up();
	cr_assert_not(params.require_call);
	setenv("RDMARPC_RULES", "port=111 mode=tcp; port=2049 native=on", 1);
	set_up();
	cr_assert_not_null(params.native);
	a.sin_port = htons(2049);
	cr_assert_eq(params.native(false, NULL, sa), 20049);
	a.sin_port = htons(111);
	cr_assert_eq(params.native(false, NULL, sa), 0);
	setenv("RDMARPC_RULES", "program=100003 dialect=v2", 1);
	set_up();
	cr_assert_eq(params.dialects, 1u << RR_DIALECT_V1 | 1u << RR_DIALECT_V2);
	cr_assert_eq(params.dialect(false, NULL, sa, &nfs), RR_DIALECT_V2);
	cr_assert_eq(params.dialect(false, NULL, sa, NULL), RR_DIALECT_V1);
}

Test(call_setup, all_is_set_up_once)
{
	setenv("RDMARPC_DIAGNOSTICS", "on", 1);
	rr_init_started();
	errno = MINE;
	cr_assert(rr_init_core());
	cr_assert_eq(errno, MINE);
	cr_assert_eq(setups, 1);
	cr_assert_eq(rr_os, &rr_raw_os);
	cr_assert_not_null(rr_diag_hook);
	rr_init_fork_child();
	cr_assert(rr_init_core());
	cr_assert_eq(setups, 1);
	rr_diag_setup(false);
	cr_assert_null(rr_diag_hook);
}

static bool within;

static void setup_again(const struct rr_conn_params *p RR_UNUSED)
{
	setups++;
	within = !rr_init_core();
	if (setups == 1) {
		rr_init_fork_child();
		rr_fake.setup = setup_script;
	}
}

/* A handler that interrupts the set-up goes without; a child of a fork in the middle does it anew. */
Test(call_setup, who_interrupts_the_set_up_is_told_that_it_is_not_done)
{
	rr_fake.setup = setup_again;
	rr_init_started();
	cr_assert(rr_init_core());
	cr_assert(within && setups == 1);
}

/* In a child of a child, which is alone in its namespace. */
static int as_process_1(void)
{
	int status = -1;
	pid_t pid;

	if (geteuid() || unshare(CLONE_NEWPID))
		return 77;
	pid = fork();
	if (!pid) {
		rr_fake.setup = setup_again;
		rr_init_started();
		_exit(!(gettid() == 1 && rr_init_core() && within && setups == 1));
	}
	return waitpid(pid, &status, 0) != pid || status;
}

/* In a container a thread may have the id 1. */
Test(call_setup, the_first_process_of_a_namespace_is_set_up_as_any_other)
{
	int status = -1;
	pid_t pid = fork();

	if (!pid)
		_exit(as_process_1());
	cr_assert_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == 77)
		cr_skip("needs root and PID namespaces");
	cr_assert_eq(status, 0);
}

static _Atomic int yields;
static _Atomic bool second_done;
static pthread_t second;

int __real_sched_yield(void);
int __wrap_sched_yield(void);

int __wrap_sched_yield(void)
{
	yields++;
	return __real_sched_yield();
}

static void *init_too(void *arg RR_UNUSED)
{
	errno = ESRCH;
	cr_assert(rr_init_core());
	cr_assert_eq(errno, ESRCH);
	second_done = true;
	return NULL;
}

static void setup_for_two(const struct rr_conn_params *p RR_UNUSED)
{
	if (setups++)
		return;
	cr_assert_eq(pthread_create(&second, NULL, init_too, NULL), 0);
	while (yields < 3 && setups < 2 && !second_done)
		usleep(1000);
	cr_assert_not(second_done);
}

Test(call_setup, another_thread_waits_until_it_is_over)
{
	rr_fake.setup = setup_for_two;
	rr_init_started();
	cr_assert(rr_init_core());
	pthread_join(second, NULL);
	cr_assert(second_done && setups == 1);
}

Test(call_setup, before_libc_has_an_environment_nothing_is_set_up)
{
	char **was = environ;

	environ = NULL;
	cr_assert_not(rr_init_core());
	cr_assert_eq(setups, 0);
	rr_init_started();
	cr_assert(rr_init_core(), "an app may have none");
	environ = was;
	cr_assert_eq(setups, 1);
}

/* --- the log --- */

static char log_path[] = "/tmp/rr-setup-XXXXXX";

static const char *logged(void)
{
	static char text[2000];
	int fd = open(log_path, O_RDONLY);
	ssize_t n = read(fd, text, sizeof(text) - 1);

	close(fd);
	unlink(log_path);
	text[n < 0 ? 0 : n] = '\0';
	return text;
}

static void set_log_up(void)
{
	close(mkstemp(log_path));
	setenv("RDMARPC_LOG_FILE", log_path, 1);
	setenv("RDMARPC_NO_SUCH_OPTION", "1", 1);
	cr_assert_eq(prctl(PR_SET_NAME, "its name"), 0);
	rr_setup_conf();
	rr_setup_log();
}

Test(call_setup, each_line_of_the_log_names_the_program)
{
	const char *text;

	set_log_up();
	rr_warn("a line");
	text = logged();
	cr_assert(strstr(text, "its_name ") && strstr(text, "a line"), "%s", text);
	cr_assert(strstr(text, "NO_SUCH_OPTION"), "%s", text);
}

/* --- the run directory --- */

Test(call_setup, a_run_directory_is_where_the_statistics_are)
{
	char dir[] = "/tmp/rr-setup-XXXXXX", cmd[80];
	struct rr_stat_seg *seg;
	struct stat st;

	cr_assert_not_null(mkdtemp(dir));
	cr_assert_eq(chmod(dir, 0755), 0);
	setenv("RDMARPC_RUN_DIR", dir, 1);
	set_up();
	cr_assert_str_eq(rr_rundirs_own(), dir);
	cr_assert_str_eq(params.run_dir(), dir);
	seg = rr_statseg_get(true);
	cr_assert(seg && !fstat(rr_ownfd_next(0), &st) && st.st_nlink == 1, "it has a name");
	snprintf(cmd, sizeof(cmd), "ls %s | grep -q '^%d[.]' && rm -r %s", dir, getpid(), dir);
	cr_assert_eq(system(cmd), 0);
}

/* While a daemon still has its privileges. */
Test(call_setup, the_first_tcp_socket_sets_all_up)
{
	rr_init_started();
	close(rr_wrap_socket(AF_UNIX, SOCK_STREAM, 0));
	cr_assert_eq(setups, 0);
	cr_assert(rr_fdt_has(rr_wrap_socket(AF_INET, SOCK_STREAM, 0)));
	cr_assert_eq(setups, 1);
}
