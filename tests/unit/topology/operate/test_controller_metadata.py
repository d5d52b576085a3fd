"""Metadata of the controller, and clusters without a controller."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Self

import pytest

from local_cluster.client.auth.security import PLAINTEXT
from local_cluster.client.model import ClusterMetadata
from topology.operate import controller_metadata
from topology.operate.controller_metadata import read_from_controller


class Client:
    """A client whose responses name these controllers, one after the other."""

    def __init__(self, *told: int) -> None:
        self.told = list(told)
        self.asked: list[int | None] = []

    def __call__(self, bootstrap: str, **options: Any) -> Self:
        return self

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        return None

    async def metadata(
        self, topics: Sequence[str] | None = None, *, node_id: int | None = None
    ) -> ClusterMetadata:
        self.asked.append(node_id)
        return ClusterMetadata("c", self.told.pop(0), {}, {})


@pytest.mark.parametrize(
    ("told", "asked", "known"),
    [
        ((2, 2), [None, 2], True),
        ((2, 3), [None, 2], False),
        ((-1,), [None], False),
    ],
    ids=["it answers", "it has moved", "there is none"],
)
async def test_only_who_is_controller_is_asked(
    monkeypatch: pytest.MonkeyPatch, told: tuple[int, ...], asked: list[int | None], known: bool
) -> None:
    client = Client(*told)
    monkeypatch.setattr(controller_metadata, "KafkaClient", client)
    found = await read_from_controller("h:1", PLAINTEXT, client_id="test", timeout_s=60.0)
    assert client.asked == asked
    assert (found is not None) is known
