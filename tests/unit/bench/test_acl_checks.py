"""The bench of ACL checks tries what it says: rights of alice among those of others."""

from __future__ import annotations

from tests.bench.bench_acl_checks import image_of, measure


def test_the_rights_of_the_bench() -> None:
    image = image_of(3, 5)
    assert len(image) == 8
    assert len([acl for acl in image if acl.principal == "User:alice"]) == 3


def test_both_checks_are_measured() -> None:
    warm, first = measure(2, 1)
    assert 0 < warm < float("inf")
    assert 0 < first < float("inf")
