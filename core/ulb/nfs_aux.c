/* SPDX-License-Identifier: BSD-3-Clause */

/* MOUNT, NLM and NSM (RFC 1813, XNFS): nothing is eligible. RFC 8267 §5.1 has them go by TCP;
 * if they come all the same, most of their replies have a bound. A procedure that a table
 * leaves out has none. */

#include "core/base/compiler.h"
#include "core/ulb/binding.h"

#define FH2	"w8"

#define MOUNT(mnt) \
	[0] = { NULL, "" }, \
	[1] = { NULL, mnt },		/* MNT */ \
	[2] = { NULL, NULL },		/* DUMP */ \
	[3] = { NULL, "" },		/* UMNT */ \
	[4] = { NULL, "" },		/* UMNTALL */ \
	[5] = { NULL, NULL }		/* EXPORT */

static const struct rr_ulb_proc mount1[] = { MOUNT("{0:" FH2 "|:}") };
static const struct rr_ulb_proc mount3[] = { MOUNT("{0:o64[w]32|:}") };

const struct rr_ulb_binding rr_ulb_mount1 = {
	.prog = 100005, .vers = 1, .procs = mount1, .nprocs = rr_array_size(mount1),
};
const struct rr_ulb_binding rr_ulb_mount2 = {
	.prog = 100005, .vers = 2, .procs = mount1, .nprocs = rr_array_size(mount1),
};
const struct rr_ulb_binding rr_ulb_mount3 = {
	.prog = 100005, .vers = 3, .procs = mount3, .nprocs = rr_array_size(mount3),
};

#define NETOBJ	"o1024"
#define LOCKRES	NETOBJ "w"

/* holder: the words of offset and length, which are 64 bits wide from version 4 on. The
 * asynchronous procedures 6 to 15 return nothing. */
#define NLM(holder) \
	[0] = { NULL, "" }, \
	[1] = { NULL, NETOBJ "{1:w2" NETOBJ holder "|:}" },	/* TEST */ \
	[2] = { NULL, LOCKRES }, [3] = { NULL, LOCKRES },	/* LOCK, CANCEL */ \
	[4] = { NULL, LOCKRES }, [5] = { NULL, LOCKRES },	/* UNLOCK, GRANTED */ \
	[6] = { NULL, "" }, [7] = { NULL, "" }, [8] = { NULL, "" }, [9] = { NULL, "" }, \
	[10] = { NULL, "" }, [11] = { NULL, "" }, [12] = { NULL, "" }, [13] = { NULL, "" }, \
	[14] = { NULL, "" }, [15] = { NULL, "" }

#define NLM_SHARES \
	[20] = { NULL, NETOBJ "w2" }, [21] = { NULL, NETOBJ "w2" }, /* SHARE, UNSHARE */ \
	[22] = { NULL, LOCKRES },				/* NM_LOCK */ \
	[23] = { NULL, "" }					/* FREE_ALL */

static const struct rr_ulb_proc nlm1[] = { NLM("w2") };
static const struct rr_ulb_proc nlm3[] = { NLM("w2"), NLM_SHARES };
static const struct rr_ulb_proc nlm4[] = { NLM("w4"), NLM_SHARES };

const struct rr_ulb_binding rr_ulb_nlm1 = {
	.prog = 100021, .vers = 1, .procs = nlm1, .nprocs = rr_array_size(nlm1),
};
const struct rr_ulb_binding rr_ulb_nlm3 = {
	.prog = 100021, .vers = 3, .procs = nlm3, .nprocs = rr_array_size(nlm3),
};
const struct rr_ulb_binding rr_ulb_nlm4 = {
	.prog = 100021, .vers = 4, .procs = nlm4, .nprocs = rr_array_size(nlm4),
};

static const struct rr_ulb_proc nsm1[] = {
	[0] = { NULL, "" },
	[1] = { NULL, "w2" }, [2] = { NULL, "w2" },		/* STAT, MON */
	[3] = { NULL, "w" }, [4] = { NULL, "w" },		/* UNMON, UNMON_ALL */
	[5] = { NULL, "" }, [6] = { NULL, "" },			/* SIMU_CRASH, NOTIFY */
};

const struct rr_ulb_binding rr_ulb_nsm1 = {
	.prog = 100024, .vers = 1, .procs = nsm1, .nprocs = rr_array_size(nsm1),
};
