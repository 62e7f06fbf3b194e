# zen: PostgreSQL tables in non-volatile memory.
#
#   make, make install, make installcheck   as for any extension; PG_CONFIG selects the server, or PG_MAJOR=17 one that
#                          tools/build-server builds from source, once, for all that is below too
#   make check             install what is missing, build, run all tests on a private server
#   make torture           power cuts, long: every scenario at every crash point, then ROUNDS=100 cuts under a
#                          random load; SEED, SCENARIOS, JOBS...: t/400_power.pl and t/405_power_torture.pl;
#                          the same of pools on a disk: t/420, t/425; of primaries with copies, and of these: t/675
#                          and t/676
#   make check-quick       sql and specs only, a minute
#   make check-postgres    PostgreSQL's own tests, with zen as the default
#   make check-sanitized  the tests under AddressSanitizer, SANITIZE=undefined: UBSan; tools/check-sanitized
#   make check-vm        in virtual machines with persistent memory, whose power is cut: tools/check-vm
#   make check-citus CITUS_SRC=DIR   kills and shard moves under Citus, built from its sources: tools/check-citus
#   make check-backup-tools  pgBackRest, Barman, Patroni, repmgr, pgpool2, HAProxy, pgbouncer, rsync, Debezium:
#                            tools/check-backup-tools
#   make check-production  doc/production.md, word for word, on two bare Debians: tools/check-production
#   make check-packages    do the packages and the release archive build, install, work: tools/check-packages
#   make check-commands    README's two commands, each the first on a bare Debian: tools/check-commands
#   make demo              the same, then TPC-C on zen and on heap, a crash and a recovery
#   make bench             zen and its peers side by side, half an hour; make bench-full: 90 minutes.
#                          BENCH_OUT=/tmp/zen-bench
#   make check-includes    do the layers below hold?
#   make check-docs        do the documents keep their rules (tools/check-docs says which)?
#   make check-lines       is a line too long, do six stand twice?
#   make check-format      is the code formatted?  make format does it
#   make dist              the release archive zen-VERSION.tar.gz, of the last commit; DIST=DIR
#   WERROR=1               warnings are errors
#   EXECUTOR=no            a build without src/exec; no statement is run faster than by the standard executor
#   ZEN_TESTING=1          a build with the settings for tests and measurements (src/base/testing.h)
#   ZEN_FAULTS=1           that, and with the setting zen.fault (src/base/fault.h); tools/fault-server installs it

PG_CONFIG ?= pg_config
ifneq ($(PG_MAJOR),)
override PG_CONFIG := $(shell tools/build-server $(PG_MAJOR))
$(if $(PG_CONFIG),,$(error no server of PostgreSQL $(PG_MAJOR)))
export PG_CONFIG
unexport PG_MAJOR
endif

# These goals work on a machine that has no server yet, so they must not need PGXS.
TOOLS = check check-quick check-postgres check-citus check-sanitized check-vm check-backup-tools check-commands \
	check-production check-packages torture demo bench bench-full check-includes check-docs check-lines check-format \
	format dist

ifneq ($(filter $(TOOLS),$(MAKECMDGOALS)),)

.PHONY: $(MAKECMDGOALS)
.NOTPARALLEL:

check check-postgres check-citus check-sanitized check-vm check-backup-tools check-commands check-production \
	check-packages demo check-includes check-docs check-lines format:
	@tools/$@

check-quick:
	@SUITES="sql specs" tools/check

torture:
	@POWER=long ROUNDS=$${ROUNDS:-100} TEST_TIMEOUT=$${TEST_TIMEOUT:-36000} \
		TESTS="400_power 405_power_torture 420_power_pages 425_power_wal 675_copies_power 676_standby_power" tools/check

bench:
	@tools/bench --out $${BENCH_OUT:-/tmp/zen-bench}

bench-full:
	@tools/bench --full --out $${BENCH_OUT:-/tmp/zen-bench-full}

check-format:
	@tools/format --check

dist: DIST = .
dist: release = zen-$(shell sed -n "s/^default_version = '\(.*\)'/\1/p" zen.control)
dist:
	@git archive --format=tar.gz --prefix=$(release)/ --output=$(DIST)/$(release).tar.gz HEAD
	@echo $(DIST)/$(release).tar.gz

# "make clean check": the other goals are PGXS's.
$(filter-out $(TOOLS),$(MAKECMDGOALS)):
	@$(MAKE) --no-print-directory $@

else

MODULE_big = zen
EXTENSION = zen
DATA_built = zen--1.0.sql
PGFILEDESC = "zen - tables in non-volatile memory"

SCRIPTS = tools/zen_setup_device

# Documents go to a folder of zen's own: many extensions have a README.md.
DOCS = $(wildcard doc/*.md doc/*.svg)
override docmoduledir = zen

# Lowest layer first, and within a layer each module after those that it includes (tools/check-includes).
OBJS = $(addprefix src/base/, \
		guc.o \
		startup.o \
		stats.o \
		ownwal.o \
		numa.o \
		arena.o \
		epoch.o) \
	$(addprefix src/numa/, \
		partition.o \
		votes.o) \
	$(addprefix src/nvm/, \
		persist.o \
		datadir.o \
		poolfile.o \
		moment.o \
		pool.o \
		poolopen.o \
		filetime.o \
		repair.o \
		tuple.o \
		region.o \
		htable.o \
		touched.o \
		page.o \
		grow.o \
		slotalloc.o \
		delta.o \
		slotread.o) \
	$(addprefix src/cache/, \
		sketch.o \
		keycache.o \
		tablestat.o \
		tidmap.o \
		version.o \
		shares.o \
		clock.o \
		spillmap.o) \
	$(addprefix src/row/, \
		visibility.o \
		writeset.o \
		lockers.o \
		rowmake.o \
		rowahead.o \
		rowread.o \
		rowlook.o \
		rowversions.o \
		rowjudge.o \
		rowchange.o) \
	$(addprefix src/gc/, \
		collect.o \
		reclaim.o \
		room.o) \
	$(addprefix src/standby/, \
		standbyqueue.o \
		followers.o \
		standbystate.o \
		standbycollect.o \
		standbyrows.o \
		standbykeep.o \
		standbyscan.o) \
	$(addprefix src/stream/, \
		streamxids.o \
		streamtail.o \
		streamsink.o \
		streamclients.o \
		streamredo.o \
		streamrmgr.o) \
	$(addprefix src/txn/, \
		exclusive.o \
		spillend.o \
		deltas.o \
		takeslots.o \
		commit.o \
		spill.o \
		ddl.o \
		sequence.o \
		prepared.o \
		xact.o) \
	$(addprefix src/recovery/, \
		savedmap.o \
		runmap.o \
		runload.o \
		keptmap.o \
		passes.o \
		syncer.o \
		recovery.o \
		gate.o \
		standbyworker.o \
		worker.o) \
	$(addprefix src/table/, \
		ownxact.o \
		treeindex.o \
		zenam_reindex.o \
		keyfill.o \
		standbyplan.o \
		zenam_rel.o \
		standin.o \
		reindexworker.o \
		zenam_unlogged.o \
		zenam_stream.o \
		indexahead.o \
		zenam_slot.o \
		scancolumns.o \
		zenam_fetch.o \
		standbytoast.o \
		zenam_change.o \
		zenam_toast.o \
		bulkinsert.o \
		zenam_scan.o \
		zenam_dml.o \
		zenam_ddl.o \
		zenam_rewrite.o \
		zenam_vacuum.o \
		zenam_build.o \
		zenam_handler.o) \
	$(addprefix src/index/, \
		treeshape.o \
		tree.o \
		treedir.o \
		zentree_keys.o \
		zentree.o \
		zentree_build.o \
		zentree_insert.o \
		zentree_scan.o \
		zentree_vacuum.o) \
	$(addprefix src/verify/, \
		verify_row.o \
		verify_index.o \
		verify_table.o \
		verify_copy.o \
		verify_pool.o) \
	$(addprefix src/exec/, \
		keyprobe.o \
		keptnodes.o \
		plannode.o \
		keyjoin.o \
		batchagg.o \
		batchcolumn.o \
		batchnode.o \
		indexonly.o \
		indexscan.o \
		seqscan.o \
		pointmemory.o \
		pointplan.o \
		pointrow.o \
		shapekey.o \
		shape.o \
		planhook.o \
		exec.o) \
	$(addprefix src/admin/, \
		replication.o \
		standbyentries.o \
		standbyadopt.o \
		standbytree.o \
		statements.o \
		treehooks.o \
		commands.o \
		dispatch.o \
		resultrow.o \
		views.o \
		tableviews.o) \
	zen_am.o

PG_CPPFLAGS = -I$(srcdir)/src
SHLIB_LINK = -lpmem

# Calls and variables of the library itself go not through its symbol tables.  16 and later have this in PGXS.
PG_CFLAGS += -fvisibility=hidden
ifeq ($(EXECUTOR),no)
OBJS := $(filter-out src/exec/%,$(OBJS))
PG_CPPFLAGS += -DZEN_NO_EXECUTOR
endif
ifeq ($(ZEN_FAULTS),1)
override ZEN_TESTING = 1
PG_CPPFLAGS += -DZEN_FAULTS
endif
ifeq ($(ZEN_TESTING),1)
OBJS += src/base/delay.o src/base/testing.o
PG_CPPFLAGS += -DZEN_TESTING
endif
ifeq ($(WERROR),1)
PG_CFLAGS += -Werror
endif

# installcheck: the server must have been started with shared_preload_libraries = 'zen'.
REGRESS = $(sort $(basename $(notdir $(wildcard sql/*.sql))))
ISOLATION = $(sort $(basename $(notdir $(wildcard specs/*.spec))))
TAP_TESTS = $(if $(wildcard t/*.pl),1)
REGRESS_OPTS = --load-extension=zen
ISOLATION_OPTS = --load-extension=zen

EXTRA_CLEAN = .built-for

# No LLVM bitcode: the executor would inline nothing of a table access method.
override with_llvm = no

PGXS := $(shell $(PG_CONFIG) --pgxs 2>/dev/null)
ifeq ($(wildcard $(PGXS)),)
$(error no PostgreSQL server headers: run tools/install-deps, or set PG_CONFIG)
endif
include $(PGXS)

# PGXS's own rules look for them under doc/ and tools/ in there.
uninstall: uninstall-named
uninstall-named:
	rm -f $(addprefix '$(DESTDIR)$(bindir)'/,$(notdir $(SCRIPTS)))
	rm -f $(addprefix '$(DESTDIR)$(docdir)/$(docmoduledir)'/,$(notdir $(DOCS)))
.PHONY: uninstall-named

# The lists of counters and gauges are the columns of view zen_stat.
zen--1.0.sql: zen--1.0.sql.in src/base/stats.h Makefile
	sed -n '/^#define ZEN_\(COUNTERS\|GAUGES\)(X)/,/^$$/s/^\tX(\([a-z_]*\)).*/\tOUT \1 bigint,/p' \
		$(filter %/stats.h,$^) | sed -e '/^@STAT_COLUMNS@$$/{r /dev/stdin' -e 'd;}' $(filter %.in,$^) >$@.new
	mv $@.new $@

# Any header may reach any file, and objects for another server, or made by other rules, are of no use. The whole build
# takes seconds.
BUILT_FOR = $(shell $(PG_CONFIG) --includedir-server --version) $(ZEN_FAULTS) $(ZEN_TESTING) $(EXECUTOR) $(COPT)
$(OBJS): $(wildcard $(srcdir)/src/*/*.h) .built-for
.built-for: FORCE
	@echo '$(BUILT_FOR)' | cmp -s - $@ || echo '$(BUILT_FOR)' >$@
FORCE:
.PHONY: FORCE

endif
