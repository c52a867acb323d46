/* SPDX-License-Identifier: BSD-3-Clause */

/* The largest size of each attribute of NFS version 4 (RFC 7530 §5, RFC 5661 §5, RFC 7862
 * §12.2, RFC 8275, RFC 8276, RFC 9754), for bounds of GETATTR. RFC 8267 §6.2: ACLs, locations
 * and layouts have none. */

#include "core/base/compiler.h"
#include "core/ulb/nfs4_ops.h"

#define ANY	RR_ULB_ATTR_ANY
#define BITS	(4 + 4 * 8)
#define WHO	(4 + 512)

const uint16_t rr_ulb_nfs4_attrs[RR_ULB_NFS4_ATTRS] = {
	/*  0 supported_attrs, type, fh_expire_type, change, size, link, symlink, named_attr */
	BITS, 4, 4, 8, 8, 4, 4, 4,
	/* 8 fsid, unique_handles, lease_time, rdattr_error, acl, aclsupport, archive,
	 * cansettime */
	16, 4, 4, 4, ANY, 4, 4, 4,
	/* 16 case_insensitive, case_preserving, chown_restricted, filehandle, fileid,
	 * files_* */
	4, 4, 4, 4 + 128, 8, 8, 8, 8,
	/* 24 fs_locations, hidden, homogeneous, maxfilesize, maxlink, maxname, maxread,
	 * maxwrite */
	ANY, 4, 4, 8, 4, 4, 8, 8,
	/* 32 mimetype, mode, no_trunc, numlinks, owner, owner_group, quota_avail_* */
	ANY, 4, 4, 4, WHO, WHO, 8, 8,
	/* 40 quota_used, rawdev, space_avail, _free, _total, _used, system, time_access */
	8, 8, 8, 8, 8, 8, 4, 12,
	/* 48 time_access_set, _backup, _create, _delta, _metadata, _modify, _modify_set,
	 * mounted_on_fileid */
	16, 12, 12, 12, 12, 12, 16, 8,
	/* 56 dir_notif_delay, dirent_notif_delay, dacl, sacl, change_policy, fs_status,
	 * fs_layout_types, layout_hint */
	12, 12, ANY, ANY, 16, ANY, ANY, ANY,
	/* 64 layout_types, _blksize, _alignment, fs_locations_info, mdsthreshold,
	 * retention_get, _set, retentevt_get */
	ANY, 4, 4, ANY, ANY, 24, 16, 24,
	/* 72 retentevt_set, retention_hold, mode_set_masked, suppattr_exclcreat,
	 * fs_charset_cap, clone_blksize, space_freed, change_attr_type */
	16, 8, 8, BITS, 4, 4, 8, 4,
	/* 80 sec_label, mode_umask, xattr_support, offline, time_deleg_access, _modify,
	 * open_arguments */
	ANY, 8, 4, 4, 12, 12, 5 * BITS,
};
