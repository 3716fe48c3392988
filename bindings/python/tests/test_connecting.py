"""What is wrong is said at once, in words that name it."""

import os
import pathlib
import re
import socket
import time

import gupfs
import pytest


def refused(at_most: float, *args, **kwargs) -> OSError:
    begun = time.monotonic()
    with pytest.raises(OSError) as raised:
        gupfs.connect(*args, **kwargs)
    assert time.monotonic() - begun < at_most, str(raised.value)
    return raised.value


def test_a_missing_key(cluster):
    error = refused(1, cluster.address, key="/none/client.key")
    assert isinstance(error, FileNotFoundError)
    assert "cannot read the key '/none/client.key'" in str(error) and "gupfs key client" in str(error)


def test_a_key_that_others_can_read(cluster, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(pathlib.Path(cluster.key).read_bytes())
    key.chmod(0o644)
    assert "other users than its owner can read the key" in str(refused(1, cluster.address, key=key))


def test_an_unreadable_key(cluster, tmp_path):
    if os.geteuid() != 0:
        pytest.skip("only root can become another user")
    key = tmp_path / "key"
    key.write_bytes(pathlib.Path(cluster.key).read_bytes())
    key.chmod(0o600)
    os.seteuid(65534)
    try:
        error = refused(1, cluster.address, key=key)
    finally:
        os.seteuid(0)
    assert isinstance(error, PermissionError) and str(key) in str(error)


def test_a_wrong_key(cluster, tmp_path):
    key = tmp_path / "key"
    key.write_bytes(b"k" * 32)
    key.chmod(0o600)
    error = refused(3, cluster.address, key=key)
    assert f"cannot reach the metadata server at '{cluster.address}'" in str(error) and "key" in str(error)


def test_something_that_is_no_key(cluster, tmp_path):
    key = tmp_path / "key"
    key.write_text("a diary")
    key.chmod(0o600)
    assert "is not a key of gupfs" in str(refused(1, cluster.address, key=key))


def test_a_closed_port(cluster):
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{unused.getsockname()[1]}"
        error = refused(2, address)
    assert isinstance(error, ConnectionRefusedError) and address in str(error)
    assert address in str(refused(2, [address, "127.0.0.1:1"]))


def test_a_host_that_does_not_exist(cluster):
    error = refused(5, "no-such-host.invalid")
    assert "no-such-host.invalid:7700" in str(error)


def test_a_server_that_says_nothing(cluster):
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        error = refused(3, f"127.0.0.1:{silent.getsockname()[1]}", timeout=1)
    assert "cannot reach the metadata server" in str(error)


def test_one_of_several_addresses_is_enough(cluster):
    with gupfs.connect(["127.0.0.1:1", cluster.address]) as connection:
        assert connection.address == cluster.address
        connection.listdir("/")


def test_a_closed_connection_says_so(cluster):
    connection = gupfs.connect(cluster.address)
    before = cluster.sessions()
    connection.close()
    connection.close()
    assert cluster.sessions() == before - 1
    with pytest.raises(ValueError, match="closed"):
        connection.listdir("/")
    assert re.search("closed", repr(connection))


def test_closed_connections_leave_no_sockets(cluster):
    def sockets():
        found = 0
        for name in os.listdir("/proc/self/fd"):
            try:
                found += os.readlink(f"/proc/self/fd/{name}").startswith("socket:")
            except OSError:
                pass
        return found

    before = sockets()
    for _turn in range(10):
        with gupfs.connect(cluster.address) as connection:
            connection.listdir("/")
    for _attempt in range(50):
        if sockets() <= before:
            return
        time.sleep(0.1)
    assert sockets() <= before
