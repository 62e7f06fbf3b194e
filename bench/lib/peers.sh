# shellcheck shell=bash
#
# peers.sh -- several private servers that have their slices of load in turns (bash; needs tools/server-lib.sh).
#
# They do not work at the same time, so that they do not take processor time from each other: while one has its slice
# the others are stopped (SIGSTOP), and their autovacuum and checkpoints happen, and count, in their own slices.
#
# peers                The array of the servers' names: the caller's to fill.
# peers_freeze         All are stopped.
# peers_alone SERVER   Only this one runs from now on.
# peers_thaw           All run again: for lib_at_end, as a slice may have been interrupted.
# field NAME           The value of NAME= from the line on stdin.

peers=()

# SERVER SIGNAL: to the postmaster and all its children; to it first, as one that is stopped bears no more.
peer_signal() {
	local pid children
	pid=$(lib_postmaster "$ZEN_TMP/$1/data") || return 0
	kill -s "$2" "$pid"
	mapfile -t children < <(lib_children "$pid")
	kill -s "$2" "${children[@]}" 2>/dev/null || true # one may just have ended by itself
}

peers_thaw() {
	local server
	for server in "${peers[@]}"; do
		peer_signal "$server" CONT
	done
}

peers_freeze() {
	local server
	for server in "${peers[@]}"; do
		peer_signal "$server" STOP
	done
}

peers_alone() {
	local server
	for server in "${peers[@]}"; do
		[ "$server" = "$1" ] || peer_signal "$server" STOP
	done
	peer_signal "$1" CONT
}

field() { sed -n "s/.* $1=\([^ ]*\).*/\1/p"; }
