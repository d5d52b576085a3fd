"""The end of a lane's positions is found, whatever a leader that was just elected says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import cast

import pytest
from confluent_kafka import Consumer, KafkaError, TopicPartition

from local_cluster.client.auth.security import ClientSecurity, KerberosLogin, SecurityError
from spark_global.addresses import ClusterAddress
from spark_global.serving import clients
from spark_global.serving.clients import last_position, librdkafka_config
from spark_global.serving.positions import Batch, LanePosition, Tally

EOF = KafkaError(KafkaError._PARTITION_EOF)


@dataclass
class Answer:
    at: int
    text: bytes | None = None

    def error(self) -> KafkaError | None:
        return EOF if self.text is None else None

    def value(self) -> bytes | None:
        return self.text

    def offset(self) -> int:
        return self.at


class ScriptedConsumer:
    """Answers of a partition that ends at offset 6."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers

    def get_watermark_offsets(self, at: TopicPartition, timeout: float) -> tuple[int, int]:
        return 0, 6

    def assign(self, partitions: list[TopicPartition]) -> None:
        assert [each.offset for each in partitions] == [0]

    def poll(self, timeout: float) -> Answer | None:
        return self.answers.pop(0)

    def close(self) -> None:
        assert not self.answers


def position(number: int) -> LanePosition:
    return LanePosition(Batch("q", number, 1), Tally(1, 1))


def test_a_leader_that_does_not_know_the_end_yet_does_not_hide_the_last_position(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Each position has a marker behind it, so the end is one past the last marker."""
    before = [Answer(0, position(1).encode()), Answer(2, position(2).encode()), Answer(4)]
    after = [Answer(4, position(3).encode()), Answer(6)]
    scripted = ScriptedConsumer([*before, *after])
    monkeypatch.setattr(clients, "Consumer", lambda config: cast(Consumer, scripted))
    assert last_position(ClusterAddress("nyc:9092"), "positions", 0) == position(3)


def test_a_cluster_of_tickets_is_refused() -> None:
    """librdkafka's wheel has no GSSAPI."""
    kerberos = KerberosLogin(principal="alice", keytab_file="/k")
    security = ClientSecurity(protocol="SASL_SSL", mechanism="GSSAPI", kerberos=kerberos)
    with pytest.raises(SecurityError, match="another mechanism"):
        librdkafka_config(ClusterAddress("a:1", security))
