"""The paths that a start creates."""

from __future__ import annotations

from local_cluster.controller.model import znode_paths


def test_parents_come_before_their_children() -> None:
    seen = {""}
    for path in znode_paths.PERSISTENT_PATHS:
        assert path.rsplit("/", 1)[0] in seen, path
        seen.add(path)
