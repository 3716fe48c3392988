"""The same files through a mount, at the same time."""

import os
import threading

import pytest

#: Whole with GUPFS_LONG=1.
TURNS = 10_000 if os.environ.get("GUPFS_LONG") else 300


def test_each_side_sees_what_the_other_was_answered(connection, mount, home):
    """By turns: one side writes, and as soon as it has its answer the other reads."""
    path, mounted = f"{home}/f", mount / home[1:] / "f"
    connection.write_bytes(path, b"")
    with connection.open(path, "r+b", 0) as here, open(mounted, "r+b", 0) as there:
        for turn in range(TURNS):
            written = b"%08d" % turn * (1 + turn % 600)
            offset = turn * 37 % 9_000
            writer, reader = (here, there) if turn % 2 else (there, here)
            writer.seek(offset)
            assert writer.write(written) == len(written)
            reader.seek(offset)
            assert reader.read(len(written)) == written, turn


def test_names_are_seen_at_once(connection, mount, home):
    mounted = mount / home[1:]
    for turn in range(TURNS):
        name = f"{turn % 50}"
        if turn % 2:
            connection.write_bytes(f"{home}/{name}", b"%d" % turn)
            assert (mounted / name).read_bytes() == b"%d" % turn
            (mounted / name).rename(mounted / f"{name}-moved")
            assert not connection.exists(f"{home}/{name}")
            connection.remove(f"{home}/{name}-moved")
            assert not (mounted / f"{name}-moved").exists()
        else:
            (mounted / name).write_bytes(b"%d" % turn)
            assert connection.read_bytes(f"{home}/{name}") == b"%d" % turn
            assert connection.stat(f"{home}/{name}").st_size == os.stat(mounted / name).st_size
            connection.rename(f"{home}/{name}", f"{home}/{name}-moved")
            assert not (mounted / name).exists()
            (mounted / f"{name}-moved").unlink()
            assert connection.listdir(home) == os.listdir(mounted)


def test_two_writers_lose_nothing(connection, mount, home):
    """Both append lines to one file; each line is there once."""
    path, mounted = f"{home}/log", mount / home[1:] / "log"
    connection.write_bytes(path, b"")
    lines = 300

    def append(open_file, name, side):
        with open_file(name, "ab", 0) as file:
            for line in range(lines):
                file.write(b"%s %d\n" % (side, line))

    writers = [
        threading.Thread(target=append, args=(connection.open, path, b"here")),
        threading.Thread(target=append, args=(open, mounted, b"there")),
    ]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    found = connection.read_bytes(path).splitlines()
    assert found == mounted.read_bytes().splitlines()
    for side in [b"here", b"there"]:
        assert [line for line in found if line.startswith(side)] == [b"%s %d" % (side, line) for line in range(lines)]


def test_attributes_are_those_of_the_mount(connection, mount, home):
    connection.makedirs(f"{home}/d/e")
    connection.write_bytes(f"{home}/d/f", b"12345" * 1000)
    connection.symlink("f", f"{home}/d/l")
    for name in ["d", "d/e", "d/f", "d/l"]:
        ours, theirs = connection.lstat(f"{home}/{name}"), os.lstat(mount / home[1:] / name)
        for field in ["st_mode", "st_ino", "st_nlink", "st_uid", "st_gid", "st_size", "st_blocks", "st_mtime_ns", "st_ctime_ns", "st_blksize"]:
            assert getattr(ours, field) == getattr(theirs, field), (name, field)
    ours, theirs = connection.statvfs("/"), os.statvfs(mount)
    assert (ours.f_blocks, ours.f_namemax, ours.f_bsize) == (theirs.f_blocks, theirs.f_namemax, theirs.f_bsize)
