# shellcheck shell=sh
# SPDX-License-Identifier: BSD-3-Clause
# For runners of tests: what a program needs whose library, or which itself, was built with SAN=.
# Without a sanitizer nothing of this does anything.

# san_env DIR: from here on reports go to DIR/san.PID. Files, since Criterion exits 0 after a leak or UBSan
# report in a child, and a daemon's stderr is anywhere. The library comes before the sanitizer's
# own, which is why it must not insist on being the first. SAN_SUPP: TSan's suppressions.
san_env() {
	export ASAN_OPTIONS="log_path=$1/san:verify_asan_link_order=0:detect_stack_use_after_return=1${ASAN_EXTRA:+:$ASAN_EXTRA}"
	export UBSAN_OPTIONS="log_path=$1/san:print_stacktrace=1"
	export TSAN_OPTIONS="log_path=$1/san:die_after_fork=0${SAN_SUPP:+:suppressions=$SAN_SUPP}${TSAN_EXTRA:+:$TSAN_EXTRA}"
}

# san_reports DIR: prints what was reported there and throws it away; false if that is nothing.
san_reports() {
	for san_first in "$1"/san.*; do break; done
	[ -e "$san_first" ] || return 1
	cat "$1"/san.* | head -n "${SAN_LINES:-80}"
	rm -f "$1"/san.*
}

# san_runtime LIBRARY: the sanitizer's library that it needs, for programs built without one; or nothing.
san_runtime() {
	! grep -q 'lib[at]san\.so' "$1" || ldd "$1" 2>/dev/null | sed -n 's/.*lib[at]san\.so.* => \([^ ]*\) .*/\1/p'
}
