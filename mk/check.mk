# SPDX-License-Identifier: BSD-3-Clause
# make check | check-asan | check-tsan | lint | demo | bench

.PHONY: check check-asan check-tsan lint demo bench

# Everything that this machine can run; set up first.
check:
	@scripts/deps check
	@scripts/check

# Under sanitizers: the levels without programs that are not ours. Criterion does not run under TSan, and
# the rest has no threads.
check-asan:
	@scripts/deps check
	@BUILD=build-asan SAN=address,undefined scripts/check unit oracle stress sim fuzz-replay preload ends
check-tsan:
	@scripts/deps check
	@BUILD=build-tsan SAN=thread scripts/check stress preload

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
	@bench/run
