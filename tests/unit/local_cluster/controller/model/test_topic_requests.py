"""Legal topic names, and names that a request repeats."""

from __future__ import annotations

import pytest

from local_cluster.controller.model.topic_requests import repeated, topic_name_problem


@pytest.mark.parametrize("name", ["a", "A.b-c_9", "x" * 249])
def test_legal_names(name: str) -> None:
    assert topic_name_problem(name) is None


@pytest.mark.parametrize("name", ["", ".", "..", "x" * 250, "a b", "a/b", "\u00e4", "a\n"])
def test_illegal_names(name: str) -> None:
    assert topic_name_problem(name)


def test_repeated() -> None:
    assert repeated(["a", "b", "a", "c", "c", "a"]) == {"a", "c"}
