"""Mirror workers of an older version, beside those of today."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from mirror_maker.settings import MirrorSettings, dump_settings
from tests.support.cluster import PRESENT_CODE
from tests.support.mirror_process import MirrorProcess, mirror
from tests.support.older_code import OlderCode

OLDER_MIRROR: Final = OlderCode(
    "7d41bdd05014da838dd80583586f410a2dc19349", ("mirror_maker", "local_cluster")
)
"""The last commit before the journal got entries of other kinds than gaps, and links got receipts
and verdicts."""
_NEWER: Final = ("http_security", "log_format")
_NEWER_LIMITS: Final = ("audit_cpu_share", "completeness_ms")
_NEWER_LINK: Final = (
    "probe",
    "completeness_retention_ms",
    "sync_group_acls",
    "sync_transactional_id_acls",
    "sync_quotas",
    "quota_users",
    "quota_client_ids",
    "quota_ips",
    "quota_defaults",
    "sync_users",
    "users",
    "users_exclude",
)
_NEWER_POLICIES: Final = ("foreign",)


def older_settings(settings: MirrorSettings) -> bytes:
    """As the older version reads them; it refuses names that it does not know."""
    document: dict[str, Any] = json.loads(dump_settings(settings))
    for name in _NEWER:
        document.pop(name)
    for name in _NEWER_LIMITS:
        document["limits"].pop(name)
    for name in ("oauth", "kerberos"):
        document["target_security"].pop(name)
    for link in document["links"]:
        for name in ("oauth", "kerberos"):
            link["source_security"].pop(name)
        for name in _NEWER_LINK:
            link.pop(name)
        for name in _NEWER_POLICIES:
            link["on"].pop(name)
    return json.dumps(document).encode()


def make_older(worker: MirrorProcess, code: Path) -> None:
    """Its next start runs the older version, which was unpacked there."""
    worker.code, worker.dump = code, older_settings


def make_present(worker: MirrorProcess) -> None:
    """Its next start runs today's version."""
    worker.code, worker.dump = PRESENT_CODE, dump_settings


@asynccontextmanager
async def older_mirror(
    code: Path, directory: Path, source: str, target: str, **options: Any
) -> AsyncIterator[MirrorProcess]:
    """As `mirror`, with the version that was unpacked in `code`."""
    async with mirror(directory, source, target, is_started=False, **options) as worker:
        make_older(worker, code)
        await worker.start()
        yield worker
