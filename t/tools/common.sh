# shellcheck shell=bash
#
# common.sh -- what the files of this folder share: servers with a zen and a heap table, a load, checks (bash; behind
# tools/server-lib.sh).
#
# ok NAME, not_ok NAME [WHY], is NAME GOT EXPECTED     a check, one line
# runs NAME CMD...     a check: the command ends well, in $command_s seconds, as the unprivileged user
# node_create NAME [SETTING=VALUE...]   a primary, not started: checksums, the pool in the data directory, replica
# node_start NAME      starts it; its tables are made if they are not there
# copy_create NAME     room for a data directory that a tool makes: $ZEN_TMP/NAME/data
# copy_starts CHECK NAME [SETTING=VALUE...]   a check: a copy starts and leaves recovery; it archives nothing
# standby_starts CHECK NAME PRIMARY [SETTING=VALUE...]   a check: it starts and follows
# load_begin FILE SERVER...             clients that write to the one of these servers that takes writes; load_end
# is_complete CHECK SERVER [TIME]       a check: the journal of the last load is there
# session_begin SERVER; session SQL; session_end        a session that stays
# stay_set N           it sets 10 rows of both tables; stay_is CHECK SERVER N: a check
# ssh_begin            an ssh server on 127.0.0.1; ssh_command: how to get there
# daemon NAME CMD...   in the background, until the tool's end

readonly command_s=180 start_s=90 clients=2
loads=0

ok() { echo "ok - $tool: $*"; }

not_ok() {
	echo "not ok - $tool: $1"
	[ -z "${2:-}" ] || tail -n 12 <<<"$2" | cut -c 1-300 | sed 's/^/#   /'
}

is() {
	if [ "$2" = "$3" ]; then
		ok "$1"
	else
		not_ok "$1" "got '$2', expected '$3'"
	fi
}

runs() {
	local name=$1 output
	shift
	if output=$(as_user timeout "$command_s" "$@" 2>&1 </dev/null); then
		ok "$name"
	else
		not_ok "$name" "$output"
		return 1
	fi
}

# What lib_begin has set, for t/tools/run.
tools_export() { declare -p ZEN_TMP ZEN_WAL ZEN_USER PGBIN AS_USER >"$ZEN_TMP/environment"; export ZEN_TOOLS_TMP=$ZEN_TMP; }

tools_import() {
	. <(sed 's/^declare \(--\|-a\) /declare -g \1 /' "$ZEN_TOOLS_TMP/environment")
	AS_USER+=(PATH="$PGBIN:$PATH" LANG=C.UTF-8 PGCONNECT_TIMEOUT=10)
}

## Processes that are no servers of PostgreSQL

daemon() {
	local name=$1
	shift
	# A function's child would be a shell, whose death the program takes for a TERM.
	"${AS_USER[@]}" setpriv --pdeathsig TERM "$@" >"$ZEN_TMP/$name.log" 2>&1 </dev/null &
	echo $! >"$ZEN_TMP/pids/$name"
	disown # so that bash says nothing when it is killed
}

daemon_end() {
	local pid
	pid=$(cat "$ZEN_TMP/pids/$1" 2>/dev/null) || return 0
	kill "-${2:-KILL}" "$pid" 2>/dev/null || true
	wait_for $start_s lib_gone "$pid" || kill -KILL "$pid" 2>/dev/null || true
	rm -f "$ZEN_TMP/pids/$1"
}

daemons_end() {
	local file
	touch "$ZEN_TMP/journal.stop" 2>/dev/null || true
	for file in "$ZEN_TMP"/pids/*; do
		[ ! -e "$file" ] || daemon_end "$(basename "$file")"
	done
}

# All servers below ZEN_TMP, and their files.
servers_end() {
	local pidfile
	[ "${KEEP:-0}" != 1 ] || return 0
	while read -r pidfile; do
		lib_discard "$(dirname "$pidfile")"
	done < <(find "$ZEN_TMP" -name postmaster.pid)
	find "$ZEN_TMP" -mindepth 1 -maxdepth 1 ! -name bin ! -name pids ! -name environment ! -name '*.out' \
		-exec rm -rf {} +
}

## Servers

sql() {
	# shellcheck disable=SC2046
	as_user timeout "$command_s" "$PGBIN/psql" $(server_conn "$1") -X -q -A -t -v ON_ERROR_STOP=1 -d postgres -c "$2"
}

answers() { [ "$(sql "$1" "$2" 2>/dev/null)" = "$3" ]; }

# NAME SETTING=VALUE...: to its postgresql.conf
configure() {
	local name=$1 setting
	shift
	for setting in "$@"; do
		echo "${setting%%=*} = '${setting#*=}'"
	done | as_user tee -a "$ZEN_TMP/$name/data/postgresql.conf" >/dev/null
}

readonly node_settings=(zen.pool_path=zen.pool zen.pool_size=64MB zen.dram_size=64MB zen.stream=replica
	shared_buffers=16MB wal_log_hints=on wal_keep_size=256MB max_wal_senders=10 log_min_messages=log)

node_create() {
	server_create "$1" "${node_settings[@]}" "${@:2}"
	as_user "$PGBIN/pg_checksums" --enable --no-sync "$ZEN_TMP/$1/data" >/dev/null 2>&1
}

make_tables() {
	local kind
	sql "$1" "CREATE EXTENSION IF NOT EXISTS zen"
	for kind in zen heap; do
		sql "$1" "
			CREATE TABLE load_$kind (client int, n int, filler text, PRIMARY KEY (client, n)) USING $kind;
			CREATE TABLE last_$kind (client int PRIMARY KEY, n int) USING $kind;
			CREATE TABLE stay_$kind (id int PRIMARY KEY, v int) USING $kind;
			INSERT INTO stay_$kind SELECT g, 0 FROM generate_series(1, 10) g"
	done
}

node_start() {
	server_start "$1"
	answers "$1" "SELECT to_regclass('stay_heap') IS NULL" f || make_tables "$1"
}

copy_create() {
	rm -rf "${ZEN_TMP:?}/$1"
	as_user mkdir "$ZEN_TMP/$1"
	as_user touch "$ZEN_TMP/$1/log"
	free_port | as_user tee "$ZEN_TMP/$1/port" >/dev/null
}

# What a server has to say on its refusal.
complaints() { grep -E 'FATAL|PANIC|HINT|DETAIL|could not' "$ZEN_TMP/$1/log" | tail -n 5; }

# CHECK NAME IN-RECOVERY [SETTING=VALUE...]
starts_as() {
	local check=$1 name=$2 recovery=$3
	configure "$name" "port=$(server_port "$name")" archive_mode=off "${@:4}"
	if server_start "$name" >/dev/null 2>&1 &&
		wait_for $start_s answers "$name" "SELECT pg_is_in_recovery()" "$recovery"; then
		return
	fi
	not_ok "$check" "$(complaints "$name")"
	return 1
}

copy_starts() { starts_as "$1" "$2" f "${@:3}" && ok "$1"; }

standby_starts() {
	local check=$1 name=$2 upto
	upto=$(sql "$3" "SELECT pg_current_wal_lsn()")
	starts_as "$check" "$name" t "${@:4}" || return 1
	if wait_for $start_s answers "$name" "SELECT pg_last_wal_replay_lsn() >= '$upto' AND role = 'replica' AND copied
			FROM zen_stat_stream" t; then
		ok "$check"
	else
		not_ok "$check" "$(complaints "$name")"
		return 1
	fi
}

# CHECK NAME: it does not start, and says why.
is_refused() {
	configure "$2" "port=$(server_port "$2")" archive_mode=off
	if server_start "$2" >/dev/null 2>&1; then
		not_ok "$1" "it started"
	elif grep -qE 'FATAL|PANIC' "$ZEN_TMP/$2/log" && grep -q HINT "$ZEN_TMP/$2/log"; then
		ok "$1"
	else
		not_ok "$1" "$(complaints "$2")"
	fi
}

## Load

dsn_of() {
	local name hosts= ports=
	for name in "$@"; do
		hosts+=${hosts:+,}$ZEN_TMP
		ports+=${ports:+,}$(server_port "$name")
	done
	echo "dbname=postgres;user=postgres;host=$hosts;port=$ports"
}

# How many transactions the journal has.
journal_size() { { cat "$ZEN_TMP"/journal.[0-9]* 2>/dev/null || true; } | wc -l; }
journal_has() { [ "$(journal_size)" -ge "$1" ]; }
# N more of them come to be acknowledged.
load_goes_on() {
	local before
	before=$(journal_size)
	wait_for $command_s journal_has $((before + ${1:-200})) && return
	not_ok "the load goes on" "$(journal_size) transactions in the journal, $before before"
	return 1
}

# DSN
load_begin_at() {
	local c
	rm -f "$ZEN_TMP"/journal.*
	loads=$((loads + 1)) # no load meets the rows of another one
	for ((c = 1; c <= clients; c++)); do
		daemon "load-$c" "$ZEN_TMP/bin/journal.pl" load "$1;target_session_attrs=read-write" "$ZEN_TMP/journal" \
			$((10 * loads + c))
	done
	load_goes_on
}

load_begin() { load_begin_at "$(dsn_of "$@")"; }

load_end() {
	local c
	as_user touch "$ZEN_TMP/journal.stop"
	for ((c = 1; c <= clients; c++)); do
		wait_for 30 lib_gone "$(cat "$ZEN_TMP/pids/load-$c")" || true
		daemon_end load-$c
	done
}

# CHECK DSN [TIME]
is_complete_at() {
	local output
	if output=$(as_user "$ZEN_TMP/bin/journal.pl" check "$2" "$ZEN_TMP/journal" "${@:3}" 2>&1); then
		ok "$1 ($output)"
	else
		not_ok "$1" "$output"
	fi
}

is_complete() {
	is_complete_at "$1" "$(dsn_of "$2")" "${@:3}"
	is "$1: zen_verify_pool() finds nothing" "$(sql "$2" 'SELECT count(*) FROM zen_verify_pool()' 2>&1)" 0
}

## A session that stays: its process has the pool mapped and its pages writable.

session_begin() {
	rm -f "$ZEN_TMP/session" "$ZEN_TMP/session.out"
	as_user mkfifo "$ZEN_TMP/session"
	# shellcheck disable=SC2046
	daemon psql "$PGBIN/psql" $(server_conn "$1") -X -q -A -t -d postgres -f "$ZEN_TMP/session"
	exec {session_fd}>"$ZEN_TMP/session"
	session_n=0
}

session_said() { grep -qx "@$session_n" "$ZEN_TMP/psql.log"; }

session() {
	session_n=$((session_n + 1))
	printf '%s;\n\\echo @%d\n' "$1" $session_n >&"$session_fd"
	wait_for $command_s session_said
}

session_end() {
	exec {session_fd}>&-
	daemon_end psql TERM
}

# Many times, so that all that can be mapped and dirty is.
stay_prepare() {
	local i statements=
	for ((i = 0; i < 100; i++)); do
		statements+="UPDATE stay_zen SET v = $i; UPDATE stay_heap SET v = $i;"
	done
	session "$statements"
	stay_set 100
}

stay_set() { session "UPDATE stay_zen SET v = $1; UPDATE stay_heap SET v = $1"; }

stay_is() {
	is "$1" "$(sql "$2" "SELECT 'zen ' || min(z.v) || ' to ' || max(z.v) || ', heap ' || min(h.v) || ' to ' || max(h.v)
		FROM stay_zen z JOIN stay_heap h USING (id)" 2>&1)" "zen $3 to $3, heap $3 to $3"
}

# Until the clock shows another second: rsync compares whole seconds.
next_second() { wait_for 5 is_later_than "$(date +%s)"; }
is_later_than() { [ "$(date +%s)" -gt "$1" ]; }

now() { date +%s.%N; }

## ssh

ssh_begin() {
	local dir=$ZEN_TMP/ssh port
	as_user mkdir -m 700 "$dir"
	as_user ssh-keygen -q -t ed25519 -N '' -f "$dir/host"
	as_user ssh-keygen -q -t ed25519 -N '' -f "$dir/user"
	port=$(free_port)
	as_user tee "$dir/sshd_config" >/dev/null <<-END
		Port $port
		ListenAddress 127.0.0.1
		HostKey $dir/host
		AuthorizedKeysFile $dir/user.pub
		PidFile none
		UsePAM no
		StrictModes no
		PasswordAuthentication no
		SetEnv PATH=$PGBIN:/usr/local/bin:/usr/bin:/bin
	END
	as_user tee "$dir/config" >/dev/null <<-END
		Host 127.0.0.1
			Port $port
			User $ZEN_USER
			IdentityFile $dir/user
			IdentitiesOnly yes
			StrictHostKeyChecking no
			UserKnownHostsFile /dev/null
			LogLevel ERROR
	END
	daemon sshd /usr/sbin/sshd -D -f "$dir/sshd_config"
	ssh_command="ssh -F $dir/config"
	wait_for 30 as_user $ssh_command 127.0.0.1 true 2>/dev/null
}
