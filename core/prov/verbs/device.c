/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process knows about each device: its descriptors, and what it was found unable to
 * do. The trials themselves are prove.c's.
 *
 * librdmacm opens a device once in a process, with descriptors at whatever numbers are free,
 * and keeps it open. The first connection or listener on the device moves the descriptors out
 * of the app's way before anybody uses them, and hides them from the app's close loops:
 * doorbells of software devices are written to such a descriptor. */
#include <pthread.h>

#include "core/prov/verbs/rdmacm.h"

#define DEVICES	16u	/* further devices are not remembered */

struct device {
	const struct ibv_context *ctx;
	int cmd, async;		/* its descriptors */
	enum rr_verbs_proof windows;
	bool no_inv;
	bool failed;		/* it has said so, and not been back since */
	uint64_t down;		/* bits: ports whose link is down, as it has said */
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICES];
static unsigned ndevices;

/* NULL: not known. Called with the lock held. */
static struct device *find_device(const struct ibv_context *ctx)
{
	for (unsigned i = 0; i < ndevices; i++)
		if (devices[i].ctx == ctx)
			return &devices[i];
	return NULL;
}

/* The last entry takes the place of d. Called with the lock held. */
static void forget(struct device *d)
{
	rr_verbs_process_own_fd(d->cmd, false);
	rr_verbs_process_own_fd(d->async, false);
	*d = devices[--ndevices];
}

/* The new numbers are stored in the context itself, where libibverbs and its drivers look for
 * them. Nobody else may be using the device then: its user calls this first. */
void rr_verbs_device(struct ibv_context *ctx)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d && (d->cmd != ctx->cmd_fd || d->async != ctx->async_fd)) {
		forget(d);	/* another device that was opened at the same address */
		d = NULL;
	}
	if (!d && ndevices < DEVICES) {
		ctx->cmd_fd = rr_verbs_process_raise_fd(ctx->cmd_fd);
		ctx->async_fd = rr_verbs_process_raise_fd(ctx->async_fd);
		devices[ndevices++] = (struct device){ .ctx = ctx, .cmd = ctx->cmd_fd,
						       .async = ctx->async_fd };
	}
	pthread_mutex_unlock(&lock);
}

void rr_verbs_device_gone(const struct ibv_context *ctx)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d)
		forget(d);
	pthread_mutex_unlock(&lock);
}

/* In the child no thread holds the lock, whatever it was in the parent. */
void rr_verbs_device_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	while (ndevices)
		forget(&devices[ndevices - 1]);
}

/* --- what it can ------------------------------------------------------------------------- */

/* A device that is not remembered (there are more than DEVICES) stays unproven: each connection
 * tries it anew. */
enum rr_verbs_proof rr_verbs_device_windows_of(const struct ibv_context *ctx)
{
	enum rr_verbs_proof is = RR_V_UNPROVEN;
	const struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d)
		is = d->windows;
	pthread_mutex_unlock(&lock);
	return is;
}

void rr_verbs_device_windows_are(const struct ibv_context *ctx, enum rr_verbs_proof is)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d)
		d->windows = is;
	pthread_mutex_unlock(&lock);
}

bool rr_verbs_device_no_inv(const struct ibv_context *ctx, bool found)
{
	struct device *d;
	bool is = found;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d)
		is = d->no_inv |= found;
	pthread_mutex_unlock(&lock);
	return is;
}

/* --- how it is --------------------------------------------------------------------------- */

static uint64_t port_bit(unsigned port)
{
	return port < 64 ? UINT64_C(1) << port : 0;
}

void rr_verbs_device_failed(const struct ibv_context *ctx)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d)
		d->failed = true;
	pthread_mutex_unlock(&lock);
}

/* A link that is up says that the device is back as well. */
void rr_verbs_device_port(const struct ibv_context *ctx, unsigned port, bool up)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d && up) {
		d->failed = false;
		d->down &= ~port_bit(port);
	} else if (d) {
		d->down |= port_bit(port);
	}
	pthread_mutex_unlock(&lock);
}

/* The event that a link is up again may be read by somebody else: an app that uses RDMA CM
 * itself has the same context. So the device is asked whether a link that was down still is. */
bool rr_verbs_device_serves(struct ibv_context *ctx, uint8_t port)
{
	struct ibv_port_attr a = { .state = IBV_PORT_NOP };
	bool failed = false, down = false;
	const struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d) {
		failed = d->failed;
		down = d->down & port_bit(port);
	}
	pthread_mutex_unlock(&lock);
	if (failed || !down)
		return !failed;
	if (ibv_query_port(ctx, port, &a) || a.state != IBV_PORT_ACTIVE)
		return false;
	rr_verbs_device_port(ctx, port, true);
	return true;
}
