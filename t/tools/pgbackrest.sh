# shellcheck shell=bash
#
# pgbackrest.sh -- backups and restores by pgBackRest; a repository on the same host.

backrest() { as_user timeout "$command_s" pgbackrest "--config=$ZEN_TMP/backrest.conf" --stanza=zen "$@"; }
backrest_runs() { runs "$1" pgbackrest "--config=$ZEN_TMP/backrest.conf" --stanza=zen "${@:2}"; }

# N NAME: a server of the stanza
stanza_server() {
	cat <<-END
		pg$1-path=$ZEN_TMP/$2/data
		pg$1-port=$(server_port "$2")
		pg$1-socket-path=$ZEN_TMP
		pg$1-user=postgres
	END
}

# NAME...: the servers of the stanza, in an empty repository
make_stanza() {
	local n=0 name
	rm -rf "$ZEN_TMP/repo"
	as_user mkdir -p "$ZEN_TMP/repo" "$ZEN_TMP/backrest/log" "$ZEN_TMP/backrest/lock" "$ZEN_TMP/backrest/spool"
	{
		cat <<-END
			[global]
			repo1-path=$ZEN_TMP/repo
			log-path=$ZEN_TMP/backrest/log
			lock-path=$ZEN_TMP/backrest/lock
			spool-path=$ZEN_TMP/backrest/spool
			log-level-console=warn
			start-fast=y
			compress-type=lz4
			[zen]
		END
		for name in "$@"; do
			stanza_server $((n += 1)) "$name"
		done
	} | as_user tee "$ZEN_TMP/backrest.conf" >/dev/null
}

archive_settings() {
	echo archive_mode=on
	echo "archive_command=pgbackrest --config=$ZEN_TMP/backrest.conf --stanza=zen archive-push %p"
}

# NAME OPTION...: what the repository has becomes a data directory.
restore() {
	local name=$1
	as_user mkdir -p -m 700 "$ZEN_TMP/$name/data"
	backrest --log-level-console=error --pg1-path="$ZEN_TMP/$name/data" "${@:2}" restore
}

backrest_primary() {
	local settings
	mapfile -t settings < <(archive_settings)
	node_create a "${settings[@]}"
	# the WAL elsewhere, as beside a data directory on a DAX file system
	as_user mv "$ZEN_TMP/a/data/pg_wal" "$ZEN_WAL/a"
	as_user ln -s "$ZEN_WAL/a" "$ZEN_TMP/a/data/pg_wal"
}

# A process that stays, and no load: one that comes to a page of the pool for the first time gives the file a new time.
# The WAL behind the second backup brings one row only.
quiet_incr() {
	local type=$1
	session "UPDATE stay_zen SET v = 0; UPDATE stay_heap SET v = 0"
	backrest_runs "full" --type=full backup
	stay_set 1000
	backrest_runs "$type of a server at rest" --type="$type" backup
	session "UPDATE stay_zen SET v = 1000 WHERE id = 1; UPDATE stay_heap SET v = 1000 WHERE id = 1"
	session "SELECT pg_switch_wal()"
	wait_for $command_s answers a "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'" 0
	copy_create b
	restore b
	if copy_starts "$type of a server at rest: starts" b; then
		stay_is "$type of a server at rest: rows" b 1000
		server_stop b
	fi
}

full_incr_diff() {
	session_begin a
	stay_prepare
	quiet_incr incr
	quiet_incr diff
	load_begin a
	backrest_runs "diff" --type=diff backup
	load_goes_on
	backrest_runs "incr" --type=incr backup
	load_goes_on
	target=$(now)
	load_goes_on
	load_end
	session_end
}

restore_to_time() {
	copy_create b
	restore b --type=time "--target=$(date -u -d "@$target" '+%F %T.%6N+00')" --target-action=promote
	if copy_starts "to a time: starts" b; then
		stay_is "to a time: rows" b 1000
		is_complete "to a time" b "$target"
		server_stop b
	fi
}

restore_latest() {
	copy_create c
	restore c "--link-map=pg_wal=$ZEN_WAL/c"
	is "to the end: the WAL is elsewhere" "$(readlink "$ZEN_TMP/c/data/pg_wal")" "$ZEN_WAL/c"
	if copy_starts "to the end: starts" c; then
		stay_is "to the end: rows" c 1000
		is_complete "to the end" c
		# it goes its own way, and is then overwritten
		sql c "UPDATE stay_zen SET v = 7; UPDATE stay_heap SET v = 7; DELETE FROM load_zen"
		server_stop c
	fi
	restore c --delta "--link-map=pg_wal=$ZEN_WAL/c"
	if copy_starts "delta: starts" c; then
		stay_is "delta: rows" c 1000
		is_complete "delta" c
		server_stop c
	fi
}

# CHECK SETTING=VALUE...: the standby s of a, out of the repository
standby_from_repo() {
	local check=$1
	copy_create s
	restore s --type=standby "${map[@]}"
	standby_starts "$check" s a "primary_conninfo=host=$ZEN_TMP port=$(server_port a) user=postgres" "${@:2}"
}

# WHERE: the pool; `map` has the options of a restore into NAME's tablespace, `place` the settings
from_standby() {
	local check="backup-standby, pool in the $1"
	make_stanza a
	backrest_runs "$check: stanza-create" stanza-create
	load_begin a
	session_begin a
	stay_prepare
	backrest_runs "$check: full, of the primary" --type=full backup
	map_to s "$1"
	standby_from_repo "$check: a standby from the repository" "${place[@]}" || return 0
	make_stanza_with_standby
	stay_set 1000
	backrest_runs "$check: full" --type=full --backup-standby backup
	stay_set 1001
	backrest_runs "$check: incr" --type=incr --backup-standby backup
	stay_set 1002
	load_goes_on
	load_end
	session_end
	server_stop s
	server_stop a
	copy_create c
	map_to c "$1"
	restore c "${map[@]}"
	if copy_starts "$check: the restored one starts" c "${place[@]}"; then
		stay_is "$check: rows" c 1002
		is_complete "$check" c
		server_stop c
	fi
}

make_stanza_with_standby() { stanza_server 2 s | as_user tee -a "$ZEN_TMP/backrest.conf" >/dev/null; }

# NAME WHERE
map_to() {
	map=()
	place=()
	[ "$2" = tablespace ] || return 0
	as_user mkdir -p -m 700 "$ZEN_TMP/dax-$1"
	map=("--tablespace-map=dax=$ZEN_TMP/dax-$1")
	place=("zen.pool_path=$ZEN_TMP/dax-$1/$version_dir/zen.pool")
}

# A primary whose pool is in a tablespace, without data checksums.
primary_in_tablespace() {
	local settings
	mapfile -t settings < <(archive_settings)
	server_create a "${node_settings[@]}" "${settings[@]}" shared_preload_libraries=
	as_user mkdir -m 700 "$ZEN_TMP/dax-a"
	as_user sed -i '/^zen\./d' "$ZEN_TMP/a/data/postgresql.conf"
	configure a archive_mode=off
	server_start a
	sql a "CREATE TABLESPACE dax LOCATION '$ZEN_TMP/dax-a'"
	server_stop a
	version_dir=$(basename "$ZEN_TMP"/dax-a/PG_*)
	configure a "${node_settings[@]}" archive_mode=on shared_preload_libraries=zen zen.pool_mode=emulated \
		"zen.pool_path=$ZEN_TMP/dax-a/$version_dir/zen.pool"
	node_start a
}

test_pgbackrest() {
	local target map=() place=() version_dir
	backrest_primary
	make_stanza a
	node_start a
	backrest_runs "stanza-create" stanza-create
	backrest_runs "check" check
	full_incr_diff
	server_stop a
	backrest_runs "verify" verify
	restore_to_time
	restore_latest
	[ -z "${TOOLS_SHORT:-}" ] || return 0
	node_start a
	from_standby "data directory"
	server_remove a
	server_remove s
	primary_in_tablespace
	from_standby tablespace
}
