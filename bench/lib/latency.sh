# shellcheck shell=bash
#
# latency.sh -- latencies from pgbench's log of each transaction (bash).
#
# log_latency PREFIX [SCRIPT]   Of the transactions in the files PREFIX.*, or of those of SCRIPT (0 for the first -f):
#                               "COUNT MEAN P50 P95 P99", in ms; nothing if there are none. Transactions that were
#                               given up do not count.

log_latency() {
	cat "$1".* | awk -v script="${2-}" '$3 ~ /^[0-9]+$/ && (script == "" || $4 == script) { print $3 }' | LC_ALL=C sort -n | awk '
		{ v[NR] = $1; sum += $1 }
		function at(p,  i) { i = int(NR * p + 0.999999); return v[i < 1 ? 1 : i] / 1000 }
		END { if (NR) printf "%d %.3f %.3f %.3f %.3f\n", NR, sum / NR / 1000, at(0.5), at(0.95), at(0.99) }'
}
