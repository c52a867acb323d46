/* SPDX-License-Identifier: BSD-3-Clause */
/* Our descriptors, and the channels on which RDMA CM reports events. What an event means is
 * decided elsewhere: by cm.c for a connection, by cm_setup.c for one that is being made, by
 * native_cm.c for a listener. */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/compiler.h"
#include "core/base/os.h"
#include "core/prov/verbs/rdmacm.h"

void rr_verbs_channel_close_fd(int fd)
{
	if (fd < 0)
		return;
	rr_verbs_process_own_fd(fd, false);
	rr_os->close(fd);
}

int rr_verbs_channel_quiet(int fd)
{
	int fl = rr_os->fcntl(fd, F_GETFL);

	return fl < 0 || rr_os->fcntl(fd, F_SETFL, fl | O_NONBLOCK) < 0 ? -errno : 0;
}

/* By system calls, because libc's names would lead into the wrappers of the preload library. */
int rr_verbs_channel_epoll(void)
{
	return rr_verbs_process_raise_fd((int)syscall(SYS_epoll_create1, EPOLL_CLOEXEC));
}

/* which: 0 for the CM's events, 1 for completions. */
int rr_verbs_channel_watch(int set, int fd, uint32_t which)
{
	struct epoll_event ev = { .events = EPOLLIN, .data.u32 = which };

	return syscall(SYS_epoll_ctl, set, EPOLL_CTL_ADD, fd, &ev) ? -errno : 0;
}

/* Opens a channel, non-blocking, with its descriptor out of the app's way. 0 or -errno
 * (-ECHILD: see rr_verbs_process_orphan); *cm may be set even then, and is the caller's to
 * free. */
int rr_verbs_channel(struct rdma_event_channel **cm)
{
	if (rr_verbs_process_orphan)
		return -ECHILD;
	*cm = rr_verbs_creds_open_channel();
	if (!*cm)
		return -errno;
	rr_verbs_process_used = true;
	/* librdmacm reads the number from here each time, so it can be replaced */
	(*cm)->fd = rr_verbs_process_raise_fd((*cm)->fd);
	return rr_verbs_channel_quiet((*cm)->fd);
}

void rr_verbs_channel_free(struct rdma_event_channel *cm)
{
	if (!cm)
		return;
	rr_verbs_process_own_fd(cm->fd, false);
	rdma_destroy_event_channel(cm);
}

void rr_verbs_channel_forked(const struct rdma_event_channel *cm)
{
	if (cm)
		rr_verbs_channel_close_fd(cm->fd);
}

struct rdma_event_channel *rr_verbs_channel_renew(struct rdma_event_channel **cm,
						  struct rdma_cm_id *id, int set)
{
	struct rdma_event_channel *now = NULL, *old = *cm;
	int rc = rr_verbs_channel(&now);

	/* The new channel is watched before the id moves to it, so that no event of the id can
	 * go unnoticed. */
	if (!rc && !(rc = rr_verbs_channel_watch(set, now->fd, 0)) &&
	    rr_creds_migrate_id(id, now))
		rc = -errno;
	if (rc) {
		rr_verbs_channel_free(now);
		errno = -rc;
		return NULL;
	}
	syscall(SYS_epoll_ctl, set, EPOLL_CTL_DEL, old->fd, NULL);
	*cm = now;
	return old;
}

/* See rdmacm.h. The length of private data has eight bits, so data has room for whatever the
 * peer sends. */
bool rr_verbs_channel_event(struct rdma_event_channel *cm, struct rdma_cm_event *out,
			    uint8_t data[UINT8_MAX])
{
	struct rdma_conn_param *p = &out->param.conn;
	struct rdma_cm_event *ev;

	if (rr_creds_get_event(cm, &ev))
		return false;
	*out = *ev;
	if (p->private_data)
		p->private_data = memcpy(data, p->private_data, p->private_data_len);
	rdma_ack_cm_event(ev);
	return true;
}
