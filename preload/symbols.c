/* SPDX-License-Identifier: BSD-3-Clause */
/* The exported names, and nothing else: what links this is intercepted. */

#include "preload/time64.h"
#include "preload/wrap.h"

/* Names that no header declares; libc has them for its own macros. */
#define RR_CALL(ret, name, params, args, fallback) ret name params;
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) ret name vparams;
#define RR_ALIAS(ret, name, params, of, args) ret name params;
#define RR_VALIAS(ret, name, vparams, of, args, last) ret name vparams;
#include "preload/calls.def"

#define RR_CALL(ret, name, params, args, fallback) \
	RR_EXPORT ret name params { return rr_wrap_##name args; }
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) \
	RR_VALIAS(ret, name, vparams, name, args, last)
#define RR_ALIAS(ret, name, params, of, args) \
	RR_EXPORT ret name params { return rr_wrap_##of args; }
/* Whatever was passed, or nothing: one pointer-sized word holds it. */
#define RR_VALIAS(ret, name, vparams, of, args, last) \
	RR_EXPORT ret name vparams \
	{ \
		RR_LAST_ARG(arg, last); \
		return rr_wrap_##of args; \
	}
#include "preload/calls.def"
