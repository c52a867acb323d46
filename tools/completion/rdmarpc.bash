# shellcheck shell=bash
# SPDX-License-Identifier: BSD-3-Clause
# Completion for bash: rdmarpc-run, rdmarpc-stat, rdmarpc-check, rdmarpc-dump, rdmarpc-conform. Options are what the tool's own --help
# says, and rdmarpc.conf's what the tool finds in force.

_rdmarpc_long_options() {
	"$1" --help 2>/dev/null | grep -o -e '--[a-z][a-z-]*=\?' | sort -u
}

_rdmarpc_words() {	# CURRENT WORD...: those that begin so
	local word=$1
	shift
	mapfile -t COMPREPLY < <(compgen -W "$*" -- "$word")
	[[ ${#COMPREPLY[@]} != 1 || ${COMPREPLY[0]} != *= ]] || compopt -o nospace
}

_rdmarpc() {
	local tool=$1 word=$2 before=$3

	[[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}
	[[ $word != = ]] || word=
	case $before in
	-o | --option)
		if [[ $tool = *rdmarpc-run ]]; then
			_rdmarpc_words "$word" "$("$tool" --print-config 2>/dev/null | sed -n '/^\[/q; s/^\([a-z_]*\) = .*/\1=/p')"
			return
		fi ;;
	-C | --command)
		_rdmarpc_words "$word" "$(rdmarpc-stat --json 2>/dev/null | grep -o '"comm":"[^"]*"' | cut -d'"' -f4)"
		return ;;
	--sort)
		_rdmarpc_words "$word" pid uid command since connections calls rate bytes p50 p99
		return ;;
	--pid)
		_rdmarpc_words "$word" "$(ps -eo pid=)"
		return ;;
	--program)
		_rdmarpc_words "$word" "$(sed -n 's/^\([a-z][a-z0-9_.]*\).*/\1/p' /etc/rpc 2>/dev/null)"
		return ;;
	-d | --dialect)
		_rdmarpc_words "$word" v1 v2 draft02 slides
		return ;;
	-f | --format)
		_rdmarpc_words "$word" text json junit
		return ;;
	esac
	if [[ $tool = *rdmarpc-dump && $word != -* ]]; then
		case $before in
		-p) _rdmarpc_words "$word" "$(rdmarpc-stat --json 2>/dev/null | grep -o '"pid":[0-9]*' | cut -d: -f2)" ;;
		-w | --write) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		*) _rdmarpc_words "$word" host port program calls replies and ;;
		esac
		return
	fi
	if [[ $word = -* ]]; then
		_rdmarpc_words "$word" "$(_rdmarpc_long_options "$tool")"
		return
	fi
	case $tool in
	*rdmarpc-stat) _rdmarpc_words "$word" "$("$tool" --json 2>/dev/null | grep -o '"pid":[0-9]*' | cut -d: -f2)" ;;
	*rdmarpc-check) [[ $COMP_CWORD = 1 ]] || _rdmarpc_words "$word" "$(sed -n 's/^\([a-z][a-z0-9_.]*\).*/\1/p' /etc/rpc 2>/dev/null)" ;;
	*rdmarpc-run)
		case $before in
		-c | --config | --check-config) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
		*) mapfile -t COMPREPLY < <(compgen -c -- "$word") ;;
		esac ;;
	*) mapfile -t COMPREPLY < <(compgen -f -- "$word") ;;
	esac
}

complete -F _rdmarpc rdmarpc-run rdmarpc-stat rdmarpc-check rdmarpc-dump rdmarpc-conform
