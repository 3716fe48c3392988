import os
import shutil

import gupfs
import pytest

import cluster as clusters


def pytest_configure(config):
    if not (os.path.exists(clusters.GUPFS) or shutil.which(clusters.GUPFS)):
        raise pytest.UsageError("set GUPFS_BIN to the binary of gupfs: `make test-python` does")


@pytest.fixture(scope="session")
def cluster():
    made = clusters.Cluster()
    os.environ["GUPFS_KEY"] = made.key
    yield made
    # Those of file systems that fsspec keeps.
    for connection in list(gupfs._process.connections):
        connection.close()
    made.stop()


@pytest.fixture(scope="session")
def mount(cluster):
    if not clusters.can_mount():
        pytest.skip("this host cannot mount: no /dev/fuse, or no fusermount3")
    return cluster.mount()


@pytest.fixture
def connection(cluster):
    with gupfs.connect(cluster.address) as connection:
        yield connection


@pytest.fixture
def home(connection, request):
    """A directory of this test."""
    name = "".join(letter if letter.isalnum() else "_" for letter in request.node.name)
    path = f"/{name[:100]}"
    connection.mkdir(path)
    return path
