# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=sh
# Sourced: tshark with its memory in huge pages, without which a third of its start, and so of its time, are page faults.
tshark() { GLIBC_TUNABLES=glibc.malloc.hugetlb=1:glibc.malloc.top_pad=67108864 command tshark "$@"; }
