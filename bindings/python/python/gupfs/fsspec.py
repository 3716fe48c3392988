"""gupfs for fsspec: `pandas.read_parquet("gupfs://node1/data/x.parquet")`."""

import datetime
import os
import stat as stat_bits
from typing import Any, Dict, List, Optional

import fsspec
from fsspec.utils import stringify_path

from . import _connection


class GupfsFileSystem(fsspec.AbstractFileSystem):
    """The files of a cluster. URLs are gupfs://HOST[:PORT]/PATH; several hosts are separated by commas.

    host: the metadata server, or several; the other arguments are those of `gupfs.connect`.
    """

    protocol = "gupfs"
    root_marker = "/"
    # Listings come from the servers, which know all changes of other hosts: none is kept.
    use_listings_cache = False

    def __init__(self, host: Optional[str] = None, auto_mkdir: bool = False, connection=None, **options: Any):
        ours = {name: options.pop(name) for name in list(options) if name in _connection.connect.__kwdefaults__ or name in ("key", "user")}
        super().__init__(**options)
        if connection is None:
            if not host:
                raise ValueError("gupfs needs the metadata server's host: gupfs://HOST/PATH, or host='HOST'")
            connection = _connection.connect(host, **ours)
        self.host = host
        self.auto_mkdir = auto_mkdir
        self.connection = connection

    @property
    def fsid(self) -> str:
        return f"gupfs-{self.connection._options.addresses}"

    @classmethod
    def _strip_protocol(cls, path):
        if isinstance(path, (list, tuple)):
            return [cls._strip_protocol(one) for one in path]
        path = stringify_path(path)
        for scheme in ("gupfs://", "gupfs::"):
            if path.startswith(scheme):
                path = path[len(scheme):]
                # The host, up to the path.
                path = path[path.index("/"):] if "/" in path else "/"
                break
        path = "/" + path.lstrip("/")
        return path.rstrip("/") or cls.root_marker

    @staticmethod
    def _get_kwargs_from_urls(path) -> Dict[str, Any]:
        if isinstance(path, (list, tuple)):
            path = path[0] if path else ""
        path = stringify_path(path)
        if not path.startswith("gupfs://"):
            return {}
        host = path[len("gupfs://"):].split("/", 1)[0]
        return {"host": host} if host else {}

    def unstrip_protocol(self, name: str) -> str:
        name = self._strip_protocol(name)
        return f"gupfs://{self.host or ''}{name}"

    # Listings

    @staticmethod
    def _info(path: str, kind: str, brief) -> Dict[str, Any]:
        mode, size, uid, gid, nlink, mtime, ctime = brief
        return {
            "name": path, "size": size, "type": kind, "mode": mode, "uid": uid, "gid": gid,
            "nlink": nlink, "mtime": mtime, "created": ctime, "islink": False,
        }

    def info(self, path: str, **_unused) -> Dict[str, Any]:
        path = self._strip_protocol(path)
        found = self.connection.lstat(path)
        is_link = stat_bits.S_ISLNK(found.st_mode)
        destination = None
        if is_link:
            destination = self.connection.readlink(path)
            try:
                found = self.connection.stat(path)
            except OSError:
                pass  # a dangling link is of the type "other"
        info = self._info(path, _kind(found.st_mode), (
            found.st_mode, found.st_size, found.st_uid, found.st_gid, found.st_nlink, found.st_mtime, found.st_ctime,
        ))
        info["ino"] = found.st_ino
        info["islink"] = is_link
        if is_link:
            info["destination"] = destination
        return info

    def ls(self, path: str, detail: bool = True, **_unused) -> List[Any]:
        path = self._strip_protocol(path)
        try:
            entries = self.connection._session().scandir(path, detail)
        except NotADirectoryError:
            info = self.info(path)
            return [info] if detail else [info["name"]]
        base = path.rstrip("/")
        if not detail:
            return [f"{base}/{entry.name}" for entry in entries]
        infos = []
        for entry in entries:
            name, brief = f"{base}/{entry.name}", entry.brief()
            if entry.kind == "link" or brief is None:
                try:
                    infos.append(self.info(name))
                except FileNotFoundError:
                    pass  # removed meanwhile
            else:
                infos.append(self._info(name, entry.kind, brief))
        return infos

    def exists(self, path: str, **_unused) -> bool:
        return self.connection.exists(self._strip_protocol(path))

    def isdir(self, path: str) -> bool:
        return self.connection.isdir(self._strip_protocol(path))

    def isfile(self, path: str) -> bool:
        return self.connection.isfile(self._strip_protocol(path))

    def islink(self, path: str) -> bool:
        try:
            return stat_bits.S_ISLNK(self.connection.lstat(self._strip_protocol(path)).st_mode)
        except OSError:
            return False

    def created(self, path: str) -> datetime.datetime:
        return _time(self.connection.stat(self._strip_protocol(path)).st_ctime)

    def modified(self, path: str) -> datetime.datetime:
        return _time(self.connection.stat(self._strip_protocol(path)).st_mtime)

    # Names

    def mkdir(self, path: str, create_parents: bool = True, **_unused) -> None:
        path = self._strip_protocol(path)
        if self.connection.exists(path):
            raise FileExistsError(path)
        if create_parents:
            self.makedirs(path, exist_ok=True)
        else:
            self.connection.mkdir(path)

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.connection.makedirs(self._strip_protocol(path), exist_ok=exist_ok)

    def rmdir(self, path: str) -> None:
        self.connection.rmdir(self._strip_protocol(path))

    def rm_file(self, path: str) -> None:
        self.connection.remove(self._strip_protocol(path))

    _rm = rm_file

    def rm(self, path, recursive: bool = False, maxdepth: Optional[int] = None) -> None:
        paths = [path] if isinstance(path, (str, os.PathLike)) else path
        for one in paths:
            one = self._strip_protocol(one)
            if fsspec.core.has_magic(one) or maxdepth is not None:
                for found in reversed(self.expand_path(one, recursive=recursive, maxdepth=maxdepth)):
                    self._remove(found, False)
            else:
                self._remove(one, recursive)

    def _remove(self, path: str, recursive: bool) -> None:
        if not stat_bits.S_ISDIR(self.connection.lstat(path).st_mode):
            self.connection.remove(path)
            return
        if recursive:
            for entry in self.connection._session().scandir(path, False):
                child = f"{path.rstrip('/')}/{entry.name}"
                if entry.kind == "directory":
                    self._remove(child, True)
                else:
                    self.connection.remove(child)
        self.connection.rmdir(path)

    def mv(self, path1: str, path2: str, recursive: bool = False, maxdepth: Optional[int] = None, **_unused) -> None:
        """A rename: it is done at once, also for a directory."""
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        if self.connection.isdir(target) and (path2.endswith("/") or not self.connection.isdir(source)):
            target = f"{target.rstrip('/')}/{os.path.basename(source)}"
        self._make_parent(target)
        self.connection.rename(source, target)

    mv_file = mv

    def cp_file(self, path1: str, path2: str, **_unused) -> None:
        source, target = self._strip_protocol(path1), self._strip_protocol(path2)
        self._make_parent(target)
        if self.connection.isdir(source):
            self.connection.makedirs(target, exist_ok=True)
        else:
            self.connection.copy_file(source, target)

    def link(self, src: str, dst: str, **_unused) -> None:
        self.connection.link(self._strip_protocol(src), self._strip_protocol(dst))

    def symlink(self, src: str, dst: str, **_unused) -> None:
        self.connection.symlink(self._strip_protocol(src), self._strip_protocol(dst))

    def chmod(self, path: str, mode: int) -> None:
        self.connection.chmod(self._strip_protocol(path), mode)

    def touch(self, path: str, truncate: bool = True, **_unused) -> None:
        path = self._strip_protocol(path)
        self._make_parent(path)
        if truncate or not self.connection.exists(path):
            self.connection.open(path, "wb", 0).close()
        else:
            self.connection.utime(path)

    def _make_parent(self, path: str) -> None:
        if self.auto_mkdir:
            self.connection.makedirs(self._parent(path), exist_ok=True)

    # Bytes

    def _open(self, path: str, mode: str = "rb", block_size=None, autocommit: bool = True, cache_options=None, **_unused):
        path = self._strip_protocol(path)
        if "r" not in mode:
            self._make_parent(path)
        if not autocommit:
            return _UncommittedFile(self, path, mode)
        buffering = -1 if block_size in (None, "default") else max(int(block_size), 0)
        return self.connection.open(path, mode, buffering)

    def cat_file(self, path: str, start: Optional[int] = None, end: Optional[int] = None, **_unused) -> bytes:
        path = self._strip_protocol(path)
        with self.connection.open(path, "rb", 0) as file:
            if start is None and end is None:
                return file.readall()
            begin, stop, _step = slice(start, end).indices(file.stat().st_size)
            return file.pread(max(stop - begin, 0), begin)

    def cat_ranges(self, paths, starts, ends, max_gap=None, on_error: str = "return", **_unused):
        """All ranges at the same time, each file opened once."""
        if not isinstance(paths, list):
            raise TypeError
        if not isinstance(starts, (list, tuple)):
            starts = [starts] * len(paths)
        if not isinstance(ends, (list, tuple)):
            ends = [ends] * len(paths)
        if len(starts) != len(paths) or len(ends) != len(paths):
            raise ValueError
        parts, results = [], [None] * len(paths)
        for index, (path, start, end) in enumerate(zip(paths, starts, ends)):
            path = self._strip_protocol(path)
            start = 0 if start is None else start
            if start < 0 or end is None or end < 0:
                # Relative to the end of the file.
                try:
                    size = self.connection.stat(path).st_size
                except OSError as error:
                    results[index] = error
                    continue
                start, end, _step = slice(start, end).indices(size)
            parts.append((index, (path, start, max(end - start, 0))))
        read = self.connection.pread_many([part for _index, part in parts], on_error="return")
        for (index, _part), result in zip(parts, read):
            results[index] = result
        if on_error == "raise":
            for result in results:
                if isinstance(result, OSError):
                    raise result
        return results

    def cat(self, path, recursive: bool = False, on_error: str = "raise", **kwargs):
        if isinstance(path, (str, os.PathLike)) and not recursive and not fsspec.core.has_magic(stringify_path(path)):
            return self.cat_file(path, **kwargs)
        if kwargs:
            return super().cat(path, recursive=recursive, on_error=on_error, **kwargs)
        paths = [one for one in self.expand_path(path, recursive=recursive) if not self.isdir(one)]
        read = self.cat_ranges(paths, 0, None, on_error="return")
        found = {}
        for one, result in zip(paths, read):
            if isinstance(result, OSError):
                if on_error == "raise":
                    raise result
                if on_error == "omit":
                    continue
            found[one] = result
        return found

    def pipe_file(self, path: str, value, mode: str = "overwrite", **_unused) -> None:
        path = self._strip_protocol(path)
        self._make_parent(path)
        with self.connection.open(path, "xb" if mode == "create" else "wb", 0) as file:
            view, done = memoryview(value).cast("B"), 0
            while done < len(view):
                done += file.write(view[done:])

    def statvfs(self) -> os.statvfs_result:
        return self.connection.statvfs()


class _UncommittedFile:
    """A file of a transaction: it gets its name when the transaction ends."""

    def __init__(self, fs: GupfsFileSystem, path: str, mode: str):
        self._fs = fs
        self.path = path
        directory, name = os.path.split(path)
        self._temporary = f"{directory.rstrip('/')}/.{name}.{os.urandom(8).hex()}"
        self._file = fs.connection.open(self._temporary, mode)

    def __getattr__(self, name):
        return getattr(self._file, name)

    def __enter__(self):
        return self

    def __exit__(self, *_unused):
        self.close()

    def __iter__(self):
        return iter(self._file)

    def commit(self) -> None:
        self._file.close()
        self._fs.connection.rename(self._temporary, self.path)

    def discard(self) -> None:
        self._file.close()
        self._fs.connection.remove(self._temporary)


def _kind(mode: int) -> str:
    if stat_bits.S_ISDIR(mode):
        return "directory"
    if stat_bits.S_ISREG(mode):
        return "file"
    return "other"


def _time(seconds: float) -> datetime.datetime:
    return datetime.datetime.fromtimestamp(seconds, tz=datetime.timezone.utc)
