"""gupfs without a mount: files and directories of a cluster.

>>> import gupfs
>>> fs = gupfs.connect("node1")
>>> with fs.open("/data/greeting", "w") as f:
...     f.write("hello")

`docs/python.md` of the project describes keys, forks, errors and limits.
"""

from ._connection import Connection, DirEntry, connect
from ._file import File
from ._process import shutdown

__all__ = ["Connection", "DirEntry", "File", "connect", "shutdown"]
