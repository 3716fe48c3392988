"""Forks, threads, signals, and the end of a process."""

import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import gupfs
import pytest


def run(program: str, *args: str, **kwargs) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", program, *args], capture_output=True, text=True, timeout=60, **kwargs
    )


def in_child(work) -> str:
    """What `work` returns in a child made by fork, which ends at once."""
    receiving, sending = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(sending, text.encode())
        gupfs.shutdown()
        os._exit(0)
    os.close(sending)
    with open(receiving, "rb") as pipe:
        text = pipe.read().decode()
    os.waitpid(child, 0)
    return text


def test_a_child_has_a_session_of_its_own(connection, home):
    connection.write_bytes(f"{home}/f", b"parent")
    former = connection._status()["session"]

    def work():
        assert connection.read_bytes(f"{home}/f") == b"parent"
        connection.write_bytes(f"{home}/g", b"child")
        return connection._status()["session"] != former

    for _turn in range(5):
        assert in_child(work) == "True"
        assert connection.read_bytes(f"{home}/g") == b"child"
    assert connection._status()["session"] == former


def test_files_that_are_open_at_a_fork(connection, home):
    connection.write_bytes(f"{home}/f", b"0123456789")
    with connection.open(f"{home}/f", "rb") as reader, connection.open(f"{home}/w", "wb", 0) as writer:
        assert reader.read(3) == b"012"
        assert in_child(lambda: reader.raw.pread(4, 3)) == "b'3456'"
        refused = in_child(lambda: writer.write(b"x"))
        assert refused.startswith("OSError: [Errno 116]") and "before this process was forked" in refused
        connection.rename(f"{home}/f", f"{home}/moved")
        connection.write_bytes(f"{home}/f", b"another file")
        refused = in_child(lambda: reader.raw.pread(4, 3))
        assert "its path has another file now" in refused
        assert reader.read() == b"3456789"
        writer.write(b"parent")
    assert connection.read_bytes(f"{home}/w") == b"parent"


def test_a_fork_while_threads_read_and_write(connection, home):
    data = os.urandom(1 << 20)
    connection.write_bytes(f"{home}/f", data)
    stop = threading.Event()
    failed = []

    def work(number):
        try:
            while not stop.is_set():
                assert connection.read_bytes(f"{home}/f") == data
                connection.write_bytes(f"{home}/w{number}", data[:10_000])
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _turn in range(20):
            assert in_child(lambda: connection.read_bytes(f"{home}/f") == data) == "True"
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not failed


def length_of(connection, path):
    return len(connection.read_bytes(path))


@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_pools_of_processes(cluster, connection, home, method):
    for number in range(8):
        connection.write_bytes(f"{home}/{number}", bytes(number))
    work = [(connection, f"{home}/{number}") for number in range(8)]
    before = cluster.sessions()
    with multiprocessing.get_context(method).Pool(2) as pool:
        assert pool.starmap(length_of, work) == list(range(8))
        pool.close()
        pool.join()
    # Their processes have ended their sessions: no mount waits for leases of the dead.
    assert cluster.sessions() == before


def test_a_pickle_has_the_path_of_the_key_and_not_the_key(cluster):
    with gupfs.connect(cluster.address, key=cluster.key, timeout=7) as connection:
        pickled = pickle.dumps(connection)
        with open(cluster.key, "rb") as key:
            assert key.read() not in pickled
        with pickle.loads(pickled) as again:
            assert again == connection
            assert again.listdir("/") == connection.listdir("/")


def test_a_connection_that_is_forgotten_ends(cluster):
    before = cluster.sessions()
    forgotten = gupfs.connect(cluster.address)
    forgotten.listdir("/")
    del forgotten
    for _attempt in range(100):
        if cluster.sessions() == before:
            return
        time.sleep(0.05)
    raise AssertionError("its session did not end")


def test_other_threads_run_while_a_call_waits(cluster, connection):
    """The metadata server does not answer for a while; Python does."""
    turns = 0
    cluster.mds.process.send_signal(signal.SIGSTOP)
    try:
        waiting = threading.Thread(target=connection.statvfs)
        waiting.start()
        end = time.monotonic() + 1
        while time.monotonic() < end:
            turns += 1
            time.sleep(0.001)
    finally:
        cluster.mds.process.send_signal(signal.SIGCONT)
    waiting.join()
    assert turns > 200


def test_ctrl_c_ends_a_call_and_not_its_operation(cluster, connection, home):
    cluster.mds.process.send_signal(signal.SIGSTOP)
    threading.Timer(0.5, os.kill, (os.getpid(), signal.SIGINT)).start()
    begun = time.monotonic()
    try:
        with pytest.raises(KeyboardInterrupt):
            connection.mkdir(f"{home}/made")
        assert 0.4 < time.monotonic() - begun < 1.5
    finally:
        cluster.mds.process.send_signal(signal.SIGCONT)
    for _attempt in range(100):
        if connection.exists(f"{home}/made"):
            return
        time.sleep(0.1)
    raise AssertionError("the operation did not go on")


def test_a_call_that_misses_its_deadline(cluster, home):
    with gupfs.connect(cluster.address, deadline=0.5) as connection:
        cluster.mds.process.send_signal(signal.SIGSTOP)
        begun = time.monotonic()
        try:
            with pytest.raises(TimeoutError, match="the metadata server at"):
                connection.mkdir(f"{home}/late")
            assert 0.4 < time.monotonic() - begun < 1.5
        finally:
            cluster.mds.process.send_signal(signal.SIGCONT)


@pytest.mark.parametrize("server", ["mds", "oss"])
def test_a_server_that_is_killed_in_a_read(cluster, connection, home, server):
    data = os.urandom(32 << 20)
    connection.write_bytes(f"{home}/f", data)
    connection.sync()
    daemon = getattr(cluster, server)
    with gupfs.connect(cluster.address, cache=0) as cold, cold.open(f"{home}/f", "rb", 0) as file:
        half = file.read(16 << 20)
        daemon.kill()
        threading.Timer(1, daemon.start).start()
        assert half + file.read() == data
    assert connection.read_bytes(f"{home}/f") == data


EXIT = """
import sys, gupfs
connection = gupfs.connect(sys.argv[1])
text = connection.open(sys.argv[2] + "/text", "w")
text.write("buffered")
raw = connection.open(sys.argv[2] + "/raw", "wb", 0)
raw.write(b"written behind")
reader = connection.open(sys.argv[2] + "/raw", "rb")
"""


@pytest.mark.parametrize("end", ["", "\nsys.exit(3)", "\nraise ValueError('the end')"])
def test_files_that_are_open_at_exit_are_written(cluster, connection, home, end):
    before = cluster.sessions()
    ended = run(EXIT + end, cluster.address, home)
    assert "gupfs" not in ended.stderr.replace("import sys, gupfs", ""), ended.stderr
    assert connection.read_bytes(f"{home}/text") == b"buffered"
    assert connection.read_bytes(f"{home}/raw") == b"written behind"
    assert cluster.sessions() == before


def test_closing_a_connection_writes_what_buffers_hold(cluster, connection, home):
    with gupfs.connect(cluster.address) as other:
        kept = other.open(f"{home}/f", "w")
        kept.write("in a buffer")
    assert kept.closed
    assert connection.read_bytes(f"{home}/f") == b"in a buffer"


def test_an_exit_without_a_server_ends(cluster):
    """The session cannot end in order; the process does not wait for ever."""
    program = """
import os, signal, sys, gupfs, gupfs._process
gupfs._process.END_LIMIT = 1.0
connection = gupfs.connect(sys.argv[1])
os.kill(int(sys.argv[2]), signal.SIGSTOP)
"""
    begun = time.monotonic()
    try:
        ended = run(program, cluster.address, str(cluster.mds.process.pid))
    finally:
        cluster.mds.process.send_signal(signal.SIGCONT)
    assert ended.returncode == 0 and "could not end in order" in ended.stderr
    assert time.monotonic() - begun < 10


def test_no_fuse_is_needed(cluster):
    """Nothing of FUSE is opened or asked for."""
    program = """
import sys, gupfs
with gupfs.connect(sys.argv[1]) as connection:
    connection.listdir("/")
import os
print([os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if os.path.exists(f"/proc/self/fd/{fd}")])
"""
    ended = run(program, cluster.address)
    assert ended.returncode == 0 and "fuse" not in ended.stdout, ended
