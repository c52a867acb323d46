# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# For runners that start several jobs at the same time. A job is a command that prints how many verdicts it will
# give, as "1..N", and then a line for each, which begins with PASS, FAIL or SKIP and a space. What a job prints
# appears when it has ended. A job that ends with other verdicts than it has promised, with an exit status other
# than 0 and no FAIL to explain it, or without a status (somebody has killed it), counts as one failure more.
#
#	. tests/lib/tally.sh
#	tally_job NAME COMMAND...
#	tally_end
tally_dir=$(mktemp -d) || exit 1
trap 'rm -rf "$tally_dir"' EXIT
tally_jobs=() tally_pids=()

# tally_plan N: what a job says first, if it is a function of the runner's.
tally_plan() { echo "1..$1"; }

# tally_job NAME COMMAND...: starts the command in the background. NAME is one of its own, fit for a file.
tally_job() {
	local out=$tally_dir/$1
	[[ " ${tally_jobs[*]} " != *" $1 "* ]] || { echo "two jobs have the name $1" && exit 70; }
	tally_jobs+=("$1")
	shift
	{
		("$@") >"$out.out" 2>&1 </dev/null
		echo $? >"$out.rc"
		grep -vxE '1\.\.[0-9]+' "$out.out"
	} &
	tally_pids+=($!)
}

# tally_count VERDICT FILE...: how many lines say so
tally_count() { cat "${@:2}" 2>/dev/null | grep -c "^$1 "; }

# tally_fault NAME: what is wrong with the job, but for the failures that it reports itself; or nothing
tally_fault() {
	local out=$tally_dir/$1.out rc=none plan seen
	[ ! -s "$tally_dir/$1.rc" ] || rc=$(cat "$tally_dir/$1.rc")
	plan=$(sed -n 's/^1\.\.\([0-9][0-9]*\)$/\1/p' "$out" 2>/dev/null)
	seen=$(grep -cE '^(PASS|FAIL|SKIP) ' "$out" 2>/dev/null)
	if [ "$rc" = none ]; then
		echo "it was ended, after ${seen:-0} of ${plan:-some} verdicts"
	elif [ "$plan" != "${seen:-0}" ]; then
		echo "exit status $rc, ${seen:-0} verdicts, ${plan:-none} promised"
	elif [ "$rc" != 0 ] && [ "$(tally_count FAIL "$out")" = 0 ]; then
		echo "exit status $rc, and nothing failed"
	fi
}

# tally_end: waits for all jobs and prints "N passed, N failed, N skipped"; false if anything failed, or if
# there was nothing to run.
tally_end() {
	local name pid fault failed=0
	# Not by wait: the first process of a PID namespace has the servers for children that jobs have left, and of a bash
	# that has those wait can go on for ever, although it has seen the last job end.
	for pid in "${tally_pids[@]}"; do
		while kill -0 "$pid" 2>/dev/null; do sleep 0.1; done
	done
	for name in "${tally_jobs[@]}"; do
		fault=$(tally_fault "$name")
		[ -z "$fault" ] || { failed=$((failed + 1)) && echo "FAIL $name: $fault"; }
	done
	[ ${#tally_jobs[@]} != 0 ] || { failed=1 && echo "FAIL nothing was run"; }
	failed=$((failed + $(tally_count FAIL "$tally_dir"/*.out)))
	echo "$(tally_count PASS "$tally_dir"/*.out) passed, $failed failed, $(tally_count SKIP "$tally_dir"/*.out) skipped"
	[ $failed = 0 ]
}
