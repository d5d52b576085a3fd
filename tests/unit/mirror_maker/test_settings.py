"""Settings: strict, frozen, round trip."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from mirror_maker.settings import LinkSettings, MirrorSettings, dump_settings, load_settings

LINK = LinkSettings(name="jfk-nyc", source_alias="jfk", source_bootstrap="127.0.0.1:1")


def settings(**changes: object) -> MirrorSettings:
    fields: dict[str, object] = {
        "worker_id": "w",
        "target_alias": "nyc",
        "target_bootstrap": "127.0.0.1:2",
        "links": (LINK,),
        "ready_file": "ready",
    }
    return MirrorSettings(**{**fields, **changes})  # type: ignore[arg-type]


def test_round_trip(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(dump_settings(settings()))
    assert load_settings(path) == settings()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ('"links": [', '"linkz": ['),
        ('"map_flush_ms": 500', '"map_flush_ms": 0'),
        ('"map_flush_ms": 500', '"map_flush": 500'),
        ('".*"', '"*"'),
        ('"name": "jfk-nyc"', '"name": "jfk nyc"'),
        ('"on_unmapped_target": "fail"', '"on_unmapped_target": "hope"'),
    ],
)
def test_wrong_settings_are_refused(tmp_path: Path, wrong: str, text: str) -> None:
    path = tmp_path / "settings.json"
    good = dump_settings(settings()).decode()
    assert wrong in good
    path.write_text(good.replace(wrong, text, 1))
    with pytest.raises(ValidationError):
        load_settings(path)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        settings(links=(LINK, LINK))
    with pytest.raises(ValueError, match="into itself"):
        settings(target_alias="jfk")
    with pytest.raises(ValueError, match="heartbeats"):
        settings(session_timeout_ms=2_000, heartbeat_ms=1_000)
