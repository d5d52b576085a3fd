"""A Java client of Kafka 4.4 sees the same of Kafka and of ours (`make java-scenarios`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.compat.java44 import comparing
from tests.compat.java44.running import both_brokers, play

# Two brokers and two JVMs; scenarios wait for each other on a busy machine.
pytestmark = [pytest.mark.real, pytest.mark.oracle, pytest.mark.timeout(1_200)]


@pytest.mark.parametrize("which", ["quick", pytest.param("all", marks=pytest.mark.long)])
async def test_a_java_client_sees_no_difference(which: str, zookeeper: str, tmp_path: Path) -> None:
    async with both_brokers(zookeeper, tmp_path) as (kafka, ours):
        theirs, our = await play(kafka, which), await play(ours, which)
    found = comparing.differences(theirs, our)
    print(comparing.table(found))
    unexpected = [str(each) for each in found if each.reason is None]
    assert not unexpected, "\n".join(unexpected)
    assert comparing.outdated(found, theirs) == []
