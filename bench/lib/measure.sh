# shellcheck shell=bash
#
# measure.sh -- what a stretch of load costs the server that psql reaches (bash; needs lib/server.sh).
#
# query SQL            Runs SQL, prints the answer without ornaments.
# measure_begin SCHEMA Notes the counters; SCHEMA has the tables of the load.
# measure_end          Notes them again when the clients have left; then
# measure_per_tx N     prints, for N transactions, lines "name value": cpu_ms_per_tx (user and system time of all the
#                      server's processes, if it runs on this machine), wal_bytes_per_tx, data_bytes_per_tx (pages of
#                      data files written by checkpoints and others); with zen slots_written_per_tx,
#                      bytes_written_per_tx, lines_flushed_per_tx, fences_per_tx; rows_changed_per_tx (inserted or
#                      updated in SCHEMA, rolled back or not) and changed_bytes_per_tx, their bytes: the number times
#                      the mean size with header of a table's first 1000 rows. background_ms_per_tx is the part of
#                      cpu_ms_per_tx that the checkpointer and other background processes had, with the work of
#                      autovacuum if BENCH_LOG names the server's log. In all: checkpoints, and autovacuums of tables.
# measure_names        The names without _per_tx, all of them.
# measure_counters_line N   prints "counters name=value ...", per transaction, the numbers of zen_stat that have
#                      changed; nothing without zen.

measure_names=(cpu_ms wal_bytes data_bytes slots_written bytes_written lines_flushed fences rows_changed changed_bytes
	background_ms)

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

checkpoints_sql() {
	if (($(query 'SHOW server_version_num') < 170000)); then
		echo "SELECT checkpoints_timed + checkpoints_req FROM pg_stat_bgwriter"
	else
		echo "SELECT num_timed + num_requested FROM pg_stat_checkpointer"
	fi
}

# Lines "name value".
measure_counters() {
	echo "checkpoints $(query "$(checkpoints_sql)")"
	echo "autovacuums $(query "SELECT coalesce(sum(autovacuum_count), 0) FROM pg_stat_user_tables")"
	echo "wal_bytes $(query "SELECT pg_current_wal_insert_lsn() - '0/0'::pg_lsn")"
	echo "data_bytes $(($(query "$(data_pages_sql)") * 8192))"
}

measure_zen() {
	[ -z "$measure_has_zen" ] ||
		query "SELECT key || ' ' || value FROM zen_stat s, json_each_text(row_to_json(s)) WHERE value ~ '^[0-9]+$'"
}

# Lines "OID rows", one for each table.
measure_rows() {
	query "SELECT relid, n_tup_ins + n_tup_upd FROM pg_stat_user_tables WHERE schemaname = '$measure_schema'" |
		tr '|' ' '
}

# Lines "OID bytes": the mean size of a row.
measure_row_sizes() {
	psql -XqAt -v ON_ERROR_STOP=1 <<-SQL | tr '|' ' '
		SELECT format('SELECT %s, coalesce(avg(pg_column_size(r)), 0) FROM (SELECT * FROM %s LIMIT 1000) r',
			relid, relid::regclass)
		FROM pg_stat_user_tables WHERE schemaname = '$measure_schema' \gexec
	SQL
}

# Rows changed and their bytes, as lines "name value".
measure_changes() {
	awk '
		FILENAME == ARGV[1] { before[$1] = $2; next }
		FILENAME == ARGV[2] { size[$1] = $2; next }
		{ n = $2 - before[$1]; rows += n; bytes += n * size[$1] }
		END { printf "rows_changed %d\nchanged_bytes %.0f\n", rows, bytes }
	' <(echo "$measure_rows_before") <(measure_row_sizes) <(measure_rows)
}

# Waits for the clients to leave: only then are all rows in the server's counts.
measure_settle() {
	if [ -n "$measure_postmaster" ]; then
		server_quiet "$measure_postmaster"
	else
		sleep 1
	fi
}

# Autovacuum's workers have ended, and nothing but the log tells their time from that of backends.
autovacuum_ms() {
	[ -r "${BENCH_LOG-}" ] || { echo 0; return; }
	awk '/system usage: CPU: user: / { gsub(/.*user: | s,.*system:| s, elapsed.*/, ""); ms += ($1 + $2) * 1000 }
		END { printf "%d\n", ms }' "$BENCH_LOG"
}

measure_cpu() {
	[ -n "$measure_postmaster" ] || return 0
	server_quiet "$measure_postmaster"
	echo "cpu_ms $(server_cpu_ms "$measure_postmaster")"
	echo "background_ms $(($(server_background_ms "$measure_postmaster") + $(autovacuum_ms)))"
}

# The processor time is read next to the load, so that it does not include these queries.
measure_begin() {
	measure_schema=$1
	measure_postmaster=$(find_postmaster)
	measure_has_zen=$(query "SELECT to_regclass('zen_stat')")
	measure_settle
	measure_rows_before=$(measure_rows)
	measure_zen_before=$(measure_zen)
	measure_before=$(measure_counters; measure_cpu)
}

measure_end() {
	measure_after=$(measure_cpu; measure_counters)
	measure_zen_after=$(measure_zen)
	measure_settle
	measure_after+=$'\n'$(measure_changes)
}

measure_per_tx() {
	awk -v n="$1" -v names="${measure_names[*]}" '
		BEGIN { split(names, wanted, " ") }
		NR == FNR { before[$1] = $2; next }
		{ after[$1] = $2 }
		END {
			for (i = 1; i in wanted; i++)
				if (wanted[i] in after)
					printf "%s_per_tx %.5g\n", wanted[i], (after[wanted[i]] - before[wanted[i]]) / n
			printf "checkpoints %d\n", after["checkpoints"] - before["checkpoints"]
			printf "autovacuums %d\n", after["autovacuums"] - before["autovacuums"]
		}' <(echo "$measure_before"; echo "$measure_zen_before") <(echo "$measure_after"; echo "$measure_zen_after")
}

measure_counters_line() {
	[ -z "$measure_has_zen" ] || awk -v n="$1" '
		NR == FNR { before[$1] = $2; next }
		$2 != before[$1] { line = line sprintf(" %s=%.5g", $1, ($2 - before[$1]) / n) }
		END { print "counters" line }
	' <(echo "$measure_zen_before") <(echo "$measure_zen_after")
}
