/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_VERBS_PLUGIN_H
#define RR_VERBS_PLUGIN_H

/* What librpcrdma_verbs.so exports: its provider, or NULL if it was built for another
 * library. */

#include "core/base/os.h"
#include "core/base/ownfd.h"
#include "core/prov/prov.h"

#define RR_VERBS_PLUGIN	"librpcrdma_verbs.so"
#define RR_VERBS_ENTRY	"rr_verbs_plugin"
/* Changes with every change of struct rr_prov_ops, rr_prov_params, rr_qp, rr_wc or what is
 * here. */
#define RR_VERBS_ABI	8u

#define RR_VERBS_SAY	32u
/* What native peers are told instead of our private data (RFC 8797): nothing, or any bytes. */
struct rr_verbs_say {
	bool instead;
	uint8_t len;
	uint8_t bytes[RR_VERBS_SAY];
};

/* What the plugin needs of the library. */
struct rr_verbs_env {
	const struct rr_os *os;
	void (*own_fd)(int fd, bool own);	/* rr_ownfd_set() */
	void (*on_refused)(rr_refused_fn *fn);	/* sets rr_refused; may be NULL */
	void (*at_exit)(void);			/* to be called when the process exits; may be
						 * NULL */
	bool no_windows;			/* as on a device without them; for tests */
	bool invite;				/* as on one that stands remote invalidation;
						 * for tests */
	const struct rr_verbs_say *say;		/* read at each connection; NULL. For who judges
						 * peers */
};

typedef const struct rr_prov_ops *rr_verbs_plugin_fn(uint32_t abi,
						     const struct rr_verbs_env *env);

#endif
