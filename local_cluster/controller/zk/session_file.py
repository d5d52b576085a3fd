"""SHELL: the id and password of a ZooKeeper session, kept for the broker's next run to end it.

It lies in the broker's log directory with mode 0600; whoever reads it holds the lock of that
directory, so that the session's owner is known to be dead.
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
    """What ZooKeeper asks for of whoever goes on with a session."""

    id: int
    password: bytes


class SessionFile:
    """Of one log directory; without one nothing is kept."""

    def __init__(self, directory: Path | None) -> None:
        self._path = directory and directory / SESSION_FILE

    def read(self) -> Session | None:
        """The session that was kept last, None where there is none to be read."""
        if self._path is None:
            return None
        try:
            saved = json.loads(self._path.read_bytes())
            return Session(int(saved["session_id"]), bytes.fromhex(saved["password"]))
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError):
            log.warning("%s is unreadable and ignored", self._path)
            return None

    def write(self, session: Session) -> None:
        """Keep this one from now on."""
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
            # On a full disk the broker still serves reads; its next start waits for the session
            # to expire instead of ending it.
            log.warning("the session cannot be kept for the next start: %s", error)

    def remove(self) -> None:
        """The session is over."""
        if self._path is not None:
            # What stays on a disk that failed names a session that is over by now.
            with contextlib.suppress(OSError):
                self._path.unlink(missing_ok=True)
