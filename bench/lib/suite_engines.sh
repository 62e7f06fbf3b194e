# shellcheck shell=bash
#
# suite_engines.sh -- bench/suite's part engines: bench/paper/engines/report without NVM's latency and with
# Optane's, to engines-none/ and engines-optane/ in $out. A run that was interrupted is continued.
#
# engines_plan           Prints the number of runs that are missing.
# engines_estimate N     Prints the seconds that N runs will take.
# engines_run            Builds the program if need be and runs what is missing.

readonly engines_latencies=(none optane)

# LATENCY: the groups to run, nothing for all.
engines_groups() {
	if [ -z "$engine_groups" ] && [ "$1" != none ]; then
		echo mixes,tpcc,single
	else
		echo "$engine_groups"
	fi
}

# LATENCY ARG...
engines_report() {
	local options=() groups
	groups=$(engines_groups "$1")
	[ $full = false ] || options+=(--full)
	[ -z "$groups" ] || options+=(--groups "$groups")
	"$here/paper/engines/report" --seconds "$engine_seconds" --rows "$engine_rows" \
		--repetitions $((rounds < 3 ? 3 : rounds)) \
		"${options[@]}" --latency "$1" --out "$out/engines-$1" "${@:2}"
}

engines_plan() {
	local latency n sum=0
	for latency in "${engines_latencies[@]}"; do
		n=$(engines_report "$latency" --count) || return
		sum=$((sum + n))
	done
	echo $sum
}

# Half a second of each run is for loading and recovery.
engines_estimate() { awk -v n="$1" -v s="$engine_seconds" 'BEGIN { print int(n * (s + 0.5)) }'; }

engines_run() {
	local latency
	make -s -C "$here/paper/engines" PG_CONFIG="${PG_CONFIG:-pg_config}"
	for latency in "${engines_latencies[@]}"; do
		say "engines with latency $latency"
		engines_report "$latency"
	done
}
