/* SPDX-License-Identifier: BSD-3-Clause */
/* What to change, by the reason for which a connection is on TCP. A reason without an entry
 * needs no advice: it is in order, or its text says all. docs/OPERATIONS.md says more. */
#include "tools/check/check.h"

#define AT_THE_SERVER                                                                          \
	"start the server with the library: rdmarpc-run, or for a unit of systemd "            \
	"rdmarpc-run --unit NAME --install"

static const char *const advice[RR_R_COUNT] = {
	[RR_R_DISABLED] = "option enabled is off: see rdmarpc-run --print-config",
	[RR_R_POLICY] =
		"a rule of the configuration, or option mode, says tcp: see rdmarpc-run "
		"--print-config",
	[RR_R_STOPPED] = "rdmarpc-stat --start lets connections be upgraded again",
	[RR_R_SERVER_SPOKE_FIRST] =
		"this server talks before it is asked, so it is none of ONC RPC",
	[RR_R_TLS] = "RPC-with-TLS stays on TCP; only connections without it can be carried",
	[RR_R_NO_SHIM] = AT_THE_SERVER,
	[RR_R_NEGATIVE_CACHE] =
		"the server had no library a moment ago: try again after negative_cache_s",
	[RR_R_TIMEOUT] =
		"the server has the library, but did not come to look within "
		"upgrade_timeout_ms; is it busy or stopped?",
	[RR_R_CLOSED_ON_OFFER] =
		"the server takes no unknown program numbers: a rule with mode = tcp for "
		"its port spares the attempt",
	[RR_R_NO_OFFER] = "the client has no library, its rules say tcp, or it made too few "
			  "calls on the connection (option offer_after)",
	[RR_R_DECLINED] =
		"the server's library declines: its log says why (log_level = info); most "
		"often its rules, another network namespace without a run directory in "
		"common, or no device that both can use",
	[RR_R_NO_PROVIDER] =
		"on one host both need the same run directory (containers: share "
		"/run/rdmarpc); between hosts both need an RDMA device and "
		"librpcrdma_verbs.so",
	[RR_R_NO_ROUTE] =
		"the way to the peer does not open: a firewall or another P_Key, VLAN or "
		"GID between the devices (ibv_rc_pingpong, rping); on one host another "
		"network namespace without a run directory in common",
	[RR_R_NO_FDS] = "raise RLIMIT_NOFILE of the process (LimitNOFILE= in its unit)",
	[RR_R_NO_MEMORY] =
		"lower memory, credits or inline_threshold, or raise the memory limit of "
		"the process",
	[RR_R_TOO_LARGE] = "raise max_message at both ends",
	[RR_R_PEER_CHOSE_TCP] =
		"the client could not join what the server chose: look at the client's "
		"reason",
	[RR_R_FORKED] =
		"a forked process uses the connection of its parent's device: shm carries "
		"it, verbs cannot",
	[RR_R_PROTOCOL] =
		"one end breaks the protocol: compare the releases at both ends, and "
		"report it with both logs",
	[RR_R_INTERNAL] = "please report it, with the log at log_level = debug",
	[RR_R_REQUIRED] =
		"a rule with mode = require refuses TCP; the reason before it is in the log",
	[RR_R_KERNEL_ONLY] =
		"the program uses the socket in a way that only the kernel serves: option "
		"diagnostics shows where",
	[RR_R_NO_DEVICE] =
		"between hosts both need an RDMA device (rdma link), permission for "
		"/dev/infiniband/rdma_cm and uverbs*, and librpcrdma_verbs.so; containers "
		"need the devices passed in",
	[RR_R_PORT_TAKEN] =
		"another process listens on the RDMA port: see rdma resource show cm_id",
	[RR_R_NO_NATIVE] =
		"nothing listens on the RDMA port of the rule: see rpcinfo -l or the "
		"server's settings",
	[RR_R_MEMLOCK] =
		"raise RLIMIT_MEMLOCK of the process (LimitMEMLOCK=infinity in its unit, "
		"or limits.conf)",
	[RR_R_NO_DIALECT] = "set option dialect, or the rule's, to one that the peer speaks",
	[RR_R_DIALECT] = "set option dialect to the same at both ends",
	[RR_R_DEVICE] =
		"look at rdma link and the kernel's log: the device or its link is down",
	[RR_R_ADDRESSES] =
		"a proxy, NAT or published port stands between: connect to the server's "
		"own address, or set bypass_proxies at the server if the proxy may be "
		"passed by",
	[RR_R_ABANDONED] = "the client did not take up the answer within upgrade_timeout_ms",
	[RR_R_FEW_CALLS] = "the connection made too few calls yet (option offer_after)",
	[RR_R_ONE_HOST] =
		"both ends are on this host, in different network namespaces: give both the "
		"same run directory (containers: mount /run/rdmarpc into both)",
	[RR_R_CGROUP] =
		"the control group of the process has as many RDMA objects as rdma.max "
		"allows (rdma.current): raise hca_object and hca_handle there",
	[RR_R_NOT_ASKED] =
		"a server on another host: both need an RDMA device and "
		"librpcrdma_verbs.so, and a non-blocking client asks only with offer_after = "
		"0; in another network namespace of this host: give both the same run "
		"directory (containers: mount /run/rdmarpc into both)",
	[RR_R_RELEASES] =
		"restart the process whose release is the older one (rdmarpc-stat shows "
		"each one's): it has the library from before the last installation",
	[RR_R_NOT_ANSWERED] =
		"the server has the library but does not answer offers that ride along: "
		"update it, or set offer_after = 0",
};

/* The number comes from another process's statistics, so it may be any. */
const char *rr_check_advice(enum rr_reason why)
{
	return (unsigned)why < RR_R_COUNT && advice[why] ? advice[why] : "";
}
