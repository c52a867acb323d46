#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# make install: what is installed works from where it is, and uninstall leaves nothing.
. "$(dirname "$0")/lib"
trap 'rm -rf "$T" "build-install.$$"' EXIT
[ -e "$BUILD/librpcrdma_shim.so" ] || { echo "librpcrdma_shim.so is not built"; exit 1; }
# A copy is installed: another prefix makes what contains it anew, while other tests run what is there.
# Linked without the optimizer, which would take most of the time of this test.
b=build-install.$$
mkdir "$b" && cp -a "$BUILD"/gen "$BUILD"/obj "$BUILD"/*.a "$BUILD"/*.so "$BUILD"/rdmarpc-* "$b" || exit 1
make -s LTO= LDFLAGS=-fno-lto BUILD="$b" install DESTDIR="$T/dest" PREFIX=/opt/r VERSION=7.6.5 >/dev/null || exit 1
p=$T/dest/opt/r
for f in lib/librpcrdma_shim.so bin/rdmarpc-run bin/rdmarpc-stat bin/rdmarpc-check share/man/man1/rdmarpc-check.1 bin/rdmarpc-dump share/man/man1/rdmarpc-dump.1 bin/rdmarpc-conform share/man/man1/rdmarpc-conform.1 \
	share/rdmarpc/conform/rfc8166/null-call.case share/man/man7/rdmarpc.7 \
	share/man/man5/rdmarpc.conf.5 share/man/man1/rdmarpc-run.1 share/man/man1/rdmarpc-stat.1 \
	share/doc/rdmarpc/rdmarpc.conf.example lib/tmpfiles.d/rdmarpc.conf share/zsh/site-functions/_rdmarpc \
	share/bash-completion/completions/rdmarpc-stat; do
	[ -f "$p/$f" ] || is "installed: $f" missing there
done
version=$(sed -n 's/^VERSION := //p' Makefile)
# The library says it in its statistics; of what is linked from objects no other is left.
is "another version is built in" "$(grep -lr 7.6.5 "$p/bin" "$p/lib/librpcrdma_shim.so" | wc -l)" 6
is "and the one before is not" "$(grep -lrF "$version" "$p/bin" "$p/lib/librpcrdma_shim.so")" ""
mkdir "$T/alone" && cp "$p/bin/rdmarpc-run" "$T/alone"
"$T/alone/rdmarpc-run" true 2>"$T/err"
is "the prefix of this installation is built in" "$(grep -c /opt/r/lib "$T/err")" 1
# shellcheck disable=SC2016
complete='. "$0"; COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)); compopt() { :; }
	_rdmarpc "$1" "${!#}" "${COMP_WORDS[COMP_CWORD - 1]}"; echo "${COMPREPLY[@]}"'
completed() {	# WORD...: what bash offers for the last
	PATH=$p/bin:$PATH bash -c "$complete" "$p/share/bash-completion/completions/rdmarpc-run" "$@"
}
is "an option is completed" "$(completed rdmarpc-run --print-c)" --print-config
is "so is one of rdmarpc.conf" "$(completed rdmarpc-run -o spi)" spin_us=
is "a program by name" "$(completed rdmarpc-check host nf | grep -cw nfs)" "$(grep -c "^nfs[[:space:]]" /etc/rpc)"
is "so is a key to sort by" "$(completed rdmarpc-stat --sort = by)" bytes
is "so is a dialect" "$(completed rdmarpc-conform --dialect dr)" draft02
RDMARPC_RUN_DIR=$T/run
export RDMARPC_RUN_DIR
is "rdmarpc-run finds the library" "$("$p/bin/rdmarpc-run" sh -c 'echo $LD_PRELOAD')" \
	"$p/lib/librpcrdma_shim.so"
"$p/bin/rdmarpc-run" -c "$p/share/doc/rdmarpc/rdmarpc.conf.example" true 2>"$T/err"
is "the example is a correct configuration" "$?:$(cat "$T/err")" "0:"
sed 's/^#\([a-z[]\)/\1/' rdmarpc.conf.example >"$T/all.conf"
"$p/bin/rdmarpc-run" -c "$T/all.conf" true 2>"$T/err"
is "so it is with every line in force" "$?:$(cat "$T/err")" "0:"
mkdir -m 755 "$RDMARPC_RUN_DIR"
"$p/bin/rdmarpc-stat" >/dev/null 2>&1
is "rdmarpc-stat runs" "$?" 0
has "rdmarpc-check finds the library" "$("$p/bin/rdmarpc-check")" "$p/lib/librpcrdma_shim.so"
make -s BUILD="$b" uninstall DESTDIR="$T/dest" PREFIX=/opt/r >/dev/null
is "uninstall" "$(find "$T/dest" ! -type d)" ""
finish
