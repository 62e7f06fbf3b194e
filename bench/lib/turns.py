#!/usr/bin/python3
"""turns.py -- several loads at the same time, each on a server of its own, in turns so short that all see one machine.

  turns.py TURN_MS DIR --load NAME POSTMASTER COMMAND... [--load NAME POSTMASTER COMMAND...]...

NAME's COMMAND makes the load of the server whose postmaster has the PID POSTMASTER. Its output goes to DIR/NAME.out,
and the turns that it had, as lines "BEGIN END" in microseconds since 1970, to DIR/NAME.turns. It calls gate (gate.sh)
twice: when all is ready, and when the load has ended. Up to the first gate and after the second each command runs
alone. Between them the loads have turns of TURN_MS: one load and its server run, all processes of the others are
stopped by SIGSTOP. Each cycle has another order, because a load finds in the caches what the load before it has left.
The orders are drawn at random, but are the same in every run.

Commands are sessions of their own, so that all processes of one can be stopped at once, and no Ctrl-C ends them:
turns.py does, when it is ended or one of them fails, with status 1 and its output. When turns.py ends, however it
does, the servers run.

A stopped server's timers go on: what wakes up every 200 ms does so once in each turn instead. The order of signals
makes a turn in the file at most some tens of microseconds longer than what the load had of it.
"""
import os
import random
import select
import signal
import socket
import subprocess
import sys
import time


class Failed(Exception):
    """A load has ended before its time, or not well."""


def now_us():
    return time.time_ns() // 1000


def send(pids, number):
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            pass  # it has just ended


def stat(pid):
    """State and parent of a process, None if it is gone."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(") ")[2].split()[:2]
    except (FileNotFoundError, ProcessLookupError):
        return None


def children_of(pid):
    """The children of a process with one thread."""
    try:
        with open(f"/proc/{pid}/task/{pid}/children") as file:
            return {int(child) for child in file.read().split()}
    except (FileNotFoundError, ProcessLookupError):  # not every kernel has the file
        return {int(p) for p in os.listdir("/proc") if p.isdigit() and (stat(p) or "")[1:] == [str(pid)]}


class Server:
    """The processes of a PostgreSQL server: the postmaster and its children, each of which is a session of its own."""

    def __init__(self, postmaster):
        self.postmaster = postmaster
        self.children = children_of(postmaster)

    def signal(self, number):
        send([self.postmaster, *self.children], number)

    def stop_newborn(self):
        """After SIGSTOP to those that were known: returns when the postmaster has stopped and nobody else is found, so
        that no other can be born."""
        while True:
            state = stat(self.postmaster)
            children = children_of(self.postmaster)
            newborn = children - self.children
            send(newborn, signal.SIGSTOP)
            self.children = children
            if not newborn and (state is None or state[0] in "TtZX"):
                return
            os.sched_yield()


class Load:
    def __init__(self, directory, name, postmaster, *command):
        self.server = Server(int(postmaster))
        self.command = command
        self.output = os.path.join(directory, name + ".out")
        self.turns_file = os.path.join(directory, name + ".turns")
        self.turns = []
        self.process = None

    def start(self):
        self.line, theirs = socket.socketpair()
        with open(self.output, "w") as output, theirs:
            self.process = subprocess.Popen(self.command, stdin=theirs, stdout=output, stderr=subprocess.STDOUT,
                                            start_new_session=True,
                                            env=dict(os.environ, BENCH_TURNS=self.turns_file))

    def at_gate(self, timeout_s):
        """Has the command come to its next gate, within this time (None: any)?"""
        if not select.select([self.line], [], [], timeout_s)[0]:
            return False
        try:
            said = self.line.recv(100)
        except ConnectionResetError:
            said = b""
        if not said:  # the command has hung up: it is gone
            raise Failed(self)
        return True

    def go_on(self):
        self.line.send(b"\n")

    def resume(self):
        self.server.signal(signal.SIGCONT)
        if self.process:
            os.killpg(self.process.pid, signal.SIGCONT)

    def stop(self):
        """Returns the time from which on nothing is done any more."""
        self.server.signal(signal.SIGSTOP)
        if self.process:
            os.killpg(self.process.pid, signal.SIGSTOP)
        end = now_us()
        self.server.stop_newborn()
        return end

    def prepare(self):
        """Up to the first gate."""
        self.server.signal(signal.SIGCONT)
        self.start()
        self.at_gate(None)
        self.stop()

    def turn(self, turn_s):
        """Returns whether the load goes on after it."""
        begin = now_us()
        self.resume()
        if not self.turns:
            self.go_on()
        ended = self.at_gate(turn_s)
        self.turns.append((begin, self.stop()))
        return not ended

    def finish(self):
        """From the second gate to the end."""
        with open(self.turns_file, "w") as file:
            file.writelines(f"{begin} {end}\n" for begin, end in self.turns)
        self.resume()
        self.go_on()
        if self.process.wait() != 0:
            raise Failed(self)
        self.process = None
        self.stop()

    def end(self):
        """Whatever it was doing, its command is gone then, and the server runs."""
        if self.process and self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGTERM)
            os.killpg(self.process.pid, signal.SIGCONT)
            try:
                self.process.wait(5)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.server.signal(signal.SIGCONT)


def take_turns(loads, turn_s):
    draw = random.Random(0)
    while loads:
        order = draw.sample(loads, len(loads))
        loads = [load for load in order if load.turn(turn_s)]


def run(loads, turn_s):
    for load in loads:
        load.stop()
    for load in loads:
        load.prepare()
    take_turns(loads, turn_s)
    for load in loads:
        load.finish()


def parse(words):
    """[[NAME, POSTMASTER, COMMAND...], ...]"""
    groups = []
    for word in words:
        if word == "--load":
            groups.append([])
        else:
            groups[-1].append(word)
    return groups


def ended_by(number, _):
    sys.exit(128 + number)


def main():
    if len(sys.argv) < 7 or sys.argv[3] != "--load":
        sys.exit(__doc__)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, ended_by)
    loads = [Load(sys.argv[2], *group) for group in parse(sys.argv[3:])]
    try:
        run(loads, int(sys.argv[1]) / 1000)
    except Failed as failed:
        with open(failed.args[0].output) as output:
            sys.exit(output.read() or f"{failed.args[0].output} is empty")
    finally:
        for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        for load in loads:
            load.end()


main()
