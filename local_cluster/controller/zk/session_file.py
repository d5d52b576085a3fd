"""SHELL: the id and password of a ZooKeeper session, which the next start of the broker ends.

The file is in the broker's log directory, with mode 0600. Its reader holds the lock of that
directory, so the owner of the session is dead.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
from pathlib import Path
from typing import Final, NamedTuple

SESSION_FILE: Final = "zookeeper-session.json"

log = logging.getLogger(__name__)


class Session(NamedTuple):
    """The credentials with which a client resumes a session."""

    id: int
    password: bytes


class SessionFile:
    """The session file of one log directory; without a directory nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory and directory / SESSION_FILE

    def read(self) -> Session | None:
        """Return the session that was kept last, None if there is no readable one."""
        if self._path is None:
            return None
        try:
            saved = json.loads(self._path.read_bytes())
            return Session(int(saved["session_id"]), bytes.fromhex(saved["password"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("ignoring %s: it is unreadable", self._path)
            return None

    def write(self, session: Session) -> None:
        """Replace the kept session."""
        if self._path is None:
            return
        content = {"version": 1, "session_id": session.id, "password": session.password.hex()}
        temporary = self._path.with_suffix(".tmp")
        try:
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
            with os.fdopen(descriptor, "w") as file:
                file.write(json.dumps(content))
            temporary.replace(self._path)
        except OSError as error:
            # On a full disk the broker still serves reads. Its next start then waits until the
            # session expires, instead of ending it.
            log.warning("cannot write the ZooKeeper session for the next start: %s", error)

    def remove(self) -> None:
        """Delete the file: the session is over."""
        if self._path is not None:
            # A file that stays on a failed disk names a session that is over.
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
