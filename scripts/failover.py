#!/usr/bin/env python3
"""Parts of scripts/demo-failover.sh and scripts/bench-mirrors.sh: programs that work on a mount and verify what they read, and bits that
are flipped on a disk.

    failover.py load DIR OTHERS TREE LOG    works in DIR until SIGTERM; then writes DIR.sums, the checksums of its files, and DIR.names, all names
    failover.py longest FROM TO LOG...      the longest call, and the number of calls, of each kind, between two moments
    failover.py works_since MOMENT LOG...   ends when each program has finished a call after that moment
    failover.py flip COUNT SEED DIR...      flips one bit in each of COUNT blocks of object files below directories; takes inode numbers from stdin
    failover.py latency KIND FILE CALLS     the median of the time of a call: write or append (with fsync) of 4 KiB, or a read past the caches
    failover.py pause WRITTEN READ SECONDS  the longest write to one file and the longest read of another one
    failover.py writes FILE SECONDS         MB a second of writes of 1 MiB; "until PATH" instead of SECONDS: until a file exists
    failover.py ost_at HOST:PORT            the number of the target that a server serves, from a `gupfs status --json` on stdin
    failover.py status                      prints numbers of a `gupfs status --json` from stdin, for the shell
    failover.py copies                      prints numbers of a `gupfs mds list --json` from stdin, for the shell
    failover.py freeze PID PORT SECONDS COPIES  freezes a metadata server and wakes it, in its network; counts its connections, the bytes that it
                                            sends over them when it wakes, the connections that begin meanwhile, and those of them that are answered
"""

import hashlib
import json
import mmap
import os
import random
import signal
import socket
import stat
import statistics
import struct
import sys
import threading
import time

RECORD = 64 * 1024
RECORDS = 32  # of a file that is rewritten in place
FILES = 4  # of each of these kinds
NAMES = 40  # that are created, moved and removed
LARGE = 6 * 1024 * 1024
SLOW = 0.05  # calls that take longer are logged one by one
BLOCK = 4096  # what has one checksum on a disk


class Wrong(Exception):
    """The file system returned bytes that no program wrote there, or not the last ones."""


def content(name, number, version, size=RECORD):
    """Bytes from which `version` can be read back."""
    unit = version.to_bytes(8, "little") + hashlib.sha256(f"{name} {number} {version}".encode()).digest()[:24]
    return unit * (size // len(unit))


def version_of(name, number, data):
    if len(data) != RECORD:
        raise Wrong(f"{name}: record {number} has {len(data)} bytes")
    version = int.from_bytes(data[:8], "little")
    if data != content(name, number, version):
        raise Wrong(f"{name}: record {number} is not what any version of it was")
    return version


class Load:
    """One program: rewrites records, replaces files, writes large ones, and compares what it and others have written."""

    def __init__(self, own, others, tree, log):
        self.own, self.others = own, others
        self.log = open(log, "a", buffering=1)
        self.calls = 0
        self.next_count = 0.0
        self.dice = random.Random(own)
        self.versions = {}  # (path, number) -> the last version that was written or seen
        self.sums = {}  # path -> checksum of a whole file of our own
        self.names = {}  # path -> what it is: f, d or l, as find(1) calls it
        self.stopped = False
        self.tree = []
        with open(tree) as lines:
            for line in lines:
                digest, path = line.rstrip("\n").split("  ", 1)
                self.tree.append((digest, path))

    def call(self, what, function, *args):
        """Does one system call, and notes how long it took."""
        begun = time.time()
        result = function(*args)
        ended = time.time()
        self.calls += 1
        if ended - begun > SLOW:
            self.log.write(f"{ended:.3f} {ended - begun:.3f} {what}\n")
        if ended > self.next_count:
            self.count(ended)
        return result

    def count(self, now):
        self.log.write(f"{now:.3f} calls {self.calls}\n")
        self.calls = 0
        self.next_count = now + 0.5

    def read(self, path, size=1 << 30, offset=0):
        fd = self.call("open", os.open, path, os.O_RDONLY)
        pieces, left = [], size
        while left:
            piece = self.call("read", os.pread, fd, min(left, 1 << 20), offset)
            if not piece:
                break
            pieces.append(piece)
            offset += len(piece)
            left -= len(piece)
        self.call("close", os.close, fd)
        return b"".join(pieces)

    def write(self, path, data, offset=0, flags=0, sync=False):
        fd = self.call("open", os.open, path, os.O_WRONLY | flags, 0o644)
        at = 0
        while at < len(data):
            at += self.call("write", os.pwrite, fd, data[at : at + (1 << 20)], offset + at)
        if sync:
            self.call("fsync", os.fsync, fd)
        self.call("close", os.close, fd)

    def start(self):
        os.makedirs(f"{self.own}/names", exist_ok=True)
        self.names = dict(self.listed(f"{self.own}/names"))
        # A former program's files are still compared.
        if os.path.exists(self.own + ".sums"):
            with open(self.own + ".sums") as lines:
                self.sums = {path: digest for digest, path in (line.rstrip("\n").split("  ", 1) for line in lines)}
        for path in self.record_files(self.own):
            name = os.path.basename(path)
            self.write(path + ".new", b"".join(content(name, number, 0) for number in range(RECORDS)), flags=os.O_CREAT)
            os.rename(path + ".new", path)
        for other in self.others:
            while not os.path.exists(self.record_files(other)[-1]):
                time.sleep(0.1)

    def record_files(self, directory):
        return [f"{directory}/records-{number}" for number in range(FILES)]

    def check_record(self, path, number):
        """Another program's record is whole, and no older than the one that was seen before; our own is the last that was written."""
        data = self.read(path, RECORD, number * RECORD)
        version = version_of(os.path.basename(path), number, data)
        known = self.versions.get((path, number), 0)
        if version < known or (path.startswith(self.own + "/") and version != known):
            raise Wrong(f"{path}: record {number} has version {version}, after version {known}")
        self.versions[path, number] = version

    def rewrite(self):
        path, number = self.dice.choice(self.record_files(self.own)), self.dice.randrange(RECORDS)
        version = self.versions.get((path, number), 0) + 1
        data = content(os.path.basename(path), number, version)
        self.write(path, data, number * RECORD, sync=self.dice.random() < 0.2)
        self.versions[path, number] = version
        self.check_record(path, self.dice.randrange(RECORDS))

    def look_at_others(self):
        path = self.dice.choice(self.record_files(self.dice.choice(self.others)))
        self.check_record(path, self.dice.randrange(RECORDS))

    def write_whole(self, name, size, sync):
        """Writes a file, gives it the name of an older one, and reads it back."""
        path, number = f"{self.own}/{name}", self.dice.randrange(1 << 40)
        data = content(name, number, self.calls, size)
        self.write(path + ".new", data, flags=os.O_CREAT | os.O_EXCL, sync=sync)
        self.call("rename", os.rename, path + ".new", path)
        if self.read(path) != data:
            raise Wrong(f"{path} is not what was written")
        self.sums[path] = hashlib.sha256(data).hexdigest()

    def replace(self):
        name, size = f"whole-{self.dice.randrange(FILES)}", self.dice.randrange(1, 4) * RECORD
        self.write_whole(name, size, self.dice.random() < 0.5)

    def write_large(self):
        self.write_whole("large", LARGE, True)

    def listed(self, directory):
        """The names in a directory and what they are."""
        kinds = {stat.S_IFREG: "f", stat.S_IFDIR: "d", stat.S_IFLNK: "l"}
        for name in self.call("readdir", os.listdir, directory):
            path = f"{directory}/{name}"
            yield path, kinds[stat.S_IFMT(self.call("stat", os.lstat, path).st_mode)]

    def change_name(self):
        """Creates, moves or removes a name. Each call is executed once: done twice, it would fail, and skipped, the names would differ."""
        path, other = (f"{self.own}/names/{self.dice.randrange(NAMES)}" for _ in range(2))
        kind = self.names.get(path)
        if kind is None:
            kind = self.dice.choice("fdl")
            if kind == "f":
                os.close(self.call("create", os.open, path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644))
            elif kind == "d":
                self.call("mkdir", os.mkdir, path)
            else:
                self.call("symlink", os.symlink, "nowhere", path)
            self.names[path] = kind
        elif other not in self.names:
            self.call("rename", os.rename, path, other)
            self.names[other] = self.names.pop(path)
        else:
            self.call("remove", os.rmdir if kind == "d" else os.unlink, path)
            del self.names[path]

    def check_names(self):
        found = dict(self.listed(f"{self.own}/names"))
        if found != self.names:
            raise Wrong(f"{self.own}/names has {sorted(found.items())}, not {sorted(self.names.items())}")

    def look_at_tree(self):
        for digest, path in self.dice.sample(self.tree, 4):
            if hashlib.sha256(self.read(path)).hexdigest() != digest:
                raise Wrong(f"{path} is not what was copied")

    def run(self):
        work = [self.rewrite] * 8 + [self.look_at_others] * 4 + [self.replace] * 3 + [self.look_at_tree] * 4 + [self.change_name] * 8
        work += [self.check_names, self.write_large]
        while not self.stopped:
            self.dice.choice(work)()
            time.sleep(0.01)  # two cores also serve
        self.count(time.time())
        for path in self.record_files(self.own):
            for number in range(RECORDS):
                self.check_record(path, number)
            self.sums[path] = hashlib.sha256(self.read(path)).hexdigest()
        self.check_names()
        with open(self.own + ".sums", "w") as out:
            for path, digest in sorted(self.sums.items()):
                out.write(f"{digest}  {path}\n")
        own = os.path.dirname(self.own) + "/"
        names = {self.own: "d", f"{self.own}/names": "d", self.own + ".sums": "f", self.own + ".names": "f", **self.names}
        names.update((path, "f") for path in self.sums)
        with open(self.own + ".names", "w") as out:
            for path, kind in names.items():
                out.write(f"{kind} {path.removeprefix(own)}\n")


def load(own, others, tree, log):
    program = Load(own, others.split(), tree, log)

    def stop(*_):
        program.stopped = True

    signal.signal(signal.SIGTERM, stop)
    try:
        program.start()
        print("working", flush=True)
        program.run()
    except (Wrong, OSError) as error:
        sys.exit(f"{own}: {error}")


def longest(begin, end, *logs):
    begin, end = float(begin), float(end)
    calls, slowest = 0, {}
    for log in logs:
        for line in open(log):
            at, took, what = line.split()
            at = float(at)
            if took == "calls":
                calls += int(what) if begin <= at <= end else 0
            elif at >= begin and at - float(took) <= end:
                slowest[what] = max(slowest.get(what, 0.0), float(took))
    most = max(slowest.values(), default=0.0)
    kinds = ", ".join(f"{what} {took:.1f} s" for what, took in sorted(slowest.items(), key=lambda it: -it[1])[:4])
    print(f"{most:.2f} {calls} {kinds}")


def works_since(moment, *logs):
    """Programs write the number of their calls every half second. Calls that were under way at that moment have ended, and are in the logs."""
    left, end = set(logs), time.time() + 60
    while left:
        for log in list(left):
            with open(log) as lines:
                last = lines.readlines()[-1:]
            if last and float(last[0].split()[0]) > float(moment):
                left.discard(log)
        if time.time() > end:
            sys.exit(f"no call of these programs has ended for 60 s: {' '.join(sorted(left))}")
        time.sleep(0.1)


def flip(count, seed, *directories):
    wanted = {int(line) for line in sys.stdin}
    dice = random.Random(int(seed))
    blocks = []
    for folder, _, names in (step for directory in directories for step in os.walk(directory)):
        for name in names:
            path = os.path.join(folder, name)
            if int(name.split(".")[0], 16) in wanted:
                blocks += [(path, at) for at in range(0, os.path.getsize(path), BLOCK)]
    if len(blocks) < int(count):
        sys.exit(f"these directories have only {len(blocks)} blocks of these files")
    chosen = dice.sample(sorted(blocks), int(count))
    for path, at in chosen:
        fd = os.open(path, os.O_RDWR)
        where = at + dice.randrange(min(BLOCK, os.path.getsize(path) - at))
        byte = os.pread(fd, 1, where)[0]
        os.pwrite(fd, bytes([byte ^ (1 << dice.randrange(8))]), where)
        os.close(fd)
    print(len({path for path, _ in chosen}))


def latency(kind, path, calls):
    size = 16 * 1024 * 1024
    if kind == "read":
        size = os.path.getsize(path)
        fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
    else:
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | (os.O_APPEND if kind == "append" else 0), 0o644)
    if kind == "write":
        os.pwrite(fd, bytes(size), 0)
        os.fsync(fd)
    dice, data, page = random.Random(1), bytes(BLOCK), mmap.mmap(-1, BLOCK)
    took = []
    for _ in range(int(calls)):
        at = dice.randrange(size // BLOCK) * BLOCK
        begun = time.perf_counter_ns()
        if kind == "read":
            os.preadv(fd, [page], at)
        elif kind == "append":
            os.write(fd, data)
            os.fsync(fd)
        else:
            os.pwrite(fd, data, at)
        took.append(time.perf_counter_ns() - begun)
    os.close(fd)
    print(f"{statistics.median(took) / 1000:.1f}")


def pause(written, read, seconds):
    """Writes to one file and reads another one for so long; prints the longest write and the longest read, in seconds."""
    end = time.monotonic() + float(seconds)
    longest_call = [0.0, 0.0]

    def work(which, path, call):
        dice = random.Random(which)
        size = max(os.path.getsize(path), BLOCK)
        fd = os.open(path, os.O_RDWR if which == 0 else os.O_RDONLY | os.O_DIRECT)
        while time.monotonic() < end:
            at = dice.randrange(size // BLOCK) * BLOCK
            begun = time.monotonic()
            call(fd, at)
            longest_call[which] = max(longest_call[which], time.monotonic() - begun)
        os.close(fd)

    data, page = bytes(100_000), mmap.mmap(-1, BLOCK)
    writer = threading.Thread(target=work, args=(0, written, lambda fd, at: os.pwrite(fd, data, at)))
    reader = threading.Thread(target=work, args=(1, read, lambda fd, at: os.preadv(fd, [page], at)))
    for thread in (writer, reader):
        thread.start()
    for thread in (writer, reader):
        thread.join()
    print(f"{longest_call[0]:.3f} {longest_call[1]:.3f}")


def writes(path, how, until=None):
    """Writes 1 MiB after the other in place, for so many seconds or until a file exists; prints MB a second."""
    data, size = os.urandom(1 << 20), 64
    fd = os.open(path, os.O_WRONLY | os.O_CREAT, 0o644)
    begun, count = time.monotonic(), 0
    while not os.path.exists(until) if until else time.monotonic() - begun < float(how):
        os.pwrite(fd, data, (count % size) << 20)
        count += 1
    took = time.monotonic() - begun
    os.close(fd)
    print(f"{count * len(data) / 1e6 / took:.1f}")


def ost_at(address):
    targets = json.load(sys.stdin)["mds"]["targets"]
    print(*[target["ost"] for target in targets if target["address"] == address and target["is_up"]])


def status():
    mds = json.load(sys.stdin)["mds"]
    resync, replacement, scrub = mds["resync"], mds["replacement"], mds["scrub"]
    targets = [target for target in mds["targets"] if target.get("lost_since") is None and not target.get("is_removed")]
    numbers = {
        "up": sum(bool(target["is_up"]) for target in targets),
        "targets": len(targets),
        "left": resync["files_left"] + replacement["files_left"],
        "pending": int(resync["is_expected"] or replacement["is_expected"]),
        "resynced": resync["files_done"],
        "compared": resync["bytes_compared"],
        "copied": resync["bytes_copied"],
        "replaced": replacement["files_replaced"],
        "repaired": scrub["blocks_repaired"],
        "renewed": scrub["members_renewed"],
        "damaged": scrub["damaged"],
    }
    print(" ".join(f"{name}={number}" for name, number in numbers.items()))


def copies():
    listed = json.load(sys.stdin)
    of_all = listed["copies"]
    counting = [copy for copy in of_all if copy["standing"] == "counting"]
    # The owner compares; how far it is itself it does not say.
    numbers = {
        "owner_address": next((copy["address"] for copy in of_all if copy["is_owner"]), ""),
        "epoch": listed["owner_epoch"],
        "members": len(of_all),
        "counting": len(counting) if listed["is_held"] else 0,
        "behind": sum(copy["behind"] or 0 for copy in of_all),
        "unsynced": sum(copy["unsynced"] or 0 for copy in of_all),
        "etcd_answers": int(listed["arbiter_error"] is None),
    }
    print(" ".join(f"{name}={number}" for name, number in numbers.items()))


def connections(port):
    """The peers of a TCP port of this network, as (address, port)."""
    found = set()
    with open("/proc/self/net/tcp") as lines:
        for fields in map(str.split, list(lines)[1:]):
            (_, local), (peer, peer_port) = (field.split(":") for field in fields[1:3])
            if int(local, 16) == port and fields[3] in ("01", "08"):  # established, or closed by the peer alone
                found.add((socket.inet_ntoa(struct.pack("<I", int(peer, 16))), int(peer_port, 16)))
    return found


def sent_from(port, seconds):
    """Yields the peer and the size of what each TCP packet carries that this network sends from a port for so long."""
    packets = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))  # of all protocols: otherwise only what is received
    packets.settimeout(0.2)
    yield None  # it listens from now on
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            data, (_, protocol, kind, *_) = packets.recvfrom(1 << 16)
        except TimeoutError:
            continue
        if (protocol, kind) != (0x0800, socket.PACKET_OUTGOING) or data[9] != socket.IPPROTO_TCP:
            continue
        tcp = data[(data[0] & 15) * 4 :]
        source, target = struct.unpack("!HH", tcp[:4])
        size = int.from_bytes(data[2:4], "big") - (data[0] & 15) * 4 - (tcp[12] >> 4) * 4
        if source == port and size > 0:
            yield (socket.inet_ntoa(data[16:20]), target), size


def freeze(pid, port, seconds, copies):
    """Freezes a metadata server and wakes it. Over connections to clients and object servers that it has when it freezes it must send nothing
    more. Over those that began meanwhile it may send a challenge, the first message of the handshake. Other copies get answers in any case."""

    def to_others():
        return {peer for peer in connections(int(port)) if peer[0] not in copies.split(",")}

    os.kill(int(pid), signal.SIGSTOP)
    served = to_others()
    time.sleep(float(seconds))
    sent, messages = 0, {}
    packets = sent_from(int(port), 2.0)
    next(packets)
    begun = to_others() - served
    os.kill(int(pid), signal.SIGCONT)
    for peer, size in packets:
        if peer in served:
            sent += size
        elif peer in begun:
            messages[peer] = messages.get(peer, 0) + 1
    answered = sum(count > 1 for count in messages.values())
    print(f"{len(served)} {sent} {len(begun)} {answered}")


def main():
    commands = [load, longest, works_since, flip, latency, pause, writes, ost_at, status, copies, freeze]
    commands = {command.__name__: command for command in commands}
    if len(sys.argv) < 2 or sys.argv[1] not in commands:
        sys.exit(__doc__)
    commands[sys.argv[1]](*sys.argv[2:])


main()
