/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws on a terminal with the control sequences of ECMA-48 that all have, and xterm's for the
 * second screen. Signals are blocked and taken while it waits, so none interrupts a drawing. */
#include "tools/stat/screen.h"

#include <err.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static sigset_t taken;
static char *shown;
static bool is_drawn;	/* the second screen is the terminal's */

static void enter_screen(void)
{
	fputs("\033[?1049h\033[?25l", stdout);
	is_drawn = true;
}

static void leave_screen(void)
{
	if (!is_drawn)
		return;
	is_drawn = false;
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
}

bool rr_screen_begin(void)
{
	const char *term = getenv("TERM");
	struct sigaction sa;

	if (!isatty(STDOUT_FILENO) || !term || !*term || !strcmp(term, "dumb"))
		return false;
	sigemptyset(&taken);
	for (unsigned i = 0; i < rr_array_size(ends); i++)
		if (!sigaction(ends[i], NULL, &sa) && sa.sa_handler != SIG_IGN)
			sigaddset(&taken, ends[i]);
	sigaddset(&taken, SIGTSTP);
	sigaddset(&taken, SIGCONT);
	sigaddset(&taken, SIGWINCH);
	sigprocmask(SIG_BLOCK, &taken, NULL);
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	atexit(leave_screen);
	return true;
}

/* --- drawing --- */

static void draw_line(const char *line, size_t len, size_t cols)
{
	fwrite(line, 1, len < cols ? len : cols, stdout);
	if (len < cols)
		fputs("\033[K", stdout);	/* at the last column it would erase that */
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* Has a shell put us into the background? Then the screen is another's, until SIGCONT. */
static bool is_background(void)
{
	pid_t front = tcgetpgrp(STDOUT_FILENO);

	return front >= 0 && front != getpgrp();
}

/* The last line has no newline: the screen would scroll. */
static void redraw(void)
{
	struct winsize w = { 0 };
	unsigned lines = count_lines(shown), left = lines;
	const char *at = shown;
	char more[48];

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	if (is_background())
		return;
	if (!is_drawn)
		enter_screen();
	fputs("\033[H", stdout);
	for (unsigned row = 0; row < w.ws_row && left; row++, left--) {
		size_t len = strcspn(at, "\n");

		if (row)
			fputs("\r\n", stdout);
		if (row + 1 == w.ws_row && left > 1) {
			snprintf(more, sizeof(more), "(%u more lines)", left);
			draw_line(more, strlen(more), w.ws_col);
			break;
		}
		draw_line(at, len, w.ws_col);
		at += len + 1;
	}
	if (lines < w.ws_row)
		fputs("\r\n\033[J", stdout);
	if (fflush(stdout) || ferror(stdout))
		err(1, "standard output");
}

void rr_screen_draw(const char *text)
{
	free(shown);
	shown = strdup(text);
	if (!shown)
		err(1, NULL);
	redraw();
}

/* --- waiting --- */

/* Does what the signal would have done without us. */
static void obey(int sig)
{
	struct sigaction was, plain = { .sa_handler = SIG_DFL };
	sigset_t one;

	leave_screen();
	sigemptyset(&one);
	sigaddset(&one, sig);
	sigaction(sig, &plain, &was);
	raise(sig);
	sigprocmask(SIG_UNBLOCK, &one, NULL);
	sigprocmask(SIG_BLOCK, &one, NULL);	/* here after a stop only */
	sigaction(sig, &was, NULL);
	redraw();
}

static struct timespec time_left(const struct timespec *until)
{
	struct timespec now;
	long ns;

	clock_gettime(CLOCK_MONOTONIC, &now);
	ns = until->tv_nsec - now.tv_nsec;
	now.tv_sec = until->tv_sec - now.tv_sec - (ns < 0);
	now.tv_nsec = ns < 0 ? ns + 1000000000 : ns;
	return now.tv_sec < 0 ? (struct timespec){ 0 } : now;
}

void rr_screen_wait(double secs)
{
	struct timespec until, left;
	int sig;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += (time_t)secs;
	until.tv_nsec += (long)((secs - (double)(time_t)secs) * 1e9);
	if (until.tv_nsec >= 1000000000) {
		until.tv_sec++;
		until.tv_nsec -= 1000000000;
	}
	do {
		left = time_left(&until);
		sig = sigtimedwait(&taken, NULL, &left);
		if (sig == SIGWINCH || sig == SIGCONT)
			redraw();
		else if (sig > 0)
			obey(sig);
	} while (sig > 0 || errno == EINTR);
}
