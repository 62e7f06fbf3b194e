"""figures.py -- what the papers' figures say of two designs, and how to count the same with bench/paper/engines.

A claim: in this figure and setting, `better` is ahead of `worse`, by a factor between low and high where the paper
gives one. bench/paper/engines/order counts both designs and proves the order; bench/report prints paper and counts
beside each other. A claim that does not hold here has a reason, which names the experiment that shows it.
"""
import csv
import subprocess

# All settings: one thread, so that counts can be repeated, and rows of which all bytes change.
BASE = {"threads": 1, "transactions": 1000, "cpu-cache": 512, "rows": 20000, "update-bytes": 1016, "log-mb": 64,
        "group": 16}
TPCC = {"threads": 1, "transactions": 2000, "cpu-cache": 512, "workload": "tpcc", "warehouses": 4, "log-mb": 64}
BANK = {"threads": 1, "transactions": 10000, "cpu-cache": 512, "workload": "smallbank", "rows": 100000, "log-mb": 64}
ONE = {**BASE, "requests": 1, "transactions": 10000}

MEDIUM, LINES, FENCES = "medium_us_per_txn", "lines_per_txn", "fences_per_txn"
P50, P99, REGION = "medium_p50_us", "medium_p99_us", "region_us_per_txn"
COLUMNS = {MEDIUM: "time of the medium", LINES: "lines flushed", FENCES: "fences", P50: "p50 by the medium",
           P99: "p99 by the medium", REGION: "time of the medium while no other thread can validate"}
SAME = 0.1  # designs that the paper calls alike may differ by so much

# Falcon's engine is for caches that survive a power loss.
MODE = {"falcon": "eadr"}

PEERS = ("mmdb-log", "wbl", "foedus")
SKEWS = {4: (0, 0.6, 0.95), 8: (0,), 16: (0, 0.95)}  # by P, the share of NVM to DRAM


class Claim:
    """A design is the name of an engine, and perhaps options of its own: zen+cc=occ. over: the column of `better`."""

    def __init__(self, figure, setting, options, better, worse, low=None, high=None, column=MEDIUM, over=None,
                 alike=False, same=SAME, said="alike"):
        self.figure, self.setting, self.options = figure, setting, options
        self.better, self.worse, self.low, self.high = better, worse, low, high
        self.column, self.over, self.alike, self.same, self.said = column, over or column, alike, same, said

    def ratio(self, counts):
        """worse / better; None if the better one costs nothing."""
        better = counted(self, self.better, counts, self.over)
        worse = counted(self, self.worse, counts, self.column)
        return worse / better if better > 0 else None if worse > 0 else 1.0

    def holds(self, counts):
        ratio = self.ratio(counts)
        if self.alike:
            return ratio is not None and 1 - self.same <= ratio <= 1 + self.same
        return ratio is None or ratio > 1

    def by(self):
        return COLUMNS[self.column] + ("" if self.over == self.column else f" / {COLUMNS[self.over]}")

    def paper(self):
        if self.alike:
            return self.said
        if self.low is None:
            return "> 1"
        return f"{self.low:g}" if self.low == self.high else f"{self.low:g} .. {self.high:g}"


# --- why an order is not the paper's -----------------------------------------

def counted(claim, engine, counts, column):
    return float(counts[key(claim.options, engine)][column])


def waits(claim, counts):
    """MMDB beside WBL."""
    mmdb, wbl = ({c: counted(claim, e, counts, c) for c in (MEDIUM, FENCES, LINES, "lines_evicted_per_txn")}
                 for e in ("mmdb-log", "wbl"))
    turns = (mmdb[MEDIUM] - wbl[MEDIUM]) / (wbl[FENCES] - mmdb[FENCES])
    return (f"Waiting is not in the medium's time: WBL has {wbl[FENCES]:.0f} fences, MMDB {mmdb[FENCES]:.1f}. "
            f"The order turns where a fence costs {turns:.2f} us. MMDB's memory evicts "
            f"{mmdb['lines_evicted_per_txn']:.0f} lines, one by one, for which nobody waits")


def pages_in_dram(claim, counts):
    """WBL beside FOEDUS."""
    return ("FOEDUS has no metadata in NVM, and a quarter of its pages in DRAM has most of the hot rows. "
            "With less DRAM the order is the paper's: figure 10")


def small_cache(claim, counts):
    """No flush beside all flushes."""
    evicted = counted(claim, "falcon-none", counts, "lines_evicted_per_txn")
    return (f"The model's cache has room for 512 of 20,000 rows, and evicts {evicted:.1f} lines one by one. "
            "With 4 MB the order is the paper's: below")


def fills(claim, counts):
    """TPC-C: no flush beside hints."""
    filled = counted(claim, "falcon-none", counts, "units_filled_per_txn")
    return (f"Rows are evicted line by line, which fills {filled:.0f} units. With units of 64 bytes the two are alike: "
            "below. In the paper indexes in NVM and the processor have most of the time")


def stores_of_readers(claim, counts):
    """A design that stores to a row when it is read, as a method wants it."""
    noted, not_noted = (counted(claim, f"falcon+cc={method}", counts, "lines_evicted_per_txn")
                        for method in (claim.options["cc"], "occ"))
    return (f"A reader stores its lock or time to the row in NVM. So {noted:.1f} lines are evicted one by one, with "
            f"OCC {not_noted:.1f}. ")


def copies(claim, counts):
    read, less = (counted(claim, f"falcon+cc={method}", counts, "units_read_per_txn")
                  for method in (claim.options["cc"], "occ"))
    return (f"The old version of a row is copied from NVM: {read:.0f} units are read, with OCC {less:.0f}. Updates of "
            "TPC-C do not read their rows here otherwise. ")


def notes_of_methods(claim, counts):
    """Falcon beside zen, or beside itself under OCC, where a method stores to rows, or copies them."""
    method = claim.options["cc"]
    text = stores_of_readers(claim, counts) if method != "mvocc" else ""
    if method.startswith("mv"):
        text += copies(claim, counts)
    if claim.worse != "zen":
        return text + "zen, which has all of this in DRAM, costs the same with each method: below"
    return text + "With a cache for all rows the order is the paper's: below"


def versions_in_dram(claim, counts):
    """zen with MVCC beside zen with TO."""
    return ("Old versions are in DRAM. What their copies cost the processor is not counted, and the medium does the "
            "same")


def records_meet(claim, counts):
    """A log with records on lines of their own beside one without."""
    aligned, packed = (counted(claim, engine, counts, LINES) for engine in ("dbxn-64", "dbxn-store"))
    return (f"A line with two records is flushed twice, {packed:.2f} and {aligned:.2f} lines. In the medium's buffer "
            "the two meet, as one thread writes nothing but its log, and padding is more to write. By lines flushed "
            "the order is the paper's: below")


def nothing_between(claim, counts):
    """A log padded to units beside one padded to lines."""
    padded, lines = (counted(claim, engine, counts, "units_written_per_txn") for engine in ("dbxn", "dbxn-stream"))
    return (f"One thread writes nothing but its log, so records that share a unit meet in the medium's buffer: padding "
            f"is more to write, {padded:.2f} and {lines:.2f} units. With rows in NVM, which come in between, the order "
            "is the paper's: below")


class Difference:
    """In all settings of the figure but some."""

    def __init__(self, figure, better, worse, why, but=()):
        self.claim, self.why, self.but = (figure, better, worse), why, but

    def covers(self, claim):
        return self.claim == (claim.figure, claim.better, claim.worse) and claim.setting not in self.but


LARGE_CACHE = "YCSB-A, skew 0.99, cache of 4 MB"
UNITS_OF_LINES = "TPC-C, units of 64 bytes"
OTHER_METHODS = ("2pl", "to", "mvcc", "mv2pl", "mvocc")  # than OCC
ALL_CACHED = {method: f"TPC-C, {method.upper()}, a cache for all rows" for method in OTHER_METHODS if method != "mvocc"}
DIFFERENCES = (
    Difference("Zen 8", "mmdb-log", "wbl", waits, but=("RO, skew 0, P = 4", "RO, skew 0.95, P = 4")),
    Difference("Zen 9", "mmdb-log", "wbl", waits),
    Difference("Zen 10", "mmdb-log", "wbl", waits, but=("RO, skew 0.95, P = 16",)),
    Difference("Zen 8", "wbl", "foedus", pages_in_dram, but=tuple(
        f"{mix}, skew {theta}, P = 4" for mix in ("RO", "RH", "BA", "WH") for theta in (0, 0.6, 0.95)
        if mix != "RO" or theta == 0)),
    Difference("Falcon 9", "falcon-none", "falcon-all", small_cache, but=(LARGE_CACHE,)),
    Difference("Falcon 9", "falcon-none", "zen", small_cache, but=(LARGE_CACHE,)),
    Difference("Falcon 7", "falcon", "falcon-none", fills, but=(UNITS_OF_LINES,)),
    Difference("Falcon 7", "falcon", "zen", notes_of_methods, but=("TPC-C", "TPC-C, MVOCC", *ALL_CACHED.values())),
    *(Difference("Falcon 7", f"falcon+cc={method}", "falcon+cc=occ", notes_of_methods) for method in OTHER_METHODS),
    Difference("Falcon 7", "zen+cc=to", "zen+cc=mvcc", versions_in_dram),
    Difference("DBXN 11", "dbxn-64", "dbxn-store", records_meet, but=("TPC-C, flushes",)),
    Difference("DBXN 11", "dbxn", "dbxn-stream", nothing_between),
)


def difference(claim):
    """None: the order is to hold."""
    return next((d for d in DIFFERENCES if d.covers(claim)), None)


def reason(claim, counts):
    """Of an order that does not hold."""
    known = difference(claim)
    return known.why(claim, counts) if known else "no reason is known"


# --- the figures --------------------------------------------------------------

def zen_figures():
    claims = []
    ratios = {  # of zen's throughput and its peers', all skews
        ("8", 4): {"ro": (1.25, 5.29), "rh": (1.00, 7.86), "ba": (1.54, 7.50), "wh": (2.16, 10.12)},
        ("9", 8): {"ro": (None, None), "rh": (None, None), "ba": (None, None), "wh": (None, None)},
        ("10", 16): {"ro": (1.34, 5.35), "rh": (1.13, 5.59), "ba": (1.02, 4.20), "wh": (1.02, 5.58)},
    }
    for (figure, p), mixes in ratios.items():
        for mix, (low, high) in mixes.items():
            for theta in SKEWS[p]:
                options = {**BASE, "workload": mix, "theta": theta, "cache": 1 / p}
                setting = f"{mix.upper()}, skew {theta}, P = {p}"
                claims += [Claim(f"Zen {figure}", setting, options, "zen", peer, low, high) for peer in PEERS]
                claims.append(Claim(f"Zen {figure}", setting, options, "mmdb-log", "wbl"))
                claims.append(Claim(f"Zen {figure}", setting, options, "wbl", "foedus"))
    for mix in ("ro", "rh", "ba", "wh"):
        options = {**BASE, "workload": mix, "theta": 0.95, "cache": 0.25}
        setting = f"{mix.upper()}, skew 0.95, P = 4"
        claims.append(Claim("Zen 11", setting, options, "zen", "wbl", column=LINES))
        claims.append(Claim("Zen 11", setting, options, "mmdb-log", "wbl", column=LINES))
        claims.append(Claim("Zen 12", setting, options, "zen", "wbl", column=FENCES))
        claims.append(Claim("Zen 12", setting, options, "mmdb-log", "wbl", column=FENCES))
    for mix, low, high in (("rh", 1.41, 1.52), ("ba", 1.32, 2.26), ("wh", 1.30, 2.52)):
        for theta in (0, 0.95):
            options = {**BASE, "workload": mix, "theta": theta, "cache": 0.25}
            claims.append(Claim("Zen 17", f"{mix.upper()}, skew {theta}, P = 4", options, "zen", "naive", low,
                                high))
    for load, workload in zip("ABCDE", ("ba", "ycsb-b", "ro", "ycsb-d", "ycsb-e")):
        options = {**BASE, "workload": workload, "theta": 0.6, "cache": 0.25}
        setting = f"YCSB-{load}, skew 0.6, P = 4"
        if workload == "ycsb-e":  # 100 times the reads
            options["transactions"] = 100
        claims.append(Claim("Zen 15", setting, options, "zen", "mmdb-log", 1.15, 1.82))
        claims.append(Claim("Zen 15", setting, options, "zen", "wbl", 1.36, 3.04))
    for mix in ("ro", "rh", "ba", "wh"):
        options = {**BASE, "workload": mix, "theta": 0, "cache": 0.25}
        claims.append(Claim("Zen 18", f"{mix.upper()}, skew 0, P = 4", options, "zen", "zen", column=P99, over=MEDIUM,
                            alike=True, same=0.5, said="little above 1"))
    for method in ("2pl", "to", "occ", "mvcc"):
        options = {**BASE, "workload": "ba", "theta": 0.95, "cache": 0.25, "cc": method}
        setting = f"BA, skew 0.95, P = 4, {method.upper()}"
        claims.append(Claim("Zen 23", setting, options, "zen", "mmdb-log", 1.10, 2.46))
        claims.append(Claim("Zen 23", setting, options, "zen", "wbl", 1.11, 4.58))
    for p, low, high in ((4, 1.56, 3.98), (8, 1.72, 4.63), (16, 1.75, 4.79)):
        options = {**TPCC, "log": "whole", "cache": 1 / p}
        claims += [Claim("Zen 20", f"TPC-C, P = {p}", options, "zen", peer, low, high) for peer in PEERS]
    return claims


def falcon_figures():
    tpcc = {**TPCC, "cache": 0.25, "cc": "occ"}
    uniform = {**ONE, "workload": "ba", "theta": 0, "cache": 0.25, "cc": "occ"}
    zipf = {**uniform, "theta": 0.99}
    rows = [
        ("7", "TPC-C", tpcc, [
            ("falcon", "inp", 1.125, 1.142), ("falcon-all", "inp", 1.101, 1.115), ("falcon", "zen", 1.21, 1.35),
            ("zen", "zen-none", 1.06, 1.10), ("zen", "outp", 1.23, 1.39)]),
        ("9", "YCSB-A, uniform", uniform, [
            ("falcon", "inp", 1.71, 2.01), ("falcon-all", "inp", 1.71, 2.01), ("falcon", "falcon-none", 1.41, 1.41),
            ("falcon-all", "falcon-none", 1.42, 1.42), ("zen", "zen-none", 1.395, 1.395), ("zen", "inp", None, None),
            ("outp", "inp", None, None), ("falcon", "zen", None, None), ("zen", "outp", 1, 1.24)]),
        ("9", "YCSB-A, skew 0.99", zipf, [
            ("falcon", "inp", 3.14, 3.14), ("falcon", "falcon-all", 1.74, 1.75),
            ("falcon-none", "falcon-all", 1.49, 1.49), ("falcon", "zen", None, None), ("falcon", "outp", None, None),
            ("falcon-none", "zen", None, None)]),
        ("9", LARGE_CACHE, {**zipf, "cpu-cache": 4096}, [
            ("falcon-none", "falcon-all", 1.49, 1.49), ("falcon-none", "zen", None, None)]),
        ("9", "YCSB-F, uniform", {**uniform, "workload": "ycsb-f"}, [
            ("falcon", "inp", 1.71, 2.01), ("falcon-all", "inp", 1.71, 2.01), ("falcon", "falcon-none", 1.41, 1.41),
            ("zen", "zen-none", 1.395, 1.395), ("falcon", "zen", None, None), ("zen", "outp", 1, 1.24)]),
        ("9", "YCSB-F, skew 0.99", {**zipf, "workload": "ycsb-f"}, [
            ("falcon", "inp", 3.14, 3.14), ("falcon", "falcon-all", 1.74, 1.75), ("falcon", "zen", None, None)]),
        ("11", "TPC-C", tpcc, [
            ("inp", "inp-none", None, None), ("inp-hot", "inp", None, None), ("inp-window", "inp-hot", None, None)]),
        ("11", "YCSB-A, uniform", uniform, [
            ("inp", "inp-none", None, None), ("inp-window", "inp", None, None)]),
        ("11", "YCSB-A, skew 0.99", zipf, [("falcon", "inp-hot", 2.44, 2.44), ("inp-hot", "inp", None, None)]),
    ]
    rows += [("7", f"TPC-C, {method.upper()}", {**tpcc, "cc": method}, [
        ("falcon", "inp", 1.125, 1.142), ("falcon", "zen", 1.21, 1.35), ("zen", "zen-none", 1.06, 1.10),
        ("zen", "outp", 1.23, 1.39)]) for method in OTHER_METHODS]
    claims = [Claim(f"Falcon {figure}", setting, options, better, worse, low, high)
              for figure, setting, options, pairs in rows for better, worse, low, high in pairs]
    claims += [Claim("Falcon 8", "TPC-C", tpcc, *pair, column=P50) for pair in (
        ("falcon", "inp", 1.15, 1.23), ("falcon-all", "inp", 1.13, 1.22), ("zen", "outp", 1.35, 2.30),
        ("zen", "zen-none", 1.097, 1.105))]
    claims += [Claim("Falcon 7", setting, {**tpcc, "cc": method, "cpu-cache": 1048576}, "falcon", "zen", 1.21, 1.35)
               for method, setting in ALL_CACHED.items()]
    claims += [Claim("Falcon 7", f"TPC-C, {method.upper()} beside OCC", {**tpcc, "cc": method},
                     f"{engine}+cc={method}", f"{engine}+cc=occ", alike=True)
               for engine in ("falcon", "zen") for method in OTHER_METHODS]
    return claims + [
        Claim("Falcon 7", "TPC-C, MVCC beside TO", tpcc, "zen+cc=to", "zen+cc=mvcc", 1.11, 1.11),
        Claim("Falcon 7", "TPC-C", tpcc, "falcon", "falcon-none", alike=True),
        Claim("Falcon 7", UNITS_OF_LINES, {**tpcc, "unit": 64}, "falcon", "falcon-none", alike=True),
        Claim("Falcon 7", "TPC-C", tpcc, "falcon", "falcon-all", alike=True),
        Claim("Falcon 11", "YCSB-A, uniform", uniform, "inp", "inp-hot", alike=True),
        Claim("Falcon 11", "YCSB-A, uniform", uniform, "inp-window", "falcon", alike=True)]


def dbxn_figures():
    tpcc, bank = {**TPCC, "cache": 0.25}, {**BANK, "cache": 0.25}
    epochs = [f"dbx-nvm+group={n}" for n in (4, 16, 64, 256)]
    claims = [Claim("DBXN 3", "TPC-C, transactions of an epoch", tpcc, shorter, longer, column=P50)
              for shorter, longer in zip(epochs, epochs[1:])]
    claims += [Claim("DBXN 3", "TPC-C, transactions of an epoch", tpcc, longer, shorter, column=FENCES)
               for shorter, longer in zip(epochs, epochs[1:])]
    for figure, load, options, naive, group in (("DBXN 9", "TPC-C", tpcc, (1.9, 1.9), (2720, 2720)),
                                                ("DBXN 10", "Smallbank", bank, (1.2, 3), (40000, 50000))):
        claims += [
            Claim(figure, load, options, "dbxn", "dbx-naive", *naive, column=REGION),
            Claim(figure, load, options, "dbxn", "dbx-naive"),
            Claim(figure, load, options, "dbx-dram", "dbxn"),
            Claim(figure, load, options, "dbxn", "dbx-nvm", *group, column=P99)]
    return claims + [
        Claim("DBXN 9", "TPC-C", tpcc, "dbxn", "dbx-nvm", 2.1, 2.1),
        Claim("DBXN 10", "TPC-C", tpcc, "dbxn-nvm", "pisces", 1.65, 3.41),
        Claim("DBXN 10", "TPC-C", tpcc, "dbxn", "dbxn-nvm", 1.10, 1.19),
        Claim("DBXN 11", "TPC-C", tpcc, "dbxn-store", "dbx-naive", 1.35, 1.35, column=REGION),
        Claim("DBXN 11", "TPC-C", tpcc, "dbxn-64", "dbxn-store", 1.1, 1.1),
        Claim("DBXN 11", "TPC-C, flushes", tpcc, "dbxn-64", "dbxn-store", 1.1, 1.1, column=LINES),
        Claim("DBXN 11", "TPC-C", tpcc, "dbxn-stream", "dbxn-64", 1.07, 1.07),
        Claim("DBXN 11", "TPC-C", tpcc, "dbxn", "dbxn-stream", 1.05, 1.05),
        Claim("DBXN 11", "TPC-C, rows in NVM", tpcc, "dbxn-nvm", "dbxn-nvm-64", 1.05, 1.05)]


def claims():
    return zen_figures() + falcon_figures() + dbxn_figures()


def arguments(options, design):
    """Those that count a design in a setting."""
    engine, *own = design.split("+")
    options = {**options, "mode": MODE.get(engine, "flush"), **dict(o.split("=") for o in own)}
    return ["--engines", engine] + [f"--{name}={value:g}" if isinstance(value, float) else f"--{name}={value}"
                                    for name, value in options.items()]


def key(options, engine):
    return " ".join(arguments(options, engine))


def count(program, pool):
    """{key: columns} of all designs in all settings that claims name."""
    counts = {}
    for claim in claims():
        for engine in (claim.better, claim.worse):
            command = arguments(claim.options, engine)
            if " ".join(command) in counts:
                continue
            run = subprocess.run([program, *command, "--pool", pool], capture_output=True, text=True, check=False)
            if run.returncode != 0:
                raise RuntimeError(f"{' '.join(command)}\n{run.stderr}")
            counts[" ".join(command)] = next(csv.DictReader(run.stdout.splitlines()))
    return counts


def cells(claim, counts):
    """A line of a table: who is ahead of whom, by the paper and here."""
    ratio = claim.ratio(counts)
    ours = "nothing to divide by" if ratio is None else f"{ratio:.2f}"
    differs = "" if claim.holds(counts) else reason(claim, counts)
    return [claim.setting, f"{claim.worse} / {claim.better}", claim.by(), claim.paper(), ours, differs]


def tables(counts):
    """{figure: lines}."""
    found = {}
    for claim in claims():
        found.setdefault(claim.figure, []).append(cells(claim, counts))
    return found


def read(path):
    with open(path, newline="", encoding="utf-8") as file:
        return {line["command"]: line for line in csv.DictReader(file)}


def write(path, counts):
    """Counts only: what depends on the machine is left out."""
    timed = ("txn_per_s", "seconds", "cpu_us_per_txn", "recovery_s", "checked", "latency_p50_us", "latency_p99_us",
             "htm_commits_per_txn", "htm_aborts_per_txn", "fallbacks_per_txn")
    columns = ["command"] + [c for c in next(iter(counts.values())) if c not in timed]
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore", lineterminator="\n")
        writer.writeheader()
        for command, line in counts.items():
            writer.writerow({**line, "command": command})
