"""A topic that cannot be deleted and re-created is noticed, whatever else goes on."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import pytest

from local_cluster.wire.errors import ErrorCode, KafkaError
from tests.nemesis import cluster as cluster_module
from tests.nemesis.checkers.churn import Incarnation
from tests.nemesis.cluster import Cluster
from tests.nemesis.workloads import admin_churn
from tests.nemesis.workloads.admin_churn import AdminChurn


class Churn(AdminChurn):
    """Whose first lives work, and whose changes always do."""

    lives_max = 0

    async def _live(self) -> None:
        if len(self._lives) >= self.lives_max:
            raise KafkaError(ErrorCode.request_timed_out, "churn is not deleted")
        self._lives.append(Incarnation(len(self._lives), "id", [], []))

    async def _change(self) -> None:
        self.progress += 1


async def test_a_last_life_that_does_not_come_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def soon(condition: object, what: str) -> None:
        await cluster_module.until(condition, what, 0.2)  # type: ignore[arg-type]

    monkeypatch.setattr(admin_churn, "until", soon)
    churn = Churn(cast("Cluster", None), tmp_path, 0)
    await churn.start()
    with pytest.raises(TimeoutError, match="churn is deleted, re-created, written and read"):
        await churn.stop()


async def test_a_change_does_not_stand_for_a_life(tmp_path: Path) -> None:
    churn = Churn(cast("Cluster", None), tmp_path, 0)
    churn.lives_max = 1_000_000
    await churn.start()
    before = churn.gone_on
    churn.progress += 1
    assert list(churn.gone_on) == [before[0], before[1] + 1]
    await churn.stop()
    assert churn.gone_on[0] > before[0]
