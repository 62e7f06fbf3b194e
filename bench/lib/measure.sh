# shellcheck shell=bash
#
# measure.sh -- what a stretch of load costs the server that psql reaches (bash; wants lib/server.sh).
#
# query SQL            Runs SQL, prints the answer without ornaments.
# measure_begin        Notes the counters.
# measure_end          Notes them again; then
# measure_per_tx N     prints, for N transactions, lines "name value": cpu_ms_per_tx (user and system time of all the
#                      server's processes, if it runs on this machine), wal_bytes_per_tx, data_bytes_per_tx (pages of
#                      data files written by checkpoints and others), and with zen slots_written_per_tx,
#                      bytes_written_per_tx, lines_flushed_per_tx, fences_per_tx.
# measure_names        The names without _per_tx, all of them.

measure_names=(cpu_ms wal_bytes data_bytes slots_written bytes_written lines_flushed fences)

query() { psql -XqAt -v ON_ERROR_STOP=1 -c "$1"; }

# The postmaster's PID if it runs on this machine and we may know, else nothing.
find_postmaster() {
	local pid
	[[ ${PGHOST-} =~ ^(|/.*|localhost)$ ]] || return 0
	pid=$(query "SELECT split_part(pg_read_file('postmaster.pid'), E'\n', 1)" 2>/dev/null) || return 0
	[[ $(cat "/proc/$pid/comm" 2>/dev/null) =~ ^(postgres|postmaster)$ ]] && echo "$pid"
	return 0
}

# Before 17 the background writer's view has all the counters; what backends write counts as well.
data_pages_sql() {
	if (($(query 'SHOW server_version_num') < 170000)); then
		echo "SELECT buffers_checkpoint + buffers_clean + buffers_backend FROM pg_stat_bgwriter"
	else
		echo "SELECT coalesce(sum(writes), 0) FROM pg_stat_io WHERE object = 'relation'"
	fi
}

# Lines "name value".
measure_counters() {
	echo "wal_bytes $(query "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")"
	echo "data_bytes $(($(query "$(data_pages_sql)") * 8192))"
	[ -z "$measure_has_zen" ] ||
		query "SELECT key || ' ' || value FROM zen_stat() s, json_each_text(row_to_json(s)) WHERE value ~ '^[0-9]+$'"
}

measure_cpu() {
	[ -n "$measure_postmaster" ] || return 0
	server_quiet "$measure_postmaster"
	echo "cpu_ms $(server_cpu_ms "$measure_postmaster")"
}

# The processor time is read next to the load, so that it does not include these queries.
measure_begin() {
	measure_postmaster=$(find_postmaster)
	measure_has_zen=$(query "SELECT to_regprocedure('zen_stat()')")
	measure_before=$(measure_counters; measure_cpu)
}

measure_end() { measure_after=$(measure_cpu; measure_counters); }

measure_per_tx() {
	awk -v n="$1" -v names="${measure_names[*]}" '
		BEGIN { split(names, wanted, " ") }
		NR == FNR { before[$1] = $2; next }
		{ after[$1] = $2 }
		END {
			for (i = 1; i in wanted; i++)
				if (wanted[i] in after)
					printf "%s_per_tx %.5g\n", wanted[i], (after[wanted[i]] - before[wanted[i]]) / n
		}' <(echo "$measure_before") <(echo "$measure_after")
}
