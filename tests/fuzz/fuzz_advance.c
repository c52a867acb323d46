/* SPDX-License-Identifier: BSD-3-Clause */
/* The same of two ends that tell each other of long messages before their end: carried, by
 * version 1, over a provider that reads the other end's memory, with receives to spare for the
 * notes. One that finds no room now and then, so that a message is told of in part. */
#define FUZZ_ADVANCE
#include "tests/fuzz/fuzz_conn.c"
