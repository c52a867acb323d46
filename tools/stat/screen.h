/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_SCREEN_H
#define RR_STAT_SCREEN_H

/* The terminal of rdmarpc-stat --watch. It uses the second screen, so that the first is
 * unchanged when the program ends or is stopped. */

#include <stdbool.h>

/* Takes the terminal if standard output is one that can be drawn on. False: it is not, nothing
 * has changed, and the other functions are not called. The terminal is given back at exit(),
 * and when a signal ends or stops the program. */
bool rr_screen_begin(void);

/* Draws lines of printable ASCII, as many and as much of each as there is room for. They are
 * drawn again when the window's size changes, until the next text. A copy of text is kept. */
void rr_screen_draw(const char *text);

/* Waits. A signal that ends the program does so here, or at the next call. Keys scroll all
 * lines but the first; q ends the program with status 0. */
void rr_screen_wait(double secs);

#endif
