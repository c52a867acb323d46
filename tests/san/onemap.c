/* SPDX-License-Identifier: BSD-3-Clause */
/* Preloaded under ThreadSanitizer: a process that maps a memfd a second time gets the mapping that
 * it has. So when both ends of a connection are in one process, both touch the shared region at
 * the same addresses, and TSan judges what they say to each other. Otherwise it would take the two
 * mappings for different memory. */

#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct mapping {
	ino_t ino;
	void *base;
	size_t len;
	unsigned refs;
};

static struct mapping known[8192];

/* Built without a sanitizer, this lock is nothing that TSan sees: it orders nothing for the rest. */
static int locked;

static void lock(void)
{
	while (__atomic_exchange_n(&locked, 1, __ATOMIC_ACQUIRE))
		sched_yield();
}

static void unlock(void)
{
	__atomic_store_n(&locked, 0, __ATOMIC_RELEASE);
}

/* What TSan is told: the mapping was made before whoever gets it touches it. */
void __tsan_acquire(void *at) __attribute__((weak));
void __tsan_release(void *at) __attribute__((weak));

__attribute__((constructor)) static void init(void)
{
	pthread_atfork(lock, unlock, unlock);
}

static struct mapping *find(ino_t ino, const void *base)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (known[i].refs && (base ? known[i].base == base : known[i].ino == ino))
			return &known[i];
	return NULL;
}

static struct mapping *unused(void)
{
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		if (!known[i].refs)
			return &known[i];
	return NULL;
}

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void *real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	static void *(*fn)(void *, size_t, int, int, int, off_t);

	if (!fn)
		fn = (__typeof__(fn))(uintptr_t)real("mmap");
	return fn(at, len, prot, flags, fd, off);
}

static int real_munmap(void *base, size_t len)
{
	static int (*fn)(void *, size_t);

	if (!fn)
		fn = (__typeof__(fn))(uintptr_t)real("munmap");
	return fn(base, len);
}

/* A file without a name, mapped as a whole. */
static int is_memfd(void *at, int flags, int fd, off_t off, struct stat *st)
{
	return !at && !off && fd >= 0 && (flags & MAP_SHARED) && !fstat(fd, st) &&
	       S_ISREG(st->st_mode) && !st->st_nlink;
}

void *mmap(void *at, size_t len, int prot, int flags, int fd, off_t off)
{
	struct mapping *m;
	struct stat st;
	void *base;

	if (!is_memfd(at, flags, fd, off, &st))
		return real_mmap(at, len, prot, flags, fd, off);
	lock();
	m = find(st.st_ino, NULL);
	if (m && m->len == len) {
		m->refs++;
		base = m->base;
		if (__tsan_acquire)
			__tsan_acquire(m);
	} else {
		base = real_mmap(at, len, prot, flags, fd, off);
		m = base == MAP_FAILED || m ? NULL : unused();
		if (m)
			*m = (struct mapping){ st.st_ino, base, len, 1 };
		if (m && __tsan_release)
			__tsan_release(m);
	}
	unlock();
	return base;
}

int munmap(void *base, size_t len)
{
	struct mapping *m;
	int rc = 0;

	lock();
	m = find(0, base);
	if (m)
		m->refs--;
	if (!m || !m->refs)
		rc = real_munmap(base, len);
	unlock();
	return rc;
}
