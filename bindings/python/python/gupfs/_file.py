"""Files."""

import errno
import io
import os
from typing import Any, Optional

#: Bytes of the buffers of `Connection.open`, unless it is told otherwise.
BUFFER_SIZE = 64 << 10

_FLAGS = {
    "r": dict(read=True),
    "w": dict(write=True, truncate=True, create=True),
    "a": dict(write=True, append=True, create=True),
    "x": dict(write=True, exclusive=True, create=True),
}
_NO_FLAGS = dict(
    read=False, write=False, append=False, truncate=False, create=None,
    exclusive=False, no_follow=False, sync=False, direct=False,
)


def open_flags(mode: str, permissions: int, sync: bool, direct: bool, no_follow: bool) -> dict:
    """The flags of `Session.open` for a mode of `open`, without 'b' and 't'."""
    letters = mode.replace("+", "", 1)
    if letters not in _FLAGS:
        raise ValueError(f"invalid mode: {mode!r}")
    flags = {**_NO_FLAGS, **_FLAGS[letters], "sync": sync, "direct": direct, "no_follow": no_follow}
    if "+" in mode:
        flags.update(read=True, write=True)
    flags["create"] = permissions if flags["create"] else None
    return flags


def raw_mode(mode: str) -> str:
    """The mode that a raw or buffered file shows, as that of `io.FileIO`."""
    plus = "+" if "+" in mode else ""
    letter = mode.replace("+", "", 1)
    return f"{'r' if plus and letter == 'w' else letter}b{plus}"


class File(io.RawIOBase):
    """An open file without a buffer, as `open(..., buffering=0)` returns it.

    After a fork the child opens a file again that is open for reading only; every other one is its parent's alone (ESTALE).
    """

    name: Any
    mode: str

    def __init__(self, connection, path, flags: dict, mode: str):
        super().__init__()
        self.connection = connection
        self._flags = flags
        self.name = path
        self.mode = mode
        self._append = flags["append"]
        self._position = 0
        self._handle = connection._session().open(path, **flags)
        if self._append:
            self._position = self._handle.size()

    def _open_handle(self):
        if self.closed:
            raise ValueError("I/O operation on closed file.")
        handle = self._handle
        if not handle.is_here and not self._flags["write"]:
            handle = self._open_again(handle)
        return handle

    def _open_again(self, former):
        """In a child: the same file, by its path."""
        again = self.connection._session().open(self.name, **self._flags)
        if again.ino != former.ino:
            again.close()
            raise OSError(errno.ESTALE, "it was opened before this process was forked, and its path has another file now", self.name)
        self._handle = again
        return again

    def readable(self) -> bool:
        return self._flags["read"]

    def writable(self) -> bool:
        return self._flags["write"]

    def seekable(self) -> bool:
        return True

    def _check_readable(self) -> None:
        if not self._flags["read"]:
            raise io.UnsupportedOperation("not readable")

    def _check_writable(self) -> None:
        if not self._flags["write"]:
            raise io.UnsupportedOperation("not writable")

    def readinto(self, buffer) -> int:
        handle = self._open_handle()
        self._check_readable()
        done = handle.pread_into(buffer, self._position)
        self._position += done
        return done

    def read(self, size: Optional[int] = -1) -> bytes:
        if size is None or size < 0:
            return self.readall()
        handle = self._open_handle()
        self._check_readable()
        data = handle.pread(size, self._position)
        self._position += len(data)
        return data

    def readall(self) -> bytes:
        handle = self._open_handle()
        self._check_readable()
        pieces = []
        while True:
            # What is left, and one byte: a file that grows meanwhile is read to its new end.
            left = max(handle.size() - self._position, 0) + 1
            piece = handle.pread(left, self._position)
            self._position += len(piece)
            if len(piece) == left:
                pieces.append(piece)
                continue
            return b"".join((*pieces, piece)) if pieces else piece

    def pread(self, size: int, offset: int) -> bytes:
        """At most `size` bytes from an offset; the position of the file stays."""
        self._check_readable()
        return self._open_handle().pread(size, offset)

    def pread_into(self, buffer, offset: int) -> int:
        """Reads into a buffer from an offset, without a copy in between; the position of the file stays."""
        self._check_readable()
        return self._open_handle().pread_into(buffer, offset)

    def write(self, data) -> int:
        handle = self._open_handle()
        self._check_writable()
        done = handle.pwrite(data, self._position)
        if self._append:
            self._position = handle.size()
        else:
            self._position += done
        return done

    def pwrite(self, data, offset: int) -> int:
        """Writes at an offset, or at the end if the file is open for appending; the position of the file stays."""
        self._check_writable()
        return self._open_handle().pwrite(data, offset)

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        handle = self._open_handle()
        if whence == os.SEEK_SET:
            position = offset
        elif whence == os.SEEK_CUR:
            position = self._position + offset
        elif whence == os.SEEK_END:
            position = handle.size() + offset
        else:
            raise ValueError(f"invalid whence: {whence!r}")
        if position < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        self._position = position
        return position

    def tell(self) -> int:
        self._open_handle()
        return self._position

    def truncate(self, size: Optional[int] = None) -> int:
        handle = self._open_handle()
        self._check_writable()
        size = self._position if size is None else size
        if size < 0:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        handle.truncate(size)
        return size

    def fsync(self, data_only: bool = False) -> None:
        """Everything written survives a power loss. (Of a buffered file: `f.flush(); f.raw.fsync()`.)"""
        self._open_handle().sync(data_only)

    def stat(self) -> os.stat_result:
        return self._open_handle().stat()

    def close(self) -> None:
        if self.closed:
            return
        try:
            super().close()
        finally:
            handle = getattr(self, "_handle", None)
            if handle is not None:
                self._handle = None
                handle.close()

    def __repr__(self) -> str:
        return f"<gupfs.File name={self.name!r} mode={self.mode!r}{' closed' if self.closed else ''}>"


def wrap(raw: File, mode: str, buffering: int, encoding, errors, newline):
    """The file object that `open` returns for a mode: raw, buffered or text."""
    binary = "b" in mode
    line_buffering = buffering == 1 and not binary
    if buffering == 0:
        if binary:
            if raw.writable():
                raw.connection._writers.add(raw)
            return raw
        raw.close()
        raise ValueError("can't have unbuffered text I/O")
    size = BUFFER_SIZE if buffering < 2 else buffering
    if "+" in mode:
        buffered: Any = io.BufferedRandom(raw, size)
    elif raw.writable():
        buffered = io.BufferedWriter(raw, size)
    else:
        buffered = io.BufferedReader(raw, size)
    wrapped = buffered
    if not binary:
        wrapped = io.TextIOWrapper(buffered, encoding, errors, newline, line_buffering)
        wrapped.mode = mode
    if raw.writable():
        raw.connection._writers.add(wrapped)
    return wrapped
