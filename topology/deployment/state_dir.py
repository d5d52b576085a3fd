"""Where a deployment keeps what it knows: one directory, readable by its owner only.

deployment.json    what should run (deployment.py)
processes.json     what was started: pid, start time, digest, for each daemon
lock               held by the supervisor and its keeper for as long as either lives
control.sock       the supervisor's control API, if the path is short enough
settings/          one JSON file for each daemon
ready/             written by a daemon when it is ready
logs/              one bounded log for each daemon, and the supervisor's
data/              what brokers and ZooKeeper keep; deleted by `down --purge` only
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO

SOCKET_PATH_CHARS_MAX = 100
"""Unix socket paths end at 104 (BSD) or 108 (Linux) bytes."""

LOCK_PATIENCE_S = 1.0
"""How long a lock is tried for that somebody may only be asking about."""

_RUN_ENTRIES = ("settings", "ready", "logs")
_DATA_ENTRY = "data"
_FILES = ("deployment.json", "processes.json", "lock", "control.sock")


def default_state_root() -> Path:
    """The directory under which every deployment has its own, by name."""
    import platformdirs

    return Path(platformdirs.user_state_dir("heliograph", appauthor=False))


class StateDir:
    """Paths of one deployment's state directory, and how its files are written."""

    def __init__(self, path: Path) -> None:
        self.path = path.resolve()
        self.deployment_file = self.path / "deployment.json"
        self.processes_file = self.path / "processes.json"
        self.lock_file = self.path / "lock"
        self.settings_dir = self.path / "settings"
        self.ready_dir = self.path / "ready"
        self.logs_dir = self.path / "logs"
        self.data_dir = self.path / _DATA_ENTRY

    @classmethod
    def for_name(cls, name: str) -> StateDir:
        """The default state directory of a deployment."""
        return cls(default_state_root() / name)

    @property
    def socket_path(self) -> Path:
        """The control socket: here, or at a short path made from this one's hash."""
        here = self.path / "control.sock"
        if len(os.fsencode(here)) <= SOCKET_PATH_CHARS_MAX:
            return here
        digest = hashlib.sha256(os.fsencode(self.path)).hexdigest()[:16]
        runtime = Path(tempfile.gettempdir()) / f"heliograph-{os.getuid()}"
        return runtime / f"{digest}.sock"

    def log_file(self, key: str) -> Path:
        return self.logs_dir / f"{key}.log"

    def exists(self) -> bool:
        """Whether a deployment was ever written here."""
        return self.deployment_file.exists()

    def create(self) -> None:
        """Make the directories. Raises OSError, PermissionError for a foreign socket directory."""
        for directory in (self.path, self.settings_dir, self.ready_dir, self.logs_dir):
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        runtime = self.socket_path.parent
        runtime.mkdir(mode=0o700, parents=True, exist_ok=True)
        if runtime.stat().st_uid != os.getuid():
            raise PermissionError(f"{runtime} belongs to another user")

    @contextlib.contextmanager
    def locked(self) -> Iterator[bool]:
        """Hold the supervisor's lock; False where another process holds it."""
        with open(self.lock_file, "a") as lock:
            deadline_s = time.monotonic() + LOCK_PATIENCE_S
            # Whoever asks `is_locked` has it for a moment.
            while not (held := _try_lock(lock)) and time.monotonic() < deadline_s:
                time.sleep(LOCK_PATIENCE_S / 20)
            yield held

    def is_locked(self) -> bool:
        """Whether a supervisor lives."""
        try:
            with open(self.lock_file, "a") as lock:
                return not _try_lock(lock)
        except FileNotFoundError:
            return False

    def purge(self) -> None:
        """Delete what a deployment wrote here, and the directory if nothing else is in it."""
        self.socket_path.unlink(missing_ok=True)
        for entry in (*_RUN_ENTRIES, _DATA_ENTRY):
            with contextlib.suppress(FileNotFoundError):
                shutil.rmtree(self.path / entry)
        for name in _FILES:
            (self.path / name).unlink(missing_ok=True)
        with contextlib.suppress(OSError):  # somebody else's files keep the directory
            self.path.rmdir()


def _try_lock(lock: IO[str]) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def write_atomically(path: Path, text: str) -> None:
    """Replace a file's content as one step, for whoever reads it meanwhile and after a crash.
    Raises OSError, with the file as it was."""
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
