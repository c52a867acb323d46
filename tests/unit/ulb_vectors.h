/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TEST_ULB_VECTORS_H
#define RR_TEST_ULB_VECTORS_H

/* Messages as they went over the loopback: libnfs 4.0 and tests/apps/nfs41.py against
 * nfs-ganesha 4.3 with its back end VFS. Of long ones the first words are
 * here. */

#include "tests/lib/bytes.h"

struct vector {
	uint32_t len;		/* bytes of the message */
	uint32_t n;		/* words that are here */
	uint32_t w[64];
};

/* NFSv3 WRITE of 13 bytes, libnfs, call */
static const struct vector v3_write_call RR_UNUSED = { 132, 33, {
	0x60ad02d4, 0, 2, 0x000186a3, 3, 7,
	1, 0x0000001c, 0x010902ca, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0x00000018,
	0x43000001, 0x12443501, 0x6714b76a, 0x5a6c01b5, 0xc5a70066, 0x526fa700,
	0, 0, 0x0000000d, 0, 0x0000000d, 0x41414141,
	0x41414141, 0x41414141, 0x41000000,
} };

/* NFSv3 WRITE of 13 bytes, libnfs, its reply */
static const struct vector v3_write_reply RR_UNUSED = { 136, 34, {
	0x60ad02d4, 1, 0, 0, 0, 0,
	0, 0, 1, 1, 0x000001b0, 1,
	0, 0, 0, 0x0000000d, 0, 0x00001000,
	0, 0, 0x6c5a6ab7, 0x14670135, 0, 0x00a7c5b5,
	0x6b01bf23, 0x1223e018, 0x6b01bf23, 0x1254fbc7, 0x6b01bf23, 0x1254fbc7,
	0x0000000d, 0, 0x20bf016b, 0,
} };

/* NFSv3 READ of 13 bytes, call */
static const struct vector v3_read_call RR_UNUSED = { 108, 27, {
	0x60b202df, 0, 2, 0x000186a3, 3, 6,
	1, 0x0000001c, 0x010902d6, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0x00000018,
	0x43000001, 0x12443501, 0x6714b76a, 0x5a6c01b5, 0xc5a70066, 0x526fa700,
	0, 0, 0x0000000d,
} };

/* NFSv3 READ of 13 bytes, its reply */
static const struct vector v3_read_reply RR_UNUSED = { 144, 36, {
	0x60b202df, 1, 0, 0, 0, 0,
	0, 1, 1, 0x000001b0, 1, 0,
	0, 0, 0x0000000d, 0, 0x00001000, 0,
	0, 0x6c5a6ab7, 0x14670135, 0, 0x00a7c5b5, 0x6b01bf23,
	0x12b692b8, 0x6b01bf23, 0x1254fbc7, 0x6b01bf23, 0x1254fbc7, 0x0000000d,
	1, 0x0000000d, 0x41414141, 0x41414141, 0x41414141, 0x41000000,
} };

/* NFSv3 SYMLINK to "some/where1", call */
static const struct vector v3_symlink_call RR_UNUSED = { 148, 37, {
	0x60c8030b, 0, 2, 0x000186a3, 3, 0x0000000a,
	1, 0x0000001c, 0x01090302, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0x00000018,
	0x43000001, 0x12443501, 0x6714b76a, 0x5a6c01fd, 0xc2a7008c, 0x46ca6e00,
	4, 0x6d616465, 1, 0x000001ff, 0, 0,
	0, 0, 0, 0x0000000b, 0x736f6d65, 0x2f776865,
	0x72653100,
} };

/* NFSv3 SYMLINK to "some/where1", its reply */
static const struct vector v3_symlink_reply RR_UNUSED = { 264, 64, {
	0x60c8030b, 1, 0, 0, 0, 0,
	0, 1, 0x00000018, 0x43000001, 0x12443501, 0x6714b76a,
	0x5a6c0163, 0xc9a700f4, 0x5a3ac100, 1, 5, 0x000001ff,
	1, 0, 0, 0, 0x0000000b, 0,
	0, 0, 0, 0x6c5a6ab7, 0x14670135, 0,
	0x00a7c963, 0x6b01bf23, 0x153d5519, 0x6b01bf23, 0x153d5519, 0x6b01bf23,
	0x153d5519, 1, 0, 0x00001000, 0x6b01bf23, 0x13cf1f18,
	0x6b01bf23, 0x13cf1f18, 1, 2, 0x000001ff, 2,
	0, 0, 0, 0x00001000, 0, 0x00001000,
	0, 0, 0x6c5a6ab7, 0x14670135, 0, 0x00a7c2fd,
	0x6b01bf23, 0x15004c19, 0x6b01bf23, 0x153d5519,
} };

/* NFSv3 READLINK of "target/of-link", call */
static const struct vector v3_readlink_call RR_UNUSED = { 96, 24, {
	0x60c80309, 0, 2, 0x000186a3, 3, 5,
	1, 0x0000001c, 0x01090302, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0x00000018,
	0x43000001, 0x12443501, 0x6714b76a, 0x5a6c01b6, 0xc5a700ea, 0x69afc700,
} };

/* NFSv3 READLINK of "target/of-link", its reply */
static const struct vector v3_readlink_reply RR_UNUSED = { 136, 34, {
	0x60c80309, 1, 0, 0, 0, 0,
	0, 1, 5, 0x000001ff, 1, 0,
	0, 0, 0x0000000e, 0, 0, 0,
	0, 0x6c5a6ab7, 0x14670135, 0, 0x00a7c5b6, 0x6b01bf23,
	0x13921618, 0x6b01bf23, 0x13921618, 0x6b01bf23, 0x13921618, 0x0000000e,
	0x74617267, 0x65742f6f, 0x662d6c69, 0x6e6b0000,
} };

/* NFSv3 READDIRPLUS, call */
static const struct vector v3_readdirplus_call RR_UNUSED = { 120, 30, {
	0x60b602e5, 0, 2, 0x000186a3, 3, 0x00000011,
	1, 0x0000001c, 0x010902de, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0x00000018,
	0x43000001, 0x12443501, 0x6714b76a, 0x5a6c01fd, 0xc2a7008c, 0x46ca6e00,
	0, 0, 0, 0, 0x00002000, 0x00002000,
} };

/* NFSv3 READDIRPLUS, its reply */
static const struct vector v3_readdirplus_reply RR_UNUSED = { 576, 64, {
	0x60b602e5, 1, 0, 0, 0, 0,
	0, 1, 2, 0x000001ff, 2, 0,
	0, 0, 0x00001000, 0, 0x00001000, 0,
	0, 0x6c5a6ab7, 0x14670135, 0, 0x00a7c2fd, 0x6b01bf1f,
	0x022a849a, 0x6b01bf23, 0x1223e018, 0x6b01bf23, 0x1223e018, 0,
	0, 1, 0, 0x00a7c2fd, 1, 0x2e000000,
	0, 1, 1, 2, 0x000001ff, 2,
	0, 0, 0, 0x00001000, 0, 0x00001000,
	0, 0, 0x6c5a6ab7, 0x14670135, 0, 0x00a7c2fd,
	0x6b01bf1f, 0x022a849a, 0x6b01bf23, 0x1223e018, 0x6b01bf23, 0x1223e018,
	1, 0x00000018, 0x43000001, 0x12443501,
} };

/* NFSv4.0 PUTFH WRITE of 13 bytes, libnfs, call */
static const struct vector v40_write_call RR_UNUSED = { 164, 41, {
	0x60bb02f1, 0, 2, 0x000186a3, 4, 1,
	1, 0x0000001c, 0x010902ea, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0,
	0, 2, 0x00000016, 0x00000017, 0x43000001, 0x12443501,
	0x6714b76a, 0x5a6c0161, 0xc9a700e9, 0x02aff100, 0x00000026, 2,
	0x01000000, 0x20bf016b, 0x01000000, 0, 0, 0,
	0x0000000d, 0x41414141, 0x41414141, 0x41414141, 0x41000000,
} };

/* NFSv4.0 PUTFH WRITE of 13 bytes, libnfs, its reply */
static const struct vector v40_write_reply RR_UNUSED = { 68, 17, {
	0x60bb02f1, 1, 0, 0, 0, 0,
	0, 0, 2, 0x00000016, 0, 0x00000026,
	0, 0x0000000d, 0, 0x20bf016b, 0,
} };

/* NFSv4.0 PUTFH READ of 13 bytes, call */
static const struct vector v40_read_call RR_UNUSED = { 144, 36, {
	0x60bf02f9, 0, 2, 0x000186a3, 4, 1,
	1, 0x0000001c, 0x010902f2, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0,
	0, 2, 0x00000016, 0x00000017, 0x43000001, 0x12443501,
	0x6714b76a, 0x5a6c01b5, 0xc5a70066, 0x526fa700, 0x00000019, 2,
	0x02000000, 0x20bf016b, 0x01000000, 0, 0, 0x0000000d,
} };

/* NFSv4.0 PUTFH READ of 13 bytes, its reply */
static const struct vector v40_read_reply RR_UNUSED = { 76, 19, {
	0x60bf02f9, 1, 0, 0, 0, 0,
	0, 0, 2, 0x00000016, 0, 0x00000019,
	0, 1, 0x0000000d, 0x41414141, 0x41414141, 0x41414141,
	0x41000000,
} };

/* NFSv4.0 COMPOUND with READLINK of "target/of-link", call */
static const struct vector v40_readlink_call RR_UNUSED = { 144, 36, {
	0x61c8030a, 0, 2, 0x000186a3, 4, 1,
	1, 0x0000001c, 0x01090306, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0,
	0, 4, 0x00000016, 0x00000017, 0x43000001, 0x12443501,
	0x6714b76a, 0x5a6c01fd, 0xc2a7008c, 0x46ca6e00, 0x0000000f, 4,
	0x6c696e6b, 9, 2, 0x00100012, 0x0030a03a, 0x0000001b,
} };

/* NFSv4.0 COMPOUND with READLINK of "target/of-link", its reply */
static const struct vector v40_readlink_reply RR_UNUSED = { 192, 48, {
	0x61c8030a, 1, 0, 0, 0, 0,
	0, 0, 4, 0x00000016, 0, 0x0000000f,
	0, 9, 0, 2, 0x00100012, 0x0030a03a,
	0x00000058, 5, 0, 0x0000000e, 0, 0x00a7c5b6,
	0x000001ff, 1, 1, 0x30000000, 1, 0x30000000,
	0, 0, 0, 0x6b01bf23, 0x13921618, 0,
	0x6b01bf23, 0x13921618, 0, 0x6b01bf23, 0x13921618, 0x0000001b,
	0, 0x0000000e, 0x74617267, 0x65742f6f, 0x662d6c69, 0x6e6b0000,
} };

/* NFSv4.0 CREATE of a link to "some/where1", call */
static const struct vector v40_symlink_call RR_UNUSED = { 168, 42, {
	0x61c8030b, 0, 2, 0x000186a3, 4, 1,
	1, 0x0000001c, 0x01090306, 6, 0x6c69626e, 0x66730000,
	0, 0, 0, 0, 0, 0,
	0, 3, 0x00000016, 0x00000017, 0x43000001, 0x12443501,
	0x6714b76a, 0x5a6c01fd, 0xc2a7008c, 0x46ca6e00, 9, 2,
	0x00100012, 0x0030a03a, 6, 5, 0x0000000b, 0x736f6d65,
	0x2f776865, 0x72653100, 4, 0x6d616465, 0, 0,
} };

/* NFSv4.0 CREATE of a link to "some/where1", its reply */
static const struct vector v40_symlink_reply RR_UNUSED = { 188, 47, {
	0x61c8030b, 1, 0, 0, 0, 0,
	0, 0, 3, 0x00000016, 0, 9,
	0, 2, 0x00100012, 0x0030a03a, 0x00000058, 2,
	0, 0x00001000, 0, 0x00a7c2fd, 0x000001ff, 2,
	1, 0x30000000, 1, 0x30000000, 0, 0x00001000,
	0, 0x6b01bf23, 0x15004c19, 0, 0x6b01bf23, 0x157dba8e,
	0, 0x6b01bf23, 0x157dba8e, 6, 0, 0,
	0x18ea1a89, 0x825d588e, 0x18ea1a89, 0x8277e79d, 0,
} };

/* NFSv4.1 EXCHANGE_ID, tests/apps/nfs41.py, call */
static const struct vector v41_exchange_id_call RR_UNUSED = { 108, 27, {
	1, 0, 2, 0x000186a3, 4, 1,
	1, 0x00000014, 0, 0, 0, 0,
	0, 0, 0, 0, 1, 1,
	0x0000002a, 0x3c01679e, 0x6a687b64, 5, 0x6e667334, 0x31000000,
	0, 0, 0,
} };

/* NFSv4.1 EXCHANGE_ID, tests/apps/nfs41.py, its reply */
static const struct vector v41_exchange_id_reply RR_UNUSED = { 104, 26, {
	1, 1, 0, 0, 0, 0,
	0, 0, 1, 0x0000002a, 0, 0x6b01bf20,
	5, 1, 0x00060001, 0, 0, 0,
	2, 0x766d0000, 0x0000000f, 0x766d5f4e, 0x46532d47, 0x616e6573,
	0x68610000, 0,
} };

/* NFSv4.1 CREATE_SESSION, call */
static const struct vector v41_create_session_call RR_UNUSED = { 160, 40, {
	2, 0, 2, 0x000186a3, 4, 1,
	1, 0x00000014, 0, 0, 0, 0,
	0, 0, 0, 0, 1, 1,
	0x0000002b, 0x6b01bf20, 5, 1, 2, 0,
	0x00100000, 0x00100000, 0x00001000, 0x00000010, 8, 0,
	0, 0x00001000, 0x00001000, 0x00001000, 0x00000010, 8,
	0, 0x40000000, 1, 0,
} };

/* NFSv4.1 CREATE_SESSION, its reply */
static const struct vector v41_create_session_reply RR_UNUSED = { 124, 31, {
	2, 1, 0, 0, 0, 0,
	0, 0, 1, 0x0000002b, 0, 0x05000000,
	0x20bf016b, 0x01000000, 0, 1, 2, 0,
	0x00100000, 0x00100000, 0x00001000, 0x00000010, 8, 0,
	0, 0x00001000, 0x00001000, 0x00001000, 0x00000010, 8,
	0,
} };

/* NFSv4.1 SEQUENCE PUTROOTFH LOOKUP OPEN GETFH, call */
static const struct vector v41_open_call RR_UNUSED = { 192, 48, {
	4, 0, 2, 0x000186a3, 4, 1,
	1, 0x00000014, 0, 0, 0, 0,
	0, 0, 0, 0, 1, 4,
	0x00000035, 0x05000000, 0x20bf016b, 0x01000000, 0, 2,
	0, 7, 0, 0x00000018, 0x0000000f, 3,
	0x65787000, 0x00000012, 0, 0x00000403, 0, 0x6b01bf20,
	5, 5, 0x6f776e65, 0x72000000, 1, 0,
	0, 0, 0, 5, 0x6e657734, 0x31000000,
} };

/* NFSv4.1 SEQUENCE PUTROOTFH LOOKUP OPEN GETFH, its reply */
static const struct vector v41_open_reply RR_UNUSED = { 156, 39, {
	4, 1, 0, 0, 0, 0,
	0, 0, 4, 0x00000035, 0, 0x05000000,
	0x20bf016b, 0x01000000, 0, 2, 0, 7,
	7, 0, 0x00000018, 0, 0x0000000f, 0,
	0x00000012, 0, 1, 0x05000000, 0x20bf016b, 0x01000000,
	0, 0x18ea1a89, 0x827af996, 0x18ea1a89, 0x9c56d126, 4,
	0, 3, 0,
} };

/* NFSv4.1 SEQUENCE PUTFH WRITE of 100000 bytes, call */
static const struct vector v41_write_call RR_UNUSED = { 100176, 64, {
	6, 0, 2, 0x000186a3, 4, 1,
	1, 0x00000014, 0, 0, 0, 0,
	0, 0, 0, 0, 1, 3,
	0x00000035, 0x05000000, 0x20bf016b, 0x01000000, 0, 4,
	0, 7, 0, 0x00000016, 0x00000017, 0x43000001,
	0x12443501, 0x6714b76a, 0x5a6c0163, 0xc9a70067, 0xdc449800, 0x00000026,
	1, 0x05000000, 0x20bf016b, 0x01000000, 0, 0,
	0, 0x000186a0, 0x23c6d4d8, 0x269c5fc9, 0xd649b41e, 0xf8abbfa7,
	0xfc1f93b9, 0xae9f91fe, 0xc3c632e2, 0xf9cce6c4, 0x83bbe1b2, 0xc64bbf58,
	0xfa95d4f8, 0xa0b818b6, 0x8bcbac46, 0x99a523d4, 0x236510f3, 0x01ed8bd2,
	0x4a3e01cf, 0x3daec8a5, 0x78064c01, 0x2f608f7f,
} };

/* NFSv4.1 SEQUENCE PUTFH WRITE of 100000 bytes, its reply */
static const struct vector v41_write_reply RR_UNUSED = { 112, 28, {
	6, 1, 0, 0, 0, 0,
	0, 0, 3, 0x00000035, 0, 0x05000000,
	0x20bf016b, 0x01000000, 0, 4, 0, 7,
	7, 0, 0x00000016, 0, 0x00000026, 0,
	0x000186a0, 0, 0x20bf016b, 0,
} };

/* NFSv4.1 SEQUENCE PUTFH READ of 100000 bytes, call */
static const struct vector v41_read_call RR_UNUSED = { 172, 43, {
	0x00000016, 0, 2, 0x000186a3, 4, 1,
	1, 0x00000014, 0, 0, 0, 0,
	0, 0, 0, 0, 1, 3,
	0x00000035, 0x05000000, 0x20bf016b, 0x01000000, 0, 0x00000014,
	0, 7, 0, 0x00000016, 0x00000017, 0x43000001,
	0x12443501, 0x6714b76a, 0x5a6c0163, 0xc9a70067, 0xdc449800, 0x00000019,
	1, 0x05000000, 0x20bf016b, 0x01000000, 0, 0,
	0x000186a0,
} };

/* NFSv4.1 SEQUENCE PUTFH READ of 100000 bytes, its reply */
static const struct vector v41_read_reply RR_UNUSED = { 100104, 64, {
	0x00000016, 1, 0, 0, 0, 0,
	0, 0, 3, 0x00000035, 0, 0x05000000,
	0x20bf016b, 0x01000000, 0, 0x00000014, 0, 7,
	7, 0, 0x00000016, 0, 0x00000019, 0,
	0, 0x000186a0, 0x23c6d4d8, 0x269c5fc9, 0xd649b41e, 0xf8abbfa7,
	0xfc1f93b9, 0xae9f91fe, 0xc3c632e2, 0xf9cce6c4, 0x83bbe1b2, 0xc64bbf58,
	0xfa95d4f8, 0xa0b818b6, 0x8bcbac46, 0x99a523d4, 0x236510f3, 0x01ed8bd2,
	0x4a3e01cf, 0x3daec8a5, 0x78064c01, 0x2f608f7f, 0x968b42aa, 0x7c1ad187,
	0xe85656ae, 0x1e3a8f5e, 0x513e445a, 0x01903c3c, 0xa8dd3559, 0x11fb8114,
	0x6d3afd0b, 0xed3159a9, 0x3d35f951, 0xf6727208, 0x62c50f03, 0x32c6a535,
	0x3703f8b5, 0xbb57eb22, 0x3a5a6849, 0x3ecc40fb,
} };

#endif
