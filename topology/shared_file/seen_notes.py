"""The note of a host on the generation that it saw last, in its state directory."""

from __future__ import annotations

from topology.deployment.state_dir import StateDir, write_atomically
from topology.problems import DeployError
from topology.shared_file.generations import NotAGeneration, Seen, decode_seen, encode_seen


def read_seen(state: StateDir) -> Seen:
    """Return what this host has seen: nothing without a note that can be read.

    An edit is then a conflict, unless the file is a generation that ZooKeeper knows. Raises
    DeployError.
    """
    try:
        return decode_seen(state.seen_file.read_text())
    except (FileNotFoundError, UnicodeDecodeError, NotAGeneration):
        return Seen()
    except OSError as error:
        raise DeployError(f"cannot read {state.seen_file}: {error}") from error


def write_seen(state: StateDir, seen: Seen) -> None:
    """Replace the note in one step. Raises DeployError."""
    try:
        state.create()
        write_atomically(state.seen_file, encode_seen(seen))
    except OSError as error:
        raise DeployError(f"cannot write {state.seen_file}: {error}") from error
