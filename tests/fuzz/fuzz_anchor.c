/* SPDX-License-Identifier: BSD-3-Clause */
/* fuzz_conn, with a hostile end from the upgrade on that says most on the TCP connection: end
 * marks, correct and not, in parts, before and behind hatches, bytes that are neither, FIN and
 * reset. */
#define FUZZ_ANCHOR
#include "tests/fuzz/fuzz_conn.c"
