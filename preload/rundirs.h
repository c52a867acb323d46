/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_RUNDIRS_H
#define RR_RUNDIRS_H

/* The run directories of this process. They are found, made where they may be, and complained
 * about when they are first needed, which a process with a call or two does not come to:
 * looking costs it half a dozen system calls. Any thread and any signal handler may ask; errno
 * is left alone. */

/* configured: the option run_dir, "" for none; kept by reference. Called before the rest. */
void rr_rundirs_setup(const char *configured);

/* The one for what this process makes for itself; "": none. */
const char *rr_rundirs_own(void);

/* The one in which ends of other network namespaces meet (rr_rundir_meet()); "": none. */
const char *rr_rundirs_meet(void);

#endif
