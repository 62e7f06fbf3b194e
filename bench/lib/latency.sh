# shellcheck shell=bash
#
# latency.sh -- times from pgbench's log of each transaction (bash).
#
# log_latency PREFIX [SCRIPT]   Of the transactions in the files PREFIX.*, or of those of SCRIPT (0 for the first -f):
#                               "COUNT MEAN P50 P95 P99", in ms; nothing if there are none. Transactions that were
#                               given up do not count.
# log_rate PREFIX               "SECONDS TPS": from the begin of the first transaction to the end of the last one, and
#                               transactions per second; nothing if there are none.
# log_worst PREFIX              "MAX_MS TPS": the longest transaction, and how many ended in the second in which the
#                               fewest did, - if there is no whole second; nothing if there are none.
#
# A load that goes in turns with others (turns.py) is measured in its own time, which stands still while it is stopped.
# BENCH_TURNS is the file of its turns: lines "BEGIN END", in microseconds since 1970 like the log's.

# The begin and the end of each transaction, and its script: microseconds of the load's own time.
log_transactions() {
	cat "$1".* | awk -v file="${BENCH_TURNS-}" '
		BEGIN {
			while (file != "" && (getline line <file) > 0) {
				split(line, turn, " ")
				from[++n] = turn[1]
				length_of[n] = turn[2] - turn[1]
				before[n + 1] = before[n] + length_of[n]
			}
		}
		function own(t,  low, high, middle) {
			if (!n)
				return t
			if (t < from[1])
				return 0
			low = 1
			high = n
			while (low < high) {
				middle = int((low + high + 1) / 2)
				if (from[middle] <= t)
					low = middle
				else
					high = middle - 1
			}
			t -= from[low]
			return before[low] + (t < length_of[low] ? t : length_of[low])
		}
		$3 ~ /^[0-9]+$/ { end = $5 * 1000000 + $6; printf "%.0f %.0f %s\n", own(end - $3), own(end), $4 }'
}

log_latency() {
	log_transactions "$1" | awk -v script="${2-}" 'script == "" || $3 == script { print $2 - $1 }' |
		LC_ALL=C sort -n |
		awk '
		{ v[NR] = $1; sum += $1 }
		function at(p,  i) { i = int(NR * p + 0.999999); return v[i < 1 ? 1 : i] / 1000 }
		END { if (NR) printf "%d %.3f %.3f %.3f %.3f\n", NR, sum / NR / 1000, at(0.5), at(0.95), at(0.99) }'
}

log_rate() {
	log_transactions "$1" | awk '
		NR == 1 || $1 < first { first = $1 }
		$2 > last { last = $2 }
		END { if (last > first) printf "%.3f %.1f\n", (last - first) / 1000000, NR * 1000000 / (last - first) }'
}

log_worst() {
	log_transactions "$1" | awk '
		{ second = int($2 / 1000000); n[second]++ }
		NR == 1 || second < first { first = second }
		second > last { last = second }
		$2 - $1 > longest { longest = $2 - $1 }
		END {
			if (!NR)
				exit
			least = "-"
			for (s = first + 1; s < last; s++)
				if (least == "-" || n[s] + 0 < least)
					least = n[s] + 0
			printf "%.3f %s\n", longest / 1000, least
		}'
}
