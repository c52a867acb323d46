/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws on a terminal, with the control sequences of ECMA-48 that all terminals have, and
 * xterm's for the second screen. Signals are blocked, and read while the program waits, so none
 * interrupts a drawing. */
#include "tools/stat/screen.h"

#include <err.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

#include "core/base/compiler.h"

static const int ends[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT };

static sigset_t taken;
static char *shown;
static bool is_drawn;	/* the terminal shows the second screen */
static int signals = -1;	/* the descriptor from which they are read */

/* Has a shell put this program into the background? Then the screen is another's, until
 * SIGCONT. */
static bool is_background(void)
{
	pid_t front = tcgetpgrp(STDOUT_FILENO);

	return front >= 0 && front != getpgrp();
}

/* Keys come from standard input if that is a terminal: one by one and without echo, until the
 * terminal is set back. */
static bool has_keys;
static struct termios lines;

/* Without ICANON a key arrives at once and not with its line; VMIN and VTIME of 0 make read()
 * return 0 when there is none. */
static void take_keys(void)
{
	struct termios raw;

	has_keys = !tcgetattr(STDIN_FILENO, &lines);
	if (!has_keys)
		return;
	raw = lines;
	raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
	raw.c_cc[VMIN] = 0;
	raw.c_cc[VTIME] = 0;
	has_keys = !tcsetattr(STDIN_FILENO, TCSANOW, &raw);
}

/* Switches to the second screen and hides the cursor. */
static void enter_screen(void)
{
	take_keys();
	fputs("\033[?1049h\033[?25l", stdout);
	is_drawn = true;
}

/* Gives the terminal back: also at exit() and before a stop, when it must be as it was found. A
 * program in the background must not set the terminal, because it is the shell's then. */
static void leave_screen(void)
{
	if (!is_drawn)
		return;
	is_drawn = false;
	fputs("\033[?25h\033[?1049l", stdout);
	fflush(stdout);
	if (has_keys && !is_background())
		tcsetattr(STDIN_FILENO, TCSAFLUSH, &lines);
	has_keys = false;
}

/* Signals that were ignored when the program began (nohup) stay ignored, because they are
 * not taken. SIGTSTP and SIGCONT are taken so that the screen can be given back during a
 * stop. Standard output is fully buffered, so that a picture goes out at once and does not
 * flicker. */
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
	signals = signalfd(-1, &taken, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signals < 0)
		err(1, "signalfd");
	setvbuf(stdout, NULL, _IOFBF, 1 << 16);
	atexit(leave_screen);
	return true;
}

/* --- drawing --- */

/* Writes a line as far as there are columns, and erases what an earlier picture has left behind
 * it. */
static void draw_line(const char *line, size_t len, size_t cols)
{
	fwrite(line, 1, len < cols ? len : cols, stdout);
	if (len < cols)
		fputs("\033[K", stdout);	/* at the last column this would erase the last
						 * character */
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

/* A terminal that does not know its size has 24 lines of 80 columns. */
static struct winsize window(void)
{
	struct winsize w = { 0 };

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &w) || !w.ws_row || !w.ws_col)
		w = (struct winsize){ .ws_row = 24, .ws_col = 80 };
	return w;
}

static const char *skip_lines(const char *at, unsigned n)
{
	for (; n; n--)
		at += strcspn(at, "\n") + 1;
	return at;
}

/* How many lines after the first, which stays, are scrolled out of view. */
static unsigned scrolled;

/* Scrolls, but not beyond the last line. */
static void scroll_to(long to)
{
	long most = (long)count_lines(shown) - window().ws_row;

	to = to < most ? to : most;
	scrolled = to < 0 ? 0 : (unsigned)to;
}

/* Draws the text as it was last given, from the line to which it is scrolled. The first line,
 * the table's header, always stays. If there are more lines than rows, the last row says how
 * many. The last line has no newline, or the screen would scroll. */
static void redraw(void)
{
	struct winsize w = window();
	unsigned all = count_lines(shown), left;
	const char *at = shown;
	char more[48];

	scroll_to(scrolled);
	left = all - scrolled;
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
		if (!row)
			at = skip_lines(at, scrolled);
	}
	if (all < w.ws_row)
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

/* Does what the signal would have done to a program that does not handle it. raise() only makes
 * it pending; it is delivered where it is unblocked, and a fatal one ends the program there,
 * with the right status for the shell. */
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
	sigprocmask(SIG_BLOCK, &one, NULL);	/* here only after a stop */
	sigaction(sig, &was, NULL);
	redraw();
}

/* --- keys --- */

/* The letter for a key that has none: xterm and others send a sequence for it. seq is what
 * follows ESC [ or ESC O. Returns 0 for unknown ones. */
static int escaped_key(const char *seq)
{
	static const struct {
		const char *seq;
		char key;
	} keys[] = {
		{ "A", 'k' }, { "B", 'j' }, { "5~", 'b' }, { "6~", ' ' }, { "H", 'g' },
		{ "1~", 'g' }, { "F", 'G' }, { "4~", 'G' },
	};

	for (unsigned i = 0; i < rr_array_size(keys); i++)
		if (!strncmp(seq, keys[i].seq, strlen(keys[i].seq)))
			return keys[i].key;
	return 0;
}

/* Does what a key says: as in less(1), j and k scroll by a line, space and b by a page, g and G
 * to the ends. */
static void press(int key)
{
	long page = window().ws_row > 3 ? window().ws_row - 2 : 1;

	switch (key) {
	case 'j': scroll_to((long)scrolled + 1); break;
	case 'k': scroll_to((long)scrolled - 1); break;
	case ' ': scroll_to((long)scrolled + page); break;
	case 'b': scroll_to((long)scrolled - page); break;
	case 'g': scroll_to(0); break;
	case 'G': scroll_to(INT32_MAX); break;
	case 'q': exit(0);
	default: break;
	}
}

/* Reads keys and obeys them. A key's sequence comes in one read(); an incomplete one is
 * ignored. buf has a NUL at its end, so escaped_key() cannot read beyond it. */
static void read_keys(void)
{
	char buf[65];
	ssize_t n = read(STDIN_FILENO, buf, sizeof(buf) - 1);

	if (n <= 0 && errno != EINTR && errno != EAGAIN)
		has_keys = false;	/* the terminal is gone */
	for (ssize_t i = 0; i < n; i++) {
		buf[n] = '\0';
		if (buf[i] == '\033' && i + 2 < n && (buf[i + 1] == '[' || buf[i + 1] == 'O')) {
			press(escaped_key(buf + i + 2));
			for (i += 2; i < n && (buf[i] < '@' || buf[i] > '~'); i++)
				;
		} else {
			press(buf[i]);
		}
	}
	redraw();
}

static void read_signals(void)
{
	struct signalfd_siginfo s;

	while (read(signals, &s, sizeof(s)) == sizeof(s)) {
		if (s.ssi_signo == SIGWINCH || s.ssi_signo == SIGCONT)
			redraw();
		else
			obey((int)s.ssi_signo);
	}
}

static double clock_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

/* Signals and keys do not end the wait, but are handled in it. One millisecond is added because
 * the conversion rounds down, and the last one would be spent spinning. Keys are left alone
 * while the program is in the background: reading the terminal would stop it (SIGTTIN). */
void rr_screen_wait(double secs)
{
	double end = clock_now() + secs;

	for (double left = secs; left > 0; left = end - clock_now()) {
		struct pollfd p[] = { { signals, POLLIN, 0 }, { STDIN_FILENO, POLLIN, 0 } };

		bool keys = is_drawn && has_keys && !is_background();

		if (poll(p, keys ? 2 : 1, (int)(left * 1000) + 1) <= 0)
			continue;
		if (p[0].revents)
			read_signals();
		else if (p[1].revents)
			read_keys();
	}
}
