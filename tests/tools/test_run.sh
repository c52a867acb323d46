#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-run: finds the library, sets the environment, execs, and says clearly when it cannot.
. "$(dirname "$0")/lib"
trap 'rm -rf "$T"' EXIT
CC=${CC:-cc}

# A library of no content: this is about what gets it into a program. Under a sanitizer the real one
# would not load into a plain program.
mkdir -p "$T/tree" "$T/pfx/bin" "$T/pfx/lib"
echo 'int rr_test_nothing;' | $CC -shared -fPIC -x c - -o "$T/tree/librpcrdma_shim.so" || exit 1
cp "$T/tree/librpcrdma_shim.so" "$T/pfx/lib"
cp "$BUILD/rdmarpc-run" "$T/tree"
cp "$BUILD/rdmarpc-run" "$T/pfx/bin"
run=$T/tree/rdmarpc-run

# status WANT ARGS...: runs, keeps what it printed in $out.
status() {
	want=$1
	shift
	out=$("$run" "$@" 2>&1)
	is "status of: $*" "$?" "$want"
}

status 0 sh -c 'echo $LD_PRELOAD'
is "library beside the tool" "$out" "$T/tree/librpcrdma_shim.so"
out=$("$T/pfx/bin/rdmarpc-run" sh -c 'echo $LD_PRELOAD')
is "library in ../lib" "$out" "$T/pfx/lib/librpcrdma_shim.so"
out=$(LD_PRELOAD=libc.so.6 "$run" sh -c 'echo $LD_PRELOAD')
is "what was preloaded stays" "$out" "$T/tree/librpcrdma_shim.so:libc.so.6"
status 0 --tirpc sh -c 'echo $LD_PRELOAD'
is "--tirpc" "$out" "$T/tree/librpcrdma_shim.so:libtirpc.so.3"

status 7 sh -c 'exit 7'
status 0 -- printf '%s|' a 'b c' ''
is "arguments arrive as they are" "$out" "a|b c||"
status 0 printf '%s|' -o x -c y
is "the program's own options are its own" "$out" "-o|x|-c|y|"

status 0 -o spin_us=5 -o credits=0x10 sh -c 'echo $RDMARPC_SPIN_US $RDMARPC_CREDITS'
is "-o sets the environment" "$out" "5 0x10"
echo 'credits = 5' >"$T/c.conf"
out=$(cd "$T" && "$run" -c c.conf sh -c 'echo $RDMARPC_CONF')
is "-c sets the absolute path" "$out" "$T/c.conf"
echo 'credits = many' >"$T/c.conf"
status 0 -c "$T/c.conf" echo ran
has "problems of the configuration are warnings" "$out" \
	"rdmarpc-run: warning: $T/c.conf:1:11: option 'credits': 'many' is not a number (allowed: 1..1024)"
has "and the program runs" "$out" "ran"

status 125
has "no program" "$out" "usage:"
status 125 -x true
status 125 -o credit=5 true
is "unknown option" "$out" "rdmarpc-run: no option 'credit', did you mean 'credits'?"
status 125 -o credits true
is "option without value" "$out" "rdmarpc-run: option 'credits' without a value: -o credits=value"
status 125 -o inline_threshold=1g true
is "wrong value" "$out" \
	"rdmarpc-run: option 'inline_threshold': '1g' is not in range (allowed: 1k..256k)"
status 125 -c "$T/none.conf" true
is "no such configuration" "$out" "rdmarpc-run: $T/none.conf: No such file or directory"

status 127 no-such-program
is "missing in PATH" "$out" "rdmarpc-run: no-such-program: no such program in PATH"
status 127 ./no/such
status 126 /tmp
is "directory" "$out" "rdmarpc-run: /tmp: Is a directory"
echo x >"$T/plain"
status 126 "$T/plain"
is "not executable" "$out" "rdmarpc-run: $T/plain: Permission denied"
out=$(PATH=$T:$T/absent "$run" plain 2>&1)
is "not executable in PATH" "$?:$out" "126:rdmarpc-run: plain: Permission denied"
printf '\177ELFx\0' >"$T/junk"
chmod +x "$T/junk"
status 126 "$T/junk"
is "junk" "$out" "rdmarpc-run: $T/junk is neither a program nor a script"

echo 'int main(void) { return 0; }' >"$T/m.c"
if $CC -static -o "$T/static" "$T/m.c" 2>/dev/null; then
	status 126 "$T/static"
	is "static" "$out" "rdmarpc-run: $T/static is statically linked: no library can be preloaded"
	printf '#!%s\n' "$T/static" >"$T/script"
	chmod +x "$T/script"
	status 126 "$T/script"
	has "interpreter that is static" "$out" "static is statically linked"
fi
if $CC -static-pie -o "$T/staticpie" "$T/m.c" 2>/dev/null; then
	status 126 "$T/staticpie"
	has "static-pie" "$out" "is statically linked"
fi
if $CC -m32 -nostdlib -pie -Wl,--dynamic-linker,/lib/ld-linux.so.2 -Wl,-e,main -o "$T/m32" "$T/m.c" 2>/dev/null; then
	status 126 "$T/m32"
	has "other class" "$out" "$T/m32 is a 32-bit program of machine 3, but $T/tree/librpcrdma_shim.so is 64-bit"
fi

if $CC -nostdlib -pie -Wl,--dynamic-linker,/lib/ld-musl-x86_64.so.1 -Wl,-e,main -o "$T/musl" "$T/m.c" 2>/dev/null; then
	status 126 "$T/musl"
	is "musl" "$out" "rdmarpc-run: $T/musl is a program of musl (/lib/ld-musl-x86_64.so.1): the library needs glibc"
fi
cat >"$T/go.c" <<'END'
__asm__(".section .note.go.buildid,\"a\",%note; .balign 4; .long 4, 8, 4; .asciz \"Go\\0\"; .quad 7; .text");
int main(void) { return 5; }
END
$CC -o "$T/go" "$T/go.c" || exit 1
status 5 "$T/go"
is "a Go program runs, with a word" "$out" \
	"rdmarpc-run: warning: $T/go is a Go program: what it sends by its own runtime stays on TCP, unseen by any preloaded library"

# Installed for two word sizes, as Debian has it.
if [ "$(uname -m)" = x86_64 ]; then
	for d in x86_64 i386; do
		mkdir -p "$T/both/lib/$d-linux-gnu"
		cp "$T/tree/librpcrdma_shim.so" "$T/both/lib/$d-linux-gnu"
	done
	cp "$BUILD/rdmarpc-run" "$T/both/lib/x86_64-linux-gnu"
	out=$("$T/both/lib/x86_64-linux-gnu/rdmarpc-run" sh -c 'echo $LD_PRELOAD; grep -o -m 1 "$0.*" /proc/self/maps' "$T" 2>&1)
	is "one name for both" "$out" "$T/both/\$LIB/librpcrdma_shim.so
$T/both/lib/x86_64-linux-gnu/librpcrdma_shim.so"
	rm "$T/both/lib/i386-linux-gnu/librpcrdma_shim.so"
	out=$("$T/both/lib/x86_64-linux-gnu/rdmarpc-run" sh -c 'echo $LD_PRELOAD' 2>&1)
	is "one library, its name" "$out" "$T/both/lib/x86_64-linux-gnu/librpcrdma_shim.so"
fi

printf '#!/bin/sh\necho $1\n' >"$T/script"
printf 'echo $1 by the shell\n' >"$T/bare"
printf '#! %s\n' "$T/nothing" >"$T/lost"
printf '#!%s/script\n' "$T" >"$T/chain"
chmod +x "$T/script" "$T/bare" "$T/lost" "$T/chain"
status 0 "$T/script" yes
is "script" "$out" "yes"
status 0 "$T/bare" yes
is "script without #!" "$out" "yes by the shell"
status 126 "$T/lost"
is "interpreter missing" "$out" \
	"rdmarpc-run: $T/nothing, the interpreter of $T/lost: No such file or directory"
printf '#!%s/loop\n' "$T" >"$T/loop"
chmod +x "$T/loop"
status 126 "$T/loop"
is "interpreters in a circle" "$out" "rdmarpc-run: $T/loop: too many interpreters"

if [ "$(id -u)" = 0 ]; then
	$CC -o "$T/suid" "$T/m.c" && cp "$T/suid" "$T/sgid" && cp "$T/suid" "$T/caps"
	chown 65534 "$T/suid" && chmod 4755 "$T/suid"
	chgrp 65534 "$T/sgid" && chmod 2755 "$T/sgid"
	status 126 "$T/suid"
	is "set-user-ID" "$out" "rdmarpc-run: $T/suid is set-user-ID: the loader ignores LD_PRELOAD for it"
	status 126 "$T/sgid"
	has "set-group-ID" "$out" "is set-group-ID"
	chmod 755 "$T"
	if command -v setcap >/dev/null && setcap cap_net_bind_service+ep "$T/caps" 2>/dev/null; then
		out=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$run" "$T/caps" 2>&1)
		is "status with capabilities" "$?" 126
		has "capabilities" "$out" "is given capabilities by its file"
		status 0 "$T/caps"	# root's programs gain none
	fi
	cp /bin/true "$T/xonly" && chmod 711 "$T/xonly"
	out=$(setpriv --reuid 65534 --regid 65534 --clear-groups "$run" "$T/xonly" 2>&1)
	is "executable and unreadable" "$?:$out" "0:"
fi

if $CC -std=gnu11 -I. -D_GNU_SOURCE '-DRR_VERSION="0"' -o "$T/tree/plain" tools/rdmarpc-run.c \
	"$BUILD/obj/tools/program.o" "$BUILD/libcore.a" 2>/dev/null; then	# not with a sanitizer's
	for o in --register --resolve; do
		out=$("$T/tree/plain" $o x true 2>&1)
		is "$o without libtirpc" "$?:$out" \
			"125:rdmarpc-run: $o: built without libtirpc, which it needs"
	done
	is "the rest without libtirpc" "$("$T/tree/plain" echo ran 2>&1)" ran
fi

mkdir "$T/a b" && cp "$T"/tree/* "$T/a b"
out=$("$T/a b/rdmarpc-run" true 2>&1)
is "library that LD_PRELOAD cannot name" "$?:$out" \
	"125:rdmarpc-run: $T/a b/librpcrdma_shim.so: a path with a space or colon cannot be preloaded"
rm "$T/tree/librpcrdma_shim.so"
out=$("$run" true 2>&1)
rc=$?
[ -e /usr/local/lib/librpcrdma_shim.so ] || is "no library" $rc 125
finish
