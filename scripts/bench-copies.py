#!/usr/bin/env python3
"""Measures what copies of the metadata cost and how long programs wait for a take-over: a metadata server without copies and one with two, in
turns, all on this machine over loopback. Prints medians with their spread, and the ratios of figures of one turn. Leaves nothing behind.

    scripts/bench-copies.py PATH-OF-THE-BINARY [PART ...]

    create   create and close of empty files by one process, and by four
    unpack   a tree of 9,188 small files
    fsync    append of 4 KiB and fsync
    pause    the longest create when the owner is killed, hangs, is moved, is stopped in order, and when a copy is killed
    join     a new copy of FILES files: how long until it counts, and what programs create meanwhile beside before

Without a part: all. TURNS (3), CALLS (2000), FILES (100000): environment variables. Needs etcd. TMPDIR: where the stores lie.
"""
import json
import os
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

PARTS = ["create", "unpack", "fsync", "pause", "join"]
TURNS = int(os.environ.get("TURNS", 3))
CALLS = int(os.environ.get("CALLS", 2000))
FILES = int(os.environ.get("FILES", 100000))
UNPACKED = 9188


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


class Cluster:
    """Metadata servers (one, or three with etcd), an object server, and a mount."""

    def __init__(self, gupfs, copies):
        self.gupfs, self.copies = gupfs, copies
        self.dir = tempfile.mkdtemp(prefix="gupfs-copies-")
        self.processes, self.etcd = {}, []
        if copies:
            self.start_etcd()
        self.address = {}
        servers = range(3 if copies else 1)
        for server in servers:
            self.address[server] = f"127.0.0.1:{free_port()}"
            self.start_mds(server)
        self.key = f"{self.dir}/m0/cluster.key"
        if copies:
            self.wait_counting(3)
        self.run("ost", "add", f"{self.dir}/osts/disk", "--mds", self.mds(), "--key", self.key, make=f"{self.dir}/osts")
        self.start("oss", "oss", f"{self.dir}/osts", "--mds", self.mds(), "--key", self.key, "--listen", f"127.0.0.1:{free_port()}")
        self.mount = f"{self.dir}/mnt"
        os.mkdir(self.mount)
        self.start("mount", "mount", self.mds(), self.mount, "--key", self.key)

    def start_etcd(self):
        client, peer = (f"http://127.0.0.1:{free_port()}" for _ in range(2))
        with open(f"{self.dir}/etcd.log", "w") as log:
            self.processes["etcd"] = subprocess.Popen(
                ["etcd", "--name", "m", "--data-dir", f"{self.dir}/etcd", "--listen-client-urls", client, "--advertise-client-urls", client,
                 "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer, "--initial-cluster", f"m={peer}"], stdout=log, stderr=log)
        self.etcd = ["--etcd", client]
        time.sleep(1.5)

    def mds(self):
        return ",".join(self.address.values())

    def start_mds(self, server):
        more = list(self.etcd)
        if server > 0:
            more += ["--join", self.address[0], "--key", f"{self.dir}/m0/cluster.key"]
        self.start(f"m{server}", "mds", f"{self.dir}/m{server}", "--listen", self.address[server], *more)

    def start(self, name, *args):
        log = open(f"{self.dir}/{name}.log", "a+")
        log.seek(0, os.SEEK_END)
        begin = log.tell()
        process = subprocess.Popen([self.gupfs, *args], stdout=log, stderr=log)
        self.processes[name] = process
        while True:
            log.seek(begin)
            text = log.read()
            if "ready in" in text:
                return
            if process.poll() is not None:
                sys.exit(f"{name}: {text}")
            time.sleep(0.02)

    def run(self, *args, make=None):
        if make:
            os.makedirs(make)
        return subprocess.run([self.gupfs, *args], check=True, capture_output=True, text=True).stdout

    def list(self):
        try:
            return json.loads(self.run("mds", "list", "--mds", self.mds(), "--key", self.key, "--json"))
        except subprocess.CalledProcessError:
            return {"copies": [], "is_held": False}

    def wait_counting(self, count):
        begun = time.monotonic()
        while True:
            listed = self.list()
            if listed["is_held"] and sum(copy["standing"] == "counting" for copy in listed["copies"]) == count:
                return time.monotonic() - begun
            time.sleep(0.05)

    def owner(self):
        while True:
            for copy in self.list()["copies"]:
                if copy["is_owner"]:
                    return next(s for s, address in self.address.items() if address == copy["address"])
            time.sleep(0.05)

    def end(self, name, how=signal.SIGTERM):
        process = self.processes.pop(name)
        process.send_signal(how)
        process.wait()

    def stop(self):
        for name in ["mount", "oss", *[f"m{server}" for server in self.address], "etcd"]:
            if name in self.processes:
                self.end(name)
        shutil.rmtree(self.dir)


def show(what, figures, unit=""):
    figures = sorted(figures)
    print(f"  {what:52} {statistics.median(figures):9.2f} {unit:4} ({figures[0]:.2f} – {figures[-1]:.2f})", flush=True)


def in_turns(gupfs, what, unit, measure):
    """Measures both clusters in turns; prints the ratio of each turn."""
    alone, copied, ratios = [], [], []
    for _ in range(TURNS):
        pair = []
        for copies in (False, True):
            cluster = Cluster(gupfs, copies)
            pair.append(measure(cluster))
            cluster.stop()
        alone.append(pair[0])
        copied.append(pair[1])
        ratios.append(pair[1] / pair[0])
    show(f"{what}, without copies", alone, unit)
    show(f"{what}, with two copies", copied, unit)
    show(f"{what}: with ÷ without", ratios)


def creates(directory, count):
    os.makedirs(directory)
    for number in range(count):
        os.close(os.open(f"{directory}/f{number}", os.O_CREAT | os.O_WRONLY))


def created_a_second(processes):
    def measure(cluster):
        creates(f"{cluster.mount}/warm", 200)
        begun = time.monotonic()
        children = []
        for number in range(processes):
            child = os.fork()
            if child == 0:
                creates(f"{cluster.mount}/d{number}", CALLS // processes)
                os._exit(0)
            children.append(child)
        for child in children:
            os.waitpid(child, 0)
        return CALLS / (time.monotonic() - begun)

    return measure


def unpacked(cluster):
    begun = time.monotonic()
    for number in range(UNPACKED):
        directory = f"{cluster.mount}/t/{number // 40}"
        if number % 40 == 0:
            os.makedirs(directory)
        with open(f"{directory}/f{number}", "wb") as file:
            file.write(b"x" * (number * 37 % 9000))
    os.sync()
    return time.monotonic() - begun


def append_and_fsync(cluster):
    times = []
    with open(f"{cluster.mount}/log", "ab", buffering=0) as log:
        for _ in range(300):
            begun = time.monotonic()
            log.write(b"x" * 4096)
            os.fsync(log.fileno())
            times.append(time.monotonic() - begun)
    return statistics.median(times) * 1000


def longest_create(cluster, directory, seconds, happens):
    """Creates files while something happens; the longest time that one took."""
    os.makedirs(directory)
    longest, number, done = 0, 0, False
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        if not done and time.monotonic() - begun > 1:
            child = os.fork()
            if child == 0:
                happens()
                os._exit(0)
            done = True
        before = time.monotonic()
        os.close(os.open(f"{directory}/f{number}", os.O_CREAT | os.O_WRONLY))
        longest = max(longest, time.monotonic() - before)
        number += 1
    os.waitpid(child, 0)
    return longest


def pauses(gupfs):
    figures = {}
    for turn in range(TURNS):
        cluster = Cluster(gupfs, True)

        # A forked child cannot use Popen: the processes are not its children.
        def send(name, which):
            os.kill(cluster.processes[name].pid, which)

        def measure(what, happens, restart=None, seconds=10):
            took = longest_create(cluster, f"{cluster.mount}/{what.replace(' ', '-')}", seconds, happens)
            figures.setdefault(what, []).append(took)
            if restart is not None:
                cluster.processes.pop(f"m{restart}").wait()
                cluster.start_mds(restart)
            cluster.wait_counting(3)

        owner = cluster.owner()
        measure("owner killed", lambda: send(f"m{owner}", signal.SIGKILL), owner)
        owner = cluster.owner()

        def hang():
            send(f"m{owner}", signal.SIGSTOP)
            time.sleep(8)
            send(f"m{owner}", signal.SIGCONT)

        measure("owner hangs for 8 s", hang)
        owner = cluster.owner()
        to = cluster.address[(owner + 1) % 3]
        measure("moved", lambda: cluster.run("mds", "move", to, "--mds", cluster.mds(), "--key", cluster.key))
        owner = cluster.owner()
        measure("owner stopped in order", lambda: send(f"m{owner}", signal.SIGTERM), owner)
        copy = (cluster.owner() + 1) % 3
        measure("copy killed", lambda: send(f"m{copy}", signal.SIGKILL), copy)
        cluster.stop()
    for what, times in figures.items():
        show(f"longest create: {what}", times, "s")


def joins(gupfs):
    cluster = Cluster(gupfs, True)
    for number in range(FILES // 1000):
        creates(f"{cluster.mount}/m{number}", 1000)
    lost = (cluster.owner() + 1) % 3
    cluster.end(f"m{lost}", signal.SIGKILL)
    cluster.wait_counting(2)
    for part in ("log", "index"):
        shutil.rmtree(f"{cluster.dir}/m{lost}/mds/{part}")
        os.mkdir(f"{cluster.dir}/m{lost}/mds/{part}")

    def rate(directory, until):
        os.makedirs(directory)
        begun, number = time.monotonic(), 0
        while not until(time.monotonic() - begun):
            os.close(os.open(f"{directory}/f{number}", os.O_CREAT | os.O_WRONLY))
            number += 1
        return number / (time.monotonic() - begun)

    before = rate(f"{cluster.mount}/before", lambda passed: passed > 3)
    cluster.start_mds(lost)
    begun = time.monotonic()
    waiting = os.fork()
    if waiting == 0:
        cluster.wait_counting(3)
        os._exit(0)
    meanwhile = rate(f"{cluster.mount}/meanwhile", lambda _: os.waitpid(waiting, os.WNOHANG)[0] == waiting)
    show(f"a new copy of {FILES} files counts after", [time.monotonic() - begun], "s")
    show("creates meanwhile ÷ before", [meanwhile / before])
    cluster.stop()


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    gupfs, parts = os.path.realpath(sys.argv[1]), sys.argv[2:] or PARTS
    for part in parts:
        if part not in PARTS:
            sys.exit(f"bench-copies.py: '{part}' is not one of {' '.join(PARTS)}")
    model = next(line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name"))
    commit = subprocess.run(["git", "-C", os.path.dirname(os.path.realpath(__file__)), "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    print(f"{os.cpu_count()} × {model}, Linux {os.uname().release}, {time.strftime('%F')}, commit {commit or 'unknown'}; {TURNS} turns: the median (least – most)")
    for part in parts:
        print(part)
        if part == "create":
            in_turns(gupfs, "creates and closes a second, one process", "/s", created_a_second(1))
            in_turns(gupfs, "creates and closes a second, four processes", "/s", created_a_second(4))
        elif part == "unpack":
            in_turns(gupfs, f"{UNPACKED} small files and sync", "s", unpacked)
        elif part == "fsync":
            in_turns(gupfs, "append of 4 KiB and fsync", "ms", append_and_fsync)
        elif part == "pause":
            pauses(gupfs)
        elif part == "join":
            joins(gupfs)


main()
