# shellcheck shell=bash
#
# restart.sh -- how soon a server answers after its start (bash; needs tools/server-lib.sh).
#
# restart_timed SERVER QUERY...   Starts SERVER and prints one line per QUERY: the seconds from the start until it
#                                 was answered in database postgres. The queries are tried side by side, 20 times
#                                 a second at most. Fails if the server does not start, or after 600 s.

restart_now() { date +%s.%N; }

# SERVER FROM QUERY
restart_answer() {
	local deadline=$((SECONDS + 600))
	# shellcheck disable=SC2046
	until "$PGBIN/psql" $(server_conn "$1") -d postgres -XqAt -v ON_ERROR_STOP=1 -c "$3" >/dev/null 2>&1; do
		[ ! -e "$ZEN_TMP/restart.failed" ] && ((SECONDS < deadline)) || return 1
		sleep 0.05
	done
	awk -v from="$2" -v to="$(restart_now)" 'BEGIN { printf "%.2f\n", to - from }'
}

restart_timed() {
	local server=$1 from n=0 query pids=()
	shift
	rm -f "$ZEN_TMP"/restart.*
	from=$(restart_now)
	{ server_start "$server" || touch "$ZEN_TMP/restart.failed"; } >&2 &
	pids=($!)
	for query in "$@"; do
		n=$((n + 1))
		restart_answer "$server" "$from" "$query" >"$ZEN_TMP/restart.$n" &
		pids+=($!)
	done
	# A failed start shows in the queries.
	for query in "${pids[@]}"; do
		wait "$query" || return 1
	done
	for ((n = 1; n <= $#; n++)); do
		cat "$ZEN_TMP/restart.$n"
	done
}
