/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_NEXT_H
#define RR_NEXT_H

/* The next definition of a function: the first one behind this library, and up to libc, in the
 * order in which the dynamic linker looks names up; NULL: there is none. The answer is that of
 * dlsym(RTLD_NEXT, name), but no lock is taken, nothing is allocated, and what dlerror() will
 * tell the app stays: so it may be asked anywhere, at any time, also in a signal handler and in
 * a forked child. dlsym() is called only where an object before libc has no table of the kind
 * that is looked into (DT_GNU_HASH), or chooses the function itself (STT_GNU_IFUNC). errno is
 * left alone. */
void *rr_next(const char *name);

#endif
