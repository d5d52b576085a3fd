"""The side-by-side benches run from end to end with tiny sizes."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.kafka_from_maven import broker_jars

pytestmark = [pytest.mark.real, pytest.mark.oracle]

RUN_SECONDS_MAX = 270.0
ROWS = (
    "start,java-produce-256k-lz4,java-consume,raw-single-8,transactions-1,raw-metadata,commits,"
    "cold-cold"
)


@pytest.mark.long
def test_rows_of_each_kind_are_measured_on_both_sides(tmp_path: Path) -> None:
    broker_jars()  # skips where they cannot be had
    found = tmp_path / "bench.json"
    command = [sys.executable, "-m", "tests.bench.bench_broker", "--quick", "--rows", ROWS]
    done = subprocess.run(
        [*command, "--json", str(found), "--directory", str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=RUN_SECONDS_MAX,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    report = json.loads(found.read_text())
    measured = {(line["row"], side) for line in report["lines"] for side in line["values"]}
    for row in ROWS.split(","):
        assert {(row, "kafka"), (row, "ours")} <= measured
    assert report["settings"]["Kafka"].startswith("4.4.0")
    assert "| ConsumerPerformance, warm" in done.stdout
    counted = [line for line in report["lines"] if not line["figure"].endswith("_ms")]
    assert all(value > 0 for line in counted for value in line["values"].values())


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_bench_of_the_mirror_measures_every_side(tmp_path: Path) -> None:
    broker_jars()
    found = tmp_path / "mirror.json"
    command = [sys.executable, "-m", "tests.bench.bench_mirror", "--quick", "--rows"]
    done = subprocess.run(
        [*command, "start,near-single,tls-far-16k,discovery", "--json", str(found)],
        capture_output=True,
        text=True,
        timeout=800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    samples = json.loads(found.read_text())["samples"]
    measured = {(sample["row"], sample["side"]) for sample in samples}
    for side in ("mm2", "mm2 tuned", "ours", "ours on ours"):
        assert {("start", side), ("near-single", side)} <= measured
        assert (("tls-far-16k", side) in measured) == (side != "ours on ours")
    assert all(value > 0 for sample in samples for value in sample["figures"].values())
