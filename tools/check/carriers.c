/* SPDX-License-Identifier: BSD-3-Clause */
/* A reason for each carrier that could have been used for a connection: from what the library
 * has noted of the upgrade at this end (struct rr_stat_told), what the server has told of its
 * own, and, for a carrier that was not tried, what this host lacks for it. */
#include <arpa/inet.h>
#include <limits.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config/conf.h"
#include "core/base/stats.h"
#include "tools/check/check.h"

const char *const rr_by_names[RR_BY_COUNT] = { "shm", "verbs", "native" };

/* What steps of the report are called. */
static const char *const titles[RR_BY_COUNT] = { "shared memory", "RDMA device",
						 "native RDMA" };

static const uint8_t ids[RR_BY_COUNT] = { RR_TOLD_SHM, RR_TOLD_VERBS, RR_TOLD_NATIVE };

/* The reason as it is of this carrier; reasons of a connection speak of all. */
static const char *text_of(enum rr_by by, unsigned why)
{
	if (why == RR_R_ONE_HOST)
		return "another network namespace of this host, without a run directory in "
		       "common";
	if (why == RR_R_DISABLED && by == RR_BY_DEVICE)
		return "option verbs is off";
	if (why == RR_R_NO_PROVIDER)
		return "it cannot be set up";
	if (why == RR_R_NO_ROUTE && by == RR_BY_SHM)
		return "our socket cannot be reached";
	if (why == RR_R_NO_ROUTE)
		return "the way does not open (a firewall, or another P_Key, VLAN or GID)";
	return rr_reason_text(why);
}

static bool is_loopback(const struct sockaddr *a)
{
	const struct in6_addr *v6 = &((const struct sockaddr_in6 *)a)->sin6_addr;

	if (a->sa_family == AF_INET)
		return ntohl(((const struct sockaddr_in *)a)->sin_addr.s_addr) >> 24 ==
		       IN_LOOPBACKNET;
	return IN6_IS_ADDR_LOOPBACK(v6) ||
	       (IN6_IS_ADDR_V4MAPPED(v6) && v6->s6_addr[12] == IN_LOOPBACKNET);
}

/* What this host lacks of an RDMA device, in the order in which the library asks for it; NULL:
 * nothing. */
static const char *lack_of_device(const char *library, const struct sockaddr *peer)
{
	static struct rr_conf conf;
	char plugin[PATH_MAX + 32];
	const char *slash = strrchr(library, '/');

	rr_conf_load(&conf, environ);
	snprintf(plugin, sizeof(plugin), "%.*s/librpcrdma_verbs.so",
		 slash ? (int)(slash - library) : 0, library);
	if (is_loopback(peer))
		return "no device leads to a loopback address";
	if (!conf.verbs)
		return "option verbs is off";
	if (access(plugin, R_OK))
		return "no librpcrdma_verbs.so beside the library";
	if (access("/dev/infiniband/rdma_cm", F_OK))
		return "no RDMA device, or its modules (rdma_ucm) are not loaded";
	if (access("/dev/infiniband/rdma_cm", R_OK | W_OK))
		return "no permission for /dev/infiniband/rdma_cm";
	return NULL;
}

/* Why a carrier was not even offered. why: the reason of the whole connection, or what kept
 * this program from calling at all. */
static void say_untried(struct rr_check_carrier *c, enum rr_by by,
			const struct rr_check_peer *p, const struct sockaddr *peer,
			const char *why)
{
	const char *lack = by == RR_BY_DEVICE ? lack_of_device(p->library, peer) : NULL;
	size_t size = sizeof(c->here);

	if (by == RR_BY_NATIVE && p->rdma_port)
		snprintf(
		    c->here, size,
		    "no rule has native for this server; rpcbind has the program at RDMA port "
		    "%u, which rdmarpc-run --resolve uses",
		    p->rdma_port);
	else if (by == RR_BY_NATIVE)
		snprintf(c->here, size, "no rule has native for this server");
	else if (lack)
		snprintf(c->here, size, "%s", lack);
	else
		snprintf(c->here, size, "%s", why);
}

/* Adds which port of a device the way to the server would take, to a failure that may be due to
 * it. */
static void add_device(struct rr_check_carrier *c, const struct sockaddr *peer, socklen_t len)
{
	char port[256];
	size_t n = strlen(c->here);

	if (is_loopback(peer))
		return;
	rr_check_device_for(peer, len, port, sizeof(port));
	if (*port)
		snprintf(c->here + n, sizeof(c->here) - n, "%s%s", n ? "; " : "", port);
}

static bool has_carried(const struct rr_proc_conn_brief *c, enum rr_by by)
{
	switch (by) {
	case RR_BY_SHM:
		return c->carrier == RR_CARRIER_SHM;
	case RR_BY_DEVICE:
		return c->carrier == RR_CARRIER_VERBS && c->state != RR_CS_NATIVE;
	default:
		return c->state == RR_CS_NATIVE;
	}
}

/* Judges a carrier of a connection that has been made. why: as for rr_check_carriers(). */
static void judge_carrier(struct rr_check_carrier *c, enum rr_by by,
			  const struct rr_check_peer *p, const struct sockaddr *peer,
			  socklen_t len, const struct rr_probe *probe, const char *why)
{
	unsigned here = probe->told.here[ids[by]], there = probe->told.there[ids[by]];
	unsigned all = probe->conn.reason; /* of the connection */
	bool carried = probe->conn.carrier > RR_CARRIER_TCP;

	if (has_carried(&probe->conn, by) && why) {
		snprintf(c->here, sizeof(c->here), "%s; with offer_after = 0 it carries", why);
		return;
	}
	if (has_carried(&probe->conn, by)) {
		c->state = RR_BY_USED;
		return;
	}
	if (here || there || (probe->told.offered[ids[by]] && !carried)) {
		c->state = RR_BY_FAILED;
		if (all == RR_R_NO_DEVICE && by == RR_BY_SHM)
			all = RR_R_DECLINED; /* and a device would have been the next */
		if (here || !there)
			snprintf(c->here, sizeof(c->here), "%s",
				 text_of(by, here ? here : all));
		if (there)
			snprintf(c->there, sizeof(c->there), "%s", text_of(by, there));
	} else {
		say_untried(c, by, p, peer,
			    carried ? "not needed" : rr_reason_text(probe->conn.reason));
	}
	if (by == RR_BY_DEVICE ? !carried : c->state == RR_BY_FAILED && by == RR_BY_NATIVE)
		add_device(c, peer, len);
}

/* A carrier that failed is a problem only where no other carries. */
static void report_carrier(struct rr_findings *to, const struct rr_check_carrier *c,
			   enum rr_by by, bool carried)
{
	enum rr_finding_kind bad = carried ? RR_V_NOTE : RR_V_FAIL;

	if (c->state == RR_BY_USED)
		rr_find(to, RR_V_OK, titles[by], "carries");
	else if (c->state == RR_BY_UNTRIED)
		rr_find(to, RR_V_NOTE, titles[by], "not tried: %s", c->here);
	else
		rr_find(to, bad, titles[by], "%s%s%s%s", c->here,
			*c->here && *c->there ? "; " : "", *c->there ? "the server says: " : "",
			c->there);
}

void rr_check_carriers(struct rr_findings *to, struct rr_check_peer *p,
		       const struct sockaddr *peer, socklen_t len, const struct rr_probe *probe,
		       const char *why)
{
	bool carried = probe && probe->conn.carrier > RR_CARRIER_TCP;

	for (enum rr_by by = 0; by < RR_BY_COUNT; by++) {
		struct rr_check_carrier *c = &p->by[by];

		*c = (struct rr_check_carrier){ 0 };
		if (probe)
			judge_carrier(c, by, p, peer, len, probe, why);
		else
			say_untried(c, by, p, peer, why);
		report_carrier(to, c, by, carried);
	}
}
