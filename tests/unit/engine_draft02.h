/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_ENGINE_DRAFT02_H
#define RR_TEST_ENGINE_DRAFT02_H

/* One engine of dialect draft02, as client or as server. */

#include <errno.h>

#include "tests/lib/oneside.h"
#include "tests/unit/ulb_msg.h"

enum { MSG, NOMSG, MSGP, DONE, ERROR };

static struct one o;

static void start(bool connector);	/* a file's own */

static inline void d02_params(bool connector)
{
	one_params(&o, 0, connector);
	o.p.dialect = RR_DIALECT_DRAFT02;
}

static void start_client(void)
{
	start(true);
}

static void start_server(void)
{
	start(false);
}

static void finish(void)
{
	one_fini(&o);
}

#endif
