# shellcheck shell=bash
#
# patroni.sh -- Patroni with etcd, three nodes on 127.0.0.1, commits that wait for a standby.
#
# The data directories lie on one file system, as they would on DAX, with the pool in them, and the WAL on another one
# (doc/operations.md, "A pool on a DAX file system").
#
# bench/failover uses it, too, with other settings.

patroni_settings=(shared_buffers=16MB fsync=off dynamic_shared_memory_type=mmap)
patroni_zen_settings=(zen.pool_path=zen.pool zen.pool_mode=emulated zen.pool_size=64MB zen.dram_size=64MB
	zen.stream=replica)
patroni_first=a # the node whose file patronictl reads

etcd_begin() {
	local client peer
	client=$(free_port)
	echo "$client" | as_user tee "$ZEN_TMP/etcd.port" >/dev/null
	peer=$(free_port)
	daemon etcd etcd --name one --data-dir "$ZEN_TMP/etcd" --unsafe-no-fsync \
		--listen-client-urls "http://127.0.0.1:$client" --advertise-client-urls "http://127.0.0.1:$client" \
		--listen-peer-urls "http://127.0.0.1:$peer" --initial-advertise-peer-urls "http://127.0.0.1:$peer" \
		--initial-cluster "one=http://127.0.0.1:$peer"
	wait_for 60 as_user env ETCDCTL_API=3 etcdctl "--endpoints=127.0.0.1:$client" endpoint health >/dev/null 2>&1
}

# SETTING=VALUE...
as_yaml() {
	local setting
	for setting in "$@"; do
		printf "%8s%s: '%s'\n" "" "${setting%%=*}" "${setting#*=}"
	done
}

# NAME SCOPE PRELOAD PORT [MAX-RATE [CLONEFROM]]
patroni_conf() {
	local settings=("${patroni_settings[@]}")
	[ "$3" = "" ] || settings+=("${patroni_zen_settings[@]}")
	as_user tee "$ZEN_TMP/$1.yml" >/dev/null <<-END
		scope: $2
		name: $1
		restapi: {listen: "127.0.0.1:$4", connect_address: "127.0.0.1:$4"}
		etcd3: {host: "127.0.0.1:$(cat "$ZEN_TMP/etcd.port")"}
		bootstrap:
		  dcs:
		    ttl: 20
		    loop_wait: 1
		    retry_timeout: 3
		    synchronous_mode: true
		    synchronous_node_count: 2
		    postgresql:
		      use_pg_rewind: true
		      parameters:
		        shared_preload_libraries: "$3"
		        unix_socket_directories: "$ZEN_TMP"
		$(as_yaml "${settings[@]}")
		  initdb:
		  - encoding: UTF8
		  - no-locale
		  - no-sync
		  - data-checksums
		  - waldir: $ZEN_WAL/$1
		postgresql:
		  listen: "127.0.0.1:$(server_port "$1")"
		  connect_address: "127.0.0.1:$(server_port "$1")"
		  data_dir: $ZEN_TMP/$1/data
		  bin_dir: $PGBIN
		  pgpass: $ZEN_TMP/$1/pgpass
		  authentication:
		    superuser: {username: postgres}
		    replication: {username: postgres}
		    rewind: {username: postgres}
		  pg_hba:
		  - local all all trust
		  - host all all 127.0.0.1/32 trust
		  - host replication all 127.0.0.1/32 trust
		  basebackup:
		  - waldir: $ZEN_WAL/$1
		  - checkpoint: fast
		  - no-sync
		$([ -z "${5:-}" ] || printf '  - max-rate: %s\n' "$5")
		tags: {clonefrom: ${6:-false}}
	END
}

# NAME SCOPE PRELOAD [MAX-RATE [CLONEFROM]]: a node, new, with an agent
node_begin() {
	copy_create "$1"
	rm -rf "${ZEN_WAL:?}/$1"
	patroni_conf "$1" "$2" "$3" "$(free_port)" "${@:4}"
	agent_begin "$1"
}

agent_begin() { daemon "patroni-$1" patroni "$ZEN_TMP/$1.yml"; }

patroni_ctl() { as_user timeout "$command_s" patronictl -c "$ZEN_TMP/$patroni_first.yml" "$@"; }
patroni_runs() { runs "$1" patronictl -c "$ZEN_TMP/$patroni_first.yml" "${@:2}"; }

leads() { wait_for $start_s answers "$1" "SELECT pg_is_in_recovery()" f; }

# CHECK NAME LEADER: it follows with its pool, has come to where the leader is now, and may be waited for
follows() {
	local upto
	upto=$(sql "$3" "SELECT pg_current_wal_lsn()" 2>/dev/null) || upto=0/0
	if wait_for $start_s answers "$2" "SELECT pg_is_in_recovery() AND pg_last_wal_replay_lsn() >= '$upto'
			AND role = 'replica' AND copied FROM zen_stat_stream" t; then
		ok "$1"
	else
		not_ok "$1" "$(grep -E 'FATAL|PANIC|ERROR|DETAIL|HINT' "$ZEN_TMP/patroni-$2.log" |
			grep -v 'starting up' | tail -n 6)"
		return 1
	fi
}

# NAME: nobody may take over whom Patroni has not noted as synchronous.
is_noted() { patroni_ctl list -f tsv 2>/dev/null | grep -qP "\t$1\t.*Sync Standby"; }
synchronous() {
	wait_for $start_s is_noted "$1" || { not_ok "$1 is no synchronous standby" "$(patroni_ctl list 2>&1)"; return 1; }
}

# A host that dies: agent and server at once.
node_dies() {
	daemon_end "patroni-$1"
	server_kill "$1"
}

bootstrap() {
	node_begin a zen zen
	leads a || { not_ok "bootstrap" "$(tail -n 6 "$ZEN_TMP/patroni-a.log")"; return 1; }
	node_begin b zen zen "" true
	make_tables a
	follows "bootstrap: a replica in an absent directory, the WAL elsewhere" b a || return 1
	is "bootstrap: where pg_wal is" "$(readlink "$ZEN_TMP/a/data/pg_wal") $(readlink "$ZEN_TMP/b/data/pg_wal")" \
		"$ZEN_WAL/a $ZEN_WAL/b"
	is "bootstrap: checksums" "$(sql b 'SHOW data_checksums')" on
	synchronous b
}

failover() {
	load_begin a b
	patroni_runs "switchover, under load" switchover zen --candidate b --force
	load_goes_on
	follows "switchover: the old leader follows" a b || return 1
	synchronous a
	sql b CHECKPOINT
	load_goes_on
	node_dies b
	leads a || { not_ok "failover, SIGKILL under load: nobody leads"; return 1; }
	load_goes_on
	load_end
	is_complete "failover, SIGKILL under load" a
	agent_begin b
	follows "failover: the old leader comes back by pg_rewind" b a || true
	load_begin a b
	patroni_runs "reinit" reinit zen b --force --wait
	load_end
	follows "reinit: follows" b a
}

# CHECK: c becomes leader, and goes
c_leads() {
	local output
	synchronous c || return 0
	output=$(patroni_ctl switchover zen --candidate c --force 2>&1) || true
	if leads c; then
		is_complete "$1: as leader" c
		synchronous a
		patroni_ctl switchover zen --candidate a --force >/dev/null 2>&1 || true
		leads a
	else
		not_ok "$1: as leader" "$output"
	fi
}

c_goes() {
	daemon_end patroni-c TERM
	lib_kill "$ZEN_TMP/c/data"
}

# b has the tag clonefrom: while it is a replica new nodes are copied from it.
from_replica() {
	local check="a replica made from a replica"
	load_begin a b
	node_begin c zen zen
	load_goes_on
	load_end
	if wait_for $start_s grep -q "bootstrap from replica 'b'" "$ZEN_TMP/patroni-c.log"; then
		ok "$check: it is"
	else
		not_ok "$check: it is not" "$(tail -n 12 "$ZEN_TMP/patroni-c.log")"
	fi
	if follows "$check: follows" c a; then
		c_leads "$check"
	fi
	c_goes
}

backup_runs() { answers "$1" "SELECT count(*) > 0 FROM pg_stat_progress_basebackup WHERE backup_streamed > 1e6" t; }

during_switchover() {
	local check="a replica made during a switchover"
	synchronous b
	patroni_ctl switchover zen --candidate b --force >/dev/null 2>&1 || true
	leads b
	synchronous a
	load_begin a b
	copy_create c
	rm -rf "${ZEN_WAL:?}/c"
	patroni_conf c zen zen "$(free_port)" 8M
	agent_begin c
	wait_for $start_s backup_runs b
	patroni_runs "$check: switchover" switchover zen --candidate a --force
	load_goes_on || patroni_ctl list zen
	load_end
	follows "$check: follows" c a || true
	follows "$check: so does the old leader" b a || true
	is_complete "$check" a
	c_goes
}

end_cluster() {
	local name
	for name in a b c; do
		daemon_end "patroni-$name"
		lib_discard "$ZEN_TMP/$name/data"
	done
}

# Rows that were acknowledged are there at the end, whatever happened, or the table was refused.
zen_comes_later() {
	local check="zen in a cluster that exists" acknowledged setting scope=later$#
	node_begin a $scope ""
	leads a
	node_begin b $scope ""
	synchronous b
	for setting in shared_preload_libraries=zen zen.pool_path=zen.pool zen.pool_mode=emulated zen.pool_size=64MB \
		zen.dram_size=64MB "$@"; do
		patroni_ctl edit-config $scope --force -s "postgresql.parameters.$setting" >/dev/null
	done
	wait_for 30 pending_restart $scope
	patroni_ctl restart $scope --force >/dev/null
	leads a
	wait_for 30 is_noted b || true
	acknowledged=0
	if sql a "CREATE EXTENSION zen; CREATE TABLE t (id int PRIMARY KEY) USING zen" >/dev/null 2>"$ZEN_TMP/refused" &&
		sql a "INSERT INTO t SELECT generate_series(1, 1000)" 2>>"$ZEN_TMP/refused"; then
		acknowledged=1000
	fi
	sed 's/^/#   /' "$ZEN_TMP/refused" | head -n 3
	node_dies a
	wait_for 40 answers b "SELECT pg_is_in_recovery()" f || true
	sleep 3 # the new leader's own time to be green
	agent_begin a
	wait_for 60 some_leader || true
	is "$check, ${*:-defaults}: of $acknowledged rows that were acknowledged there are" "$(rows_of_t)" "$acknowledged"
	end_cluster
}

pending_restart() { patroni_ctl list "$1" 2>/dev/null | grep -q '\*'; }
some_leader() { answers a "SELECT pg_is_in_recovery()" f || answers b "SELECT pg_is_in_recovery()" f; }

rows_of_t() {
	local name
	for name in a b; do
		if answers $name "SELECT pg_is_in_recovery()" f; then
			if answers $name "SELECT to_regclass('t') IS NULL" t; then
				echo 0
			else
				sql $name "SELECT count(*) FROM t" 2>&1
			fi
			return
		fi
	done
	echo "no leader"
}

test_patroni() {
	etcd_begin
	bootstrap
	failover
	from_replica
	during_switchover
	end_cluster
	zen_comes_later
	zen_comes_later zen.stream=replica
}
