# shellcheck shell=bash
#
# rsync.sh -- copies of files by rsync, which chooses them by size and time of modification.

# FROM TO OPTION...: the data directory
rsync_data() { as_user rsync -a --delete "${@:3}" "$ZEN_TMP/$1/data/" "$ZEN_TMP/$2/data/"; }

# CHECK SETTING=VALUE...: rsync of the running server, so that little is left to do; an orderly stop; rsync again.
move_server() {
	local check=$1
	server_remove a
	node_create a "${@:2}"
	node_start a
	copy_create b
	session_begin a
	stay_prepare
	rsync_data a b >/dev/null 2>&1 || true # files go away while it runs: status 24
	next_second
	stay_set 1000
	session_end
	server_stop a
	rsync_data a b
	if copy_starts "$check: starts" b; then
		stay_is "$check: rows" b 1000
		server_stop b
	fi
}

# The pool is older than the data directory, of the same start.
older_pool() {
	node_start a
	session_begin a
	stay_set 1
	as_user cp "$ZEN_TMP/a/data/zen.pool" "$ZEN_TMP/older.pool"
	stay_set 2
	session_end
	server_stop a
	copy_create b
	rsync_data a b
	as_user cp "$ZEN_TMP/older.pool" "$ZEN_TMP/b/data/zen.pool"
	is_refused "an older pool under a data directory that was stopped in order is refused" b
}

with_holes() {
	copy_create b
	rsync_data a b --sparse
	if copy_starts "rsync --sparse: starts" b; then
		stay_is "rsync --sparse: rows" b 2
		is "rsync --sparse: the running pool has no holes" "$(stat -c '%b %s' "$ZEN_TMP/b/data/zen.pool" |
			awk '{ print ($1 * 512 >= $2 ? "none" : "some") }')" none
		server_stop b
	fi
}

# A backup by hand, into the same place each time.
low_level_backup() {
	session "SELECT pg_backup_start('rsync', true)"
	rsync_data a b --exclude postmaster.pid --exclude backup_label --exclude tablespace_map --exclude 'pg_wal/*' \
		--exclude port >/dev/null 2>&1 || true
	session "SELECT labelfile FROM pg_backup_stop(false)"
	# what the function has said, up to the marker
	awk '/^START WAL LOCATION/ { text = "" } /^@/ { next } { text = text $0 "\n" } END { printf "%s", text }' \
		"$ZEN_TMP/psql.log" | grep -E '^(START|CHECKPOINT|BACKUP|LABEL)' |
		as_user tee "$ZEN_TMP/b/data/backup_label" >/dev/null
	as_user cp -a "$ZEN_TMP/a/data/pg_wal/." "$ZEN_TMP/b/data/pg_wal/"
}

# Backups into the same place, with changes between them that no WAL brings. No load until then: a process that comes to
# a page for the first time gives the file a new time.
backup_twice() {
	server_remove a
	node_create a
	node_start a
	session_begin a
	stay_prepare
	copy_create b
	low_level_backup
	next_second
	stay_set 1000
	low_level_backup
	session "UPDATE stay_zen SET v = 1000 WHERE id = 1; UPDATE stay_heap SET v = 1000 WHERE id = 1"
	load_begin a
	load_end
	server_stop a
	as_user cp -a "$ZEN_TMP/a/data/pg_wal/." "$ZEN_TMP/b/data/pg_wal/"
	session_end
	if copy_starts "pg_backup_start(), twice: starts" b; then
		stay_is "pg_backup_start(), twice: rows" b 1000
		is_complete "pg_backup_start(), twice: the load" b
		server_stop b
	fi
}

test_rsync() {
	local mode
	for mode in emulated msync; do
		move_server "rsync, stop, rsync ($mode, no stream)" zen.stream=off "zen.pool_mode=$mode"
		move_server "rsync, stop, rsync ($mode, zen.stream = replica)" "zen.pool_mode=$mode"
	done
	older_pool
	with_holes
	backup_twice
}
