"""A cluster of daemons on this host, for tests and measurements."""

import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import time

GUPFS = os.environ.get("GUPFS_BIN", "gupfs")


class Daemon:
    """A process of gupfs, which can be killed and started again at the same address."""

    def __init__(self, *args: str):
        self.args = [GUPFS, *map(str, args)]
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.args, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, text=True
        )
        printed = []
        for line in self.process.stdout:
            printed.append(line)
            if "ready in" in line:
                self.ready = line
                # Nobody reads on: what it prints later stays in the pipe, which holds 64 KiB.
                return
        raise RuntimeError(f"{self.args} ended: {''.join(printed)}")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def stop(self) -> None:
        self.process.terminate()
        try:
            self.process.wait(30)
        finally:
            self.kill()


class Cluster:
    """A metadata server, an object server with four targets, and mounts if this host can mount."""

    def __init__(self, targets: int = 4, directory=None):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="gupfs-python-", dir=directory))
        self.mounts = []
        self.daemons = []
        try:
            self._start(targets)
        except BaseException:
            self.stop()
            raise

    def _start(self, targets: int) -> None:
        store = self.dir / "mds"
        first = Daemon("mds", store, "--listen", "127.0.0.1:0")
        self.address = re.search(r"served at (127\.0\.0\.1:\d+)", first.ready)[1]
        # The same port again after a kill.
        first.stop()
        self.mds = Daemon("mds", store, "--listen", self.address)
        self.daemons.append(self.mds)
        self.key = str(store / "cluster.key")
        (self.dir / "osts").mkdir()
        for disk in range(targets):
            target = self.dir / "osts" / f"disk{disk}"
            subprocess.run(
                [GUPFS, "ost", "add", target, "--mds", self.address, "--key", self.key],
                check=True, capture_output=True,
            )
        listening = ["oss", self.dir / "osts", "--mds", self.address, "--key", self.key, "--listen"]
        first = Daemon(*listening, "127.0.0.1:0")
        address = re.search(r"served at (127\.0\.0\.1:\d+)", first.ready)[1]
        first.stop()
        self.oss = Daemon(*listening, address)
        self.daemons.append(self.oss)

    @property
    def url(self) -> str:
        return f"gupfs://{self.address}"

    def mount(self) -> pathlib.Path:
        point = self.dir / f"mnt{len(self.mounts)}"
        point.mkdir()
        self.mounts.append((Daemon("mount", self.address, point, "--key", self.key), point))
        return point

    def sessions(self) -> int:
        """How many sessions the metadata server has."""
        import json

        status = subprocess.run([GUPFS, "status", "--json", self.dir / "mds"], check=True, capture_output=True)
        return len(json.loads(status.stdout)["mds"]["sessions"])

    def stop(self) -> None:
        for mount, point in reversed(self.mounts):
            mount.stop()
            subprocess.run(["umount", "-l", point], capture_output=True)
        # The metadata server first: it waits for what object servers have to do.
        for daemon in self.daemons:
            if daemon.process.poll() is None:
                daemon.stop()
        for _attempt in range(50):
            try:
                shutil.rmtree(self.dir)
                return
            except OSError:
                time.sleep(0.1)


def can_mount() -> bool:
    return os.path.exists("/dev/fuse") and (os.geteuid() == 0 or shutil.which("fusermount3") is not None)
