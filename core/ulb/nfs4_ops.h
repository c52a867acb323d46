/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_ULB_NFS4_OPS_H
#define RR_ULB_NFS4_OPS_H

/* Types that the operations of NFS version 4 and of its callbacks share, as formats
 * (binding.h): RFC 7531, 5662, 7863. */

#include "core/ulb/binding.h"

#define STATEID		"w4"
#define SESSIONID	"w4"
#define CLIENTID	"w2"
#define VERIFIER	"w2"
#define OFFSET		"w2"
#define LENGTH		"w2"
#define TIME		"w3"
#define DEVICEID	"w4"
#define FH		"o128"
#define STRING		"o"
#define NAME		"o" RR_ULB_NAME
#define OWNER		CLIENTID "o1024"
#define BITMAP		"[w]8"
#define FATTR		"[w]o"
#define CHANGE_INFO	"w5"
#define STATUS		"w"

#define ACE		"w3" NAME
#define SPACE_LIMIT	"{1:w2|2:w2|:}"
#define READ_DELEG	STATEID "w" ACE
#define WRITE_DELEG	STATEID "w" SPACE_LIMIT ACE
/* 4, 5: RFC 9754 */
#define DELEGATION	"{0:|1:" READ_DELEG "|2:" WRITE_DELEG "|3:{1:w|2:w|:}|4:" READ_DELEG \
			"|5:" WRITE_DELEG "}"

/* Attributes and how many bytes each takes at most. */
#define RR_ULB_NFS4_ATTRS	87u
extern const uint16_t rr_ulb_nfs4_attrs[RR_ULB_NFS4_ATTRS];

#endif
