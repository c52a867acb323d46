# SPDX-License-Identifier: BSD-3-Clause
# make check | check-asan | check-tsan | check-valgrind | lint | demo | bench | bench-real

.PHONY: check check-asan check-tsan check-valgrind check-i386 lint demo bench bench-real

# Everything that this machine can run; set up first.
check:
	@scripts/deps check
	@scripts/deps vm || true	# without a guest the level vm is skipped
	@scripts/check

# Under sanitizers. Criterion does not run under TSan (tests/mini does), and what is left out there has no threads, or is
# the kernel's own behaviour, which TSan changes (signals come late in calls that it takes over). Of the
# apps, those that bear a sanitizer's library (not ganesha's RTLD_DEEPBIND, nor xdr_*() by dlopen).
ASAN_APPS ?= rpcbind lab-svcrun lab-poll lab-epoll lab-fork lab-daemon py-threads ypserv kadmin
TSAN_APPS ?= rpcbind lab-svcrun lab-epoll lab-fork py-threads mountd-workers

check-asan:
	@scripts/deps check
	@BUILD=build-asan SAN=address,undefined LEGS="idle carried crossing" APPS="-l both $(ASAN_APPS)" \
	    scripts/check unit oracle stress sim fuzz-replay preload differ hostile ends apps
check-tsan:
	@scripts/deps check
	@BUILD=build-tsan SAN=thread LEGS="carried crossing" APPS="-l both $(TSAN_APPS)" \
	    scripts/check unit stress preload ends apps

# Memcheck of a client and a server.
check-valgrind: all $(BUILD)/tests/tools/rpcpair
	@BUILD='$(BUILD)' tests/san/valgrind

# The library for 32-bit programs, in a root directory of i386 packages.
check-i386:
	@scripts/deps check
	@BUILD='$(BUILD)' scripts/check-i386

lint:
	@scripts/deps lint
	@scripts/lint

demo:
	@scripts/deps demo
	@$(MAKE) -s -j2 all apps
	@scripts/demo

bench:
	@scripts/deps bench
	@$(MAKE) -s -j2 all apps
	@bench/run $(BENCH)

bench-real:
	@scripts/deps bench-real
	@$(MAKE) -s -j2 all apps
	@bench/real $(BENCH)
