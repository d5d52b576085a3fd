"""The JSON document of a backup. Pure.

A znode has a path and either `json` (the value, if its compact text is the znode's content), `text`
or `base64`. So the file is readable, and a restore writes the same bytes.

Left out is what a running cluster writes again: znodes of sessions (brokers, the controller), and
notifications of changes.

Two numbers are raised by a restore, because the cluster went on after the backup:

    leader epochs       else a leader would append with an epoch that its log has seen already
    producer id block   else a producer id would be given out twice
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from local_cluster.controller.model import znode_paths

FORMAT: Final = "heliograph-backup"
FORMAT_VERSION: Final = 1
LEADER_EPOCHS_SKIPPED: Final = 1_000_000
"""Leader elections of one partition that may have happened since the backup."""
PRODUCER_IDS_SKIPPED: Final = 1_000_000_000
"""Producer ids that may have been given out since the backup."""

NOTIFICATIONS: Final = (
    znode_paths.CONFIG_CHANGES,
    znode_paths.ISR_CHANGE_NOTIFICATION,
    znode_paths.LOG_DIR_EVENTS,
    znode_paths.ACL_CHANGES,
    znode_paths.PREFIXED_ACL_CHANGES,
)
OF_HOSTS: Final = ("/heliograph-topology", znode_paths.UPGRADE_PLAN)
"""Left out: `up` writes the topology again, and the hosts may have a newer one than the backup. An
upgrade that was under way then is no longer so."""
_STATE: Final = re.compile(rf"{re.escape(znode_paths.TOPICS)}/[^/]+/partitions/\d+/state")

Znodes = Mapping[str, bytes]
"""Content of each znode by its path below the chroot, parents first."""


class NotABackup(Exception):
    """The text is no backup, or one of another version."""


def is_kept(path: str) -> bool:
    """Return whether a znode belongs into a backup; znodes of sessions are left out before."""
    return path not in OF_HOSTS and not any(
        path.startswith(f"{parent}/") for parent in NOTIFICATIONS
    )


def backup_document(name: str, taken_at: str, clusters: Mapping[str, Znodes]) -> dict[str, Any]:
    """Return the document of a deployment's clusters, each with its znodes."""
    return {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "deployment": name,
        "taken_at": taken_at,
        "clusters": {
            cluster: [{"path": path, **_content(data)} for path, data in sorted(znodes.items())]
            for cluster, znodes in clusters.items()
        },
    }


def read_document(text: str | bytes) -> dict[str, Znodes]:
    """Return the znodes of each cluster. Raises NotABackup."""
    try:
        document = json.loads(text)
        if document["format"] != FORMAT or document["version"] != FORMAT_VERSION:
            raise NotABackup(f"expected {FORMAT} of version {FORMAT_VERSION}")
        return {
            cluster: {str(each["path"]): _bytes(each) for each in znodes}
            for cluster, znodes in document["clusters"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError, binascii.Error) as error:
        raise NotABackup(f"expected a file of `heliograph backup`: {error!r}") from error


def restored(znodes: Znodes) -> dict[str, bytes]:
    """Return the znodes as a restore writes them: epochs and producer ids are raised."""
    return {path: _raised(path, data) for path, data in znodes.items()}


def topics_of(paths: Iterable[str]) -> list[str]:
    """Return the topics among the paths of znodes."""
    prefix = f"{znode_paths.TOPICS}/"
    found = (path.removeprefix(prefix) for path in paths if path.startswith(prefix))
    return sorted(each for each in found if "/" not in each)


def _raised(path: str, data: bytes) -> bytes:
    if path == znode_paths.PRODUCER_ID_BLOCK and data:
        block = json.loads(data)
        # Kafka writes both numbers as text.
        for key in ("block_start", "block_end"):
            block[key] = str(int(block[key]) + PRODUCER_IDS_SKIPPED)
        return _compact(block)
    if _STATE.fullmatch(path):
        state = json.loads(data)
        state["leader_epoch"] = int(state["leader_epoch"]) + LEADER_EPOCHS_SKIPPED
        return _compact(state)
    return data


def _content(data: bytes) -> dict[str, Any]:
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}
    try:
        value = json.loads(text)
        if _compact(value) == data:
            return {"json": value}
    except (ValueError, RecursionError):
        pass
    return {"text": text}


def _bytes(entry: Mapping[str, Any]) -> bytes:
    if "json" in entry:
        return _compact(entry["json"])
    if "text" in entry:
        return str(entry["text"]).encode()
    return base64.b64decode(entry["base64"], validate=True)


def _compact(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
