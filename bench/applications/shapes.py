#!/usr/bin/env python3
#
# shapes.py -- the statements that an application sends most often: which of them run by a plan kept for their shape, and
# what they cost beside heap.
#
#   shapes.py fill DB...                       puts rows into all tables of schema public, by the types of their columns
#   shapes.py kept LOG LOG_DB ZEN_DB           replays the 100 commonest shapes, and says why others are not kept
#   shapes.py cpu  LOG LOG_DB ZEN_DB HEAP_DB   processor time of each, with and without `shape`, and on heap
#
# LOG is a server's log of the application's statements in database LOG_DB, with compute_query_id = on,
# log_min_duration_statement = 0 and log_line_prefix = '%Q|%d|'; a query id is a shape. ZEN_DB and HEAP_DB have the
# application's tables on zen and on heap. PGHOST, PGPORT and PGUSER name the server, which runs on this machine: its
# processes' time is read from /proc. Each statement is rolled back. Needs psycopg2 (Debian: python3-psycopg2), which
# sends statements by the simple protocol, with the values in their text.

import argparse
import collections
import re
import statistics
import sys

import psycopg2

SHAPES = 100
TEXTS = 12  # of a shape, at most
ROWS = 2000
ROUNDS = 30
CALLS = 10  # of a statement in a round
DEFAULT = "point, keyjoin, batch, shape"

PREFIX = re.compile(r"(-?\d+)\|(\w*)\|(\w+):  (.*)", re.S)
STATEMENT = re.compile(r"duration: \S+ ms  (?:statement|execute [^:]*): (.*)", re.S)
WANTED = re.compile(r"(?is)\s*(select|insert|update|delete|with)\b.*\b(from|into|update)\s")
SYSTEM = re.compile(r"pg_catalog|pg_class|pg_stat|zen_stat|set_config|pg_get_serial|information_schema|pg_advisory")

# What a column of a type gets in row i.
VALUES = {
    "int2": "i % 30000",
    "int4": "i",
    "int8": "i",
    "float8": "i",
    "numeric": "i % 100",
    "bool": "i % 2 = 0",
    "text": "'t' || i",
    "bytea": "'x'::bytea",
    "date": "date '2025-01-01' + i",
    "time": "time '00:00' + i * interval '1 min'",
    "timestamp": "timestamp '2025-01-01' + i * interval '1 min'",
    "timestamptz": "timestamptz '2025-01-01' + i * interval '1 min'",
    "interval": "i * interval '1 s'",
    "uuid": "gen_random_uuid()",
    "jsonb": "jsonb_build_object('k', i)",
    "inet": "'10.0.0.1'::inet",
}


class Session:
    """A connection; executor: the value of zen.executor, or None where there is no zen."""

    def __init__(self, db, executor=None):
        self.connection = psycopg2.connect(dbname=db)
        self.connection.autocommit = True
        self.cursor = self.connection.cursor()
        if executor is not None:
            self.cursor.execute("SELECT set_config('zen.executor', %s, false)", (executor,))
        self.pid = self.rows("SELECT pg_backend_pid()")[0][0]

    def rows(self, sql):
        self.cursor.execute(sql)
        return self.cursor.fetchall()

    def run(self, sql):
        """A statement, rolled back if it may write."""
        if sql.lstrip().lower().startswith("select"):
            self.cursor.execute(sql)
            return
        self.cursor.execute("BEGIN")
        try:
            self.cursor.execute(sql)
        finally:
            self.cursor.execute("ROLLBACK")

    def cpu_ns(self):
        with open(f"/proc/{self.pid}/schedstat") as f:
            return int(f.read().split()[0])


def statements(log, db):
    """Query id, text of each statement of a database."""
    query_id, lines = None, []
    for line in open(log, errors="replace"):
        m = PREFIX.match(line)
        if not m:
            lines.append(line)
            continue
        if query_id:
            yield query_id, "".join(lines)
        s = STATEMENT.match(m.group(4)) if m.group(3) == "LOG" and m.group(2) == db and m.group(1) != "0" else None
        query_id, lines = (m.group(1), [s.group(1)]) if s else (None, [])
    if query_id:
        yield query_id, "".join(lines)


def commonest(log, db):
    """[(calls, texts)] of the commonest shapes, and the calls of all."""
    calls, texts = collections.Counter(), collections.defaultdict(list)
    for query_id, text in statements(log, db):
        if WANTED.match(text) and not SYSTEM.search(text):
            calls[query_id] += 1
            if len(texts[query_id]) < TEXTS:
                texts[query_id].append(text)
    return [(n, texts[q]) for q, n in calls.most_common(SHAPES)], sum(calls.values())


def value_of(typname, typmod):
    if typname in ("varchar", "bpchar") and typmod > 4:
        return f"left('v' || i, {typmod - 4})"
    return VALUES.get(typname, "'v' || i" if typname in ("varchar", "bpchar") else "NULL")


def fill(args):
    for db in args.db:
        session = Session(db)
        session.cursor.execute("SET session_replication_role = replica")
        left = 0
        for oid, table in session.rows(
            "SELECT oid, quote_ident(relname) FROM pg_class WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace"
        ):
            columns = session.rows(
                "SELECT quote_ident(attname), typname, atttypmod FROM pg_attribute JOIN pg_type t ON t.oid = atttypid "
                f"WHERE attrelid = {oid} AND attnum > 0 AND NOT attisdropped AND attgenerated = ''"
            )
            names = ", ".join(c[0] for c in columns)
            values = ", ".join(value_of(c[1], c[2]) for c in columns)
            try:
                session.cursor.execute(
                    f"INSERT INTO {table} ({names}) OVERRIDING SYSTEM VALUE SELECT {values} "
                    f"FROM generate_series(1, {ROWS}) i ON CONFLICT DO NOTHING"
                )
            except psycopg2.Error:
                left += 1
        for (sequence,) in session.rows("SELECT oid::regclass::text FROM pg_class WHERE relkind = 'S'"):
            session.cursor.execute("SELECT setval(%s, 20000)", (sequence,))
        session.cursor.execute("ANALYZE")
        print(f"{db}: filled, but for {left} tables")


def why_not(session, before):
    reasons = dict(session.rows("SELECT reason, count FROM zen_stat_executor"))
    grown = [r for r, n in reasons.items() if n > before.get(r, 0) and r not in ("first_run", "new_shape")]
    return ", ".join(sorted(grown)) or "new_shape"


def kept(args):
    top, total = commonest(args.log, args.log_db)
    session = Session(args.zen_db, DEFAULT)
    n_kept = calls_kept = 0
    for calls, texts in top:
        reasons = dict(session.rows("SELECT reason, count FROM zen_stat_executor"))
        runs = session.rows("SELECT shape_runs FROM zen_stat")[0][0]
        for i in range(8):
            try:
                session.run(texts[i % len(texts)])
            except psycopg2.Error:
                pass
        if session.rows("SELECT shape_runs FROM zen_stat")[0][0] > runs:
            n_kept += 1
            calls_kept += calls
        else:
            print(f"{calls:6} {why_not(session, reasons):14} {' '.join(texts[0].split())[:90]}")
    of_top = sum(calls for calls, _ in top)
    print(f"{n_kept} of {len(top)} shapes kept, {calls_kept} of their {of_top} calls; {total} calls in all")


def cpu(args):
    top, _ = commonest(args.log, args.log_db)
    sessions = {
        "zen": Session(args.zen_db, DEFAULT),
        "without shape": Session(args.zen_db, "point, keyjoin, batch"),
        "heap": Session(args.heap_db),
    }
    ratios = collections.defaultdict(list)
    for _, texts in top:
        us = collections.defaultdict(list)
        try:
            for _ in range(ROUNDS):
                for name, session in sessions.items():
                    before = session.cpu_ns()
                    for i in range(CALLS):
                        session.run(texts[i % len(texts)])
                    us[name].append((session.cpu_ns() - before) / 1000 / CALLS)
        except psycopg2.Error:
            continue
        median = {name: statistics.median(x) for name, x in us.items()}
        for other in ("without shape", "heap"):
            ratios[other].append(median["zen"] / median[other])
    for other, r in ratios.items():
        print(f"zen / {other}: median of {len(r)} statements {statistics.median(r):.2f} ({min(r):.2f} .. {max(r):.2f})")


def main():
    parser = argparse.ArgumentParser(description="The statements that an application sends most often.")
    commands = parser.add_subparsers(required=True)
    for work, names in ((fill, ["db"]), (kept, ["log", "log_db", "zen_db"]), (cpu, ["log", "log_db", "zen_db", "heap_db"])):
        command = commands.add_parser(work.__name__)
        command.set_defaults(work=work)
        for name in names:
            command.add_argument(name, nargs="+" if name == "db" else None)
    args = parser.parse_args()
    args.work(args)


if __name__ == "__main__":
    sys.exit(main())
