/* SPDX-License-Identifier: BSD-3-Clause */
/* PROGRAM [TEXT]: runs its tests, or those whose "suite::name" contains TEXT. Reports to the file of CRITERION_OUTPUTS=tap:FILE as
 * Criterion does, which scripts/run-tests reads. MINI_SLOW: by how many times this machine is slower than the time limits of
 * tests allow for. */
#include <criterion/criterion.h>

#include <errno.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIME_LIMIT 60	/* of a test that names none, in seconds */

static struct mini_test *tests, **last_test = &tests;
static struct mini_suite *suites, **last_suite = &suites;
static FILE *tap;

/* What a test, and processes that it makes, say to main(). */
static struct {
	unsigned failures;
	bool skipped;
	char why[200];
} *said;

/* In the process of a test: */
static const struct mini_test *running;
static pid_t test_pid;

void mini_add_test(struct mini_test *t)
{
	*last_test = t;
	last_test = &t->next;
}

void mini_add_suite(struct mini_suite *s)
{
	*last_suite = s;
	last_suite = &s->next;
}

static const struct mini_options *suite_of(const struct mini_test *t)
{
	static const struct mini_options none;

	for (const struct mini_suite *s = suites; s; s = s->next)
		if (!strcmp(s->name, t->suite))
			return &s->own;
	return &none;
}

/* --- in the process of a test --------------------------------------------------------------- */

static void call(void (*f)(void))
{
	if (f)
		f();
}

/* Once, whether the test came to its end or not. */
static void clean_up(void)
{
	const struct mini_test *t = running;

	running = NULL;
	if (t && getpid() == test_pid) {
		call(t->own.fini);
		call(suite_of(t)->fini);
	}
	fflush(stdout);
}

void mini_failed(bool fatal, const char *file, int line, const char *what, const char *fmt, ...)
{
	va_list args;

	__atomic_fetch_add(&said->failures, 1, __ATOMIC_RELAXED);
	va_start(args, fmt);
	flockfile(stdout);
	printf("%s:%d: assertion failed: %s:", file, line, what);
	vprintf(fmt, args);
	putchar('\n');
	fflush(stdout);
	funlockfile(stdout);
	va_end(args);
	if (fatal) {
		clean_up();
		_exit(1);
	}
}

void mini_skip(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(said->why, sizeof(said->why), fmt, args);
	va_end(args);
	said->skipped = true;
	clean_up();
	_exit(0);
}

/* Ends by exit(), at which a sanitizer looks for leaks. */
static _Noreturn void run_here(const struct mini_test *t, void *param, const sigset_t *mask)
{
	running = t;
	test_pid = getpid();
	sigprocmask(SIG_SETMASK, mask, NULL);
	call(suite_of(t)->init);
	call(t->own.init);
	if (t->run)
		t->run();
	else
		t->run_with(param);
	clean_up();
	exit(0);
}

/* --- in main()'s ---------------------------------------------------------------------------- */

static double limit_of(const struct mini_test *t)
{
	const char *slow = getenv("MINI_SLOW");
	double limit = t->own.timeout > 0 ? t->own.timeout : suite_of(t)->timeout;

	return (limit > 0 ? limit : TIME_LIMIT) * (slow ? atof(slow) : 1);
}

/* The status of the child, which is killed at its time limit. SIGCHLD is blocked. */
static int wait_for(pid_t pid, double limit)
{
	struct timespec now;
	sigset_t chld;
	double end;
	int status;

	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	clock_gettime(CLOCK_MONOTONIC, &now);
	end = (double)now.tv_sec + limit;
	while (waitpid(pid, &status, WNOHANG) == 0) {
		sigtimedwait(&chld, NULL, &(struct timespec){ .tv_sec = 1 });
		clock_gettime(CLOCK_MONOTONIC, &now);
		if ((double)now.tv_sec <= end)
			continue;
		printf("not done after %.0f s\n", limit);
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		break;
	}
	return status;
}

static bool run_one(const struct mini_test *t, void *param)
{
	sigset_t chld, mask;
	int status;
	pid_t pid;

	memset(said, 0, sizeof(*said));
	sigemptyset(&chld);
	sigaddset(&chld, SIGCHLD);
	sigprocmask(SIG_BLOCK, &chld, &mask);
	fflush(stdout);
	if (tap)
		fflush(tap);
	pid = fork();
	if (pid == 0)
		run_here(t, param, &mask);
	status = pid < 0 ? -1 : wait_for(pid, limit_of(t));
	sigprocmask(SIG_SETMASK, &mask, NULL);
	if (status == 0 && !said->failures) {
		if (tap)
			fprintf(tap, said->skipped ? "ok - %s::%s  # SKIP%s\n" : "ok - %s::%s\n", t->suite, t->name, said->why);
		return true;
	}
	if (WIFSIGNALED(status))
		printf("signal %d\n", WTERMSIG(status));
	else if (!said->failures)
		printf("status %d\n", WEXITSTATUS(status));
	printf("%s::%s failed\n", t->suite, t->name);
	if (tap)
		fprintf(tap, "not ok - %s::%s\n", t->suite, t->name);
	return false;
}

static bool is_wanted(const struct mini_test *t, const char *text)
{
	char name[300];

	snprintf(name, sizeof(name), "%s::%s", t->suite, t->name);
	return !t->own.disabled && (!text || strstr(name, text));
}

/* How often it runs. */
static size_t count_of(const struct mini_test *t)
{
	return t->params ? t->params().length : 1;
}

int main(int argc, char **argv)
{
	const char *text = argc > 1 ? argv[1] : NULL, *out = getenv("CRITERION_OUTPUTS");
	unsigned failed = 0;
	size_t n = 0;

	said = mmap(NULL, sizeof(*said), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (said == MAP_FAILED || (out && (strncmp(out, "tap:", 4) || !(tap = fopen(out + 4, "we"))))) {
		perror("tests/mini");
		return 1;
	}
	for (const struct mini_test *t = tests; t; t = t->next)
		n += is_wanted(t, text) ? count_of(t) : 0;
	if (tap)
		fprintf(tap, "TAP version 13\n1..%zu\n", n);
	for (const struct mini_test *t = tests; t; t = t->next)
		for (size_t i = 0; is_wanted(t, text) && i < count_of(t); i++)
			failed += !run_one(t, t->params ? (char *)t->params().params + i * t->params().size : NULL);
	printf("%zu tests, %u failed\n", n, failed);
	if (tap)
		fclose(tap);
	return failed || !n ? 1 : 0;
}
