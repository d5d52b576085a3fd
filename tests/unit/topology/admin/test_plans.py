"""Pure parts of the commands: changes and their states, config rows, elections."""

from __future__ import annotations

import pytest

from local_cluster.client.model import (
    ConfigChange,
    ConfigEntry,
    PartitionMetadata,
    TopicMetadata,
    TopicPartition,
)
from local_cluster.wire.constants import AlterOperation, ConfigResourceType, ConfigSource
from local_cluster.wire.errors import ErrorCode, KafkaError
from topology.admin.broker_reading import elections
from topology.admin.changes import Change, change_lines, changes_document, has_refusals
from topology.admin.config_rows import HIDDEN, config_changes, config_rows, shown_value
from topology.admin.output import cell

CHANGES = [
    Change(action="create", kind="topic", name="a", detail="2 partitions"),
    Change(action="create", kind="topic", name="b"),
]


def test_planned_changes() -> None:
    document = changes_document(CHANGES, None)
    assert change_lines(document) == [
        "planned: create topic a: 2 partitions",
        "planned: create topic b",
    ]
    assert (document["dry_run"], has_refusals(document)) == (True, False)
    assert change_lines(changes_document([], None)) == ["nothing to change"]


def test_refused_changes_have_the_code_and_the_reason() -> None:
    error = KafkaError(ErrorCode.topic_already_exists, "it is there")
    document = changes_document(CHANGES, [None, error])
    assert change_lines(document) == [
        "done: create topic a: 2 partitions",
        "refused: create topic b: TOPIC_ALREADY_EXISTS: it is there",
    ]
    assert has_refusals(document)


def test_cells_tell_unknown_from_zero() -> None:
    values = [None, 0, [], [1, 2], True, False, 1.25, "x"]
    assert list(map(cell, values)) == ["-", "0", "-", "1,2", "yes", "no", "1.2", "x"]


ENTRIES = [
    ConfigEntry("own", "1", ConfigSource.DYNAMIC_BROKER, False, False, "says"),
    ConfigEntry("everywhere", "2", ConfigSource.DYNAMIC_DEFAULT_BROKER, False, False, None),
    ConfigEntry("file", "3", ConfigSource.STATIC_BROKER, False, True, None),
    ConfigEntry("ssl.key.password", "hunter2", ConfigSource.DYNAMIC_BROKER, False, False, None),
    ConfigEntry("odd", "hunter2", ConfigSource.DYNAMIC_BROKER, True, False, None),
]


def rows(name: str, **options: bool) -> dict[str, object]:
    found = config_rows(
        ENTRIES,
        ConfigResourceType.BROKER,
        name,
        with_defaults=options.get("everything", False),
        with_documentation=False,
    )
    return {each["name"]: each["value"] for each in found}


def test_only_the_configs_of_the_resource_itself_are_shown() -> None:
    assert rows("1") == {"own": "1", "ssl.key.password": HIDDEN, "odd": HIDDEN}
    assert rows("") == {"everywhere": "2"}
    assert len(rows("1", everything=True)) == len(ENTRIES)


def test_values_of_secrets_are_hidden_in_plans() -> None:
    assert shown_value("listener.name.x.plain.sasl.jaas.config", "hunter2") == HIDDEN
    assert shown_value("retention.ms", "1") == "1"
    assert shown_value("ssl.key.password", None) == ""


def test_config_changes() -> None:
    assert config_changes(["a=1"], ["b"], ["c=x"], ["d=y"]) == [
        ConfigChange("a", AlterOperation.SET, "1"),
        ConfigChange("c", AlterOperation.APPEND, "x"),
        ConfigChange("d", AlterOperation.SUBTRACT, "y"),
        ConfigChange("b", AlterOperation.DELETE),
    ]
    with pytest.raises(ValueError, match="'a' is changed in two ways"):
        config_changes(["a=1"], ["a"], [], [])
    with pytest.raises(ValueError, match="nothing to change"):
        config_changes([], [], [], [])


def topic(**parts: tuple[int, tuple[int, ...], tuple[int, ...]]) -> TopicMetadata:
    partitions = {
        int(name[1:]): PartitionMetadata(int(name[1:]), leader, 1, replicas, isr, ErrorCode.none)
        for name, (leader, replicas, isr) in parts.items()
    }
    return TopicMetadata("t", None, ErrorCode.none, False, partitions)


def test_elections() -> None:
    found = topic(
        p0=(1, (1, 2), (1, 2)),  # the preferred leader leads
        p1=(2, (1, 2), (1, 2)),  # it could lead
        p2=(2, (1, 2), (2,)),  # it is out of sync
        p3=(-1, (1, 2), ()),  # nobody leads
    )
    assert elections([found], None, unclean=False) == [(TopicPartition("t", 1), 2, 1)]
    assert elections([found], {TopicPartition("t", 0)}, unclean=False) == []
    assert elections([found], None, unclean=True) == [(TopicPartition("t", 3), None, None)]
