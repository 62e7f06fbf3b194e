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
# sql_need_mb      Prints the memory in MB that the servers' files need.
# sql_run N        Does the plan that it reads from stdin, N lines.
# sql_at_end       For lib_at_end.
#
# Needs peers.sh, csv.sh and the suite's options. A peer is a server of the same name.

sql_columns=(workload peer clients theta requests round seconds transactions retries tps mean_ms p50_ms p95_ms p99_ms
	{cpu_ms,wal_bytes,data_bytes,slots_written,bytes_written,lines_flushed,fences}_per_tx
	{rows_changed,changed_bytes}_per_tx nopm background_ms_per_tx checkpoints autovacuums)
sql_types=(new_order payment order_status delivery stock_level)

# Short, as a shared machine may change its speed several times a second; long as against the begin of a turn, when
# caches are cold and each client's transaction was interrupted.
readonly turn_ms=100

# Heap's buffers and Met-Cache find the rows read most.
readonly paper_warmup_s=4

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
		) warehouses, pgbench with scale $scale, $rows rows of 1 KB${set:+; zen with $set}"
	[ -z "$(paper_factors)" ] || paper_init
}

## The paper's setting: tables far larger than DRAM

# WORKLOAD: which servers it has. Those of the paper's setting have their table and little DRAM.
sql_setting() {
	case $1 in
	paper*) echo "${1%-*}" ;;
	long) echo long ;;
	*) echo plain ;;
	esac
}

paper_factors() { list "$workloads" | sed -n 's/^paper\([0-9]*\)-.*/\1/p' | sort -nu; }

# SETTING: rows of 1 KB in its table.
sql_rows() {
	case $1 in
	paper*) echo $((${1#paper} * dram * 1024)) ;;
	*) echo "$rows" ;;
	esac
}

# The DRAM in MB that zen has for what. The key cache has 12 bytes for each row, as it takes 8 for each, and
# not all buckets fill alike. What it knows needs no index, so that PostgreSQL's buffers are for catalogs and the upper
# pages of the index: an eighth. The rest is zen.dram_size, a limit that zen
# does not exceed: the map has 8 bytes for each row, Met-Cache three quarters at most, and 4 MB and an eighth are for
# queues and pages of classes that are not full. Without the eighth an update found zen's shared memory full.
paper_buffers=$((dram / 8))
paper_key_cache() { echo $(($(sql_rows "$1") * 12 / 1048576)); }
paper_dram_size() { echo $((dram - paper_buffers - $(paper_key_cache "$1"))); }

paper_met_cache() {
	local size rest
	size=$(paper_dram_size "$1")
	rest=$((size - $(sql_rows "$1") * 8 / 1048576 - 4 - size / 8))
	echo $((rest < size * 3 / 4 ? rest : size * 3 / 4))
}

# SETTING
paper_describe() {
	echo "* $1 has $(sql_rows "$1") rows of 1 KB. Heap has shared_buffers of $dram MB. zen has $paper_buffers +" \
		"$(paper_key_cache "$1") + $(paper_dram_size "$1") MB: shared_buffers, key cache, zen.dram_size with a" \
		"Met-Cache of $(paper_met_cache "$1") MB"
}

paper_init() {
	local factor line
	csv_init dram "* DRAM of either engine: $dram MB"
	for factor in $(paper_factors); do
		line=$(paper_describe "paper$factor")
		say "${line#* }"
		grep -qxF "$line" "$out/dram" || csv_add dram "$line"
	done
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
	paper*) printf '%s\n' '0 1' '0.99 1' ;;
	*) echo '- -' ;;
	esac
}

# WORKLOAD: the numbers of clients it is run with.
sql_clients() {
	case $1 in
	update | scan | copy | create-index) list "$clients" | grep -x 1 || true ;;
	long) echo "$main_clients" ;;
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
		zen-tree | zen-logical | zen-replica | zen-both) echo "$peer" ;;
		zen-*) [[ ! $1 =~ ^(update|simple-update|tpcc)$ ]] || echo "$peer" ;;
		*) echo "$peer" ;;
		esac
	done
}

# The workloads, those with the same servers together.
sql_by_setting() {
	local workload
	for workload in $(list "$workloads"); do
		echo "$(sql_setting "$workload") $workload"
	done | awk '!($1 in n) { n[$1] = NR } { print n[$1], $2 }' | sort -s -n -k 1,1 | cut -d ' ' -f 2
}

# ROUND
sql_slices() {
	local workload n theta requests peer
	for workload in $(sql_by_setting); do
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

# CLIENTS [WORKLOAD]: the seconds of a slice. Every client begins with a session of its own, which costs some tens of
# milliseconds.
slice_s() { echo $((seconds * (($1 + 3) / 4) * ($([ "${2-}" = long ] && echo 10 || echo 1)))); }

# SETTING: MB of pool; TPC-C adds some each second.
sql_pool_mb() {
	local n mb=$((700 + warehouses * 200))
	[ "$1" = plain ] || { echo $((500 + $(sql_rows "$1") * 16 / 10000)); return; }
	for n in $(list "$clients"); do
		mb=$((mb + 6 * $(slice_s "$n")))
	done
	echo $mb
}

# SETTING: heap has half of that, all of it with little DRAM, and 1.5 GB of WAL.
sql_setting_mb() {
	local server mb=512 pool
	pool=$(sql_pool_mb "$1")
	for server in "${peers[@]}"; do
		if is_zen "$server"; then
			mb=$((mb + pool))
		else
			mb=$((mb + pool / ($([ "$1" = plain ] && echo 2 || echo 1)) + 1536))
		fi
	done
	echo $mb
}

sql_need_mb() {
	local workload
	for workload in $(sql_by_setting); do
		sql_setting_mb "$(sql_setting "$workload")"
	done | sort -n | tail -n 1
}

# SERVER SCRIPT ARG...: sets the array command to a script of bench/ on this server.
server_command() {
	local server=$1 script=$2
	shift 2
	command=(env PATH="$PGBIN:$PATH" BENCH_LOG="$(server_log "$server")" "$here/$script" --host "$ZEN_TMP"
		--port "$(server_port "$server")" --user postgres --db postgres --am "$(am_of "$server")")
	[ "$server" != unlogged ] || command+=(--unlogged)
	[ "$server" != zen-tree ] || command+=(--index zentree)
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

# The programs of a server whose zen can wait at each line and fence; it is built once.
delaying_bin() {
	local bin=$ZEN_TMP/testing-bin
	[ -e "$bin" ] || testing_bin >"$bin"
	cat "$bin"
}

# SERVER SETTING
create_server() {
	local server=$1 setting=$2 settings=("${common_settings[@]}")
	if is_zen "$server"; then
		settings+=(zen.pool_size="$(sql_pool_mb "$setting")MB" zen.dram_size=2GB zen.met_cache_size=1GB
			"${zen_settings[@]}")
	else
		settings+=(shared_preload_libraries=)
	fi
	case $setting in
	paper*) mapfile -t -O ${#settings[@]} settings < <(paper_settings "$server" "$setting") ;;
	long) settings+=("${long_settings[@]}") ;;
	esac
	# of NVM's latency in ns, as in bench/paper/engines/README.md, section Latency
	case $server in
	zen-tree) settings+=(zen.default_index=zentree) ;;
	zen-logical) settings+=(zen.stream=logical wal_level=logical) ;;
	zen-replica) settings+=(zen.stream=replica wal_level=replica) ;;
	zen-both) settings+=(zen.stream=replica wal_level=logical) ;;
	zen-optane) settings+=(zen.flush_delay=89) server_bin[$server]=$(delaying_bin) ;;
	zen-cxl) settings+=(zen.fence_delay=168) server_bin[$server]=$(delaying_bin) ;;
	heap-async) settings+=(synchronous_commit=off) ;;
	esac
	server_create "$server" "${settings[@]}"
	[[ $server != *-disk && $wal != disk ]] || wal_to_disk "$server"
	confined server_start "$server"
	! is_zen "$server" || sql_on "$server" -c "CREATE EXTENSION zen"
}

# SERVER SETTING
paper_settings() {
	if is_zen "$1"; then
		echo shared_buffers=${paper_buffers}MB
		echo "zen.key_cache_size=$(paper_key_cache "$2")MB"
		echo "zen.dram_size=$(paper_dram_size "$2")MB"
		echo "zen.met_cache_size=$(paper_met_cache "$2")MB"
	else
		echo "shared_buffers=${dram}MB"
	fi
}

# Several checkpoints and some VACUUM in each slice.
readonly long_settings=(max_wal_size=128MB min_wal_size=64MB checkpoint_timeout=30s autovacuum_naptime=1s
	autovacuum_vacuum_scale_factor=0.05)

# SETTING
sizes() { echo --rows "$(sql_rows "$1")" --scale $scale; }

# SERVER TABLE KEY: reads each row once by its key, as after hours of work.  zen's key cache learns so.
read_by_key() {
	sql_on "$1" <<-SQL
		DO \$\$ DECLARE row record; BEGIN FOR k IN 1 .. (SELECT max($3) FROM $2) LOOP
			SELECT * INTO row FROM $2 WHERE $3 = k;
			IF k % 500 = 0 THEN COMMIT; END IF;
		END LOOP; END \$\$
	SQL
}

# SERVER SETTING: the table, and reads that fill the caches: of each row once, as the key cache learns from reads, and
# with skew.
# shellcheck disable=SC2046
load_rows() {
	on_server "$1" pgbench/run --workload ycsb-c $(sizes "$2") --clients 1 --duration 1
	sql_on "$1" -c CHECKPOINT
	[[ $2 == paper* ]] || return 0
	read_by_key "$1" pgbench_usertable.usertable ycsb_key
	on_server "$1" pgbench/run --workload ycsb-ro --requests 50 $(sizes "$2") --clients 1 --duration $paper_warmup_s
}

# SERVER WORKLOAD TABLE KEY
load_and_read() {
	# shellcheck disable=SC2046
	on_server "$1" pgbench/run --workload "$2" $(sizes plain) --clients 1 --duration 1
	read_by_key "$1" "$3" "$4"
}

# SERVER SETTING
# shellcheck disable=SC2046
load_server() {
	local server=$1 workload
	[ "$2" = plain ] || { load_rows "$@"; return; }
	for workload in indexed-update full-pages; do
		[[ ! ,$workloads, =~ ,${workload%-*}- ]] ||
			on_server "$server" pgbench/run --workload $workload $(sizes plain) --clients 1 --duration 1
	done
	[[ ! ,$workloads, =~ ,(copy|create-index), ]] ||
		on_server "$server" pgbench/run --workload create-index $(sizes plain) --clients 1 --duration 1
	[[ ,$workloads, != *,insert,* ]] || on_server "$server" pgbench/run --workload insert --clients 1 --duration 1
	[ "$server" != zen-disk ] || return 0
	[[ ,$workloads, != *,tpcc,* ]] || on_server "$server" tpcc/load --warehouses $warehouses
	[[ ! ,$workloads, =~ ,(tpcb|simple-update|select-only|scan), ]] ||
		load_and_read "$server" select-only pgbench_accounts.pgbench_accounts aid
	[[ ! ,$workloads, =~ ,(ycsb-[a-z]*|update), ]] ||
		load_and_read "$server" ycsb-c pgbench_usertable.usertable ycsb_key
	sql_on "$server" -c CHECKPOINT
}

## The rounds

# SERVER WORKLOAD CLIENTS THETA REQUESTS SECONDS: sets the array command.
load_command() {
	local server=$1 workload=$2 n=$3 theta=$4 requests=$5 name=$2 options=()
	if [ "$workload" = tpcc ]; then
		[ "$protocol" = prepared ] || options=(--plain)
		server_command "$server" tpcc/run --warehouses "$warehouses" --clients "$n" --duration "$6" --no-check \
			--protocol "$protocol" "${options[@]}"
		return
	fi
	[ "$theta" = - ] || options=(--theta "$theta" --requests "$requests")
	case $workload in
	paper*-up) name=update ;;
	paper*) name=ycsb-${workload#*-} ;;
	long) name=update options=(--theta 0) ;;
	esac
	# shellcheck disable=SC2046
	server_command "$server" pgbench/run --workload "$name" $(sizes "$(sql_setting "$workload")") \
		--clients "$n" --duration "$6" --protocol "$protocol" "${options[@]}"
}

# PEER KEY: what zen_stat has counted.
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
		load_command "$peer" "$workload" "$n" "$theta" "$requests" $(($(slice_s "$n" "$workload") * ($# - 1)))
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

# ROUND SETTING
new_servers() {
	local server
	for server in "${peers[@]}"; do
		create_server "$server" "$2"
	done
	for server in "${peers[@]}"; do
		say "round $1: loading $server"
		peers_alone "$server"
		quietly load_server "$server" "$2"
	done
}

# SETTING
remove_servers() {
	local server
	[[ $1 != plain || ,$workloads, != *,tpcc,* ]] || check_tpcc
	sql_at_end
	wal_dirs=()
	for server in "${peers[@]}"; do
		server_remove "$server"
	done
}

# Each round has servers of its own: where their memory happens to lie can make a tenth of their speed.
sql_run() {
	local n=0 load missing setting round last_setting='' last_round=
	while read -r load missing; do
		round=${load##*,}
		setting=$(sql_setting "${load%%,*}")
		if [ "$round $setting" != "$last_round $last_setting" ]; then
			[ -z "$last_round" ] || remove_servers "$last_setting"
			new_servers "$round" "$setting"
			last_round=$round
			last_setting=$setting
		fi
		# shellcheck disable=SC2086
		run_round "$load" $missing
		n=$((n + 1))
		say "$n of $1: $last"
	done
	[ -z "$last_round" ] || remove_servers "$last_setting"
}
