/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_SETUP_H
#define RR_SETUP_H

/* Hands the configuration to the layers below, in the order of the stages in init.c. Each is
 * called once, on one thread; errno may change. */

void rr_setup_conf(void);	/* reads file and environment */
void rr_setup_log(void);	/* and reports what was wrong with them */
void rr_setup_conn(void);

#endif
