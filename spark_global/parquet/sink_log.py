"""The log of Spark's file sink: which files a table has.

    _spark_metadata/8          the files of batch 8
    _spark_metadata/9.compact  the files of all batches up to 9
    _spark_metadata/10         the files of batch 10

A table has the files of its newest `.compact` and of the batches after it. Each is the line `v1`,
then a JSON object per file (Spark's FileStreamSinkLog and CompactibleFileStreamLog).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote, urlsplit

LOG_FOLDER: Final = "_spark_metadata"
VERSION: Final = "v1"
_NAME: Final = re.compile(r"(\d+)(\.compact)?")
_ADDED: Final = "add"


class SinkLogError(ValueError):
    """The log is not one that Spark's file sink writes; the text says why."""


class LoggedFile(NamedTuple):
    """A file that the log names."""

    path: str
    """Absolute path on this machine."""
    size_bytes: int
    entry: Mapping[str, Any]
    """As the log has it."""


class LogNames(NamedTuple):
    """The files of a log that say what the table has."""

    compact: str | None
    """The newest `.compact`; None if there were fewer batches."""
    batches: tuple[str, ...]
    """Those after it, oldest first."""


def current_names(names: Iterable[str]) -> LogNames:
    """Return which files of a log count, from the names in its folder."""
    compacts: set[int] = set()
    batches: set[int] = set()
    for name in names:
        found = _NAME.fullmatch(name)
        if found is not None:
            (compacts if found[2] else batches).add(int(found[1]))
    newest = max(compacts, default=-1)
    later = tuple(str(number) for number in sorted(batches) if number > newest)
    return LogNames(f"{newest}.compact" if compacts else None, later)


def read_log(text: str) -> list[LoggedFile]:
    """Return the files that one file of the log names. Raises SinkLogError."""
    version, _, rest = text.partition("\n")
    if version != VERSION:
        raise SinkLogError(f"begins with {version[:20]!r}, not with {VERSION!r}")
    return [_logged(line) for line in rest.splitlines() if line]


def _logged(line: str) -> LoggedFile:
    try:
        entry = json.loads(line)
        uri, size, action = str(entry["path"]), int(entry["size"]), entry["action"]
    except (ValueError, KeyError, TypeError) as error:
        raise SinkLogError(f"has {line[:80]!r}, which is no entry of a file") from error
    parts = urlsplit(uri)
    if action != _ADDED or entry.get("isDir") or parts.scheme not in ("", "file"):
        raise SinkLogError(f"has an entry that is no file of this machine: {line[:200]}")
    return LoggedFile(unquote(parts.path), size, entry)


def log_text(files: Sequence[LoggedFile]) -> str:
    """Return the content of a file of the log."""
    lines = [json.dumps(each.entry, separators=(",", ":")) for each in files]
    return "\n".join([VERSION, *lines])


def new_file(like: LoggedFile, path: Path, size_bytes: int, modified_ms: int) -> LoggedFile:
    """Return a file that takes the place of others, with the block size of one of them."""
    changed = {
        "path": f"file://{quote(str(path), safe='/=')}",
        "size": size_bytes,
        "modificationTime": modified_ms,
    }
    return LoggedFile(str(path), size_bytes, {**like.entry, **changed})


def with_replaced(
    files: Sequence[LoggedFile], replaced: Iterable[tuple[Iterable[str], LoggedFile]]
) -> list[LoggedFile]:
    """Return the files with some in the place of others, by their paths.

    A group of which the log does not name every file stays as it is.
    """
    named = {each.path for each in files}
    gone: set[str] = set()
    added: list[LoggedFile] = []
    for old, new in replaced:
        paths = set(old)
        if paths <= named and new.path not in named:
            gone |= paths
            added.append(new)
    return [each for each in files if each.path not in gone] + added
