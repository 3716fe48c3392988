"""Measures the package beside a mount of the same cluster, on this host: four ratios, each the median of several turns that alternate.

    make bench-python
"""

import argparse
import multiprocessing
import os
import random
import statistics
import sys
import time

import fsspec
import gupfs

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "tests"))
import cluster as clusters  # noqa: E402

MIB = 1 << 20


def drop_caches() -> None:
    """The kernel's pages, and with them what mounts keep."""
    os.sync()
    try:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("3")
    except OSError:
        pass


def timed(work) -> float:
    begun = time.monotonic()
    work()
    return time.monotonic() - begun


def compare(name: str, wanted: float, turns: int, of, other, prepare=drop_caches) -> bool:
    """Prints how often `of` is done in the time that `other` takes once: times, ratio, spread of the ratio over the turns."""
    times = []
    for turn in range(turns + 1):
        pair = []
        for work in (of, other) if turn % 2 else (other, of):
            prepare()
            pair.append(timed(work))
        # The first turn warms what both use.
        if turn:
            times.append(pair if turn % 2 else pair[::-1])
    ours, theirs = (statistics.median(column) for column in zip(*times))
    ratios = sorted(b / a for a, b in times)
    ratio = statistics.median(ratios)
    print(
        f"{name:58} {ours * 1000:9.1f} ms  {theirs * 1000:9.1f} ms   {ratio:6.2f}  ({ratios[0]:.2f} to {ratios[-1]:.2f})"
        f"   wanted {wanted:.1f}{'' if ratio >= wanted else '   MISSED'}",
        flush=True,
    )
    return ratio >= wanted


def in_order(args, cluster, mount) -> bool:
    size = args.size * MIB

    def read(open_file, path):
        buffer, done = bytearray(MIB), 0
        with open_file(path, "rb", 0) as file:
            while read := file.readinto(buffer):
                done += read
        assert done == size

    def library():
        with gupfs.connect(cluster.address) as connection:
            read(connection.open, "/large")

    return compare(
        f"{args.size} MiB in order, cold", 1.0, args.turns, library, lambda: read(open, mount / "large")
    )


def worker(path, address, key, size, pieces, seed, start):
    chosen = random.Random(seed)
    connection = None
    if address:
        connection = gupfs.connect(address, key)
        file = connection.open(path, "rb", 0)
    else:
        file = open(path, "rb", 0)
    buffer = memoryview(bytearray(60_000))
    start.wait()
    for _piece in range(pieces):
        length = chosen.randrange(50_000, 60_000)
        offset = chosen.randrange(size - length)
        if connection:
            done = file.pread_into(buffer[:length], offset)
        else:
            done = os.preadv(file.fileno(), [buffer[:length]], offset)
        assert done == length
    start.wait()
    file.close()
    if connection:
        connection.close()


def at_random_places(args, cluster, mount) -> bool:
    """Four processes, as those of a DataLoader. Their start is not in the time."""
    size = args.size * MIB
    seeds = iter(range(10**6))
    took = {}

    def run(name, path, address):
        start = multiprocessing.Barrier(5)
        workers = [
            multiprocessing.Process(target=worker, args=(path, address, cluster.key, size, args.pieces, next(seeds), start))
            for _worker in range(4)
        ]
        for each in workers:
            each.start()
        start.wait()
        begun = time.monotonic()
        start.wait()
        took[name] = time.monotonic() - begun
        for each in workers:
            each.join()

    ratios, ours, theirs = [], [], []
    for turn in range(args.turns + 1):
        for name, path, address in [("library", "/large", cluster.address), ("mount", mount / "large", None)][:: 1 if turn % 2 else -1]:
            drop_caches()
            run(name, path, address)
        if turn:
            ratios.append(took["mount"] / took["library"])
            ours.append(took["library"])
            theirs.append(took["mount"])
    ratio = statistics.median(ratios)
    print(
        f"{f'4 workers, {args.pieces} pieces of 50 to 60 KB each, cold':58} {statistics.median(ours) * 1000:9.1f} ms"
        f"  {statistics.median(theirs) * 1000:9.1f} ms   {ratio:6.2f}  ({min(ratios):.2f} to {max(ratios):.2f})"
        f"   wanted 1.0{'' if ratio >= 1.0 else '   MISSED'}",
        flush=True,
    )
    return ratio >= 1.0


def many_ranges(args, cluster, _mount) -> bool:
    fs = fsspec.filesystem("gupfs", host=cluster.address, key=cluster.key, cache=0, skip_instance_cache=True)
    chosen = random.Random(1)
    size = args.size * MIB
    starts = [chosen.randrange(size - 50_000) for _piece in range(1000)]
    paths, ends = ["/large"] * 1000, [start + 50_000 for start in starts]

    def one_after_the_other():
        with fs.open("/large", "rb", 0) as file:
            for start in starts:
                file.pread(50_000, start)

    return compare(
        "cat_ranges of 1,000 pieces ÷ one after the other", 3.0, args.turns,
        lambda: fs.cat_ranges(paths, starts, ends, on_error="raise"), one_after_the_other, prepare=lambda: None,
    )


def listing(args, cluster, mount) -> bool:
    def library():
        with gupfs.connect(cluster.address) as connection:
            assert sum(entry.stat().st_size for entry in connection.scandir("/many")) == 10_000

    def mounted():
        with os.scandir(mount / "many") as entries:
            assert sum(entry.stat().st_size for entry in entries) == 10_000

    return compare("10,000 entries with attributes ÷ os.scandir and stat", 1.0, args.turns, library, mounted)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--size", type=int, default=1024, help="MiB of the large file")
    parser.add_argument("--pieces", type=int, default=500, help="of each worker")
    parser.add_argument("--only", nargs="*", choices=["order", "random", "ranges", "listing"])
    parser.add_argument("--dir", help="where the cluster's disks are; else the directory for temporary files")
    args = parser.parse_args()
    parts = {"order": in_order, "random": at_random_places, "ranges": many_ranges, "listing": listing}
    cluster = clusters.Cluster(directory=args.dir)
    try:
        os.environ["GUPFS_KEY"] = cluster.key
        mount = cluster.mount()
        with gupfs.connect(cluster.address) as connection:
            block = os.urandom(MIB)
            with connection.open("/large", "wb", 0) as file:
                for _block in range(args.size):
                    file.write(block)
            connection.mkdir("/many")
            for number in range(10_000):
                connection.write_bytes(f"/many/{number}", b"x")
            connection.sync()
        load = os.getloadavg()[0]
        print(f"{os.cpu_count()} processors, load {load:.1f} before; medians of {args.turns} turns: the package, the mount, ratio (its spread)")
        fine = [part(args, cluster, mount) for name, part in parts.items() if not args.only or name in args.only]
    finally:
        cluster.stop()
    sys.exit(0 if all(fine) else 1)


if __name__ == "__main__":
    main()
