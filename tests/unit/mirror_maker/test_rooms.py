"""The rooms of the mirror import one way, so that a reader can start at the bottom."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Final

MIRROR: Final = Path(__file__).parents[3] / "mirror_maker"
ROOMS: Final = (
    "formats", "rules", "clusters", "tail", "copy", "stores", "metrics", "resume", "flow", "audit",
    "completeness", "repair", "link", "group_sync", "topic_sync", "rights_sync", "worker",
)  # fmt: skip
"""A room imports from the rooms before it, and from modules beside the rooms."""


def rooms_imported(path: Path) -> set[str]:
    """Return the rooms that a module imports from."""
    rooms = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.ImportFrom) and node.module is not None:
            package, _, rest = node.module.partition(".")
            if package == "mirror_maker":
                rooms.add(rest.partition(".")[0])
    return rooms & set(ROOMS)


def test_every_room_is_in_the_order() -> None:
    assert {each.parent.name for each in MIRROR.glob("*/__init__.py")} == set(ROOMS)


def test_rooms_import_one_way() -> None:
    wrong = [
        f"{path.relative_to(MIRROR)} imports {room}"
        for index, name in enumerate(ROOMS)
        for path in sorted((MIRROR / name).glob("*.py"))
        for room in sorted(rooms_imported(path) - set(ROOMS[: index + 1]))
    ]
    assert wrong == []
