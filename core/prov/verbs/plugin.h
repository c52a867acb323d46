/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_PLUGIN_H
#define RR_VERBS_PLUGIN_H

/* The one function that librpcrdma_verbs.so exports, RR_VERBS_ENTRY. It returns the provider,
 * or NULL if the plugin was built for another version of the library. */

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/prov.h"

#define RR_VERBS_PLUGIN	"librpcrdma_verbs.so"
#define RR_VERBS_ENTRY	"rr_verbs_plugin"
/* This number must change with every change of struct rr_prov_ops, rr_prov_params, rr_qp, rr_wc
 * or of this file. */
#define RR_VERBS_ABI	10u

#define RR_VERBS_SAY	32u
/* For programs that judge peers (rdmarpc-conform): bytes that native peers get in place of our
 * private data (RFC 8797). */
struct rr_verbs_say {
	bool instead;
	uint8_t len;
	uint8_t bytes[RR_VERBS_SAY];
};

/* What the plugin needs from the library. */
struct rr_verbs_env {
	const struct rr_os *os;
	void (*own_fd)(int fd, bool own);	/* rr_ownfd_set() */
	int (*raise_fd)(int fd);		/* rr_ownfd_raise() */
	void (*on_refused)(rr_refused_fn *fn);	/* sets rr_refused; may be NULL */
	void (*at_exit)(void);			/* called when the process exits; may be NULL */
	bool no_windows;			/* for tests: as if the device had no windows */
	/* for tests: as if the device were trusted with remote invalidation */
	bool invite;
	/* An asynchronous event of a device that ends so many connections, or of a port of it
	 * (0: of none). May be NULL. */
	void (*on_event)(const char *device, const char *event, unsigned port, unsigned ended);
	/* read for each native connection; NULL: our own private data is sent */
	const struct rr_verbs_say *say;
};

typedef const struct rr_prov_ops *rr_verbs_plugin_fn(uint32_t abi,
						     const struct rr_verbs_env *env);

#endif
