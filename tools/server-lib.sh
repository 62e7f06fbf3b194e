# shellcheck shell=bash
#
# server-lib.sh -- private PostgreSQL servers with zen, for scripts (bash, `set -euo pipefail`).
#
#   "$(dirname "$0")/install-deps"
#   . "$(dirname "$0")/server-lib.sh"        # restarts the script: do it early
#   lib_begin demo 4000                      # user, temporary directory with room for 4000 MB, trap
#   server_create a zen.pool_size=2GB fsync=on
#   server_start a
#   as_user "$PGBIN/psql" $(server_conn a) -c 'CREATE EXTENSION zen'
#   server_kill a; server_start a            # crash and recover
#   server_stop a; server_remove a
#
# Whatever is left is killed and removed when the script ends, however it ends. With KEEP=1 it stays,
# running, and the script's last words on stderr say where.
#
# lib_begin NAME [MB [disk|DIR]]   Once, first. Sets
#                         ZEN_TMP   the temporary directory, owned by the unprivileged user: on tmpfs
#                                   (/dev/shm) if that has MB megabytes free (default 1500), else
#                                   under TMPDIR. With `disk` under TMPDIR or /var/tmp; or in DIR, or not at all
#                         ZEN_USER  who runs servers and tests: the caller, or for root `postgres`,
#                                   or `zentest`, which is created
#                         PGBIN     the directory of the server's programs (PG_CONFIG)
# lib_at_end FUNCTION   FUNCTION runs first of all when the script ends, while the servers still run.
# install_zen           In the repository's root: builds zen and installs it into the server (PG_CONFIG),
#                       with sudo if need be.
# testing_bin           Once, after lib_begin: builds zen with the settings for tests and measurements
#                       (ZEN_TESTING=1) in a copy of the server, in ZEN_TMP. Prints the directory of its
#                       programs, for PGBIN or server_bin. Where tools/check runs a script, it has made such
#                       a server already (ZEN_FAULT_SERVER).
# as_user CMD...        Runs CMD as ZEN_USER in ZEN_TMP, without the caller's PGHOST and the like. The
#                       array AS_USER is its prefix, for commands in the background.
# say MESSAGE           Prints a progress line with the seconds since the start.
# wait_for SECONDS CMD...   Polls CMD until it succeeds; fails after SECONDS.
# free_port             Prints a TCP port on which no process listens.
#
# A server NAME lives in $ZEN_TMP/NAME: data/, zen.pool, log. It listens on a Unix socket in ZEN_TMP,
# where only ZEN_USER and root can reach it, under a port number of its own; superuser postgres.
#
# server_create NAME [SETTING=VALUE...]   initdb and postgresql.conf: zen preloaded, emulated pool of
#                         1 GB, fsync off; the settings come last and win (zen.pool_size=2GB,
#                         zen.dram_size=1GB, fsync=on, shared_preload_libraries= for plain PostgreSQL).
# wal_writer_setting      Prints the setting with which asynchronous commits, as zen's are, wake the WAL writer least:
#                         wal_writer_flush_after=0 before PostgreSQL 17. There and later 0 would wake it at each commit.
# server_start NAME       Returns when it accepts connections; prints the log's tail if it does not.
# server_stop NAME [MODE] pg_ctl stop, mode fast unless told.
# server_kill NAME        SIGKILL to the postmaster and all its children; returns when all are gone.
# server_alive NAME       Is the postmaster running?
# server_remove NAME      Kills it if it runs, and deletes its files.
# server_bin              Array: where the programs of a server NAME are, if not in PGBIN.
# server_port NAME        Prints the port.
# server_conn NAME        Prints "-h DIR -p PORT -U postgres" for psql, pgbench and others.
# server_log NAME         Prints the path of the server log.

start_timeout_s=300

# A killed postmaster is an orphan. In a container there may be no process that reaps orphans, and
# PostgreSQL does not start while the process number in postmaster.pid is taken, even by a zombie. So
# the script starts over as a process that inherits and reaps orphans. exec keeps its process number.
if [ "${ZEN_SUBREAPER:-}" != $$ ]; then
	export ZEN_SUBREAPER=$$
	# 36 is PR_SET_CHILD_SUBREAPER
	exec perl -e 'require "syscall.ph"; syscall(SYS_prctl(), 36, 1, 0, 0, 0); exec @ARGV' "$BASH" "$0" "$@"
fi

say() { printf '[%4d s] %s\n' "$SECONDS" "$*"; }

wait_for() {
	local deadline=$((SECONDS + $1))
	shift
	until "$@"; do
		((SECONDS < deadline)) || return 1
		sleep 0.1
	done
}

free_port() {
	local port
	while :; do
		port=$((20000 + RANDOM % 10000)) # below Linux's ephemeral ports
		grep -qsx "$port" "$ZEN_TMP"/*/port && continue
		(exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || break
	done
	echo "$port"
}

install_zen() (
	unset MAKEFLAGS MFLAGS MAKELEVEL # a jobserver above is not for this build
	sudo=()
	say "building and installing zen"
	make -s -j "$(nproc)"
	[ -w "$("${PG_CONFIG:-pg_config}" --pkglibdir)" ] || sudo=(sudo)
	"${sudo[@]}" make -s install ${PG_CONFIG:+PG_CONFIG="$PG_CONFIG"} ${EXECUTOR:+EXECUTOR="$EXECUTOR"} \
		>/dev/null
)

testing_bin() (
	if [ -n "${ZEN_FAULT_SERVER:-}" ]; then
		echo "$ZEN_FAULT_SERVER/bin"
		return
	fi
	unset MAKEFLAGS MFLAGS MAKELEVEL
	say "building zen for tests" >&2
	home=$(ZEN_FAULTS=0 ZEN_TESTING=1 "$(dirname "${BASH_SOURCE[0]}")/fault-server" "$ZEN_TMP/testing")
	echo "$home/bin"
)

## Users and directories

as_user() { "${AS_USER[@]}" "$@"; }

# Root hands over to someone else, because PostgreSQL refuses to run as root.
lib_choose_user() {
	AS_USER=()
	ZEN_USER=$(id -un)
	if [ "$(id -u)" = 0 ]; then
		ZEN_USER=postgres
		if ! id postgres >/dev/null 2>&1; then
			ZEN_USER=zentest
			id zentest >/dev/null 2>&1 || useradd --system --user-group --no-create-home zentest
		fi
		AS_USER=(setpriv --reuid "$ZEN_USER" --regid "$(id -g "$ZEN_USER")" --init-groups)
	fi
	AS_USER+=(env)
	local name
	for name in PGHOST PGHOSTADDR PGPORT PGUSER PGDATABASE PGDATA PGOPTIONS PGSERVICE PGPASSFILE; do
		AS_USER+=(-u "$name")
	done
}

# A socket's path is limited to 107 bytes: a long TMPDIR will not do.
lib_fits() {
	as_user test -w "$1" -a -x "$1" -a ${#1} -lt 60 &&
		[ "$(df --output=avail -BM "$1" | tail -n 1 | tr -dc 0-9)" -ge "$2" ]
}

lib_choose_base() {
	local need_mb=$1 base bases=(/dev/shm "${TMPDIR:-/tmp}")
	case ${2:-} in
	disk) bases=("${TMPDIR:-/var/tmp}" /var/tmp) ;;
	/*) bases=("$2") ;;
	esac
	for base in "${bases[@]}"; do
		if lib_fits "$base" "$need_mb"; then
			echo "$base"
			return
		fi
	done
	if [[ ${2:-} == /* ]]; then
		echo "$2 must have $need_mb MB free, a path below 60 characters, and be writable for $ZEN_USER" >&2
		return 1
	fi
	echo /tmp
}

lib_begin() {
	local base
	PGBIN=$("${PG_CONFIG:-pg_config}" --bindir)
	lib_choose_user
	base=$(lib_choose_base "${2:-1500}" "${3:-}")
	ZEN_TMP=$(mktemp -d "$base/zen-$1.XXXXXX")
	chown "$ZEN_USER" "$ZEN_TMP"
	AS_USER+=(-C "$ZEN_TMP" HOME="$ZEN_TMP")
	LIB_AT_END=:
	trap lib_end EXIT
	trap 'exit 129' HUP
	trap 'exit 130' INT
	trap 'exit 143' TERM
}

lib_at_end() { LIB_AT_END=$1; }

# Finds the servers by their directories: tests start some of their own.
lib_end() {
	local status=$? pidfile name
	trap '' HUP INT TERM
	set +e
	$LIB_AT_END
	if [ "${KEEP:-0}" = 1 ]; then
		echo "KEEP=1: user $ZEN_USER has servers and files in $ZEN_TMP; connect (and stop) with" >&2
		for pidfile in "$ZEN_TMP"/*/data/postmaster.pid; do
			[ -f "$pidfile" ] || continue
			name=$(basename "$(dirname "$(dirname "$pidfile")")")
			echo "  $PGBIN/psql $(server_conn "$name")  # ${pidfile%/*}" >&2
		done
	else
		while read -r pidfile; do
			lib_discard "$(dirname "$pidfile")"
		done < <(find "$ZEN_TMP" -name postmaster.pid)
		rm -rf "$ZEN_TMP"
	fi
	exit "$status"
}

## Processes

# A process that died but was not waited for counts as gone.
lib_running() { grep -qs '^State:[[:space:]]*[^ZX]' "/proc/$1/status"; }

lib_gone() {
	local pid
	for pid in "$@"; do
		! lib_running "$pid" || return 1
	done
}

lib_children() { grep -ls "^PPid:[[:space:]]*$1\$" /proc/[0-9]*/status | cut -d / -f 3; }

# The postmaster of a data directory. A stale postmaster.pid may bear the number of a stranger.
lib_postmaster() {
	local data=$1 pid
	pid=$(head -n 1 "$data/postmaster.pid" 2>/dev/null) && lib_running "$pid" &&
		[ "$(readlink "/proc/$pid/cwd")" = "$data" ] && echo "$pid"
}

# SIGSTOP first, so that no child is born between the listing and the killing. Children die first: one that saw its
# postmaster gone would act on that, and PANIC, say, where it has just committed.
lib_kill() {
	local pid children
	pid=$(lib_postmaster "$1") || return 0
	kill -STOP "$pid"
	mapfile -t children < <(lib_children "$pid")
	kill -KILL "${children[@]}" "$pid" 2>/dev/null || true # one may just have ended by itself
	wait_for 60 lib_gone "$pid" "${children[@]}"
}

# A killed postmaster leaves a small System V segment behind, which its successor would have removed.
lib_discard() {
	local data=$1 shmid
	lib_kill "$data"
	shmid=$(sed -n '7s/.* //p' "$data/postmaster.pid" 2>/dev/null) || true
	[ -z "$shmid" ] || ipcrm -m "$shmid" 2>/dev/null || true
}

## Servers

declare -A server_bin=()
bin_of() { echo "${server_bin[$1]:-$PGBIN}"; }

server_port() { cat "$ZEN_TMP/$1/port"; }
server_conn() { echo "-h $ZEN_TMP -p $(server_port "$1") -U postgres"; }
server_log() { echo "$ZEN_TMP/$1/log"; }
server_alive() { lib_postmaster "$ZEN_TMP/$1/data" >/dev/null; }
server_kill() { lib_kill "$ZEN_TMP/$1/data"; }

# Dynamic shared memory lies in the data directory, so that it goes with it after a SIGKILL.
server_create() {
	local name=$1 dir=$ZEN_TMP/$1 setting
	shift
	as_user mkdir "$dir"
	as_user touch "$dir/log"
	free_port | as_user tee "$dir/port" >/dev/null
	if ! as_user "$(bin_of "$name")/initdb" --no-sync -A trust -U postgres --no-locale -E UTF8 \
		-D "$dir/data" >"$ZEN_TMP/initdb.log" 2>&1; then
		cat "$ZEN_TMP/initdb.log" >&2
		return 1
	fi
	{
		cat <<-END
			shared_preload_libraries = 'zen'
			zen.pool_mode = 'emulated'
			zen.pool_path = '$dir/zen.pool'
			zen.pool_size = '1GB'
			listen_addresses = ''
			unix_socket_directories = '$ZEN_TMP'
			port = $(server_port "$name")
			dynamic_shared_memory_type = mmap
			max_prepared_transactions = 20
			fsync = off
			log_line_prefix = '%m [%p] %b '
		END
		for setting in "$@"; do
			echo "${setting%%=*} = '${setting#*=}'"
		done
	} | as_user tee -a "$dir/data/postgresql.conf" >/dev/null
}

wal_writer_setting() {
	local major
	major=$("${PG_CONFIG:-pg_config}" --version | sed -E 's/^[^0-9]*([0-9]+).*/\1/')
	echo "wal_writer_flush_after=$([ "$major" -lt 17 ] && echo 0 || echo 1MB)"
}

server_start() {
	local dir=$ZEN_TMP/$1 output
	output=$(as_user "$(bin_of "$1")/pg_ctl" -s -w -t $start_timeout_s -D "$dir/data" -l "$dir/log" start 2>&1) &&
		return
	printf 'server %s did not start\n%s\nthe end of its log:\n' "$1" "$output" >&2
	tail -n 30 "$dir/log" >&2
	return 1
}

server_stop() { as_user "$(bin_of "$1")/pg_ctl" -s -w -t $start_timeout_s -D "$ZEN_TMP/$1/data" -m "${2:-fast}" stop; }

server_remove() {
	lib_discard "$ZEN_TMP/$1/data"
	rm -rf "${ZEN_TMP:?}/$1"
}
