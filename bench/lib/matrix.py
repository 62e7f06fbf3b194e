#!/usr/bin/python3
"""matrix.py -- the table and the plot of bench/matrix.

  matrix.py DIR    reads DIR/matrix.csv and DIR/matrix-machine; writes DIR/matrix.md and, with matplotlib, a plot of
                   each state, DIR/matrix-*.png

bench/report has the same table in its report. In each round the peers have their turns one after the other, so a
machine that becomes slow or fast meanwhile is so for all of them. A ratio is a peer's processor time divided by heap's
of the same round, and the table has the median of the rounds, with the least and the greatest behind it.
"""
import csv
import os
import statistics
import sys

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    plt = None

PEERS = ("zen", "zen-tree")
COLOURS = {"zen": "#1b7837", "zen-tree": "#b2abd2"}
STATES = {"loaded": "rows as loaded", "updated": "rows updated at random", "beyond": "four times the Met-Cache"}


class Operation:
    """Processor times of an operation, in ms, by peer and round."""

    def __init__(self, name, group):
        self.name = name
        self.group = group
        self.times = {}

    def ratios(self, peer):
        """Divided by heap's, of each round that both have, in order of size."""
        base = self.times.get("heap", {})
        return sorted(time / base[n] for n, time in self.times.get(peer, {}).items() if base.get(n))

    def ratio(self, peer):
        """The median; None if there is no round."""
        ratios = self.ratios(peer)
        return statistics.median(ratios) if ratios else None

    def worst(self):
        return max((r for r in map(self.ratio, PEERS) if r is not None), default=0)


def read(path):
    """{(state, sessions, rows): operations, the worst first}; the last line of the same round counts."""
    kinds = {}
    if not os.path.exists(path):
        return {}
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            kind = (line["state"], int(line["sessions"]), int(line["rows"]))
            operations = kinds.setdefault(kind, {})
            operation = operations.setdefault(line["operation"], Operation(line["operation"], line["group"]))
            operation.times.setdefault(line["peer"], {})[line["round"]] = float(line["cpu_ms"])
    return {kind: sorted(operations.values(), key=lambda o: (-o.worst(), o.name))
            for kind, operations in sorted(kinds.items())}


def title(kind):
    state, sessions, rows = kind
    return f"{STATES.get(state, state)}, {sessions} session{'s' if sessions > 1 else ''}, {rows:,} rows"


def number(value):
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def cell(value):
    return "" if value is None else f"{value:.2f}"


def span(ratios):
    return f"{ratios[0]:.2f} to {ratios[-1]:.2f}" if ratios else ""


def table(operations):
    """Heading and rows."""
    heading = (["operation", "group"] + [f"{p} / heap" for p in PEERS] + [f"rounds, {p} / heap" for p in PEERS] +
               [f"{p}, ms" for p in ("heap", *PEERS)])
    rows = []
    for o in operations:
        times = [number(statistics.median(t.values())) if t else "" for t in (o.times.get(p) for p in ("heap", *PEERS))]
        rows.append([o.name, o.group] + [cell(o.ratio(p)) for p in PEERS] + [span(o.ratios(p)) for p in PEERS] + times)
    return heading, rows


def in_short(operations):
    """How many operations take more than heap, and the median ratio, by peer."""
    parts = []
    for peer in PEERS:
        ratios = [r for r in (o.ratio(peer) for o in operations) if r is not None]
        if ratios:
            parts.append(f"{peer}: median {statistics.median(ratios):.2f}, {sum(r > 1.05 for r in ratios)} of "
                         f"{len(ratios)} operations above 1.05")
    return "; ".join(parts)


def plot(operations, text, path):
    """A point for each operation and peer, the worst on top."""
    figure, axes = plt.subplots(figsize=(8, 1.2 + 0.16 * len(operations)))
    for peer in PEERS:
        points = [(o.ratio(peer), y) for y, o in enumerate(operations) if o.ratio(peer)]
        axes.scatter([p[0] for p in points], [p[1] for p in points], s=14, color=COLOURS[peer], label=peer)
    axes.axvline(1, color="black", linewidth=0.6)
    axes.set_xscale("log", base=2)
    axes.set_yticks(range(len(operations)))
    axes.set_yticklabels([o.name for o in operations], fontsize=6)
    axes.set_ylim(len(operations), -1)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_xlabel("CPU, heap = 1")
    axes.set_title(text, fontsize=8)
    axes.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def plot_name(kind):
    return f"matrix-{kind[0]}-{kind[1]}-{kind[2]}.png"


def plots(kinds, out):
    """{kind: file} of the plots, made anew with matplotlib; without it those that are there."""
    there = {}
    for kind, operations in kinds.items():
        path = os.path.join(out, plot_name(kind))
        if plt and any(o.worst() for o in operations):
            plot(operations, title(kind), path)
        if os.path.exists(path):
            there[kind] = plot_name(kind)
    return there


def main():
    out = sys.argv[1]
    kinds = read(os.path.join(out, "matrix.csv"))
    pictures = plots(kinds, out)
    with open(os.path.join(out, "matrix-machine")) as file:
        machine = file.read().strip()
    with open(os.path.join(out, "matrix.md"), "w") as file:
        print("# Operations, one by one", "", f"{machine}.", "",
              "Processor time of an operation, divided by heap's of the same round: the median of the rounds, the "
              "least and the greatest; the times are medians.", sep="\n", file=file)
        for kind, operations in kinds.items():
            heading, rows = table(operations)
            print("", f"## {title(kind)}", "", f"{in_short(operations)}.", "", sep="\n", file=file)
            for row in [heading, ["---"] * len(heading)] + rows:
                print("| " + " | ".join(row) + " |", file=file)
            if kind in pictures:
                print("", f"![{title(kind)}]({pictures[kind]})", sep="\n", file=file)


if __name__ == "__main__":
    main()
