# shellcheck shell=bash
#
# pair.sh -- a heap server and a zen server side by side, and TPC-C on both in turns (bash).
#
# Needs tools/server-lib.sh. $second_am is zen, or heap to try the scripts without zen: then the server called
# zen is plain PostgreSQL like the other. $pair_pool_mode is zen's zen.pool_mode, if not emulated.
#
# pair_need_mb WAREHOUSES SECONDS      Files of both servers in MB, for lib_begin.
# pair_create WAREHOUSES SECONDS       Creates and starts both servers, with room for SECONDS of load on each,
#                                      and loads TPC-C.
# pair_slice SERVER SECONDS CLIENTS    One run of bench/tpcc/run on SERVER (heap or zen) without its check;
#                                      prints its "result" line.
# pair_rounds N SECONDS CLIENTS FILE   N slices on each in turns; the result lines, after the server's name, go
#                                      to FILE. Progress to stdout.
# pair_run SERVER ARG...               bench/tpcc/run with the server's connection and the pair's tables.
# pair_psql SERVER ARG...              psql there.
# pair_check SERVER                    The consistency check.
# field, peers_thaw                    See peers.sh.
#
# Slices alternate (peers.sh); which server goes first changes from round to round. Both have the same settings: fsync
# on, and WAL and checkpoints wide enough that a slice seldom meets a checkpoint, which is in heap's favour.

. "$(dirname "${BASH_SOURCE[0]}")/peers.sh"
peers=(heap zen)

pair_bench=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# A warehouse fills 110 MB on heap; a second of load adds up to 10 MB of rows and 30 MB of WAL, but WAL files are
# used again after 2 GB and a little.
pair_pool_mb() { echo $((512 + $1 * 250 + $2 * 10)); }
pair_wal_mb() { echo $(($2 < 80 ? 128 + $2 * 30 : 2560)); }
pair_need_mb() { echo $(($(pair_pool_mb "$@") + $1 * 250 + $2 * 10 + 2 * $(pair_wal_mb "$@"))); }

pair_psql() {
	local server=$1
	shift
	# shellcheck disable=SC2046
	"$PGBIN/psql" $(server_conn "$server") -d postgres -XqAt -v ON_ERROR_STOP=1 "$@"
}

pair_am() { [ "$1" = heap ] && echo heap || echo "$second_am"; }

pair_run() {
	local server=$1
	shift
	PATH=$PGBIN:$PATH "$pair_bench/tpcc/run" --host "$ZEN_TMP" --port "$(server_port "$server")" --user postgres \
		--db postgres --am "$(pair_am "$server")" --warehouses "$pair_warehouses" "$@"
}

pair_create() {
	local server settings
	pair_warehouses=$1
	unset PGOPTIONS PGSERVICE PGPASSFILE
	for server in heap zen; do
		settings=(fsync=on shared_buffers=1GB max_wal_size=2GB checkpoint_timeout=30min)
		if [ "$(pair_am $server)" = zen ]; then
			settings+=(zen.pool_size="$(pair_pool_mb "$@")MB" zen.dram_size=2GB zen.met_cache_size=1GB
				zen.pool_mode="${pair_pool_mode:-emulated}")
		else
			settings+=(shared_preload_libraries=)
		fi
		say "starting the $server server"
		server_create $server "${settings[@]}"
		server_start $server
		[ "$(pair_am $server)" = heap ] || pair_psql $server -c "CREATE EXTENSION zen"
		PATH=$PGBIN:$PATH "$pair_bench/tpcc/load" --host "$ZEN_TMP" --port "$(server_port $server)" \
			--user postgres --db postgres --am "$(pair_am $server)" --warehouses "$pair_warehouses" |
			sed 's/^/           /'
		pair_psql $server -c CHECKPOINT
	done
}

pair_slice() {
	local log=$ZEN_TMP/slice.log
	peers_alone "$1"
	if ! pair_run "$1" --duration "$2" --clients "$3" --no-check >"$log" 2>&1; then
		cat "$log" >&2
		return 1
	fi
	peers_thaw
	grep '^result ' "$log"
}

pair_rounds() {
	local round server order=(zen heap) line
	for ((round = 1; round <= $1; round++)); do
		for server in "${order[@]}"; do
			line=$(pair_slice "$server" "$2" "$3")
			echo "$server $line" >>"$4"
			say "round $round of $1, $server: $(field tps <<<"$line") transactions/s," \
				"$(field cpu_ms_per_tx <<<"$line") ms of processor time each"
		done
		order=("${order[1]}" "${order[0]}")
	done
}

pair_check() { pair_psql "$1" -P format=aligned -P tuples_only=off -v schema=tpcc -f "$pair_bench/tpcc/check.sql"; }
