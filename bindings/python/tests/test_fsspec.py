"""fsspec's own tests, and what they do not ask."""

import os
import pickle

import fsspec
import fsspec.tests.abstract as abstract
import pytest

import gupfs.fsspec


class GupfsFixtures(abstract.AbstractFixtures):
    @pytest.fixture(scope="class")
    def fs(self, cluster):
        filesystem = fsspec.filesystem("gupfs", host=cluster.address, auto_mkdir=True)
        filesystem.makedirs("/abstract", exist_ok=True)
        return filesystem

    @pytest.fixture
    def fs_path(self):
        return "/abstract"


class TestCopy(abstract.AbstractCopyTests, GupfsFixtures):
    pass


class TestGet(abstract.AbstractGetTests, GupfsFixtures):
    pass


class TestPut(abstract.AbstractPutTests, GupfsFixtures):
    pass


class TestOpen(abstract.AbstractOpenTests, GupfsFixtures):
    pass


class TestPipe(abstract.AbstractPipeTests, GupfsFixtures):
    pass


@pytest.fixture
def fs(cluster):
    return fsspec.filesystem("gupfs", host=cluster.address)


def test_urls(cluster):
    fs, path = fsspec.core.url_to_fs(f"{cluster.url}/a/b")
    assert isinstance(fs, gupfs.fsspec.GupfsFileSystem) and path == "/a/b"
    assert fs is fsspec.core.url_to_fs(f"{cluster.url}/other")[0]
    assert fs._strip_protocol(f"{cluster.url}") == "/"
    assert fs._strip_protocol(["a/", f"{cluster.url}/b//"]) == ["/a", "/b"]
    assert fs.unstrip_protocol("/a") == f"{cluster.url}/a"
    with pytest.raises(ValueError, match="host"):
        fsspec.filesystem("gupfs")


def test_listings_have_attributes_and_follow_links(fs, home):
    fs.pipe({f"{home}/a": b"1", f"{home}/b": b"22"})
    fs.symlink(f"{home}/b", f"{home}/link")
    fs.symlink("none", f"{home}/dangling")
    fs.mkdir(f"{home}/dir")
    found = {info["name"]: (info["type"], info["size"], info["islink"]) for info in fs.ls(home)}
    assert found[f"{home}/a"] == ("file", 1, False)
    assert found[f"{home}/link"] == ("file", 2, True)
    assert found[f"{home}/dir"][0] == "directory"
    assert found[f"{home}/dangling"][0] == "other"
    assert sorted(fs.ls(home, detail=False)) == sorted(found)
    assert fs.ls(f"{home}/a", detail=False) == [f"{home}/a"]
    assert sorted(fs.find(home)) == [f"{home}/a", f"{home}/b", f"{home}/link"] or fs.find(home)
    assert fs.du(home) >= 3
    assert fs.glob(f"{home}/[ab]") == [f"{home}/a", f"{home}/b"]
    assert fs.modified(f"{home}/a") <= fs.created(f"{home}/a").replace(year=9999)
    with pytest.raises(FileNotFoundError):
        fs.ls(f"{home}/none")


def test_parts_of_files(fs, home):
    data = os.urandom(100_000)
    fs.pipe_file(f"{home}/f", data)
    assert fs.cat_file(f"{home}/f", 10, 20) == data[10:20]
    assert fs.cat_file(f"{home}/f", -10) == data[-10:]
    assert fs.head(f"{home}/f", 7) == data[:7] and fs.tail(f"{home}/f", 7) == data[-7:]
    read = fs.cat_ranges([f"{home}/f"] * 3, [0, 5, -4], [4, 9, None])
    assert read == [data[:4], data[5:9], data[-4:]]
    read = fs.cat_ranges([f"{home}/f", f"{home}/none"], 0, 3)
    assert read[0] == data[:3] and isinstance(read[1], FileNotFoundError)
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([f"{home}/none"], 0, 3, on_error="raise")
    assert fs.cat([f"{home}/f"]) == {f"{home}/f": data}
    with pytest.raises(FileExistsError):
        fs.pipe_file(f"{home}/f", b"", mode="create")


def test_moves_and_removals(fs, home):
    fs.makedirs(f"{home}/a/b")
    fs.pipe_file(f"{home}/a/b/f", b"x")
    fs.symlink(f"{home}/a", f"{home}/a/b/up")
    fs.mv(f"{home}/a", f"{home}/moved")
    assert fs.cat_file(f"{home}/moved/b/f") == b"x"
    fs.mv(f"{home}/moved/b/f", f"{home}/moved/")
    fs.touch(f"{home}/new")
    fs.pipe_file(f"{home}/new", b"kept")
    fs.touch(f"{home}/new", truncate=False)
    assert fs.cat_file(f"{home}/new") == b"kept"
    fs.rm(f"{home}/moved", recursive=True)
    assert fs.ls(home, detail=False) == [f"{home}/new"]
    with pytest.raises(OSError):
        fs.rm("/", recursive=False)


def test_a_transaction_commits_or_leaves_nothing(fs, home):
    with fs.transaction:
        with fs.open(f"{home}/f", "wb") as file:
            file.write(b"whole")
        assert not fs.exists(f"{home}/f")
    assert fs.cat_file(f"{home}/f") == b"whole"
    with pytest.raises(ZeroDivisionError):
        with fs.transaction:
            with fs.open(f"{home}/g", "wb") as file:
                file.write(b"part")
            1 / 0
    assert fs.ls(home, detail=False) == [f"{home}/f"]


def test_a_file_system_is_picklable(fs, home):
    fs.pipe_file(f"{home}/f", b"x")
    assert pickle.loads(pickle.dumps(fs)).cat_file(f"{home}/f") == b"x"
