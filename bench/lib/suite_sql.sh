# shellcheck shell=bash
#
# suite_sql.sh -- bench/suite's part sql: loads on all peers in turns, to raw.csv, tpcc.csv and counters.csv.
#
# sql_init         Checks the files in $out and makes them if need be. Slices of other sizes are not mixed: loads says
#                  which they are.
# sql_plan         Prints what is missing, for each slice its key in raw.csv: workload,peer,clients,theta,requests,round.
# sql_estimate N   Prints the seconds that N slices will take.
# sql_need_mb      Prints the memory in MB that the servers' files want.
# sql_run N        Does the plan that it reads from stdin, N lines.
# sql_at_end       For lib_at_end.
#
# Wants peers.sh, csv.sh and the suite's options.

sql_columns=(workload peer clients theta requests round seconds transactions retries tps mean_ms p50_ms p95_ms p99_ms
	{cpu_ms,wal_bytes,data_bytes,slots_written,bytes_written,lines_flushed,fences,rows_changed,changed_bytes}_per_tx nopm)
sql_types=(new_order payment order_status delivery stock_level)

sql_init() {
	csv_init raw.csv "$(IFS=,; echo "${sql_columns[*]}")"
	csv_init tpcc.csv peer,clients,round,type,count,mean_ms,p50_ms,p95_ms,p99_ms
	csv_init counters.csv workload,peer,clients,theta,requests,round,counter,per_tx
	csv_init loads "* slices of $seconds s; TPC-C with $warehouses warehouses, pgbench with scale $scale, $rows rows of 1 KB"
}

## The plan

# WORKLOAD CLIENTS: "theta requests" of each of its kinds.
sql_variants() {
	case $1 in
	ycsb-ro | ycsb-rh | ycsb-ba | ycsb-wh)
		echo '0.95 1'
		[ $full = false ] || [ "$2" != "$main_clients" ] || printf '%s\n' '0 1' '0.6 1' '0.99 1' '0.95 16'
		;;
	ycsb-*) echo '0.99 1' ;;
	*) echo '- -' ;;
	esac
}

# WORKLOAD: the numbers of clients it is run with.
sql_clients() {
	case $1 in
	update) list "$clients" | grep -x 1 || true ;;
	tpcc | simple-update | select-only | ycsb-ba) list "$clients" ;;
	ycsb-[a-f]) echo "$main_clients" ;;
	*) list "$clients" | grep -xE "1|$main_clients" ;;
	esac
}

sql_all_slices() {
	local workload n theta requests round i
	for workload in $(list "$workloads"); do
		for n in $(sql_clients "$workload"); do
			while read -r theta requests; do
				for ((round = 1; round <= rounds; round++)); do
					for ((i = 0; i < ${#names[@]}; i++)); do
						echo "$workload,${names[(i + round) % ${#names[@]}]},$n,$theta,$requests,$round"
					done
				done
			done < <(sql_variants "$workload" "$n")
		done
	done
}

sql_plan() { sql_all_slices | csv_missing raw.csv 6; }

sql_estimate() { echo $(($1 * (seconds * 2 + 3) / 2 + ${#peers[@]} * (5 + warehouses * 3 + rows / 10000 + scale))); }

## The servers: peers is the array of their names, names that of the peers

server_of() { [[ $1 == zen-* ]] && echo zen || echo "$1"; }

am_of() { [ "$1" = zen ] && echo zen || echo heap; }

# MB of pool for so many peers: TPC-C adds some each second.
sql_pool_mb() { echo $((700 + warehouses * 200 + 6 * $1 * seconds * rounds * $(list "$clients" | wc -l))); }

# The zen peers fill one pool.
sql_zen_mb() { sql_pool_mb "$(printf '%s\n' "${names[@]}" | grep -c '^zen')"; }

# heap has half of that, and 1.5 GB of WAL.
sql_need_mb() {
	local server mb=512
	for server in "${peers[@]}"; do
		if [ "$server" = zen ]; then
			mb=$((mb + $(sql_zen_mb)))
		else
			mb=$((mb + $(sql_pool_mb 1) / 2 + 1536))
		fi
	done
	echo $mb
}

# SERVER SCRIPT ARG...: a script of bench/ on this server.
on_server() {
	local server=$1 script=$2 options=()
	shift 2
	[ "$server" != unlogged ] || options=(--unlogged)
	PATH=$PGBIN:$PATH "$here/$script" --host "$ZEN_TMP" --port "$(server_port "$server")" --user postgres --db postgres \
		--am "$(am_of "$server")" "${options[@]}" "$@"
}

# shellcheck disable=SC2046
sql_on() { "$PGBIN/psql" $(server_conn "$1") -d postgres -XqAt -v ON_ERROR_STOP=1 "${@:2}"; }

wal_to_disk() {
	wal_dir=$(mktemp -d "$disk/zen-suite-wal.XXXXXX")
	mv "$ZEN_TMP/$1/data/pg_wal" "$wal_dir/"
	ln -s "$wal_dir/pg_wal" "$ZEN_TMP/$1/data/pg_wal"
	chown -RH "$ZEN_USER" "$wal_dir"
}

sql_at_end() {
	peers_thaw
	[ -z "${wal_dir-}" ] || { server_kill heap-disk; rm -rf "$wal_dir"; }
}

create_server() {
	local server=$1 settings=("${common_settings[@]}")
	case $server in
	zen) settings+=(zen.pool_size="$(sql_zen_mb)MB" zen.dram_size=2GB zen.met_cache_size=1GB) ;;
	heap-async) settings+=(shared_preload_libraries= synchronous_commit=off) ;;
	*) settings+=(shared_preload_libraries=) ;;
	esac
	server_create "$server" "${settings[@]}"
	[ "$server" != heap-disk ] || wal_to_disk "$server"
	server_start "$server"
	[ "$server" != zen ] || sql_on zen -c "CREATE EXTENSION zen"
}

sizes() { echo --rows $rows --scale $scale; }

# shellcheck disable=SC2046
load_server() {
	local server=$1
	[[ ,$workloads, != *,tpcc,* ]] || on_server "$server" tpcc/load --warehouses $warehouses
	[[ ! ,$workloads, =~ ,(tpcb|simple-update|select-only), ]] ||
		on_server "$server" pgbench/run --workload select-only $(sizes) --clients 1 --duration 1
	[[ ! ,$workloads, =~ ,(ycsb-[a-z]*|update), ]] ||
		on_server "$server" pgbench/run --workload ycsb-c $(sizes) --clients 1 --duration 1
	sql_on "$server" -c CHECKPOINT
}

## NVM's latency

# PEER: ns for each line flushed and each fence, as in bench/engines/README.md, section Latency.
delays() {
	case $1 in
	zen-optane) echo 89 0 ;;
	zen-cxl) echo 0 168 ;;
	*) echo 0 0 ;;
	esac
}

has_delays() { [ "$(sql_on zen -c "SELECT current_setting('zen.flush_delay') || ' ' || current_setting('zen.fence_delay')")" = "$1" ]; }

check_delays() {
	sql_on zen -c "SHOW zen.flush_delay" -c "SHOW zen.fence_delay" >/dev/null ||
		die "zen-optane and zen-cxl want a zen with the settings zen.flush_delay and zen.fence_delay"
	delayed=1
}

# PEER: its delays are in force for the clients that come.
set_delays() {
	local line fence
	[ -n "${delayed-}" ] || return 0
	read -r line fence < <(delays "$1")
	sql_on zen -c "ALTER SYSTEM SET zen.flush_delay = $line" -c "ALTER SYSTEM SET zen.fence_delay = $fence" \
		-c "SELECT pg_reload_conf()" >/dev/null
	wait_for 10 has_delays "$line $fence"
}

## The slices

run_load() {
	local workload=$1 n=$2 theta=$3 requests=$4 server=$5 options=()
	if [ "$workload" = tpcc ]; then
		on_server "$server" tpcc/run --warehouses $warehouses --clients "$n" --duration "$seconds" --no-check
		return
	fi
	[ "$theta" = - ] || options=(--theta "$theta" --requests "$requests")
	# shellcheck disable=SC2046
	on_server "$server" pgbench/run --workload "$workload" $(sizes) --clients "$n" --duration "$seconds" "${options[@]}"
}

# KEY: what zen_stat() has counted, from the slice's output.
store_counters() {
	local counter
	csv_forget counters.csv "$1"
	sed -n 's/^counters //p' "$ZEN_TMP/output" | tr ' ' '\n' | while read -r counter; do
		csv_add counters.csv "$1,${counter/=/,}"
	done
}

# KEY LINE: latencies by type of transaction.
store_tpcc() {
	local type column row
	csv_forget tpcc.csv "$1"
	for type in "${sql_types[@]}"; do
		row=$1,$type
		for column in count ms p50_ms p95_ms p99_ms; do
			row+=,$(field "${type}_$column" <<<"$2")
		done
		csv_add tpcc.csv "$row"
	done
}

# KEY. raw.csv comes last: its line says that the slice is done.
slice() {
	local key=$1 workload peer n theta requests round server line column row
	IFS=, read -r workload peer n theta requests round <<<"$key"
	server=$(server_of "$peer")
	peers_alone "$server"
	[ "$server" != zen ] || set_delays "$peer"
	quietly run_load "$workload" "$n" "$theta" "$requests" "$server"
	line=$(grep '^result ' "$ZEN_TMP/output")
	[ "$server" != zen ] || store_counters "$key"
	[ "$workload" != tpcc ] || store_tpcc "$peer,$n,$round" "$line"
	row=$key
	for column in "${sql_columns[@]:6}"; do
		row+=,$(field "$column" <<<"$line")
	done
	csv_add raw.csv "$row"
	last="$workload, $n clients, $peer: $(field tps <<<"$line") transactions/s"
}

check_tpcc() {
	local server
	for server in "${peers[@]}"; do
		peers_alone "$server"
		quietly sql_on "$server" -v schema=tpcc -f "$here/tpcc/check.sql" || die "$server is not consistent"
	done
	say "all are consistent"
}

sql_run() {
	local server n=0 key
	for server in "${peers[@]}"; do
		create_server "$server"
		[[ $server != zen || " ${names[*]}" != *\ zen-* ]] || check_delays
	done
	for server in "${peers[@]}"; do
		say "loading $server"
		peers_alone "$server"
		quietly load_server "$server"
	done
	while read -r key; do
		slice "$key"
		n=$((n + 1))
		say "$n of $1: $last"
	done
	[[ ,$workloads, != *,tpcc,* ]] || check_tpcc
	sql_at_end
	for server in "${peers[@]}"; do
		server_remove "$server"
	done
}
