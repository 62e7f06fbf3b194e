# shellcheck shell=bash
#
# large.sh -- a private server with a small table and a large one, and its restart (bash; needs tools/server-lib.sh,
# restart.sh and rows.sh).
#
# large_need_mb ROWS             Memory in MB that such a server needs, files included.
# large_sql SERVER ARG...        psql there.
# large_create SERVER KIND ROWS [SETTING=VALUE...]
#                                Creates and starts it, with empty tables small and large of KIND: zen, heap or
#                                unlogged. Room for ROWS rows in the large one; checkpoints are far between.
# large_tables SERVER KIND       The tables alone.
# large_fill SERVER ROWS         Loads 1,000 rows into the small table and ROWS into the large one, of 100 bytes with a
#                                primary key, in transactions of 2 million.
# large_restart SERVER ROWS      Starts it; prints the seconds to the first answer from the small table, and to that of
#                                the large table by its key.
# large_has SERVER ROWS          Has the large table all of them?
# large_settings                 The settings of all such servers.

readonly large_batch=2000000
readonly large_settings=(fsync=on "$(wal_writer_setting)" shared_buffers=256MB max_wal_size=4GB checkpoint_timeout=1h
	maintenance_work_mem=256MB)

# A slot of a 100-byte row takes 160 bytes.
large_pool_mb() { echo $((512 + $1 / 5500)); }

# The rows, the index twice, and WAL or zen's DRAM.
large_need_mb() { echo $(($(large_pool_mb "$1") + 2048 + $1 / 15000)); }

# shellcheck disable=SC2046
large_sql() { "$PGBIN/psql" $(server_conn "$1") -d postgres -XqAt -v ON_ERROR_STOP=1 "${@:2}"; }

large_create() {
	local settings=("${large_settings[@]}")
	if [ "$2" = zen ]; then
		settings+=(zen.pool_size="$(large_pool_mb "$3")"MB zen.dram_size=4GB)
	else
		settings+=(shared_preload_libraries=)
	fi
	server_create "$1" "${settings[@]}" "${@:4}"
	server_start "$1"
	large_tables "$1" "$2"
}

large_tables() {
	local table
	[ "$2" != zen ] || large_sql "$1" -c "CREATE EXTENSION zen"
	for table in small large; do
		large_sql "$1" -c "CREATE $([ "$2" != unlogged ] || echo UNLOGGED) TABLE $table (
			id bigint PRIMARY KEY, filler text NOT NULL)
			USING $([ "$2" = zen ] && echo zen || echo heap)"
	done
}

large_fill() {
	local first last
	rows_from_to 1 1000 | large_sql "$1" -c '\copy small FROM pstdin'
	for ((first = 1; first <= $2; first += large_batch)); do
		last=$((first + large_batch - 1 < $2 ? first + large_batch - 1 : $2))
		rows_from_to "$first" "$last" | large_sql "$1" -c '\copy large FROM pstdin'
	done
}

large_restart() {
	restart_timed "$1" "SELECT filler FROM small WHERE id = 500" "SELECT filler FROM large WHERE id = $(($2 / 2))"
}

large_has() {
	[ "$(large_sql "$1" -c "SELECT count(*) || ' ' || coalesce(sum(id), 0) FROM large")" = "$2 $(($2 * ($2 + 1) / 2))" ]
}
