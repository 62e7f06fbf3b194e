# shellcheck shell=bash
#
# repmgr.sh -- repmgr: three servers on 127.0.0.1, switchover by ssh, failover by hand.

repmgr_at() { runs "$1" repmgr -f "$ZEN_TMP/$2.conf" "${@:3}"; }

repmgr_conninfo() { echo "host=127.0.0.1 port=$(server_port "$1") user=postgres dbname=postgres connect_timeout=5"; }

# ID NAME
make_conf() {
	as_user tee "$ZEN_TMP/$2.conf" >/dev/null <<-END
		node_id=$1
		node_name='$2'
		conninfo='$(repmgr_conninfo "$2")'
		data_directory='$ZEN_TMP/$2/data'
		pg_bindir='$PGBIN'
		repmgr_bindir='$PGBIN'
		ssh_options='-q -F $ZEN_TMP/ssh/config'
		use_replication_slots=no
		service_start_command='$PGBIN/pg_ctl -w -s -D $ZEN_TMP/$2/data -l $ZEN_TMP/$2/log start'
		shutdown_check_timeout=60
	END
}

# NAME UPSTREAM-ID UPSTREAM: a copy, not started
clone() {
	# shellcheck disable=SC2046
	repmgr_at "clone of $3: $1" "$1" -h 127.0.0.1 -p "$(server_port "$3")" -U postgres -d postgres \
		standby clone --fast-checkpoint "--upstream-node-id=$2"
}

# NAME UPSTREAM-ID PRIMARY
begin_standby() {
	standby_starts "$1 follows" "$1" "$3" || return 1
	repmgr_at "register $1" "$1" standby register "--upstream-node-id=$2" --force
}

is_standby_of() { wait_for $start_s answers "$2" "SELECT count(*) > 0 FROM pg_stat_replication" t; }

# Nothing that was acknowledged is lost where a commit waits for the standby.
synchronous() {
	sql "$1" "ALTER SYSTEM SET synchronous_standby_names = '*'"
	sql "$1" "SELECT pg_reload_conf()" >/dev/null
}

test_switchover() {
	load_begin a b
	repmgr_at "switchover to b, under load" b standby switchover --siblings-follow
	load_goes_on
	load_end
	is_complete "switchover" b
	is "switchover: a follows b" "$(sql a 'SELECT pg_is_in_recovery()' 2>&1)" t
}

test_failover() {
	synchronous b
	load_begin b a
	load_goes_on
	server_kill b
	repmgr_at "promote a" a standby promote
	sql a CHECKPOINT # pg_rewind wants that of a source that was just promoted, before PostgreSQL 16
	load_goes_on
	load_end
	is_complete "failover" a
	repmgr_at "rejoin of b by pg_rewind" b node rejoin --force-rewind --config-files=postgresql.conf \
		-d "$(repmgr_conninfo a)" || { complaints b; return 0; }
	sql a "UPDATE stay_zen SET v = 5; UPDATE stay_heap SET v = 5"
	wait_for $start_s answers a "SELECT count(*) > 0 FROM pg_stat_replication
		WHERE replay_lsn >= pg_current_wal_lsn()" t || true
	is "b follows a, with its pool" "$(sql b 'SELECT role || copied FROM zen_stat_stream' 2>&1)" replicatrue
}

# A standby that was copied from a standby, and comes to be the primary.
test_cascade() {
	clone c 2 b || return 0
	begin_standby c 2 a || return 0
	load_begin a c
	load_goes_on
	load_end
	server_stop b
	repmgr_at "c follows a" c standby follow --upstream-node-id=1
	is_standby_of c a || true
	server_stop a
	repmgr_at "promote c" c standby promote
	is_complete "the copy of a standby" c
	stay_is "the copy of a standby: rows" c 5
}

test_repmgr() {
	local name id=0
	ssh_begin
	node_create a listen_addresses=127.0.0.1 shared_preload_libraries=zen,repmgr max_replication_slots=10
	node_start a
	copy_create b
	copy_create c
	for name in a b c; do
		make_conf $((id += 1)) $name
	done
	repmgr_at "register a" a primary register
	clone b 1 a
	begin_standby b 1 a
	repmgr_at "cluster show" b cluster show
	test_switchover
	test_failover
	test_cascade
}
