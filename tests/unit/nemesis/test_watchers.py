"""A watcher that ended before it was told to is noticed: it saw nothing since."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any, cast

import pytest

from tests.nemesis.cluster import Cluster
from tests.nemesis.workloads import etl, mirror, retention
from tests.nemesis.workloads.workload import Workload, end_watcher

WATCHERS = [
    (etl.Etl, "_watching"),
    (retention.Retention, "_watching"),
    (mirror.Mirror, "_following"),
]


async def broken() -> None:
    raise IndexError("an answer without topics")


async def nothing(*_: object) -> None:
    pass


class Ended:
    """A client that has ended well."""

    async def end(self) -> None:
        pass

    async def finish(self) -> None:
        pass


@pytest.mark.parametrize(("kind", "watcher"), WATCHERS)
async def test_stop_tells_what_ended_the_watcher(
    kind: type[Workload], watcher: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (etl, mirror, retention):
        monkeypatch.setattr(module, "end_all", nothing)
    monkeypatch.setattr(retention, "until", nothing)
    monkeypatch.setattr(etl.Etl, "_until_copied", nothing)
    workload: Any = kind(cast("Cluster", None), tmp_path, 0)
    for name in ("_source", "_zombies", "_producer", "_transactions", "_reader"):
        setattr(workload, name, Ended())
    workload._producers = {}
    task = asyncio.create_task(broken())
    setattr(workload, watcher, task)
    await asyncio.wait([task])
    with pytest.raises(IndexError, match="an answer without topics"):
        await workload.stop()


async def test_one_that_watches_to_the_end_is_cancelled() -> None:
    task = asyncio.create_task(asyncio.Event().wait())
    await asyncio.sleep(0)
    await end_watcher(cast("asyncio.Task[None]", task))
    assert task.cancelled()
