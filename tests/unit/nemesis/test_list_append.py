"""Planted anomalies of transactions are noticed; what Kafka allows is only counted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest

from tests.nemesis.checkers.graph import Edge, components, cycle
from tests.nemesis.checkers.list_append import End, Transaction, check_list_append

Lists = Mapping[str, Sequence[int]]


def committed(appends: Lists | None = None, reads: Lists | None = None) -> Transaction:
    return Transaction(End.COMMITTED, appends or {}, reads or {})


def aborted(appends: Lists) -> Transaction:
    return Transaction(End.ABORTED, appends)


def unknown(appends: Lists) -> Transaction:
    return Transaction(End.UNKNOWN, appends)


def test_a_serial_history_is_good() -> None:
    history = [
        committed({"x": [1, 2], "y": [3]}),
        committed({"x": [4]}, {"x": [1, 2], "y": [3]}),
        aborted({"y": [5]}),
        unknown({"x": [6], "y": [7]}),
        unknown({"y": [8]}),
        committed(reads={"x": [1, 2, 4, 6], "y": [3, 7]}),
    ]
    findings = check_list_append(history, {"x": [1, 2, 4, 6], "y": [3, 7]})
    assert not findings.anomalies
    assert not findings.allowed
    assert findings.checked == {"committed": 3, "aborted": 1, "unknown": 2, "reads": 4}


@pytest.mark.parametrize(
    ("kind", "history", "final"),
    [
        ("G1a", [aborted({"x": [1]}), committed(reads={"x": [1]})], {}),
        ("G1a", [aborted({"x": [1]})], {"x": [1]}),
        ("G1b", [committed({"x": [1, 2]}), committed(reads={"x": [1]})], {"x": [1, 2]}),
        ("duplicate-append", [committed({"x": [1]})], {"x": [1, 1]}),
        ("phantom", [committed({"x": [1]})], {"x": [1, 9]}),
        ("phantom", [committed({"x": [1]})], {"x": [1], "y": [1]}),
        ("lost-append", [committed({"x": [1]})], {"x": []}),
        ("torn", [unknown({"x": [1], "y": [2]})], {"x": [1], "y": []}),
        ("incompatible-order", [committed({"x": [1, 2]})], {"x": [2, 1]}),
        (
            "incompatible-order",
            [committed({"x": [1]}), committed({"x": [2]}), committed(reads={"x": [2]})],
            {"x": [1, 2]},
        ),
        (
            "G1c",
            [committed({"x": [1]}, {"y": [2]}), committed({"y": [2]}, {"x": [1]})],
            {"x": [1], "y": [2]},
        ),
    ],
)
def test_a_planted_anomaly_is_noticed(
    kind: str, history: Sequence[Transaction], final: Lists
) -> None:
    assert kind in check_list_append(history, final).anomalies


@pytest.mark.parametrize(
    ("kind", "history", "final"),
    [
        (
            "G0",
            [committed({"x": [1], "y": [4]}), committed({"x": [2], "y": [3]})],
            {"x": [1, 2], "y": [3, 4]},
        ),
        (
            "G1c with ww",
            [committed({"x": [1]}, {"y": [3]}), committed({"x": [2], "y": [3]})],
            {"x": [1, 2], "y": [3]},
        ),
        (
            "G-single",
            [committed({"x": [1], "y": [2]}), committed(reads={"x": [1], "y": []})],
            {"x": [1], "y": [2]},
        ),
    ],
)
def test_what_kafka_allows_is_counted(
    kind: str, history: Sequence[Transaction], final: Lists
) -> None:
    findings = check_list_append(history, final)
    assert not findings.anomalies
    assert findings.allowed[kind] == 1


def edges(*pairs: tuple[int, int]) -> list[Edge]:
    return [Edge(tail, head, "e", "k") for tail, head in pairs]


def test_components_and_cycles() -> None:
    graph = edges((0, 1), (1, 2), (2, 0), (2, 3), (3, 4), (4, 3), (5, 0))
    assert sorted(map(sorted, components(graph))) == [[0, 1, 2], [3, 4]]
    found = cycle(graph, lambda edge: edge.tail == 1)
    assert found is not None
    assert [edge.tail for edge in found] == [1, 2, 0]
    assert cycle(edges((0, 1), (1, 2)), lambda edge: True) is None


def test_a_long_chain_has_no_component() -> None:
    chain = edges(*((n, n + 1) for n in range(10_000)))
    assert components(chain) == []
    assert components([*chain, *edges((10_000, 0))]) == [set(range(10_001))]
