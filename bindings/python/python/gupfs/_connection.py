"""Connections."""

import errno
import os
import stat as stat_bits
import threading
import weakref
from typing import Any, Dict, Iterable, Iterator, List, NamedTuple, Optional, Sequence, Tuple, Union

from . import _file, _gupfs, _process

#: The environment variable that names the key, if `connect` is not told one.
KEY_VARIABLE = "GUPFS_KEY"

_BLOCK = 4096
#: Bytes of the metadata store that one more file takes, about.
_INODE_BYTES = 512
_NAME_MAX = 255


class _Options(NamedTuple):
    """What `connect` was told; never the bytes of a key."""

    addresses: str
    key: Optional[str]
    tls: Optional[str]
    tls_name: Optional[str]
    user: Optional[Tuple[int, int, Tuple[int, ...]]]
    timeout: float
    patient: bool
    deadline: Optional[float]
    write_behind: bool
    cache: Optional[int]


def connect(
    addresses: Union[str, Sequence[str]],
    key: Union[str, os.PathLike, None] = None,
    user: Optional[Tuple[int, int, Iterable[int]]] = None,
    *,
    tls: Union[str, os.PathLike, None] = None,
    tls_name: Optional[str] = None,
    timeout: float = 10.0,
    patient: bool = False,
    deadline: Optional[float] = 60.0,
    write_behind: bool = True,
    cache: Optional[int] = None,
) -> "Connection":
    """Connects to the file system of a cluster.

    addresses: the metadata server, "HOST[:PORT]"; or several, in a list or separated by commas.
    key: the file of the host's key; else what GUPFS_KEY names; else /etc/gupfs/client.key.
    user: (uid, gid, groups); else those of this process. Servers decide what the key may claim.
    tls: a directory with ca.pem, and tls_name the name in the servers' certificates, as for `gupfs mount`.
    timeout: seconds to wait for servers that do not answer; with patient also for those that refuse now.
    deadline: seconds after which a call raises TimeoutError; None: never. The servers may still do what it asked for.
    write_behind: small writes wait some milliseconds for each other; the end of the process loses those that were not sent.
    cache: bytes of files that this process keeps in memory.
    """
    if not isinstance(addresses, str):
        addresses = ",".join(addresses)
    if user is not None:
        uid, gid, groups = user
        user = (uid, gid, tuple(groups))
    options = _Options(
        addresses=addresses,
        key=None if key is None else os.fspath(key),
        tls=None if tls is None else os.fspath(tls),
        tls_name=tls_name,
        user=user,
        timeout=timeout,
        patient=patient,
        deadline=deadline,
        write_behind=write_behind,
        cache=cache,
    )
    connection = Connection(options)
    connection._session()
    return connection


#: Connections that came as pickles: a process that gets many of them has one session.
_restored: Dict["_Options", "Connection"] = {}


def _restore(options: tuple) -> "Connection":
    options = _Options(*options)
    connection = _restored.get(options)
    if connection is None or connection._closed:
        connection = _restored[options] = Connection(options)
    return connection


class DirEntry:
    """A name in a directory, with the attributes that it had when it was listed."""

    __slots__ = ("name", "path", "_entry", "_connection")

    def __init__(self, connection: "Connection", directory, entry):
        name = entry.name
        if isinstance(directory, bytes):
            name = os.fsencode(name)
        self.name = name
        self.path = os.path.join(directory, name)
        self._entry = entry
        self._connection = connection

    def inode(self) -> int:
        return self._entry.ino

    def is_symlink(self) -> bool:
        return self._entry.kind == "link"

    def _kind(self, follow_symlinks: bool) -> str:
        kind = self._entry.kind
        if kind != "link" or not follow_symlinks:
            return kind
        try:
            mode = self._connection.stat(self.path).st_mode
        except FileNotFoundError:
            return "other"
        return "directory" if stat_bits.S_ISDIR(mode) else "file" if stat_bits.S_ISREG(mode) else "other"

    def is_dir(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind(follow_symlinks) == "directory"

    def is_file(self, *, follow_symlinks: bool = True) -> bool:
        return self._kind(follow_symlinks) == "file"

    def stat(self, *, follow_symlinks: bool = True) -> os.stat_result:
        if not (follow_symlinks and self._entry.kind == "link"):
            found = self._entry.stat()
            if found is not None:
                return found
        return self._connection.stat(self.path, follow_symlinks=follow_symlinks)

    def __fspath__(self):
        return self.path

    def __repr__(self) -> str:
        return f"<gupfs.DirEntry {self.name!r}>"


class Connection:
    """A session with a cluster, made at the first use in each process. Threads may share it. One without references ends in the background.

    Paths are str, bytes or os.PathLike, and begin at the root of the file system, also without a leading '/'. Methods have the names and
    the errors of their functions in `os`.
    """

    def __init__(self, options: _Options):
        self._options = options
        self._current: Optional[Any] = None
        self._closed = False
        self._making = threading.Lock()
        self._pid = os.getpid()
        # Files that are open for writing, with their buffers.
        self._writers: "weakref.WeakSet" = weakref.WeakSet()

    def __reduce__(self):
        return _restore, (tuple(self._options),)

    def __repr__(self) -> str:
        return f"<gupfs.Connection {self._options.addresses!r}{' closed' if self._closed else ''}>"

    def __enter__(self) -> "Connection":
        return self

    def __exit__(self, *_unused) -> None:
        self.close()

    def __eq__(self, other) -> bool:
        return isinstance(other, Connection) and self._options == other._options

    def __hash__(self) -> int:
        return hash(self._options)

    def _session(self):
        session = self._current
        if session is not None and session.is_here:
            return session
        return self._new_session()

    def _new_session(self):
        if self._closed:
            raise ValueError("the connection is closed")
        if self._pid != os.getpid():
            # A child: another thread of the parent may have had the lock.
            self._making = threading.Lock()
            self._pid = os.getpid()
            # The parent's.
            self._writers = weakref.WeakSet()
        with self._making:
            session = self._current
            if session is not None and session.is_here:
                return session
            options = self._options
            user = options.user
            if user is None:
                user = (os.geteuid(), os.getegid(), tuple(os.getgroups()))
            key = options.key or os.environ.get(KEY_VARIABLE) or None
            session = _gupfs.connect(
                options.addresses, key, options.tls, options.tls_name,
                (user[0], user[1], [group for group in user[2] if group != user[1]]),
                options.timeout, options.patient, options.deadline, options.write_behind, options.cache,
            )
            self._current = session
            _process.connections.add(self)
            _process.prepare_end()
            return session

    @property
    def address(self) -> str:
        """The metadata server's address."""
        return self._session().address

    def close(self) -> None:
        """Closes files that are open for writing, and ends the session. Raises the first error, after all of it."""
        session = self._current
        _process.connections.discard(self)
        if self._closed or session is None or not session.is_here:
            self._closed = True
            return
        failed: Optional[OSError] = None
        for writer in list(self._writers):
            try:
                writer.close()
            except OSError as error:
                failed = failed or error
        self._closed, self._current = True, None
        session.stop(_process.END_LIMIT)
        if failed is not None:
            raise failed

    # Files

    def open(
        self,
        path,
        mode: str = "r",
        buffering: int = -1,
        encoding: Optional[str] = None,
        errors: Optional[str] = None,
        newline: Optional[str] = None,
        *,
        permissions: int = 0o666,
        sync: bool = False,
        direct: bool = False,
        no_follow: bool = False,
    ):
        """As the built-in open. sync is O_SYNC, direct O_DIRECT, no_follow O_NOFOLLOW; permissions are those of a new file."""
        if "b" in mode and "t" in mode:
            raise ValueError("can't have text and binary mode at once")
        if "b" in mode and not (encoding is None and errors is None and newline is None):
            raise ValueError("binary mode takes no encoding, errors or newline argument")
        plain = mode.replace("b", "").replace("t", "")
        flags = _file.open_flags(plain, permissions, sync, direct, no_follow)
        raw = _file.File(self, path, flags, _file.raw_mode(plain))
        return _file.wrap(raw, mode, buffering, encoding, errors, newline)

    def read_bytes(self, path) -> bytes:
        with self.open(path, "rb", 0) as file:
            return file.readall()

    def write_bytes(self, path, data) -> int:
        with self.open(path, "wb", 0) as file:
            view, done = memoryview(data).cast("B"), 0
            while done < len(view):
                done += file.write(view[done:])
            return done

    def pread_many(self, ranges: Iterable[Tuple[Any, int, int]], on_error: str = "raise") -> List[Any]:
        """The bytes of each (path, offset, size), all read at the same time; each file is opened once.

        on_error: "raise" the first OSError, or "return" it in the place of the bytes.
        """
        results = self._session().pread_many(list(ranges))
        if on_error == "raise":
            for result in results:
                if isinstance(result, OSError):
                    raise result
        return results

    def truncate(self, path, length: int) -> None:
        if length < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL), path)
        self._session().truncate(path, length)

    def copy_file(self, source, target) -> None:
        """Copies the bytes of a file to another; they do not pass through Python."""
        self._session().copy_file(source, target)

    # Names

    def stat(self, path, *, follow_symlinks: bool = True) -> os.stat_result:
        return self._session().stat(path, follow_symlinks)

    def lstat(self, path) -> os.stat_result:
        return self._session().stat(path, False)

    def exists(self, path) -> bool:
        try:
            self.stat(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def isdir(self, path) -> bool:
        try:
            return stat_bits.S_ISDIR(self.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def isfile(self, path) -> bool:
        try:
            return stat_bits.S_ISREG(self.stat(path).st_mode)
        except (FileNotFoundError, NotADirectoryError):
            return False

    def access(self, path, mode: int) -> bool:
        try:
            self._session().access(path, mode)
        except PermissionError:
            return False
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def listdir(self, path="/") -> list:
        names = [entry.name for entry in self._session().scandir(path, False)]
        if isinstance(os.fspath(path), bytes):
            return [os.fsencode(name) for name in names]
        return names

    def scandir(self, path="/") -> Iterator[DirEntry]:
        """The entries with their attributes: the servers send both together."""
        directory = os.fspath(path)
        entries = self._session().scandir(path, True)
        return (DirEntry(self, directory, entry) for entry in entries)

    def mkdir(self, path, mode: int = 0o777) -> None:
        self._session().mkdir(path, mode)

    def makedirs(self, path, mode: int = 0o777, exist_ok: bool = False) -> None:
        path = os.fspath(path)
        head, tail = os.path.split(path)
        if not tail:
            head, tail = os.path.split(head)
        if head and tail and not self.exists(head):
            self.makedirs(head, exist_ok=True)
        try:
            self.mkdir(path, mode)
        except OSError:
            if not exist_ok or not self.isdir(path):
                raise

    def remove(self, path) -> None:
        self._session().remove(path)

    unlink = remove

    def rmdir(self, path) -> None:
        self._session().rmdir(path)

    def rename(self, source, target) -> None:
        """The new name refers to the old file at every moment; an existing file is replaced."""
        self._session().rename(source, target, 0)

    replace = rename

    def rename_noreplace(self, source, target) -> None:
        """FileExistsError if the target exists."""
        self._session().rename(source, target, 1)

    def exchange(self, first, second) -> None:
        """Exchanges two names at once."""
        self._session().rename(first, second, 2)

    def link(self, source, target) -> None:
        self._session().link(source, target)

    def symlink(self, target, path) -> None:
        self._session().symlink(target, path)

    def readlink(self, path):
        target = self._session().readlink(path)
        return target if isinstance(os.fspath(path), bytes) else os.fsdecode(target)

    # Attributes

    def chmod(self, path, mode: int, *, follow_symlinks: bool = True) -> None:
        self._session().chmod(path, mode, follow_symlinks)

    def chown(self, path, uid: int, gid: int, *, follow_symlinks: bool = True) -> None:
        """-1 leaves the owner or the group."""
        self._session().chown(
            path, None if uid == -1 else uid, None if gid == -1 else gid, follow_symlinks
        )

    def utime(self, path, times=None, *, ns=None, follow_symlinks: bool = True) -> None:
        if times is not None and ns is not None:
            raise ValueError("utime: you may specify either 'times' or 'ns' but not both")
        if times is not None:
            ns = tuple(round(time * 1_000_000_000) for time in times)
        atime, mtime = (None, None) if ns is None else ns
        self._session().utime(path, atime, mtime, follow_symlinks)

    def getxattr(self, path, attribute, *, follow_symlinks: bool = True) -> bytes:
        return self._session().getxattr(path, attribute, follow_symlinks)

    def listxattr(self, path="/", *, follow_symlinks: bool = True) -> List[str]:
        return self._session().listxattr(path, follow_symlinks)

    def setxattr(self, path, attribute, value: bytes, flags: int = 0, *, follow_symlinks: bool = True) -> None:
        """flags: os.XATTR_CREATE or os.XATTR_REPLACE."""
        self._session().setxattr(path, attribute, bytes(value), flags, follow_symlinks)

    def removexattr(self, path, attribute, *, follow_symlinks: bool = True) -> None:
        self._session().removexattr(path, attribute, follow_symlinks)

    # The file system

    def statvfs(self, path="/") -> os.statvfs_result:
        total, free, available, inodes = self._session().statvfs()
        more = available // _INODE_BYTES
        return os.statvfs_result(
            (_BLOCK, _BLOCK, total // _BLOCK, free // _BLOCK, available // _BLOCK,
             inodes + more, more, more, 0, _NAME_MAX, 0)
        )

    def sync(self) -> None:
        """Everything that this session was answered survives a power loss: writes, also of closed files, and names."""
        self._session().sync()

    def _status(self) -> dict:
        return self._session().status()
