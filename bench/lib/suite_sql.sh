# shellcheck shell=bash
#
# suite_sql.sh -- bench/suite's part sql: loads on all peers in turns, to raw.csv, tpcc.csv and counters.csv.
#
# sql_check_cpus   Dies if --cpus is no list of processors of this machine; makes it a plain one, 0,1 of 0-1.
# sql_init         Checks the files in $out and makes them if need be. Slices of other sizes are not mixed: loads says
#                  which they are.
# sql_plan         Prints what is missing, a line for each round: workload,clients,theta,requests,round and after a
#                  space each those of the peers whose slice of it is not in raw.csv.
# sql_estimate     Prints the seconds that the plan on stdin will take.
# sql_need_mb      Prints the memory in MB that the servers' files want.
# sql_run N        Does the plan that it reads from stdin, N lines.
# sql_at_end       For lib_at_end.
#
# Wants peers.sh, csv.sh and the suite's options. A peer is a server of the same name.

sql_columns=(workload peer clients theta requests round seconds transactions retries tps mean_ms p50_ms p95_ms p99_ms
	{cpu_ms,wal_bytes,data_bytes,slots_written,bytes_written,lines_flushed,fences}_per_tx
	{rows_changed,changed_bytes}_per_tx nopm)
sql_types=(new_order payment order_status delivery stock_level)

# Short, as a shared machine may change its speed several times a second; long as against the begin of a turn, when
# caches are cold and each client's transaction was interrupted.
readonly turn_ms=100

sql_check_cpus() {
	local range first last cpu numbers=()
	[[ $cpus =~ ^[0-9]{1,4}(-[0-9]{1,4})?(,[0-9]{1,4}(-[0-9]{1,4})?)*$ ]] ||
		die "--cpus is a list of processors like 0 or 0,2 or 0-3, not '$cpus'"
	for range in $(list "$cpus"); do
		first=${range%-*}
		last=${range#*-}
		((10#$first <= 10#$last)) || die "--cpus $cpus: $range goes backwards"
		for ((cpu = 10#$first; cpu <= 10#$last; cpu++)); do
			taskset -c "$cpu" true 2>/dev/null || die "--cpus $cpus: there is no processor $cpu here"
			numbers+=("$cpu")
		done
	done
	cpus=$(printf '%s\n' "${numbers[@]}" | sort -nu | paste -sd ,)
}

sql_where() { [ -n "$cpus" ] && echo "servers and clients on processors $cpus only" || echo "on all processors"; }

sql_init() {
	csv_init raw.csv "$(IFS=,; echo "${sql_columns[*]}")"
	csv_init tpcc.csv peer,clients,round,type,count,mean_ms,p50_ms,p95_ms,p99_ms
	csv_init counters.csv workload,peer,clients,theta,requests,round,counter,per_tx
	csv_init loads "* slices of $seconds s for up to four clients, of $seconds s more for each four above,$(
		) in turns of $turn_ms ms, $(sql_where); TPC-C with $warehouses$(
		) warehouses, pgbench with scale $scale, $rows rows of 1 KB"
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
	update | scan) list "$clients" | grep -x 1 || true ;;
	tpcc | simple-update | select-only | ycsb-ba) list "$clients" ;;
	ycsb-[a-f]) echo "$main_clients" ;;
	*) list "$clients" | grep -xE "1|$main_clients" ;;
	esac
}

# WORKLOAD: the peers that have it. What NVM's latency costs, loads that commit with little else show.
sql_peers() {
	local peer
	for peer in "${peers[@]}"; do
		case $peer in
		zen-disk) [ "$1" != insert ] || echo "$peer" ;;
		zen-*) [[ ! $1 =~ ^(update|simple-update|tpcc)$ ]] || echo "$peer" ;;
		*) echo "$peer" ;;
		esac
	done
}

# ROUND
sql_slices() {
	local workload n theta requests peer
	for workload in $(list "$workloads"); do
		for n in $(sql_clients "$workload"); do
			while read -r theta requests; do
				for peer in $(sql_peers "$workload"); do
					echo "$workload,$peer,$n,$theta,$requests,$1"
				done
			done < <(sql_variants "$workload" "$n")
		done
	done
}

sql_all_slices() {
	local round
	for ((round = 1; round <= rounds; round++)); do
		sql_slices $round
	done
}

# The peers of a round come one after the other.
sql_plan() {
	sql_all_slices | csv_missing raw.csv 6 | awk -F, '
		{ round = $1 "," $3 "," $4 "," $5 "," $6 }
		round != last { printf "%s%s", end, round; last = round; end = "\n" }
		{ printf " %s", $2 }
		END { printf "%s", end }'
}

sql_estimate() {
	awk -F '[, ]' -v s="$seconds" -v load=$((${#peers[@]} * (5 + warehouses * 3 + rows / 10000 + scale))) '
		NF { t += (NF - 5) * (s * int(($2 + 3) / 4) + 1.5); loads += $5 != round; round = $5 }
		END { print int(t + loads * load) }'
}

## The servers

is_zen() { [[ $1 == zen* ]]; }

am_of() { is_zen "$1" && echo zen || echo heap; }

# CLIENTS: the seconds of a slice. Every client begins with a session of its own, which costs some tens of milliseconds.
slice_s() { echo $((seconds * (($1 + 3) / 4))); }

# MB of pool: TPC-C adds some each second.
sql_pool_mb() {
	local n mb=$((700 + warehouses * 200))
	for n in $(list "$clients"); do
		mb=$((mb + 6 * $(slice_s "$n")))
	done
	echo $mb
}

# heap has half of that, and 1.5 GB of WAL.
sql_need_mb() {
	local server mb=512
	for server in "${peers[@]}"; do
		if is_zen "$server"; then
			mb=$((mb + $(sql_pool_mb)))
		else
			mb=$((mb + $(sql_pool_mb) / 2 + 1536))
		fi
	done
	echo $mb
}

# SERVER SCRIPT ARG...: sets the array command to a script of bench/ on this server.
server_command() {
	local server=$1 script=$2
	shift 2
	command=(env PATH="$PGBIN:$PATH" "$here/$script" --host "$ZEN_TMP" --port "$(server_port "$server")"
		--user postgres --db postgres --am "$(am_of "$server")")
	[ "$server" != unlogged ] || command+=(--unlogged)
	command+=("$@")
}

on_server() {
	local command
	server_command "$@"
	"${command[@]}"
}

# FUNCTION...: what it starts stays on the processors of --cpus.
confined() (
	[ -z "$cpus" ] || taskset -cp "$cpus" "$BASHPID" >/dev/null
	"$@"
)

# shellcheck disable=SC2046
sql_on() { "$PGBIN/psql" $(server_conn "$1") -d postgres -XqAt -v ON_ERROR_STOP=1 "${@:2}"; }

declare -A wal_dirs=() # by peer

wal_to_disk() {
	local dir
	dir=$(mktemp -d "$disk/zen-suite-wal.XXXXXX")
	wal_dirs[$1]=$dir
	mv "$ZEN_TMP/$1/data/pg_wal" "$dir/"
	ln -s "$dir/pg_wal" "$ZEN_TMP/$1/data/pg_wal"
	chown -RH "$ZEN_USER" "$dir"
}

sql_at_end() {
	local server
	peers_thaw
	for server in "${!wal_dirs[@]}"; do
		server_kill "$server"
		rm -rf "${wal_dirs[$server]}"
	done
}

create_server() {
	local server=$1 settings=("${common_settings[@]}")
	if is_zen "$server"; then
		settings+=(zen.pool_size="$(sql_pool_mb)MB" zen.dram_size=2GB zen.met_cache_size=1GB)
	else
		settings+=(shared_preload_libraries=)
	fi
	# of NVM's latency in ns, as in bench/engines/README.md, section Latency
	case $server in
	zen-optane) settings+=(zen.flush_delay=89) ;;
	zen-cxl) settings+=(zen.fence_delay=168) ;;
	heap-async) settings+=(synchronous_commit=off) ;;
	esac
	server_create "$server" "${settings[@]}"
	[[ $server != *-disk ]] || wal_to_disk "$server"
	confined server_start "$server"
	! is_zen "$server" || sql_on "$server" -c "CREATE EXTENSION zen"
}

sizes() { echo --rows $rows --scale $scale; }

# shellcheck disable=SC2046
load_server() {
	local server=$1
	[[ ,$workloads, != *,insert,* ]] || on_server "$server" pgbench/run --workload insert --clients 1 --duration 1
	[ "$server" != zen-disk ] || return 0
	[[ ,$workloads, != *,tpcc,* ]] || on_server "$server" tpcc/load --warehouses $warehouses
	[[ ! ,$workloads, =~ ,(tpcb|simple-update|select-only|scan), ]] ||
		on_server "$server" pgbench/run --workload select-only $(sizes) --clients 1 --duration 1
	[[ ! ,$workloads, =~ ,(ycsb-[a-z]*|update), ]] ||
		on_server "$server" pgbench/run --workload ycsb-c $(sizes) --clients 1 --duration 1
	sql_on "$server" -c CHECKPOINT
}

## The rounds

# SERVER WORKLOAD CLIENTS THETA REQUESTS SECONDS: sets the array command.
load_command() {
	local server=$1 workload=$2 n=$3 theta=$4 requests=$5 options=()
	if [ "$workload" = tpcc ]; then
		server_command "$server" tpcc/run --warehouses "$warehouses" --clients "$n" --duration "$6" --no-check
		return
	fi
	[ "$theta" = - ] || options=(--theta "$theta" --requests "$requests")
	# shellcheck disable=SC2046
	server_command "$server" pgbench/run --workload "$workload" $(sizes) --clients "$n" --duration "$6" "${options[@]}"
}

# PEER KEY: what zen_stat() has counted.
store_counters() {
	local counter
	csv_forget counters.csv "$2"
	sed -n 's/^counters //p' "$(output_of "$1")" | tr ' ' '\n' | while read -r counter; do
		csv_add counters.csv "$2,${counter/=/,}"
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

output_of() { echo "$ZEN_TMP/turns/$1.out"; }

# PEER ROUND. raw.csv comes last: its line says that the slice is done.
store() {
	local peer=$1 workload n theta requests round line column row
	IFS=, read -r workload n theta requests round <<<"$2"
	line=$(grep '^result ' "$(output_of "$peer")")
	row=$workload,$peer,$n,$theta,$requests,$round
	! is_zen "$peer" || store_counters "$peer" "$row"
	[ "$workload" != tpcc ] || store_tpcc "$peer,$n,$round" "$line"
	for column in "${sql_columns[@]:6}"; do
		row+=,$(field "$column" <<<"$line")
	done
	csv_add raw.csv "$row"
	last+=" $peer $(field tps <<<"$line")"
}

# ROUND PEER...: a load's slices on these peers. pgbench's clock does not stop while others have their turns.
run_round() {
	local workload n theta requests round peer command confine=() arguments=()
	[ -z "$cpus" ] || confine=(taskset -c "$cpus")
	IFS=, read -r workload n theta requests round <<<"$1"
	for peer in "${@:2}"; do
		load_command "$peer" "$workload" "$n" "$theta" "$requests" $(($(slice_s "$n") * ($# - 1)))
		arguments+=(--load "$peer" "$(lib_postmaster "$ZEN_TMP/$peer/data")" "${confine[@]}" "${command[@]}")
	done
	mkdir -p "$ZEN_TMP/turns"
	peers_freeze
	"$here/lib/turns.py" "$turn_ms" "$ZEN_TMP/turns" "${arguments[@]}"
	last="$workload, $n clients, round $round, transactions/s:"
	for peer in "${@:2}"; do
		store "$peer" "$1"
	done
}

check_tpcc() {
	local server
	for server in "${peers[@]}"; do
		[ "$server" != zen-disk ] || continue
		peers_alone "$server"
		quietly sql_on "$server" -v schema=tpcc -f "$here/tpcc/check.sql" || die "$server is not consistent"
	done
	say "all are consistent"
}

new_servers() {
	local server
	for server in "${peers[@]}"; do
		create_server "$server"
	done
	for server in "${peers[@]}"; do
		say "round $1: loading $server"
		peers_alone "$server"
		quietly load_server "$server"
	done
}

remove_servers() {
	local server
	[[ ,$workloads, != *,tpcc,* ]] || check_tpcc
	sql_at_end
	wal_dirs=()
	for server in "${peers[@]}"; do
		server_remove "$server"
	done
}

# Each round has servers of its own: where their memory happens to lie can make a tenth of their speed.
sql_run() {
	local n=0 load missing round last_round=
	while read -r load missing; do
		round=${load##*,}
		if [ "$round" != "$last_round" ]; then
			[ -z "$last_round" ] || remove_servers
			new_servers "$round"
			last_round=$round
		fi
		# shellcheck disable=SC2086
		run_round "$load" $missing
		n=$((n + 1))
		say "$n of $1: $last"
	done
	[ -z "$last_round" ] || remove_servers
}
