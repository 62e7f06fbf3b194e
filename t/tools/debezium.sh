# shellcheck shell=bash
#
# debezium.sh -- Debezium's connector follows a zen table and a heap table: snapshot, changes, crashes.
#
# debezium/fetch gets it, debezium/Capture.java runs it, debezium/changes.pl makes the changes and compares the events.

readonly connector_s=600 # it may start, and do what it has to, in this time
marks=0

make_captured_tables() {
	local kind
	for kind in zen heap; do
		sql a "
			CREATE TABLE rows_$kind (id bigint PRIMARY KEY, client int, v int, filler text, large text) USING $kind;
			ALTER TABLE rows_$kind ALTER large SET STORAGE EXTERNAL;
			CREATE TABLE done_$kind (client int PRIMARY KEY, n int) USING $kind;
			CREATE TABLE t_$kind (id int PRIMARY KEY, v text, large text, w bytea, n numeric, j jsonb, at timestamptz,
				a int[]) USING $kind;
			ALTER TABLE t_$kind ALTER large SET STORAGE EXTERNAL;
			INSERT INTO rows_$kind SELECT g, 0, g, repeat('x', g % 300), CASE WHEN g % 20 = 0 THEN repeat('0123', 2000) END
				FROM generate_series(1, 2000) g;
			INSERT INTO t_$kind SELECT g, 'first' FROM generate_series(5001, 5250) g"
	done
	sql a "CREATE TABLE signals (id text PRIMARY KEY, type text, data text) USING zen;
		CREATE TABLE marks (n int PRIMARY KEY) USING zen"
}

connector_configure() {
	as_user tee "$ZEN_TMP/debezium.properties" >/dev/null <<-END
		name=zen
		connector.class=io.debezium.connector.postgresql.PostgresConnector
		topic.prefix=zen
		plugin.name=pgoutput
		publication.autocreate.mode=filtered
		database.hostname=127.0.0.1
		database.port=$(server_port a)
		database.user=postgres
		database.password=none
		database.dbname=postgres
		schema.include.list=public
		snapshot.mode=initial
		skipped.operations=none
		signal.data.collection=public.signals
		incremental.snapshot.chunk.size=100
		slot.retry.delay.ms=1000
		offset.storage=org.apache.kafka.connect.storage.FileOffsetBackingStore
		offset.storage.file.filename=$ZEN_TMP/debezium.offsets
		offset.flush.interval.ms=1000
		converter.schemas.enable=false
	END
}

connector_begin() {
	daemon debezium sh -c 'echo $$ >"$0" && exec "$@"' "$ZEN_TMP/debezium.pid" \
		java -Xmx512m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -cp "$ZEN_TMP/jars/*" "$ZEN_TMP/Capture.java" \
		"$ZEN_TMP/debezium.properties" "$ZEN_TMP/events"
}

# SIGNAL
connector_end() {
	local pid
	pid=$(cat "$ZEN_TMP/debezium.pid")
	kill "-$1" "$pid"
	wait_for $connector_s lib_gone "$pid"
	daemon_end debezium
}

# REGEX [COUNT]: so many events are there.
told() { [ "$(grep -sE "$1" "$ZEN_TMP/events" | wc -l)" -ge "${2:-1}" ]; }

# CHECK: all events of what has been committed have come.
connector_is_even() {
	marks=$((marks + 1))
	sql a "INSERT INTO marks VALUES ($marks)"
	if wait_for $connector_s told "^zen.public.marks.*\"n\":$marks}"; then
		ok "$1"
	else
		not_ok "$1" "$(cat "$ZEN_TMP/debezium.log")"
		return 1
	fi
}

changes_begin() {
	local c
	rm -f "$ZEN_TMP"/journal.*
	for ((c = 1; c <= clients; c++)); do
		daemon "load-$c" "$ZEN_TMP/changes.pl" load "$(dsn_of a)" "$ZEN_TMP/journal" $c
	done
	load_goes_on
}

# MODE: the checks of changes.pl
compare_events() {
	local output status=0
	output=$(as_user "$ZEN_TMP/changes.pl" compare "$(dsn_of a)" "$ZEN_TMP/events" 2>&1) || status=$?
	sed -E "s/^(not ok|ok) /\1 - $tool: mode $1: /" <<<"$output"
	[ $status = 0 ] || not_ok "mode $1: a comparison" "$output"
}

# Amid the load, which goes on.
server_dies() {
	server_kill a
	server_start a
	load_goes_on
	again=$(sql a "SELECT logged_again FROM zen_stat_stream")
}

# MODE of the pool
follows() {
	local again
	rm -f "$ZEN_TMP"/debezium.offsets "$ZEN_TMP"/events
	node_create a wal_level=logical zen.stream=logical zen.pool_mode="$1" zen.pool_size=256MB listen_addresses=127.0.0.1
	node_start a
	make_captured_tables
	connector_configure
	changes_begin
	connector_begin
	wait_for $connector_s told '^zen.public.done_heap.*"op":"[cu]"' ||
		{ not_ok "mode $1: a snapshot" "$(cat "$ZEN_TMP/debezium.log")"; return 1; }
	load_goes_on
	server_dies
	connector_is_even "mode $1: SIGKILL of the server ($again transactions of zen tables were logged again)"
	connector_end KILL
	load_goes_on
	server_dies # the WAL is flushed less often while nobody reads it
	connector_begin
	connector_is_even "mode $1: SIGKILL of the connector, then of the server ($again were logged again)"
	connector_end TERM
	load_goes_on
	connector_begin
	connector_is_even "mode $1: a restart of the connector"
	load_end
	runs "mode $1: each kind of change" "$ZEN_TMP/changes.pl" run "$(dsn_of a)"
	sql a "INSERT INTO t_zen SELECT g FROM generate_series(5001, 5250) g"
	sql a "INSERT INTO t_heap SELECT g FROM generate_series(5001, 5250) g"
	sql a "INSERT INTO signals VALUES ('1', 'execute-snapshot',
		'{\"data-collections\": [\"public.t_zen\", \"public.t_heap\"], \"type\": \"incremental\"}')"
	wait_for $connector_s told '^zen.public.t_heap.*"snapshot":"incremental"' 252 || true
	connector_is_even "mode $1: an incremental snapshot"
	connector_end TERM
	compare_events "$1"
	is "mode $1: zen_verify_pool() finds nothing" "$(sql a 'SELECT count(*) FROM zen_verify_pool()' 2>&1)" 0
	server_remove a
}

test_debezium() {
	local jars
	jars=$(t/tools/debezium/fetch)
	cp -r "$jars" t/tools/debezium/Capture.java t/tools/debezium/changes.pl "$ZEN_TMP/"
	chmod -R a+rX "$ZEN_TMP/jars" "$ZEN_TMP/Capture.java"
	chmod a+rx "$ZEN_TMP/changes.pl"
	follows emulated
	follows wal
}
