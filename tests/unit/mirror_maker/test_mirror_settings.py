"""Settings: strict, frozen, round trip."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from mirror_maker.settings import LinkSettings, MirrorSettings, dump_settings, load_settings
from mirror_maker.settings_reader import SettingsError

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
        ('"start": "earliest"', '"start": "soon"'),
        ('"source_bytes_per_second": 0', '"source_bytes_per_second": -1'),
        ('"username": null', '"username": "u"'),
    ],
)
def test_what_is_wrong_is_refused(tmp_path: Path, wrong: str, text: str) -> None:
    path = tmp_path / "settings.json"
    good = dump_settings(settings()).decode()
    assert wrong in good
    path.write_text(good.replace(wrong, text, 1))
    with pytest.raises(SettingsError):
        load_settings(path)


def test_contradictions_are_refused() -> None:
    with pytest.raises(ValueError, match="same name"):
        settings(links=(LINK, LINK))
    with pytest.raises(ValueError, match="into itself"):
        settings(target_alias="jfk")
    with pytest.raises(ValueError, match="heartbeats"):
        settings(session_timeout_ms=2_000, heartbeat_ms=1_000)


def test_a_worker_that_is_told_nonsense_says_what_it_is(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(dump_settings(settings()).replace(b'"jfk-nyc"', b"7", 1))
    command = [sys.executable, "-m", "mirror_maker", "--settings", str(path)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ended.returncode == 2
    assert ended.stderr == f"{path}: links[0].name: a text, not 7\n"


def test_a_worker_starts_without_pydantic() -> None:
    """To load it takes a third of the time until the first record."""
    program = "import sys, mirror_maker.__main__; print('pydantic' in sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, check=True)
    assert ended.stdout.strip() == b"False"
