/* SPDX-License-Identifier: BSD-3-Clause */
/* What this process knows of each device: its descriptors, and what it has been found not to
 * be able to.
 *
 * librdmacm opens a device once in a process, with descriptors at whatever numbers are free,
 * and keeps it. The first connection or listener that is given the device moves them out of
 * the app's way, before anybody has used it, and they are spared by the app's close loops:
 * doorbells of devices in software are written to such a descriptor. */
#include <pthread.h>

#include "core/prov/verbs/rdmacm.h"

#define DEVICES	16u	/* of more than that nothing is remembered */

struct device {
	const struct ibv_context *ctx;
	int cmd, async;		/* its descriptors */
	enum rr_verbs_proof windows;
	bool no_inv;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct device devices[DEVICES];
static unsigned ndevices;

/* In the lock; NULL. */
static struct device *find_device(const struct ibv_context *ctx)
{
	for (unsigned i = 0; i < ndevices; i++)
		if (devices[i].ctx == ctx)
			return &devices[i];
	return NULL;
}

static void forget(struct device *d)
{
	rr_verbs_own_fd(d->cmd, false);
	rr_verbs_own_fd(d->async, false);
	*d = devices[--ndevices];
}

void rr_verbs_device(struct ibv_context *ctx, int floor)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d && (d->cmd != ctx->cmd_fd || d->async != ctx->async_fd)) {
		forget(d);	/* another device, which was opened where that one was */
		d = NULL;
	}
	if (!d && ndevices < DEVICES) {
		ctx->cmd_fd = rr_verbs_high(ctx->cmd_fd, floor);
		ctx->async_fd = rr_verbs_high(ctx->async_fd, floor);
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

void rr_verbs_device_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	while (ndevices)
		forget(&devices[ndevices - 1]);
}

/* --- what it can ------------------------------------------------------------------------- */

enum rr_verbs_proof rr_verbs_windows_of(const struct ibv_context *ctx)
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

void rr_verbs_windows_are(const struct ibv_context *ctx, enum rr_verbs_proof is)
{
	struct device *d;

	pthread_mutex_lock(&lock);
	d = find_device(ctx);
	if (d)
		d->windows = is;
	pthread_mutex_unlock(&lock);
}

bool rr_verbs_no_inv(const struct ibv_context *ctx, bool found)
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
