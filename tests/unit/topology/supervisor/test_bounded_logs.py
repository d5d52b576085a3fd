"""Logs stay within their bound while a daemon appends."""

from __future__ import annotations

from pathlib import Path

from topology.supervisor.bounded_logs import bound_logs, last_lines


def test_a_log_past_its_bound_is_cut_and_its_end_kept(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    with open(log, "ab", buffering=0) as daemon:
        daemon.write(b"old " * 100)
        daemon.write(b"the end\n")
        bound_logs(tmp_path, bytes_max=64)
        daemon.write(b"new\n")
    assert log.read_bytes() == b"new\n"
    kept = (tmp_path / "broker.log.1").read_bytes()
    assert len(kept) == 64
    assert kept.endswith(b"the end\n")


def test_a_small_log_is_left_alone(tmp_path: Path) -> None:
    log = tmp_path / "broker.log"
    log.write_bytes(b"x" * 64)
    bound_logs(tmp_path, bytes_max=64)
    assert log.read_bytes() == b"x" * 64
    assert [path.name for path in tmp_path.iterdir()] == ["broker.log"]


def test_a_log_that_cannot_be_cut_stops_nothing(tmp_path: Path) -> None:
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_bytes(b"x" * 65)
    (tmp_path / "b.log.1").mkdir()  # where its end should be kept
    bound_logs(tmp_path, bytes_max=64)
    sizes = {name: (tmp_path / name).stat().st_size for name in ("a.log", "b.log", "c.log")}
    assert sizes == {"a.log": 0, "b.log": 65, "c.log": 0}


def test_last_lines(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_bytes(b"\xff1\n2\n3\n")
    assert last_lines(log, 2) == ["2", "3"]
    assert last_lines(tmp_path / "none.log", 2) == []
