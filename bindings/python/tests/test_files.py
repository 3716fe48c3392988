"""Files: modes, positions, buffers, errors."""

import errno
import io
import os

import gupfs
import pytest


def test_modes_are_those_of_the_built_in_open(connection, home, tmp_path):
    """Each mode does to a file what it does to a file of this host."""
    for mode in ["r", "w", "a", "x", "r+", "w+", "a+", "x+", "rb", "wb", "ab", "xb", "r+b", "w+b", "a+b", "x+b"]:
        for exists in [False, True]:
            outcomes = []
            for there, directory in [(connection.open, home), (open, str(tmp_path))]:
                path = f"{directory}/{mode}{exists}"
                if exists:
                    with there(path, "w") as file:
                        file.write("before")
                outcomes.append(_outcome(there, path, mode))
            assert outcomes[0] == outcomes[1], (mode, exists)


def _outcome(open_file, path, mode):
    text = b"text" if "b" in mode else "text"
    found = []
    try:
        with open_file(path, mode) as file:
            found.append((file.readable(), file.writable(), file.seekable(), file.tell(), file.mode))
            for call in [lambda: file.write(text), file.flush, lambda: file.seek(2), lambda: file.read(), lambda: file.truncate(3)]:
                try:
                    found.append(call())
                except io.UnsupportedOperation:
                    found.append("unsupported")
        with open_file(path, "rb") as file:
            found.append(file.read())
    except OSError as error:
        found.append((type(error), error.errno))
    return found


def test_bytes_come_back_in_any_order(connection, home):
    data = os.urandom(9 << 20)
    with connection.open(f"{home}/f", "wb") as file:
        for start in range(0, len(data), 777_777):
            file.write(data[start : start + 777_777])
    with connection.open(f"{home}/f", "rb") as file:
        assert file.read() == data
        file.seek(-100, os.SEEK_END)
        assert file.read(200) == data[-100:]
        assert file.read() == b""
    with connection.open(f"{home}/f", "rb", buffering=0) as raw:
        buffer = bytearray(5 << 20)
        assert raw.readinto(buffer) == len(buffer)
        assert buffer == data[: len(buffer)]
        assert raw.readinto(buffer) == len(data) - len(buffer)
        assert raw.readinto(buffer) == 0
        assert raw.pread(1000, 8 << 20) == data[8 << 20 :][:1000]
        assert raw.pread(10, 1 << 40) == b""
        view = memoryview(buffer)[10:20]
        assert raw.pread_into(view, 5) == 10
        assert view == data[5:15]


def test_buffers_that_cannot_be_used_are_refused(connection, home):
    with connection.open(f"{home}/f", "w+b", buffering=0) as raw:
        raw.write(b"0123456789")
        with pytest.raises(BufferError):
            raw.readinto(b"read-only")
        with pytest.raises((BufferError, TypeError)):
            raw.readinto(memoryview(bytearray(10))[::2])
        with pytest.raises(TypeError):
            raw.readinto(object())
        with pytest.raises(TypeError):
            raw.write("text")
        assert raw.readinto(bytearray(0)) == 0
        # The buffer is free again.
        buffer = bytearray(4)
        raw.pread_into(buffer, 2)
        buffer.extend(b"x")
        assert buffer == b"2345x"


def test_arrays_are_read_in_place(connection, home):
    numpy = pytest.importorskip("numpy")
    numbers = numpy.arange(100_000, dtype="float64").reshape(100, 1000)
    connection.write_bytes(f"{home}/numbers", numbers)
    found = numpy.empty_like(numbers)
    with connection.open(f"{home}/numbers", "rb", buffering=0) as raw:
        assert raw.readinto(found) == numbers.nbytes
    assert (found == numbers).all()


def test_errors_are_those_of_the_system(connection, home):
    connection.mkdir(f"{home}/dir")
    connection.write_bytes(f"{home}/file", b"x")
    connection.symlink("loop", f"{home}/loop")
    for call, kind, number in [
        (lambda: connection.open(f"{home}/none"), FileNotFoundError, errno.ENOENT),
        (lambda: connection.open(f"{home}/dir"), IsADirectoryError, errno.EISDIR),
        (lambda: connection.open(f"{home}/dir", "w"), IsADirectoryError, errno.EISDIR),
        (lambda: connection.open(f"{home}/file/x"), NotADirectoryError, errno.ENOTDIR),
        (lambda: connection.open(f"{home}/file", "x"), FileExistsError, errno.EEXIST),
        (lambda: connection.stat(f"{home}/loop"), OSError, errno.ELOOP),
        (lambda: connection.stat(f"{home}/{'x' * 256}"), OSError, errno.ENAMETOOLONG),
        (lambda: connection.rmdir(home), OSError, errno.ENOTEMPTY),
        (lambda: connection.mkdir(f"{home}/dir"), FileExistsError, errno.EEXIST),
        (lambda: connection.remove(f"{home}/dir"), IsADirectoryError, errno.EISDIR),
        (lambda: connection.rename(f"{home}/dir", f"{home}/dir/below"), OSError, errno.EINVAL),
        (lambda: connection.getxattr(f"{home}/file", "user.none"), OSError, errno.ENODATA),
        (lambda: connection.listdir(f"{home}/file"), NotADirectoryError, errno.ENOTDIR),
    ]:
        with pytest.raises(kind) as raised:
            call()
        assert raised.value.errno == number
        assert raised.value.filename.startswith(home)
    with pytest.raises(FileNotFoundError) as raised:
        connection.rename(f"{home}/none", f"{home}/other")
    assert (raised.value.filename, raised.value.filename2) == (f"{home}/none", f"{home}/other")
    assert str(raised.value).startswith("[Errno 2] No such file or directory: ")
    with pytest.raises(ValueError):
        connection.stat("a\0b")
    with pytest.raises(TypeError):
        connection.stat(7)


def test_another_user_is_refused_as_posix_says(cluster, connection, home):
    connection.chmod(home, 0o711)
    connection.write_bytes(f"{home}/mine", b"x")
    connection.chmod(f"{home}/mine", 0o640)
    with gupfs.connect(cluster.address, user=(1234, 1234, [])) as other:
        for call in [
            lambda: other.listdir(home),
            lambda: other.open(f"{home}/mine"),
            lambda: other.mkdir(f"{home}/new"),
            lambda: other.open(f"{home}/new", "w"),
        ]:
            with pytest.raises(PermissionError) as raised:
                call()
            assert raised.value.errno == errno.EACCES
        with pytest.raises(PermissionError) as raised:
            other.chmod(f"{home}/mine", 0o777)
        assert raised.value.errno == errno.EPERM
        assert other.access(f"{home}/mine", os.F_OK) and not other.access(f"{home}/mine", os.R_OK)
    with gupfs.connect(cluster.address, user=(1234, 1234, [0])) as member:
        assert member.read_bytes(f"{home}/mine") == b"x"


def test_names_and_attributes(connection, home):
    connection.makedirs(f"{home}/a/b/c")
    connection.makedirs(f"{home}/a/b/c", exist_ok=True)
    connection.write_bytes(f"{home}/a/f", b"12345")
    connection.link(f"{home}/a/f", f"{home}/a/g")
    connection.symlink("f", f"{home}/a/l")
    assert sorted(connection.listdir(f"{home}/a")) == ["b", "f", "g", "l"]
    assert connection.readlink(f"{home}/a/l") == "f"
    found = {entry.name: entry for entry in connection.scandir(f"{home}/a")}
    assert found["b"].is_dir() and found["f"].is_file() and found["l"].is_symlink() and found["l"].is_file()
    assert found["g"].stat().st_nlink == 2 and found["g"].inode() == found["f"].inode()
    assert found["l"].stat().st_size == 5 and found["l"].stat(follow_symlinks=False).st_size == 1
    assert os.fspath(found["f"]) == f"{home}/a/f"
    connection.chmod(f"{home}/a/f", 0o600)
    connection.chown(f"{home}/a/f", 7, -1)
    connection.utime(f"{home}/a/f", ns=(1_234_567_890_123, -5))
    stat = connection.stat(f"{home}/a/f")
    assert (stat.st_mode & 0o7777, stat.st_uid, stat.st_gid) == (0o600, 7, 0)
    assert (stat.st_atime_ns, stat.st_mtime_ns) == (1_234_567_890_123, -5)
    connection.utime(f"{home}/a/f", (1.5, 2.5))
    assert connection.stat(f"{home}/a/f").st_mtime == 2.5
    connection.setxattr(f"{home}/a/f", "user.colour", b"blue", os.XATTR_CREATE)
    with pytest.raises(FileExistsError):
        connection.setxattr(f"{home}/a/f", "user.colour", b"red", os.XATTR_CREATE)
    assert connection.listxattr(f"{home}/a/f") == ["user.colour"]
    assert connection.getxattr(f"{home}/a/g", "user.colour") == b"blue"
    connection.removexattr(f"{home}/a/f", "user.colour")
    connection.truncate(f"{home}/a/f", 2)
    connection.rename(f"{home}/a/f", f"{home}/a/moved")
    with pytest.raises(FileExistsError):
        connection.rename_noreplace(f"{home}/a/moved", f"{home}/a/l")
    connection.exchange(f"{home}/a/moved", f"{home}/a/b")
    assert connection.read_bytes(f"{home}/a/b") == b"12"
    assert connection.isdir(f"{home}/a/moved/c")
    space = connection.statvfs()
    assert space.f_blocks >= space.f_bavail > 0
    connection.sync()


def test_the_umask_of_the_process_counts(connection, home):
    former = os.umask(0o027)
    try:
        connection.mkdir(f"{home}/dir")
        connection.open(f"{home}/file", "w").close()
    finally:
        os.umask(former)
    assert connection.stat(f"{home}/dir").st_mode & 0o777 == 0o750
    assert connection.stat(f"{home}/file").st_mode & 0o777 == 0o640


def test_names_that_are_no_utf8(connection, home):
    name = os.fsdecode(b"\xff\xfe\x80")
    connection.write_bytes(f"{home}/{name}", b"x")
    assert connection.listdir(home) == [name]
    assert connection.listdir(os.fsencode(home)) == [b"\xff\xfe\x80"]
    [entry] = connection.scandir(home)
    assert entry.name == name and entry.path == f"{home}/{name}"
    assert connection.read_bytes(os.fsencode(home) + b"/\xff\xfe\x80") == b"x"
    connection.symlink(name, f"{home}/link")
    assert connection.readlink(f"{home}/link") == name
    with pytest.raises(FileNotFoundError) as raised:
        connection.stat(b"/\xff")
    assert raised.value.filename == b"/\xff"


def test_many_reads_at_once(connection, home):
    data = os.urandom(1 << 20)
    for number in range(5):
        connection.write_bytes(f"{home}/{number}", data)
    ranges = [(f"{home}/{number % 5}", number * 1000, 500) for number in range(1000)]
    read = connection.pread_many(ranges)
    assert read == [data[start : start + size] for _path, start, size in ranges]
    with pytest.raises(FileNotFoundError):
        connection.pread_many([(f"{home}/none", 0, 1), *ranges])
    kept = connection.pread_many([(f"{home}/none", 0, 1), (f"{home}/0", len(data) - 3, 99)], on_error="return")
    assert isinstance(kept[0], FileNotFoundError) and kept[0].filename == f"{home}/none"
    assert kept[1] == data[-3:]


def test_nothing_is_left_open_or_known(connection, home):
    before = connection._status()
    for number in range(20):
        with connection.open(f"{home}/{number}", "w") as file:
            file.write("x")
        connection.stat(f"{home}/{number}")
    connection.listdir(home)
    list(connection.scandir(home))
    dropped = connection.open(f"{home}/1", "rb")
    del dropped
    for number in range(20):
        connection.remove(f"{home}/{number}")
    import time

    for _attempt in range(100):
        after = connection._status()
        if (after["known_inodes"], after["open_files"]) == (before["known_inodes"], before["open_files"]):
            return
        time.sleep(0.05)
    assert after == before
