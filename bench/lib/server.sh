# shellcheck shell=bash
#
# server.sh -- what a running PostgreSQL server costs, read from /proc (bash).
#
# server_cpu_ms PID    Processor time, user + system, of the postmaster PID and of all processes that it ever
#                      started, in milliseconds.
# server_background_ms PID   The part of it that live children had: the checkpointer and other background processes, if
#                      there is no client.
# server_quiet PID     Waits, 10 s at most, until the server has no client.
# server_pss_kb PID [FILE]   Memory of the server's processes now without the mapping of FILE (an NVM pool): the
#                      sum of their PSS, in which a page that n processes have mapped counts 1/n for each. A
#                      page of shared memory counts only while a process that touched it lives. Needs the
#                      server's user, or root.
#
# Exactness. The kernel adds the whole time of an exited backend to its parent's cutime and cstime when the
# postmaster reaps it; a live one has its own utime and stime. The sum of both is complete, in steps of a
# clock tick per live process, if no backend is reaped between the two readings: cutime + cstime are read
# first and last, and must agree. Callers let the clients leave first (server_quiet).

# The stat lines of the postmaster $1 and of its children: PID STATE PPID ..., the name in brackets cut out.
server_stats() {
	cat /proc/[0-9]*/stat 2>/dev/null | sed 's/(.*) //' | awk -v pm="$1" '$1 == pm || $3 == pm' || true
}

server_reaped() { server_stats "$1" | awk -v pm="$1" '$1 == pm { print $15 + $16 }'; }

server_cpu_ms() {
	local before after sum
	after=$(server_reaped "$1")
	until [ "$after" = "${before-}" ]; do
		before=$after
		sum=$(server_stats "$1" | awk -v hz="$(getconf CLK_TCK)" '
			{ ticks += $13 + $14 + $15 + $16 } END { printf "%d\n", ticks * 1000 / hz }')
		after=$(server_reaped "$1")
	done
	echo "$sum"
}

server_background_ms() {
	server_stats "$1" | awk -v pm="$1" -v hz="$(getconf CLK_TCK)" '
		$3 == pm { ticks += $13 + $14 }
		END { printf "%d\n", ticks * 1000 / hz }'
}

# A backend's process title ends in "USER DATABASE [local] STATE" or "USER DATABASE HOST(PORT) STATE".
server_has_client() {
	local pid
	for pid in $(server_stats "$1" | awk -v pm="$1" '$3 == pm { print $1 }'); do
		tr '\0' ' ' 2>/dev/null <"/proc/$pid/cmdline" | grep -Eq '(\[local\]|\([0-9]+\)) ' && return 0
	done
	return 1
}

server_quiet() {
	local deadline=$((SECONDS + 10))
	while server_has_client "$1" && ((SECONDS < deadline)); do
		sleep 0.02
	done
}

server_pss_kb() {
	server_stats "$1" | while read -r pid _; do
		cat "/proc/$pid/smaps" 2>/dev/null || true
	done | awk -v file="${2-}" '
		/^[0-9a-f]+-[0-9a-f]+ / { skip = file != "" && index($0, file) }
		/^Pss:/ && !skip { kb += $2 }
		END { print kb + 0 }'
}
