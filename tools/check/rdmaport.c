/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds the port of an RDMA device that belongs to the way to a peer. RDMA CM chooses it by the
 * address from which this host reaches the peer: on RoCE and iWARP a GID of the port is that
 * address; on InfiniBand it belongs to a network interface of the device (IPoIB). */
#include <arpa/inet.h>
#include <dirent.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "core/base/types.h"
#include "tools/check/check.h"

#define DEVICES "/sys/class/infiniband"
#define MOST_GIDS 256
#define MOST_PKEYS 128
#define SHOWN_PKEYS 8

/* The address of this host on the way to a peer, in each form in which it is looked for. */
struct way {
	char text[INET6_ADDRSTRLEN];
	char gid[40]; /* as files of sysfs write it */
	char iface[IF_NAMESIZE];
};

/* --- the way --- */

static const struct in6_addr *as_v6(const struct sockaddr *a, struct in6_addr *v6)
{
	if (a->sa_family == AF_INET6)
		return &((const struct sockaddr_in6 *)a)->sin6_addr;
	memset(v6, 0, sizeof(*v6));
	v6->s6_addr[10] = v6->s6_addr[11] = 0xff;
	memcpy(&v6->s6_addr[12], &((const struct sockaddr_in *)a)->sin_addr, 4);
	return v6;
}

static void find_iface(const struct in6_addr *own, char iface[IF_NAMESIZE])
{
	struct ifaddrs *all, *i;
	struct in6_addr v6;

	iface[0] = '\0';
	if (getifaddrs(&all))
		return;
	for (i = all; i; i = i->ifa_next)
		if (i->ifa_addr &&
		    (i->ifa_addr->sa_family == AF_INET || i->ifa_addr->sa_family == AF_INET6) &&
		    !memcmp(as_v6(i->ifa_addr, &v6), own, sizeof(*own)))
			snprintf(iface, IF_NAMESIZE, "%s", i->ifa_name);
	freeifaddrs(all);
}

/* Connecting a datagram socket makes the kernel choose the address, and sends nothing. */
static bool find_way(const struct sockaddr *peer, socklen_t len, struct way *w)
{
	int fd = socket(peer->sa_family, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	struct sockaddr_storage own;
	socklen_t own_len = sizeof(own);
	const struct in6_addr *a;
	struct in6_addr v6;
	bool ok;

	ok = fd >= 0 && !connect(fd, peer, len) &&
	     !getsockname(fd, (struct sockaddr *)&own, &own_len);
	if (fd >= 0)
		close(fd);
	if (!ok)
		return false;
	a = as_v6((struct sockaddr *)&own, &v6);
	if (IN6_IS_ADDR_V4MAPPED(a))
		inet_ntop(AF_INET, &a->s6_addr[12], w->text, sizeof(w->text));
	else
		inet_ntop(AF_INET6, a, w->text, sizeof(w->text));
	for (unsigned i = 0; i < 8; i++)
		sprintf(w->gid + 5 * i, "%02x%02x%s", a->s6_addr[2 * i], a->s6_addr[2 * i + 1],
			i < 7 ? ":" : "");
	find_iface(a, w->iface);
	return true;
}

/* --- ports --- */

/* The first line of a file; "" if it cannot be read. */
static void read_line_of(const char *path, char *out, size_t size)
{
	FILE *f = fopen(path, "re");

	out[0] = '\0';
	if (f && fgets(out, (int)size, f))
		out[strcspn(out, "\n")] = '\0';
	if (f)
		fclose(f);
}

static void read_port(const char *dev, const char *port, const char *file, char *out,
		      size_t size)
{
	char path[256];

	snprintf(path, sizeof(path), DEVICES "/%.60s/ports/%.10s/%.40s", dev, port, file);
	read_line_of(path, out, size);
}

/* The index of the way's address among the port's GIDs; -1: it is none of them. */
static int gid_index(const char *dev, const char *port, const struct way *w)
{
	char file[24], gid[64];

	for (int i = 0; i < MOST_GIDS; i++) {
		snprintf(file, sizeof(file), "gids/%d", i);
		read_port(dev, port, file, gid, sizeof(gid));
		if (!*gid)
			break;
		if (!strcmp(gid, w->gid))
			return i;
	}
	return -1;
}

/* Is the way's network interface one of the device's? Soft devices are bound to one by name. */
static bool has_iface(const char *dev, const struct way *w)
{
	char path[256], parent[IF_NAMESIZE + 2];

	if (!*w->iface)
		return false;
	snprintf(path, sizeof(path), "/sys/class/net/%s/device/infiniband/%.60s", w->iface,
		 dev);
	if (!access(path, F_OK))
		return true;
	snprintf(path, sizeof(path), DEVICES "/%.60s/parent", dev);
	read_line_of(path, parent, sizeof(parent));
	return !strcmp(parent, w->iface);
}

/* Writes the P_Keys of the port that are not empty. Two ends reach each other only under a
 * P_Key that both have, and of which one is a full member (the highest bit). */
static void pkeys_of(const char *dev, const char *port, char *out, size_t size)
{
	char file[24], key[16];
	unsigned shown = 0;

	out[0] = '\0';
	for (int i = 0; i < MOST_PKEYS && shown < SHOWN_PKEYS; i++) {
		snprintf(file, sizeof(file), "pkeys/%d", i);
		read_port(dev, port, file, key, sizeof(key));
		if (!*key)
			break;
		if (!(strtoul(key, NULL, 16) & 0x7fff))
			continue;
		snprintf(out + strlen(out), size - strlen(out), " %s", key);
		shown++;
	}
	if (!shown)
		snprintf(out, size, " none");
}

/* Describes a port that belongs to the way. gid: -1 if it does only by its network interface.
 */
static void put_port(const char *dev, const char *port, const struct way *w, int gid, char *out,
		     size_t size)
{
	char state[32], pkeys[128], *word;

	read_port(dev, port, "state", state, sizeof(state));
	word = strchr(state, ' '); /* "4: ACTIVE" */
	pkeys_of(dev, port, pkeys, sizeof(pkeys));
	if (gid >= 0)
		snprintf(out, size, "%s port %s is %s, GID %d is %s, P_Keys%s", dev, port,
			 word ? word + 1 : "in no known state", gid, w->text, pkeys);
	else
		snprintf(out, size, "%s port %s is %s, %s is its interface, P_Keys%s", dev,
			 port, word ? word + 1 : "in no known state", w->iface, pkeys);
}

/* A port with the GID is the one; otherwise one whose interface it is has no such GID. */
static bool look_at_ports(const char *dev, const struct way *w, char *out, size_t size)
{
	char path[256];
	struct dirent *e;
	bool found = false;
	int gid;
	DIR *d;

	snprintf(path, sizeof(path), DEVICES "/%.60s/ports", dev);
	d = opendir(path);
	while (d && !found && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		gid = gid_index(dev, e->d_name, w);
		found = gid >= 0 || has_iface(dev, w);
		if (found)
			put_port(dev, e->d_name, w, gid, out, size);
	}
	if (d)
		closedir(d);
	return found;
}

void rr_check_device_for(const struct sockaddr *peer, socklen_t len, char *out, size_t size)
{
	DIR *d = opendir(DEVICES);
	bool any = false, found = false;
	struct dirent *e;
	struct way w;

	out[0] = '\0';
	if (!d || !find_way(peer, len, &w)) {
		if (d)
			closedir(d);
		return;
	}
	while (!found && (e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		any = true;
		found = look_at_ports(e->d_name, &w, out, size);
	}
	closedir(d);
	if (any && !found)
		snprintf(out, size,
			 "no device has a GID of %s, from which %s leads to the server", w.text,
			 *w.iface ? w.iface : "an interface");
}
