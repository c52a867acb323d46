/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef PLAYED_RANDOM_H
#define PLAYED_RANDOM_H

/* Random numbers that a test counts and takes away. The file that asks for them is included between a #define of
 * rr_os_random as random_played and its #undef. */

#include "core/base/os.h"

static bool no_random;
static int random_asked;

static bool random_played(void *buf, size_t n)
{
	random_asked++;
	return !no_random && rr_os_random(buf, n);
}

#endif
