# shellcheck shell=bash
#
# suite_recovery.sh -- bench/suite's part recovery: restarts after SIGKILL, to recovery.csv (needs large.sh).
#
# recovery_init          Checks the file in $out and makes it if need be.
# recovery_plan          Prints what is missing, for each restart its key: peer,rows,transactions,round. Sizes for
#                        which memory is short are left out, with a word on stderr and in the file left-out.
# recovery_estimate      Prints the seconds that the plan on stdin will take.
# recovery_run N         Does the plan that it reads from stdin, N lines.
#
# One server at a time. Before each crash there is a checkpoint, and then TRANSACTIONS updates of one row each. A crash
# empties unlogged tables, so they are loaded again for each round, and not tried with more than 10 million rows.

readonly recovery_unlogged_rows=10000000

recovery_init() { csv_init recovery.csv peer,rows,transactions,round,first_answer_s,full_service_s; }

# What /dev/shm has and what the kernel can give, the lesser, in MB.
recovery_memory_mb() {
	{
		df --output=avail -BM /dev/shm | tail -n 1 | tr -dc '0-9\n'
		awk '/^MemAvailable:/ { print int($2 / 1024) }' /proc/meminfo
	} | sort -n | head -n 1
}

# PEER ROWS: the keys of all its restarts.
recovery_crashes() {
	local transactions round n=$rounds
	[ $full = false ] || [ "$2" = "${recovery_rows%%,*}" ] || n=1
	for ((round = 1; round <= n; round++)); do
		for transactions in $([ "$2" = "${recovery_rows%%,*}" ] && list "$recovery_transactions" || echo 0); do
			echo "$1,$2,$transactions,$round"
		done
	done
}

# Of the keys on stdin those for which there is memory.
recovery_fitting() {
	local key size need available
	available=$(recovery_memory_mb)
	: >"$out/left-out"
	while read -r key; do
		IFS=, read -r _ size _ <<<"$key"
		need=$(large_need_mb "$size")
		if ((need <= available)); then
			echo "$key"
		elif ! grep -q "of $size rows" "$out/left-out"; then
			echo "Recovery of $size rows is left out: it wants $need MB of memory, and $available are free." |
				tee -a "$out/left-out" >&2
		fi
	done
}

recovery_plan() {
	local size peer
	for size in $(list "$recovery_rows"); do
		for peer in zen heap unlogged; do
			[[ " ${peers[*]} " == *" $peer "* ]] || continue
			[ $peer != unlogged ] || ((size <= recovery_unlogged_rows)) || continue
			recovery_crashes "$peer" "$size"
		done
	done | csv_missing recovery.csv 4 | recovery_fitting
}

recovery_estimate() {
	awk -F, '
		{ s += 4 + $3 / 5000 + $2 / 1000000 }
		$1 == "unlogged" || !seen[$1 $2]++ { s += 4 + $2 / 250000 }
		END { print int(s) }'
}

# SERVER TRANSACTIONS ROWS
recovery_updates() {
	local script=$ZEN_TMP/update.sql n=4
	((($2 % n) == 0)) || n=1
	(($2 > 0)) || return 0
	printf '%s\n' '\set id random(1, :rows)' 'UPDATE large SET filler = reverse(filler) WHERE id = :id;' >"$script"
	# shellcheck disable=SC2046
	quietly "$PGBIN/pgbench" $(server_conn "$1") -n -M prepared -f "$script" -D rows="$3" -c $n -j 2 \
		-t $(($2 / n)) postgres
}

recovery_checkpoint() { large_sql "$1" -c "SELECT redo_lsn FROM pg_control_checkpoint()"; }

# PEER ROWS: its server runs and has the rows; another one goes.
recovery_server() {
	if [ "${recovery_now-}" != "$1 $2" ]; then
		[ -z "${recovery_now-}" ] || server_remove "${recovery_now%% *}"
		recovery_now="$1 $2"
		say "loading $1, $2 rows"
		large_create "$1" "$1" "$2"
		large_fill "$1" "$2"
	elif [ "$1" = unlogged ]; then
		large_fill "$1" "$2"
	fi
}

# KEY
recovery_crash() {
	local peer size transactions round checkpoint small_s large_s
	IFS=, read -r peer size transactions round <<<"$1"
	recovery_server "$peer" "$size"
	large_sql "$peer" -c "VACUUM large" -c CHECKPOINT
	checkpoint=$(recovery_checkpoint "$peer")
	recovery_updates "$peer" "$transactions" "$size"
	[ "$(recovery_checkpoint "$peer")" = "$checkpoint" ] || die "a checkpoint came before the crash"
	server_kill "$peer"
	{ read -r small_s && read -r large_s; } < <(large_restart "$peer" "$size")
	large_has "$peer" "$([ "$peer" = unlogged ] && echo 0 || echo "$size")" ||
		die "$peer has not its rows after the crash"
	csv_add recovery.csv "$1,$small_s,$large_s"
	last="recovery, $peer, $size rows, $transactions transactions: $large_s s"
}

recovery_run() {
	local n=0 key
	while read -r key; do
		recovery_crash "$key"
		n=$((n + 1))
		say "$n of $1: $last"
	done
	server_remove "${recovery_now%% *}"
}
