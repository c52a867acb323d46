/* SPDX-License-Identifier: BSD-3-Clause */
/* Threads that come for the process's segment at once get the same; threads that log while
 * others close its descriptor go on logging. */

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "core/base/ownfd.h"
#include "core/base/stats_abi.h"
#include "preload/logsink.h"
#include "preload/statseg.h"

#define THREADS	4
#define LINES	500

static pthread_barrier_t start;
static struct rr_stat_seg *got[THREADS];
static _Atomic bool stop;

static void *worker(void *arg)
{
	long me = (long)(intptr_t)arg;

	pthread_barrier_wait(&start);
	got[me] = rr_statseg_get(true);
	for (int i = 0; i < LINES; i++) {
		rr_stats_tcp(got[me], RR_R_POLICY);
		rr_warn("line %ld %d", me, i);
	}
	return NULL;
}

/* As an app that closes what it does not know, unseen by the wrappers. */
static void *closer(void *arg)
{
	(void)arg;
	while (!atomic_load(&stop)) {
		for (int fd = 100; fd < 5000; fd++)
			if (rr_ownfd_is(fd))
				syscall(SYS_close, fd);	/* TSan would call it a race, as it is */
		usleep(1000);
	}
	return NULL;
}

static int count_lines(const char *path)
{
	FILE *f = fopen(path, "r");
	int c, n = 0;

	while (f && (c = fgetc(f)) != EOF)
		n += c == '\n';
	if (f)
		fclose(f);
	return n;
}

static char dir[] = "/tmp/rr-stress-XXXXXX";

static const char *own_dir(void)
{
	return dir;
}

int main(void)
{
	char log[64], cmd[80];
	pthread_t t[THREADS], c;
	int lines, rc = 0;

	if (!mkdtemp(dir))
		return 1;
	snprintf(log, sizeof(log), "%s/log", dir);
	rr_statseg_setup(own_dir, "");
	rr_logsink_setup(RR_LOG_TO_FILE, log, RR_LOG_DEBUG);	/* at which no line is left out */
	pthread_barrier_init(&start, NULL, THREADS);
	pthread_create(&c, NULL, closer, NULL);
	for (long i = 0; i < THREADS; i++)
		pthread_create(&t[i], NULL, worker, (void *)(intptr_t)i);
	for (int i = 0; i < THREADS; i++)
		pthread_join(t[i], NULL);
	atomic_store(&stop, true);
	pthread_join(c, NULL);
	for (int i = 1; i < THREADS; i++)
		if (got[i] != got[0] || !got[0])
			rc = 1;
	if (got[0]->reasons[RR_R_POLICY] != (uint64_t)THREADS * LINES)
		rc = 2;
	/* A line is lost only if the close comes between the look and the write. */
	lines = count_lines(log);
	if (lines < THREADS * LINES * 9 / 10)
		rc = 3;
	printf("status %d, %d of %d lines\n", rc, lines, THREADS * LINES);
	snprintf(cmd, sizeof(cmd), "rm -rf %s", dir);
	return system(cmd) ? 1 : rc;
}
