"""Copies the checkpoint of a query, with its positions translated. Shell.

The checkpoint of the query itself is not changed. The copy has everything, state and commits too;
of `offsets` it has the last two batches, which are all that Spark reads.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from spark_global.streaming.positions import COMPLETE, CheckpointError, StreamPositions

_LOG_VERSION: Final = "v1"
_LINES: Final = 3
"""Version, metadata of the batch, and the positions of one source."""


def copy_checkpoint(
    old: Path, new: Path, translate: Callable[[StreamPositions], StreamPositions]
) -> list[int]:
    """Copy a checkpoint; return the batches whose positions were translated.

    `translate` gets the positions of one batch and raises CheckpointError. Nothing is left behind
    then. Raises CheckpointError, also for a checkpoint of another kind of query, and OSError.
    """
    if new.exists():
        raise CheckpointError(f"{new} exists already; name a new directory")
    if not (old / "offsets").is_dir():
        raise CheckpointError(f"{old} is no checkpoint: it has no directory offsets")
    batches = sorted(_batches(old / "offsets"))
    if not batches:
        raise CheckpointError(f"{old} has no batch yet; start a new query instead")
    last = batches[-1]
    texts: dict[int, str] = {}
    for batch in batches[-2:]:
        try:
            texts[batch] = _translated(old / "offsets" / str(batch), translate)
        except CheckpointError:
            # Spark needs the batch before the last one only if the last one must run again.
            if batch == last or last not in _batches(old / "commits"):
                raise
    if len(batches) > 1:
        texts.setdefault(last - 1, texts[last])
    unfinished = new.with_name(new.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    shutil.copytree(old, unfinished, ignore=_all_of(old / "offsets"))
    offsets = unfinished / "offsets"
    offsets.mkdir(exist_ok=True)
    for batch, text in texts.items():
        (offsets / str(batch)).write_text(text)
    unfinished.rename(new)
    return sorted(texts)


def _batches(folder: Path) -> set[int]:
    return {int(each.name) for each in folder.glob("[0-9]*") if each.name.isdigit()}


def read_positions(file: Path) -> StreamPositions:
    """Read the positions of one batch, a file of `offsets`. Raises CheckpointError and OSError."""
    return StreamPositions.decode(_read(file)[1])


def _read(file: Path) -> tuple[list[str], dict[str, Any]]:
    """Return the lines before the positions, and the positions."""
    lines = file.read_text().splitlines()
    if len(lines) != _LINES or lines[0] != _LOG_VERSION:
        raise CheckpointError(
            f"{file}: expected version {_LOG_VERSION} and the positions of one source, found "
            f"{len(lines)} lines of version {lines[0] if lines else 'none'}"
        )
    document: Any = json.loads(lines[2])
    if not isinstance(document, dict):
        raise CheckpointError(f"{file}: the source is not of format heliograph")
    return lines[:2], document


def _translated(file: Path, translate: Callable[[StreamPositions], StreamPositions]) -> str:
    before, document = _read(file)
    moved = translate(StreamPositions.decode(document)).encode()
    # It is about records of the sources, and the same ones lie below the positions there.
    carried = {name: document[name] for name in (COMPLETE,) if name in document}
    return "\n".join([*before, json.dumps(moved | carried)])


def _all_of(folder: Path) -> Callable[[str, list[str]], list[str]]:
    """Return what `copytree` calls to leave out everything in one folder."""
    return lambda at, names: names if Path(at) == folder else []
