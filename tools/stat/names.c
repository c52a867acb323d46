/* SPDX-License-Identifier: BSD-3-Clause */
/* Names of well-known programs and procedures. The table is fixed: output that programs read
 * must not depend on the /etc/rpc of the host where it was made. */
#include "tools/stat/names.h"

#include <stddef.h>
#include <string.h>

/* Versions lo to hi of a program. names: of its procedures from 0 on, separated by spaces; "-"
 * for a number without a procedure. */
static const struct program {
	uint32_t number, lo, hi;
	const char *name, *names;
} programs[] = {
    {100000, 2, 2, "portmap", "NULL SET UNSET GETPORT DUMP CALLIT"},
    {100000, 3, 4, "rpcbind",
     "NULL SET UNSET GETADDR DUMP BCAST GETTIME UADDR2TADDR TADDR2UADDR GETVERSADDR "
     "INDIRECT GETADDRLIST GETSTAT"},
    {100003, 2, 2, "nfs",
     "NULL GETATTR SETATTR ROOT LOOKUP READLINK READ WRITECACHE WRITE CREATE REMOVE "
     "RENAME LINK SYMLINK MKDIR RMDIR READDIR STATFS"},
    {100003, 3, 3, "nfs",
     "NULL GETATTR SETATTR LOOKUP ACCESS READLINK READ WRITE CREATE MKDIR SYMLINK MKNOD "
     "REMOVE RMDIR RENAME LINK READDIR READDIRPLUS FSSTAT FSINFO PATHCONF COMMIT"},
    {100003, 4, 4, "nfs", "NULL COMPOUND"},
    {0x40000000, 0, UINT32_MAX, "nfs_cb", "CB_NULL CB_COMPOUND"},
    {100227, 2, 2, "nfs_acl", "NULL GETACL SETACL GETATTR ACCESS"},
    {100227, 3, 3, "nfs_acl", "NULL GETACL SETACL"},
    {100005, 1, 3, "mount", "NULL MNT DUMP UMNT UMNTALL EXPORT EXPORTALL PATHCONF"},
    {100021, 1, 4, "nlm",
     "NULL TEST LOCK CANCEL UNLOCK GRANTED TEST_MSG LOCK_MSG CANCEL_MSG UNLOCK_MSG "
     "GRANTED_MSG TEST_RES LOCK_RES CANCEL_RES UNLOCK_RES GRANTED_RES - - - - SHARE "
     "UNSHARE NM_LOCK FREE_ALL"},
    {100024, 1, 1, "nsm", "NULL STAT MON UNMON UNMON_ALL SIMU_CRASH NOTIFY"},
    {100011, 1, 2, "rquota", "NULL GETQUOTA GETACTIVEQUOTA SETQUOTA SETACTIVEQUOTA"},
    {100004, 1, 2, "ypserv",
     "NULL DOMAIN DOMAIN_NONACK MATCH FIRST NEXT XFR CLEAR ALL MASTER ORDER MAPLIST"},
    {100007, 1, 3, "ypbind", "NULL DOMAIN SETDOM"},
    {100009, 1, 1, "yppasswd", "NULL UPDATE"},
    {100069, 1, 1, "ypxfrd", "NULL GETMAP"},
    {2112, 2, 2, "kadmin",
     "NULL CREATE_PRINCIPAL DELETE_PRINCIPAL MODIFY_PRINCIPAL RENAME_PRINCIPAL "
     "GET_PRINCIPAL CHPASS_PRINCIPAL CHRAND_PRINCIPAL CREATE_POLICY DELETE_POLICY "
     "MODIFY_POLICY GET_POLICY GET_PRIVS INIT GET_PRINCS GET_POLS SETKEY_PRINCIPAL "
     "SETV4KEY_PRINCIPAL CREATE_PRINCIPAL3 CHPASS_PRINCIPAL3 CHRAND_PRINCIPAL3 "
     "SETKEY_PRINCIPAL3 PURGEKEYS GET_STRINGS SET_STRING SETKEY_PRINCIPAL4 "
     "EXTRACT_KEYS"},
    {1298437, 0, UINT32_MAX, "glusterfs",
     "NULL STAT READLINK MKNOD MKDIR UNLINK RMDIR SYMLINK RENAME LINK TRUNCATE OPEN READ "
     "WRITE STATFS FLUSH FSYNC SETXATTR GETXATTR REMOVEXATTR OPENDIR FSYNCDIR ACCESS "
     "CREATE FTRUNCATE FSTAT LK LOOKUP READDIR INODELK FINODELK ENTRYLK FENTRYLK "
     "XATTROP FXATTROP FGETXATTR FSETXATTR RCHECKSUM SETATTR FSETATTR READDIRP RELEASE "
     "RELEASEDIR FREMOVEXATTR FALLOCATE DISCARD ZEROFILL IPC SEEK"},
    {14398633, 0, UINT32_MAX, "gluster_hndsk", "NULL SETVOLUME GETSPEC PING"},
    {34123456, 0, UINT32_MAX, "gluster_pmap",
     "NULL PORTBYBRICK BRICKBYPORT SIGNUP SIGNIN SIGNOUT"},
    {52743234, 0, UINT32_MAX, "gluster_cbk", "NULL FETCHSPEC INO_FLUSH"},
    {1238433, 0, UINT32_MAX, "gluster_mgmt", "NULL"},
    {1238463, 0, UINT32_MAX, "gluster_cli", "NULL"},
};

#define N (sizeof(programs) / sizeof(programs[0]))

/* Searches backwards, so that of an unknown version the name of the program's first entry
 * remains. */
const char *rr_name_program(uint32_t program, uint32_t version)
{
	const char *name = NULL;

	for (unsigned i = N; i-- > 0;) {
		if (programs[i].number != program)
			continue;
		name = programs[i].name;
		if (version >= programs[i].lo && version <= programs[i].hi)
			break;
	}
	return name;
}

/* The n-th word of names, in memory that the next call uses again; NULL if there are fewer, or
 * the word is "-". */
static const char *word(const char *names, uint32_t n)
{
	static char buf[32];
	size_t len;

	while (n-- && names)
		names = (names = strchr(names, ' ')) ? names + 1 : NULL;
	if (!names || *names == '-')
		return NULL;
	len = strcspn(names, " ");
	memcpy(buf, names, len);
	buf[len] = '\0';
	return buf;
}

/* Procedure 0 does nothing in every program (RFC 5531 §12). */
const char *rr_name_procedure(uint32_t program, uint32_t version, uint32_t procedure)
{
	for (unsigned i = 0; i < N; i++)
		if (programs[i].number == program && version >= programs[i].lo &&
		    version <= programs[i].hi)
			return word(programs[i].names, procedure);
	return procedure ? NULL : "NULL";
}
