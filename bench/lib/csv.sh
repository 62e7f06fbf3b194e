# shellcheck shell=bash
#
# csv.sh -- files of results in the directory $out, so that an interrupted run can be continued (bash; needs args.sh).
#
# csv_init FILE LINE      Makes FILE with this first line; dies if it is there with another.
# csv_missing FILE N      Prints those of the keys on stdin, of N columns each, with which no line of FILE begins.
# csv_add FILE LINE       Adds a line.
# csv_forget FILE KEY     Removes the lines that begin with KEY, which an interrupted run has left.

csv_init() {
	[ -s "$out/$1" ] || echo "$2" >"$out/$1"
	[ "$(head -n 1 "$out/$1")" = "$2" ] ||
		die "$out/$1 is of another suite: it begins with '$(head -n 1 "$out/$1")', not '$2'"
}

csv_missing() {
	awk -F, -v n="$2" '
		NR == FNR { key = $1; for (i = 2; i <= n; i++) key = key "," $i; have[key]; next }
		!($0 in have)' "$out/$1" -
}

csv_add() { echo "$2" >>"$out/$1"; }

csv_forget() { sed -i "/^${2//./\\.},/d" "$out/$1"; }
