"""The state directory of a deployment, which only its owner can read.

deployment.json    what should run (deployment.py)
processes.json     the processes that were started: pid, start time and daemon of each
seen.json          the generation of the topology that this host saw last (shared_file)
lock               held by the supervisor and its keeper while either of them lives
control.sock       the supervisor's control API, if the path is short enough
settings/          one JSON file for each daemon
ready/             one file for each daemon, which the daemon writes when it is ready
logs/              one bounded log for each daemon, and one for the supervisor
data/              the data of brokers and ZooKeeper; only `down --purge` deletes it
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import re
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SOCKET_PATH_CHARS_MAX = 100
"""Unix socket paths have at most 104 (BSD) or 108 (Linux) bytes."""

LOCK_PATIENCE_S = 1.0
"""How long the lock is tried: `is_locked` of another process holds it for a moment."""

PART_SIGN = "@"
"""Between the names of a deployment and of its part. No name of a deployment has it."""

_RUN_ENTRIES = ("settings", "ready", "logs")
_DATA_ENTRY = "data"
_FILES = ("deployment.json", "processes.json", "seen.json", "lock", "control.sock")


def default_state_root() -> Path:
    """Return the directory that holds the default state directory of every deployment."""
    import platformdirs

    return Path(platformdirs.user_state_dir("heliograph", appauthor=False))


class StateDir:
    """The paths of one deployment's state directory, its lock, and its creation and deletion."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.deployment_file = self.path / "deployment.json"
        self.processes_file = self.path / "processes.json"
        self.seen_file = self.path / "seen.json"
        self.lock_file = self.path / "lock"
        self.settings_dir = self.path / "settings"
        self.ready_dir = self.path / "ready"
        self.logs_dir = self.path / "logs"
        self.data_dir = self.path / _DATA_ENTRY

    @classmethod
    def for_name(cls, name: str, part: str | None = None) -> StateDir:
        """Return the default state directory of a deployment, or of a part of it."""
        suffix = "" if part is None else PART_SIGN + re.sub(r"[^A-Za-z0-9._-]", "-", part)
        return cls(default_state_root() / f"{name}{suffix}")

    @property
    def socket_path(self) -> Path:
        """The control socket: in this directory, or at a short path made from a hash of it."""
        here = self.path / "control.sock"
        if len(os.fsencode(here)) <= SOCKET_PATH_CHARS_MAX:
            return here
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        runtime = Path(tempfile.gettempdir()) / f"heliograph-{os.getuid()}"
        return runtime / f"{digest}.sock"

    def log_file(self, key: str) -> Path:
        return self.logs_dir / f"{key}.log"

    def exists(self) -> bool:
        """Return whether a deployment was ever written here."""
        return self.deployment_file.exists()

    def create(self) -> None:
        """Create the directories. Raises OSError; PermissionError if another user owns the socket
        directory."""
        for directory in (self.path, self.settings_dir, self.ready_dir, self.logs_dir):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        runtime = self.socket_path.parent
        runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        if runtime.stat().st_uid != os.getuid():
            raise PermissionError(f"{runtime} belongs to another user")

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the supervisor's lock; yields False if another process holds it."""
        with open(self.lock_file, "a") as lock:
            deadline_s = time.monotonic() + LOCK_PATIENCE_S
            while not (held := _try_lock(lock)) and time.monotonic() < deadline_s:
                time.sleep(LOCK_PATIENCE_S / 20)
            yield held

    def is_locked(self) -> bool:
        """Return whether a supervisor or its keeper lives."""
        try:
            with open(self.lock_file, "a") as lock:
                return not _try_lock(lock)
        except FileNotFoundError:
            return False

    def purge(self) -> None:
        """Delete the deployment's files, and the directory if it is empty then."""
        self.socket_path.unlink(missing_ok=True)
        for entry in (*_RUN_ENTRIES, _DATA_ENTRY):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self.path / entry)
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # other files keep the directory
            self.path.rmdir()


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content in one step, also for concurrent readers and after a crash.

    Raises OSError; the file then keeps its old content.
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with open(temporary, "w") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
