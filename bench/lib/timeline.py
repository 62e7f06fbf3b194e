#!/usr/bin/python3
"""timeline.py -- the tables and the plot of bench/long_update.

  timeline.py CSV        prints them in Markdown
  timeline.py CSV PNG    draws the plot, with matplotlib; without it a plot that is there stays

Lines of the CSV: kind,begin,end,value; times are seconds since the writers began.

  writers   a second or so: its transactions per second
  try       of the long transaction: lost or committed
  stage     an exclusive stage: its reason and outcome
"""
import csv
import statistics
import sys
import textwrap

try:
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
except ImportError:
    plt = None

LINE, LONG, STAGE = "#1b7837", "#91bfdb", "#fdae61"


def read(path):
    """{kind: [begin, end, value]}"""
    found = {"writers": [], "try": [], "stage": []}
    with open(path, newline="") as file:
        for line in csv.DictReader(file):
            found[line["kind"]].append((float(line["begin"]), float(line["end"]), line["value"]))
    return found


def phase(begin, end, line):
    """Of a second of the writers: before and after have nothing of the long transaction in them."""
    started, committed = line["try"][0][0], line["try"][-1][1]
    if end <= started:
        return "before it"
    if begin >= committed:
        return "after it"
    if any(s[0] <= begin and end <= s[1] for s in line["stage"]):
        return "in the stage"
    return "meanwhile"


def meanwhile(begin, end, line):
    """What has happened in a second."""
    found = []
    lost = sum(begin < t[1] <= end for t in line["try"][:-1])
    if begin < line["try"][0][0] <= end:
        found.append("the long transaction begins")
    if lost:
        found.append(f"{lost} tries lost" if lost > 1 else "a try lost")
    for stage in line["stage"]:
        if begin < stage[0] <= end:
            found.append(f"a stage begins ({stage[2].split(',')[0]})")
        if begin < stage[1] <= end:
            found.append("the stage ends")
    if begin < line["try"][-1][1] <= end:
        found.append("committed")
    return ", ".join(found)


def markdown(heading, rows):
    return ["| " + " | ".join(heading) + " |", "|" + "---|" * len(heading)] + ["| " + " | ".join(r) + " |" for r
                                                                               in rows]


def tables(line):
    tries = line["try"]
    lost = tries[:-1]
    took = tries[-1][1] - tries[0][0]
    said = f"* The long transaction committed with try {len(tries)}, {took:.1f} s after its begin."
    if lost:
        said += f" The tries lost took {sum(t[1] - t[0] for t in lost):.1f} s."
    text = textwrap.wrap(said, 100, subsequent_indent="  ")
    text += [f"* Exclusive stage: {s[2]}, {s[1] - s[0]:.2f} s." for s in line["stage"]] or ["* No exclusive stage."]
    phases = {}
    for begin, end, tps in line["writers"]:
        phases.setdefault(phase(begin, end, line), []).append(float(tps))
    text += ["", *markdown(["writers", "seconds", "transactions per second", "least", "most"], [
        [p, str(len(phases[p])), *(f"{v:,.0f}" for v in (statistics.median(phases[p]), min(phases[p]), max(phases[p])))]
        for p in ("before it", "meanwhile", "in the stage", "after it") if p in phases])]
    return text + ["", *markdown(["second", "transactions per second", ""], [
        [f"{end:.1f}", f"{float(tps):,.0f}", meanwhile(begin, end, line)] for begin, end, tps in line["writers"]])]


def plot(line, path):
    figure, axes = plt.subplots(figsize=(8, 3.6))
    tries = line["try"]
    axes.axvspan(tries[0][0], tries[-1][1], color=LONG, alpha=0.4, linewidth=0, label="long transaction")
    for i, (begin, end, what) in enumerate(line["stage"]):
        axes.axvspan(begin, end, color=STAGE, alpha=0.6, linewidth=0, label="" if i else f"exclusive stage ({what})")
    for i, lost in enumerate(tries[:-1]):
        axes.axvline(lost[1], color="black", linewidth=0.5, label="" if i else "a try lost")
    axes.step([w[0] for w in line["writers"]] + [line["writers"][-1][1]],
              [float(w[2]) for w in line["writers"]] + [float(line["writers"][-1][2])], where="post", color=LINE,
              label="writers")
    axes.set_xlabel("seconds", fontsize=8)
    axes.set_ylabel("transactions/s", fontsize=8)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, ncol=4, loc="lower center", bbox_to_anchor=(0.5, 1))
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    line = read(sys.argv[1])
    if len(sys.argv) == 2:
        print("\n".join(tables(line)))
    elif plt:
        plot(line, sys.argv[2])


main()
