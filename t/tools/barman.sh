# shellcheck shell=bash
#
# barman.sh -- Barman: rsync over ssh with links to the backup before, and pg_basebackup.

barman_at() { as_user timeout "$command_s" barman -c "$ZEN_TMP/barman.conf" "$@"; }
barman_runs() { runs "$1" barman -c "$ZEN_TMP/barman.conf" "${@:2}"; }

# The servers of Barman are one of ours, backed up in two ways.
make_barman() {
	local home=$ZEN_TMP/barman conninfo
	conninfo="host=$ZEN_TMP port=$(server_port a) user=postgres dbname=postgres"
	as_user mkdir -p "$home"/{files,copies}/incoming
	as_user tee "$ZEN_TMP/barman.conf" >/dev/null <<-END
		[barman]
		barman_home = $home
		barman_user = $ZEN_USER
		barman_lock_directory = $home
		configuration_files_directory = $home
		log_file = $home/log
		archiver = on
		immediate_checkpoint = true
		[files]
		description = by rsync
		conninfo = $conninfo
		backup_method = rsync
		reuse_backup = link
		ssh_command = $ssh_command 127.0.0.1
		[copies]
		description = by pg_basebackup
		conninfo = $conninfo
		streaming_conninfo = $conninfo
		backup_method = postgres
	END
}

# All that the server has logged so far comes to Barman.
archive_all() {
	local name
	sql a "SELECT pg_switch_wal()" >/dev/null
	wait_for $command_s answers a "SELECT count(*) FROM pg_ls_archive_statusdir() WHERE name LIKE '%.ready'" 0
	for name in files copies; do
		barman_at archive-wal $name >/dev/null 2>&1
	done
}

# CHECK SERVER VALUE OPTION...: the last backup becomes b
recover_b() {
	local check=$1
	copy_create b
	barman_runs "$check" recover "$2" latest "$ZEN_TMP/b/data" "${@:4}" || return 0
	if copy_starts "$check: starts" b; then
		stay_is "$check: rows" b "$3"
		check_b "$check"
		server_stop b
	fi
}

# The same as for pgBackRest: a process that stays, no load, one row in the WAL behind the second backup.
links_at_rest() {
	check_b() { :; }
	session_begin a
	stay_prepare
	barman_runs "full by rsync" backup files
	stay_set 1000
	barman_runs "by links, at rest" backup files
	session "UPDATE stay_zen SET v = 1000 WHERE id = 1; UPDATE stay_heap SET v = 1000 WHERE id = 1"
	archive_all
	recover_b "recover, by links, at rest" files 1000
}

under_load() {
	local target name
	load_begin a
	barman_runs "by links, under load" backup files
	barman_runs "by pg_basebackup, under load" backup copies
	barman_runs "verify-backup" verify-backup copies latest
	load_goes_on
	target=$(now)
	load_goes_on
	stay_set 1001
	load_end
	archive_all
	for name in files copies; do
		check_b() { is_complete "$1" b; }
		recover_b "recover $name to the end" $name 1001
		check_b() { is_complete "$1" b "$target"; }
		recover_b "recover $name to a time" $name 1000 \
			--target-time "$(date -u -d "@$target" '+%F %T.%6N+00')" --target-action promote
	done
	session_end
}

test_barman() {
	ssh_begin
	node_create a archive_mode=on \
		"archive_command=cp %p $ZEN_TMP/barman/files/incoming/%f && cp %p $ZEN_TMP/barman/copies/incoming/%f"
	make_barman
	node_start a
	archive_all
	barman_runs "check files" check files
	barman_runs "check copies" check copies
	links_at_rest
	under_load
}
