/* SPDX-License-Identifier: BSD-3-Clause */
/* The descriptors of the devices themselves. librdmacm opens a device once in a process, at whatever numbers are
 * free, and keeps it. They are moved out of the app's way by the first of us to whom it gives the device,
 * before anybody has used it, and spared by the app's close loops: doorbells of devices in
 * software are written to such a descriptor. */
#include <pthread.h>

#include "core/prov/verbs/verbs_int.h"

#define MOVED	32u	/* two for each device */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int moved[MOVED];
static unsigned n;

static int away(int fd, int floor)
{
	for (unsigned i = 0; i < n; i++)
		if (moved[i] == fd)
			return fd;
	if (n == MOVED)
		return fd;
	moved[n] = rr_verbs_high(fd, floor);
	return moved[n++];
}

void rr_verbs_device(struct ibv_context *dev, int floor)
{
	pthread_mutex_lock(&lock);
	dev->cmd_fd = away(dev->cmd_fd, floor);
	dev->async_fd = away(dev->async_fd, floor);
	pthread_mutex_unlock(&lock);
}

static void back(int fd)
{
	for (unsigned i = 0; i < n; i++) {
		if (moved[i] != fd)
			continue;
		rr_verbs_own_fd(fd, false);
		moved[i] = moved[--n];
		return;
	}
}

void rr_verbs_device_gone(const struct ibv_context *dev)
{
	pthread_mutex_lock(&lock);
	back(dev->cmd_fd);
	back(dev->async_fd);
	pthread_mutex_unlock(&lock);
}

void rr_verbs_device_forked(void)
{
	pthread_mutex_init(&lock, NULL);
	while (n)
		rr_verbs_own_fd(moved[--n], false);
}
