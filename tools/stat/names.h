/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_STAT_NAMES_H
#define RR_STAT_NAMES_H

#include <stdint.h>

/* Names of well-known programs (lower case) and procedures (upper case), as in their protocols;
 * NULL: not known. They do not depend on the host's rpc(5). */
const char *rr_name_program(uint32_t program, uint32_t version);
const char *rr_name_procedure(uint32_t program, uint32_t version, uint32_t procedure);

#endif
