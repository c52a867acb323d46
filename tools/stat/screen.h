/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_SCREEN_H
#define RR_STAT_SCREEN_H

/* The terminal of rdmarpc-stat --watch: its second screen, so that the first is as it was when
 * the program ends or is stopped. */

#include <stdbool.h>

/* Takes the terminal, if standard output is one that can be drawn on. False: it is not, nothing
 * has changed, and the rest is not called. At exit(), and when a signal ends or stops the
 * program, the terminal is given back. */
bool rr_screen_begin(void);

/* Draws lines of printable ASCII, as many and as much of each as there is room for, until the
 * next are drawn: also when the window's size changes. A copy of text is kept. */
void rr_screen_draw(const char *text);

/* Waits. A signal that ends the program does so here, or at the next call. Keys scroll all but
 * the first line; q ends the program with status 0. */
void rr_screen_wait(double secs);

#endif
