# shellcheck shell=bash
#
# gate.sh -- where a load waits for others (bash).
#
# gate WHAT   In a load that turns.py has started: tells it WHAT, and returns when it lets the load go on. Else returns
#             at once. A load passes gate ready just before pgbench starts, and gate done just after it has ended.
#
# BENCH_TURNS tells that it is such a load, and stdin is the line to turns.py.

gate() {
	[ -n "${BENCH_TURNS-}" ] || return 0
	echo "$1" >&0
	read -r _
}
