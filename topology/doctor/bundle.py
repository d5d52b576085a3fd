"""Packs what a supporter needs into one archive, without secrets."""

from __future__ import annotations

import io
import json
import tarfile
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from topology.deployment.deployment import Deployment, encode_deployment
from topology.deployment.state_dir import StateDir
from topology.doctor.redact import redact_document, redact_text

LOG_BYTES_MAX: Final = 1024 * 1024
"""The end of each log that is packed."""
FILE_BYTES_MAX: Final = 1024 * 1024
ROOT: Final = "heliograph-support"


def write_bundle(
    path: Path,
    deployment: Deployment,
    state: StateDir,
    documents: Mapping[str, Any],
    secrets: Collection[str],
) -> list[str]:
    """Write the archive, readable by its owner only, and return the names in it.

    `documents` are further plain values by file name. Raises OSError; then no file is left.
    """
    partial = path.with_name(f".{path.name}.partial")
    names = []
    try:
        partial.touch(mode=0o600)
        with tarfile.open(partial, "w:gz") as archive:
            for name, text in _texts(deployment, state, documents, secrets):
                content = text.encode()
                entry = tarfile.TarInfo(f"{ROOT}/{name}")
                entry.size, entry.mode = len(content), 0o600
                archive.addfile(entry, io.BytesIO(content))
                names.append(name)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    return names


def _texts(
    deployment: Deployment,
    state: StateDir,
    documents: Mapping[str, Any],
    secrets: Collection[str],
) -> Iterator[tuple[str, str]]:
    for name, document in documents.items():
        yield f"{name}.json", json.dumps(redact_document(document, secrets), indent=1)
    running = json.loads(encode_deployment(deployment))
    yield "deployment.json", json.dumps(redact_document(running, secrets), indent=1)
    file = _end_of(Path(deployment.topology_file), FILE_BYTES_MAX)
    if file is not None:
        yield "topology.yaml", redact_text(file, secrets)
    keys = [daemon.key for daemon in deployment.daemons]
    for key in ("supervisor", *keys):
        log = _end_of(state.log_file(key), LOG_BYTES_MAX)
        if log is not None:
            yield f"logs/{key}.log", redact_text(log, secrets)


def _end_of(path: Path, bytes_max: int) -> str | None:
    """Return the end of a file; None without one."""
    try:
        with path.open("rb") as file:
            size = file.seek(0, io.SEEK_END)
            file.seek(max(0, size - bytes_max))
            return file.read(bytes_max).decode(errors="replace")
    except OSError:
        return None
