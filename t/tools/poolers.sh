# shellcheck shell=bash
#
# poolers.sh -- HAProxy and pgbouncer, which spread reads of zen tables over two standbys, and send writes to the
# primary.
#
# HAProxy asks each server whether it is in recovery. It has an address for reads, at which the standbys take turns by
# connection, and one for writes. pgbouncer has a database for reads, whose connections to the standbys take turns, so
# that the statements of one client go to both, and one for writes, which goes to HAProxy's. Readers look at balances
# that transfers change meanwhile (balances.pl).

readonly poolers_of_reads=(haproxy pgbouncer)

# TEXT: its bytes in hexadecimal digits
hex() { printf '%s' "$1" | od -An -v -tx1 | tr -d ' \n'; }

# What a client sends who connects as postgres, and who asks; the row that comes, with t or f.
startup_hex() { printf '%08x00030000%s' 41 "$(hex user)00$(hex postgres)00$(hex database)00$(hex postgres)0000"; }
asked_hex() {
	local query="SELECT pg_is_in_recovery()"
	printf '51%08x%s00' $((${#query} + 5)) "$(hex "$query")"
}
row_hex() { printf '440000000b000100000001%s' "$(hex "$1")"; }

# NAME t|f SERVER...: an address, and who is behind it while the answer is this
haproxy_address() {
	local server
	cat <<-END
		listen $1
			bind unix@$ZEN_TMP/.s.PGSQL.$(cat "$ZEN_TMP/$1.port") mode 777
			balance roundrobin
			option tcp-check
			tcp-check connect
			tcp-check send-binary $(startup_hex)
			tcp-check send-binary $(asked_hex)
			tcp-check expect binary $(row_hex "$2")
			default-server check inter 500ms fall 2 rise 1 on-marked-down shutdown-sessions
	END
	for server in "${@:3}"; do
		printf '\tserver %s unix@%s\n' "$server" "$ZEN_TMP/.s.PGSQL.$(server_port "$server")"
	done
}

haproxy_begin() {
	local name
	for name in reads writes; do
		free_port | as_user tee "$ZEN_TMP/$name.port" >/dev/null
	done
	{
		cat <<-END
			defaults
				mode tcp
				retries 3
				option redispatch
				timeout connect 2s
				timeout client 1m
				timeout server 1m
				timeout check 2s
		END
		haproxy_address reads t b c
		haproxy_address writes f a b c
	} | as_user tee "$ZEN_TMP/haproxy.cfg" >/dev/null
	daemon haproxy haproxy -db -f "$ZEN_TMP/haproxy.cfg"
}

# pgbouncer knows one port for the hosts of a database. So each standby has a directory with its socket under port 5432.
pgbouncer_begin() {
	local server port
	for server in b c; do
		as_user mkdir "$ZEN_TMP/socket.$server"
		as_user ln -s "$ZEN_TMP/.s.PGSQL.$(server_port $server)" "$ZEN_TMP/socket.$server/.s.PGSQL.5432"
	done
	port=$(free_port)
	echo "$port" | as_user tee "$ZEN_TMP/pgbouncer.port" >/dev/null
	as_user tee "$ZEN_TMP/pgbouncer.ini" >/dev/null <<-END
		[databases]
		reads = host=$ZEN_TMP/socket.b,$ZEN_TMP/socket.c port=5432 dbname=postgres user=postgres
		writes = host=$ZEN_TMP port=$(cat "$ZEN_TMP/writes.port") dbname=postgres user=postgres
		[pgbouncer]
		listen_port = $port
		unix_socket_dir = $ZEN_TMP
		auth_type = any
		pool_mode = transaction
		default_pool_size = 6
		server_login_retry = 1
		server_check_delay = 0
		server_lifetime = 2
		ignore_startup_parameters = extra_float_digits
	END
	daemon pgbouncer pgbouncer "$ZEN_TMP/pgbouncer.ini"
}

# haproxy|pgbouncer reads|writes
pooler_dsn() {
	case $1 in
		haproxy) echo "dbname=postgres;user=postgres;host=$ZEN_TMP;port=$(cat "$ZEN_TMP/$2.port")" ;;
		pgbouncer) echo "dbname=$2;user=postgres;host=$ZEN_TMP;port=$(cat "$ZEN_TMP/pgbouncer.port")" ;;
	esac
}

# reads|writes t|f: whoever answers at HAProxy's address is in recovery, or not
answers_at() {
	[ "$(as_user "$PGBIN/psql" -h "$ZEN_TMP" -p "$(cat "$ZEN_TMP/$1.port")" -U postgres -X -A -t -d postgres \
		-c 'SELECT pg_is_in_recovery()' 2>/dev/null)" = "$2" ]
}

make_balances() {
	local kind
	for kind in zen heap; do
		sql a "
			CREATE TABLE balance_$kind (id int PRIMARY KEY, balance int) USING $kind;
			INSERT INTO balance_$kind SELECT g, 100 FROM generate_series(1, 1000) g"
	done
}

## The clients; their journals are $ZEN_TMP/POOLER.reads.1 and so on

clients_begin() {
	local pooler n
	load_begin_at "$(pooler_dsn haproxy writes)"
	for pooler in "${poolers_of_reads[@]}"; do
		daemon "$pooler.writes" "$ZEN_TMP/bin/balances.pl" transfer "$(pooler_dsn "$pooler" writes)" \
			"$ZEN_TMP/$pooler.writes.1" "$ZEN_TMP/journal.stop"
		for n in 1 2; do
			daemon "$pooler.reads.$n" "$ZEN_TMP/bin/balances.pl" read "$(pooler_dsn "$pooler" reads)" \
				"$ZEN_TMP/$pooler.reads.$n" "$ZEN_TMP/journal.stop"
		done
	done
}

clients_end() {
	local file
	load_end # says stop
	for file in "$ZEN_TMP"/pids/*.reads.[12] "$ZEN_TMP"/pids/*.writes; do
		wait_for $start_s lib_gone "$(cat "$file")" || not_ok "$(basename "$file") ends"
		rm "$file"
	done
}

# POOLER reads|writes SERVER: how many of them the server has answered
answered() {
	{ cat "$ZEN_TMP/$1.$2".[12] 2>/dev/null || true; } | grep -c "^$(server_port "$3") ok" || true
}
has_answered() { [ "$(answered "$1" "$2" "$3")" -ge "$4" ]; }

# CHECK reads|writes SERVER...: by both poolers each of these servers answers some more
are_answered() {
	local check=$1 what=$2 pooler server before=() n
	shift 2
	for pooler in "${poolers_of_reads[@]}"; do
		for server in "$@"; do
			before+=("$(answered "$pooler" "$what" "$server")")
		done
	done
	for pooler in "${poolers_of_reads[@]}"; do
		for server in "$@"; do
			n=${before[0]}
			before=("${before[@]:1}")
			if wait_for $start_s has_answered "$pooler" "$what" "$server" $((n + 100)); then
				ok "$check: $what by $pooler on $server"
			else
				not_ok "$check: $what by $pooler on $server" "$(tail -n 3 "$ZEN_TMP/$pooler.$what".*)"
			fi
		done
	done
}

# CHECK STATES: no read was wrong so far, and no error has another SQLSTATE than those of this pattern
are_right() {
	local all states
	is "$1: wrong balances" "$(cat "$ZEN_TMP"/*.reads.[12] | grep ' wrong ' | head -n 3)" ""
	all=$(cat "$ZEN_TMP"/*.reads.[12] | grep '^-' || true)
	states=$(awk '{ n[$2]++ } END { for (s in n) printf "%s%d of %s", t++ ? ", " : "", n[s], s; if (!t) print "none" }' \
		< <(grep . <<<"$all"))
	is "$1: errors of reads are of connections ($states)" \
		"$(grep -vE "^- ($2) " <<<"$all" | grep . | head -n 3 || true)" ""
}

## What is tried

standbys_come() {
	local name
	for name in b c; do
		copy_create $name
		# shellcheck disable=SC2046
		runs "a standby $name" "$PGBIN/pg_basebackup" $(server_conn a) -D "$ZEN_TMP/$name/data" -R -X stream -c fast
		configure $name "cluster_name=$name" # its application_name
		standby_starts "$name follows" $name a hot_standby_feedback=on
	done
	sql a "ALTER SYSTEM SET synchronous_standby_names = 'ANY 1 (b, c)'"
	sql a "SELECT pg_reload_conf()" >/dev/null
}

standby_is_away() {
	server_stop b
	are_answered "while b is stopped" reads c
	are_answered "while b is stopped" writes a
	server_start b
	are_answered "b is back" reads b c
	are_right "b was stopped" "$connection_states"
}

# The standby that has more of the log, which it names first.
by_log() {
	local name
	for name in b c; do
		echo "$(sql $name "SELECT pg_wal_lsn_diff(pg_last_wal_receive_lsn(), '0/0')") $name"
	done | sort -rn | cut -d ' ' -f 2
}

promotion() {
	local order
	server_kill a
	mapfile -t order < <(by_log)
	runs "a promotion" "$PGBIN/pg_ctl" promote -w -D "$ZEN_TMP/${order[0]}/data"
	# what pg_basebackup -R has written counts more than postgresql.conf
	sql "${order[1]}" "ALTER SYSTEM SET primary_conninfo = '$(tr ';' ' ' <<<"$(dsn_of "${order[0]}")")'"
	sql "${order[1]}" "SELECT pg_reload_conf()" >/dev/null
	are_answered "behind the promotion" writes "${order[0]}"
	are_answered "behind the promotion" reads "${order[1]}"
	load_goes_on
	clients_end
	are_right "a promotion" "$connection_states|40001"
	is_complete "behind the promotion" "${order[0]}"
	is "the other standby has what the new primary has" "$(balances "${order[1]}" "${order[0]}")" "$(balances "${order[0]}")"
}

# SERVER [PRIMARY]: behind what the primary has written
balances() {
	local upto
	if [ -n "${2:-}" ]; then
		upto=$(sql "$2" "SELECT pg_current_wal_lsn()")
		wait_for $start_s answers "$1" "SELECT pg_last_wal_replay_lsn() >= '$upto'" t || true
	fi
	sql "$1" "SELECT sum(balance), md5(string_agg(b::text, ',' ORDER BY id)) FROM balance_zen b"
}

test_poolers() {
	local connection_states='08...|57P0[123]'
	node_create a zen.standby_reads=on
	node_start a
	make_balances
	standbys_come
	haproxy_begin
	pgbouncer_begin
	wait_for $start_s answers_at writes f || { not_ok "HAProxy's writes" "$(tail "$ZEN_TMP/haproxy.log")"; return; }
	clients_begin
	are_answered "at first" reads b c
	are_answered "at first" writes a
	are_right "at first" none
	standby_is_away
	promotion
	daemon_end pgbouncer TERM
	daemon_end haproxy TERM
}
