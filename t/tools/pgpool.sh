# shellcheck shell=bash
#
# pgpool.sh -- pgpool2 in front of a primary and a standby: reads that it spreads, and a failover that it runs.

# [DATABASES]: starts pgpool; of these databases all statements go to the primary
pgpool_begin() {
	local n
	{
		cat <<-END
			backend_clustering_mode = 'streaming_replication'
			listen_addresses = ''
			socket_dir = '$ZEN_TMP'
			port = $pool_port
			pcp_socket_dir = '$ZEN_TMP'
			pcp_port = $pcp_port
			pid_file_name = '$ZEN_TMP/pgpool.pid'
			logdir = '$ZEN_TMP'
			work_dir = '$ZEN_TMP'
			num_init_children = 8
			load_balance_mode = on
			statement_level_load_balance = on
			sr_check_period = 1
			sr_check_user = 'postgres'
			health_check_period = 1
			health_check_user = 'postgres'
			failover_command = '$PGBIN/pg_ctl -w -s -D $ZEN_TMP/b/data promote'
			database_redirect_preference_list = '${1:-}'
		END
		for n in 0 1; do
			cat <<-END
				backend_hostname$n = '$ZEN_TMP'
				backend_port$n = $(server_port $([ $n = 0 ] && echo a || echo b))
				backend_weight$n = 1
				backend_data_directory$n = '$ZEN_TMP/$([ $n = 0 ] && echo a || echo b)/data'
				backend_flag$n = 'ALLOW_TO_FAILOVER'
			END
		done
	} | as_user tee "$ZEN_TMP/pgpool.conf" >/dev/null
	as_user touch "$ZEN_TMP/pcp.conf" "$ZEN_TMP/pool_hba.conf"
	daemon pgpool pgpool -n -D -f "$ZEN_TMP/pgpool.conf" -F "$ZEN_TMP/pcp.conf" -a "$ZEN_TMP/pool_hba.conf"
	wait_for $start_s pooled_answers "SELECT 1" 1
	wait_for $start_s knows_roles
}

pgpool_end() { daemon_end pgpool TERM; }

pooled() {
	as_user timeout "$command_s" "$PGBIN/psql" -h "$ZEN_TMP" -p $pool_port -U postgres -X -q -A -t -d postgres \
		-v VERBOSITY=sqlstate "$@" 2>&1
}
pooled_answers() { [ "$(pooled -c "$1")" = "$2" ]; }
knows_roles() { pooled -c 'SHOW pool_nodes' | cut -d '|' -f 7 | sort | tr '\n' ' ' | grep -qx 'primary standby '; }

# TABLE: the different answers to 100 reads
answers_to_reads() {
	local i
	for ((i = 0; i < 100; i++)); do
		echo "SELECT count(*) FROM $1;"
	done | as_user tee "$ZEN_TMP/reads.sql" >/dev/null
	pooled -f "$ZEN_TMP/reads.sql" | sed 's/^.*ERROR: */ERROR /' | sort -u | tr '\n' ' '
}

reads_are_spread() {
	is "reads that are spread: heap" "$(answers_to_reads stay_heap)" "10 "
	is "reads that are spread: those of zen tables are errors on the standby" "$(answers_to_reads stay_zen)" \
		"10 ERROR 0A000 "
}

reads_of_primary() {
	is "database_redirect_preference_list: heap" "$(answers_to_reads stay_heap)" "10 "
	is "database_redirect_preference_list: zen" "$(answers_to_reads stay_zen)" "10 "
}

failover() {
	local dsn="dbname=postgres;user=postgres;host=$ZEN_TMP;port=$pool_port"
	sql a "ALTER SYSTEM SET synchronous_standby_names = '*'"
	sql a "SELECT pg_reload_conf()" >/dev/null
	load_begin_at "$dsn"
	server_kill a
	wait_for $start_s answers b "SELECT pg_is_in_recovery()" f
	load_goes_on
	load_end
	is_complete "failover by pgpool, SIGKILL under load" b
	is "failover: a read" "$(answers_to_reads stay_zen)" "10 "
}

test_pgpool() {
	local pool_port pcp_port
	pool_port=$(free_port)
	pcp_port=$(free_port)
	node_create a
	node_start a
	copy_create b
	# shellcheck disable=SC2046
	runs "a standby" "$PGBIN/pg_basebackup" $(server_conn a) -D "$ZEN_TMP/b/data" -R -X stream -c fast
	standby_starts "it follows" b a
	pgpool_begin
	reads_are_spread
	pgpool_end
	pgpool_begin postgres:primary
	reads_of_primary
	failover
	pgpool_end
}
