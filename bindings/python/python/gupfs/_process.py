"""What happens at a fork and at the end of the process."""

import atexit
import os
import sys
import weakref

from . import _gupfs

#: How many seconds the sessions of a process may take to end with it.
END_LIMIT = 10.0

#: Connections that have a session.
connections: "weakref.WeakSet" = weakref.WeakSet()


def _after_fork_in_child() -> None:
    _gupfs.after_fork_in_child()
    # The parent ends what it has.
    connections.clear()


def shutdown() -> None:
    """Closes files that are open for writing, and ends all sessions of this process.

    Python calls it at exit, and multiprocessing at the end of its processes. A process that ends by `os._exit` calls it itself: otherwise
    the servers keep its leases for some seconds, and others wait for them.
    """
    for connection in list(connections):
        try:
            connection.close()
        except OSError as error:
            print(f"gupfs: a session could not end in order: {error}", file=sys.stderr)


os.register_at_fork(
    before=_gupfs.before_fork,
    after_in_parent=_gupfs.after_fork_in_parent,
    after_in_child=_after_fork_in_child,
)
atexit.register(shutdown)

_prepared_pid = None


def prepare_end() -> None:
    """Called with the first session of a process: processes of multiprocessing run its finalizers, and not those of atexit."""
    global _prepared_pid
    multiprocessing = sys.modules.get("multiprocessing.util")
    if multiprocessing is not None and _prepared_pid != os.getpid():
        _prepared_pid = os.getpid()
        multiprocessing.Finalize(None, shutdown, exitpriority=0)
